"""Shared parts of the tests that move replicas of real brokers: manifests, data to copy, and the checks after a run.

Brokers fetch small amounts (``MOVES_PROPERTIES``), so a low throttle keeps a few hundred kilobytes in flight until a
test allows a higher rate: ``SLOW`` and ``FAST`` are values of ``spec.moves.throttle``.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.cli.runs import RunResult, run_topiarist, start_topiarist
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.programs import Program
from support.waiting import wait_until
from support.zookeeper.write_checker import read_nodes
from topiarist.errors import Exit
from topiarist.kafka.types import Replicas

MOVES_RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "a", 4: "b"}

FETCH_BYTES = 65_536
"""The most that a broker fetches of one partition at a time."""

MOVES_PROPERTIES: Mapping[str, object] = {"replica.fetch.max.bytes": FETCH_BYTES}

MESSAGE = "x" * 60_000
SLOW, FAST = "1KiB", "50MiB"

REQUEST, RECORD = "/admin/reassign_partitions", "/topiarist/moves"

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

RUN_TIMEOUT_S = 240.0
"""Seconds for a run on a busy machine; only a run that hangs takes this long."""

Lists = tuple[Replicas, ...]


@dataclass(frozen=True)
class MovesFixture:
    """A cluster with manifests that allow every kind of moves, and the running ``apply`` processes of a test."""

    bed: KafkaFixture
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def kafka(self) -> Cluster:
        """Return the Kafka cluster."""
        return self.bed.kafka

    def create(self, topics: Mapping[str, Sequence[Replicas]], *, messages: int = 20) -> None:
        """Create topics with these lists, in sync, with this number of messages in each partition."""
        assert self.bed.clients.create(topics) == {}
        self.bed.describe_in_sync(topics)
        for _ in range(messages):
            self.bed.write_messages(topics, MESSAGE)

    def declare(
        self,
        topics: Mapping[str, Mapping[str, Any]],
        *,
        drain: Collection[int] = (),
        throttle: str = FAST,
        batch: int = 50,
        stall_after: str = "60s",
        connect: str = "",
    ) -> None:
        """Replace the manifests; ``connect`` is the address of ZooKeeper, if a proxy is between."""
        moves = {
            "allow": ["Drain", "Racks", "Factor", "Assignment"],
            "throttle": throttle,
            "batch": {"partitions": batch},
            "stallAfter": stall_after,
        }
        zookeeper = {"connect": connect or self.kafka.connect}
        self.bed.declare(topics, drainBrokers=sorted(drain), moves=moves, zookeeper=zookeeper)

    def declare_target(self, topic: str, lists: Sequence[Replicas], **options: Any) -> None:
        """Declare the replica lists of a topic."""
        self.declare({topic: {"replicaAssignment": [list(replicas) for replicas in lists]}}, **options)

    def plan_lists(self, topics: Mapping[str, Sequence[Replicas]], *words: str) -> dict[str, Lists]:
        """Save a plan, and return the lists that ``topics`` have after it."""
        after = {name: list(map(tuple, lists)) for name, lists in topics.items()}
        for name, changes in self.bed.plan("--adopt=*", *words).items():
            for change in changes:
                for move in change.get("moves") or ():
                    assert after[name][move["partition"]] == tuple(move["before"])
                    after[name][move["partition"]] = tuple(move["after"])
        return {name: tuple(lists) for name, lists in after.items()}

    def apply(self, *words: str) -> RunResult:
        """Plan and apply in one run, to its end; any exit code is accepted."""
        return _join_lines(run_topiarist(*self._command(*words)))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a run that plans and applies."""
        process = start_topiarist(*self._command(*words))
        self.running.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> RunResult:
        """Return the result of a run that was started."""
        out, err = process.communicate(timeout=RUN_TIMEOUT_S)
        return _join_lines(RunResult(process.returncode, out, err))

    def start_slow(self, topic: str, lists: Sequence[Replicas], **options: Any) -> subprocess.Popen[str]:
        """Start a run of one batch that copies slowly, and wait until the controller works on all of it."""
        self.declare_target(topic, lists, **{"throttle": SLOW} | options)
        process = self.start()
        self.wait_in_flight({(topic, partition) for partition in self.wanted_moves(topic, lists)}, process)
        return process

    def wanted_moves(self, topic: str, lists: Sequence[Replicas]) -> list[int]:
        """Return the partitions that are not on these lists."""
        return [partition for partition, now in enumerate(self.lists(topic)) if now != tuple(lists[partition])]

    def wait_in_flight(self, partitions: Collection[tuple[str, int]], process: subprocess.Popen[str]) -> None:
        """Wait until the topics show that these partitions are being reassigned."""

        def in_flight() -> bool:
            assert process.poll() is None, self.finish(process)
            return self.in_flight().issuperset(partitions)

        self.kafka.wait(in_flight, f"{partitions} to be in flight")

    def in_flight(self) -> set[tuple[str, int]]:
        """Return the partitions that the controller reassigns."""
        found = self.bed.clients.ongoing_reassignments()
        return {(topic, int(partition)) for topic, partitions in found.items() for partition in partitions}

    def wait_sent(self, batch: int, process: subprocess.Popen[str]) -> None:
        """Wait until a run has sent this batch."""

        def sent() -> bool:
            assert process.poll() is None, self.finish(process)
            return self.kafka.client.exists(RECORD) is not None and self.record()["batch"] >= batch

        self.kafka.wait(sent, f"batch {batch} to be sent")

    def record(self) -> dict[str, Any]:
        """Return the record of the last batch."""
        found: dict[str, Any] = json.loads(self.kafka.client.get(RECORD)[0])
        return found

    def release(self, topic: str, lists: Sequence[Replicas], *words: str) -> RunResult:
        """Apply again with a high throttle; the run ends what is in flight."""
        self.declare_target(topic, lists, throttle=FAST)
        return self.apply(*words)

    def lists(self, topic: str) -> Lists:
        """Return the replica lists of a topic in ZooKeeper."""
        partitions = json.loads(self.kafka.client.get(f"/brokers/topics/{topic}")[0])["partitions"]
        return tuple(tuple(partitions[str(partition)]) for partition in range(len(partitions)))

    def throttles(self) -> dict[str, dict[str, str]]:
        """Return the throttle configs of every topic and broker that has any."""
        found = {}
        for path, node in read_nodes(self.kafka.connect).items():
            if path.startswith(("/config/topics/", "/config/brokers/")) and node.data:
                config = json.loads(node.data)["config"]
                if values := {key: value for key, value in config.items() if "throttled" in key}:
                    found[path.removeprefix("/config/")] = values
        return found

    def check_nothing_left(self) -> None:
        """Assert that no request, no record of a batch and no throttle is left."""
        assert self.kafka.client.exists(REQUEST) is None
        assert self.kafka.client.exists(RECORD) is None
        assert self.throttles() == {}

    def check_lists(self, topics: Mapping[str, Sequence[Replicas]]) -> None:
        """Assert that ZooKeeper and the brokers show these lists, with all replicas in sync, and nothing left."""
        assert {name: self.lists(name) for name in topics} == {name: tuple(lists) for name, lists in topics.items()}
        found = self.bed.describe_in_sync(topics)
        assert {name: found[name].replicas for name in topics} == {name: tuple(lists) for name, lists in topics.items()}
        self.check_nothing_left()

    def move_writes(self) -> int:
        """Return the number of batches and other writes so far: the version of the record, -1 without a record."""
        node = self.kafka.client.exists(RECORD)
        return -1 if node is None else node.version

    def _command(self, *words: str) -> list[str | Path]:
        return ["apply", self.bed.folder / "manifests", "--yes", "--adopt=*", *words]


