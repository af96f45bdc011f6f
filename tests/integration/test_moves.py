"""Moves on a real ZooKeeper with a simulated controller: batches, throttles, resuming, and what stops a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from integration.write_fixtures import connect_cluster
from support.builders import spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveProgress, MoveSettings, ReplicaMove
from topiarist.model.outcome import ReconcileReport, Result
from topiarist.model.plan import Plan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

RATE = 1_000_000
REQUEST, RECORD = "/admin/reassign_partitions", "/topiarist/moves"
ADOPT = RunOptions(adopt=("*",))
SETTINGS = MoveSettings(frozenset(MoveKind) - {MoveKind.LEADERS}, RATE, BatchLimits(partitions=2), stall_after=20)
DRAINING = ClusterSpec("prod", version=(3, 9), moves=SETTINGS, drain_brokers=frozenset({6}))
LISTS = ((6, 1), (1, 2), (2, 6), (3, 6), (6, 4), (5, 6))


@pytest.fixture
def moving(cluster: SimulatedKafka) -> SimulatedKafka:
    """Return a cluster with a controller that carries out reassignments."""
    cluster.moves_replicas = True
    return cluster


def _spec(name: str = "orders", on: ClusterSpec = DRAINING, **fields: int) -> TopicSpec:
    return spec(name, on, **({"partitions": len(LISTS)} | fields))


def _plan(kafka: SimulatedKafka, *specs: TopicSpec, on: ClusterSpec = DRAINING) -> Plan:
    with connect_cluster(kafka.connect) as cluster:
        return read_and_plan(cluster, on, specs, ADOPT)


def _apply(
    kafka: SimulatedKafka,
    plan: Plan,
    *,
    settings: MoveSettings = SETTINGS,
    wait: bool = True,
    stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[MoveProgress], None] = lambda progress: None,
) -> ReconcileReport:
    with connect_cluster(kafka.connect) as cluster:
        options = MoveOptions(settings, wait, on_progress)
        return apply_plan(cluster, plan, stop=stop, move_options=options)


def _lists(kafka: SimulatedKafka, topic: str = "orders") -> list[Replicas]:
    partitions = json.loads(kafka.client.get(f"/brokers/topics/{topic}")[0])["partitions"]
    return [tuple(partitions[str(partition)]) for partition in range(len(partitions))]


def _throttles(kafka: SimulatedKafka) -> dict[str, dict[str, str]]:
    """Return the throttle configs of every topic and broker that has any."""
    nodes = write_checker.read_nodes(kafka.connect)
    configs = {
        path.removeprefix("/config/"): json.loads(node.data)["config"]
        for path, node in nodes.items()
        if path.startswith(("/config/topics/", "/config/brokers/")) and node.data
    }
    return {
        entity: found
        for entity, config in configs.items()
        if (found := {key: value for key, value in config.items() if "throttled" in key})
    }


def _after(plan: Plan, topic: str = "orders") -> list[Replicas]:
    moves: Sequence[ReplicaMove] = next(each for each in plan.topics if each.topic == topic).moves()
    moved = {move.partition: move.after for move in moves}
    return [moved.get(partition, replicas) for partition, replicas in enumerate(LISTS)]


def test_a_drain_is_carried_out_in_batches(moving: SimulatedKafka) -> None:
    """The lists are those of the plan; no request, no record and no throttle is left; a second plan has no moves."""
    moving.add_topics(Topic("orders", LISTS, {}))
    plan, seen = _plan(moving, _spec()), list[MoveProgress]()
    report = _apply(moving, plan, on_progress=seen.append)
    assert [outcome.result for outcome in report.outcomes] == [Result.DONE], report
    assert _lists(moving) == _after(plan)
    assert not any(6 in replicas for replicas in _lists(moving))
    assert moving.client.exists(REQUEST) is None
    assert moving.client.exists(RECORD) is None
    assert _throttles(moving) == {}
    assert max(progress.batch for progress in seen) == 3
    assert sum(len(progress.finished) for progress in seen) == len(plan.topics[0].moves())
    assert not _plan(moving, _spec()).topics


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
