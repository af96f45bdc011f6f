"""Findings that no plan makes: placement of replicas, reassignments, stuck entries, throttles, usage.

They do not depend on the moves that ``spec.moves`` allows. ``drift.compare`` reports them for each declared topic;
``drift.equality`` asks first whether a topic has none, by checks that are cheap and cached.

Kafka's own placement decides what is even: with ``p`` partitions of ``w`` replicas each of ``n`` brokers holds from
``w * floor(p / n)`` to ``w * ceil(p / n)`` replicas, and leads from ``floor(p / n)`` to ``ceil(p / n)`` partitions. A
topic outside these bounds is reported only if it can be spread more evenly. Brokers that hold replicas of the topic and
take none (offline, excluded, drained) may have been among the ``n`` when the topic was placed: both counts are allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from topiarist.adapters.snapshots.codec import format_ms
from topiarist.adapters.snapshots.lenient_reader import ReplicaLists
from topiarist.drift.findings import DriftClass, DriftFinding
from topiarist.errors import Reason
from topiarist.kafka.config_rules import server_default
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX, Broker, Replicas
from topiarist.model.moves import BatchRecord, MoveKind, RequestedReassignment
from topiarist.model.spec import ClusterSpec, RackAwareness, TopicSpec
from topiarist.model.state import (
    ClusterState,
    TopicState,
    describe_unequal_replication_factors,
    find_replication_factors,
)
from topiarist.model.usage import DAY_S, TopicUsage, UsageSettings
from topiarist.planning.builder import explain_stale_entry
from topiarist.planning.moves.planner import (
    ReplicaPicker,
    SpreadBounds,
    can_spread_leaders,
    can_spread_replicas,
    kafka_bounds,
)
from topiarist.planning.moves.throttles import explain_invalid_entry
from topiarist.planning.moves.topic import find_targets_in_flight
from topiarist.text import format_count, humanize_bytes, humanize_duration, list_first, printable
from topiarist.usage import describe_users, is_dormant

_MAX_CHECKERS = 32
"""Checkers that are kept: clusters of a fleet with the same brokers share one."""

_MAX_CACHED_LISTS = 1 << 10
"""Cached results of one checker; each keeps its replica lists in memory."""

_MAX_SHOWN_BROKERS = 8


def find_row_checker(cluster_row: Mapping[str, Any], cluster: ClusterSpec) -> PlacementChecker:
    """Return the checker for the replica lists of a cluster with this row of a snapshot."""
    return find_checker([Broker(broker["id"], broker["rack"]) for broker in cluster_row["brokers"]], cluster)


def find_checker(brokers: Sequence[Broker], cluster: ClusterSpec) -> PlacementChecker:
    """Return the checker for the replica lists of a cluster."""
    is_racked = cluster.rack_awareness is not RackAwareness.DISABLED
    return _find_checker(tuple(brokers), cluster.exclude_brokers, cluster.drain_brokers, is_racked)


@lru_cache(maxsize=_MAX_CHECKERS)
def _find_checker(
    brokers: tuple[Broker, ...], excluded: frozenset[int], drained: frozenset[int], is_racked: bool
) -> PlacementChecker:
    return PlacementChecker(brokers, excluded | drained, drained, is_racked=is_racked)


class PlacementChecker:
    """A checker of replica lists on one set of brokers.

    Those in ``without`` take no replicas. ``has_racks`` is false without ``is_racked``, or if a broker has no rack:
    then Kafka's own placement ignores racks, and they are not reported.
    """

    def __init__(
        self, brokers: Sequence[Broker], without: Collection[int], drained: frozenset[int], *, is_racked: bool
    ) -> None:
        self.drained = drained
        self.picker = ReplicaPicker(brokers, without)
        self.has_racks = is_racked and all(broker.rack is not None for broker in brokers)
        self._regular: dict[ReplicaLists, bool] = {}
        self.takers = frozenset(broker.id for broker in self.picker.takers)

    def is_regular(self, lists: Sequence[Replicas]) -> bool:
        """Return whether all lists have right racks, and brokers hold and lead as many as Kafka's placement leaves."""
        # Also where racks are not reported: a plan that may move replicas compares the racks that are known.
        if any(map(self.picker.lacks_rack, lists)):
            return False
        holders = self.count_holders(lists)
        return all(
            self.bounds(part, holders).contain([*self.count(part).values()])
            for part in (lists, [replicas[:1] for replicas in lists])
        )

    def is_cached_regular(self, lists: ReplicaLists) -> bool:
        """Return ``is_regular`` of the lists that a reader shares between topics."""
        regular = self._regular.get(lists)
        if regular is None:
            if len(self._regular) >= _MAX_CACHED_LISTS:
                self._regular.clear()
            regular = self._regular[lists] = self.is_regular(lists.replicas)
        return regular

    def count_holders(self, lists: Iterable[Replicas]) -> int:
        """Return the number of brokers that take replicas or hold some of a topic."""
        return len(self.takers.union(chain.from_iterable(lists)))

    def bounds(self, lists: Sequence[Replicas], holders: int) -> SpreadBounds:
        """Return the replicas that Kafka's placement leaves a broker, over the takers or over all ``holders``."""
        few, many = kafka_bounds(lists, len(self.takers)), kafka_bounds(lists, holders)
        return SpreadBounds(min(few.least, many.least), max(few.most, many.most))

    def count(self, lists: Iterable[Replicas]) -> Mapping[int, int]:
        """Return the number of replicas on each broker that may take some."""
        counts = Counter(chain.from_iterable(lists))
        return {broker: counts[broker] for broker in sorted(self.takers)}


