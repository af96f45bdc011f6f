"""G9: Kafka's placement of 1,000,000 partitions, as many small topics and as few large ones."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from topiarist.kafka.placement import ReplicaPlacer, derive_start_and_shift
from topiarist.kafka.types import Broker

GOAL_SECONDS = 0.15
RUNS = 5
REPLICATION_FACTOR = 3
SHAPES = ((20_000, 50), (100, 10_000))
BROKER_COUNTS = (9, 60, 300)
RACKS = 3


def measure() -> dict[str, Any]:
    """Return medians of five runs with fresh placers; the slowest case counts. ``plain`` is Kafka's algorithm."""
    cases: dict[str, float] = {}
    for size in BROKER_COUNTS:
        for racked in (False, True):
            brokers = [Broker(1000 + number, f"rack-{number % RACKS}" if racked else None) for number in range(size)]
            for topics, partitions in SHAPES:
                label = f"{topics} x {partitions}, {size} brokers, {'racks' if racked else 'no racks'}"
                cases[label] = round(median(_seconds(brokers, topics, partitions) for _ in range(RUNS)), 3)
    worst = max(cases.values())
    plain = round(median(_kafka_algorithm_seconds() for _ in range(RUNS)), 3)
    return {
        "goal": "G9",
        "partitions": SHAPES[0][0] * SHAPES[0][1],
        "seconds": worst,
        "goal_seconds": GOAL_SECONDS,
        "plain_seconds": plain,
        "ratio_to_plain": round(plain / worst, 1),
        "cases": cases,
    }


def _seconds(brokers: Sequence[Broker], topics: int, partitions: int) -> float:
    points = [derive_start_and_shift(f"topic-{number}", brokers) for number in range(topics)]
    gc.collect()
    begin = time.perf_counter()
    placement = ReplicaPlacer(brokers)
    kept = [
        placement.assign_replicas(partitions, replication_factor=REPLICATION_FACTOR, start=s, shift=t)
        for s, t in points
    ]
    seconds = time.perf_counter() - begin
    assert sum(map(len, kept)) == topics * partitions
    return seconds


def _kafka_algorithm_seconds() -> float:
    """Return the seconds of Kafka's own algorithm, list by list, for the first case without racks."""
    topics, partitions = SHAPES[0]
    size = BROKER_COUNTS[0]
    points = [derive_start_and_shift(f"topic-{number}", range(size)) for number in range(topics)]
    begin = time.perf_counter()
    kept = []
    for start, first_shift in points:
        shift, lists = first_shift, []
        for partition in range(partitions):
            shift += partition > 0 and partition % size == 0
            first = (partition + start) % size
            lists.append(
                (first, *((first + 1 + (shift + step) % (size - 1)) % size for step in range(REPLICATION_FACTOR - 1)))
            )
        kept.append(tuple(lists))
    assert sum(map(len, kept)) == topics * partitions
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
