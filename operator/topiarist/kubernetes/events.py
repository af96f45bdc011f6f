"""Kubernetes Events for what a person should notice: once when it happens, never again on each pass.

What happened is told from two standings of one Topic on one cluster, before and after a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from topiarist.core.change import AddPartitions, Adopt, CreateTopic, DeleteTopic, UpdateConfig
from topiarist.core.drift import Asked
from topiarist.errors import Reason
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.words import told
from topiarist.reconcile import Result
from topiarist.render.changes import action


class Event(NamedTuple):
    """What to tell; ``warning`` if somebody has to do something."""

    reason: str
    message: str
    warning: bool = False


_DONE = {
    CreateTopic: "TopicCreated",
    AddPartitions: "PartitionsIncreased",
    UpdateConfig: "ConfigUpdated",
    DeleteTopic: "TopicDeleted",
    Adopt: "Adopted",
}

_WARNINGS = {
    Reason.FEWER_PARTITIONS: "PartitionDecreaseRefused",
    Reason.INVALID_MANIFEST: "ValidationFailed",
    Reason.CONFIG_INVALID: "ValidationFailed",
}
"""Reasons that other operators have a word for; all others are their own."""


def events(cluster: str, before: View | None, after: View, known: Asked | None) -> Iterator[Event]:
    """What happened to a Topic on a cluster; ``known`` is what it was asked for when it last was as asked."""
    if after.plan and after.outcome and after.outcome.result is Result.DONE:
        for change in after.plan.changes:
            if type(change) in _DONE and not (isinstance(change, Adopt) and known):
                yield Event(_DONE[type(change)], f"{cluster}: {action([change])}")
    was = {(refusal.reason, refusal.message) for refusal in before.refusals} if before else set()
    for refusal in after.refusals:
        if (refusal.reason, refusal.message) not in was and not refusal.reason.retryable:
            word = _WARNINGS.get(refusal.reason, refusal.reason.value)
            yield Event(word, f"{cluster}: {told(refusal)}", warning=True)
    if before and before.state is State.DRIFTED and after.state in (State.IN_STEP, State.CHANGED):
        yield Event("DriftCorrected", f"{cluster}: as asked again")
