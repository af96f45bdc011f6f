"""Moves on a real ZooKeeper with a simulated controller: a drain in batches, and what its polls cost."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from support.builders import spec
from support.zookeeper.moves import DRAINING, LISTS, MovingCluster, moves_by_topic
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveProgress, MoveSettings
from topiarist.model.outcome import Result
from topiarist.model.plan import RunOptions
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan


def test_a_drain_is_carried_out_in_batches(cluster: SimulatedKafka) -> None:
    """The lists are those of the plan; no request, no record and no throttle is left; a second plan has no moves."""
    moving, seen = MovingCluster(cluster), list[MoveProgress]()
    cluster.moves_replicas = True
    cluster.add_topics(Topic("orders", LISTS, {}))
    plan = moving.plan()
    report = moving.apply(plan, on_progress=seen.append)
    assert [outcome.result for outcome in report.outcomes] == [Result.DONE], report
    assert moving.problems(plan) == []
    assert not any(6 in replicas for replicas in moving.lists())
    assert max(progress.batch for progress in seen) == 3
    assert sum(len(progress.finished) for progress in seen) == len(moves_by_topic(plan)["orders"])
    assert not moving.plan().topics


POLLED_LISTS: tuple[Replicas, ...] = ((6, 1), (1, 2), (2, 6))
UNTHROTTLED = MoveSettings(frozenset(MoveKind), UNLIMITED, BatchLimits(50, 50, 50))


@pytest.mark.slow
def test_a_poll_of_ten_topics_is_two_requests(cluster: SimulatedKafka) -> None:
    """While a batch is in flight, each poll is one ``sync`` and one read; a run after the last move writes nothing."""
    names = [f"topic-{number}" for number in range(10)]
    cluster.moves_replicas = True
    cluster.add_topics(*(Topic(name, POLLED_LISTS, {}) for name in names))
    cluster.lagging_brokers = set(range(1, 7))
    polls: list[Counter[str]] = []

    def apply() -> None:
        def on_progress(progress: MoveProgress) -> None:
            if progress.copying:
                polls.append(proxy.requests)

        specs = [spec(name, DRAINING, partitions=len(POLLED_LISTS), replicationFactor=2) for name in names]
        with ZooKeeperCluster(proxy.through(cluster.connect), owner="default") as connected:
            plan = read_and_plan(connected, DRAINING, specs, RunOptions(adopt=("*",)))
            options = MoveOptions(UNTHROTTLED, on_progress=on_progress)
            report = apply_plan(connected, plan, stop=lambda: len(polls) == 4, move_options=options)
            assert report.error is None

    with Proxy(cluster.connect.partition("/")[0]) as proxy:
        apply()
        # The first poll reads the partition states too.
        for before, after in pairwise(polls[1:]):
            assert after - before == Counter({"sync": 1, "multiRead": 1})
        cluster.lagging_brokers = set()
        cluster.run_and_wait(cluster._process_reassignment_request)
        polls.clear()
        apply()
        proxy.reset()
        apply()
        assert proxy.writes == 0
