"""ZooKeeper as a value: a tree of znodes that is never changed, and requests that lead to the next tree.

``product_run`` takes the requests out of topiarist's own queue, ``actors`` writes as Kafka and other clients do, and
``model`` joins both. Transactions are decoded from the bytes that topiarist would send. ``test_tree`` compares the
answers with those of a real server.

zxids are a clock for each topic name: topiarist compares only zxids of znodes of one name, so writes to two topics
commute in the state. All other znodes have zxid 0. Where replicas are moved, all topics and the reassignment request
share a clock. Config change notifications are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode

_HEADER, _INT = Struct("!iBi"), Struct("!i")
_OPERATIONS = {1: "create", 2: "delete", 5: "set", 13: "check"}
_TOPIC_PARENTS = (f"{paths.TOPICS}/", f"{paths.TOPIC_CONFIGS}/", f"{paths.RECORDS}/")
_EPHEMERAL, _SEQUENTIAL = 1, 2
_GET_DATA = 4

JOINT_CLOCK = "*"
"""The clock of a tree in which zxids of topics and of the reassignment request are compared."""

Answer = tuple[str, Any]
"""An answer that can be hashed: ``ok`` with a value, ``error`` with a class, ``read`` or ``multi`` with a tuple."""


class Entry(NamedTuple):
    """One znode. ``owner`` is the session of an ephemeral znode."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: str = ""


class TreeOperation(NamedTuple):
    """One operation of a transaction, or of an actor. ``version`` -1 means any."""

    kind: str
    path: str
    data: bytes = b""
    version: int = -1
    flags: int = 0


def topic_of(path: str) -> str:
    """Return the name of the topic that a znode belongs to, empty if it belongs to none."""
    return path.split("/")[3] if path.startswith(_TOPIC_PARENTS) else ""


