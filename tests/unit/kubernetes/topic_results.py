"""The result of a pass for one topic, built without a pass from the fields that a test names."""

from __future__ import annotations

from typing import Any

from support.kubernetes import resource_bodies
from topiarist.desired import parse
from topiarist.desired.merge import merge
from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import Candidate
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.model.plan import Issue
from topiarist.model.spec import ClusterSpec

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"

DEFAULT_REASONS = {
    SyncState.DRIFTED: Reason.DRIFT_DETECTED,
    SyncState.REFUSED: Reason.DATA_LOSS,
    SyncState.WAITING: Reason.REASSIGNMENT_IN_PROGRESS,
}
"""The refusal of a topic for tests that need only its state."""


def spec_of(cluster_resource: Resource) -> ClusterSpec:
    """Return the spec of a Cluster."""
    assert cluster_resource.manifest is not None
    return parse.parse_cluster_spec(cluster_resource.manifest)


def make_result(
    topic: Resource, state: SyncState, *reasons: Reason, cluster_resource: Resource | None = None, **fields: Any
) -> TopicResult:
    """Return a topic result with a refusal for each of these reasons, or for the default reason of the state."""
    assert topic.manifest is not None
    found = reasons or ((DEFAULT_REASONS[state],) if state in DEFAULT_REASONS else ())
    refusals = tuple(Issue(reason, f"because of {reason}") for reason in found)
    candidate = Candidate(topic, merge(topic.manifest, spec_of(cluster_resource or resource_bodies.cluster())))
    return TopicResult(candidate, state, refusals=refusals, **fields)
