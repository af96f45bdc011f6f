"""Kubernetes Events for the user: one when a change happens, none on later reconciliations.

``manager`` calls these functions after each reconciliation. They compare a Topic on one cluster, a Cluster or a Policy
before and after. The state before is taken from the resource's status, which survives a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.approval import describe_issue, format_issue
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.kubernetes.status.cluster import INVALID_RULE
from topiarist.kubernetes.status.conditions import MOVING
from topiarist.model.plan import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.output.change_details import describe_changes
from topiarist.text import format_count


class Event(NamedTuple):
    """A Kubernetes Event; ``warning`` if the user has to act."""

    reason: str
    message: str
    warning: bool = False


_CHANGE_REASONS = {
    CreateTopic: "TopicCreated",
    AddPartitions: "PartitionsIncreased",
    MoveReplicas: "ReplicasMoved",
    ElectLeaders: "LeadersElected",
    UpdateConfig: "ConfigUpdated",
    DeleteTopic: "TopicDeleted",
    TakeOwnership: "Adopted",
}

_EVENT_REASONS = {
    Reason.FEWER_PARTITIONS.value: "PartitionDecreaseRefused",
    Reason.INVALID_MANIFEST.value: "ValidationFailed",
    Reason.CONFIG_INVALID.value: "ValidationFailed",
    Reason.UNREACHABLE.value: "ClusterUnavailable",
    Reason.SESSION_LOST.value: "ClusterUnavailable",
}
"""Event reasons that other operators use too; several reasons share one, every other reason is used unchanged."""


_DRIFT_CORRECTED = "DriftCorrected"
"""The reason of the Event for each reversion of an external change, and for the end of a reported drift."""

_UNUSABLE_REASONS = (Reason.INVALID_MANIFEST.value, Reason.UNKNOWN_CLUSTER.value, INVALID_RULE)
"""Reasons for which no cluster's reconciliation includes a Topic, or a Policy withholds changes."""


def cluster_events(cluster_resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield an Event if a Cluster became unusable, or usable again; ``status`` is its next status."""
    before, after = _find_ready_condition(cluster_resource.status), _find_ready_condition(status)
    if after is None or (before and _event_reason(after["reason"]) == _event_reason(before["reason"])):
        return
    if after["status"] == "False":
        yield Event(_event_reason(after["reason"]), after["message"], warning=True)
    elif before:
        yield Event("Reachable", "can be used again")


def stall_events(cluster_resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning if the moves of a Cluster are newly stalled; ``status`` is its next status."""
    before, after = cluster_resource.status.get("moves", {}), status.get("moves", {})
    reason = after.get("reason", MOVING)
    if reason not in (MOVING, before.get("reason")):
        yield Event(reason, after["message"], warning=True)


def annotation_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning for each annotation error that the previous status did not have."""
    known = resource.status.get("annotations", ())
    for wrong in status.get("annotations", ()):
        if wrong not in known:
            yield Event("InvalidAnnotation", wrong, warning=True)


def unusable_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield warnings for a newly unusable Topic or Policy, and for annotation errors.

    ``status`` is the next status. No cluster's reconciliation includes an unusable Topic, so ``topic_events`` is never
    called for it.
    """
    yield from annotation_events(resource, status)
    before, after = _find_ready_condition(resource.status), _find_ready_condition(status)
    if after is None or after["reason"] not in _UNUSABLE_REASONS:
        return
    compared = ("reason",) if after["reason"] == Reason.UNKNOWN_CLUSTER else ("reason", "message")
    # The message of an unknown cluster names all Clusters: each new one would yield an Event for every such Topic.
    if before is None or any(before[key] != after[key] for key in compared):
        yield Event(_event_reason(after["reason"]), after["message"], warning=True)


def left_events(resource: Resource, status: Mapping[str, Any]) -> Iterator[Event]:
    """Yield a warning for each cluster that a Topic was applied on and does not declare any more.

    ``status`` is the next status.
    """
    names = {part["name"] for part in status.get("clusters", ())}
    for part in resource.status.get("clusters", ()):
        if "generation" in part and part["name"] not in names:
            message = (
                f"{part['name']}: the Topic does not declare this cluster any more; its topic and record stay there"
            )
            yield Event("LeftCluster", message, warning=True)


def topic_events(cluster: str, previous: Mapping[str, Any], result: TopicResult) -> Iterator[Event]:
    """Yield the Events of a Topic on a cluster.

    ``previous`` is the cluster's part of the Topic's previous status.
    """
    yield from _move_events(cluster, previous, result)
    made, reverted = result.written_changes
    for change in made:
        if isinstance(change, MoveReplicas) and result.moves:
            continue  # later passes continue it
        if type(change) in _CHANGE_REASONS and not (
            isinstance(change, TakeOwnership) and _is_already_owned(result.plan)
        ):
            yield Event(_CHANGE_REASONS[type(change)], f"{cluster}: {describe_changes([change])}")
    if reverted:
        yield Event(_DRIFT_CORRECTED, f"{cluster}: {describe_changes(reverted)}")
    elif previous.get("state") == SyncState.DRIFTED.value and result.state in (SyncState.SYNCED, SyncState.CHANGED):
        yield Event(_DRIFT_CORRECTED, f"{cluster}: as asked again")
    for refusal in result.refusals:
        if not refusal.reason.retryable and not _is_reported(refusal, previous.get("refusals", ())):
            yield Event(
                _event_reason(refusal.reason.value),
                f"{cluster}: {format_issue(refusal)}",
                warning=True,
            )


def _move_events(cluster: str, previous: Mapping[str, Any], result: TopicResult) -> Iterator[Event]:
    """Yield an Event when the first moves of a topic are sent, and when the last ones are done."""
    before, after = previous.get("moves"), result.moves
    had_begun = before is not None and (before["inFlight"] > 0 or before["left"] < before["total"])
    if after and after.in_flight and not had_begun:
        yield Event("MovesStarted", f"{cluster}: {format_count(after.left, 'partition')} to move")
    # The rest of the moves may also be refused, or not wanted any more; then they are not done.
    if before and had_begun and not after and before["left"] == before["inFlight"]:
        yield Event(_CHANGE_REASONS[MoveReplicas], f"{cluster}: {format_count(before['total'], 'partition')} moved")


def _is_already_owned(plan: TopicPlan | None) -> bool:
    before = plan.before.valid_record if plan and plan.before else None
    after = plan.record_after if plan else None
    return before is not None and after is not None and before.owner == after.owner


def _is_reported(refusal: Issue, before: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a status has this refusal already; hints are not compared."""
    found = describe_issue(refusal)
    return any(known["reason"] == refusal.reason and known["message"].startswith(found) for known in before)


def _find_ready_condition(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)


def _event_reason(reason: str) -> str:
    return _EVENT_REASONS.get(reason, reason)
