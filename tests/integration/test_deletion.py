"""Deletion of topics on a real ZooKeeper: only confirmed deletions, and only of the planned topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import REPLICAS, InterceptingProxy, connect_cluster, verify_changes
from support.spec_builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result, TopicProgress
from topiarist.model.plan import Plan
from topiarist.model.run_options import ALL_TOPICS, RunOptions
from topiarist.model.state import DeletionRecord, OwnershipRecord

ABSENT = topic_spec("orders", ensure="Absent")
TOPIC, MARK, RECORD = "/brokers/topics/orders", "/admin/delete_topics/orders", "/topiarist/topics/orders"
STATE = f"{TOPIC}/partitions/0/state"
LOCK_TAKEN = 1
"""The first write of a run on a cluster that has our root: everything of the topic is read after it."""


@contextmanager
def about_to_delete(cluster: SimulatedKafka, proxy: Proxy) -> Iterator[tuple[ZooKeeperCluster, Plan]]:
    """A session through the proxy, with the plan that deletes the topic."""
    with connect_cluster(proxy.through(cluster.connect)) as port:
        yield port, plan_specs(port, ABSENT)


def make_again(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Delete and recreate the topic as another client: a different topic with identical bytes and versions."""
    paths = (TOPIC, "/config/topics/orders", STATE)
    before = {path: client.get(path)[1] for path in paths}
    client.create(MARK)
    cluster.wait_idle()
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    after = {path: client.get(path)[1] for path in paths}
    assert {path: stat.version for path, stat in after.items()} == {path: stat.version for path, stat in before.items()}
    assert after[TOPIC].czxid > before[TOPIC].czxid


def test_a_deletion_is_a_mark_and_a_tombstone(ours: SimulatedKafka, proxy: Proxy) -> None:
    """One transaction writes the deletion request and the deletion record; the controller does the rest. A second and a
    third run send no write.
    """
    with about_to_delete(ours, proxy) as (port, plan):
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert proxy.requests["multi"] == 1
        ours.wait_idle()
        writes = proxy.writes
        for _ in range(2):
            again = plan_specs(port, ABSENT)
            assert (again.has_changes, again.has_refusals) == (False, False)
            assert apply_results(port, again) == {}
        assert proxy.writes == writes
    tree = write_checker.read_nodes(ours.connect)
    assert not [path for path in tree if path.startswith((TOPIC, MARK, "/config/topics/orders"))]
    record = json.loads(tree[RECORD].data or b"")
    assert record == {"version": 1, "owner": "default", "config": [], "ensure": "Absent"}


@pytest.mark.parametrize("after", [OwnershipRecord("shop"), OwnershipRecord("default", ("retention.ms",))])
def test_a_record_that_moved_since_the_plan_is_reported(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy, after: OwnershipRecord
) -> None:
    """A topic with another owner or other keys than at planning is a conflict."""
    record = {"version": 1, "owner": after.owner, "config": list(after.config_keys)}
    with verify_changes(ours.connect, "orders"), about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(LOCK_TAKEN, lambda: client.set(RECORD, json.dumps(record, separators=(",", ":")).encode()))
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert found.result is Result.CONFLICT
    assert "its ownership record was" in found.message


def test_a_new_leader_in_between_is_no_reason_to_stop(ours: SimulatedKafka, client: KazooClient, proxy: Proxy) -> None:
    """A new version of partition 0's state is read and compared again: the topic is still the planned one."""
    with about_to_delete(ours, proxy) as (port, plan):
        proxy.hold(LOCK_TAKEN + 1, lambda: client.set(STATE, client.get(STATE)[0]))
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert proxy.triggered.is_set()
        assert proxy.requests["multi"] == 2


