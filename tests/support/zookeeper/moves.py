"""Moves on a cluster with a simulated controller: planning, applying, and the state that must be left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from kazoo.client import KazooClient

from conftest import BROKERS
from integration.write_fixtures import connect_cluster
from support.builders import spec
from support.zookeeper import write_checker
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, config_bytes
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion, Replicas
from topiarist.model.moves import BatchLimits, MoveKind, MoveProgress, MoveSettings, ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

RATE = 1_000_000
RATES = ("follower.replication.throttled.rate", "leader.replication.throttled.rate")
LISTS_KEYS = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
REQUEST, RECORD = "/admin/reassign_partitions", "/topiarist/moves"
ADOPT = RunOptions(adopt=("*",))
SETTINGS = MoveSettings(frozenset(MoveKind) - {MoveKind.LEADERS}, RATE, BatchLimits(partitions=2), stall_after=20)
DRAINING = ClusterSpec("prod", version=(3, 9), moves=SETTINGS, drain_brokers=frozenset({6}))
"""Broker 6 is drained, in batches of two partitions."""

LISTS: tuple[Replicas, ...] = ((6, 1), (1, 2), (2, 6), (3, 6), (6, 4), (5, 6))
"""Six partitions, five of them on broker 6: three batches."""

_numbers = count(1)


class MovingCluster:
    """A cluster with a controller that carries out reassignments."""

    def __init__(self, kafka: SimulatedKafka) -> None:
        self.kafka = kafka

    @property
    def client(self) -> KazooClient:
        """Return a client of the cluster."""
        return self.kafka.client

    def plan(self, *specs: TopicSpec, on: ClusterSpec = DRAINING, options: RunOptions = ADOPT) -> Plan:
        """Plan, by default the drain of broker 6 by topic ``orders``."""
        with connect_cluster(self.kafka.connect) as cluster:
            return read_and_plan(cluster, on, specs or (topic(on=on),), options)

    def apply(
        self,
        plan: Plan,
        *,
        settings: MoveSettings = SETTINGS,
        wait: bool = True,
        stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[MoveProgress], None] = lambda progress: None,
        connect: str = "",
    ) -> ReconcileReport:
        """Apply a plan with its moves, in a session of its own."""
        with connect_cluster(connect or self.kafka.connect, lock_timeout=30) as cluster:
            return apply_plan(cluster, plan, stop=stop, move_options=MoveOptions(settings, wait, on_progress))

    def lists(self, name: str = "orders") -> tuple[Replicas, ...]:
        """Return the replica lists of a topic, in the order of its partitions."""
        partitions = self.read(f"/brokers/topics/{name}")["partitions"]
        return tuple(tuple(partitions[partition]) for partition in sorted(partitions, key=int))

    def read(self, path: str) -> Any:
        """Return the JSON value of a znode."""
        return json.loads(self.client.get(path)[0])

    def change(self, path: str, **fields: Any) -> None:
        """Set fields of the JSON object in a znode, as another client, in the form that topiarist writes."""
        self.client.set(path, json.dumps({**self.read(path), **fields}, separators=(",", ":")).encode())

    def set_state(self, partition: int, name: str = "orders", **fields: Any) -> None:
        """Set fields of a partition's state, as the controller or the leader does."""
        self.change(f"/brokers/topics/{name}/partitions/{partition}/state", **fields)

    def set_config(self, entity: str, config: Mapping[str, str]) -> None:
        """Set the overrides of a topic or broker, as another client."""
        self.client.ensure_path(f"/config/{entity}")
        self.client.set(f"/config/{entity}", config_bytes(config))

    def request(self, *entries: tuple[str, int, Sequence[int]]) -> None:
        """Request a reassignment, as another client."""
        named = [{"topic": name, "partition": number, "replicas": [*to]} for name, number, to in entries]
        self.client.create(REQUEST, json.dumps({"version": 1, "partitions": named}).encode())

    def lag(self, *brokers: int) -> None:
        """Let copies to these brokers, by default to all, not make progress."""
        self.kafka.lagging_brokers = set(brokers or self.kafka.brokers)

    def catch_up(self) -> None:
        """Let all copies be made at once."""
        self.kafka.lagging_brokers = set()
        self.kafka.wait_idle()

    def throttles(self) -> dict[str, dict[str, str]]:
        """Return the throttle configs of every topic and broker that has any."""
        found = {}
        for path, node in write_checker.read_nodes(self.kafka.connect).items():
            if path.startswith(("/config/topics/", "/config/brokers/")) and node.data:
                config = json.loads(node.data)["config"]
                if throttles := {key: value for key, value in config.items() if "throttled" in key}:
                    found[path.removeprefix("/config/")] = throttles
        return found

    def leftovers(self) -> list[str]:
        """Return what moves may not leave behind: a request, a record, throttles, a lock."""
        nodes = write_checker.read_nodes(self.kafka.connect)
        left = [path for path in nodes if path in (REQUEST, RECORD) or path.startswith("/topiarist/lock/")]
        return [*left, *self.throttles()]

    def problems(self, plan: Plan) -> list[str]:
        """Return each difference from the end of a plan: other lists, a replica that was not copied once, leftovers."""
        found = self.leftovers()
        copies = self.kafka.reassignments.copies
        for name, planned in moves_by_topic(plan).items():
            lists = self.lists(name)
            found += [
                f"{move} is on {lists[move.partition]}" for move in planned if lists[move.partition] != move.after
            ]
            expected = {(name, move.partition, broker): 1 for move in planned for broker in move.added}
            copied = {key: number for key, number in copies.items() if key[0] == name}
            if copied != expected:
                found.append(f"{name}: copied {copied}, wanted {expected}")
        return found


