"""One topic's plan as one ZooKeeper transaction: its checks and writes in order, and what its results mean.

Pure: ``writing`` reads the nodes before and sends the operations after. Every write carries the version just read or
is a create; what is not written, and was compared, is checked at that version too. Every transaction begins with the
fence (our lock, the controller and its epoch, the gate) and ends with our record.

What the answer to a transaction means. kazoo's ``commit`` does not raise and calls a rollback committed: each result
is looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from topiarist.adapters.zookeeper.codec import configs, own_znodes, paths, topics
from topiarist.adapters.zookeeper.codec.paths import partition_state_path
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.topic import TopicZnodes
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
"""Who may do what with a znode: permissions, scheme and identity of each entry."""


_FORBIDDEN_DURING_REASSIGNMENT = CreateTopic | AddPartitions | DeleteTopic
"""Changes of a topic that a reassignment request must not name."""


class OperationType(str, Enum):
    """What an operation does."""

    CHECK = "check"
    CREATE = "create"
    SET = "set"
    DELETE = "delete"


class Operation(NamedTuple):
    """One step of a transaction. ``version`` -1 means any; ``acl`` and ``sequence`` count for a create only."""

    type: OperationType
    path: str
    data: bytes = b""
    version: int = -1
    acl: Acl = ()
    sequential: bool = False


class TransactionTemplate(NamedTuple):
    """What every transaction of a run is built on.

    ``fence`` are the checks that begin each: our lock, the controller and its epoch, the gate. ``brokers`` has a check
    for each registered broker, ``acls`` the entries for new nodes by the path of their parent.
    """

    fence: tuple[Operation, ...]
    broker_checks: Mapping[int, Operation]
    acls: Mapping[str, Acl]


def build_fence(lock_path: str, epoch_version: int, freeze_version: int) -> tuple[Operation, ...]:
    """The checks that must hold when a transaction commits, in the order in which their failures count."""
    return (
        Operation(OperationType.CHECK, lock_path),
        Operation(OperationType.CHECK, paths.CONTROLLER_EPOCH, version=epoch_version),
        Operation(OperationType.CHECK, paths.CONTROLLER),
        Operation(OperationType.CHECK, paths.FREEZE, version=freeze_version),
    )


def build_operations(
    plan: TopicPlan,
    nodes: TopicZnodes,
    template: TransactionTemplate,
    state_node: Znode | ReadFailure = ReadFailure.MISSING,
    request_version: int | None = None,
) -> list[Operation]:
    """The transaction that does everything ``plan`` wants of its topic, given its ``nodes`` as just read.

    ``state_node`` is partition 0's state node, if it is there and the plan rests on it. A replica list may name brokers
    that are not registered (an explicit assignment, allowed by the run): those cannot be checked. ``request_version``
    is the version of the reassignment request; that there is none cannot be checked, since the controller watches its
    creation.
    """
    acls, record = template.acls, paths.record_path(plan.topic)
    found = list(template.fence)
    if releases_ownership(plan):
        assert isinstance(nodes.record, Znode)
        return [*found, Operation(OperationType.DELETE, record, version=nodes.record.version)]
    if is_nudge(plan):
        assert isinstance(nodes.topic, Znode)
        again = Operation(OperationType.SET, paths.topic_path(plan.topic), nodes.topic.data, nodes.topic.version)
        return [
            *found,
            *_check_reassignment_request(request_version),
            *_check_no_deletion_request(plan.topic, acls),
            again,
        ]
    brokers = set(chain.from_iterable(plan.new_replicas()))
    found += [template.broker_checks[broker] for broker in sorted(brokers & template.broker_checks.keys())]
    if isinstance(state_node, Znode):
        found.append(
            Operation(OperationType.CHECK, paths.partition_state_path(plan.topic, 0), version=state_node.version)
        )
    if any(isinstance(change, _FORBIDDEN_DURING_REASSIGNMENT) for change in plan.changes):
        found += _check_reassignment_request(request_version)
    writes: set[str] = set()
    for change in plan.changes:
        steps = _build_change_operations(plan, change, nodes, acls)
        writes.update(step.path for step in steps)
        found += steps
    for path, node in ((paths.topic_path(plan.topic), nodes.topic), (paths.config_path(plan.topic), nodes.config)):
        if path not in writes and isinstance(node, Znode):
            found.append(Operation(OperationType.CHECK, path, version=node.version))
    if plan.record_after is not None:
        found.append(_set_or_create(record, own_znodes.encode_record(plan.record_after), nodes.record, acls))
    return found


def _check_reassignment_request(version: int | None) -> list[Operation]:
    return [] if version is None else [Operation(OperationType.CHECK, paths.REASSIGNMENT_REQUEST, version=version)]


def _build_change_operations(
    plan: TopicPlan, change: Change, nodes: TopicZnodes, acls: Mapping[str, Acl]
) -> list[Operation]:
    topic, config = paths.topic_path(plan.topic), paths.config_path(plan.topic)
    match change:
        case CreateTopic(replicas, overrides):
            return [
                *_check_no_deletion_request(plan.topic, acls),
                _set_or_create(config, configs.encode_config(overrides), nodes.config, acls),
                Operation(OperationType.CREATE, topic, topics.encode_topic(replicas), acl=acls[paths.TOPICS]),
            ]
        case AddPartitions(replicas=replicas):
            assert isinstance(nodes.topic, Znode)
            grown = topics.add_partitions(nodes.topic.data, replicas)
            return [
                *_check_no_deletion_request(plan.topic, acls),
                Operation(OperationType.SET, topic, grown, nodes.topic.version),
            ]
        case UpdateConfig():
            return [_build_config_update(config, change, nodes, acls), _build_config_notification(plan.topic, acls)]
        case DeleteTopic():
            return [
                Operation(
                    OperationType.CREATE, paths.deletion_request_path(plan.topic), acl=acls[paths.DELETION_REQUESTS]
                )
            ]
    return []


def _build_config_update(path: str, change: UpdateConfig, nodes: TopicZnodes, acls: Mapping[str, Acl]) -> Operation:
    """The whole map, as just read and with our keys changed."""
    if not isinstance(nodes.config, Znode):
        return _set_or_create(path, configs.encode_config(config_after({}, (change,))), nodes.config, acls)
    after = config_after(configs.decode_config(nodes.config.data), (change,))
    return Operation(OperationType.SET, path, configs.replace_config(nodes.config.data, after), nodes.config.version)


def _build_config_notification(topic: str, acls: Mapping[str, Acl]) -> Operation:
    data = own_znodes.encode_change_notification(f"topics/{topic}")
    return Operation(
        OperationType.CREATE, paths.CONFIG_CHANGE_PREFIX, data, acl=acls[paths.CONFIG_CHANGES], sequential=True
    )


def _check_no_deletion_request(topic: str, acls: Mapping[str, Acl]) -> list[Operation]:
    """Fails if the topic is marked for deletion, and leaves nothing behind."""
    path = paths.deletion_request_path(topic)
    return [
        Operation(OperationType.CREATE, path, acl=acls[paths.DELETION_REQUESTS]),
        Operation(OperationType.DELETE, path),
    ]


def _set_or_create(path: str, data: bytes, node: Znode | ReadFailure, acls: Mapping[str, Acl]) -> Operation:
    """Set what was seen at its version, or create what was not there."""
    if isinstance(node, Znode):
        return Operation(OperationType.SET, path, data, node.version)
    return Operation(OperationType.CREATE, path, data, acl=acls[path.rpartition("/")[0]])


class FailedOperation(NamedTuple):
    """The step at which a transaction failed, and how. Nothing of it was done.

    ``ground``: it is not the topic that moved but what every transaction stands on (the fence, the brokers).
    """

    operation: Operation
    error: Exception
    context_changed: bool

    @property
    def is_conflict(self) -> bool:
        """Whether somebody else changed a node: to be read and compared again."""
        return isinstance(self.error, BadVersionError | NodeExistsError | NoNodeError)

    @property
    def message(self) -> str:
        """What was in the way."""
        if isinstance(self.error, NodeExistsError):
            return f"{self.operation.path} appeared while it was written"
        if isinstance(self.error, NoNodeError):
            return f"{self.operation.path} has gone while it was written"
        return f"{self.operation.path} changed while it was written"

    def to_outcome(self, topic: str) -> Outcome:
        """The topic's outcome where trying again would not help."""
        if isinstance(self.error, NoAuthError) and self.operation.type is OperationType.CHECK:
            return permission_denied_outcome(topic, "read", self.operation.path)
        if isinstance(self.error, NoAuthError):
            path = (
                self.operation.path
                if self.operation.type is OperationType.SET
                else self.operation.path.rpartition("/")[0]
            )
            verb = "set" if self.operation.type is OperationType.SET else f"{self.operation.type.value} children of"
            return permission_denied_outcome(topic, verb, path)
        return write_failed_outcome(topic, self.error, self.operation.path)


