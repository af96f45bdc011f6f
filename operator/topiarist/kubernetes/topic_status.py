"""The status of a Topic: its state on each cluster, and its conditions as a whole.

``manager`` calls ``topic_status`` with the results of the last reconciliation of each cluster. The part of a cluster
that was not read since is copied from the existing status, so a restart or an outage changes nothing. A reconciliation
without changes yields an equal status, so a status is written only if it differs from the API server's. The statuses
of Clusters and Policies are in ``status.cluster``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any, NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import count_replicas
from topiarist.kubernetes import approval
from topiarist.kubernetes.client import ApiError
from topiarist.kubernetes.moves import TopicMoves
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.kubernetes.resources import Resource, error_texts
from topiarist.model.plan import Issue
from topiarist.output.groups import describe_changes, list_field_changes
from topiarist.output.text import plan as plan_
from topiarist.text import format_count, list_first

# Conditions of a resource, in the form that ``kubectl wait`` and kstatus read.
#
# ``topic_status`` and ``cluster_status`` build a ``ReadyCondition``; ``common_status`` turns it into the list.
# ``Ready``: the resource is as specified. ``Reconciling``: work is in progress and needs no user. ``Stalled``: the user
# has to act. ``DriftDetected``: the cluster has external changes. All four are always present. ``Moving``: replicas are
# moved; present from the first move on. ``lastTransitionTime`` is kept while the status is the same, so a
# reconciliation without changes yields equal conditions.

NAMESPACE_UNAVAILABLE = "NamespaceAway"
"""The condition of a Cluster, and its reason, while a watched namespace is unavailable."""

RIGHTS_MISSING = "RightsMissing"
"""The condition of a Cluster, and its reason, while the operator lacks a right that it had at the start."""

MOVING = "Moving"
"""The condition of a Topic or Cluster, and its usual reason, while replicas are moved."""

MAX_MESSAGE_BYTES = 1024
"""Maximum bytes of a message: the limit of an Event. A Topic's parts by cluster have the full text."""


class MovingCondition(NamedTuple):
    """The values of the condition ``Moving`` while replicas are moved; ``reason`` names the problem of a stall."""

    message: str
    reason: str = MOVING


class ReadyCondition(NamedTuple):
    """The values from which the conditions of a resource are built.

    ``ready`` is None if unknown. ``reason`` is in CamelCase. ``drift`` describes the external changes on the cluster;
    empty if there are none. ``moving`` is None if no replica is moved.
    """

    ready: bool | None
    reason: str
    message: str
    reconciling: bool = False
    stalled: bool = False
    drift: str = ""
    moving: MovingCondition | None = None


def invalid_condition(errors: Iterable[str]) -> ReadyCondition:
    """Return the condition of an invalid resource; ``errors`` has one text for each problem."""
    return ReadyCondition(False, Reason.INVALID_MANIFEST.value, "\n".join(errors), stalled=True)


def common_status(
    resource: Resource, ready_condition: ReadyCondition, now: str, alarms: Mapping[str, str] = {}
) -> Mapping[str, Any]:
    """Return the fields that every status has: observed generation, conditions, annotation errors.

    ``now`` is an RFC 3339 time. ``alarms`` maps further conditions to their messages; each is present only while it is
    True. ``annotations`` is left out if there are no annotation errors.
    """
    generation, wrong = resource.generation, approval.annotation_errors(resource)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        # Prepend the error: a message may end with a command that the user copies.
        ready_condition = ready_condition._replace(message=f"annotation {wrong[0]}{more}. {ready_condition.message}")
    values = _condition_values(resource, ready_condition, alarms)
    conditions = [*_make_conditions(resource, values, now, observedGeneration=generation)]
    status = {"observedGeneration": generation, "conditions": conditions}
    return {**status, "annotations": wrong} if wrong else status


Status = Mapping[str, Any]

ConditionValues = tuple[str, str, str, str]
"""Type, status, reason and message of a condition."""


