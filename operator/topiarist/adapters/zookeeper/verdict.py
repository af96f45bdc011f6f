"""What the answer to a transaction means. kazoo's ``commit`` does not raise and calls a rollback committed: each result
is looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from topiarist.adapters.znodes import paths
from topiarist.adapters.zookeeper.reading import TopicNodes
from topiarist.adapters.zookeeper.transaction import Kind, Operation
from topiarist.adapters.zookeeper.wire import Failure, Node
from topiarist.core.change import DeleteTopic, TopicPlan
from topiarist.errors import Reason
from topiarist.reconcile import Outcome, Result

_FENCE = 3
"""Every transaction begins with this many checks: lock, epoch, gate."""


class Failed(NamedTuple):
    """The step at which a transaction failed, and how. Nothing of it was done."""

    step: Operation
    error: Exception
    fenced: bool

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
        if isinstance(self.error, NoAuthError):
            path = self.step.path if self.step.kind is Kind.SET else self.step.path.rpartition("/")[0]
            verb = "set" if self.step.kind is Kind.SET else f"{self.step.kind.value} children of"
            return Outcome(topic, Result.FAILED, Reason.NO_PERMISSION, f"no permission to {verb} {path}")
        return failed(topic, self.error, self.step.path)


def failed(topic: str, error: Exception, path: str = "") -> Outcome:
    """The outcome of an error that has no words of its own."""
    where = f" at {path}" if path else ""
    return Outcome(topic, Result.FAILED, Reason.WRITE_FAILED, f"ZooKeeper answered {type(error).__name__}{where}")


def first_failure(steps: Sequence[Operation], results: Sequence[Any]) -> Failed | None:
    """The step that made the transaction fail, None if every single one was done.

    Steps before it are answered with ``RolledBackError``, steps after it with ``RuntimeInconsistency``.
    """
    if len(results) != len(steps):
        return Failed(steps[0], KazooException(f"{len(results)} answers to {len(steps)} operations"), fenced=False)
    errors = [(index, result) for index, result in enumerate(results) if isinstance(result, Exception)]
    if not errors:
        return None
    index, error = next(
        (pair for pair in errors if not isinstance(pair[1], RolledBackError | RuntimeInconsistency)), errors[0]
    )
    moved = isinstance(error, BadVersionError | NoNodeError)
    return Failed(steps[index], error, fenced=index < _FENCE and moved)


def committed(plan: TopicPlan, nodes: TopicNodes, looked: Any) -> Outcome:
    """The outcome of a transaction that was done: was it the topic that was meant?"""
    deleted = any(isinstance(change, DeleteTopic) for change in plan.changes)
    if not isinstance(nodes.topic, Node) or (deleted and looked is None):
        return Outcome(plan.topic, Result.DONE)
    if looked is None or looked.czxid != nodes.topic.czxid:
        message = f"{paths.TOPICS}/{plan.topic} was deleted or made again in the very moment of writing: look at it"
        return Outcome(plan.topic, Result.FAILED, Reason.STATE_CONFLICT, message)
    return Outcome(plan.topic, Result.DONE)


def bears_witness(record: Node | Failure, before: Node | Failure, data: bytes) -> bool:
    """Whether our record shows that the transaction was done: one version on from what was seen, with our bytes."""
    expected = before.version + 1 if isinstance(before, Node) else 0
    return isinstance(record, Node) and record.version == expected and record.data == data
