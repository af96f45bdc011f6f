"""Applying a plan to a real ZooKeeper: requests, resulting znodes, growth, lost connections, and other failures.

After every write an independent reader, which shares no code with the product, checks the whole cluster.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.write_fixtures import (
    DESIRED_SPECS,
    FIRST_TOPIC_WRITE,
    MANY_SPECS,
    REPLICAS,
    InterceptingProxy,
    apply_without_hooks,
    connect_cluster,
    create_mixed_topics,
    topics_by_result,
    verify_changes,
)
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, add_topics, topic_bytes
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.own_values import encode_freeze, encode_record
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.adapters.zookeeper.connection.session import PendingReply, Session
from topiarist.adapters.zookeeper.read.cluster_metadata import ClusterMetadata
from topiarist.adapters.zookeeper.write import write_context
from topiarist.adapters.zookeeper.write.transaction import MultiRequest, TransactionTemplate
from topiarist.adapters.zookeeper.write.write_context import read_transaction_template
from topiarist.adapters.zookeeper.write.writer import BATCH_SIZE, MAX_IN_FLIGHT
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.kafka.types import KafkaVersion
from topiarist.model.outcome import Result
from topiarist.model.state import Freeze, OwnershipRecord


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


def test_one_transaction_for_each_topic(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """Four topics are four transactions; the other writes are topiarist's root, the lock, and its release."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        apply_results(port, plan_specs(port, *DESIRED_SPECS))
    assert proxy.requests["multi"] == 4
    assert proxy.requests["create"] == 5
    assert proxy.requests["delete"] == 1


@pytest.mark.slow
def test_no_more_is_under_way_than_keeps_a_server_busy(cluster: SimulatedKafka, meddler: InterceptingProxy) -> None:
    """The number of requests in flight is limited, regardless of the number of topics and the latency, because requests
    of other clients wait behind them.
    """
    under_way = []

    def look(kind: str) -> bool:
        if kind == "multi":
            under_way.append(sum(each.requests[kind] - each.replies[kind] for each in meddler.connections))
        return True

    meddler.delay = 0.05
    with connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *(topic_spec(f"topic-{number}", partitions=1) for number in range(BATCH_SIZE)))
        meddler.may_forward = look
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    assert MAX_IN_FLIGHT // 2 < max(under_way) <= MAX_IN_FLIGHT


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lock of a run for each new read of the run's preconditions."""
    found: list[str] = []

    def look(session: Session, lock_path: str, hint: str) -> tuple[TransactionTemplate, ClusterMetadata]:
        found.append(lock_path)
        return read_transaction_template(session, lock_path, hint)

    monkeypatch.setattr(write_context, "read_transaction_template", look)
    return found


@pytest.mark.parametrize("cut", [False, True])
def test_a_gate_that_closes_in_the_middle_leaves_no_doubt(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, looks: list[str], cut: bool
) -> None:
    """A freeze with many transactions in flight leaves each topic either done or skipped and none unknown, even if the
    answers after the first refusal are lost.
    """

    def freeze() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        client.set("/topiarist/gate", encode_freeze(Freeze("maintenance")))

    with (
        verify_changes(cluster.connect, *(spec.topic for spec in MANY_SPECS)),
        connect_cluster(proxy.through(cluster.connect)) as port,
    ):
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 40, freeze)
        if cut:
            proxy.cut(FIRST_TOPIC_WRITE + 41, CutTiming.AFTER)
        report = apply_without_hooks(port, plan)
    found = topics_by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.SKIPPED: 110}
    assert report.error is not None
    assert report.error.reason is Reason.FROZEN
    assert "maintenance" in str(report.error)
    assert report.exit_code is Exit.REFUSED
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == found[Result.DONE]
    assert len(looks) == 2


