"""Properties of a placement, as vectors name them where Kafka's own tests assert no literal lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from topiarist.core.state import Broker, Replicas


class Placed(NamedTuple):
    """A topic as it lies: all partitions, the brokers it may use, and which partitions are new."""

    assignment: Mapping[int, Replicas]
    brokers: Sequence[Broker]
    new: tuple[int, ...]


def broken(wanted: Mapping[str, object], placed: Placed) -> str:
    """Name the first property that does not hold, with what was found instead; empty if all hold."""
    for name, value in wanted.items():
        measure = _MEASURES.get(name)
        if measure is None:
            return f"property {name} is not known here"
        found = measure(placed)
        if found != {value}:
            return f"property {name}: expected {value}, seen {', '.join(map(str, sorted(found, key=str)))}"
    return ""


def _leaders(placed: Placed) -> set[object]:
    count = Counter(replicas[0] for replicas in placed.assignment.values())
    return {count[broker.id] for broker in placed.brokers}


def _replicas(placed: Placed) -> set[object]:
    count = Counter(broker for replicas in placed.assignment.values() for broker in replicas)
    return {count[broker.id] for broker in placed.brokers}


def _racks(placed: Placed) -> set[object]:
    racks = {broker.id: broker.rack for broker in placed.brokers}
    return {len({racks[broker] for broker in replicas}) for replicas in placed.assignment.values()}


def _distinct(placed: Placed) -> set[object]:
    return {len(set(replicas)) == len(replicas) for replicas in placed.assignment.values()}


_MEASURES: Mapping[str, Callable[[Placed], set[object]]] = {
    "no_duplicate_broker_in_partition": _distinct,
    "distinct_racks_per_partition": _racks,
    "leaders_per_broker": _leaders,
    "replicas_per_broker": _replicas,
    "replicas_per_partition": lambda placed: {len(replicas) for replicas in placed.assignment.values()},
    "partition_count": lambda placed: {len(placed.assignment)},
    "new_partition_ids": lambda placed: {placed.new},
}
