"""Build the ZooKeeper transaction of one topic and interpret its results.

Pure: ``Writer`` reads the znodes before and sends the operations after. Every write is a create or carries the version
just read. A znode that was compared and is not written is checked at that version. Every transaction begins with the
fence (the lock of this run, the controller and its epoch, the freeze znode) and ends with the ownership record.

kazoo's own ``commit`` does not raise and reports a rollback as committed, so this module examines each result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.adapters.zookeeper.codec.paths import partition_state_path
from topiarist.adapters.zookeeper.codec.topics import (
    decode_config,
    encode_change_notification,
    encode_config,
    replace_config,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, exception_for_code
from topiarist.adapters.zookeeper.read.cluster_metadata import TopicZnodes
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    Nudge,
    TopicPlan,
    UpdateConfig,
    config_after,
    releases_ownership,
)
from topiarist.planning.preconditions import is_nudge

Acl = tuple[tuple[int, str, str], ...]
"""The entries of a znode's access control list: permissions, scheme and identity of each."""

# The changes that are not sent for a topic that a reassignment request names.
_FORBIDDEN_DURING_REASSIGNMENT = CreateTopic | AddPartitions | DeleteTopic


class OperationType(str, Enum):
    """The kinds of operation in a transaction."""

    CHECK = "check"
    CREATE = "create"
    SET = "set"
    DELETE = "delete"


class Operation(NamedTuple):
    """One operation of a transaction. ``version`` -1 means any; ``acl`` and ``sequential`` apply to a create only."""

    type: OperationType
    path: str
    data: bytes = b""
    version: int = -1
    acl: Acl = ()
    sequential: bool = False


class TransactionTemplate(NamedTuple):
    """The parts that all transactions of a run share.

    ``fence`` has the checks that begin each transaction: the lock of this run, the controller and its epoch, the freeze
    znode. ``broker_checks`` has a check for each registered broker. ``acls`` has the entries for new znodes, by the
    path of their parent.
    """

    fence: tuple[Operation, ...]
    broker_checks: Mapping[int, Operation]
    acls: Mapping[str, Acl]


def check(path: str, version: int = -1) -> Operation:
    """Return the operation that fails if the znode is missing, or has another version."""
    return Operation(OperationType.CHECK, path, version=version)


def notify_brokers(entity: str, acls: Mapping[str, Acl]) -> Operation:
    """Return the operation that tells the brokers of a change of an entity's config: ``topics/orders``."""
    data = encode_change_notification(entity)
    return Operation(
        OperationType.CREATE, paths.CONFIG_CHANGE_PREFIX, data, acl=acls[paths.CONFIG_CHANGES], sequential=True
    )


def build_fence(lock_path: str, epoch_version: int, freeze_version: int) -> tuple[Operation, ...]:
    """Return the checks that must hold at commit, in the order in which ZooKeeper reports a failure."""
    # Each fact was true when the topic was planned, and may have changed since:
    # - without our lock znode, another run may write the same topics;
    # - another epoch means another controller, which may have read the topic before or after this write;
    # - without a controller no broker initializes partitions, and the cluster may be migrating to KRaft;
    # - another version of the freeze znode means that a user froze the cluster after it was read.
    return (
        check(lock_path),
        check(paths.CONTROLLER_EPOCH, epoch_version),
        check(paths.CONTROLLER),
        check(paths.FREEZE, freeze_version),
    )