def _make_conditions(resource: Resource, values: Iterable[ConditionValues], now: str, **more: Any) -> Iterator[Status]:
    """Yield conditions with ``more`` fields, each since it has its status; others may have written no time."""
    known = {condition.get("type"): condition for condition in resource.status.get("conditions", ())}
    for name, status, reason, message in values:
        before = known.get(name, {})
        since = str(before.get("lastTransitionTime", now)) if before.get("status") == status else now
        fields = {"lastTransitionTime": since, "reason": reason, "message": truncate_message(message)}
        yield {"type": name, "status": status, **more, **fields}


def _condition_values(
    resource: Resource, ready_condition: ReadyCondition, alarms: Mapping[str, str]
) -> Iterator[ConditionValues]:
    """Yield the values of each condition; one that is False has no message, except ``Ready``.

    ``Moving`` stays after the last move, as False, so that users can wait for it.
    """
    message, reason, drift = ready_condition.message, ready_condition.reason, ready_condition.drift
    yield "Ready", "Unknown" if ready_condition.ready is None else str(ready_condition.ready), reason, message
    for name, is_true in (("Reconciling", ready_condition.reconciling), ("Stalled", ready_condition.stalled)):
        yield name, str(is_true), reason, message if is_true else ""
    yield "DriftDetected", str(bool(drift)), Reason.DRIFT_DETECTED.value if drift else reason, drift
    if moving := ready_condition.moving:
        yield MOVING, "True", moving.reason, moving.message
    elif any(condition.get("type") == MOVING for condition in resource.status.get("conditions", ())):
        yield MOVING, "False", reason, ""
    yield from ((name, "True", name, words) for name, words in alarms.items())


def truncate_message(text: str) -> str:
    """Return the text cut to ``MAX_MESSAGE_BYTES`` bytes of UTF-8, never within a character."""
    whole = text.encode()
    return text if len(whole) <= MAX_MESSAGE_BYTES else f"{whole[: MAX_MESSAGE_BYTES - 3].decode(errors='ignore')}..."


READY_STATES = frozenset({SyncState.OBSERVED, SyncState.SYNCED, SyncState.ABSENT})
"""The states in which neither the operator nor the user has anything left to do."""

_SELF_EXPLANATORY_STATES = READY_STATES | {SyncState.PAUSED}
"""The states that are used as the condition's reason even if the topic has refusals."""

_STATE_MESSAGES = {
    SyncState.CHANGED: "written, not yet initialized by the controller",
    SyncState.MOVING: "replicas are moved",
    SyncState.PAUSED: "not changed while topiarist.dev/paused is set",
    SyncState.WAITING: "the controller has not finished yet",
}

_PENDING_STATES = frozenset({SyncState.OBSERVED, SyncState.PAUSED, SyncState.WAITING, SyncState.MOVING})
"""The states in which a status lists the changes that are left."""

_RETAINED_FIELDS = (
    "partitions",
    "replicationFactor",
    "topicId",
    "generation",
    "applied",
    "consent",
    "moves",
    approval.STEP_TIME,
)
"""Fields that are kept from the previous status while a cluster cannot be read."""

_CLUSTER_UNREAD_REASONS = {
    Reason.NOT_SENT,
    Reason.INVALID_MANIFEST,
    Reason.UNREACHABLE,
    Reason.NOT_A_KAFKA_CLUSTER,
    Reason.WRONG_CLUSTER,
    Reason.CLUSTER_CONFLICT,
    Reason.SESSION_LOST,
    Reason.LOCKED,
    Reason.AUTHENTICATION_FAILED,
    Reason.CREDENTIALS_INVALID,
    Reason.NO_PERMISSION,
    Reason.PREREQUISITE_MISSING,
}
"""Reasons for which a cluster, and so a topic on it, cannot be read."""

_CLUSTER_REFUSED_REASONS = {Reason.WRONG_CLUSTER, Reason.CLUSTER_CONFLICT}
"""Reasons for which a Cluster is not served, so that the previous state of its topics is not kept."""

_MAX_ITEMS = 100
"""Maximum number of refusals, and of pending changes, that a status lists for a topic on one cluster."""

_MAX_FIELDS = 50
"""Maximum number of withheld fields that a status lists for a topic on one cluster."""

_MAX_NAMES = 10
"""Maximum number of clusters that a message names."""

_MAX_COLUMN_NAMES = 3
"""Maximum number of clusters that a printer column names."""