def permission_denied_outcome(topic: str, verb: str, path: str) -> Outcome:
    """The outcome of a right that we do not have."""
    return Outcome(topic, Result.FAILED, Reason.NO_PERMISSION, f"no permission to {verb} {path}")


def partitions_requiring_state(plan: TopicPlan) -> range:
    """Return the partitions that must have a state before ``plan`` is written: all for growth, one for a deletion.

    The controller sets the node of a new topic from what it has read, at any version, before it makes the states:
    growth written in between is lost (contract 4.3). It drops a mark for a topic that it does not know (contract 6.5).
    """
    for change in plan.changes:
        if isinstance(change, AddPartitions):
            return range(change.before)
        if isinstance(change, DeleteTopic):
            return range(1)
    return range(0)


def partitions_to_read(plan: TopicPlan) -> Sequence[int]:
    """Return the partitions whose states are read before ``plan`` is written; the first is checked in the transaction.

    A change of config does not depend on the controller, but a topic that was made again at equal versions of topic and
    config seldom has that of the state too.
    """
    for change in plan.changes:
        if isinstance(change, Nudge):
            return change.partitions
    configures = any(isinstance(change, UpdateConfig) for change in plan.changes)
    return partitions_requiring_state(plan) or range(int(configures))


def unneeded_nudge_outcome(plan: TopicPlan, states: Sequence[Znode | ReadFailure]) -> Outcome | None:
    """Return the outcome of a nudge that is not needed any more: the controller has taken the partitions over."""
    taken = is_nudge(plan) and all(isinstance(state, Znode) for state in states)
    return Outcome(plan.topic, Result.UNCHANGED) if taken else None


