"""Bulk reads: MultiRead if the server supports it, else a pipeline of single reads.

MultiRead (opcode 22, ZooKeeper 3.6 and later) answers hundreds of reads in one reply, at a fortieth of the cost. kazoo
has no method for it, but its queue accepts any request. Results are returned as an iterator in the order of the paths,
so that a caller that decodes them at once never holds all bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple

from kazoo.exceptions import EXCEPTIONS, KazooException, NoAuthError, NoNodeError, UnimplementedError
from kazoo.protocol.serialization import Sync

from topiarist.adapters.zookeeper.connection.session import (
    MAX_DISCONNECTS,
    ConnectionInterrupted,
    PendingReply,
    Request,
    Session,
)

MAX_BATCH_READS = 250
"""Maximum number of reads in one request: larger batches slow down other clients of the same ZooKeeper."""

INITIAL_BATCH_READS = 40
"""Reads in each first request, while the size of a reply is unknown (a thousand partitions: 25 kB)."""

MAX_REPLY_BYTES = 1_000_000
"""Target for the maximum size of a reply, in bytes."""

MAX_MULTIREADS_IN_FLIGHT = 8
MAX_SINGLE_READS_IN_FLIGHT = 1000

_GET_DATA = 4
_GET_CHILDREN = 8
_MULTI_READ = 22

_INT = Struct("!i")
_OPERATION = Struct("!iBii")  # opcode, done, error; then the length of the path
_RESULT = Struct("!i5xi")  # opcode, or -1; then the length of what follows, or the error
_END = Struct("!iBi").pack(-1, 1, -1)
_STAT = Struct("!qq8xqi20xi8x")  # czxid, mzxid, mtime, version, number of children; 68 bytes in all


class Znode(NamedTuple):
    """A znode as read: its bytes, and the fields of its stat that show a change.

    ``data`` is empty for null. ``mtime`` is the time of the last write, in ms since the epoch by the server's clock.
    """

    data: bytes
    czxid: int
    mzxid: int
    mtime: int
    version: int
    child_count: int


class ReadFailure(Enum):
    """The reason why a path has no result."""

    MISSING = "missing"
    DENIED = "denied"


ChildNames = tuple[str, ...]
"""The names of a znode's children, in no order."""


class _ReadType(NamedTuple):
    opcode: int
    decode_one: Callable[[bytes, int], Any]  # the reply of a single read
    decode_batch: Callable[[bytes, int, int], list[Any]]  # all results of a MultiRead


def read_znodes(session: Session, paths: Iterable[str]) -> Iterator[Znode | ReadFailure]:
    """Yield data and stat of each path, in order."""
    return _read(session, _READ_DATA, paths)


def read_children(session: Session, paths: Iterable[str]) -> Iterator[ChildNames | ReadFailure]:
    """Yield the names of the children of each path, in order."""
    return _read(session, _READ_CHILDREN, paths)


def sync(session: Session) -> None:
    """Bring the connected server up to date: later reads are no older than this call.

    The first call of a session also detects MultiRead support, with no other request in flight. A server before 3.6
    replies that it does not know the request; 3.5 then closes the connection, and kazoo reconnects with the same
    session.
    """
    if session.supports_multiread is None:
        try:
            session.call_with_retry(_MultiRead(_READ_DATA, session.chroot, ["/cluster/id"]))
            session.supports_multiread = True
        except UnimplementedError:
            session.supports_multiread = False
    session.call_with_retry(Sync(session.chroot or "/"))


