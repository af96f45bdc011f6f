"""Kubernetes Events for what a person should notice: once when it happens, never again on each pass.

What happened is told from one Topic on one cluster, or a Cluster, before and after a pass. Before is what its status
says, which is still known after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.core.change import AddPartitions, Adopt, CreateTopic, DeleteTopic, UpdateConfig
from topiarist.errors import Reason
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.resources import Resource
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
    Reason.FEWER_PARTITIONS.value: "PartitionDecreaseRefused",
    Reason.INVALID_MANIFEST.value: "ValidationFailed",
    Reason.CONFIG_INVALID.value: "ValidationFailed",
    Reason.UNREACHABLE.value: "ZooKeeperUnavailable",
    Reason.SESSION_LOST.value: "ZooKeeperUnavailable",
}
"""Reasons that other operators have a word for; all others are their own."""


def cluster_events(home: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """What happened to a Cluster whose next status is ``status``: it can be used no more, or again."""
    before, after = (
        next((each for each in found.get("conditions", ()) if each["type"] == "Ready"), None)
        for found in (home.status, status)
    )
    if after is None or (before and _word(after["reason"]) == _word(before["reason"])):
        return
    if after["status"] == "False":
        yield Event(_word(after["reason"]), after["message"], warning=True)
    elif before:
        yield Event("Reachable", "can be used again")


def topic_events(cluster: str, before: Mapping[str, Any], after: View) -> Iterator[Event]:
    """What happened to a Topic on a cluster; ``before`` is what its status says of it, before."""
    if after.plan and after.outcome and after.outcome.result is Result.DONE:
        for change in after.plan.changes:
            if type(change) in _DONE and not (isinstance(change, Adopt) and "applied" in before):
                yield Event(_DONE[type(change)], f"{cluster}: {action([change])}")
    was = {(refusal["reason"], refusal["message"]) for refusal in before.get("refusals", ())}
    for refusal in after.refusals:
        words = told(refusal)
        if (refusal.reason.value, words) not in was and not refusal.reason.retryable:
            yield Event(_word(refusal.reason.value), f"{cluster}: {words}", warning=True)
    if before.get("state") == State.DRIFTED.value and after.state in (State.IN_STEP, State.CHANGED):
        yield Event("DriftCorrected", f"{cluster}: as asked again")


def _word(reason: str) -> str:
    """What a reason is called here; it may be what several are called, as the ways in which a server is away."""
    return _WARNINGS.get(reason, reason)
