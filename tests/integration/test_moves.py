"""Moves on a real ZooKeeper: a drain in batches, the cost of its polls, and saved plans and reviews of moves."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from support.builders import spec
from support.cli.runs import run_topiarist
from support.zookeeper.moves import DRAINING, LISTS, MovingCluster
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveProgress, MoveSettings
from topiarist.model.plan import RunOptions
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

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
        with ZooKeeperCluster(ZooKeeperAccess(proxy.through(cluster.connect)), owner="default") as connected:
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


HEAD = "apiVersion: topiarist.dev/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
MOVES = "allow: [Drain], throttle: 50MiB"


class Reviewed(MovingCluster):
    """A cluster with a topic to drain, its manifests, and a file with the plan that people reviewed."""

    def __init__(self, folder: Path, kafka: SimulatedKafka) -> None:
        super().__init__(kafka)
        self.file = folder / "plan.json"
        self.platform, self.topics = folder / "clusters.yaml", folder / "topics.yaml"
        kafka.moves_replicas = True
        kafka.add_topics(Topic("orders", LISTS, {}))
        self.topics.write_text(HEAD.format(kind="Topic", name="orders", spec="{partitions: 6, replicationFactor: 2}"))
        self.declare()
        assert self.run("plan", str(self.topics), "--out", str(self.file)) == 0
        self.reviewed = json.loads(self.file.read_text())

    def declare(self, *, drained: str = "[6]", moves: str = MOVES, other: str = "") -> None:
        """Write the document of the cluster."""
        spec = f"{{zookeeper: {{connect: '{self.kafka.connect}'}}, kafkaVersion: '3.9', "
        spec += f"drainBrokers: {drained}, moves: {{{moves}}}{other}}}"
        self.platform.write_text(HEAD.format(kind="Cluster", name="prod", spec=spec))

    def run(self, *words: str) -> int:
        """Run one command line and return its exit code; ``said`` has its output."""
        more = "--adopt=*" if "--plan" not in words else "--partial"
        code, out, err = run_topiarist(*words, "--clusters", self.platform, more)
        self.said = out + err
        return code

    @property
    def expected(self) -> tuple[Replicas, ...]:
        """Return the lists of the topic after the reviewed plan."""
        moves = self.reviewed["clusters"][0]["topics"][0]["changes"][0]["moves"]
        after = {move["partition"]: tuple(move["after"]) for move in moves}
        return tuple(after.get(partition, replicas) for partition, replicas in enumerate(LISTS))


@pytest.fixture
def moving(tmp_path: Path, cluster: SimulatedKafka) -> Reviewed:
    """Return a cluster with a reviewed plan that drains broker 6."""
    return Reviewed(tmp_path, cluster)


def test_a_reviewed_plan_is_applied_in_parts(moving: Reviewed) -> None:
    """Runs that copy two replicas each end with the reviewed lists, whatever a new plan would choose in between."""
    moving.kafka.add_broker(Broker(7, "c"))
    words = ("apply", str(moving.topics), "--reviewed", str(moving.file), "--yes", "--max-moves", "2")
    codes = [moving.run(*words) for _ in range(4)]
    assert codes == [4, 4, 0, 0], moving.said
    assert moving.lists() == moving.expected


DOCUMENTS: dict[str, tuple[dict[str, str], str]] = {
    "no permission": ({"moves": "throttle: 50MiB"}, "MoveNotAllowed"),
    "no throttle": ({"moves": "allow: [Drain]"}, "ThrottleMissing"),
    "targets drained": ({"drained": "[1, 2, 3, 4, 5, 6]"}, "ExcludedBrokers"),
    "targets excluded": ({"other": ", excludeBrokers: [1, 2, 3, 4, 5]"}, "ExcludedBrokers"),
    "protected": ({"other": ", protected: ['*']"}, "ProtectedTopic"),
}


@pytest.mark.parametrize(("document", "reason"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_the_cluster_of_the_run_decides(moving: Reviewed, document: dict[str, str], reason: str) -> None:
    """A saved plan is refused if the document of the applying run does not permit its moves any more."""
    moving.declare(**document)
    assert moving.run("apply", "--plan", str(moving.file), "--yes") == 4
    assert reason in moving.said
    assert moving.lists() == LISTS


def test_the_throttle_of_the_run_is_enough(moving: Reviewed) -> None:
    """``--throttle`` is pace: it may be given with a saved plan, and replaces a throttle that the document lacks."""
    moving.declare(moves="allow: [Drain]")
    assert moving.run("apply", "--plan", str(moving.file), "--yes", "--throttle", "5MiB") == 0
    assert "at most 5 MiB/s a broker" in moving.said
    assert moving.lists() == moving.expected
