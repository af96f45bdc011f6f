"""M4 to M13: controllers, requests, cancellations and deletions of other clients while replicas are moved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faults.conftest import FaultStatistics
from integration.write_fixtures import InterceptingProxy
from support.zookeeper import moves as scene
from support.zookeeper.moves import LISTS, RECORD, REQUEST, MovingCluster, OnceInFlight, moving_cluster, outcome_of
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.errors import Reason
from topiarist.model.outcome import Result

pytestmark = pytest.mark.timeout(300)

OTHER = Topic("other", ((1, 2), (2, 3)), {})


@pytest.fixture
def moving(zookeeper: EmbeddedZooKeeper) -> Iterator[MovingCluster]:
    """Return a cluster with the topics ``orders``, which is moved, and ``other``."""
    with moving_cluster(zookeeper.connect, Topic("orders", LISTS, {}), OTHER) as kafka:
        yield kafka


class BeforeBatch:
    """A callback of the proxy: calls ``action`` directly before the transaction of a batch is forwarded.

    The first multi of a run adopts the topic; batches follow.
    """

    def __init__(self, proxy: InterceptingProxy, action: object, batch: int = 1) -> None:
        self.multis = 0
        self._action = action
        self._batch = batch
        proxy.may_forward = self

    def __call__(self, kind: str) -> bool:
        """Count the transactions, and call the action before its own."""
        self.multis += kind == "multi"
        if kind == "multi" and self.multis == self._batch + 1 and callable(self._action):
            self._action()
        return True


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_m04_another_controller_before_the_request(
    moving: MovingCluster, meddler: InterceptingProxy, batch: int
) -> None:
    """The epoch of the transaction is outdated: it is sent again under the new one, and each replica is copied once."""
    plan = moving.plan()
    before = BeforeBatch(meddler, lambda: moving.kafka.elect_controller(2), batch)
    report = moving.apply(plan, connect=meddler.through(moving.kafka.connect))
    assert (report.error, outcome_of(report).result) == (None, Result.DONE)
    assert before.multis == 1 + 3 + 1 + 1
    assert moving.problems(plan) == []


def test_m04_another_controller_during_a_batch(moving: MovingCluster, tally: FaultStatistics) -> None:
    """The new controller continues each batch from the request and the topic; nothing is sent twice."""
    plan = moving.plan()
    moving.lag()

    def elect() -> None:
        moving.kafka.elect_controller(2 + len(lists) % 3)
        lists.append(moving.lists())
        moving.catch_up()
        moving.lag()

    lists: list[object] = []
    callbacks = [OnceInFlight(elect, batch) for batch in (1, 2, 3)]
    report = moving.apply(plan, on_progress=scene.call_each(*callbacks))
    assert (report.error, outcome_of(report).result) == (None, Result.DONE)
    assert len(lists) == 3
    assert moving.problems(plan) == []
    tally.set_cases(3)


def test_m05_a_request_of_another_client_before_the_run(moving: MovingCluster) -> None:
    """The run waits for it, leaves it as it is, and then moves its own partitions."""
    plan = moving.plan()
    moving.lag()
    moving.request(("other", 0, [3, 2]))
    version = moving.client.exists(REQUEST).version
    refused = moving.apply(plan, wait=False)
    assert outcome_of(refused).result is Result.PENDING
    assert "moved: a reassignment request is in progress" in outcome_of(refused).message
    assert moving.client.exists(REQUEST).version == version
    remarks: list[str] = []

    def on_progress(progress: object) -> None:
        remarks.append(getattr(progress, "waiting_for", ""))
        moving.catch_up()

    report = moving.apply(plan, on_progress=on_progress)
    assert remarks[0] == "a reassignment of 1 partition by another client"
    assert outcome_of(report).result is Result.DONE
    assert moving.lists("other") == ((3, 2), (2, 3))
    assert moving.problems(plan) == []


def test_m05_a_request_of_another_client_between_batches(moving: MovingCluster, meddler: InterceptingProxy) -> None:
    """It is created before the lock of the next batch is held: the batch waits, and neither is lost."""
    plan = moving.plan()
    requested: list[str] = []

    def may_forward(kind: str) -> bool:
        # The record names the batch that was sent last; without a request the next one is about to be sent.
        if kind == "create2" or kind == "create":
            record = moving.client.exists(RECORD)
            if record and not requested and moving.client.exists(REQUEST) is None:
                requested.append(kind)
                moving.request(("other", 1, [4, 3]))
        return True

    meddler.may_forward = may_forward
    report = moving.apply(plan, connect=meddler.through(moving.kafka.connect))
    assert requested
    assert outcome_of(report).result is Result.DONE
    assert moving.lists("other") == ((1, 2), (4, 3))
    assert moving.problems(plan) == []


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_m06_a_request_of_another_client_at_the_very_moment(
    moving: MovingCluster, meddler: InterceptingProxy, batch: int
) -> None:
    """The transaction is refused as a whole, throttles included; the run waits, and sends the batch afterwards."""
    plan, throttled = moving.plan(), []
    moving.lag(3, 4)

    def request() -> None:
        throttled.append(moving.throttles())
        moving.request(("other", 1, [4, 3]))

    def on_progress(progress: object) -> None:
        if "another client" in getattr(progress, "waiting_for", ""):
            throttled.append(moving.throttles())
            moving.catch_up()
        elif batch > 1 and len(throttled) == 0:
            moving.catch_up()
            moving.lag(3, 4)

    BeforeBatch(meddler, request, batch)
    report = moving.apply(plan, connect=meddler.through(moving.kafka.connect), on_progress=on_progress)
    assert outcome_of(report).result is Result.DONE
    assert throttled[0] == throttled[1]
    assert moving.lists("other") == ((1, 2), (4, 3))
    assert moving.problems(plan) == []


def in_flight_partition(kafka: MovingCluster) -> int:
    """Return a partition of ``orders`` that is in flight."""
    kafka.kafka.wait_idle()
    topic = kafka.read("/brokers/topics/orders")
    return min(map(int, topic["adding_replicas"]))


def test_m07_another_client_reassigns_a_partition_in_flight(zookeeper: EmbeddedZooKeeper) -> None:
    """Its topic is reported as moved elsewhere, with both lists; the topic beside it goes on."""
    with moving_cluster(zookeeper.connect, Topic("orders", LISTS, {}), Topic("paid", LISTS, {})) as kafka:
        plan = kafka.plan(scene.topic(), scene.topic("paid"))
        kafka.lag()
        partitions: list[int] = []

        def reassign() -> None:
            partitions.append(in_flight_partition(kafka))
            kafka.kafka.reassign("orders", partitions[0], [1, 2, 3])
            kafka.catch_up()

        report = kafka.apply(plan, on_progress=OnceInFlight(reassign))
        assert outcome_of(report).result is Result.CONFLICT
        assert "and is on [1, 2, 3] now" in outcome_of(report).message
        assert outcome_of(report, "paid").result is Result.DONE
        assert kafka.lists()[partitions[0]] == (1, 2, 3)
        assert kafka.leftovers() == []


def test_m08_another_client_cancels_a_partition(moving: MovingCluster) -> None:
    """Kafka's cancellation leaves another order: it is reported with that list, not as done, and not as unchanged."""
    plan = moving.plan()
    moving.lag()

    def cancel() -> None:
        moving.kafka.reassign("orders", in_flight_partition(moving), None)
        moving.catch_up()

    report = moving.apply(plan, on_progress=OnceInFlight(cancel))
    partition = plan.topics[0].moves()[0].partition
    assert outcome_of(report).result is Result.CONFLICT
    assert f"partition {partition} was on [6, 1]" in outcome_of(report).message
    assert "and is on [1, 6] now" in outcome_of(report).message
    assert moving.leftovers() == []