_HINT_NAME_CLUSTERS = "Name the target Clusters in spec.clusters"

_MAX_PLAN_LENGTH = 65_536
"""Maximum number of characters of a plan's text in a status."""


def topic_status(
    resource: Resource,
    results: Mapping[str, TopicResult | None],
    read_errors: Mapping[str, TopiaristError],
    now: str,
    clusters: Collection[str],
) -> Status:
    """Return the status of a Topic.

    ``results`` maps each target cluster of the Topic to its result, None if the last reconciliation did not read the
    topic; ``read_errors`` has the reason by cluster. ``now`` is an RFC 3339 time. ``clusters`` are the names of all
    Clusters. The status has no ``topicName`` if the Topic cannot be read.
    """
    old = {name: resource.status_on(name) for name in results}
    new = [
        _cluster_part(name, view, old[name], now)
        if view
        else _unread_cluster_part(name, resource, old[name], read_errors.get(name), now)
        for name, view in sorted(results.items())
        if view or old[name] or resource.manifest
    ]
    new += _removed_cluster_parts(resource, results, clusters, now)
    status: dict[str, Any] = {
        **common_status(resource, _topic_condition(resource, new, clusters), now),
        **_printer_columns(new),
        "clusters": new,
    }
    if resource.manifest is not None:
        status["topicName"] = resource.manifest.spec.get("topicName", resource.name)
    return status


def kafka_topic_status(resource: Resource, topic: Status, issue: Issue | None, now: str) -> Status:
    """Return the status of a KafkaTopic in the form of Strimzi's operator.

    ``topic`` is the status that a Topic would have, ``issue`` holds the KafkaTopic as a whole. ``Ready`` is True or
    False; ``Unmanaged`` or ``ReconciliationPaused`` stands in its place; a ``Warning`` has errors of annotations.
    """
    ready = next(each for each in topic["conditions"] if each["type"] == "Ready")
    kind, status, reason, message = "Ready", ready["status"], ready["reason"], ready["message"]
    paused = approval.is_paused_as_in_strimzi(resource) or status == "Unknown"
    if issue:
        status, reason, message = "False", issue.reason.value, approval.format_issue(issue)
    elif approval.is_unmanaged(resource):
        kind, status, reason = "Unmanaged", "True", "Unmanaged"
        message = "not changed while strimzi.io/managed is false"
    elif paused:
        kind, status, reason = "ReconciliationPaused", "True", SyncState.PAUSED.value
        message = message if reason == ready["reason"] else "not changed while strimzi.io/pause-reconciliation is true"
    conditions = [(kind, status, reason, message)]
    if wrong := topic.get("annotations"):
        conditions.append(("Warning", "True", "InvalidAnnotation", "; ".join(wrong)))
    topic_id = next(
        (part["topicId"] for part in topic["clusters"] if "topicId" in part), resource.status.get("topicId")
    )
    return {
        "conditions": [*_make_conditions(resource, conditions, now)],
        # As in Strimzi, a paused resource keeps the generation that was seen before.
        "observedGeneration": resource.status.get("observedGeneration", 0)
        if kind == "ReconciliationPaused"
        else resource.generation,
        "topicName": resource.status.get("topicName") or resource.topic_name,
        **({"topicId": topic_id} if topic_id else {}),
    }


def applied_clusters(resource: Resource, results: Mapping[str, TopicResult | None]) -> Sequence[str]:
    """Return the clusters on which a Topic that selects none was applied, also those that exist no longer, sorted.

    ``results`` are those of ``topic_status``. A cluster without the topic does not count. The clusters of a Topic that
    is being deleted stay as they are.
    """
    if resource.deleting:
        return resource.applied_clusters
    if resource.has_cluster_selection:
        return []
    names = {*resource.applied_clusters}
    for name, result in results.items():
        if result and result.state is SyncState.ABSENT:
            names.discard(name)
        elif result and result.state in (SyncState.SYNCED, SyncState.CHANGED) and not result.candidate.spec.absent:
            names.add(name)
    return sorted(names)