@contextmanager
def moves_fixture(cluster: Cluster, program: Program, folder: Path) -> Iterator[MovesFixture]:
    """Return the fixture of one test; afterwards no run and no reassignment is left."""
    fixture = MovesFixture(KafkaFixture(cluster, Clients(program, cluster.bootstrap), folder))
    try:
        yield fixture
    finally:
        for process in fixture.running:
            process.kill()
            process.wait()
        if cluster.client.exists(REQUEST):  # only after a failed test
            cluster.restore()
            rates = dict.fromkeys(RATES)
            fixture.bed.clients.alter({str(broker): rates for broker in cluster.racks}, kind="BROKER")
            if not fixture.in_flight():
                change_controller(cluster)
            cluster.wait(lambda: cluster.client.exists(REQUEST) is None, "the reassignments of a failed test to end")


def change_controller(cluster: Cluster) -> None:
    """End the term of the controller, as another client that deletes its znode; wait for the next term."""
    epoch = int(cluster.client.get("/controller_epoch")[0])
    cluster.client.delete("/controller")
    cluster.wait(lambda: int(cluster.client.get("/controller_epoch")[0]) > epoch, "another controller")
    cluster.controller()


class Traffic:
    """A producer with ``acks=all`` and a consumer of the same topics, at work until the ``with`` block ends.

    Each round writes one numbered message to every partition and then reads all of them, so that a lost message is
    found while replicas move. ``rounds`` counts the acknowledged rounds.
    """

    def __init__(self, bootstrap: str, partitions: Mapping[str, int]) -> None:
        self._partitions = dict(partitions)
        self._bootstrap = bootstrap
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._failure: Exception | None = None
        self.rounds = 0
        self.errors: list[str] = []
        self.lost: list[str] = []

    def __enter__(self) -> Traffic:
        self._thread.start()
        wait_until(lambda: self.rounds or self._failure, "the first message to be acknowledged", timeout=60.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._failure:
            raise self._failure

    def _work(self) -> None:
        try:
            with Program("Clients", NEWEST) as program:
                clients = Clients(program, self._bootstrap)
                while not self._end.is_set():
                    self._work_once(clients)
        except Exception as error:
            self._failure = error

    def _work_once(self, clients: Clients) -> None:
        answers = clients.produce(self._partitions, f"message {self.rounds}")
        self.errors += [word for found in answers.values() for word in found if isinstance(word, str)]
        self.rounds += 1
        wanted = [f"message {number}" for number in range(self.rounds)]
        for topic, partitions in clients.consume(self._partitions).items():
            for partition, values in enumerate(partitions):
                # A retry of the producer may write a message twice.
                if list(dict.fromkeys(value for value in values if value != MESSAGE)) != wanted:
                    self.lost.append(f"{topic} {partition}: {len(values)} messages after round {self.rounds}")


def check_traffic(traffic: Traffic) -> None:
    """Assert that every message was acknowledged and read."""
    assert traffic.errors == []
    assert traffic.lost == []


def check_done(said: RunResult) -> None:
    """Assert that a run did all of its work."""
    assert said.code == Exit.DONE, said


def _join_lines(said: RunResult) -> RunResult:
    """Return a result with the output on one line, so that wrapped lines do not matter."""
    return said._replace(out=" ".join(said.out.split()))
