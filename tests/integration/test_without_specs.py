"""``topiarist nudge`` and ``unmanage`` on a real ZooKeeper: one checked transaction for each topic or record."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.write_fixtures import REPLICAS, connect_cluster, lock_nodes, verify_changes
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic, config_bytes, topic_bytes
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.adapters.zookeeper.codec import paths as paths_
from topiarist.adapters.zookeeper.codec import topics
from topiarist.cli.main import run
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Nudge, Plan, RunOptions
from topiarist.model.state import OwnershipRecord
from topiarist.planning.without_specs import NudgePlan, parse_unmanage_request, plan_nudge, plan_unmanage

TOPIC, MARK, REQUEST = "/brokers/topics/orders", "/admin/delete_topics/orders", "/admin/reassign_partitions"
LOCK_TAKEN = 1

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def lost(chroot: str) -> Iterator[SimulatedKafka]:
    """A cluster with the topic ``orders``, lost by its controller, and a topic that the controller could not decode."""
    with SimulatedKafka(chroot, BROKERS) as cluster, connect_cluster(chroot) as port:
        assert apply_results(port, plan_specs(port, topic_spec("well"))) == {"well": Result.DONE}
        cluster.wait_idle()
        transaction = cluster.client.transaction()
        transaction.create("/config/topics/orders", config_bytes({}))
        partitions = {str(partition): list(replicas) for partition, replicas in enumerate(REPLICAS)}
        transaction.create(TOPIC, topic_bytes(partitions, None))
        transaction.create("/brokers/topics/bad", b'{"version":3,"partitions":[]}')
        assert not [result for result in transaction.commit() if isinstance(result, Exception)]
        wait_until(lambda: cluster.controller_errors, "the controller to find the odd topic")
        cluster.client.delete("/brokers/topics/bad")
        cluster.controller_errors.clear()
        yield cluster
        assert cluster.controller_errors == []


def nudging(port: ZooKeeperCluster, *names: str) -> NudgePlan:
    """Return the plan that nudges these topics."""
    return plan_nudge(port.read(), "", {name: port.inspect(name) for name in names}, "default")


def states(cluster: SimulatedKafka) -> list[int]:
    """Return the partitions of the topic that have a state."""
    paths = write_checker.read_nodes(cluster.connect)
    return [number for number in range(2) if paths_.partition_state_path("orders", number) in paths]


def test_a_topic_that_was_lost_is_taken_over(lost: SimulatedKafka, capsys: Capture) -> None:
    """Describe shows the lost topic with the fix; the nudge changes only its version; a second nudge is not needed."""
    before = lost.client.get(TOPIC)
    where = ["--zookeeper", lost.connect]
    assert run(["describe", "orders", *where]) == 0
    assert "topiarist nudge orders" in " ".join(capsys.readouterr().out.split())
    assert run(["nudge", "orders", "well", *where, "--yes"]) == 0
    said = capsys.readouterr()
    assert "nudge: 2 partitions without a state" in said.out
    assert "well: no nudge is needed" in said.err
    assert states(lost) == [0, 1]
    data, stat = lost.client.get(TOPIC)
    assert (data, stat.version) == (before[0], before[1].version + 1)
    assert "/topiarist/topics/orders" not in write_checker.read_nodes(lost.connect)
    assert run(["nudge", "orders", *where, "--yes"]) == 0
    assert "orders: no nudge is needed" in capsys.readouterr().err
    assert lost.client.get(TOPIC)[1].version == stat.version
    assert run(["describe", "orders", *where]) == 0
    assert "nudge" not in capsys.readouterr().out


def test_a_nudge_is_one_transaction_and_needs_no_other_owner(lost: SimulatedKafka, proxy: Proxy) -> None:
    """A nudge of a topic without an owner is one transaction with the usual fence; the same plan again finds it
    done.
    """
    with connect_cluster(proxy.through(lost.connect)) as port:
        plan = nudging(port, "orders").plan
        assert plan.topics[0].changes == (Nudge((0, 1)),)
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert proxy.requests["multi"] == 1
        wait_until(lambda: states(lost) == [0, 1], "the states")
        assert apply_outcomes(port, plan) == {"orders": Outcome("orders", Result.UNCHANGED)}
        assert proxy.requests["multi"] == 1


ENTRY = {"topic": "orders", "partition": 0, "replicas": [4, 5, 6]}
ASKED = json.dumps({"version": 1, "partitions": [ENTRY]}).encode()


@pytest.mark.parametrize("why", [Reason.DELETION_IN_PROGRESS, Reason.REASSIGNMENT_IN_PROGRESS, Reason.TOPIC_UNREADABLE])
def test_what_forbids_a_nudge(lost: SimulatedKafka, proxy: Proxy, why: Reason) -> None:
    """A refused nudge writes nothing and reports the reason."""
    with lost.pause_controller(), connect_cluster(proxy.through(lost.connect)) as port:
        if why is Reason.TOPIC_UNREADABLE:
            lost.client.set(TOPIC, b'{"version":3,"partitions":[]}')
        elif why is Reason.DELETION_IN_PROGRESS:
            lost.client.create(MARK)
        else:
            lost.client.create(REQUEST, ASKED)
        plan = nudging(port, "orders").plan
        assert [finding.reason for finding in plan.topics[0].refusals] == [why]
        assert (apply_results(port, plan), proxy.writes) == ({}, 0)
        if why is Reason.DELETION_IN_PROGRESS:
            lost.client.delete(MARK)
        lost.client.delete(TOPIC)  # what is odd in it is no fault of ours


def test_partitions_without_a_broker_wait_for_one(cluster: SimulatedKafka) -> None:
    """The controller itself initializes partitions when one of their brokers is online."""
    cluster.add_topics(Topic("orders", ((7,), (7, 8)), {}))
    with connect_cluster(cluster.connect) as port:
        (refused,) = nudging(port, "orders").plan.topics[0].refusals
    assert (refused.reason, refused.reason.retryable) == (Reason.BROKERS_MISSING, True)


@pytest.mark.parametrize("what", ["marked", "requested", "grown", "gone"])
def test_what_moves_between_plan_and_write_is_a_conflict(lost: SimulatedKafka, proxy: Proxy, what: str) -> None:
    """The topic is read again directly before the write."""
    client = lost.client

    def move() -> None:
        if what == "marked":
            client.create(MARK)
        elif what == "requested":
            client.create(REQUEST, ASKED)
        elif what == "grown":
            client.set(TOPIC, topics.add_partitions(client.get(TOPIC)[0], ((4, 5, 6),)))
        else:
            client.delete(TOPIC)

    with lost.pause_controller(), connect_cluster(proxy.through(lost.connect)) as port:
        plan = nudging(port, "orders").plan
        proxy.hold(LOCK_TAKEN, move)
        found = apply_outcomes(port, plan)["orders"]
        assert (proxy.triggered.is_set(), proxy.requests["multi"]) == (True, 0)
        if what == "marked":
            client.delete(MARK)
    assert (found.result, found.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)


def test_a_controller_that_does_not_react_is_said(
    lost: SimulatedKafka, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the controller does not react, the run ends with an error that suggests the next step."""
    monkeypatch.setattr("topiarist.cli.commands.apply._NO_PROGRESS_TIMEOUT_S", 0.2)
    with lost.pause_controller():
        assert run(["nudge", "orders", "--zookeeper", lost.connect, "--yes"]) == 1
    said = capsys.readouterr()
    assert "another broker becomes controller" in said.err
    assert "NotInitialized" in said.out


def test_a_name_that_no_cluster_has_is_an_error(lost: SimulatedKafka, capsys: Capture) -> None:
    """An invalid topic name is a usage error; without ``--yes`` a nudge needs a terminal."""
    where = ["--zookeeper", lost.connect]
    assert run(["nudge", "nowhere", *where, "--yes"]) == 1
    assert "no cluster of this run has a topic nowhere" in capsys.readouterr().err
    assert run(["nudge", "a b", *where, "--yes"]) == 2
    assert run(["nudge", "orders", *where]) == 2
    assert states(lost) == []


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
