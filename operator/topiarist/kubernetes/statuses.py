"""What the operator writes below ``status`` of a Topic: how it stands on each cluster, and so as a whole.

Made from the views of the last pass of each cluster, or, of a cluster that has not been looked at since, from what the
status says already: a restart and an outage change nothing in it. Nothing changes on a pass that changes nothing, so a
status is written only if it differs from what the API server has. ``summaries`` has Clusters and Policies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any

from topiarist.core.change import Finding
from topiarist.core.units import count
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.conditions import Standing, common, invalid
from topiarist.kubernetes.details import Detail, details, in_words
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.permission import LET_GO
from topiarist.kubernetes.resources import FINALIZER, Resource, complaints
from topiarist.kubernetes.words import told
from topiarist.reconcile import Result
from topiarist.render import text

Status = Mapping[str, Any]

_WORST = (
    State.REFUSED,
    State.DRIFTED,
    State.WAITING,
    State.CHANGED,
    State.PAUSED,
    State.OBSERVED,
    State.IN_STEP,
    State.ABSENT,
)
"""The state that a Topic has as a whole is the first of these that it has on any of its clusters."""

FINE = frozenset({State.OBSERVED, State.IN_STEP, State.ABSENT})
"""The states in which nothing is left to do, for us or for anybody."""

_PLAIN = FINE | {State.PAUSED}
"""The states that are their own reason, whatever is refused besides."""

_UNDER_WAY = {
    State.CHANGED: "written, the controller takes it over",
    State.PAUSED: "left alone as long as topiarist.dev/paused says so",
    State.WAITING: "the controller is at work",
}

_KEPT = ("partitions", "replicationFactor", "topicId", "generation", "applied", "consent")
"""What stays true of a cluster that cannot be looked at, as far as anybody knows."""

_UNSEEN = {
    Reason.NOT_SENT,
    Reason.INVALID_MANIFEST,
    Reason.UNREACHABLE,
    Reason.NOT_A_KAFKA_CLUSTER,
    Reason.WRONG_CLUSTER,
    Reason.SESSION_LOST,
    Reason.LOCKED,
    Reason.AUTHENTICATION_FAILED,
    Reason.CREDENTIALS_INVALID,
    Reason.NO_PERMISSION,
}
"""Why a cluster cannot be seen, and so nothing of a topic on it."""

_MOST = 100
"""Refusals, and pending changes, of a topic on a cluster that a status has room for."""

_MOST_FIELDS = 50
"""Fields held back, of a topic on a cluster, that a status has room for."""

_MOST_NAMES = 10
"""Clusters that a message names."""

_MOST_COLUMN = 3
"""Clusters that a column names."""

_NAME_THEM = "Name those that are meant in spec.clusters"

_LONGEST_PLAN = 65_536
"""Characters of a plan's text that a status has room for."""


def topic_status(
    resource: Resource,
    views: Mapping[str, View | None],
    away: Mapping[str, TopiaristError],
    now: str,
    clusters: Collection[str],
) -> Status:
    """The status of a Topic.

    ``views`` are those of all clusters that it is meant for, None where the last pass saw nothing of it, ``away`` says
    why; ``now`` is an RFC 3339 time; ``clusters`` are the names of all Clusters.
    """
    old = {name: resource.on(name) for name in views}
    new = [
        _on(name, view, old[name], now) if view else _unseen(name, resource, old[name], away.get(name), now)
        for name, view in sorted(views.items())
        if view or old[name] or resource.manifest
    ]
    new += _gone(resource, views, clusters, now)
    status: dict[str, Any] = {
        **common(resource, _topic(resource, new, clusters), now),
        **_for_a_line(new),
        "clusters": new,
    }
    if resource.manifest is not None:
        status["topicName"] = resource.manifest.spec.get("topicName", resource.name)
    return status


def _for_a_line(parts: Sequence[Status]) -> Status:
    """Return what ``kubectl get`` shows in its columns: no column can list the values of several clusters."""
    names, sizes = [part["name"] for part in parts], {part["partitions"] for part in parts if "partitions" in part}
    line: dict[str, Any] = {}
    if names:
        more = f" and {len(names) - _MOST_COLUMN:,} more" if len(names) > _MOST_COLUMN else ""
        line["clusterNames"] = f"{', '.join(names[:_MOST_COLUMN])}{more}"
    if sizes:
        line["partitions"] = str(min(sizes)) if len(sizes) == 1 else f"{min(sizes)}-{max(sizes)}"
    return line


