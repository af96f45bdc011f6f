"""What the operator writes below ``status``: of a Topic by its clusters, of a Cluster as a whole, of a Policy.

Made from the views of the last pass of each cluster. Nothing in a status changes on a pass that changes nothing, so it
is written only if it differs from what the API server has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topiarist.core.change import Finding
from topiarist.core.drift import Asked, asked
from topiarist.core.units import count
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.conditions import Standing, conditions
from topiarist.kubernetes.passes import State, View
from topiarist.kubernetes.resources import Resource, complaints
from topiarist.kubernetes.words import told
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

_FINE = {State.OBSERVED, State.IN_STEP, State.ABSENT}


def topic_status(resource: Resource, views: Mapping[str, View], now: str) -> Status:
    """The status of a Topic; ``views`` are its views by cluster, of those that have been looked at."""
    old = {each["name"]: each for each in resource.status.get("clusters", ())}
    status: dict[str, Any] = {
        "observedGeneration": resource.generation,
        "conditions": conditions(
            _topic(resource, views), resource.generation, resource.status.get("conditions", ()), now
        ),
        "clusters": [_on(name, view, old.get(name, {})) for name, view in sorted(views.items())],
    }
    if views:
        status["topicName"] = next(iter(views.values())).candidate.spec.topic
    return status


def last_asked(resource: Resource, cluster: str) -> Asked | None:
    """What a Topic was asked for when it last was as asked on a cluster; None if it never was."""
    for each in resource.status.get("clusters", ()):
        if each["name"] == cluster and "applied" in each:
            applied = each["applied"]
            return Asked(applied.get("partitions"), applied.get("config", {}), applied.get("removeUnmanaged", False))
    return None


def _topic(resource: Resource, views: Mapping[str, View]) -> Standing:
    if resource.problems:
        found = [*complaints(resource)]
        return Standing(False, Reason.INVALID_MANIFEST.value, "\n".join(found), stalled=True)
    if not views:
        message = "no Cluster that there is fits spec.clusters or spec.clusterSelector"
        return Standing(False, Reason.UNKNOWN_CLUSTER.value, message, stalled=True)
    worst = min((view.state for view in views.values()), key=_WORST.index)
    return Standing(
        ready=None if worst is State.PAUSED else worst in _FINE,
        reason=_reason(worst, views),
        message=_message(worst, views),
        reconciling=worst in (State.WAITING, State.CHANGED),
        stalled=worst in (State.REFUSED, State.DRIFTED),
        drifted=any(_drifted(view) for view in views.values()),
    )


def _drifted(view: View) -> bool:
    return any(refusal.reason is Reason.DRIFT_DETECTED for refusal in view.refusals)


def _reason(worst: State, views: Mapping[str, View]) -> str:
    refusals = [refusal for view in views.values() if view.state is worst for refusal in _shown(view)]
    return refusals[0].reason.value if refusals else worst.value


def _shown(view: View) -> Sequence[Finding]:
    """The refusals of a view, those first that its state comes from."""
    order = (lambda each: each.reason.retryable) if view.state is State.REFUSED else (lambda each: False)
    return sorted(view.refusals, key=order)


def _message(worst: State, views: Mapping[str, View]) -> str:
    affected = {name: view for name, view in sorted(views.items()) if view.state is worst}
    if worst in _FINE:
        return f"as asked on {count(len(views), 'cluster')}"
    name, view = next(iter(affected.items()))
    words = told(_shown(view)[0]) if view.refusals else _under_way(view)
    more = f"; and {count(len(affected) - 1, 'other cluster')}" if len(affected) > 1 else ""
    return f"{name}: {words}{more}"


def _under_way(view: View) -> str:
    if view.state is State.PAUSED:
        return "left alone as long as topiarist.dev/paused says so"
    if view.plan and view.plan.changes:
        return f"{action(view.plan.changes)}: written, the controller takes over"
    return "the controller is at work"


def _on(name: str, view: View, old: Mapping[str, Any]) -> Status:
    """One cluster's part of a Topic's status; what the topic was asked for is kept from ``old`` unless it is new."""
    found, plan = view.found, view.plan
    status: dict[str, Any] = {"name": name, "state": view.state.value}
    if found:
        status["partitions"] = len(found.replicas)
        status["replicationFactor"] = len(found.replicas[0]) if found.replicas else 0
        if found.topic_id:
            status["topicId"] = found.topic_id
    if plan and plan.changes and view.state in (State.OBSERVED, State.PAUSED, State.WAITING):
        status["pending"] = [action([change]) for change in plan.changes]
    if view.refusals:
        status["refusals"] = [{"reason": each.reason.value, "message": told(each)} for each in view.refusals[:100]]
    if view.state in (State.IN_STEP, State.CHANGED) and not view.candidate.spec.absent:
        status["generation"] = view.candidate.resource.generation
        status["applied"] = _applied(asked(view.candidate.spec))
    elif view.state is not State.ABSENT:
        status.update({key: old[key] for key in ("generation", "applied") if key in old})
    return status


def _applied(now: Asked) -> Status:
    found: dict[str, Any] = {"config": dict(now.config)} if now.config else {}
    if now.partitions is not None:
        found["partitions"] = now.partitions
    if now.remove_unmanaged:
        found["removeUnmanaged"] = True
    return found


def cluster_status(
    resource: Resource, views: Iterable[View], error: TopiaristError | None, facts: Mapping[str, Any], now: str
) -> Status:
    """The status of a Cluster; ``facts`` are further fields, as its id and the number of brokers."""
    states = Counter(view.state for view in views)
    counts = {
        "total": states.total(),
        "ready": sum(states[state] for state in _FINE),
        "drifted": states[State.DRIFTED],
        "refused": states[State.REFUSED],
    }
    standing = _cluster(resource, error, counts)
    old = resource.status.get("conditions", ())
    return {
        "observedGeneration": resource.generation,
        "conditions": conditions(standing, resource.generation, old, now),
        "topics": counts,
        **facts,
    }


def _cluster(resource: Resource, error: TopiaristError | None, counts: Mapping[str, int]) -> Standing:
    if resource.problems:
        return Standing(False, Reason.INVALID_MANIFEST.value, "\n".join(complaints(resource)), stalled=True)
    if error:
        retryable = error.reason.retryable
        return Standing(False, error.reason.value, str(error.args[0]), reconciling=retryable, stalled=not retryable)
    words = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "total")
    return Standing(True, "Reachable", f"topics: {words}", drifted=counts["drifted"] > 0)


def policy_status(resource: Resource, faults: Sequence[str], now: str) -> Status:
    """The status of a Policy; ``faults`` say what is wrong with its rules."""
    wrong = [*complaints(resource), *faults]
    standing = (
        Standing(False, Reason.INVALID_MANIFEST.value, "\n".join(wrong), stalled=True)
        if wrong
        else Standing(True, "Judging", "its rules are judged by")
    )
    old = resource.status.get("conditions", ())
    return {
        "observedGeneration": resource.generation,
        "conditions": conditions(standing, resource.generation, old, now),
    }


def differs(resource: Resource, status: Status) -> bool:
    """Whether a status says anything that the API server does not have."""
    return {key: resource.status.get(key) for key in status} != status or bool(_gone(resource, status))


def _gone(resource: Resource, status: Status) -> Iterator[str] | list[str]:
    return [key for key in resource.status if key not in status]
