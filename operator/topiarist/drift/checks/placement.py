"""Differences of a topic's replica lists that follow from the brokers: drained brokers, racks, widths and evenness.

They do not depend on the moves that ``spec.moves`` allows. ``drift.compare`` reports them for each declared topic;
``drift.checks.equality`` asks first whether a topic has none, by checks that are cheap and cached.

Kafka's own placement decides what is even: with ``p`` partitions of ``w`` replicas each of ``n`` brokers holds from
``w * floor(p / n)`` to ``w * ceil(p / n)`` replicas, and leads from ``floor(p / n)`` to ``ceil(p / n)`` partitions. A
topic outside these bounds is reported only if it can be spread more evenly. Brokers that hold replicas of the topic and
take none (offline, excluded, drained) may have been among the ``n`` when the topic was placed: both counts are allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from topiarist.adapters.snapshots.lenient_reader import ReplicaLists
from topiarist.drift.findings.finding import DriftClass, DriftFinding
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import MoveKind
from topiarist.model.spec import ClusterSpec, RackAwareness, TopicSpec
from topiarist.model.state import TopicState, describe_unequal_replication_factors, find_replication_factors
from topiarist.planning.moves.planner import (
    ReplicaPicker,
    SpreadBounds,
    can_spread_leaders,
    can_spread_replicas,
    kafka_bounds,
)
from topiarist.text import format_count

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
        self.registered = tuple(broker.id for broker in brokers)
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
        actual = f"{format_count(number, 'replica')} on broker {_join(brokers)}; {_example(held)}"
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


def _join(brokers: Sequence[int]) -> str:
    shown = ", ".join(map(str, brokers[:_MAX_SHOWN_BROKERS]))
    return shown if len(brokers) <= _MAX_SHOWN_BROKERS else f"{shown} and {len(brokers) - _MAX_SHOWN_BROKERS:,} more"