def build_operations(
    plan: TopicPlan,
    nodes: TopicZnodes,
    template: TransactionTemplate,
    state_node: Znode | ReadFailure = ReadFailure.MISSING,
    request_version: int | None = None,
) -> list[Operation]:
    """Return the operations that carry out ``plan`` on its topic, given the ``nodes`` just read.

    ``state_node`` is the state znode of partition 0, if it exists and the plan depends on it. A replica list may name
    brokers that are not registered (an explicit assignment, allowed by the run): those cannot be checked.
    ``request_version`` is the version of the reassignment request. The absence of a request cannot be checked, since
    the controller watches its creation.
    """
    acls, record = template.acls, paths.record_path(plan.topic)
    operations = list(template.fence)
    request_check = [] if request_version is None else [check(paths.REASSIGNMENT_REQUEST, request_version)]
    if releases_ownership(plan):
        assert isinstance(nodes.record, Znode)
        # The topic itself is not written, and may be absent, so neither it nor a request is checked.
        return [*operations, Operation(OperationType.DELETE, record, version=nodes.record.version)]
    if is_nudge(plan):
        assert isinstance(nodes.topic, Znode)
        nudge = Operation(OperationType.SET, paths.topic_path(plan.topic), nodes.topic.data, nodes.topic.version)
        return [*operations, *request_check, *check_no_deletion_request(plan.topic, acls), nudge]
    brokers = set(chain.from_iterable(plan.new_replicas()))
    operations += [template.broker_checks[broker] for broker in sorted(brokers & template.broker_checks.keys())]
    if isinstance(state_node, Znode):
        # A topic that was deleted and created again may have equal versions; its partition states seldom do.
        operations.append(check(paths.partition_state_path(plan.topic, 0), state_node.version))
    if any(isinstance(change, _FORBIDDEN_DURING_REASSIGNMENT) for change in plan.changes):
        operations += request_check
    writes: set[str] = set()
    for change in plan.changes:
        steps = _build_change_operations(plan, change, nodes, acls)
        writes.update(step.path for step in steps)
        operations += steps
    # The plan compared these znodes by value: if they are not written, they must still be what was compared.
    for path, node in ((paths.topic_path(plan.topic), nodes.topic), (paths.config_path(plan.topic), nodes.config)):
        if path not in writes and isinstance(node, Znode):
            operations.append(check(path, node.version))
    if plan.record_after is not None:
        operations.append(set_or_create(record, own_values.encode_record(plan.record_after), nodes.record, acls))
    return operations


def _build_change_operations(
    plan: TopicPlan, change: Change, nodes: TopicZnodes, acls: Mapping[str, Acl]
) -> list[Operation]:
    topic, config = paths.topic_path(plan.topic), paths.config_path(plan.topic)
    match change:
        case CreateTopic(replicas, overrides):
            return [
                *check_no_deletion_request(plan.topic, acls),
                # The config comes first: the controller may create the logs as soon as the topic znode exists.
                set_or_create(config, encode_config(overrides), nodes.config, acls),
                Operation(OperationType.CREATE, topic, topics.encode_topic(replicas), acl=acls[paths.TOPICS]),
            ]
        case AddPartitions(replicas=replicas):
            assert isinstance(nodes.topic, Znode)
            topic_data = topics.add_partitions(nodes.topic.data, replicas)
            return [
                *check_no_deletion_request(plan.topic, acls),
                Operation(OperationType.SET, topic, topic_data, nodes.topic.version),
            ]
        case UpdateConfig():
            # Brokers take the whole map: it is the map just read, with the managed keys changed.
            if isinstance(nodes.config, Znode):
                after = config_after(decode_config(nodes.config.data), (change,))
                config_data = replace_config(nodes.config.data, after)
            else:
                config_data = encode_config(config_after({}, (change,)))
            return [
                set_or_create(config, config_data, nodes.config, acls),
                notify_brokers(f"topics/{plan.topic}", acls),
            ]
        case DeleteTopic():
            request = paths.deletion_request_path(plan.topic)
            return [Operation(OperationType.CREATE, request, acl=acls[paths.DELETION_REQUESTS])]
    return []


def check_no_deletion_request(topic: str, acls: Mapping[str, Acl]) -> list[Operation]:
    """Return two operations that fail if the topic has a deletion request and leave no znode behind."""
    # ZooKeeper has no check for absence. A create fails if the znode exists, and the delete removes it again.
    path = paths.deletion_request_path(topic)
    return [
        Operation(OperationType.CREATE, path, acl=acls[paths.DELETION_REQUESTS]),
        Operation(OperationType.DELETE, path),
    ]


def set_or_create(path: str, data: bytes, node: Znode | ReadFailure, acls: Mapping[str, Acl]) -> Operation:
    """Return the operation that writes ``data``: a set at the version just read, or a create if there is no znode."""
    if isinstance(node, Znode):
        return Operation(OperationType.SET, path, data, node.version)
    return Operation(OperationType.CREATE, path, data, acl=acls[path.rpartition("/")[0]])


class FailedOperation(NamedTuple):
    """The operation at which a transaction failed, and its error. Nothing of the transaction was applied.

    ``context_changed`` is True if the fence or a broker changed, not the topic.
    """

    operation: Operation
    error: Exception
    context_changed: bool

    @property
    def is_conflict(self) -> bool:
        """Return True if another client changed a znode: the topic must be read and compared again."""
        return isinstance(self.error, BadVersionError | NodeExistsError | NoNodeError)

    @property
    def message(self) -> str:
        """Return the path of the znode and how it changed."""
        if isinstance(self.error, NodeExistsError):
            return f"{self.operation.path} appeared while it was written"
        if isinstance(self.error, NoNodeError):
            return f"{self.operation.path} was deleted while it was written"
        return f"{self.operation.path} changed while it was written"

    def to_outcome(self, topic: str) -> Outcome:
        """Return the topic's outcome for an error that a retry would not resolve."""
        kind, path = self.operation.type, self.operation.path
        if not isinstance(self.error, NoAuthError):
            return write_failed_outcome(topic, self.error, path)
        if kind is OperationType.CHECK:
            return permission_denied_outcome(topic, "read", path)
        if kind is OperationType.SET:
            return permission_denied_outcome(topic, "set", path)
        return permission_denied_outcome(topic, f"{kind.value} children of", path.rpartition("/")[0])


