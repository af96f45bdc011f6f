"""Reads the usage of topics of one cluster in a run: for a snapshot, and before deletions.

A reader is opened beside the session of the cluster, since a cluster that is written through ZooKeeper has brokers too.
``snapshot --evidence`` calls ``read_with_usage``.
"""

from __future__ import annotations

from collections.abc import Collection

from topiarist.adapters.open_cluster import open_usage_reader
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.model.usage import UsageRead
from topiarist.reconcile import require_cluster_id
from topiarist.usage.fold import add_usage


def read_usage(
    spec: ClusterSpec, cluster_id: str, connect_timeout: float, topics: Collection[str] | None = None
) -> UsageRead | None:
    """Return the usage of topics (None: of all); None if the cluster has no address of brokers.

    Raises ``TopiaristError`` if the brokers cannot be reached, or are those of another cluster than ``cluster_id``.
    """
    reader = open_usage_reader(spec, connect_timeout=connect_timeout)
    if reader is None:
        return None
    with reader:
        require_cluster_id(cluster_id, reader.read_cluster_id(), "the cluster of the topics")
        return reader.read(topics)


def read_with_usage(
    state: ClusterState, spec: ClusterSpec, connect_timeout: float, previous: ClusterState | None
) -> ClusterState:
    """Return the state with the usage of all topics, folded with that of ``previous``.

    Raises ``TopiaristError``: what ``read_usage`` raises, ``WrongUsage`` without an address of brokers, and
    ``SnapshotUnusable`` if ``previous`` is of another cluster, or newer than this read.
    """
    read = read_usage(spec, state.cluster_id, connect_timeout)
    if read is None:
        raise TopiaristError(
            Reason.WRONG_USAGE,
            f"--evidence asks the brokers, and Cluster {spec.name or 'without a name'} has no address of them",
            "add kafka: {bootstrapServers: host1:9092,host2:9092}; with via: ZooKeeper it is used for this alone",
        )
    if previous is not None:
        _require_earlier(previous, state, read)
    return add_usage(state, read, previous, spec)


def _require_earlier(previous: ClusterState, state: ClusterState, read: UsageRead) -> None:
    if previous.cluster_id != state.cluster_id:
        message = f"the earlier snapshot is of cluster {previous.cluster_id}, and this is {state.cluster_id}"
        raise TopiaristError(
            Reason.SNAPSHOT_UNUSABLE, message, "give --previous FILE of this cluster, or --previous none"
        )
    if previous.evidence and previous.evidence.read_at >= read.evidence.read_at:
        raise TopiaristError(
            Reason.SNAPSHOT_UNUSABLE,
            "the earlier snapshot is not older than this read",
            "check the clocks of the machines that take snapshots; --previous none begins the observation anew",
        )
