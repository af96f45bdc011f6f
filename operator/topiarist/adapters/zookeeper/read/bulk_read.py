"""Many reads at once: MultiRead where the server knows it, a pipeline of single reads where not.

MultiRead (opcode 22, ZooKeeper 3.6 and later) answers hundreds of reads in one reply, at a fortieth of the cost; kazoo
has no method for it, but its queue takes any request. Answers come as an iterator in the order of the paths, so that a
caller that decodes them at once never holds all bytes. Above stand ``head`` and ``reading``.
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
"""Reads in one request: beyond, other clients of the same ZooKeeper feel it."""

INITIAL_BATCH_READS = 40
"""Reads in the first requests, while nobody knows how large the answers are (a thousand partitions: 25 kB)."""

MAX_REPLY_BYTES = 1_000_000
"""What a reply should not exceed."""

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
    """A znode as read: its bytes (none for null), and of its stat what tells one state from another.

    ``mtime`` is when it was last written, in ms since the epoch by the server's clock.
    """

    data: bytes
    czxid: int
    mzxid: int
    mtime: int
    version: int
    child_count: int


class ReadFailure(Enum):
    """Why there is no answer for a path."""

    MISSING = "missing"
    DENIED = "denied"


ChildNames = tuple[str, ...]
"""The names of a znode's children, in no order."""


class _ReadType(NamedTuple):
    """A kind of read: its opcode, and what cuts answers out of a reply: the only one, or all of a MultiRead."""

    opcode: int
    decode_one: Callable[[bytes, int], Any]
    decode_batch: Callable[[bytes, int, int], list[Any]]


def read_znodes(session: Session, paths: Iterable[str]) -> Iterator[Znode | ReadFailure]:
    """Data and stat of each path, in order."""
    return _read(session, _READ_DATA, paths)


def read_children(session: Session, paths: Iterable[str]) -> Iterator[ChildNames | ReadFailure]:
    """The names of the children of each path, in order."""
    return _read(session, _READ_CHILDREN, paths)


def sync(session: Session) -> None:
    """Bring the server that we talk to up to date: what is read afterwards is no older than this call.

    The first call of a session also finds out, alone on the connection, whether the server knows MultiRead: one before
    3.6 says that it does not, and 3.5 then closes the connection, which comes back with the same session.
    """
    if session.supports_multiread is None:
        session.supports_multiread = _supports_multiread(session)
    session.call_with_retry(Sync(session.chroot or "/"))


def _supports_multiread(session: Session) -> bool:
    try:
        session.call_with_retry(_MultiRead(_READ_DATA, session.chroot, ["/cluster/id"]))
    except UnimplementedError:
        return False
    return True


def _read(session: Session, kind: _ReadType, paths: Iterable[str]) -> Iterator[Any]:
    if session.supports_multiread is None:
        sync(session)
    if session.supports_multiread:
        batches = _MultiReadBatches(kind, session.chroot, paths)
        for answers in _pipeline(session, batches, MAX_MULTIREADS_IN_FLIGHT, chunk_size=1):
            batches.adapt_batch_size(*answers)
            yield from answers[0]
    else:
        singles = (_SingleRead(kind, session.chroot + path) for path in paths)
        # Taken by the hundred: to wake up for each answer would cost as much as the read.
        yield from _pipeline(session, singles, MAX_SINGLE_READS_IN_FLIGHT, chunk_size=MAX_SINGLE_READS_IN_FLIGHT // 2)


def _pipeline(session: Session, requests: Iterator[Request], max_in_flight: int, chunk_size: int) -> Iterator[Any]:
    """The answers to ``requests``, in order, ``max_in_flight`` of them under way at any time, ``chunk_size`` taken
    together.
    """
    flying: deque[tuple[Request, PendingReply]] = deque()
    losses = 0
    while True:
        flying.extend((request, session.send(request)) for request in islice(requests, max_in_flight - len(flying)))
        if not flying:
            return
        try:
            answers = _await_results(session, [pending for _, pending in islice(flying, chunk_size)])
        except ConnectionInterrupted as error:
            losses += 1
            if losses == MAX_DISCONNECTS:
                raise session.too_many_disconnects_error() from error
            session.wait_until_reconnected()
            flying = deque((request, session.send(request)) for request, _ in flying)
            continue
        losses = 0
        for answer in answers:
            flying.popleft()
            yield answer


def _await_results(session: Session, pending: Sequence[PendingReply]) -> list[Any]:
    # Answers come in order: when the last is there, all are.
    last = _await_result(session, pending[-1])
    return [*(_await_result(session, one) for one in pending[:-1]), last]


def _await_result(session: Session, pending: PendingReply) -> Any:
    try:
        return session.result(pending)
    except NoNodeError:
        return ReadFailure.MISSING
    except NoAuthError:
        return ReadFailure.DENIED


class _MultiReadBatches(Iterator[Request]):
    """MultiReads over ``paths``, as large as the answers so far allow."""

    def __init__(self, kind: _ReadType, chroot: str, paths: Iterable[str]) -> None:
        self._kind = kind
        self._chroot = chroot
        self._paths = iter(paths)
        self._size = INITIAL_BATCH_READS

    def __next__(self) -> Request:
        paths = list(islice(self._paths, self._size))
        if not paths:
            raise StopIteration
        return _MultiRead(self._kind, self._chroot, paths)

    def adapt_batch_size(self, answers: Sequence[object], size: int) -> None:
        """Take in how many bytes a reply had: as many reads as fit, never more than eight times as many as now."""
        fit = MAX_REPLY_BYTES * len(answers) // size
        self._size = max(1, min(MAX_BATCH_READS, fit, 8 * len(answers)))


class _MultiRead:
    """One MultiRead. Its answer is a pair: what was read, path by path, and the bytes of the reply."""

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
    """One getData or getChildren, for servers before 3.6."""

    def __init__(self, kind: _ReadType, path: str) -> None:
        self.type = kind.opcode
        self._kind = kind
        self._path = path.encode()

    def serialize(self) -> bytes:
        return _INT.pack(len(self._path)) + self._path + b"\0"

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        return self._kind.decode_one(buffer, offset)


def exception_for_code(code: int) -> KazooException:
    """ZooKeeper's error as kazoo's exception, also one that kazoo does not know: newer servers have newer ones."""
    known = EXCEPTIONS.get(code)
    return known() if known else KazooException(f"error {code}")


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
    # Tens of thousands of rounds: the same as _cut_node, without calls.
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
