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

from topiarist.adapters.zookeeper.session import MOST_DROPS, Interrupted, Pending, Request, Session

MOST_READS = 250
"""Reads in one request: beyond, other clients of the same ZooKeeper feel it."""

FIRST_READS = 40
"""Reads in the first requests, while nobody knows how large the answers are (a thousand partitions: 25 kB)."""

REPLY_BYTES = 1_000_000
"""What a reply should not exceed."""

MULTIREADS_IN_FLIGHT = 8
SINGLE_READS_IN_FLIGHT = 1000

_GET_DATA = 4
_GET_CHILDREN = 8
_MULTI_READ = 22

_INT = Struct("!i")
_OP = Struct("!iBii")  # opcode, done, error; then the length of the path
_ANSWER = Struct("!i5xi")  # opcode, or -1; then the length of what follows, or the error
_END = Struct("!iBi").pack(-1, 1, -1)
_STAT = Struct("!qq8xqi20xi8x")  # czxid, mzxid, mtime, version, number of children; 68 bytes in all


class Node(NamedTuple):
    """A znode as read: its bytes (none for null), and of its stat what tells one state from another.

    ``mtime`` is when it was last written, in ms since the epoch by the server's clock.
    """

    data: bytes
    czxid: int
    mzxid: int
    mtime: int
    version: int
    children: int


class Failure(Enum):
    """Why there is no answer for a path."""

    MISSING = "missing"
    DENIED = "denied"


Names = tuple[str, ...]
"""The names of a znode's children, in no order."""


class _Kind(NamedTuple):
    """A kind of read: its opcode, and what cuts answers out of a reply: the only one, or all of a MultiRead."""

    opcode: int
    cut_one: Callable[[bytes, int], Any]
    cut_all: Callable[[bytes, int, int], list[Any]]


def read_nodes(session: Session, paths: Iterable[str]) -> Iterator[Node | Failure]:
    """Data and stat of each path, in order."""
    return _read(session, _NODES, paths)


def read_children(session: Session, paths: Iterable[str]) -> Iterator[Names | Failure]:
    """The names of the children of each path, in order."""
    return _read(session, _CHILDREN, paths)


def sync(session: Session) -> None:
    """Bring the server that we talk to up to date: what is read afterwards is no older than this call.

    The first call of a session also finds out, alone on the connection, whether the server knows MultiRead: one before
    3.6 says that it does not, and 3.5 then closes the connection, which comes back with the same session.
    """
    if session.multiread is None:
        session.multiread = _knows_multiread(session)
    session.ask(Sync(session.chroot or "/"))


def _knows_multiread(session: Session) -> bool:
    try:
        session.ask(_MultiRead(_NODES, session.chroot, ["/cluster/id"]))
    except UnimplementedError:
        return False
    return True