def test_m09_another_client_removes_all_throttles(moving: MovingCluster) -> None:
    """As ``kafka-reassign-partitions --verify`` does: said, set again with the next batch, and the run ends."""
    plan = moving.plan()
    moving.lag()
    rates: list[set[str]] = []

    def verify() -> None:
        for entity, config in moving.throttles().items():
            kept = moving.read(f"/config/{entity}")["config"]
            moving.set_config(entity, {key: value for key, value in kept.items() if key not in config})
        moving.catch_up()
        moving.lag()

    def look() -> None:
        rates.append({value for config in moving.throttles().values() for value in config.values()})
        moving.catch_up()

    first, second = OnceInFlight(verify), OnceInFlight(look, batch=2)
    report = moving.apply(plan, on_progress=scene.call_each(first, second))
    assert outcome_of(report).result is Result.DONE
    assert "another client changed leader.replication.throttled.rate to no value" in first.remarks
    assert str(scene.RATE) in rates[0]
    assert moving.problems(plan) == []


def delete(kafka: MovingCluster, name: str = "orders") -> None:
    """Delete a topic as another client, and wait until the controller has done it."""
    kafka.kafka.wait_idle()
    kafka.client.create(f"/admin/delete_topics/{name}")
    kafka.kafka.wait_idle()
    assert kafka.client.exists(f"/brokers/topics/{name}") is None


