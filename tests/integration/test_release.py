"""Giving topics up on a real ZooKeeper: one checked transaction a record, and nothing of Kafka's touched."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from integration.scene import REPLICAS, locks, opened, witnessed
from support import checker
from support.proxy import Proxy, When
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters import znodes
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.core.change import Plan
from topiarist.core.plan import EVERY, Run
from topiarist.core.release import plan_release, wanted
from topiarist.core.state import Freeze, TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Result

RECORD = "/topiarist/topics/orders"


def released(port: ZooKeeperCluster, *words: str, run: Run | None = None) -> Plan:
    """The plan that releases these."""
    return plan_release(port.read(), "", wanted(words), run or Run())[0]


@pytest.fixture
def ours(cluster: Playground) -> Playground:
    """A cluster with two topics of ours."""
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("orders", config={"retention.ms": 5}), wish("users")))
    cluster.settle()
    return cluster


def test_one_transaction_takes_the_record_and_nothing_else(ours: Playground, proxy: Proxy) -> None:
    """The topic and everything of Kafka's stays to the byte; the lock is taken and given back; again is no write."""
    before = checker.look(ours.connect)
    with witnessed(ours.connect, "orders"), opened(proxy.through(ours.connect)) as port:
        assert results(port, released(port, "orders")) == {"orders": Result.DONE}
        assert (proxy.requests["multi"], proxy.writes) == (1, 3)
        again = released(port, "orders")
        assert (again.pending, results(port, again)) == (False, {})
        assert proxy.writes == 3
    after = checker.look(ours.connect)
    assert before.keys() - after.keys() == {RECORD}
    assert {path: after[path].data for path in after} == {path: before[path].data for path in after}
    assert locks(ours) == []


@pytest.mark.parametrize("when", list(When))
def test_a_cut_connection_is_resolved_by_reading(ours: Playground, proxy: Proxy, when: When) -> None:
    """Cut before or after the server did it: the record is gone, and the outcome says that it was done."""
    with witnessed(ours.connect, "orders", "users"), opened(proxy.through(ours.connect)) as port:
        proxy.cut(2, when)
        assert results(port, released(port, "orders", "users")) == {"orders": Result.DONE, "users": Result.DONE}
        assert proxy.fired.is_set()
    assert not [path for path in checker.look(ours.connect) if path.startswith("/topiarist/topics/")]


def test_a_record_that_moved_stays(ours: Playground, proxy: Proxy, client: KazooClient) -> None:
    """Another owner has taken the topic over between plan and write: that is no longer ours to give up."""
    theirs = znodes.encode_record(TopicRecord("shop"))
    with witnessed(ours.connect, "orders"), opened(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, lambda: client.set(RECORD, theirs))
        found = outcomes(port, plan)["orders"]
        assert proxy.fired.is_set()
    assert (found.result, found.reason) == (Result.MOVED, Reason.STATE_CONFLICT)
    assert "is that of owner shop" in found.message
    assert client.get(RECORD)[0] == theirs


def test_a_record_that_went_meanwhile_is_already_so(ours: Playground, proxy: Proxy, client: KazooClient) -> None:
    """Two who release the same topic do not disturb each other."""
    with opened(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, lambda: client.delete(RECORD))
        assert results(port, plan) == {"orders": Result.ALREADY}
        assert proxy.fired.is_set()


def test_without_the_lock_no_record_goes(ours: Playground, proxy: Proxy, client: KazooClient) -> None:
    """The transaction checks the lock's node as every other does (F6)."""

    def take_it_away() -> None:
        (path,) = locks(ours)
        client.delete(path)

    with witnessed(ours.connect), opened(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, take_it_away)
        with pytest.raises(TopiaristError) as raised:
            results(port, plan)
    assert raised.value.reason is Reason.SESSION_LOST


def test_a_freeze_in_between_keeps_the_record(ours: Playground, proxy: Proxy, client: KazooClient) -> None:
    """Frozen between plan and write: nothing goes."""
    frozen = znodes.encode_gate(Freeze("inventory", "ada"))
    with witnessed(ours.connect), opened(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, lambda: client.set("/topiarist/gate", frozen))
        with pytest.raises(TopiaristError) as raised:
            results(port, plan)
    assert raised.value.reason is Reason.FROZEN


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"/migration": b'{"version":0,"kraft_metadata_offset":-1}'}, Reason.KRAFT_MIGRATION),
        ({"/topiarist/gate": b'{"version":1,"state":"frozen"}'}, Reason.FROZEN),
    ],
)
def test_a_closed_cluster_keeps_its_records(
    ours: Playground, proxy: Proxy, client: KazooClient, change: dict[str, bytes], reason: Reason
) -> None:
    """Held back in the plan, with the gate's reason; not a write."""
    for path, data in change.items():
        client.ensure_path(path)
        client.set(path, data)
    with opened(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        assert [finding.reason for finding in plan.topics[0].refusals] == [reason]
        assert results(port, plan) == {}
    assert proxy.writes == 0


def test_a_stale_record_goes_and_the_stranger_stays(ours: Playground, proxy: Proxy, client: KazooClient) -> None:
    """Others have deleted the topic and made it again, even between plan and write: only the record is ours (F33)."""

    def make_again() -> None:
        client.create("/admin/delete_topics/orders")
        ours.settle()
        ours.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))

    with opened(proxy.through(ours.connect)) as port:
        plan = released(port, "orders")
        proxy.hold(2, make_again)
        assert results(port, plan) == {"orders": Result.DONE}
        assert proxy.fired.is_set()
        assert port.read().topics["orders"].record is None
    assert checker.configs(checker.look(ours.connect))["orders"] == {"retention.ms": "1"}


def test_a_tombstone_goes(ours: Playground) -> None:
    """After a deletion of ours a note stays; released, the topic's name is as if it had never been ours."""
    with opened(ours.connect) as port:
        results(port, planned(port, wish("orders", ensure="Absent")))
        ours.settle()
        assert port.read().records["orders"].absent
        assert results(port, released(port, "orders")) == {"orders": Result.DONE}
        assert "orders" not in port.read().records


def test_the_owner_of_the_record_decides(ours: Playground, client: KazooClient) -> None:
    """Another owner's record stays, with its reason, unless the run takes ownership."""
    client.set(RECORD, json.dumps({"version": 1, "owner": "shop", "config": []}, separators=(",", ":")).encode())
    with opened(ours.connect) as port:
        refused = released(port, "orders")
        assert [finding.reason for finding in refused.topics[0].refusals] == [Reason.NOT_OWNED]
        assert not refused.pending
        taking = released(port, "orders", run=Run(take_ownership=EVERY))
        assert results(port, taking) == {"orders": Result.DONE}


def test_the_first_run_on_a_cluster_may_be_a_release(cluster: Playground, proxy: Proxy) -> None:
    """Nothing to release means no lock, and no nodes of ours are made."""
    with opened(proxy.through(cluster.connect)) as port:
        plan, absent = plan_release(port.read(), "", wanted(["orders"]), Run())
        assert (plan.topics, list(absent), results(port, plan)) == ((), ["orders"], {})
    assert proxy.writes == 0
