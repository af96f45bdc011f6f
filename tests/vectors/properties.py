"""Properties of a placement, for vectors from Kafka tests that assert no literal lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from topiarist.kafka.types import Broker, Replicas


class PlacementResult(NamedTuple):
    """A placed topic with all partitions, the available brokers, and the new partitions."""

    assignment: Mapping[int, Replicas]
    brokers: Sequence[Broker]
    new: tuple[int, ...]


def first_violation(expected: Mapping[str, object], placed: PlacementResult) -> str:
    """Return the first violated property and the value found; empty if all properties hold."""
    for name, value in expected.items():
        measure = _MEASURES.get(name)
        if measure is None:
            return f"property {name} is not known here"
        found = measure(placed)
        if found != {value}:
            return f"property {name}: expected {value}, seen {', '.join(map(str, sorted(found, key=str)))}"
    return ""


def _leader_counts(placed: PlacementResult) -> set[object]:
    count = Counter(replicas[0] for replicas in placed.assignment.values())
    return {count[broker.id] for broker in placed.brokers}


def _replica_counts(placed: PlacementResult) -> set[object]:
    count = Counter(broker for replicas in placed.assignment.values() for broker in replicas)
    return {count[broker.id] for broker in placed.brokers}


def _rack_counts(placed: PlacementResult) -> set[object]:
    racks = {broker.id: broker.rack for broker in placed.brokers}
    return {len({racks[broker] for broker in replicas}) for replicas in placed.assignment.values()}


def _has_distinct_brokers(placed: PlacementResult) -> set[object]:
    return {len(set(replicas)) == len(replicas) for replicas in placed.assignment.values()}


_MEASURES: Mapping[str, Callable[[PlacementResult], set[object]]] = {
    "no_duplicate_broker_in_partition": _has_distinct_brokers,
    "distinct_racks_per_partition": _rack_counts,
    "leaders_per_broker": _leader_counts,
    "replicas_per_broker": _replica_counts,
    "replicas_per_partition": lambda placed: {len(replicas) for replicas in placed.assignment.values()},
    "partition_count": lambda placed: {len(placed.assignment)},
    "new_partition_ids": lambda placed: {placed.new},
}
