"""Findings about what is in flight or in use: reassignments, stuck entries, throttles that were left, usage.

``drift.compare`` calls it. A topic's row and the row of its cluster have all that is needed, so Spark's workers give
the same findings for one topic at a time. Names with a stale entry are reported for the whole cluster, because most of
them have no topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from topiarist.adapters.snapshots.codec import format_ms
from topiarist.drift.findings.finding import DriftClass, DriftFinding
from topiarist.errors import Reason
from topiarist.kafka.config_rules import server_default
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX, Replicas
from topiarist.model.moves import BatchRecord, RequestedReassignment
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.model.usage import DAY_S, TopicUsage, UsageSettings
from topiarist.planning.builder import explain_stale_entry
from topiarist.planning.moves.execution.stall import explain_invalid_entry
from topiarist.planning.moves.topic import find_targets_in_flight
from topiarist.text import format_count, humanize_bytes, humanize_duration, printable
from topiarist.usage.describe import describe_users
from topiarist.usage.fold import is_dormant

_MAX_UNSTARTED_MS = 60_000
"""Time without a change of the request after which an entry without anything in flight is stuck."""

_HINT_UNSTARTED = (
    "request the same replicas through Kafka's Admin API, with kafka-reassign-partitions --bootstrap-server, or let"
    " another broker become controller; an entry of the request blocks every other request"
)
_HINT_UNREADABLE = "find the program that wrote /admin/reassign_partitions, and remove the request as its manual says"


def requested_targets(topic: str, state: ClusterState) -> Mapping[int, Replicas]:
    """Return the targets of the reassignment request for a topic, by partition; empty for a stale entry."""
    if topic not in state.reassigning_topics or topic in state.stale_reassignments:
        return {}
    return {entry.partition: entry.replicas for entry in state.requested_reassignments if entry.topic == topic}


def find_moving_findings(topic: TopicState, state: ClusterState, taken_at: datetime) -> Iterator[DriftFinding]:
    """Yield the findings ``moving`` and ``stuck`` of a topic."""
    requested = requested_targets(topic.name, state)
    yield from find_stuck_findings(topic, state, taken_at)
    stuck = _find_stuck_partitions(topic, requested, state, taken_at)
    moving = sorted({*topic.reassigning_partitions, *requested}.difference(stuck))
    if not moving:
        return
    lists, first = dict(zip(topic.partition_ids, topic.replicas, strict=True)), moving[0]
    actual = f"{format_count(len(moving), 'partition')}; for example partition {first}"
    if first in lists:
        actual += f" on {list(lists[first])}"
    if first in requested:
        actual += f", to {list(requested[first])}"
    yield DriftFinding(DriftClass.MOVING, actual=actual, message=_describe_origin(topic, moving, requested, state))


def _describe_origin(
    topic: TopicState, moving: Sequence[int], requested: Mapping[int, Replicas], state: ClusterState
) -> str:
    own, _ = find_targets_in_flight(state, topic)
    parts = []
    if state.batch and (ours := [each for each in moving if each in own]):
        since = f" since {at}" if (at := format_ms(state.batch_at_ms)) else ""
        parts.append(f"{format_count(len(ours), 'partition')} in flight{since}, by {_describe_batch(state.batch)}")
    if theirs := [each for each in moving if each in requested and each not in own]:
        since = f"; the request last changed at {at}" if (at := format_ms(state.requested_at_ms)) else ""
        parts.append(f"{format_count(len(theirs), 'partition')} requested by another client{since}")
    if others := [each for each in moving if each not in requested and each not in own]:
        parts.append(
            f"{format_count(len(others), 'partition')} in flight and not in the reassignment request: another client"
            " moves them through Kafka's Admin API, or the controller could not begin (a partition without a state)"
        )
    return "; ".join(parts)


def _describe_batch(batch: BatchRecord) -> str:
    return f"batch {batch.batch} of {batch.batches} of owner {printable(batch.owner)}"


def find_stuck_findings(topic: TopicState, state: ClusterState, taken_at: datetime) -> Iterator[DriftFinding]:
    """Yield the finding ``stuck`` of a topic, for all entries that the controller never removes by itself."""
    requested = requested_targets(topic.name, state)
    if stuck := _find_stuck_partitions(topic, requested, state, taken_at):
        first = min(stuck)
        message, hint = stuck[first]
        actual = f"{format_count(len(stuck), 'partition')}; for example partition {first}, to {list(requested[first])}"
        finding = DriftFinding(DriftClass.STUCK, actual=actual, reasons=(Reason.STUCK_REASSIGNMENT,))
        yield finding._replace(message=f"partition {first}: {message}", hint=hint)


def _find_stuck_partitions(
    topic: TopicState, requested: Mapping[int, Replicas], state: ClusterState, taken_at: datetime
) -> Mapping[int, tuple[str, str]]:
    """Return the message and the hint of each stuck entry of a topic, by partition."""
    stuck = {}
    for partition, target in requested.items():
        invalid = explain_invalid_entry(RequestedReassignment(topic.name, partition, target))
        if invalid:
            stuck[partition] = invalid.message, invalid.hint
        elif partition not in topic.reassigning_partitions and _is_old(state.requested_at_ms, taken_at):
            since = format_ms(state.requested_at_ms)
            stuck[partition] = (
                f"nothing of it is in flight, and the request has not changed since {since}: the controller does not"
                " carry it out",
                _HINT_UNSTARTED,
            )
    return stuck


def _is_old(at_ms: int | None, taken_at: datetime) -> bool:
    return at_ms is not None and taken_at.timestamp() * 1000 - at_ms > _MAX_UNSTARTED_MS


def find_throttle_findings(spec: TopicSpec, topic: TopicState, state: ClusterState) -> Iterator[DriftFinding]:
    """Yield a finding for each throttle config that a topic has while nothing of it is in flight.

    Leaves out configs that the manifest declares, and those of topiarist's last batch: they are reported with its
    record.
    """
    if topic.reassigning_partitions or topic.name in state.reassigning_topics:
        return
    ours = state.batch.throttles.get(f"topics/{topic.name}", {}) if state.batch else {}
    for key in sorted(THROTTLE_CONFIGS & topic.config.keys() - spec.config.keys()):
        if key in ours and ours[key].ours == topic.config[key]:
            continue
        finding = DriftFinding(DriftClass.THROTTLE, f"config.{key}", None, topic.config[key])
        yield finding._replace(
            message="no partition of the topic is in flight, and topiarist did not set it: another client left it, or"
            " sets it on purpose",
            hint="remove it with kafka-configs --alter --delete-config, or declare it in the manifest",
        )


def find_cluster_findings(state: ClusterState, taken_at: datetime) -> Iterator[tuple[str, DriftFinding]]:
    """Yield the findings about the request and the record of a cluster, each with its topic or an empty name."""
    for name in state.stale_reassignments:
        # The request is older than the topic, or the topic was deleted.
        entry, finding = explain_stale_entry(), DriftFinding(DriftClass.STUCK, reasons=(Reason.STUCK_REASSIGNMENT,))
        yield name, finding._replace(message=entry.message, hint=entry.hint)
    has_request = state.requested_at_ms is not None
    if has_request and not state.requested_reassignments and _is_old(state.requested_at_ms, taken_at):
        message = "the reassignment request has no entry that topiarist can read, and it blocks every reassignment"
        finding = DriftFinding(DriftClass.STUCK, reasons=(Reason.STUCK_REASSIGNMENT,))
        yield "", finding._replace(message=message, hint=_HINT_UNREADABLE)
    if state.batch and not has_request:
        throttles = sum(map(len, state.batch.throttles.values()))
        since = f", sent at {at}" if (at := format_ms(state.batch_at_ms)) else ""
        message = f"{_describe_batch(state.batch)}{since}, is done, and its record and throttles are still there"
        finding = DriftFinding(DriftClass.THROTTLE, actual=format_count(throttles, "throttle"))
        hint = "if no run is in progress: the next apply of that owner puts them back"
        yield "", finding._replace(message=message, hint=hint)


# Findings about the usage of topics: dormant ones, and ones that are larger than what they hold.
#
# ``drift.compare`` calls it for all topics of a cluster with usage in its snapshot, declared or not. Nothing is
# compared with a spec here, and no plan fixes it: people decide. What is not known is no finding.

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
