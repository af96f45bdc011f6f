"""The status of moves as JSON, for ``topiarist moves --format json``.

``schemas/moves.json`` describes each field. Times are those of the cluster's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from topiarist.inspection.moves import MoveStatus, MovingPartition

FORMAT_VERSION = 1


def encode_statuses(statuses: Iterable[MoveStatus]) -> dict[str, Any]:
    """Return the document ``{formatVersion, clusters}``, as plain values."""
    return {"formatVersion": FORMAT_VERSION, "clusters": [_encode_status(status) for status in statuses]}


def _encode_status(status: MoveStatus) -> dict[str, Any]:
    batch = status.batch
    return {
        "name": status.cluster,
        "clusterId": status.cluster_id,
        "warnings": list(status.warnings),
        "batch": None
        if batch is None
        else {
            "owner": batch.owner,
            "batch": batch.batch,
            "batches": batch.batches,
            "partitions": len(batch.moves),
            "sentAt": _encode_time(status.batch_at_ms),
        },
        "requestChangedAt": _encode_time(status.changed_at_ms),
        "partitions": [
            *(_encode_partition(each, is_own=True) for each in status.own),
            *(_encode_partition(each, is_own=False) for each in status.foreign),
        ],
        "blocker": status.blocker,
        "stuck": list(status.stuck),
        "throttles": [each._asdict() for each in status.throttles],
        "unexplainedThrottles": [each._asdict() for each in status.unexplained],
    }


def _encode_partition(partition: MovingPartition, *, is_own: bool) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "target": list(partition.target),
        "adding": None if partition.adding is None else list(partition.adding),
        "lagging": None if partition.lagging is None else list(partition.lagging),
        "own": is_own,
        "requested": partition.is_requested,
    }


def _encode_time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