def permission_denied_outcome(topic: str, verb: str, path: str) -> Outcome:
    """Return the outcome of a missing permission."""
    return Outcome(topic, Result.FAILED, Reason.NO_PERMISSION, f"no permission to {verb} {path}")


def partitions_requiring_state(plan: TopicPlan) -> range:
    """Return the partitions that must have a state before ``plan`` is written.

    All existing partitions for growth, partition 0 for a deletion, none for any other change.

    The controller writes the znode of a new topic from its own earlier read, at any version, before it creates the
    states: growth written in between is lost (contract 4.3). It drops the deletion request of a topic that it does not
    know (contract 6.5).
    """
    for change in plan.changes:
        if isinstance(change, AddPartitions):
            return range(change.before)
        if isinstance(change, DeleteTopic):
            return range(1)
    return range(0)


def partitions_to_read(plan: TopicPlan) -> Sequence[int]:
    """Return the partitions for which states are read before ``plan`` is written.

    The transaction checks the first of these states. A config change does not depend on the controller, but the state
    of partition 0 is read for it too: a recreated topic may have equal versions of its topic and config znodes, and
    seldom also an equal version of that state.
    """
    for change in plan.changes:
        if isinstance(change, Nudge):
            return change.partitions
    configures = any(isinstance(change, UpdateConfig) for change in plan.changes)
    return partitions_requiring_state(plan) or range(int(configures))


def uninitialized_outcome(
    plan: TopicPlan, topic: Znode | ReadFailure, states: Sequence[Znode | ReadFailure]
) -> Outcome | None:
    """Return the outcome of a change that the controller would undo, None if it can be sent.

    ``states`` are the state znodes of ``partitions_to_read``. A state that is older than the ``topic`` znode belongs to
    an earlier topic of that name.
    """
    for partition, state in zip(partitions_requiring_state(plan), states, strict=False):
        if state is ReadFailure.DENIED:
            return permission_denied_outcome(plan.topic, "read", partition_state_path(plan.topic, partition))
        if not isinstance(state, Znode) or (isinstance(topic, Znode) and state.czxid < topic.czxid):
            deletes = any(isinstance(change, DeleteTopic) for change in plan.changes)
            message = (
                f"the controller has not initialized partition {partition} yet (it has no state), and"
                f" {'would drop the deletion request' if deletes else 'could undo growth'}; run again after it has,"
                " for which one of the partition's brokers must be online"
            )
            return Outcome(plan.topic, Result.REFUSED, Reason.NOT_INITIALIZED, message)
    return None


def write_failed_outcome(topic: str, error: Exception, path: str = "") -> Outcome:
    """Return the outcome of an error that has no message of its own."""
    where = f" at {path}" if path else ""
    what = str(error) or type(error).__name__
    return Outcome(topic, Result.FAILED, Reason.WRITE_FAILED, f"ZooKeeper returned {what}{where}")


def find_first_failure(
    template: TransactionTemplate, steps: Sequence[Operation], results: Sequence[Any]
) -> FailedOperation | None:
    """Return the operation that made the transaction fail, None if all operations were applied.

    ``results`` has one result for each operation in ``steps``. ZooKeeper answers operations before the failed one with
    ``RolledBackError``, operations after it with ``RuntimeInconsistency``.
    """
    # kazoo returns errors as results and raises nothing.
    errors = [(index, result) for index, result in enumerate(results) if isinstance(result, Exception)]
    if not errors:
        return None
    index, error = next(
        (pair for pair in errors if not isinstance(pair[1], RolledBackError | RuntimeInconsistency)), errors[0]
    )
    in_context = index < len(template.fence) or steps[index] in template.broker_checks.values()
    return FailedOperation(
        steps[index], error, context_changed=in_context and isinstance(error, BadVersionError | NoNodeError)
    )


