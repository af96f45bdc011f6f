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
from topiarist.core.change import DeleteTopic, TopicPlan
from topiarist.core.evolve import gives_up
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


def not_taken_over(plan: TopicPlan, state: Node | Failure) -> Outcome | None:
    """The outcome of a deletion of which nothing can be proven: partition 0 has no ``state`` node to check.

    The controller does not know such a topic yet, and drops a mark for it (contract 6.5). None where it may go on.
    """
    if isinstance(state, Node) or not any(isinstance(change, DeleteTopic) for change in plan.changes):
        return None
    if state is Failure.DENIED:
        return denied(plan.topic, "read", partition_state_path(plan.topic, 0))
    message = (
        "the controller has not taken partition 0 over yet (it has no state), and would drop a deletion; run again when"
        " it has: that takes one of its brokers to be registered"
    )
    return Outcome(plan.topic, Result.REFUSED, Reason.NOT_TAKEN_OVER, message)


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
