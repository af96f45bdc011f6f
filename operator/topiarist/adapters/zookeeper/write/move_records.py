"""Close topiarist's records in ZooKeeper and hand them over, so that runs continue through the brokers.

The freeze znode is closed first: from then on no run of any release writes through ZooKeeper, because each transaction
checks its version. Every step can be repeated, and a second call continues where a first one ended::

    take the lock
    gate: open or frozen         frozen, "moving to Kafka"; /topiarist/moved keeps the freeze that was there
    read the records             the caller writes them to the topic of records, in one transaction
    gate: "moving to Kafka"      frozen, "moved to Kafka"

The gate keeps the format that earlier releases obey, and what only the move needs is in a znode of its own. Nothing of
Kafka's is written, so this also works without a controller and during a migration to KRaft.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths, values
from topiarist.adapters.zookeeper.codec.values import (
    ZnodeError,
    decode_cluster_id,
    dump_object,
    load_object,
    require_version,
)
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.adapters.zookeeper.write.transaction import MultiRequest, Operation, OperationType, check
from topiarist.adapters.zookeeper.write.write_context import Lock, ensure_own_znodes
from topiarist.errors import Reason, TopiaristError
from topiarist.model.state import (
    MOVED,
    MOVING,
    ClosedRecords,
    ClusterState,
    Freeze,
    IdentifiedRecord,
    LeftRecords,
    is_closed_by_move,
)
from topiarist.text import format_count

_USER = "topiarist move-records"
"""The user of the freeze: no person has this name, so an earlier release unfreezes only with ``--force`` too."""

_VERSION = 1
T = TypeVar("T")


def move_records(
    session: Session, *, owner: str, lock_timeout: float, jute_max_buffer: int, take: Callable[[ClosedRecords], T]
) -> T:
    """Close the records under the lock, call ``take`` with them, and mark them as moved; return the result of ``take``.

    If ``take`` raises, the records stay closed until the next call. Raises ``TopiaristError``: ``Locked``;
    ``NoPermission``; ``ReassignmentInProgress`` if a batch of moves has not ended; ``PrerequisiteMissing`` if a topic
    with a record has no topic id; ``StateConflict`` if another client opened the gate meanwhile.
    """
    acl = ensure_own_znodes(session)
    lock = Lock(session, owner)
    try:
        lock.acquire(acl, lock_timeout, lambda: False)
        # Before the gate is closed: a cluster that cannot be moved stays open.
        _select(read_state(session, jute_max_buffer=jute_max_buffer), None)
        gate = _close(session, lock.path, acl)
        closed = _select(read_state(session, jute_max_buffer=jute_max_buffer), gate.freeze_before)
        taken = take(closed)
        if not gate.is_final:
            _finish(session, lock.path, gate.version)
        return taken
    finally:
        lock.release()


def find_records(session: Session, *, jute_max_buffer: int) -> ClosedRecords:
    """Return the records that a move would take now; write nothing. Raises what ``move_records`` raises."""
    state = read_state(session, jute_max_buffer=jute_max_buffer)
    gate, moved = _read_gate(session)
    freeze = values.decode_freeze_fail_closed(gate.data) if gate else None
    if moved and is_closed_by_move(freeze):
        freeze = _decode_moved(moved.data)
    return _select(state, freeze)


def read_left_records(session: Session) -> LeftRecords:
    """Return what ZooKeeper holds of topiarist: the number of records, and whether a move has closed them.

    Raises ``NotAKafkaCluster`` and ``NoPermission``.
    """
    gate, moved = _read_gate(session)
    (names,) = read_children(session, [paths.RECORDS])
    (cluster_id,) = read_znodes(session, [paths.CLUSTER_ID])
    if ReadFailure.DENIED in (names, cluster_id):
        raise _no_permission(session, "read", paths.RECORDS if names is ReadFailure.DENIED else paths.CLUSTER_ID)
    if isinstance(cluster_id, ReadFailure):
        message = f"this is not a Kafka cluster: {session.hosts}{session.chroot} has no {paths.CLUSTER_ID}"
        raise TopiaristError(Reason.NOT_A_KAFKA_CLUSTER, message, "correct the connect string")
    try:
        decoded_id = decode_cluster_id(cluster_id.data)
    except ZnodeError as error:
        raise TopiaristError(Reason.UNREADABLE, f"{paths.CLUSTER_ID} cannot be read: {error}") from None
    freeze = values.decode_freeze_fail_closed(gate.data) if gate else None
    records = 0 if isinstance(names, ReadFailure) else len(names)
    return LeftRecords(decoded_id, records, moved is not None, freeze)


class _ClosedGate(NamedTuple):
    """The gate as the move has closed it: its version, and the freeze that was there before the first call.

    ``is_final`` is true if an earlier call has ended: then nothing is left to write.
    """

    version: int
    freeze_before: Freeze | None
    is_final: bool = False


def _read_gate(session: Session) -> tuple[Znode | None, Znode | None]:
    """Return the gate and the note of the move; None for a missing one."""
    sync(session)
    nodes = []
    for path, node in zip((paths.FREEZE, paths.MOVED), read_znodes(session, [paths.FREEZE, paths.MOVED]), strict=True):
        if node is ReadFailure.DENIED:
            raise _no_permission(session, "read", path)
        nodes.append(node if isinstance(node, Znode) else None)
    return nodes[0], nodes[1]


def _close(session: Session, lock_path: str, acl: list[ACL]) -> _ClosedGate:
    """Close the gate, unless an earlier call has."""
    own_acl = tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in acl)
    data = own_values.encode_freeze(_our_freeze(MOVING))
    for _ in range(MAX_DISCONNECTS):
        gate, moved = _read_gate(session)
        if gate is None:
            raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} was deleted during the run", "run again")
        now = values.decode_freeze_fail_closed(gate.data)
        if moved and now and is_closed_by_move(now):
            return _ClosedGate(gate.version, _decode_moved(moved.data), now.reason == MOVED)
        before = _encode_moved(now)
        note = (
            Operation(OperationType.SET, paths.MOVED, before, moved.version)
            if moved
            else Operation(OperationType.CREATE, paths.MOVED, before, acl=own_acl)
        )
        close = Operation(OperationType.SET, paths.FREEZE, data, gate.version)
        if _commit(session, [check(lock_path), close, note]):
            return _ClosedGate(gate.version + 1, now)
    raise _gate_conflict()


def _finish(session: Session, lock_path: str, version: int) -> None:
    """Set the gate to its final value, if it is still the one that the move has closed.

    If another client has opened it meanwhile, runs may have written records that were not taken.
    """
    data = own_values.encode_freeze(_our_freeze(MOVED))
    for _ in range(MAX_DISCONNECTS):
        if _commit(session, [check(lock_path), Operation(OperationType.SET, paths.FREEZE, data, version)]):
            return
        gate, _ = _read_gate(session)
        if gate and gate.data == data:
            return  # only the reply was lost
        if gate is None or gate.version != version:
            raise TopiaristError(
                Reason.STATE_CONFLICT,
                f"another client changed {paths.FREEZE} during the move: runs through ZooKeeper may have written",
                "stop those runs, then run topiarist move-records again: it names the records that were not taken",
            )
    raise _gate_conflict()


def _commit(session: Session, operations: list[Operation]) -> bool:
    """Send one transaction; return False if nothing was applied, or if that is not known: the caller reads again.

    The first operation checks the lock.
    """
    try:
        results = session.result(session.send(MultiRequest(session.chroot, operations)))
    except ConnectionInterrupted:
        session.wait_until_reconnected()
        return False
    except NoAuthError:
        raise _no_permission(session, "write", paths.FREEZE) from None
    for operation, result in zip(operations, results, strict=False):
        if isinstance(result, NoAuthError):
            raise _no_permission(session, "write", operation.path)
    if results and isinstance(results[0], NoNodeError):
        raise TopiaristError(Reason.SESSION_LOST, "the lock of this run was lost", "run again")
    return len(results) == len(operations) and all(result is True for result in results)


def _gate_conflict() -> TopiaristError:
    return TopiaristError(
        Reason.STATE_CONFLICT, f"{paths.FREEZE} changed {MAX_DISCONNECTS} times in a row", "run again"
    )


def _no_permission(session: Session, verb: str, path: str) -> TopiaristError:
    return TopiaristError(
        Reason.NO_PERMISSION, f"no permission to {verb} {path}", f"give {session.principal_text} the permission"
    )


def _our_freeze(reason: str) -> Freeze:
    return Freeze(reason, _USER, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _select(state: ClusterState, freeze: Freeze | None) -> ClosedRecords:
    """Return the records that move: each with the id of its topic, if that is the topic it was written for."""
    if state.batch is not None:
        raise TopiaristError(
            Reason.REASSIGNMENT_IN_PROGRESS,
            "a batch of moves has not ended: its record names throttles that are to be put back",
            "run topiarist apply until it has ended, or topiarist moves clear",
        )
    if state.topic_errors:
        name, error = min(state.topic_errors.items())
        left = len(state.topic_errors) - 1
        more = f", and {format_count(left, 'more topic')}" if left else ""
        raise TopiaristError(Reason.UNREADABLE, f"topic {name} cannot be read: {error.path}: {error.message}{more}")
    records: dict[str, IdentifiedRecord] = {}
    stale, without_id = [], []
    for name, topic in sorted(state.topics.items()):
        if topic.record is None:
            continue
        if not topic.record_valid:
            stale.append(name)
        elif topic.topic_id is None:
            without_id.append(name)
        else:
            records[name] = IdentifiedRecord(topic.record, topic.topic_id)
    if without_id:
        raise TopiaristError(
            Reason.PREREQUISITE_MISSING,
            f"{format_count(len(without_id), 'topic')} with a record and without a topic id, such as {without_id[0]}",
            "topics get their ids from Kafka 2.8 on, with inter.broker.protocol.version 2.8 or later",
        )
    records |= {name: IdentifiedRecord(record, None) for name, record in state.dangling_records.items()}
    return ClosedRecords(state.cluster_id, state.chroot, records, tuple(stale), freeze)


def _encode_moved(freeze: Freeze | None) -> bytes:
    texts: Mapping[str, str] | None = None if freeze is None else freeze._asdict()
    return dump_object({"version": _VERSION, "freeze": texts})


def _decode_moved(raw: bytes) -> Freeze | None:
    try:
        fields = load_object(raw)
        require_version(fields, _VERSION)
        freeze = fields.get("freeze")
        if freeze is None:
            return None
        if not isinstance(freeze, dict) or not all(isinstance(freeze.get(name), str) for name in Freeze._fields):
            raise ZnodeError('"freeze" must be null, or have a reason, a user and a time')
        return Freeze(**{name: str(freeze[name]) for name in Freeze._fields})
    except ZnodeError as error:
        message = f"{paths.MOVED} cannot be read: {error}"
        raise TopiaristError(Reason.UNREADABLE, message, "delete it, and run topiarist move-records again") from None