def unheld_topic_status(resource: Resource, status: Status, error: ApiError, now: str) -> Status:
    """Return ``status`` for a Topic that has no finalizer yet because of ``error``.

    Such a Topic is not ready: its deletion would keep its topic.
    """
    message = f"the finalizer that holds a deletion cannot be written: {error}"
    condition = ReadyCondition(
        False, error.reason.value, message, reconciling=not error.forbidden, stalled=error.forbidden
    )
    return {**status, **common_status(resource, condition, now)}


def _printer_columns(parts: Sequence[Status]) -> Status:
    """Return the values of the ``kubectl get`` columns.

    A printer column cannot list the values of several clusters, so the status holds them as text. A value that is not
    known is left out.
    """
    names, sizes = [part["name"] for part in parts], {part["partitions"] for part in parts if "partitions" in part}
    line: dict[str, Any] = {}
    if names:
        line["clusterNames"] = list_first(names, _MAX_COLUMN_NAMES)
    if sizes:
        line["partitions"] = str(min(sizes)) if len(sizes) == 1 else f"{min(sizes)}-{max(sizes)}"
    return line


def _removed_cluster_parts(
    resource: Resource, results: Collection[str], clusters: Collection[str], now: str
) -> Iterator[Status]:
    """Yield the parts of clusters that a Topic still has, and that have no Cluster.

    A Topic that selects no cluster stays where it was applied: any Cluster that is created next would get its topic
    otherwise. A name in ``spec.clusters`` counts if the Topic has another cluster; without one, the Topic as a whole
    is without a Cluster, and another release may have it.
    """
    names, hint = resource.applied_clusters, _HINT_NAME_CLUSTERS
    why = "the topic was applied there, and this Cluster was deleted"
    if resource.has_cluster_selection:
        named = resource.declared_spec.get("clusters", ()) if results else ()
        names, why = sorted({*named} - {*clusters}), "there is no such Cluster"
        hint = "Create it, or remove it from spec.clusters"
    for name in names:
        if name in results:
            continue
        part = resource.status_on(name)
        message = f"{why}. {_format_cluster_names(clusters)}. {hint}"
        refusals = _refusal_entries([Issue(Reason.UNKNOWN_CLUSTER, message)], part, now)
        kept = {key: part[key] for key in _RETAINED_FIELDS if key in part and key != "moves"}
        yield {"name": name, "state": SyncState.REFUSED.value, "refusals": refusals, **kept}


def _format_cluster_names(clusters: Collection[str]) -> str:
    if not clusters:
        return "The operator's namespace has no Cluster"
    return f"Clusters in the operator's namespace: {list_first(sorted(clusters), _MAX_NAMES)}"


def _topic_condition(resource: Resource, parts: Sequence[Status], clusters: Collection[str]) -> ReadyCondition:
    names = _format_cluster_names(clusters)
    if resource.errors:
        return invalid_condition(filter(None, (*error_texts(resource), _release_hint(resource))))
    if not parts:
        if resource.has_cluster_selection:
            message = f"no Cluster matches spec.clusters or spec.clusterSelector. {names}"
        elif not clusters:
            message = f"{names}: create one"
        else:
            hints = "; or ".join(filter(None, (_HINT_NAME_CLUSTERS, _release_hint(resource))))
            message = f"spec.clusters names no Cluster, and there are several. {names}. {hints}"
        return ReadyCondition(False, Reason.UNKNOWN_CLUSTER.value, message, stalled=True)
    condition = _condition_from_parts(parts, is_paused=approval.is_paused(resource))
    if condition.ready and not resource.has_cluster_selection and len(clusters) > 1:
        where = ", ".join(part["name"] for part in parts)
        why = f"spec.clusters names no Cluster: the topic stays on {where}"
        return condition._replace(message=f"{condition.message}. {why}. {names}")
    return condition


def _release_hint(resource: Resource) -> str:
    """Return how to end a deletion that waits for a cluster or a readable spec; empty if none waits."""
    return approval.HINT_RETAIN if resource.deleting and not resource.is_released else ""


