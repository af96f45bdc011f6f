"""Applying a plan to a real ZooKeeper: requests, resulting znodes, and failures.

After every write an independent reader, which shares no code with the product, checks the whole cluster.
"""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.write_fixtures import (
    DESIRED_SPECS,
    REPLICAS,
    InterceptingProxy,
    connect_cluster,
    create_mixed_topics,
    verify_changes,
)
from support.spec_builders import apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.write.writer import BATCH_SIZE, MAX_IN_FLIGHT, MIN_IN_FLIGHT
from topiarist.errors import Reason
from topiarist.model.outcome import Result
from topiarist.model.run_options import ALL_TOPICS, RunOptions


def test_the_independent_reader_sees_what_the_plan_showed(cluster: SimulatedKafka) -> None:
    """ZooKeeper has the planned replica lists, configs and records; unmanaged topics are byte-identical."""
    names = create_mixed_topics(cluster)
    with verify_changes(cluster.connect, *names), connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    tree = write_checker.read_nodes(cluster.connect)
    by_name = {topic.topic: topic for topic in plan.topics}
    created = write_checker.decode_topics(tree)["create"]["partitions"]
    assert [tuple(created[str(p)]) for p in range(4)] == list(by_name["create"].new_replicas())
    grown = write_checker.decode_topics(tree)["grow"]["partitions"]
    assert [tuple(grown[str(p)]) for p in range(5)] == [*REPLICAS, *by_name["grow"].new_replicas()]
    assert write_checker.decode_configs(tree)["configure"] == {"retention.ms": "2000", "flush.ms": "5"}
    assert write_checker.decode_configs(tree)["create"] == {"retention.ms": "5000"}
    record = json.loads(tree["/topiarist/topics/configure"].data or b"")
    applied = {"partitions": 2, "config": {"retention.ms": "2000"}, "removeUnmanaged": False}
    assert record == {"version": 1, "owner": "default", "config": ["retention.ms"], "applied": applied}


def test_a_plan_sends_no_write(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A plan with many changes sends reads only, so that read-only credentials are enough."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        assert plan_specs(port, *DESIRED_SPECS).has_changes
    assert proxy.writes == 0
    assert proxy.requests["multiRead"] > 0


def test_a_second_run_sends_no_write(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A second run sends no write, not even for the lock."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, *DESIRED_SPECS))
    cluster.wait_idle()
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        assert not plan.has_changes
        assert apply_results(port, plan) == {}
    assert proxy.writes == 0


def test_one_transaction_for_each_topic(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """Four topics are four transactions; the other writes are topiarist's root, the lock, and its release."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        apply_results(port, plan_specs(port, *DESIRED_SPECS))
    assert proxy.requests["multi"] == 4
    assert proxy.requests["create"] == 5
    assert proxy.requests["delete"] == 1


def test_new_nodes_have_the_permissions_of_their_siblings(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Topics, configs, notifications and topiarist's nodes have the ACLs of their siblings."""
    create_mixed_topics(cluster)
    acl = [make_acl("world", "anyone", read=True, create=True, delete=True, write=True)]
    for parent in ("/brokers/topics", "/config/topics", "/config/changes"):
        client.set_acls(parent, acl)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, *DESIRED_SPECS))
    change = f"/config/changes/{client.get_children('/config/changes')[0]}"
    paths = ("/brokers/topics/create", "/config/topics/create", change, "/topiarist", "/topiarist/topics/create")
    assert {path: client.get_acls(path)[0] for path in paths} == dict.fromkeys(paths, acl)


def test_an_owner_cannot_touch_anothers_topics(cluster: SimulatedKafka) -> None:
    """Two teams with different owners on one cluster cannot change each other's topics, until one takes ownership."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, *DESIRED_SPECS))
        other = plan_specs(port, topic_spec("configure", config={"retention.ms": 9}), run=RunOptions(owner="team-b"))
        assert [finding.reason for finding in other.topics[0].refusals] == [Reason.NOT_OWNED]
        taken = RunOptions(owner="team-b", take_ownership=ALL_TOPICS)
        assert apply_results(
            port, plan_specs(port, topic_spec("configure", config={"retention.ms": 9}), run=taken)
        ) == {"configure": Result.DONE}
    assert (
        json.loads(write_checker.read_nodes(cluster.connect)["/topiarist/topics/configure"].data or b"")["owner"]
        == "team-b"
    )


@pytest.mark.slow
def test_no_more_is_under_way_than_keeps_a_server_busy(cluster: SimulatedKafka, zookeeper: EmbeddedZooKeeper) -> None:
    """The number of requests in flight is limited, regardless of the number of topics and the latency, because requests
    of other clients wait behind them.
    """
    under_way = []
    meddler = InterceptingProxy(zookeeper.connect)

    def look(kind: str) -> bool:
        if kind == "multi":
            under_way.append(sum(each.requests[kind] - each.replies[kind] for each in meddler.connections))
        return True

    meddler.delay = 0.05
    with meddler, connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *(topic_spec(f"topic-{number}", partitions=1) for number in range(BATCH_SIZE)))
        meddler.may_forward = look
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    assert MIN_IN_FLIGHT < max(under_way) <= MAX_IN_FLIGHT
