"""The inputs of a run for a caller in Python: manifests, and the states of clusters.

``planning`` and ``applying`` start from the same settings. ``load_manifests`` needs no cluster, and ``read_clusters``
no topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from topiarist.errors import Diagnostic, TopiaristError
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState
from topiarist.ports import PartitionInspector
from topiarist.reconcile import read_cluster
from topiarist.runs import inputs
from topiarist.runs.listener import SILENT, RunListener
from topiarist.runs.sessions import ClusterSessions
from topiarist.runs.settings import RunSettings, check_settings


class Manifests(Struct, frozen=True):
    """Valid manifests: the names of the topics of each cluster, sorted, and the warnings about the documents.

    The name of the cluster of an address without a Cluster document is empty.
    """

    topics: Mapping[str, tuple[str, ...]]
    warnings: tuple[Diagnostic, ...]


def load_manifests(settings: RunSettings, listener: RunListener = SILENT) -> Manifests:
    """Load and check the manifests of a run as ``topiarist validate`` does: together, without any cluster.

    Raises ``InvalidManifests`` with every error, or ``TopiaristError``.
    """
    check_settings(settings, needs_paths=True)
    desired = inputs.load_manifests(settings, listener, offline=True).desired
    return Manifests(
        {name: _topic_names(desired.specs[name]) for name in sorted(desired.clusters)}, tuple(desired.warnings)
    )


def _topic_names(specs: Sequence[TopicSpec]) -> tuple[str, ...]:
    return tuple(spec.topic for spec in specs)


class ClusterStates(Struct, frozen=True):
    """The states of clusters by name, and the error of each cluster that could not be read."""

    states: Mapping[str, ClusterState]
    errors: Mapping[str, TopiaristError]


def read_clusters(settings: RunSettings, listener: RunListener = SILENT) -> ClusterStates:
    """Read the clusters of a run, or their snapshots; write nothing.

    The clusters are those of the Cluster documents in the paths, or that of the address. Topics are not read.

    Raises ``InvalidManifests`` with every error of the documents, or ``TopiaristError``. The error of one cluster is in
    the result.
    """
    check_settings(settings)
    specs = inputs.load_clusters(settings, listener)

    def read(name: str, cluster: PartitionInspector) -> ClusterState:
        return read_cluster(cluster, specs[name].cluster_id)

    with ClusterSessions(specs, settings, listener, keep_open=False) as sessions:
        states = sessions.map_clusters(read)
    return ClusterStates(states, dict(sessions.errors))