class Tree:
    """All znodes by path, and the clock of each topic name. ``digest`` identifies the content."""

    __slots__ = ("clock", "digest", "nodes")

    def __init__(self, nodes: Mapping[str, Entry], clock: Mapping[str, int], digest: int | None = None) -> None:
        self.nodes = nodes
        self.clock = clock
        self.digest = _digest(nodes.items()) ^ _digest(clock.items()) if digest is None else digest

    def children(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the children of a znode."""
        prefix = f"{path}/"
        return tuple(sorted({each[len(prefix) :].split("/")[0] for each in self.nodes if each.startswith(prefix)}))

    def listed(self, path: str) -> tuple[str, ...] | ReadFailure:
        """Return the children of a znode as topiarist's reader decodes them."""
        children = self.children(path)
        return children if children or path in self.nodes else ReadFailure.MISSING

    def znode(self, path: str) -> Znode | ReadFailure:
        """Return a znode as topiarist's reader decodes it."""
        entry = self.nodes.get(path)
        if entry is None:
            return ReadFailure.MISSING
        return Znode(entry.data, entry.czxid, entry.mzxid, 0, entry.version, 0)

    def transact(self, operations: Iterable[TreeOperation], session: str = "") -> tuple[list[Any], Tree]:
        """Return the result of each operation, and the next tree: all or nothing, as a multi of ZooKeeper."""
        operations = tuple(operations)
        nodes, clock, digest = dict(self.nodes), dict(self.clock), self.digest
        ticked: set[str] = set()
        results: list[Any] = []
        for operation in operations:
            topic = topic_of(operation.path)
            if JOINT_CLOCK in clock and (topic or operation.path == paths.REASSIGNMENT_REQUEST):
                topic = JOINT_CLOCK
            if operation.kind != "check" and topic not in ticked:
                ticked.add(topic)
                if topic:
                    digest ^= hash((topic, clock.get(topic))) if topic in clock else 0
                    clock[topic] = clock.get(topic, 0) + 1
                    digest ^= hash((topic, clock[topic]))
            error, path, before = _apply(nodes, operation, clock.get(topic, 0), session)
            if error:
                failed = len(operations) - len(results) - 1
                return [*(RolledBackError() for _ in results), error(), *(RuntimeInconsistency(),) * failed], self
            for entry in (before, nodes.get(path)) if operation.kind != "check" else ():
                digest ^= hash((path, entry)) if entry is not None else 0
            results.append(path if operation.flags & _SEQUENTIAL else True)
        return results, Tree(nodes, clock, digest)

    def put(self, path: str, data: bytes, owner: str = "") -> Tree:
        """Return the tree after a znode was set at any version, or created."""
        return self.transact([TreeOperation("set" if path in self.nodes else "create", path, data)], owner)[1]

    def remove(self, *removed: str) -> Tree:
        """Return the tree without these znodes; absent ones are ignored."""
        return self.transact([TreeOperation("delete", path) for path in removed if path in self.nodes])[1]


def _digest(items: Iterable[object]) -> int:
    digest = 0
    for item in items:
        digest ^= hash(item)
    return digest


def _apply(
    nodes: dict[str, Entry], operation: TreeOperation, zxid: int, session: str
) -> tuple[type[KazooException] | None, str, Entry | None]:
    """Apply one operation in place; return its error, its path with its number, and the entry before."""
    path = operation.path
    if operation.kind == "create" and operation.flags & _SEQUENTIAL:
        if path == paths.CONFIG_CHANGE_PREFIX:
            return None, path, nodes.get(path)
        numbers = [int(each[-10:]) for each in nodes if each.startswith(f"{path.rpartition('/')[0]}/")]
        path = f"{path}{max(numbers, default=-1) + 1:010d}"
    before = nodes.get(path)
    if operation.kind == "create":
        if before is not None:
            return NodeExistsError, path, before
        nodes[path] = Entry(operation.data, 0, zxid, zxid, session if operation.flags & _EPHEMERAL else "")
    elif before is None:
        return NoNodeError, path, before
    elif operation.version not in (-1, before.version):
        return BadVersionError, path, before
    elif operation.kind == "set":
        nodes[path] = Entry(operation.data, before.version + 1, before.czxid, zxid, before.owner)
    elif operation.kind == "delete":
        del nodes[path]
    return None, path, before


def decode_transaction(raw: bytes) -> list[TreeOperation]:
    """Return the operations of a multi request, from the bytes that topiarist would send."""
    position = 0
    operations: list[TreeOperation] = []

    def read_buffer() -> bytes:
        nonlocal position
        size = max(0, _INT.unpack_from(raw, position)[0])
        position += _INT.size + size
        return raw[position - size : position]

    def read_integer() -> int:
        nonlocal position
        position += _INT.size
        return int(_INT.unpack_from(raw, position - _INT.size)[0])

    while True:
        opcode, done, _ = _HEADER.unpack_from(raw, position)
        position += _HEADER.size
        if done:
            return operations
        kind, path = _OPERATIONS[opcode], read_buffer().decode()
        if kind == "create":
            data = read_buffer()
            for _ in range(read_integer()):
                position += _INT.size
                read_buffer(), read_buffer()
            operations.append(TreeOperation(kind, path, data, flags=read_integer()))
        else:
            data = read_buffer() if kind == "set" else b""
            operations.append(TreeOperation(kind, path, data, read_integer()))


def read_paths(request: Any) -> tuple[str, ...]:
    """Return the paths that a request reads, with ``*`` for the children of a path; empty for a write."""
    match type(request).__name__:
        case "_MultiRead":
            suffix = "" if request._kind.opcode == _GET_DATA else "/*"
            return tuple(path + suffix for path in request._paths)
        case "_SingleRead":
            return (request._path.decode() + ("" if request.type == _GET_DATA else "/*"),)
        case "Exists" | "AwaitDeletion":
            return (request.path,)
        case "AwaitRequest":
            return (paths.REASSIGNMENT_REQUEST,)
        case _:
            return ()


def execute(tree: Tree, request: Any, session: str) -> tuple[Answer, Tree]:
    """Return the answer to a request of topiarist or of kazoo, and the next tree."""
    match type(request).__name__:
        case "_MultiRead":
            reads = tree.znode if request._kind.opcode == _GET_DATA else tree.listed
            return ("read", tuple(reads(path) for path in request._paths)), tree
        case "_SingleRead":
            path = request._path.decode()
            value = tree.znode(path) if request.type == _GET_DATA else tree.listed(path)
            return (("error", NoNodeError) if value is ReadFailure.MISSING else ("ok", value)), tree
        case "MultiRequest":
            results, after = tree.transact(decode_transaction(request.serialize()), session)
            return ("multi", tuple(type(each) if isinstance(each, Exception) else True for each in results)), after
        case "Exists":
            entry = tree.nodes.get(request.path)
            stat = entry and ZnodeStat(entry.czxid, entry.mzxid, 0, 0, entry.version, 0, 0, 0, 0, 0, 0)
            return ("ok", stat), tree
        case "AwaitDeletion" | "Sync" | "AwaitController" | "AwaitRequest":
            return ("ok", None), tree
        case "GetACL":
            return ("ok", (tuple(OPEN_ACL_UNSAFE), None)), tree
        case "Create":
            return _single(tree, TreeOperation("create", request.path, request.data, flags=request.flags), session)
        case "SetData":
            return _single(tree, TreeOperation("set", request.path, request.data, request.version), session)
        case "Delete":
            return _single(tree, TreeOperation("delete", request.path, version=request.version), session)
    raise AssertionError(f"the model has no such request: {request!r}")


def _single(tree: Tree, operation: TreeOperation, session: str) -> tuple[Answer, Tree]:
    (result,), after = tree.transact([operation], session)
    if isinstance(result, Exception):
        return ("error", type(result)), after
    return ("ok", result if operation.kind == "create" else None), after
