"""Deletion of topics on a real ZooKeeper: only confirmed deletions, and only of the planned topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import InterceptingProxy, connect_cluster, verify_changes
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Reason
from topiarist.model.outcome import Result, TopicProgress
from topiarist.model.plan import Plan
from topiarist.model.state import DeletionRecord

ABSENT = topic_spec("orders", ensure="Absent")
TOPIC, MARK, RECORD = "/brokers/topics/orders", "/admin/delete_topics/orders", "/topiarist/topics/orders"


@contextmanager
def about_to_delete(cluster: SimulatedKafka, proxy: Proxy) -> Iterator[tuple[ZooKeeperCluster, Plan]]:
    """A session through the proxy, with the plan that deletes the topic."""
    with connect_cluster(proxy.through(cluster.connect)) as port:
        yield port, plan_specs(port, ABSENT)


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


def test_a_look_reads_the_mark_before_the_topic(
    ours: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient
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
    with connect_cluster(meddler.through(ours.connect)) as port:
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