def _condition_from_parts(clusters: Sequence[Status], *, is_paused: bool) -> ReadyCondition:
    """Return the ready condition of a Topic that has a part for each of its clusters.

    The cluster with the worst state decides; a paused Topic has the status ``Unknown``. ``is_paused``: the Topic
    itself is paused, and not only a Cluster.
    """
    worst = min((SyncState(part["state"]) for part in clusters), key=[*SyncState].index)
    affected = [part for part in clusters if part["state"] == worst]
    refusals = [refusal for part in affected for refusal in part.get("refusals", ())]
    moving = _moving_condition(clusters)
    reason = refusals[0]["reason"] if refusals and worst not in _SELF_EXPLANATORY_STATES else worst.value
    message = _condition_message(worst, clusters, affected)
    if worst is SyncState.PAUSED and not is_paused:
        message = f"{message} on the Cluster"
    if worst is SyncState.MOVING and moving is not None:
        reason, message = moving.reason, moving.message
    held = worst is SyncState.MOVING and reason != MOVING
    return ReadyCondition(
        ready=None if worst is SyncState.PAUSED else worst in READY_STATES,
        reason=reason,
        message=message,
        reconciling=worst in (SyncState.WAITING, SyncState.MOVING, SyncState.CHANGED) and not held,
        stalled=worst in (SyncState.REFUSED, SyncState.DRIFTED) or held,
        drift="; ".join(
            f"{part['name']}: {refusal['message']}"
            for part in clusters
            for refusal in part.get("refusals", ())
            if refusal["reason"] == Reason.DRIFT_DETECTED
        ),
        moving=moving,
    )


def _moving_condition(clusters: Sequence[Status]) -> MovingCondition | None:
    """Return the condition of the moves of a Topic, None if there are none; a stall on any cluster comes first."""
    moving = [part for part in clusters if "moves" in part]
    if not moving:
        return None
    first, *others = sorted(moving, key=lambda part: part["moves"]["reason"] == MOVING)
    more = f"; and {format_count(len(others), 'other cluster')}" if others else ""
    return MovingCondition(f"{first['name']}: {first['moves']['message']}{more}", first["moves"]["reason"])


def _condition_message(worst: SyncState, clusters: Sequence[Status], affected: Sequence[Status]) -> str:
    if worst is SyncState.OBSERVED:
        pending = sum(len(part.get("pending", ())) for part in clusters)
        words = (
            f"{format_count(pending, 'change')} pending, not made because the topic is only observed"
            if pending
            else "no difference"
        )
        return f"observed on {format_count(len(clusters), 'cluster')}: {words}"
    if worst in READY_STATES:
        return f"as declared on {format_count(len(clusters), 'cluster')}"
    first, *others = affected
    refusals = () if worst is SyncState.PAUSED else first.get("refusals")
    words = refusals[0]["message"] if refusals else _STATE_MESSAGES[worst]
    more = f"; and {format_count(len(others), 'other cluster')}" if others else ""
    return f"{first['name']}: {words}{more}"


def _cluster_part(name: str, result: TopicResult, old: Status, now: str) -> Status:
    found, plan = result.actual, result.plan
    status: dict[str, Any] = {"name": name, "state": result.state.value}
    if found:
        status["partitions"] = len(found.replicas)
        # A partition in flight has its old replicas and its new ones; the first one that is not gives the factor.
        pairs = zip(found.partition_ids, found.replicas, strict=True)
        settled = [
            count_replicas(replicas) for partition, replicas in pairs if partition not in found.reassigning_partitions
        ]
        factor = settled[0] if settled else old.get("replicationFactor")
        if factor is not None:
            status["replicationFactor"] = factor
        if found.topic_id:
            status["topicId"] = found.topic_id
    if plan and plan.changes and result.state in _PENDING_STATES:
        status["pending"] = [describe_changes([change]) for change in plan.changes[:_MAX_ITEMS]]
    if plan and result.state in (SyncState.OBSERVED, SyncState.PAUSED) and (shown := plan_.format_topic_plan(plan)):
        status["plan"] = dedent(shown)[:_MAX_PLAN_LENGTH]
    if result.refusals:
        # Refusals that caused the state come first: the condition takes its reason from the first refusal.
        refusals = sorted(result.refusals, key=lambda each: result.state is SyncState.REFUSED and each.reason.retryable)
        status["refusals"] = _refusal_entries(refusals[:_MAX_ITEMS], old, now)
    if result.moves:
        status["moves"] = _moves_status(result, result.moves, old)
    if result.state in (SyncState.SYNCED, SyncState.CHANGED) and not result.candidate.spec.absent:
        status["generation"] = result.candidate.resource.generation
    elif result.state is not SyncState.ABSENT and "generation" in old:
        status["generation"] = old["generation"]
    applied = _applied_spec(result)
    if applied is not None:
        status["applied"] = applied
    if last_step := approval.step_time(plan, result.record):
        status[approval.STEP_TIME] = last_step
    if used := result.record.memory.consent if result.record else "":
        status["consent"] = used
    return status