def test_a_topic_that_the_controller_has_not_taken_over_is_not_deleted(
    cluster: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """The deletion of an uninitialized topic is refused until one of its brokers is online: the controller drops a
    request for an unknown topic, and there is no state with a version to check.
    """
    nowhere = {"version": 3, "partitions": {"0": [7, 8, 9]}, "adding_replicas": {}, "removing_replicas": {}}
    client.create(TOPIC, json.dumps(nowhere).encode())
    cluster.wait_idle()
    with verify_changes(cluster.connect, "orders"), connect_cluster(proxy.through(cluster.connect)) as port:
        assert apply_results(port, plan_specs(port, topic_spec("orders", partitions=1))) == {"orders": Result.DONE}
        multis = proxy.requests["multi"]
        found = apply_outcomes(port, plan_specs(port, ABSENT))["orders"]
        assert proxy.requests["multi"] == multis
    assert (found.result, found.reason) == (Result.REFUSED, Reason.NOT_INITIALIZED)
    assert not client.exists(MARK)
    assert not json.loads(client.get(RECORD)[0]).get("ensure")


def test_another_owners_tombstone_is_theirs(ours: SimulatedKafka) -> None:
    """topiarist does not recreate a topic under another owner's deletion record without taking ownership; an absent
    topic is absent for every owner.
    """
    with connect_cluster(ours.connect) as port:
        apply_results(port, plan_specs(port, ABSENT))
        ours.wait_idle()
        shop, taking = RunOptions(owner="shop"), RunOptions(owner="shop", take_ownership=ALL_TOPICS)
        assert not plan_specs(port, ABSENT, run=shop).topics
        refused = plan_specs(port, topic_spec("orders"), run=shop)
        assert [finding.reason for finding in refused.topics[0].refusals] == [Reason.NOT_OWNED]
        assert apply_results(port, plan_specs(port, topic_spec("orders"), run=taking)) == {"orders": Result.DONE}
        record = port.read().topics["orders"].valid_record
        assert record is not None
        assert record.owner == "shop"


def test_a_tombstone_tells_who_deleted_and_when(ours: SimulatedKafka, client: KazooClient) -> None:
    """The deletion record is reported from its transaction on: beside the topic until the controller has deleted it,
    and then without it, also in a session with a cache. A recreated topic has none.
    """
    with connect_cluster(ours.connect) as port, connect_cluster(ours.connect) as other:
        other.enable_decode_cache()
        assert port.read().deletion_records == other.read().deletion_records == {}
        with ours.pause_controller():
            apply_results(port, plan_specs(port, ABSENT))
            wanted = {"orders": DeletionRecord("default", client.get(RECORD)[1].mtime)}
            assert "orders" in port.read().topics
            assert port.read().deletion_records == other.read().deletion_records == wanted
        ours.wait_idle()
        assert "orders" not in port.read().topics
        assert port.read().deletion_records == other.read().deletion_records == wanted
        apply_results(port, plan_specs(port, topic_spec("orders")))
        assert port.read().deletion_records == other.read().deletion_records == {}


def test_internal_and_protected_topics_are_never_deleted(cluster: SimulatedKafka) -> None:
    """Internal and protected topics are never deleted, even with an ownership record of topiarist and every option of
    the run.
    """
    names = ("__consumer_offsets", "connect-offsets", "_schemas")
    cluster.add_topics(*(Topic(name, REPLICAS, {}) for name in names))
    with connect_cluster(cluster.connect) as port:
        for name in names:
            apply_results(port, plan_specs(port, topic_spec(name)))
        plan = plan_specs(port, *(topic_spec(name, ensure="Absent") for name in names))
    assert not plan.has_changes
    assert {topic.topic: topic.refusals[0].reason for topic in plan.topics} == {
        "__consumer_offsets": Reason.INTERNAL_TOPIC,
        "_schemas": Reason.PROTECTED_TOPIC,
        "connect-offsets": Reason.PROTECTED_TOPIC,
    }


def test_a_look_reads_the_mark_before_the_topic(
    ours: SimulatedKafka, zookeeper: EmbeddedZooKeeper, client: KazooClient
) -> None:
    """If the controller finishes between the two reads, the topic is deleted or marked for deletion. It never exists
    without its request, which would mean that deletion is disabled.
    """
    reads = 0

    def finish(kind: str) -> bool:
        nonlocal reads
        reads += kind == "multiRead"
        if kind == "multiRead" and reads == 2:
            ours.wait_idle()
        return True

    ours.remove_broker(4)
    client.create(MARK)
    ours.wait_idle()
    identity = str(client.get(TOPIC)[1].czxid)
    meddler = InterceptingProxy(zookeeper.connect)
    with meddler, connect_cluster(meddler.through(ours.connect)) as port:
        assert port.poll({"orders": ()})["orders"] == TopicProgress(identity, True, (4,))
        ours.brokers[4] = ours.brokers[1]._replace(id=4)
        meddler.may_forward = finish
        reads = 0
        assert port.poll({"orders": ()})["orders"] == TopicProgress(None, True)
        assert port.poll({"orders": ()})["orders"] == TopicProgress(None, False)


def test_a_topic_in_a_very_odd_state_is_still_seen(ours: SimulatedKafka, client: KazooClient) -> None:
    """Waiting for an invalid topic needs only its identity, its deletion request and, if readable, its brokers."""
    client.set(TOPIC, b'{"version":3,"partitions":{"0":[7]},"topic_id":7}')
    with connect_cluster(ours.connect) as port:
        assert port.poll({"orders": (), "none": ()}) == {
            "orders": TopicProgress(str(client.get(TOPIC)[1].czxid), False),
            "none": TopicProgress(None, False),
        }


REQUEST = b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[4,5,6]}]}'
MOVING = b'{"version":2,"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[1]},"removing_replicas":{}}'


@pytest.mark.parametrize(
    "move",
    [
        lambda client: client.create("/admin/reassign_partitions", REQUEST),
        lambda client: client.set(TOPIC, MOVING),
    ],
    ids=["asked for", "begun"],
)
def test_a_look_sees_a_reassignment(
    ours: SimulatedKafka, client: KazooClient, move: Callable[[KazooClient], None]
) -> None:
    """A poll detects a reassignment before and after the controller starts it: a deletion waits for its end."""
    with ours.pause_controller(), connect_cluster(ours.connect) as port:
        move(client)
        assert port.poll({"orders": ()})["orders"] == TopicProgress(
            str(client.get(TOPIC)[1].czxid), False, reassigning=True
        )


def test_nothing_else_of_the_run_is_held_up(ours: SimulatedKafka) -> None:
    """A deletion that is refused at the write does not block the other topics."""
    ours.add_topics(Topic("users", REPLICAS, {}))
    with connect_cluster(ours.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("users")))
        plan = plan_specs(port, ABSENT, topic_spec("users", ensure="Absent"), topic_spec("new"))
        ours.client.delete(STATE)
        found = apply_outcomes(port, plan)
    assert found.pop("orders")[1:3] == (Result.REFUSED, Reason.NOT_INITIALIZED)
    assert found == {name: Outcome(name, Result.DONE) for name in ("users", "new")}
