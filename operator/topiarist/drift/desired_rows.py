"""Specs as rows and back, for engines that join them with the rows of snapshots.

A row has what ``plan_topic`` asks of a spec. The cluster's document is not in it: it is the same for all its topics.
Nor is the manifest: what is found says what differs, not where that was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.core.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.errors import Path, Place

Row = dict[str, Any]


class _Nowhere:
    """The source of specs that come from rows."""

    def place(self, path: Path = ()) -> Place:
        """No place."""
        return Place("")


NOWHERE = _Nowhere()


def row_of(spec: TopicSpec) -> Row:
    """A spec as a row: plain values only, every field always there."""
    manifest = spec.manifest
    return {
        "cluster": spec.cluster.name,
        "topic": spec.topic,
        "namespace": manifest.namespace,
        "manifest": manifest.name,
        "partitions": spec.partitions,
        "replicationFactor": spec.replication_factor,
        "createPartitions": spec.create_partitions,
        "createReplicationFactor": spec.create_replication_factor,
        "assignment": None if spec.assignment is None else [list(replicas) for replicas in spec.assignment],
        "config": dict(spec.config),
        "inherited": sorted(spec.inherited),
        "ignore": sorted(spec.ignore),
        "without": list(spec.without),
        "removeUnmanaged": spec.remove_unmanaged,
        "absent": spec.absent,
        "observe": spec.observe,
    }


def spec_of(row: Mapping[str, Any], cluster: ClusterSpec) -> TopicSpec:
    """The spec of which a row is, on its cluster."""
    lists = row["assignment"]
    return TopicSpec(
        topic=row["topic"],
        cluster=cluster,
        manifest=Manifest("Topic", row["manifest"], row["namespace"], {}, {}, NOWHERE),
        partitions=row["partitions"],
        replication_factor=row["replicationFactor"],
        create_partitions=row["createPartitions"],
        create_replication_factor=row["createReplicationFactor"],
        assignment=None if lists is None else tuple(tuple(replicas) for replicas in lists),
        config=row["config"],
        inherited=frozenset(row["inherited"]),
        ignore=frozenset(row["ignore"]),
        without=tuple(row["without"]),
        remove_unmanaged=row["removeUnmanaged"],
        absent=row["absent"],
        observe=row["observe"],
    )