def _read(session: Session, kind: _ReadType, paths: Iterable[str]) -> Iterator[Any]:
    if session.supports_multiread is None:
        sync(session)
    if not session.supports_multiread:
        singles = (_SingleRead(kind, session.chroot + path) for path in paths)
        # Await results by the hundred: waking up for each reply would cost as much as the read.
        yield from _pipeline(session, singles, MAX_SINGLE_READS_IN_FLIGHT, chunk_size=MAX_SINGLE_READS_IN_FLIGHT // 2)
        return
    remaining = iter(paths)
    batch_size = INITIAL_BATCH_READS

    def batches() -> Iterator[Request]:
        while batch := list(islice(remaining, batch_size)):
            yield _MultiRead(kind, session.chroot, batch)

    for results, reply_bytes in _pipeline(session, batches(), MAX_MULTIREADS_IN_FLIGHT, chunk_size=1):
        # As many reads as fit into a reply of the target size, judged by this reply; growth is limited to eightfold,
        # because the next znodes may be larger.
        fitting = MAX_REPLY_BYTES * len(results) // reply_bytes
        batch_size = max(1, min(MAX_BATCH_READS, fitting, 8 * len(results)))
        yield from results


def _pipeline(session: Session, requests: Iterator[Request], max_in_flight: int, chunk_size: int) -> Iterator[Any]:
    """Yield the results of ``requests`` in order, ``chunk_size`` of them awaited together.

    After a dropped connection the unanswered requests are sent again.
    """
    in_flight: deque[tuple[Request, PendingReply]] = deque()
    disconnects = 0
    while True:
        in_flight.extend(
            (request, session.send(request)) for request in islice(requests, max_in_flight - len(in_flight))
        )
        if not in_flight:
            return
        try:
            chunk = [pending for _, pending in islice(in_flight, chunk_size)]
            # Replies arrive in order: once the last one of the chunk has arrived, all have.
            last = _await_result(session, chunk[-1])
            answers = [*(_await_result(session, pending) for pending in chunk[:-1]), last]
        except ConnectionInterrupted as error:
            disconnects += 1
            if disconnects == MAX_DISCONNECTS:
                raise session.too_many_disconnects_error() from error
            session.wait_until_reconnected()
            in_flight = deque((request, session.send(request)) for request, _ in in_flight)
            continue
        disconnects = 0
        for answer in answers:
            in_flight.popleft()
            yield answer


def _await_result(session: Session, pending: PendingReply) -> Any:
    try:
        return session.result(pending)
    except NoNodeError:
        return ReadFailure.MISSING
    except NoAuthError:
        return ReadFailure.DENIED


class _MultiRead:
    """A MultiRead request; its result is the results in the order of the paths, and the size of the reply in bytes."""

    type = _MULTI_READ

    def __init__(self, kind: _ReadType, chroot: str, paths: Sequence[str]) -> None:
        self._kind = kind
        self._chroot = chroot
        self._paths = paths

    def serialize(self) -> bytes:
        parts = []
        for path in self._paths:
            encoded = (self._chroot + path).encode()
            parts.append(_OPERATION.pack(self._kind.opcode, 0, -1, len(encoded)) + encoded + b"\0")
        return b"".join(parts) + _END

    def deserialize(self, buffer: bytes, offset: int) -> tuple[list[Any], int]:
        return self._kind.decode_batch(buffer, offset, len(self._paths)), len(buffer) - offset


class _SingleRead:
    """A getData or getChildren request, for servers before 3.6."""

    def __init__(self, kind: _ReadType, path: str) -> None:
        self.type = kind.opcode
        self._kind = kind
        self._path = path.encode()

    def serialize(self) -> bytes:
        return _INT.pack(len(self._path)) + self._path + b"\0"

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        return self._kind.decode_one(buffer, offset)


def exception_for_code(code: int) -> KazooException:
    """Return kazoo's exception for a ZooKeeper error code, a plain one for a code that only newer servers know."""
    exception_class = EXCEPTIONS.get(code)
    return exception_class() if exception_class else KazooException(f"error {code}")


def _failure_for_code(code: int) -> ReadFailure:
    if code == NoNodeError.code:
        return ReadFailure.MISSING
    if code == NoAuthError.code:
        return ReadFailure.DENIED
    raise exception_for_code(code)


def _decode_znode(buffer: bytes, offset: int) -> Znode:
    start = offset + _INT.size
    end = start + max(0, _INT.unpack_from(buffer, offset)[0])  # -1: null
    return Znode(buffer[start:end], *_STAT.unpack_from(buffer, end))


def _decode_znodes(buffer: bytes, offset: int, count: int) -> list[Znode | ReadFailure]:
    # Tens of thousands of iterations: the same as _decode_znode, inlined because calls dominate the cost.
    nodes: list[Znode | ReadFailure] = []
    head, stat, make = _RESULT.unpack_from, _STAT.unpack_from, Znode._make
    for _ in range(count):
        opcode, length = head(buffer, offset)
        offset += _RESULT.size
        if opcode == -1:
            nodes.append(_failure_for_code(length))
            continue
        end = offset + length if length > 0 else offset
        nodes.append(make((buffer[offset:end], *stat(buffer, end))))
        offset = end + _STAT.size
    return nodes


def _decode_child_names(buffer: bytes, offset: int) -> ChildNames:
    return _decode_names(buffer, offset + _INT.size, _INT.unpack_from(buffer, offset)[0])[0]


def _decode_child_name_lists(buffer: bytes, offset: int, count: int) -> list[ChildNames | ReadFailure]:
    lists: list[ChildNames | ReadFailure] = []
    for _ in range(count):
        opcode, length = _RESULT.unpack_from(buffer, offset)
        offset += _RESULT.size
        if opcode == -1:
            lists.append(_failure_for_code(length))
        else:
            names, offset = _decode_names(buffer, offset, length)
            lists.append(names)
    return lists


def _decode_names(buffer: bytes, offset: int, count: int) -> tuple[ChildNames, int]:
    names = []
    for _ in range(count):
        start = offset + _INT.size
        offset = start + _INT.unpack_from(buffer, offset)[0]
        names.append(buffer[start:offset].decode())
    return tuple(names), offset


_READ_DATA = _ReadType(_GET_DATA, _decode_znode, _decode_znodes)
_READ_CHILDREN = _ReadType(_GET_CHILDREN, _decode_child_names, _decode_child_name_lists)