def find_placement_findings(
    spec: TopicSpec, topic: TopicState, checker: PlacementChecker, requested: Mapping[int, Replicas]
) -> Iterator[DriftFinding]:
    """Yield at most one finding of each class for a topic.

    ``requested`` has the targets of the reassignment request by partition. Partitions in flight have replicas only for
    a time: they count as drained if they stay on a drained broker, and the evenness of the topic is not compared
    before they are done. Explicit lists in the manifest decide racks, widths and evenness.
    """
    moving = {*topic.reassigning_partitions, *requested}
    placed = {
        partition: replicas
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if replicas and partition not in moving
    }
    if checker.drained:
        staying = placed | {
            partition: requested.get(partition, replicas)
            for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
            if partition in moving
        }
        yield from _find_drained(spec, staying, checker)
    if spec.assignment is not None:
        return
    if checker.has_racks:
        yield from _find_racks(spec, placed, checker)
    if unequal := describe_unequal_replication_factors(topic):
        factors = ", ".join(map(str, sorted(find_replication_factors(topic))))
        yield _finding(spec, DriftClass.WIDTHS, MoveKind.FACTOR, factors)._replace(message=unequal)
    if not moving:
        yield from _find_spread(spec, tuple(placed.values()), checker)


def _find_drained(spec: TopicSpec, lists: Mapping[int, Replicas], checker: PlacementChecker) -> Iterator[DriftFinding]:
    held = {partition: replicas for partition, replicas in lists.items() if not checker.drained.isdisjoint(replicas)}
    if held:
        brokers = sorted(checker.drained.intersection(*[chain.from_iterable(held.values())]))
        number = sum(broker in checker.drained for broker in chain.from_iterable(held.values()))
        actual = (
            f"{format_count(number, 'replica')} on broker {list_first(brokers, _MAX_SHOWN_BROKERS)}; {_example(held)}"
        )
        yield _finding(spec, DriftClass.DRAINED, MoveKind.DRAIN, actual)


def _find_racks(spec: TopicSpec, lists: Mapping[int, Replicas], checker: PlacementChecker) -> Iterator[DriftFinding]:
    picker = checker.picker
    lacking = {partition: replicas for partition, replicas in lists.items() if picker.lacks_rack(replicas)}
    if lacking:
        copies = sum(picker.count_available_racks(ids) - picker.count_racks(ids) for ids in lacking.values())
        wanted = f"{format_count(copies, 'replica')} on other racks"
        actual = f"{format_count(len(lacking), 'partition')}; {_example(lacking)}"
        yield _finding(spec, DriftClass.RACKS, MoveKind.RACKS, actual)._replace(expected=wanted)


def _find_spread(spec: TopicSpec, lists: Sequence[Replicas], checker: PlacementChecker) -> Iterator[DriftFinding]:
    expected, actual, holders = [], [], checker.count_holders(lists)
    for noun, part, can_spread in (
        ("replicas", lists, can_spread_replicas),
        ("leaders", [replicas[:1] for replicas in lists], can_spread_leaders),
    ):
        bounds, counts = checker.bounds(part, holders), checker.count(part)
        if not bounds.contain([*counts.values()]) and can_spread(lists, checker.picker):
            expected.append(f"{bounds.least} to {bounds.most} {noun}")
            fewest, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
            actual.append(f"{counts[fewest]} (broker {fewest}) to {counts[most]} (broker {most}) {noun}")
    if actual:
        finding = _finding(spec, DriftClass.SPREAD, MoveKind.SPREAD, "; ".join(actual))
        yield finding._replace(expected=f"{'; '.join(expected)} for each broker")


def _finding(spec: TopicSpec, drift_class: DriftClass, kind: MoveKind, actual: str) -> DriftFinding:
    hint = "" if kind in spec.allowed_moves else f"to fix it by a plan, allow {kind.value} in spec.moves of the Cluster"
    return DriftFinding(drift_class, actual=actual, hint=hint)


def _example(lists: Mapping[int, Replicas]) -> str:
    partition = min(lists)
    return f"for example partition {partition} on {list(lists[partition])}"


# Findings about what is in flight or in use: reassignments, stuck entries, throttles that were left, usage.
#
# ``drift.compare`` calls it. A topic's row and the row of its cluster have all that is needed, so Spark's workers give
# the same findings for one topic at a time. Names with a stale entry are reported for the whole cluster, because most
# of them have no topic.

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
