"""One function for each kind of vector about moves, from the input to the product's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchLimits, ReplicaMove
from topiarist.planning.moves import throttles
from topiarist.planning.moves.ledger import make_batches
from topiarist.planning.moves.planner import (
    ReplicaPicker,
    drain,
    kafka_bounds,
    lower_factor,
    raise_factor,
    repair_racks,
    spread,
)
from vectors.admission import Input, VectorResult

Lists = tuple[Replicas, ...]


def _raise(given: Input, lists: Lists, picker: ReplicaPicker) -> VectorResult:
    known = (given["start_index"], given["shift"]) if "shift" in given else None
    after, method = raise_factor(lists, given["replication_factor"], picker, start_and_shift=known)
    return {**_result(lists, after, picker), "by": method.value}


def _lower(given: Input, lists: Lists, picker: ReplicaPicker) -> VectorResult:
    return _result(lists, lower_factor(lists, given["replication_factor"], picker), picker)


def _drain(given: Input, lists: Lists, picker: ReplicaPicker) -> VectorResult:
    return _result(lists, drain(lists, given["draining"], picker), picker)


def _repair_racks(_given: Input, lists: Lists, picker: ReplicaPicker) -> VectorResult:
    return _result(lists, repair_racks(lists, picker), picker)


def _spread(given: Input, lists: Lists, picker: ReplicaPicker) -> VectorResult:
    return _result(lists, spread(lists, picker, within_one=given["tolerance"] == "One"), picker)


def is_uneven(lists: Lists, picker: ReplicaPicker) -> bool:
    """Return whether a broker holds more or less of a topic than Kafka's placement would leave it."""
    counts = Counter(broker for replicas in lists for broker in replicas)
    held = [counts[broker.id] for broker in picker.takers]
    return not kafka_bounds(lists, len(held)).contain(held)


def _uneven(_given: Input, lists: Lists, picker: ReplicaPicker) -> VectorResult:
    return {"uneven": is_uneven(lists, picker), **kafka_bounds(lists, len(picker.takers))._asdict()}


ON_LISTS: Mapping[str, Callable[[Input, Lists, ReplicaPicker], VectorResult]] = {
    "raise": _raise,
    "lower": _lower,
    "drain": _drain,
    "rack_repair": _repair_racks,
    "spread": _spread,
    "uneven": _uneven,
}
"""The kinds of vector that have the lists of one topic."""


def run_on_lists(kind: str, given: Input) -> VectorResult:
    """Run a kind of vector that has the lists of one topic."""
    lists = tuple(tuple(replicas) for replicas in given["lists"])
    brokers = [Broker(int(broker["id"]), broker["rack"]) for broker in given["brokers"]]
    held: Mapping[Replicas, int] = {(int(broker),): count for broker, count in given.get("held", {}).items()}
    without = {*given.get("without", ()), *given.get("draining", ())}
    counts: Mapping[Replicas, int] = held or Counter(lists)
    picker = ReplicaPicker(brokers, without, counts)
    picker.begin_topic(lists)
    return ON_LISTS[kind](given, lists, picker)


def run_in_flight(given: Input) -> VectorResult:
    """Return the list of a partition while it moves."""
    move = ReplicaMove("t", 0, tuple(given["before"]), tuple(given["after"]))
    return {
        "replicas": list(move.in_flight),
        "adding": list(move.added),
        "removing": list(move.removed),
        "kind": move.type.value,
    }


def run_batches(given: Input) -> VectorResult:
    """Put the moves of a vector into batches."""
    limits = BatchLimits(given["partitions"], given["incoming"], given["outgoing"])
    batches = make_batches(_moves(given), limits)
    return {"batches": [[[move.topic, move.partition] for move in batch] for batch in batches]}


def run_throttle(given: Input) -> VectorResult:
    """Return the throttled replicas of a vector's moves."""
    found = throttles.find_throttled_replicas(_moves(given))
    formatted = {
        topic: {name: throttles.format_throttled_replicas(listed) for name, listed in replicas._asdict().items()}
        for topic, replicas in found.items()
    }
    return {"topics": formatted, "brokers": list(throttles.find_throttled_brokers(found.values()))}


def _moves(given: Input) -> list[ReplicaMove]:
    return [
        ReplicaMove(topic, partition, tuple(before), tuple(after)) for topic, partition, before, after in given["moves"]
    ]


def _result(before: Sequence[Replicas], after: Sequence[Replicas], picker: ReplicaPicker) -> VectorResult:
    held = Counter(broker for replicas in after for broker in replicas)
    led = Counter(replicas[0] for replicas in after)
    return {
        "lists": [list(replicas) for replicas in after],
        "copies": sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True)),
        "held": _extremes([held[broker.id] for broker in picker.takers]),
        "led": _extremes([led[broker.id] for broker in picker.takers]),
    }


def _extremes(counts: Sequence[int]) -> list[int]:
    return [min(counts), max(counts)]
