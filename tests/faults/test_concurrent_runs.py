"""F7 and F8: two runs at the same time, with equal or different manifests. Each seed selects the write of the first at
which the second begins, and the delay of each connection.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

import pytest

from conftest import BROKERS
from faults.conftest import FaultStatistics
from integration.write_fixtures import connect_cluster
from support.builders import apply_outcomes, plan_specs, topic_spec
from support.waiting import wait_until
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from support.zookeeper.write_checker import Tree
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.spec import TopicSpec
from topiarist.reconcile import apply_plan

pytestmark = pytest.mark.timeout(600)

EVERY = busy_cluster.desired_specs()
KEPT = tuple(spec for spec in EVERY if spec.topic not in busy_cluster.DELETED_NAMES)


class Racer(threading.Thread):
    """A run that plans at once, and applies through its own connection when it may start."""

    def __init__(self, connect: str, proxy: Proxy, specs: Sequence[TopicSpec]) -> None:
        super().__init__(daemon=True)
        self.report: ReconcileReport | None = None
        self.ready, self.begin = threading.Event(), threading.Event()
        self._connect, self._proxy, self._specs = connect, proxy, specs
        self.start()

    def run(self) -> None:
        """Apply in the thread."""
        with connect_cluster(self._proxy.through(self._connect), lock_timeout=60) as port:
            plan = plan_specs(port, *self._specs)
            self.ready.set()
            self.begin.wait(60)
            self.report = apply_plan(port, plan, stop=lambda: False)

    def outcomes(self) -> Mapping[str, Outcome]:
        """Return the outcome of each topic, after a run without error."""
        self.join(60)
        assert self.report is not None
        assert self.report.error is None
        return {outcome.topic: outcome for outcome in self.report.outcomes}


class Ended(NamedTuple):
    """The outcomes of both runs, and the cluster before and after."""

    first: Mapping[str, Outcome]
    second: Mapping[str, Outcome]
    before: Tree
    after: Tree


def race(zookeeper: EmbeddedZooKeeper, connect: str, random: Random, wishes: Sequence[Sequence[TopicSpec]]) -> Ended:
    """Plan both runs from the same state; the second applies at the same time, at a random write of the first, or after
    it.
    """
    before = write_checker.read_nodes(connect)
    with Proxy(zookeeper.connect) as one, Proxy(zookeeper.connect) as other:
        first, second = (Racer(connect, proxy, specs) for proxy, specs in zip((one, other), wishes, strict=True))
        for racer, proxy in ((first, one), (second, other)):
            assert racer.ready.wait(60)
            proxy.delay = random.uniform(0, 0.002)
        if moment := random.randint(0, 22):
            one.hold(moment, second.begin.set)
        else:
            second.begin.set()
        first.begin.set()
        of_first = first.outcomes()
        second.begin.set()  # the first may have had less to write than that
        return Ended(of_first, second.outcomes(), before, write_checker.read_nodes(connect))


def written(tree: Tree) -> dict[str, tuple[bytes | None, int]]:
    """Return the content and the write count of each znode, without session and time."""
    parents = ("/brokers/topics/", "/config/topics/", "/topiarist/topics/", "/admin/delete_topics/")
    return {path: (node.data, node.version) for path, node in tree.items() if path.startswith(parents)}


def test_f07_two_runs_with_the_same_wishes(
    mould: ClusterTemplate, zookeeper: EmbeddedZooKeeper, seeds: int, tally: FaultStatistics
) -> None:
    """Twenty topics: each is done by exactly one run, each znode is written once, and the result is that of one run."""
    alone = mould.create_copy()
    with connect_cluster(alone) as port:
        apply_plan(port, plan_specs(port, *EVERY), stop=lambda: False)
    expected, done = written(write_checker.read_nodes(alone)), Counter[str]()
    for seed in range(seeds):
        ended = race(zookeeper, mould.create_copy(), Random(seed), (EVERY, EVERY))
        for topic in busy_cluster.NAMES:
            both = sorted(outcomes[topic].result.value for outcomes in (ended.first, ended.second))
            assert both == sorted((Result.DONE.value, Result.UNCHANGED.value)), (seed, topic)
        assert written(ended.after) == expected, seed
        assert list(busy_cluster.find_damage(ended.before, ended.after)) == [], seed
        done["second"] += sum(outcome.result is Result.DONE for outcome in ended.second.values())
    tally.set_cases(seeds)


def others(random: Random) -> tuple[TopicSpec, ...]:
    """Return other sizes and values for the same topics."""
    return tuple(
        topic_spec(name, partitions=random.randint(1, 8), config={"retention.ms": 1000 * random.randint(1, 9)})
        for name in busy_cluster.NAMES
        if name not in busy_cluster.DELETED_NAMES
    )


def sizes(tree: Tree) -> dict[str, int]:
    """Return the partition count of each topic."""
    return {name: len(topic["partitions"]) for name, topic in write_checker.decode_topics(tree).items()}


def test_f08_two_runs_with_different_wishes(
    mould: ClusterTemplate, zookeeper: EmbeddedZooKeeper, seeds: int, tally: FaultStatistics
) -> None:
    """One of the runs wins each topic. The other reports what it found, and does nothing else."""
    moved = 0
    for seed in range(seeds):
        random = Random(seed)
        wishes = (others(random), others(random))
        ended = race(zookeeper, mould.create_copy(), random, wishes)
        allowed = tuple(spec.topic for spec in wishes[0])
        assert write_checker.find_problems(ended.before, ended.after, allowed) == [], seed
        now = sizes(ended.after)
        for name, count in sizes(ended.before).items():
            assert now[name] >= count, (seed, name)
        for name in allowed:
            results = [outcomes[name].result for outcomes in (ended.first, ended.second) if name in outcomes]
            moved += results.count(Result.CONFLICT)
            assert results.count(Result.DONE) <= 1, (seed, name)
            assert set(results) <= {Result.DONE, Result.CONFLICT, Result.UNCHANGED}, (seed, name)
    assert moved > 0
    tally.set_cases(seeds)
    tally.add("conflicts reported", moved)


RACES = 100
"""Topics that one run creates and another grows at once, whatever the length of the other tests."""


def test_f08_growth_while_the_controller_takes_the_topic_over(
    zookeeper: EmbeddedZooKeeper, chroot: str, tally: FaultStatistics
) -> None:
    """The controller reads a new topic and sets it with its id at any version, so growth in between could be lost.
    Growth is refused, or present at the end.
    """
    found = Counter[Result]()
    with Proxy(zookeeper.connect) as slow, SimulatedKafka(slow.through(chroot), BROKERS) as cluster:
        with connect_cluster(chroot) as creator, connect_cluster(chroot) as grower:
            for seed in range(RACES):
                random, name = Random(seed), f"topic-{seed}"
                slow.delay = random.uniform(0, 0.006)
                assert apply_outcomes(creator, plan_specs(creator, topic_spec(name)))[name].result is Result.DONE
                time.sleep(random.uniform(0, 0.01))
                plan = plan_specs(grower, topic_spec(name, partitions=4))
                result = apply_outcomes(grower, plan)[name].result if plan.has_changes else Result.REFUSED
                slow.delay = 0
                # The controller makes the states after it has set the node: behind them nothing is lost any more.
                wait_until(partial(cluster.client.exists, paths.partition_state_path(name, 1)), f"the states of {name}")
                node = topics.decode_topic(cluster.client.get(paths.topic_path(name))[0])
                assert (len(node.replicas), node.topic_id is None) == (4 if result is Result.DONE else 2, False), seed
                found[result] += 1
        assert cluster.controller_errors == []
    assert found.keys() <= {Result.DONE, Result.REFUSED, Result.CONFLICT}
    tally.set_cases(RACES)
    tally.add("growth refused until the controller has taken a topic over", found[Result.REFUSED])