def _moves_status(result: TopicResult, moves: TopicMoves, old: Status) -> Status:
    """Return what is left of the moves of a topic; the total is kept from ``old``, which survives a restart.

    Moves that are added later, by another change of the spec, count as well.
    """
    before = old.get("moves", {})
    moved = before.get("total", 0) - before.get("left", 0)
    total = max(before.get("total", 0), moved + moves.left)
    message = f"{total - moves.left:,} of {format_count(total, 'partition')} moved"
    if moves.in_flight:
        message += f", batch {moves.batch:,} of {moves.batches:,}"
    problem = result.move_problem
    if problem:
        message += f": {approval.format_issue(problem)}"
    reason = problem.reason.value if problem else MOVING
    return {"total": total, "left": moves.left, "inFlight": moves.in_flight, "reason": reason, "message": message}


def _refusal_entries(refusals: Sequence[Issue], old: Status, now: str) -> Sequence[Status]:
    """Return the status entries of refusals, each with its withheld fields and its ``since`` time.

    ``since`` is kept from ``old`` while a refusal has the same reason, and while a field has the same values.
    """
    before = {refusal["reason"]: refusal for refusal in old.get("refusals", ())}
    room, found = _MAX_FIELDS, []
    for refusal in refusals:
        known = before.get(refusal.reason.value, {})
        since = known.get("since", now)
        fields = [*list_field_changes(refusal.withheld)][:room]
        room -= len(fields)
        status: dict[str, Any] = {
            "reason": refusal.reason.value,
            "message": approval.format_issue(refusal),
            "since": since,
        }
        if fields:
            times = {
                (each["field"], each["actual"], each["desired"]): each["since"] for each in known.get("fields", ())
            }
            status["fields"] = [
                {"field": each.field, "actual": each.before, "desired": each.after, "since": times.get(each, now)}
                for each in fields
            ]
        found.append(status)
    return found


def _unread_cluster_part(name: str, resource: Resource, old: Status, error: TopiaristError | None, now: str) -> Status:
    """Return the part of a cluster that the last reconciliation could not read.

    The part is ``old`` if there is one, unless the Topic has a new generation, ``old`` only has a read error that was
    superseded, or the Cluster is refused. The generation of a Topic that cannot be read does not count as new.
    """
    new = resource.manifest is not None and resource.status.get("observedGeneration") != resource.generation
    known = bool(old) and not new
    was = next((refusal["reason"] for refusal in old.get("refusals", ())), None)
    is_superseded = error is not None and was in _CLUSTER_UNREAD_REASONS and was != error.reason
    is_refused = error is not None and error.reason in _CLUSTER_REFUSED_REASONS
    if known and not is_superseded and not is_refused:
        return old
    hopeless = error is not None and not error.reason.retryable
    status: dict[str, Any] = {"name": name, "state": (SyncState.REFUSED if hopeless else SyncState.WAITING).value}
    reason, message = (error.reason, error.message) if error else (Reason.NOT_SENT, "not reconciled yet")
    status["refusals"] = _refusal_entries([Issue(reason, message, hint=_release_hint(resource))], old, now)
    return status | {key: old[key] for key in _RETAINED_FIELDS if key in old}


def _applied_spec(result: TopicResult) -> Status | None:
    """Return the spec that was last applied, from the ownership record.

    Return None if there is no record, or the record has no applied spec. The result is for display only.
    """
    record = result.record
    if record is None or record.applied is None:
        return None
    found: dict[str, Any] = {"config": dict(record.applied.config)} if record.applied.config else {}
    if record.applied.partitions is not None:
        found["partitions"] = record.applied.partitions
    if record.applied.remove_unmanaged:
        found["removeUnmanaged"] = True
    return found
