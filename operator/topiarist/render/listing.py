"""Renders the lists of topics as a document for machines; ``schemas/list.json`` describes each field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from topiarist.core.listing import Row
from topiarist.core.partitions import Condition
from topiarist.core.spec import ClusterSpec, origin
from topiarist.core.state import ClusterState

FORMAT_VERSION = 1


class Listed(NamedTuple):
    """The rows of one cluster. ``present`` counts all its topics, chosen or not; ``declared``: manifests were given."""

    cluster: ClusterSpec
    state: ClusterState
    rows: tuple[Row, ...]
    present: int
    declared: bool


def document(found: Iterable[Listed]) -> dict[str, Any]:
    """Return the document: the chosen topics of each cluster; plain values only."""
    return {"formatVersion": FORMAT_VERSION, "clusters": [_cluster(each) for each in found]}


def _cluster(found: Listed) -> dict[str, Any]:
    return {
        "name": found.cluster.name,
        "clusterId": found.state.cluster_id,
        "chroot": found.state.location,
        "present": found.present,
        "topics": [_topic(row) for row in found.rows],
        "warnings": list(found.state.warnings),
    }


def _topic(row: Row) -> dict[str, Any]:
    factors = [width for width in row.widths if width]
    return {
        "topic": row.topic,
        "partitions": row.partitions,
        "replicationFactor": factors[0] if len(row.widths) == 1 and factors else None,
        "replicaCounts": {str(width): number for width, number in sorted(row.widths.items())},
        "owner": row.owner or None,
        "document": _document(row),
        "config": dict(row.config),
        "states": sorted(row.states),
        "statesKnown": row.known,
        "offline": row.conditions.get(Condition.OFFLINE, 0) if row.known else None,
        "underReplicated": row.conditions.get(Condition.UNDER_REPLICATED, 0) if row.known else None,
    }


def _document(row: Row) -> dict[str, Any] | None:
    if row.spec is None:
        return None
    manifest, place = row.spec.manifest, origin(row.spec).place()
    return {
        "name": manifest.name,
        "namespace": manifest.namespace,
        "labels": dict(sorted(manifest.labels.items())),
        "place": {"file": place.file, "line": place.line, "column": place.column} if place else None,
    }
