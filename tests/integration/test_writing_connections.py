"""Writing over connections and sessions that break: what was done is found out, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.scene import FIRST, MANY, REPLICAS, WISHES, Meddler, carried_out, mixed, opened, witnessed
from support import checker
from support.proxy import Proxy, When
from support.wishes import planned, results, wish
from topiarist.adapters import znodes
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground, Topic
from topiarist.adapters.zookeeper.multi import Multi
from topiarist.adapters.zookeeper.session import Pending, Session
from topiarist.core.state import TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Result


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[Meddler]:
    """A proxy that asks before every request."""
    between = Meddler(zookeeper.connect)
    with between:
        yield between


def test_a_lost_answer_is_resolved_over_further_losses(cluster: Playground, meddler: Meddler) -> None:
    """The connection drops under a transaction, and again while its outcome is being found out."""
    names = mixed(cluster)
    dropping = {"multi": 1, "sync": 1, "multiRead": 1}

    def drop(kind: str) -> bool:
        if meddler.requests["multi"] == 0 or not dropping.get(kind):
            return True
        dropping[kind] -= 1
        return False

    with witnessed(cluster.connect, *names), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        meddler.before = drop
        assert set(results(port, plan).values()) == {Result.DONE}
    assert dropping == {"multi": 0, "sync": 0, "multiRead": 0}


def test_nothing_is_sent_over_a_broken_connection(cluster: Playground, meddler: Meddler) -> None:
    """When the connection is back, what was under way is found out before anything else is written (contract 2)."""
    kinds: list[str] = []

    def cut_once(kind: str) -> bool:
        kinds.append(kind)
        return kind != "multi" or meddler.requests["multi"] != 11

    with witnessed(cluster.connect, *(spec.topic for spec in MANY)), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        meddler.before = cut_once
        assert set(results(port, plan).values()) == {Result.DONE}
    back = kinds[kinds.index("connect") + 1 :]
    assert back.index("sync") < back.index("multiRead") < back.index("multi")


@pytest.mark.parametrize(("other", "result"), [(False, Result.DONE), (True, Result.MOVED)])
def test_an_answer_that_makes_no_sense_is_looked_up(
    cluster: Playground, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, other: bool, result: Result
) -> None:
    """An answer with fewer results than operations says nothing: the record decides whether it was done, and nothing is
    written twice.
    """
    monkeypatch.setattr(Multi, "deserialize", lambda self, buffer, offset: [])
    with witnessed(cluster.connect, "orders"), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wish("orders"))
        if other:
            proxy.hold(FIRST, lambda: cluster.add_topics(Topic("orders", REPLICAS, {})))
        assert results(port, plan) == {"orders": result}
    assert proxy.requests["multi"] == 1


def test_a_session_that_is_over_before_an_answer_is_read_leaves_it_unknown(
    cluster: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been done, and here it was: not sent would be wrong, and so would done."""
    heard = Session.result

    def over(session: Session, pending: Pending) -> Any:
        answer = heard(session, pending)
        if isinstance(answer, list) and set(answer) == {True}:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        return answer

    monkeypatch.setattr(Session, "result", over)
    with witnessed(cluster.connect, "orders"), opened(cluster.connect) as port:
        report = carried_out(port, planned(port, wish("orders")))
    assert [outcome[:3] for outcome in report.outcomes] == [("orders", Result.UNKNOWN, Reason.OUTCOME_UNKNOWN)]
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert "orders" in checker.topics(checker.look(cluster.connect))


def test_a_request_that_breaks_the_connection_does_not_take_others_along(cluster: Playground, meddler: Meddler) -> None:
    """A server whose limit is smaller than we were told closes the connection at each try: that topic fails with this
    word, and all behind it are done.
    """
    specs = (wish("a"), wish("big"), wish("c"), wish("d"))
    with witnessed(cluster.connect, "a", "c", "d"), opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *specs)
        meddler.poison = b"/brokers/topics/big"
        found = {outcome.topic: outcome for outcome in carried_out(port, plan).outcomes}
    big = found.pop("big")
    assert {outcome.result for outcome in found.values()} == {Result.DONE}
    assert (big.result, big.reason) == (Result.FAILED, Reason.WRITE_FAILED)
    assert "the connection dropped 5 times" in big.message


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("before", ["stale", "tombstone", "absent", "valid"])
def test_the_record_is_a_witness_whatever_it_was_before(
    cluster: Playground, proxy: Proxy, client: KazooClient, before: str, when: When
) -> None:
    """The answer is lost; the record tells, also where an earlier topic or a deletion had left one."""
    wanted = wish("orders", config={"retention.ms": 7})
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        if before != "absent":
            results(port, planned(port, wish("orders")))
        if before in ("stale", "tombstone"):
            record = TopicRecord("default", absent=before == "tombstone")
            client.set("/topiarist/topics/orders", znodes.encode_record(record))
            client.create("/admin/delete_topics/orders")
            cluster.settle()
        if before == "stale":
            cluster.add_topics(Topic("orders", REPLICAS, {}))
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, wanted)
        proxy.cut(2, when)
        assert results(port, plan) == {"orders": Result.DONE}
        assert proxy.fired.is_set()
        assert not planned(port, wanted).pending
    assert proxy.requests["multi"] == (1 if when is When.AFTER else 2)


@pytest.mark.parametrize("levels", ["", "/a", "/a/b/c"])
def test_every_path_is_below_the_chroot(levels: str) -> None:
    """With no chroot, one level or several: read, lock, transaction, resolution and release all go to one place."""
    with EmbeddedZooKeeper() as server, Proxy(server.connect) as proxy:
        connect = f"{server.connect}{levels}"
        with Playground(connect, BROKERS) as cluster:
            names = mixed(cluster)
            with witnessed(connect, *names), opened(proxy.through(connect)) as port:
                plan = planned(port, *WISHES)
                proxy.cut(FIRST + 1, When.AFTER)
                assert set(results(port, plan).values()) == {Result.DONE}
                assert not planned(port, *WISHES).pending
            tops = {path.split("/")[1] for path in checker.look(server.connect) if path != "/"}
    expected = (
        {levels.split("/")[1]} if levels else {"admin", "brokers", "cluster", "config", "controller", "topiarist"}
    )
    assert expected <= tops
    assert not levels or tops <= {*expected, "zookeeper"}
