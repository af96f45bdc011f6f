"""The requests of a run that moves replicas: few while it waits, none that writes when nothing is left to do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from support.builders import spec
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveProgress, MoveSettings
from topiarist.model.outcome import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

LISTS: tuple[Replicas, ...] = ((6, 1), (1, 2), (2, 6))
SETTINGS = MoveSettings(frozenset(MoveKind), UNLIMITED, BatchLimits(50, 50, 50))
DRAINING = ClusterSpec("prod", version=(3, 9), moves=SETTINGS, drain_brokers=frozenset({6}))


@pytest.mark.slow
def test_a_poll_of_ten_topics_is_two_requests(cluster: SimulatedKafka) -> None:
    """While a batch is in flight, each poll is one ``sync`` and one read; a run after the last move writes nothing."""
    names = [f"topic-{number}" for number in range(10)]
    cluster.moves_replicas = True
    cluster.add_topics(*(Topic(name, LISTS, {}) for name in names))
    cluster.lagging_brokers = set(range(1, 7))
    polls: list[Counter[str]] = []

    def apply() -> None:
        def on_progress(progress: MoveProgress) -> None:
            if progress.copying:
                polls.append(proxy.requests)

        specs = [spec(name, DRAINING, partitions=len(LISTS), replicationFactor=2) for name in names]
        with ZooKeeperCluster(proxy.through(cluster.connect), owner="default") as connected:
            plan = read_and_plan(connected, DRAINING, specs, RunOptions(adopt=("*",)))
            options = MoveOptions(SETTINGS, on_progress=on_progress)
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
