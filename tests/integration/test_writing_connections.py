"""Writes over broken connections and sessions: every outcome is resolved, and no write is repeated."""

from __future__ import annotations

from collections.abc import Iterator
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
    verify_changes,
)
from support.spec_builders import apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.connection.session import PendingReply, Session
from topiarist.adapters.zookeeper.write.multi_request import MultiRequest
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Result
from topiarist.model.state import OwnershipRecord


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[InterceptingProxy]:
    """A proxy that calls a hook before every request."""
    between = InterceptingProxy(zookeeper.connect)
    with between:
        yield between


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
            client.set("/topiarist/topics/orders", own_values.encode_record(record))
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
