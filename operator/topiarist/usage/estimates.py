"""Estimates the bytes that a change copies or deletes, as bounds.

``usage.describe`` and ``filters.policies`` call it. Sizes are those of ``.log`` files: without indexes and without
what is in remote storage. Kafka deletes whole segments, so that a cut of retention may free one segment of each
partition less than it says.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import ConfigItem
from topiarist.model.usage import CurvePoint, TopicSample, TopicUsage

_DEFAULT_SEGMENT_BYTES = 1 << 30


class ByteBounds(Struct, frozen=True):
    """The smallest and the largest number of bytes of one replica of each partition."""

    low: int
    high: int


def estimate_copied_bytes(moves: Iterable[ReplicaMove], sample: TopicSample) -> int | None:
    """Return the bytes that moves copy now; None if the size of a partition is not known."""
    total = 0
    for move in moves:
        size = sample.sizes[move.partition] if move.partition < len(sample.sizes) else None
        if size is None and move.added:
            return None
        total += len(move.added) * (size or 0)
    return total


def estimate_cut(item: ConfigItem, usage: TopicUsage, read_at: int, segment_bytes: str | None) -> ByteBounds | None:
    """Return the bytes that a new ``retention.bytes`` or ``retention.ms`` deletes; None for other keys and values.

    ``read_at`` is the time of the usage, ``segment_bytes`` the topic's ``segment.bytes``, None for the default.
    """
    after, segment = _number(item.after), _number(segment_bytes) or _DEFAULT_SEGMENT_BYTES
    if after is None:
        return None
    if item.key == "retention.bytes":
        return estimate_freed_by_size(usage.sample, after, segment)
    return estimate_freed_by_age(usage, after, read_at, segment) if item.key == "retention.ms" else None


def estimate_freed_by_size(sample: TopicSample, retention_bytes: int, segment_bytes: int) -> ByteBounds | None:
    """Return the bytes that a lower ``retention.bytes`` deletes; None if a size is not known."""
    if retention_bytes < 0:
        return ByteBounds(0, 0)
    known = [size for size in sample.sizes if size is not None]
    if not known or len(known) < len(sample.sizes):
        return None
    return ByteBounds(
        sum(max(size - retention_bytes - segment_bytes, 0) for size in known),
        sum(max(size - retention_bytes, 0) for size in known),
    )


def estimate_freed_by_age(usage: TopicUsage, retention_ms: int, read_at: int, segment_bytes: int) -> ByteBounds | None:
    """Return the bytes that a lower ``retention.ms`` deletes; None if the size of the topic is not known.

    What was there at an earlier time is older than that time. So the bounds are the sizes of the curve before and after
    the time limit, as long as nothing was deleted since; without such points nothing better than 0 and all is known.
    """
    size = usage.sample.size
    if size is None:
        return None
    if retention_ms < 0:
        return ByteBounds(0, 0)
    limit = read_at - retention_ms // 1000
    kept = _points_at_rest(usage.curve)
    before = [point.size for point in kept if point.taken_at <= limit]
    after = [point.size for point in kept if point.taken_at >= limit]
    low = max(before[-1] - len(usage.sample.sizes) * segment_bytes, 0) if before else 0
    return ByteBounds(low, min(after[0], size) if after else size)


def _points_at_rest(curve: tuple[CurvePoint, ...]) -> list[CurvePoint]:
    """Return the last points between which nothing was deleted from the log."""
    start = 0
    for index, (one, other) in enumerate(pairwise(curve)):
        if one.begins != other.begins:
            start = index + 1
    return list(curve[start:])


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else parse_integer(text.strip(), limit=LONG_MAX)
    except ValueError:
        return None
