"""What the answer to a transaction means. kazoo's ``commit`` does not raise and calls a rollback committed: each result
is looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from topiarist.adapters.znodes import partition_state_path, paths
from topiarist.adapters.zookeeper.reading import TopicNodes
from topiarist.adapters.zookeeper.transaction import Kind, Operation, Site
from topiarist.adapters.zookeeper.wire import Failure, Node
from topiarist.core.change import AddPartitions, DeleteTopic, Nudge, TopicPlan, UpdateConfig
from topiarist.core.evolve import gives_up, nudges
from topiarist.errors import Reason
from topiarist.reconcile import Outcome, Result


class Failed(NamedTuple):
    """The step at which a transaction failed, and how. Nothing of it was done.

    ``ground``: it is not the topic that moved but what every transaction stands on (the fence, the brokers).
    """

    step: Operation
    error: Exception
    ground: bool

    @property
    def conflict(self) -> bool:
        """Whether somebody else changed a node: to be read and compared again."""
        return isinstance(self.error, BadVersionError | NodeExistsError | NoNodeError)

    @property
    def message(self) -> str:
        """What was in the way."""
        if isinstance(self.error, NodeExistsError):
            return f"{self.step.path} appeared while it was written"
        if isinstance(self.error, NoNodeError):
            return f"{self.step.path} has gone while it was written"
        return f"{self.step.path} changed while it was written"

    def outcome(self, topic: str) -> Outcome:
        """The topic's outcome where trying again would not help."""
        if isinstance(self.error, NoAuthError) and self.step.kind is Kind.CHECK:
            return denied(topic, "read", self.step.path)
        if isinstance(self.error, NoAuthError):
            path = self.step.path if self.step.kind is Kind.SET else self.step.path.rpartition("/")[0]
            verb = "set" if self.step.kind is Kind.SET else f"{self.step.kind.value} children of"
            return denied(topic, verb, path)
        return failed(topic, self.error, self.step.path)


def denied(topic: str, verb: str, path: str) -> Outcome:
    """The outcome of a right that we do not have."""
    return Outcome(topic, Result.FAILED, Reason.NO_PERMISSION, f"no permission to {verb} {path}")


def to_be_taken_over(plan: TopicPlan) -> range:
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


def to_be_read(plan: TopicPlan) -> Sequence[int]:
    """Return the partitions whose states are read before ``plan`` is written; the first is checked in the transaction.

    A change of config does not depend on the controller, but a topic that was made again at equal versions of topic and
    config seldom has that of the state too.
    """
    for change in plan.changes:
        if isinstance(change, Nudge):
            return change.partitions
    configures = any(isinstance(change, UpdateConfig) for change in plan.changes)
    return to_be_taken_over(plan) or range(int(configures))


def needless(plan: TopicPlan, states: Sequence[Node | Failure]) -> Outcome | None:
    """Return the outcome of a nudge that is not needed any more: the controller has taken the partitions over."""
    taken = nudges(plan) and all(isinstance(state, Node) for state in states)
    return Outcome(plan.topic, Result.ALREADY) if taken else None


def not_taken_over(plan: TopicPlan, topic: Node | Failure, states: Sequence[Node | Failure]) -> Outcome | None:
    """Return the outcome of a change that the controller would undo or drop, None where it may go on.

    ``states`` are the state nodes of ``to_be_read``. A state that is older than the ``topic`` node belongs to an
    earlier topic of that name.
    """
    for partition, state in zip(to_be_taken_over(plan), states, strict=False):
        if state is Failure.DENIED:
            return denied(plan.topic, "read", partition_state_path(plan.topic, partition))
        if not isinstance(state, Node) or (isinstance(topic, Node) and state.czxid < topic.czxid):
            deletes = any(isinstance(change, DeleteTopic) for change in plan.changes)
            message = (
                f"the controller has not taken partition {partition} over yet (it has no state), and"
                f" {'would drop a deletion' if deletes else 'could undo growth'}; run again when it has: that takes one"
                " of its brokers to be registered"
            )
            return Outcome(plan.topic, Result.REFUSED, Reason.NOT_TAKEN_OVER, message)
    return None


def dropped(topic: str, times: int, size: int) -> Outcome:
    """The outcome of a transaction under which the connection broke each time; our record says that it was not done."""
    message = (
        f"the connection dropped {times} times while it was written, and it was not done; its transaction has {size:,}"
        " bytes. If this happens again: is the servers' jute.maxbuffer smaller than zookeeper.maxBuffer says?"
    )
    return Outcome(topic, Result.FAILED, Reason.WRITE_FAILED, message)


def failed(topic: str, error: Exception, path: str = "") -> Outcome:
    """The outcome of an error that has no words of its own."""
    where = f" at {path}" if path else ""
    what = str(error) or type(error).__name__
    return Outcome(topic, Result.FAILED, Reason.WRITE_FAILED, f"ZooKeeper answered {what}{where}")


def first_failure(site: Site, steps: Sequence[Operation], results: Sequence[Any]) -> Failed | None:
    """The step that made the transaction fail, None if every single one was done; there is a result for each step.

    Steps before it are answered with ``RolledBackError``, steps after it with ``RuntimeInconsistency``.
    """
    errors = [(index, result) for index, result in enumerate(results) if isinstance(result, Exception)]
    if not errors:
        return None
    index, error = next(
        (pair for pair in errors if not isinstance(pair[1], RolledBackError | RuntimeInconsistency)), errors[0]
    )
    stood_on = index < len(site.fence) or steps[index] in site.brokers.values()
    return Failed(steps[index], error, ground=stood_on and isinstance(error, BadVersionError | NoNodeError))


def committed(plan: TopicPlan, nodes: TopicNodes, looked: Any) -> Outcome:
    """The outcome of a transaction that was done: was it the topic that was meant?"""
    deleted = any(isinstance(change, DeleteTopic) for change in plan.changes)
    if not isinstance(nodes.topic, Node) or (deleted and looked is None) or gives_up(plan):
        return Outcome(plan.topic, Result.DONE)
    if looked is None or looked.czxid != nodes.topic.czxid:
        message = f"{paths.TOPICS}/{plan.topic} was deleted or made again in the very moment of writing: look at it"
        return Outcome(plan.topic, Result.FAILED, Reason.STATE_CONFLICT, message)
    return Outcome(plan.topic, Result.DONE)


def bears_witness(record: Node | Failure, before: Node | Failure, last: Operation) -> bool:
    """Whether our record shows that the transaction was done: one version on from what was seen, with the bytes of its
    ``last`` step; or that it is gone, if that took it away.
    """
    if last.kind is Kind.DELETE:
        return record is Failure.MISSING
    expected = before.version + 1 if isinstance(before, Node) else 0
    return isinstance(record, Node) and record.version == expected and record.data == last.data
