"""Passes of the operator that move replicas, on a real ZooKeeper with a simulated controller."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from integration.write_fixtures import connect_cluster
from support.kubernetes import resource_bodies
from support.kubernetes.passes import make_request
from support.kubernetes.schemas import validate_status
from support.zookeeper.moves import LISTS, RATES, RECORD, MovingCluster
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Reason
from topiarist.kubernetes.moves import MoveTracker
from topiarist.kubernetes.reconciler import PlanCache, ReconcileResult, SyncState, reconcile_cluster
from topiarist.kubernetes.resources import Resource
from topiarist.kubernetes.status_writer import cluster_status
from topiarist.kubernetes.topic_status import topic_status
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.state import Freeze

MOVES = {"allow": ["Drain"], "throttle": "1MiB", "batch": {"partitions": 2}}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Passes(MovingCluster):
    """Passes over one cluster with one topic; each stores its statuses as the API server would."""

    def __init__(self, kafka: SimulatedKafka, port: ZooKeeperCluster) -> None:
        super().__init__(kafka)
        self.port = port
        self.cluster = self.declare()
        self.topic = resource_bodies.topic("orders", partitions=len(LISTS), replicationFactor=2)
        self.cache, self.tracker = PlanCache(), MoveTracker()

    def declare(self, *, drain: tuple[int, ...] = (6,), **moves: Any) -> Resource:
        """Declare the Cluster; its status stays."""
        status = self.cluster.status if hasattr(self, "cluster") else {}
        declared = resource_bodies.cluster(adopt=["*"], drainBrokers=list(drain), moves={**MOVES, **moves})
        self.cluster = resource_bodies.updated_body(declared, status=status)
        return self.cluster

    def run(self) -> ReconcileResult:
        """Run one pass."""
        request = make_request(self.cluster, self.topic, plan_cache=self.cache, move_tracker=self.tracker)
        result = reconcile_cluster(self.port, request, lambda: False)
        assert result.error is None, result.error
        (view,) = result.topic_results
        status = dict(cluster_status(self.cluster, result, NOON))
        validate_status("cluster", status)
        self.cluster = resource_bodies.updated_body(self.cluster, status=status)
        of_topic = dict(topic_status(self.topic, {"prod": view}, {}, "2026-01-01T12:00:00Z", ("prod",)))
        validate_status("topic", of_topic)
        self.topic = resource_bodies.updated_body(self.topic, status=of_topic)
        return result

    @property
    def state(self) -> SyncState:
        """Return the state of the topic after the last pass."""
        return SyncState(self.topic.status_on("prod")["state"])

    def condition(self, kind: str, of: str = "cluster") -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        conditions = (self.cluster if of == "cluster" else self.topic).status["conditions"]
        return next((each["status"], each["reason"], each["message"]) for each in conditions if each["type"] == kind)

    def copy(self) -> None:
        """Let the brokers finish the batch in flight, and no later one."""
        lagging, self.kafka.lagging_brokers = self.kafka.lagging_brokers, set()
        self.kafka.run_and_wait(self.kafka._process_reassignment_request)
        self.kafka.lagging_brokers = lagging

    def rate(self) -> str:
        """Return the rate that a batch has set; empty if there is none."""
        return next((config[RATES[1]] for config in self.throttles().values() if RATES[1] in config), "")


@pytest.fixture
def passes(cluster: SimulatedKafka) -> Iterator[Passes]:
    """Return passes over a topic on six brokers that copy nothing yet."""
    cluster.moves_replicas = True
    cluster.lagging_brokers = set(cluster.brokers)
    cluster.add_topics(Topic("orders", LISTS, {}))
    with ZooKeeperCluster(ZooKeeperAccess(cluster.connect), owner="k8s/shop/topiarist") as port:
        yield Passes(cluster, port.enable_decode_cache())


def test_a_pass_without_moves_costs_no_request(passes: Passes) -> None:
    """After the last batch, a pass makes the same requests as on a cluster that never moved a replica."""
    passes.declare(drain=())
    passes.run()

    def requests() -> Counter[str]:
        before = Counter(passes.port.requests)
        passes.run()
        return Counter({operation: count for (operation, _), count in (Counter(passes.port.requests) - before).items()})

    idle = requests()
    passes.declare()
    while passes.run().moves is not None and passes.state is SyncState.MOVING:
        passes.copy()
    assert requests() == idle


def test_a_second_pass_in_flight_changes_no_status(passes: Passes) -> None:
    """While a batch makes no progress, statuses are equal from pass to pass, so nothing is written."""
    passes.run()
    passes.run()
    before = passes.cluster.status, passes.topic.status
    passes.run()
    assert (passes.cluster.status, passes.topic.status) == before
    assert before[0]["moves"]["batch"] == 1
    assert before[0]["draining"] == [{"broker": 6, "replicas": 5}]


def test_a_new_throttle_reaches_the_batch_in_flight(passes: Passes) -> None:
    """A changed rate in the Cluster is set while the batch is in flight, which is the remedy for a stall."""
    passes.run()
    assert passes.rate() == str(1024**2)
    passes.declare(throttle="5MiB")
    passes.run()
    assert passes.rate() == str(5 * 1024**2)


def test_a_freeze_sends_no_batch(passes: Passes) -> None:
    """On a frozen cluster the batch in flight continues and is shown; the next one waits for the end of the freeze."""
    passes.run()
    with connect_cluster(passes.kafka.connect) as port:
        port.set_freeze(Freeze("ann", "maintenance", "2026-01-01T00:00:00Z"), by="ann", force=False)
    result = passes.run()
    assert result.moves is not None
    assert len(result.moves.in_flight) == 2
    assert passes.condition("Moving", "topic")[0] == "True"
    assert Reason.FROZEN in [refusal.reason for refusal in result.topic_results[0].refusals]
    passes.copy()
    assert not passes.run().moves.is_sent  # type: ignore[union-attr]
    assert passes.rate()


def test_an_unhealthy_partition_is_refused(passes: Passes) -> None:
    """A kept replica that is not in sync refuses the topic with NotInSync before anything is sent."""
    path = "/brokers/topics/orders/partitions/0/state"
    state = json.loads(passes.kafka.client.get(path)[0])
    passes.kafka.client.set(path, json.dumps({**state, "isr": [6], "leader": 6}).encode())
    passes.run()
    assert passes.condition("Ready", "topic")[:2] == ("False", "NotInSync")
    assert passes.state is SyncState.WAITING
    assert passes.kafka.client.exists(RECORD) is None


def test_a_replica_that_another_client_moves_back_leaves_again(passes: Passes) -> None:
    """A drained broker stays drained: ``driftPolicy: Report`` keeps no replica list, as the Cluster declares it."""
    while passes.run().moves is not None and passes.state is SyncState.MOVING:
        passes.copy()
    node = json.loads(passes.kafka.client.get("/brokers/topics/orders")[0])
    node["partitions"]["1"] = [1, 6]
    passes.kafka.client.set("/brokers/topics/orders", json.dumps(node).encode())
    state = json.loads(passes.kafka.client.get("/brokers/topics/orders/partitions/1/state")[0])
    data = json.dumps({**state, "isr": [1, 6], "leader": 1}).encode()
    passes.kafka.client.set("/brokers/topics/orders/partitions/1/state", data)
    result = passes.run()
    assert result.moves is not None
    assert result.moves.is_sent
    assert passes.topic.status_on("prod")["moves"]["message"] == "0 of 1 partition moved, batch 1 of 1"
