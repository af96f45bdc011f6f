"""What the operator writes below ``status`` of a Cluster and of a Policy: how its topics stand, whether it can be used.

As ``statuses`` for Topics: nothing in it changes on a pass that changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from topiarist.core.state import ClusterState
from topiarist.core.units import count
from topiarist.errors import TopiaristError
from topiarist.kubernetes import clock
from topiarist.kubernetes.conditions import Standing, common, invalid
from topiarist.kubernetes.deletions import Deletion
from topiarist.kubernetes.passes import Seen, State, View
from topiarist.kubernetes.resources import Resource, complaints
from topiarist.kubernetes.statuses import FINE, Status

INVALID_RULE = "InvalidRule"
"""The reason of a Policy that can be read and has a rule that cannot be judged."""

_MOST = 1000
"""Deletions that a status has room for: the latest."""


def cluster_status(
    resource: Resource, seen: Seen, deletions: Sequence[Deletion], now: datetime, away: Mapping[str, str] = {}
) -> Status:
    """The status of a Cluster after a pass; after one that an error ended, the counts are those of before.

    ``deletions`` are those of the last day; ``away`` are the watched namespaces that are away, and why.
    """
    counts = _counts(seen.views) if seen.error is None else resource.status.get("topics", _counts(()))
    standing = _cluster(resource, seen.state, seen.error, counts)
    return {
        **{key: resource.status[key] for key in ("clusterId", "brokers") if key in resource.status},
        **({"clusterId": seen.state.cluster_id, "brokers": len(seen.state.brokers)} if seen.state else {}),
        **common(resource, standing, clock.seconds(now), away),
        "topics": counts,
        "deletions": [deletion.fields for deletion in deletions[-_MOST:]],
    }


def policy_status(resource: Resource, faults: Sequence[str], now: datetime) -> Status:
    """The status of a Policy; ``faults`` say what is wrong with its rules."""
    standing = Standing(True, "Judging", "its rules are judged by")
    if resource.problems:
        standing = invalid(complaints(resource))
    elif faults:
        standing = Standing(False, INVALID_RULE, "\n".join(faults), stalled=True)
    return common(resource, standing, clock.seconds(now))


def _counts(views: Iterable[View]) -> Mapping[str, int]:
    states = Counter(view.state for view in views)
    return {
        "total": states.total(),
        "ready": sum(states[state] for state in FINE),
        "drifted": states[State.DRIFTED],
        "refused": states[State.REFUSED],
    }


def _cluster(
    resource: Resource, state: ClusterState | None, error: TopiaristError | None, counts: Mapping[str, int]
) -> Standing:
    if resource.problems:
        return invalid(complaints(resource))
    if error is None and state is not None and state.gate.reason:
        return Standing(False, state.gate.reason.value, state.gate.message, stalled=not state.gate.reason.retryable)
    if error:
        retryable = error.reason.retryable
        return Standing(False, error.reason.value, str(error.args[0]), reconciling=retryable, stalled=not retryable)
    words = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number or name == "total")
    drift = f"{count(counts['drifted'], 'topic')} changed on the cluster" if counts["drifted"] else ""
    return Standing(True, "Reachable", f"topics: {words}", drift=drift)