def topic(name: str = "orders", on: ClusterSpec = DRAINING, **fields: Any) -> TopicSpec:
    """Return the spec of a topic, by default of the topic with ``LISTS``."""
    return spec(name, on, **({"partitions": len(LISTS)} | fields))


def moves_by_topic(plan: Plan) -> dict[str, tuple[ReplicaMove, ...]]:
    """Return the moves of a plan."""
    return {each.topic: each.moves() for each in plan.topics if each.moves()}


def outcome_of(report: ReconcileReport, name: str = "orders") -> Outcome:
    """Return the only outcome of a topic."""
    (found,) = [outcome for outcome in report.outcomes if outcome.topic == name]
    return found


def call_each(*callbacks: Callable[[MoveProgress], None]) -> Callable[[MoveProgress], None]:
    """Return a progress callback that calls all of these."""

    def on_progress(progress: MoveProgress) -> None:
        for callback in callbacks:
            callback(progress)

    return on_progress


class OnceInFlight:
    """A progress callback that calls ``action`` once, at the first poll with a batch in flight.

    ``batch`` is the number of that batch. ``seen`` has all progress.
    """

    def __init__(self, action: Callable[[], object], batch: int = 1) -> None:
        self.seen: list[MoveProgress] = []
        self.is_done = False
        self._action = action
        self._batch = batch

    def __call__(self, progress: MoveProgress) -> None:
        """Record the progress, and call the action at its moment."""
        self.seen.append(progress)
        if not self.is_done and progress.copying and progress.batch >= self._batch:
            self.is_done = True
            self._action()

    @property
    def remarks(self) -> str:
        """Return all remarks about throttles of other clients."""
        return "\n".join(remark for progress in self.seen for remark in progress.remarks)


@contextmanager
def moving_cluster(connect: str, *topics: Topic, version: KafkaVersion = MAX_KAFKA_VERSION) -> Iterator[MovingCluster]:
    """Run a cluster of six brokers with ``topics``, by default ``orders``; its controller must report no error."""
    with SimulatedKafka(f"{connect}/moving-{next(_numbers)}", BROKERS, version) as kafka:
        kafka.moves_replicas = True
        kafka.add_topics(*(topics or (Topic("orders", LISTS, {}),)))
        yield MovingCluster(kafka)
        kafka.wait_idle()
        assert kafka.controller_errors == []
