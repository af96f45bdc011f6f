"""Kubernetes Events for what a person should notice: once when it happens, never again on each pass.

What happened is told from one Topic on one cluster, or a Cluster, before and after a pass. Before is what its status
says, which is still known after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.core.change import AddPartitions, Adopt, CreateTopic, DeleteTopic, Finding, TopicPlan, UpdateConfig
from topiarist.errors import Reason
from topiarist.kubernetes.details import in_words
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.resources import Resource
from topiarist.kubernetes.summaries import INVALID_RULE
from topiarist.kubernetes.words import told, what
from topiarist.reconcile import Result


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


_UNUSABLE = (Reason.INVALID_MANIFEST.value, Reason.UNKNOWN_CLUSTER.value, INVALID_RULE)
"""Reasons for which no cluster's pass looks at a Topic, or a Policy holds back changes."""


def cluster_events(home: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """What happened to a Cluster whose next status is ``status``: it can be used no more, or again."""
    before, after = _ready(home.status), _ready(status)
    if after is None or (before and _word(after["reason"]) == _word(before["reason"])):
        return
    if after["status"] == "False":
        yield Event(_word(after["reason"]), after["message"], warning=True)
    elif before:
        yield Event("Reachable", "can be used again")


def annotation_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning for each annotation that is not understood, and that the status did not have before."""
    known = resource.status.get("annotations", ())
    for wrong in status.get("annotations", ()):
        if wrong not in known:
            yield Event("InvalidAnnotation", wrong, warning=True)


def standing_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield warnings if a Topic or a Policy cannot be used, or has wrong annotations, and its status did not say so.

    ``status`` is the next status. No cluster's pass looks at such a Topic, so ``topic_events`` never does either.
    """
    yield from annotation_events(resource, status)
    before, after = _ready(resource.status), _ready(status)
    if after is None or after["reason"] not in _UNUSABLE:
        return
    if before is None or (before["reason"], before["message"]) != (after["reason"], after["message"]):
        yield Event(_word(after["reason"]), after["message"], warning=True)


def topic_events(cluster: str, before: Mapping[str, Any], after: View) -> Iterator[Event]:
    """What happened to a Topic on a cluster; ``before`` is what its status says of it, before."""
    if after.plan and after.outcome and after.outcome.result is Result.DONE:
        for change in after.plan.changes:
            if type(change) in _DONE and not (isinstance(change, Adopt) and _is_ours(after.plan)):
                yield Event(_DONE[type(change)], f"{cluster}: {in_words([change])}")
    for refusal in after.refusals:
        if not refusal.reason.retryable and not _known(refusal, before.get("refusals", ())):
            yield Event(_word(refusal.reason.value), f"{cluster}: {told(refusal)}", warning=True)
    if before.get("state") == State.DRIFTED.value and after.state in (State.IN_STEP, State.CHANGED):
        yield Event("DriftCorrected", f"{cluster}: as asked again")


def _is_ours(plan: TopicPlan) -> bool:
    """Whether a topic has had our record before, which now says more."""
    before = plan.before.valid_record if plan.before else None
    return before is not None and plan.record_after is not None and before.owner == plan.record_after.owner


def _known(refusal: Finding, before: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a status has this refusal already; what to do about it may have changed since."""
    found = what(refusal)
    return any(known["reason"] == refusal.reason and known["message"].startswith(found) for known in before)


def _ready(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the condition ``Ready``; None if the status has none."""
    return next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)


def _word(reason: str) -> str:
    """What a reason is called here; it may be what several are called, as the ways in which a server is away."""
    return _WARNINGS.get(reason, reason)
