"""Lists of topics as a JSON document: ``list --format json``.

``schemas/list.json`` describes each field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topiarist.adapters.snapshots.codec import format_seconds
from topiarist.inspection.list import TopicList, TopicRow
from topiarist.inspection.partition_health import IssueType
from topiarist.model.spec import find_origin
from topiarist.model.usage import TopicUsage
from topiarist.output.json.describe import encode_location

FORMAT_VERSION = 1


def encode_lists(listings: Iterable[TopicList]) -> dict[str, Any]:
    """Return the document with the selected topics of each cluster; plain JSON values only."""
    return {"formatVersion": FORMAT_VERSION, "clusters": [_encode_cluster(each) for each in listings]}


def _encode_cluster(listing: TopicList) -> dict[str, Any]:
    return {
        "name": listing.cluster.name,
        "clusterId": listing.state.cluster_id,
        "chroot": listing.state.chroot,
        "present": listing.topic_count,
        "topics": [_encode_topic(row) for row in listing.rows],
        "warnings": list(listing.state.warnings),
    }


def _encode_topic(row: TopicRow) -> dict[str, Any]:
    factors = [width for width in row.partitions_by_replicas if width]
    return {
        "topic": row.topic,
        "partitions": row.partitions,
        "replicationFactor": factors[0] if len(row.partitions_by_replicas) == 1 and factors else None,
        "replicaCounts": {str(width): number for width, number in sorted(row.partitions_by_replicas.items())},
        "owner": row.owner or None,
        "document": _encode_manifest(row),
        "config": dict(row.config),
        "states": sorted(row.states),
        "statesKnown": row.states_known,
        "offline": row.issues.get(IssueType.OFFLINE, 0) if row.states_known else None,
        "underReplicated": row.issues.get(IssueType.UNDER_REPLICATED, 0) if row.states_known else None,
        **({"usage": _encode_usage(row.usage)} if row.usage else {}),
    }


def _encode_usage(usage: TopicUsage) -> dict[str, Any]:
    return {
        **{
            name: {
                "state": side.state.value,
                "lastSeen": format_seconds(side.before),
                "observedSince": format_seconds(side.observed_since),
            }
            for name, side in (("written", usage.written), ("read", usage.read))
        },
        "groups": usage.sample.committing_groups,
        "members": usage.sample.member_count,
        "bytes": usage.sample.size,
        "bytesPerDay": usage.bytes_per_day,
    }


def _encode_manifest(row: TopicRow) -> dict[str, Any] | None:
    if row.spec is None:
        return None
    manifest = row.spec.manifest
    return {
        "name": manifest.name,
        "namespace": manifest.namespace,
        "labels": dict(sorted(row.spec.labels.items())),
        "location": encode_location(find_origin(row.spec).locate()),
    }