@pytest.mark.slow
def test_one_look_tells_of_a_new_controller_whatever_fell_with_the_old_one(
    cluster: SimulatedKafka, proxy: Proxy, looks: list[str]
) -> None:
    """After a failover with many transactions in flight the run reads once and sends all of them again."""

    def elect() -> None:
        wait_until(lambda: cluster.client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        cluster.elect_controller(5)

    with (
        verify_changes(cluster.connect, *(spec.topic for spec in MANY_SPECS)),
        connect_cluster(proxy.through(cluster.connect)) as port,
    ):
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 40, elect)
        assert topics_by_result(apply_without_hooks(port, plan).outcomes) == {
            Result.DONE: [spec.topic for spec in MANY_SPECS]
        }
    assert proxy.requests["multi"] > len(MANY_SPECS) + 1
    assert len(looks) == 2


def test_a_gate_that_goes_before_the_first_transaction_is_named(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient
) -> None:
    """Without the freeze znode the transactions have nothing to check: none is sent."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE - 1, lambda: client.delete("/topiarist/gate"))
        report = apply_without_hooks(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.STATE_CONFLICT
    assert "/topiarist/gate was deleted during the run" in str(report.error)
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}
    assert proxy.requests["multi"] == 0


def test_a_lost_answer_is_resolved_over_further_losses(cluster: SimulatedKafka, meddler: InterceptingProxy) -> None:
    """The connection breaks during a transaction, and again during the resolution of its outcome."""
    names = create_mixed_topics(cluster)
    dropping = {"multi": 1, "sync": 1, "multiRead": 1}

    def drop(kind: str) -> bool:
        if meddler.requests["multi"] == 0 or not dropping.get(kind):
            return True
        dropping[kind] -= 1
        return False

    with verify_changes(cluster.connect, *names), connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        meddler.may_forward = drop
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    assert dropping == {"multi": 0, "sync": 0, "multiRead": 0}


@pytest.mark.slow
def test_nothing_is_sent_over_a_broken_connection(cluster: SimulatedKafka, meddler: InterceptingProxy) -> None:
    """After a reconnect the run resolves the transactions in flight before any other write (contract 2)."""
    kinds: list[str] = []

    def cut_once(kind: str) -> bool:
        kinds.append(kind)
        return kind != "multi" or meddler.requests["multi"] != 11

    with (
        verify_changes(cluster.connect, *(spec.topic for spec in MANY_SPECS)),
        connect_cluster(meddler.through(cluster.connect)) as port,
    ):
        plan = plan_specs(port, *MANY_SPECS)
        meddler.may_forward = cut_once
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    back = kinds[kinds.index("connect") + 1 :]
    assert back.index("sync") < back.index("multiRead") < back.index("multi")


@pytest.mark.parametrize(("other", "result"), [(False, Result.DONE), (True, Result.CONFLICT)])
def test_an_answer_that_makes_no_sense_is_looked_up(
    cluster: SimulatedKafka, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, other: bool, result: Result
) -> None:
    """An answer with fewer results than operations is inconclusive: the record decides whether the transaction
    succeeded, and nothing is written twice.
    """
    monkeypatch.setattr(MultiRequest, "deserialize", lambda self, buffer, offset: [])
    with verify_changes(cluster.connect, "orders"), connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, topic_spec("orders"))
        if other:
            proxy.hold(FIRST_TOPIC_WRITE, lambda: cluster.add_topics(Topic("orders", REPLICAS, {})))
        assert apply_results(port, plan) == {"orders": result}
    assert proxy.requests["multi"] == 1


def test_a_session_that_is_over_before_an_answer_is_read_leaves_it_unknown(
    cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that ends before an answer is read leaves the outcome unknown: here the write succeeded, but the run
    reports neither skipped nor done.
    """
    heard = Session.result

    def over(session: Session, pending: PendingReply) -> Any:
        answer = heard(session, pending)
        if isinstance(answer, list) and set(answer) == {True}:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        return answer

    monkeypatch.setattr(Session, "result", over)
    with verify_changes(cluster.connect, "orders"), connect_cluster(cluster.connect) as port:
        report = apply_without_hooks(port, plan_specs(port, topic_spec("orders")))
    assert [outcome[:3] for outcome in report.outcomes] == [("orders", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN)]
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert "orders" in write_checker.decode_topics(write_checker.read_nodes(cluster.connect))