def test_m10_the_topic_is_deleted_in_the_middle(moving: MovingCluster) -> None:
    """The controller never removes the entry: the run and the next one end with that reason, and send nothing more."""
    plan = moving.plan()
    moving.lag()
    report = moving.apply(plan, on_progress=OnceInFlight(lambda: delete(moving)))
    assert report.error is not None
    assert report.error.reason is Reason.STUCK_REASSIGNMENT
    assert "orders" in str(report.error)
    assert outcome_of(report).result is Result.PENDING
    version = moving.client.exists(REQUEST).version
    again = moving.apply(moving.plan(scene.topic("other", partitions=2, replicationFactor=2)))
    assert again.error is not None
    assert again.error.reason is Reason.STUCK_REASSIGNMENT
    assert moving.client.exists(REQUEST).version == version
    assert moving.lists("other") == OTHER.replicas


def ghost(kafka: MovingCluster) -> None:
    """Leave an entry of a topic that was deleted while it moved."""
    kafka.lag()
    kafka.request(("orders", 0, [2, 1]))
    kafka.kafka.wait_idle()
    delete(kafka)
    assert kafka.read(REQUEST)["partitions"][0]["topic"] == "orders"


def test_m11_an_entry_without_a_topic_before_the_run(moving: MovingCluster) -> None:
    """No topic of that name is created, and nothing is moved: both say why, and how the entry is removed."""
    on_other = scene.topic("other", partitions=2, replicationFactor=3)
    moves = moving.plan(on_other)
    ghost(moving)
    plan = moving.plan(scene.topic(), on_other)
    (refusal,) = plan.topics[0].refusals
    assert refusal.reason is Reason.REASSIGNMENT_IN_PROGRESS
    assert "another broker become controller" in refusal.hint
    report = moving.apply(moves)
    assert report.error is not None
    assert report.error.reason is Reason.STUCK_REASSIGNMENT
    assert "no replica" in outcome_of(report, "other").message
    assert moving.lists("other") == OTHER.replicas


@pytest.mark.parametrize("name", ["a/b", "", "."])
def test_m11_an_entry_with_an_impossible_name(moving: MovingCluster, name: str) -> None:
    """No topic can have it: the entry counts as one without a topic."""
    plan = moving.plan()
    moving.kafka.moves_replicas = False
    moving.request((name, 0, [3, 2]))
    report = moving.apply(plan)
    assert report.error is not None
    assert report.error.reason is Reason.STUCK_REASSIGNMENT
    assert moving.lists() == LISTS


def test_m12_the_topic_is_made_again_and_the_controller_changes(moving: MovingCluster) -> None:
    """The entry is recognized by the age of the topic, before another controller moves the new topic by it."""
    ghost(moving)
    moving.kafka.add_topics(Topic("orders", ((1, 4),), {}))
    spec = scene.topic(partitions=1, replicationFactor=3)
    plan = moving.plan(spec)
    assert "older than the topic" in "\n".join(plan.warnings)
    assert scene.moves_by_topic(plan) == {}
    other = moving.apply(moving.plan(scene.topic("other", partitions=2, replicationFactor=3)))
    assert other.error is not None
    assert "older than the topic" in str(other.error)
    moving.catch_up()
    moving.kafka.elect_controller(2)
    assert moving.lists() == ((2, 1),)  # as the request of before had it
    assert moving.client.exists(REQUEST) is None


def test_m13_the_request_names_a_topic_that_is_to_be_deleted(moving: MovingCluster) -> None:
    """The deletion is refused, when it is planned and when the request appears after the plan."""
    absent = scene.topic("other", ensure="Absent")
    owned = moving.apply(moving.plan(scene.topic("other", partitions=2, replicationFactor=2)))
    assert outcome_of(owned, "other").result is Result.DONE
    plan = moving.plan(absent)
    moving.lag()
    moving.request(("other", 0, [3, 2]))
    late = moving.apply(plan)
    assert outcome_of(late, "other").result is Result.CONFLICT
    (refusal,) = moving.plan(absent).topics[0].refusals
    assert refusal.reason is Reason.REASSIGNMENT_IN_PROGRESS
    assert moving.client.exists("/brokers/topics/other")