def uninitialized_outcome(
    plan: TopicPlan, topic: Znode | ReadFailure, states: Sequence[Znode | ReadFailure]
) -> Outcome | None:
    """Return the outcome of a change that the controller would undo or drop, None where it may go on.

    ``states`` are the state nodes of ``to_be_read``. A state that is older than the ``topic`` node belongs to an
    earlier topic of that name.
    """
    for partition, state in zip(partitions_requiring_state(plan), states, strict=False):
        if state is ReadFailure.DENIED:
            return permission_denied_outcome(plan.topic, "read", partition_state_path(plan.topic, partition))
        if not isinstance(state, Znode) or (isinstance(topic, Znode) and state.czxid < topic.czxid):
            deletes = any(isinstance(change, DeleteTopic) for change in plan.changes)
            message = (
                f"the controller has not taken partition {partition} over yet (it has no state), and"
                f" {'would drop a deletion' if deletes else 'could undo growth'}; run again when it has: that takes one"
                " of its brokers to be registered"
            )
            return Outcome(plan.topic, Result.REFUSED, Reason.NOT_INITIALIZED, message)
    return None


def disconnected_outcome(topic: str, times: int, size: int) -> Outcome:
    """The outcome of a transaction under which the connection broke each time; our record says that it was not done."""
    message = (
        f"the connection dropped {times} times while it was written, and it was not done; its transaction has {size:,}"
        " bytes. If this happens again: is the servers' jute.maxbuffer smaller than zookeeper.maxBuffer says?"
    )
    return Outcome(topic, Result.FAILED, Reason.WRITE_FAILED, message)


def write_failed_outcome(topic: str, error: Exception, path: str = "") -> Outcome:
    """The outcome of an error that has no words of its own."""
    where = f" at {path}" if path else ""
    what = str(error) or type(error).__name__
    return Outcome(topic, Result.FAILED, Reason.WRITE_FAILED, f"ZooKeeper answered {what}{where}")


def find_first_failure(
    template: TransactionTemplate, steps: Sequence[Operation], results: Sequence[Any]
) -> FailedOperation | None:
    """The step that made the transaction fail, None if every single one was done; there is a result for each step.

    Steps before it are answered with ``RolledBackError``, steps after it with ``RuntimeInconsistency``.
    """
    errors = [(index, result) for index, result in enumerate(results) if isinstance(result, Exception)]
    if not errors:
        return None
    index, error = next(
        (pair for pair in errors if not isinstance(pair[1], RolledBackError | RuntimeInconsistency)), errors[0]
    )
    stood_on = index < len(template.fence) or steps[index] in template.broker_checks.values()
    return FailedOperation(
        steps[index], error, context_changed=stood_on and isinstance(error, BadVersionError | NoNodeError)
    )


def committed_outcome(plan: TopicPlan, nodes: TopicZnodes, stat: Any) -> Outcome:
    """The outcome of a transaction that was done: was it the topic that was meant?"""
    deleted = any(isinstance(change, DeleteTopic) for change in plan.changes)
    if not isinstance(nodes.topic, Znode) or (deleted and stat is None) or releases_ownership(plan):
        return Outcome(plan.topic, Result.DONE)
    if stat is None or stat.czxid != nodes.topic.czxid:
        message = f"{paths.TOPICS}/{plan.topic} was deleted or made again in the very moment of writing: look at it"
        return Outcome(plan.topic, Result.FAILED, Reason.STATE_CONFLICT, message)
    return Outcome(plan.topic, Result.DONE)


def record_proves_commit(record: Znode | ReadFailure, before: Znode | ReadFailure, last: Operation) -> bool:
    """Whether our record shows that the transaction was done: one version on from what was seen, with the bytes of its
    ``last`` step; or that it is gone, if that took it away.
    """
    if last.type is OperationType.DELETE:
        return record is ReadFailure.MISSING
    expected = before.version + 1 if isinstance(before, Znode) else 0
    return isinstance(record, Znode) and record.version == expected and record.data == last.data
