"""Unmanaging topics on a real ZooKeeper: one checked transaction for each record, and no write to Kafka's znodes."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import REPLICAS, connect_cluster, lock_nodes, verify_changes
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.errors import Reason
from topiarist.model.outcome import Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.state import OwnershipRecord
from topiarist.planning.without_specs import parse_unmanage_request, plan_unmanage

RECORD = "/topiarist/topics/orders"


def released(port: ZooKeeperCluster, *words: str, run: RunOptions | None = None) -> Plan:
    """Return the plan that unmanages these topics."""
    return plan_unmanage(port.read(), "", parse_unmanage_request(words), run or RunOptions())[0]


@pytest.fixture
def ours(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with two topics that topiarist manages."""
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("orders", config={"retention.ms": 5}), topic_spec("users")))
    cluster.wait_idle()
    return cluster


def test_one_transaction_takes_the_record_and_nothing_else(ours: SimulatedKafka, proxy: Proxy) -> None:
    """Only the record is removed and Kafka's znodes stay identical; the lock is acquired and released; a second run
    sends no write.
    """
    before = write_checker.read_nodes(ours.connect)
    with verify_changes(ours.connect, "orders"), connect_cluster(proxy.through(ours.connect)) as port:
        assert apply_results(port, released(port, "orders")) == {"orders": Result.DONE}
        assert (proxy.requests["multi"], proxy.writes) == (1, 3)
        again = released(port, "orders")
        assert (again.has_changes, apply_results(port, again)) == (False, {})
        assert proxy.writes == 3
    after = write_checker.read_nodes(ours.connect)
    assert before.keys() - after.keys() == {RECORD}
    assert {path: after[path].data for path in after} == {path: before[path].data for path in after}
    assert lock_nodes(ours) == []


@pytest.mark.parametrize("when", list(CutTiming))
def test_a_cut_connection_is_resolved_by_reading(ours: SimulatedKafka, proxy: Proxy, when: CutTiming) -> None:
    """After a cut before or after the write the record is removed, and the outcome reports that."""
    with verify_changes(ours.connect, "orders", "users"), connect_cluster(proxy.through(ours.connect)) as port:
        proxy.cut(2, when)
        assert apply_results(port, released(port, "orders", "users")) == {"orders": Result.DONE, "users": Result.DONE}
        assert proxy.triggered.is_set()
    assert not [path for path in write_checker.read_nodes(ours.connect) if path.startswith("/topiarist/topics/")]


def test_a_record_that_moved_stays(ours: SimulatedKafka, proxy: Proxy, client: KazooClient) -> None:
    """If another owner takes ownership between plan and write, the record stays."""
    theirs = own_values.encode_record(OwnershipRecord("shop"))
    with verify_changes(ours.connect, "orders"), connect_cluster(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, lambda: client.set(RECORD, theirs))
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
    assert (found.result, found.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "is that of owner shop" in found.message
    assert client.get(RECORD)[0] == theirs


def test_a_stale_record_goes_and_the_stranger_stays(ours: SimulatedKafka, proxy: Proxy, client: KazooClient) -> None:
    """If another client recreates the topic, even between plan and write, only topiarist's record is removed (F33)."""

    def make_again() -> None:
        client.create("/admin/delete_topics/orders")
        ours.wait_idle()
        ours.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))

    with connect_cluster(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, make_again)
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert proxy.triggered.is_set()
        assert port.read().topics["orders"].record is None
    assert write_checker.decode_configs(write_checker.read_nodes(ours.connect))["orders"] == {"retention.ms": "1"}


def test_the_first_run_on_a_cluster_may_be_a_release(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """With nothing to unmanage the run acquires no lock and creates none of topiarist's nodes."""
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan, absent = plan_unmanage(port.read(), "", parse_unmanage_request(["orders"]), RunOptions())
        assert (plan.topics, list(absent), apply_results(port, plan)) == ((), ["orders"], {})
    assert proxy.writes == 0
