"""Findings about the usage of topics: dormant ones, and ones that are larger than what they hold.

``drift.compare`` calls it for all topics of a cluster with usage in its snapshot, declared or not. Nothing is compared
with a spec here, and no plan fixes it: people decide. What is not known is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from topiarist.drift.findings.finding import DriftClass, DriftFinding
from topiarist.kafka.config_rules import server_default
from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.model.usage import DAY_S, TopicUsage, UsageSettings
from topiarist.text import format_count, humanize_bytes, humanize_duration
from topiarist.usage.describe import describe_users
from topiarist.usage.fold import is_dormant

_MIN_DAYS = 7
"""Days of observation before a rate says anything about the number of partitions."""

_MIN_LOG_BYTES = 10 << 20
"""Bytes of a partition below which a retention is not judged."""

_RESERVE, _FULL, _REACHED, _CUT = 0.2, 0.8, 0.8, 0.8
"""Shares: of retention.bytes that a reserve leaves used at most, of it that counts as full, of retention.ms that counts
as reached, and of it that an early cut keeps at most."""


_LIMITS = ("retention.bytes", "retention.ms", "segment.bytes")


class _Limits(NamedTuple):
    """The values of ``_LIMITS`` for a topic; None: not known."""

    bytes: int | None
    ms: int | None
    segment_bytes: int | None


def find_usage_findings(
    state: ClusterState, cluster: ClusterSpec, specs: Mapping[str, TopicSpec]
) -> Iterator[tuple[str, DriftFinding]]:
    """Yield the findings of each topic with usage; ``specs`` has the configs of topics that the state leaves out."""
    if state.evidence is None:
        return
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    settings = rules.merge_dynamic_settings(state.broker_defaults)
    read_at = state.evidence.read_at
    for name, usage in state.usage.items():
        if name in state.pending_deletions or cluster.is_protected(name) or cluster.internal_owner(name):
            continue
        if is_dormant(usage, read_at, cluster.evidence.window):
            yield name, DriftFinding(DriftClass.DORMANT, actual=describe_users(usage, read_at), hint=_DORMANT_HINT)
        yield from ((name, each) for each in _find_small_partitions(usage, cluster.evidence))
        topic, spec = state.topics.get(name), specs.get(name)
        config = topic.config if topic else spec.config if spec else {}
        limits = _Limits(*(_number(config.get(key) or server_default(key, settings)) for key in _LIMITS))
        yield from ((name, each) for each in _find_retention(usage, read_at, limits))


_DORMANT_HINT = "ask its owner; delete it, or accept it by a DriftException"


def _find_small_partitions(usage: TopicUsage, settings: UsageSettings) -> Iterator[DriftFinding]:
    partitions, curve = len(usage.sample.ends), usage.curve
    if partitions < settings.min_partitions or usage.bytes_per_day is None:
        return
    if curve[-1].taken_at - curve[0].taken_at < _MIN_DAYS * DAY_S:
        return
    if usage.bytes_per_day < partitions * settings.min_bytes_per_day:
        rate = humanize_bytes(usage.bytes_per_day // partitions)
        yield DriftFinding(
            DriftClass.OVERSIZED,
            "partitions",
            f"{humanize_bytes(settings.min_bytes_per_day)} a day for each partition",
            f"{format_count(partitions, 'partition')} of {rate} a day",
            hint="partitions cannot be removed: give the topic fewer when you recreate it",
        )


def _find_retention(usage: TopicUsage, read_at: int, limits: _Limits) -> Iterator[DriftFinding]:
    """Yield a finding for a size limit that is never reached, or that cuts before the time limit; of the worst part."""
    retention_bytes, retention_ms, segment_bytes = limits.bytes, limits.ms, limits.segment_bytes or 0
    if not retention_bytes or retention_bytes <= 0 or not retention_ms or retention_ms <= 0:
        return
    parts = [
        (size, read_at * 1000 - oldest)
        for size, oldest in zip(usage.sample.sizes, usage.sample.oldest, strict=True)
        if size is not None and oldest is not None
    ]
    if not parts:
        return
    size, age_ms = max(parts)
    share, kept = size / retention_bytes, age_ms / retention_ms
    limit, age = humanize_bytes(retention_bytes), humanize_duration(max(age_ms // 60_000 * 60_000, 0))
    if size >= max(_FULL * retention_bytes, retention_bytes - 2 * segment_bytes) and kept <= _CUT:
        yield DriftFinding(
            DriftClass.OVERSIZED,
            "config.retention.bytes",
            f"data of {humanize_duration(retention_ms)}, as retention.ms says",
            f"retention.bytes of {limit} cuts first: {age} are kept",
            hint="raise retention.bytes, or say the time that is kept",
        )
    elif share <= _RESERVE and kept >= _REACHED and size >= _MIN_LOG_BYTES:
        yield DriftFinding(
            DriftClass.OVERSIZED,
            "config.retention.bytes",
            f"retention.bytes near the {humanize_bytes(size)} that retention.ms leaves",
            f"retention.bytes of {limit} is never reached",
            hint="lower retention.bytes: a burst would fill the disks first",
        )


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else parse_integer(text.strip(), limit=LONG_MAX)
    except ValueError:
        return None