def committed_outcome(plan: TopicPlan, nodes: TopicZnodes, stat: Any) -> Outcome:
    """Return the outcome of a committed transaction.

    ``stat`` is the topic's stat directly after the write, None if the topic was missing. The outcome is a failure if
    the topic was deleted or recreated while the transaction was sent.
    """
    deleted = any(isinstance(change, DeleteTopic) for change in plan.changes)
    if not isinstance(nodes.topic, Znode) or (deleted and stat is None) or releases_ownership(plan):
        return Outcome(plan.topic, Result.DONE)
    if stat is None or stat.czxid != nodes.topic.czxid:
        message = f"{paths.TOPICS}/{plan.topic} was deleted or recreated during the write: check the topic"
        return Outcome(plan.topic, Result.FAILED, Reason.STATE_CONFLICT, message)
    return Outcome(plan.topic, Result.DONE)


def record_proves_commit(record: Znode | ReadFailure, before: Znode | ReadFailure, last: Operation) -> bool:
    """Return True if the ownership record proves that the transaction was committed.

    The proof is a record one version after the version read ``before``, with the bytes of the ``last`` operation. If
    that operation deletes the record, the proof is a missing record.
    """
    if last.type is OperationType.DELETE:
        return record is ReadFailure.MISSING
    # The bytes alone prove nothing: an earlier run may have written the same record.
    expected = before.version + 1 if isinstance(before, Znode) else 0
    return isinstance(record, Znode) and record.version == expected and record.data == last.data


# Serialize a transaction as ZooKeeper's multi request (opcode 14), and decode its reply per operation.
#
# kazoo has a transaction class of its own. This one serializes the operations that begin every transaction of a run
# (the fence, the brokers) once and caches the bytes. At ten thousand transactions that saves a third of the time.
# ``Writer`` sends the requests.

_MULTI = 14
_OPCODES = {OperationType.CREATE: 1, OperationType.DELETE: 2, OperationType.SET: 5, OperationType.CHECK: 13}
_SEQUENTIAL = 2

_HEADER = Struct("!iBi")  # opcode (-1 for an error or the end), done, error
_INT = Struct("!i")
_END = _HEADER.pack(-1, 1, -1)
_STAT_BYTES = 68
_FRAME_BYTES = 12


class MultiRequest:
    """One transaction. Its result is a list: for each operation True, or the exception that explains the failure."""

    type = _MULTI

    def __init__(self, chroot: str, operations: Iterable[Operation]) -> None:
        self._bytes = b"".join([_serialize_operation(chroot, operation) for operation in operations]) + _END

    @property
    def size(self) -> int:
        """Return the size of the whole frame in bytes, its headers included."""
        return _FRAME_BYTES + len(self._bytes)

    def serialize(self) -> bytes:
        """Return the body of the request."""
        return self._bytes

    def deserialize(self, buffer: bytes, offset: int) -> list[bool | Exception]:
        """Return the results, decoded from the body of the reply."""
        results: list[bool | Exception] = []
        while True:
            opcode, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return results
            if opcode == -1:
                results.append(exception_for_code(_INT.unpack_from(buffer, offset)[0]))
                offset += _INT.size
                continue
            results.append(True)
            if opcode == _OPCODES[OperationType.CREATE]:
                offset += _INT.size + _INT.unpack_from(buffer, offset)[0]
            # The stats in replies are skipped: the versions after a write are read again when they are needed.
            elif opcode == _OPCODES[OperationType.SET]:
                offset += _STAT_BYTES


def _serialize_operation(chroot: str, operation: Operation) -> bytes:
    if operation.type is OperationType.CHECK:
        return _serialize_check(chroot + operation.path, operation.version)
    start = _HEADER.pack(_OPCODES[operation.type], 0, -1) + _serialize_buffer((chroot + operation.path).encode())
    if operation.type is OperationType.CREATE:
        flags = _INT.pack(_SEQUENTIAL if operation.sequential else 0)
        return start + _serialize_buffer(operation.data) + _serialize_acl(operation.acl) + flags
    if operation.type is OperationType.SET:
        return start + _serialize_buffer(operation.data) + _INT.pack(operation.version)
    return start + _INT.pack(operation.version)


@lru_cache(maxsize=4096)
def _serialize_check(path: str, version: int) -> bytes:
    return _HEADER.pack(_OPCODES[OperationType.CHECK], 0, -1) + _serialize_buffer(path.encode()) + _INT.pack(version)


@lru_cache(maxsize=64)
def _serialize_acl(acl: Acl) -> bytes:
    entries = [
        _INT.pack(permissions) + _serialize_buffer(scheme.encode()) + _serialize_buffer(identity.encode())
        for permissions, scheme, identity in acl
    ]
    return _INT.pack(len(entries)) + b"".join(entries)


def _serialize_buffer(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data
