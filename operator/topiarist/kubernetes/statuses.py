"""What the operator writes below ``status`` of a Topic: how it stands on each cluster, and so as a whole.

Made from the views of the last pass of each cluster, or, of a cluster that has not been looked at since, from what the
status says already: a restart and an outage change nothing in it. Nothing changes on a pass that changes nothing, so a
status is written only if it differs from what the API server has. ``summaries`` has Clusters and Policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import Any

from topiarist.core.drift import Asked, asked
from topiarist.core.units import count
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.conditions import Standing, common, invalid
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.resources import Resource, complaints
from topiarist.kubernetes.words import told
from topiarist.render import text
from topiarist.render.changes import action

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

_KEPT = ("partitions", "replicationFactor", "topicId", "generation", "applied")
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

_LONGEST_PLAN = 65_536
"""Characters of a plan's text that a status has room for."""


def topic_status(
    resource: Resource, views: Mapping[str, View | None], away: Mapping[str, TopiaristError], now: str
) -> Status:
    """The status of a Topic.

    ``views`` are those of all clusters that it is meant for, None where the last pass saw nothing of it, ``away`` says
    why; ``now`` is an RFC 3339 time.
    """
    old = {name: resource.on(name) for name in views}
    new = [
        _on(name, view, old[name]) if view else _unseen(name, resource, old[name], away.get(name))
        for name, view in sorted(views.items())
        if view or old[name] or resource.manifest
    ]
    status: dict[str, Any] = {
        **common(resource, _topic(resource, new), now),
        "clusters": new,
    }
    if resource.manifest is not None:
        status["topicName"] = resource.manifest.spec.get("topicName", resource.name)
    return status


def _topic(resource: Resource, clusters: Sequence[Status]) -> Standing:
    """How a Topic stands, from its parts by cluster."""
    if resource.problems:
        return invalid(complaints(resource))
    if not clusters:
        message = "no Cluster that there is fits spec.clusters or spec.clusterSelector"
        if not resource.manifest or not {"clusters", "clusterSelector"} & resource.manifest.spec.keys():
            message = "there is not exactly one Cluster: name those that are meant in spec.clusters"
        return Standing(False, Reason.UNKNOWN_CLUSTER.value, message, stalled=True)
    worst = min((State(part["state"]) for part in clusters), key=_WORST.index)
    affected = [part for part in clusters if part["state"] == worst]
    refusals = [refusal for part in affected for refusal in part.get("refusals", ())]
    return Standing(
        ready=None if worst is State.PAUSED else worst in FINE,
        reason=refusals[0]["reason"] if refusals and worst not in _PLAIN else worst.value,
        message=_message(worst, clusters, affected),
        reconciling=worst in (State.WAITING, State.CHANGED),
        stalled=worst in (State.REFUSED, State.DRIFTED),
        drifted=any(
            refusal["reason"] == Reason.DRIFT_DETECTED for part in clusters for refusal in part.get("refusals", ())
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


def _on(name: str, view: View, old: Status) -> Status:
    """One cluster's part of a Topic's status; what the topic was asked for is kept from ``old`` unless it is new."""
    found, plan = view.found, view.plan
    status: dict[str, Any] = {"name": name, "state": view.state.value}
    if found:
        status["partitions"] = len(found.replicas)
        status["replicationFactor"] = len(found.replicas[0]) if found.replicas else 0
        if found.topic_id:
            status["topicId"] = found.topic_id
    if plan and plan.changes and view.state in (State.OBSERVED, State.PAUSED, State.WAITING):
        status["pending"] = [action([change]) for change in plan.changes[:_MOST]]
    if plan and view.state in (State.OBSERVED, State.PAUSED) and (shown := text.topic(plan)):
        status["plan"] = dedent(shown)[:_LONGEST_PLAN]
    if view.refusals:
        # Those first that the state comes from.
        refusals = sorted(view.refusals, key=lambda each: view.state is State.REFUSED and each.reason.retryable)
        status["refusals"] = [{"reason": each.reason.value, "message": told(each)} for each in refusals[:_MOST]]
    if view.state in (State.IN_STEP, State.CHANGED) and not view.candidate.spec.absent:
        status["generation"] = view.candidate.resource.generation
        status["applied"] = _applied(asked(view.candidate.spec))
    elif view.state is not State.ABSENT:
        status.update({key: old[key] for key in ("generation", "applied") if key in old})
    return status


def _unseen(name: str, resource: Resource, old: Status, why: TopiaristError | None) -> Status:
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
    status["refusals"] = [{"reason": reason.value, "message": message}]
    return status | {key: old[key] for key in _KEPT if key in old}


def _overtaken(old: Status, reason: Reason) -> bool:
    """Whether a part says no more than why its cluster could not be seen, and that reason is another one by now."""
    was = next((refusal["reason"] for refusal in old.get("refusals", ())), None)
    return was in _UNSEEN and was != reason


def _applied(now: Asked) -> Status:
    found: dict[str, Any] = {"config": dict(now.config)} if now.config else {}
    if now.partitions is not None:
        found["partitions"] = now.partitions
    if now.remove_unmanaged:
        found["removeUnmanaged"] = True
    return found