def _read(session: Session, kind: _Kind, paths: Iterable[str]) -> Iterator[Any]:
    if session.multiread is None:
        sync(session)
    if session.multiread:
        batches = _Batches(kind, session.chroot, paths)
        for answers in _pump(session, batches, MULTIREADS_IN_FLIGHT, take=1):
            batches.learn(*answers)
            yield from answers[0]
    else:
        singles = (_SingleRead(kind, session.chroot + path) for path in paths)
        # Taken by the hundred: to wake up for each answer would cost as much as the read.
        yield from _pump(session, singles, SINGLE_READS_IN_FLIGHT, take=SINGLE_READS_IN_FLIGHT // 2)


def _pump(session: Session, requests: Iterator[Request], window: int, take: int) -> Iterator[Any]:
    """The answers to ``requests``, in order, ``window`` of them under way at any time, ``take`` taken together."""
    flying: deque[tuple[Request, Pending]] = deque()
    losses = 0
    while True:
        flying.extend((request, session.send(request)) for request in islice(requests, window - len(flying)))
        if not flying:
            return
        try:
            answers = _answers(session, [pending for _, pending in islice(flying, take)])
        except Interrupted as error:
            losses += 1
            if losses == MOST_DROPS:
                raise session.keeps_dropping() from error
            session.resume()
            flying = deque((request, session.send(request)) for request, _ in flying)
            continue
        losses = 0
        for answer in answers:
            flying.popleft()
            yield answer


def _answers(session: Session, pending: Sequence[Pending]) -> list[Any]:
    # Answers come in order: when the last is there, all are.
    last = _answer(session, pending[-1])
    return [*(_answer(session, one) for one in pending[:-1]), last]


def _answer(session: Session, pending: Pending) -> Any:
    try:
        return session.result(pending)
    except NoNodeError:
        return Failure.MISSING
    except NoAuthError:
        return Failure.DENIED


class _Batches(Iterator[Request]):
    """MultiReads over ``paths``, as large as the answers so far allow."""

    def __init__(self, kind: _Kind, chroot: str, paths: Iterable[str]) -> None:
        self._kind = kind
        self._chroot = chroot
        self._paths = iter(paths)
        self._size = FIRST_READS

    def __next__(self) -> Request:
        paths = list(islice(self._paths, self._size))
        if not paths:
            raise StopIteration
        return _MultiRead(self._kind, self._chroot, paths)

    def learn(self, answers: Sequence[object], size: int) -> None:
        """Take in how many bytes a reply had: as many reads as fit, never more than eight times as many as now."""
        fit = REPLY_BYTES * len(answers) // size
        self._size = max(1, min(MOST_READS, fit, 8 * len(answers)))


class _MultiRead:
    """One MultiRead. Its answer is a pair: what was read, path by path, and the bytes of the reply."""

    type = _MULTI_READ

    def __init__(self, kind: _Kind, chroot: str, paths: Sequence[str]) -> None:
        self._kind = kind
        self._chroot = chroot
        self._paths = paths

    def serialize(self) -> bytes:
        parts = []
        for path in self._paths:
            encoded = (self._chroot + path).encode()
            parts.append(_OP.pack(self._kind.opcode, 0, -1, len(encoded)) + encoded + b"\0")
        return b"".join(parts) + _END

    def deserialize(self, buffer: bytes, offset: int) -> tuple[list[Any], int]:
        return self._kind.cut_all(buffer, offset, len(self._paths)), len(buffer) - offset


class _SingleRead:
    """One getData or getChildren, for servers before 3.6."""

    def __init__(self, kind: _Kind, path: str) -> None:
        self.type = kind.opcode
        self._kind = kind
        self._path = path.encode()

    def serialize(self) -> bytes:
        return _INT.pack(len(self._path)) + self._path + b"\0"

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        return self._kind.cut_one(buffer, offset)


def error_of(code: int) -> KazooException:
    """ZooKeeper's error as kazoo's exception, also one that kazoo does not know: newer servers have newer ones."""
    known = EXCEPTIONS.get(code)
    return known() if known else KazooException(f"error {code}")


def _failure(code: int) -> Failure:
    if code == NoNodeError.code:
        return Failure.MISSING
    if code == NoAuthError.code:
        return Failure.DENIED
    raise error_of(code)


def _cut_node(buffer: bytes, offset: int) -> Node:
    start = offset + _INT.size
    end = start + max(0, _INT.unpack_from(buffer, offset)[0])  # -1: null
    return Node(buffer[start:end], *_STAT.unpack_from(buffer, end))


def _cut_nodes(buffer: bytes, offset: int, count: int) -> list[Node | Failure]:
    # Tens of thousands of rounds: the same as _cut_node, without calls.
    nodes: list[Node | Failure] = []
    head, stat, make = _ANSWER.unpack_from, _STAT.unpack_from, Node._make
    for _ in range(count):
        opcode, length = head(buffer, offset)
        offset += _ANSWER.size
        if opcode == -1:
            nodes.append(_failure(length))
            continue
        end = offset + length if length > 0 else offset
        nodes.append(make((buffer[offset:end], *stat(buffer, end))))
        offset = end + _STAT.size
    return nodes


def _cut_names(buffer: bytes, offset: int) -> Names:
    return _names(buffer, offset + _INT.size, _INT.unpack_from(buffer, offset)[0])[0]


def _cut_all_names(buffer: bytes, offset: int, count: int) -> list[Names | Failure]:
    lists: list[Names | Failure] = []
    for _ in range(count):
        opcode, length = _ANSWER.unpack_from(buffer, offset)
        offset += _ANSWER.size
        if opcode == -1:
            lists.append(_failure(length))
        else:
            names, offset = _names(buffer, offset, length)
            lists.append(names)
    return lists


def _names(buffer: bytes, offset: int, count: int) -> tuple[Names, int]:
    names = []
    for _ in range(count):
        start = offset + _INT.size
        offset = start + _INT.unpack_from(buffer, offset)[0]
        names.append(buffer[start:offset].decode())
    return tuple(names), offset


_NODES = _Kind(_GET_DATA, _cut_node, _cut_nodes)
_CHILDREN = _Kind(_GET_CHILDREN, _cut_names, _cut_all_names)
