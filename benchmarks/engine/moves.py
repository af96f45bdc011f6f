"""Computing moves for a whole cluster: 10,000 topics of 10 partitions on 60 brokers.

Each figure has its goal in seconds, and as its gate the ratio to counting the replicas of all lists once, which holds
on any machine. Kafka's own placements have few different lists, which helps; lists at random have none in common, so
the same work is measured with them too. Seconds are processor time: the work waits for nothing.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from typing import Any

from benchmarks.common import measure_median

from topiarist.kafka.placement import assign_replicas, derive_start_and_shift, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchLimits, ReplicaMove
from topiarist.model.plan import compute_broker_load
from topiarist.planning.moves.ledger import make_batches
from topiarist.planning.moves.planner import ReplicaPicker, drain, lower_factor, raise_factor, repair_racks, spread

TOPICS, PARTITIONS, BROKERS, RACKS = 10_000, 10, 60, 3
RUNS = 3

Lists = tuple[Replicas, ...]
PlanTopic = Callable[[Lists, ReplicaPicker], Lists]


def make_cluster(seed: int) -> tuple[list[Broker], list[Lists], list[Lists]]:
    """Return the brokers, topics as Kafka places them, and topics with lists at random."""
    brokers = [Broker(id_, f"rack-{id_ % RACKS}") for id_ in range(BROKERS)]
    ordered, draw = prepare_brokers(brokers, "enforced"), random.Random(seed)
    placed = []
    for number in range(TOPICS):
        start, shift = derive_start_and_shift(f"topic-{number}", ordered)
        placed.append(assign_replicas(ordered, PARTITIONS, replication_factor=3, start=start, shift=shift))
    scattered = [tuple(tuple(draw.sample(range(BROKERS), 3)) for _ in range(PARTITIONS)) for _ in range(TOPICS)]
    return brokers, placed, scattered


def plan_all(
    plan_topic: PlanTopic, brokers: Sequence[Broker], topics: Sequence[Lists], without: Collection[int] = ()
) -> list[Lists]:
    """Return the lists of all topics after the work."""
    picker = ReplicaPicker(brokers, without, Counter(chain.from_iterable(topics)))
    planned = []
    for lists in topics:
        picker.begin_topic(lists)
        planned.append(plan_topic(lists, picker))
    return planned


def count_copies(before: Sequence[Lists], after: Sequence[Lists]) -> int:
    """Return the number of replicas that the brokers would copy."""
    return sum(
        len(set(new) - set(old))
        for lists, planned in zip(before, after, strict=True)
        if lists != planned
        for old, new in zip(lists, planned, strict=True)
    )


def cut(topics: Sequence[Lists], width: int) -> list[Lists]:
    """Return the topics with shorter lists."""
    return [tuple(replicas[:width] for replicas in lists) for lists in topics]


def measure_cpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of processor time that ``work`` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure() -> list[dict[str, Any]]:
    """Return P1 to P8."""
    brokers, placed, scattered = make_cluster(1)
    bare = [Broker(broker.id) for broker in brokers]
    baseline = measure_median(
        lambda: measure_cpu_seconds(
            lambda: compute_broker_load(Counter(chain.from_iterable(scattered)), range(BROKERS))
        ),
        RUNS,
    )
    widen: PlanTopic = lambda lists, picker: raise_factor(lists, 3, picker)[0]  # noqa: E731
    shorten: PlanTopic = lambda lists, picker: lower_factor(lists, 2, picker)  # noqa: E731
    empty: PlanTopic = lambda lists, picker: drain(lists, {7}, picker)  # noqa: E731
    even: PlanTopic = lambda lists, picker: spread(lists, picker, within_one=True)  # noqa: E731
    one_topic = [tuple(chain.from_iterable(scattered[:30]))]
    works: list[tuple[str, str, float, float, PlanTopic, Sequence[Broker], Sequence[Lists], Collection[int]]] = [
        ("P1", "nothing to do, Kafka's lists", 0.1, 1.5, repair_racks, brokers, placed, ()),
        ("P1 random", "nothing to do, lists at random without racks", 0.1, 8.0, repair_racks, bare, scattered, ()),
        ("P2", "raise 2 -> 3 everywhere, by sequence", 0.5, 12.0, widen, brokers, cut(placed, 2), ()),
        ("P3", "raise 2 -> 3 everywhere, lists at random", 1.0, 25.0, widen, brokers, cut(scattered, 2), ()),
        ("P4", "lower 3 -> 2 everywhere", 0.5, 12.0, shorten, brokers, placed, ()),
        ("P4 random", "the same, lists at random", 0.5, 12.0, shorten, brokers, scattered, ()),
        ("P5", "drain 1 of 60 brokers", 0.3, 4.0, empty, brokers, placed, {7}),
        ("P6", "rack repair, lists at random", 2.0, 40.0, repair_racks, brokers, scattered, ()),
        ("P7", "spread one topic of 300 partitions", 0.1, 0.5, even, brokers, one_topic, ()),
    ]
    figures = []
    for name, what, goal, most, work, on, topics, without in works:
        run = partial(plan_all, work, on, topics, without)
        seconds = measure_median(lambda run=run: measure_cpu_seconds(run), RUNS)  # type: ignore[misc]
        copies = f"{count_copies(topics, run()):,} copies"
        figures.append(_make_figure(name, what, (seconds, goal), copies, (seconds / baseline, most)))
    moves = [
        ReplicaMove(f"topic-{number}", partition, replicas, (*replicas[:2], spare))
        for number, lists in enumerate(placed[: 20_000 // PARTITIONS])
        for partition, replicas in enumerate(lists)
        for spare in [next(broker for broker in range(BROKERS) if broker not in replicas)]
    ]
    seconds = measure_median(lambda: measure_cpu_seconds(lambda: make_batches(moves, BatchLimits())), RUNS)
    batches = f"{len(make_batches(moves, BatchLimits())):,} batches"
    what = "20,000 moves into batches"
    figures.append(_make_figure("P8", what, (seconds, 0.2), batches, (seconds / baseline, 5.0)))
    return figures


def _make_figure(
    name: str, what: str, seconds: tuple[float, float], result: str, ratio: tuple[float, float]
) -> dict[str, Any]:
    """Return a figure; ``seconds`` are those measured and wanted, ``ratio`` is the one measured and the highest one."""
    times, most = ratio
    return {
        "goal": name,
        "what": what,
        "measured": f"{seconds[0]:.3f} s, {result}",
        "wanted": f"{seconds[1]} s",
        "gate": f"{times:.1f} times counting all replicas (at most {most:g})",
        "holds": times <= most,
    }
