"""Passes of the operator over a cluster in memory, their results for each topic, and results without a pass."""

from __future__ import annotations

import re
from typing import Any

from support import builders
from support.kubernetes import resource_bodies
from support.memory_cluster import MemoryCluster
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kubernetes.cache import Candidate, build_candidate, select_candidates
from topiarist.kubernetes.reconciler import ReconcileRequest, SyncState, TopicResult, reconcile_cluster
from topiarist.kubernetes.resources import FINALIZER, Resource
from topiarist.model.plan import Issue
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState

OWNER = "k8s/shop/topiarist"
DELETING_META = {"deletionTimestamp": "2026-02-01T00:00:00Z", "finalizers": [FINALIZER]}
SHORT, LONG = "3600000", "604800000"


def make_request(cluster_resource: Resource, *topics: Resource, **fields: Any) -> ReconcileRequest:
    """Return the request of a pass over the cluster ``cluster_resource`` for these Topics."""
    assert cluster_resource.manifest is not None
    spec = parse.parse_cluster_spec(cluster_resource.manifest)
    specs = [build_candidate(each, merge(each.manifest, spec)) for each in topics if each.manifest is not None]
    return ReconcileRequest(
        cluster_resource, spec, select_candidates(spec, cluster_resource.namespace, specs, {}), OWNER, **fields
    )


def reconcile_topics(port: MemoryCluster, request: ReconcileRequest) -> dict[str, TopicResult]:
    """Run a pass, and return the result of each topic."""
    seen = reconcile_cluster(port, request, lambda: False)
    assert seen.error is None
    return {view.candidate.spec.topic: view for view in seen.topic_results}


def refusal_reasons(view: TopicResult) -> list[Reason]:
    """Return the reasons of the refusals."""
    return [refusal.reason for refusal in view.refusals]


def owned_topic(name: str, partitions: int = 3, **config: str) -> TopicState:
    """Return a topic on the cluster that the operator owns."""
    named = {key.replace("_", "."): text for key, text in config.items()}
    return builders.topic(name, partitions, *sorted(named), config=named, owner=OWNER)


def approval_command(view: TopicResult) -> tuple[str, str]:
    """Return the annotation and its value from the command in the first refusal of a topic."""
    (found,) = re.findall(r" (topiarist\.dev/[a-z-]+)=(sha256:[0-9a-f]{16})", view.refusals[0].hint)
    return str(found[0]), str(found[1])


def with_approval(cluster_resource: Resource, topic: Resource, state: ClusterState) -> Resource:
    """Return the Topic after its owner ran the command of the refusal."""
    annotation, digest = approval_command(
        reconcile_topics(MemoryCluster(state), make_request(cluster_resource, topic))[topic.topic_name]
    )
    return resource_bodies.updated_body(topic, annotations={annotation: digest})


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