def test_a_record_proves_nothing_after_the_lock_was_deleted(
    cluster: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient
) -> None:
    """While a run looks for the outcome of a lost transaction, a person deletes its lock and another run makes the same
    change: the outcome is unknown, because the record is the other run's.
    """
    wanted = topic_spec("orders")
    with verify_changes(cluster.connect, "orders"), connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, wanted)

        def step_in(kind: str) -> bool:
            if kind == "sync" and meddler.requests["multi"]:
                for name in client.get_children("/topiarist/lock"):
                    client.delete(f"/topiarist/lock/{name}")
                with connect_cluster(cluster.connect) as other:
                    assert apply_results(other, plan_specs(other, wanted)) in ({"orders": Result.DONE}, {})
            return kind != "multi"

        meddler.may_forward = step_in
        report = apply_without_hooks(port, plan)
    assert [outcome[:3] for outcome in report.outcomes] == [("orders", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN)]
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST


def test_a_request_that_breaks_the_connection_does_not_take_others_along(
    cluster: SimulatedKafka, meddler: InterceptingProxy
) -> None:
    """A server with a smaller limit than configured closes the connection at each attempt: that topic fails with this
    reason, and all later topics are done.
    """
    specs = (topic_spec("a"), topic_spec("big"), topic_spec("c"), topic_spec("d"))
    with verify_changes(cluster.connect, "a", "c", "d"), connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *specs)
        meddler.break_on_bytes = b"/brokers/topics/big"
        found = {outcome.topic: outcome for outcome in apply_without_hooks(port, plan).outcomes}
    big = found.pop("big")
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert (big.result, big.reason) == (Result.FAILED, Reason.WRITE_FAILED)
    assert "the connection dropped 5 times" in big.message


@pytest.mark.parametrize("when", list(CutTiming))
@pytest.mark.parametrize("before", ["stale", "tombstone", "absent", "valid"])
def test_the_record_is_a_witness_whatever_it_was_before(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, before: str, when: CutTiming
) -> None:
    """After a lost answer the record shows the outcome, also if an earlier topic or a deletion had left a record."""
    wanted = topic_spec("orders", config={"retention.ms": 7})
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        if before != "absent":
            apply_results(port, plan_specs(port, topic_spec("orders")))
        if before in ("stale", "tombstone"):
            record = OwnershipRecord("default", deleted=before == "tombstone")
            client.set("/topiarist/topics/orders", encode_record(record))
            client.create("/admin/delete_topics/orders")
            cluster.wait_idle()
        if before == "stale":
            cluster.add_topics(Topic("orders", REPLICAS, {}))
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, wanted)
        proxy.cut(2, when)
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert proxy.triggered.is_set()
        assert not plan_specs(port, wanted).has_changes
    assert proxy.requests["multi"] == (1 if when is CutTiming.AFTER else 2)


@pytest.mark.slow
@pytest.mark.parametrize("levels", ["", "/a", "/a/b/c"])
def test_every_path_is_below_the_chroot(levels: str) -> None:
    """With no chroot, one level or several, the read, lock, transaction, resolution and release use the same chroot."""
    with EmbeddedZooKeeper() as server, Proxy(server.connect) as proxy:
        connect = f"{server.connect}{levels}"
        with SimulatedKafka(connect, BROKERS) as cluster:
            names = create_mixed_topics(cluster)
            with verify_changes(connect, *names), connect_cluster(proxy.through(connect)) as port:
                plan = plan_specs(port, *DESIRED_SPECS)
                proxy.cut(FIRST_TOPIC_WRITE + 1, CutTiming.AFTER)
                assert set(apply_results(port, plan).values()) == {Result.DONE}
                assert not plan_specs(port, *DESIRED_SPECS).has_changes
            tops = {path.split("/")[1] for path in write_checker.read_nodes(server.connect) if path != "/"}
    expected = (
        {levels.split("/")[1]} if levels else {"admin", "brokers", "cluster", "config", "controller", "topiarist"}
    )
    assert expected <= tops
    assert not levels or tops <= {*expected, "zookeeper"}