def _gone(resource: Resource, views: Collection[str], clusters: Collection[str], now: str) -> Iterator[Status]:
    """Return the parts of clusters that are gone, for a Topic that selects no cluster.

    They say where the Topic was applied. Without them the next Cluster, whatever it is, would get its topic.
    """
    if resource.names_clusters:
        return
    for part in resource.status.get("clusters", ()):
        name = part["name"]
        if "generation" in part and name not in views:
            message = f"the topic was applied there, and this Cluster is gone. {_existing(clusters)}. {_NAME_THEM}"
            refusals = _refusals([Finding(Reason.UNKNOWN_CLUSTER, message)], part, now)
            kept = {key: part[key] for key in _KEPT if key in part}
            yield {"name": name, "state": State.REFUSED.value, "refusals": refusals, **kept}


def _existing(clusters: Collection[str]) -> str:
    """Return a text that names the Clusters, as many as there is room for."""
    if not clusters:
        return "The operator's namespace has no Cluster"
    names = sorted(clusters)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"Clusters in the operator's namespace: {', '.join(names[:_MOST_NAMES])}{more}"


def _homeless(resource: Resource, clusters: Collection[str]) -> str:
    """Return why a Topic is meant for no cluster, and what to do."""
    if resource.names_clusters:
        return f"no Cluster matches spec.clusters or spec.clusterSelector. {_existing(clusters)}"
    if not clusters:
        return f"{_existing(clusters)}: create one"
    out = f"; or {LET_GO}" if resource.deleting and FINALIZER in resource.finalizers else ""
    return f"spec.clusters names no Cluster, and there are several. {_existing(clusters)}. {_NAME_THEM}{out}"


def _topic(resource: Resource, parts: Sequence[Status], clusters: Collection[str]) -> Standing:
    """How a Topic stands, from its parts by cluster."""
    if resource.problems:
        return invalid(complaints(resource))
    if not parts:
        return Standing(False, Reason.UNKNOWN_CLUSTER.value, _homeless(resource, clusters), stalled=True)
    standing = _from_parts(parts)
    if standing.ready and not resource.names_clusters and len(clusters) > 1:
        where = ", ".join(part["name"] for part in parts)
        why = f"spec.clusters names no Cluster: the topic stays on {where}"
        return standing._replace(message=f"{standing.message}. {why}. {_existing(clusters)}")
    return standing


def _from_parts(clusters: Sequence[Status]) -> Standing:
    """Return how a Topic with a part for each of its clusters stands."""
    worst = min((State(part["state"]) for part in clusters), key=_WORST.index)
    affected = [part for part in clusters if part["state"] == worst]
    refusals = [refusal for part in affected for refusal in part.get("refusals", ())]
    return Standing(
        ready=None if worst is State.PAUSED else worst in FINE,
        reason=refusals[0]["reason"] if refusals and worst not in _PLAIN else worst.value,
        message=_message(worst, clusters, affected),
        reconciling=worst in (State.WAITING, State.CHANGED),
        stalled=worst in (State.REFUSED, State.DRIFTED),
        drift="; ".join(
            f"{part['name']}: {refusal['message']}"
            for part in clusters
            for refusal in part.get("refusals", ())
            if refusal["reason"] == Reason.DRIFT_DETECTED
        ),
    )


def _message(worst: State, clusters: Sequence[Status], affected: Sequence[Status]) -> str:
    if worst is State.OBSERVED:
        pending = sum(len(part.get("pending", ())) for part in clusters)
        words = f"{count(pending, 'change')} pending, which nobody makes" if pending else "no difference"
        return f"observed on {count(len(clusters), 'cluster')}: {words}"
    if worst in FINE:
        return f"as asked on {count(len(clusters), 'cluster')}"
    first, *others = affected
    refusals = () if worst is State.PAUSED else first.get("refusals", ())
    words = refusals[0]["message"] if refusals else _UNDER_WAY[worst]
    more = f"; and {count(len(others), 'other cluster')}" if others else ""
    return f"{first['name']}: {words}{more}"


def _on(name: str, view: View, old: Status, now: str) -> Status:
    """One cluster's part of a Topic's status; ``old`` is the one before."""
    found, plan = view.found, view.plan
    status: dict[str, Any] = {"name": name, "state": view.state.value}
    if found:
        status["partitions"] = len(found.replicas)
        status["replicationFactor"] = len(found.replicas[0]) if found.replicas else 0
        if found.topic_id:
            status["topicId"] = found.topic_id
    if plan and plan.changes and view.state in (State.OBSERVED, State.PAUSED, State.WAITING):
        status["pending"] = [in_words([change]) for change in plan.changes[:_MOST]]
    if plan and view.state in (State.OBSERVED, State.PAUSED) and (shown := text.topic(plan)):
        status["plan"] = dedent(shown)[:_LONGEST_PLAN]
    if view.refusals:
        # Those first that the state comes from.
        refusals = sorted(view.refusals, key=lambda each: view.state is State.REFUSED and each.reason.retryable)
        status["refusals"] = _refusals(refusals[:_MOST], old, now)
    if view.state in (State.IN_STEP, State.CHANGED) and not view.candidate.spec.absent:
        status["generation"] = view.candidate.resource.generation
    elif view.state is not State.ABSENT and "generation" in old:
        status["generation"] = old["generation"]
    applied = _applied(view)
    if applied is not None:
        status["applied"] = applied
    if used := view.consent or old.get("consent"):
        status["consent"] = used
    return status


def _refusals(refusals: Sequence[Finding], old: Status, now: str) -> Sequence[Status]:
    """Return refusals with the fields that they hold back, each with the time since when it stands.

    A refusal stands since its reason does, a field since these values do.
    """
    before = {refusal["reason"]: refusal for refusal in old.get("refusals", ())}
    room, found = _MOST_FIELDS, []
    for refusal in refusals:
        known = before.get(refusal.reason.value, {})
        since = known.get("since", now)
        fields = [*details(refusal.held)][:room]
        room -= len(fields)
        status: dict[str, Any] = {"reason": refusal.reason.value, "message": told(refusal), "since": since}
        if fields:
            times = {(each["field"], each["found"], each["wanted"]): each["since"] for each in known.get("fields", ())}
            status["fields"] = [_field(field, times.get(field, now)) for field in fields]
        found.append(status)
    return found


def _field(field: Detail, since: str) -> Status:
    return {"field": field.field, "found": field.before, "wanted": field.after, "since": since}


def _unseen(name: str, resource: Resource, old: Status, why: TopiaristError | None, now: str) -> Status:
    """The part of a cluster of which the last pass saw nothing: as it was, unless the Topic asks for something new, or
    nothing was known but why the cluster could not be seen. One that cannot be read asks for nothing.
    """
    new = resource.manifest is not None and resource.status.get("observedGeneration") != resource.generation
    known = bool(old) and not new
    if known and not (why and _overtaken(old, why.reason)):
        return old
    hopeless = why is not None and not why.reason.retryable
    status: dict[str, Any] = {"name": name, "state": (State.REFUSED if hopeless else State.WAITING).value}
    reason, message = (why.reason, str(why.args[0])) if why else (Reason.NOT_SENT, "not looked at yet")
    status["refusals"] = _refusals([Finding(reason, message)], old, now)
    return status | {key: old[key] for key in _KEPT if key in old}


def _overtaken(old: Status, reason: Reason) -> bool:
    """Whether a part says no more than why its cluster could not be seen, and that reason is another one by now."""
    was = next((refusal["reason"] for refusal in old.get("refusals", ())), None)
    return was in _UNSEEN and was != reason


def _applied(view: View) -> Status | None:
    """What the record in ZooKeeper remembers of the spec that the topic met last: a view of it, which nothing asks."""
    done = view.outcome is not None and view.outcome.result in (Result.DONE, Result.ALREADY)
    record = view.plan.record_after if view.plan and done else view.found.valid_record if view.found else None
    if record is None or record.applied is None:
        return None
    found: dict[str, Any] = {"config": dict(record.applied.config)} if record.applied.config else {}
    if record.applied.partitions is not None:
        found["partitions"] = record.applied.partitions
    if record.applied.remove_unmanaged:
        found["removeUnmanaged"] = True
    return found