GROWN = topic_spec("orders", partitions=4)
TOPIC, MARK = "/brokers/topics/orders", "/admin/delete_topics/orders"
ASSIGNMENT = {str(partition): list(replicas) for partition, replicas in enumerate(REPLICAS)}
LOCK_TAKEN = 1
"""The first write of a run on a cluster that has our root: everything of the topic is read after it."""


def size(client: KazooClient) -> int:
    """Return the partition count of the topic."""
    return len(topics.decode_topic(client.get(TOPIC)[0]).replicas)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_topic_of_which_a_partition_has_no_state_does_not_grow(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy, partition: int
) -> None:
    """A topic with any uninitialized partition does not grow: nothing is sent, with the same reason as for a
    deletion.
    """
    client.delete(paths.partition_state_path("orders", partition))
    with verify_changes(ours.connect), connect_cluster(proxy.through(ours.connect)) as port:
        found = apply_outcomes(port, plan_specs(port, GROWN))["orders"]
        assert proxy.requests["multi"] == 0
    assert (found.result, found.reason) == (Result.REFUSED, Reason.NOT_INITIALIZED)
    assert f"partition {partition}" in found.message


def test_a_topic_made_again_in_between_does_not_get_the_node_of_the_earlier(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """A topic that is recreated between read and write, at equal versions and before its initialization, keeps its own
    replica lists and its own id.
    """
    before = client.get(TOPIC)[1].version
    with ExitStack() as stack, connect_cluster(proxy.through(ours.connect)) as port:

        def make_again() -> None:
            client.create(MARK)
            ours.wait_idle()
            stack.enter_context(ours.pause_controller())
            add_topics(client, [Topic("orders", REPLICAS[:1], {})], ours.version)

        plan = plan_specs(port, GROWN)
        proxy.hold(LOCK_TAKEN + 1, make_again)
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
        data, stat = client.get(TOPIC)
    assert (found.result, stat.version, before) == (Result.CONFLICT, 0, 0)
    assert topics.decode_topic(data).replicas == REPLICAS[:1]


def test_a_new_leader_in_between_is_no_reason_to_stop(ours: SimulatedKafka, client: KazooClient, proxy: Proxy) -> None:
    """A new version of partition 0's state is read and compared again: the topic is still the planned one."""
    state = paths.partition_state_path("orders", 0)
    with connect_cluster(proxy.through(ours.connect)) as port:
        plan = plan_specs(port, GROWN)
        proxy.hold(LOCK_TAKEN + 1, lambda: client.set(state, client.get(state)[0]))
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert (proxy.triggered.is_set(), proxy.requests["multi"]) == (True, 2)
    assert size(client) == 4


@pytest.mark.parametrize(("release", "refused"), [((3, 9), [Reason.NOT_INITIALIZED]), ((2, 7), [])])
def test_a_topic_without_the_id_that_others_have_does_not_grow(
    chroot: str, release: KafkaVersion, refused: list[Reason]
) -> None:
    """A topic without an id waits if other topics have ids, because its controller will set the node again. Without any
    topic id the run does not wait.
    """
    with SimulatedKafka(chroot, BROKERS, release) as cluster, connect_cluster(chroot) as port:
        cluster.add_topics(Topic("orders", REPLICAS, {}), Topic("users", REPLICAS, {}))
        cluster.client.set(TOPIC, topic_bytes(ASSIGNMENT, None))
        plan = plan_specs(port, GROWN)
        assert [finding.reason for finding in plan.topics[0].refusals] == refused
        apply_results(port, plan)
        assert size(cluster.client) == (2 if refused else 4)
    assert cluster.controller_errors == []


def test_an_id_that_goes_between_plan_and_write_is_a_conflict(ours: SimulatedKafka, client: KazooClient) -> None:
    """A topic that another tool writes without its id is a conflict."""
    with connect_cluster(ours.connect) as port:
        plan = plan_specs(port, GROWN)
        client.set(TOPIC, topic_bytes(ASSIGNMENT, None))
        found = apply_outcomes(port, plan)["orders"]
    assert found.result is Result.CONFLICT
    assert "topic id" in found.message
    assert size(client) == 2
