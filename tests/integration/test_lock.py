"""The lock of a cluster on a real ZooKeeper: who waits, who is named, and that no node of ours stays behind."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.scene import (
    FIRST,
    OUR_WRITES,
    WISHES,
    Meddler,
    by_result,
    carried_out,
    locks,
    mixed,
    opened,
)
from support import checker
from support.proxy import Proxy, When
from support.waiting import wait_until
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground
from topiarist.adapters.zookeeper import ZooKeeperCluster, lock
from topiarist.core.change import Plan
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Outcome, Result


@contextmanager
def somebody_holds_it(cluster: Playground, port: ZooKeeperCluster) -> Iterator[None]:
    """While this lasts, another run holds the lock."""
    running = port.apply(planned(port, wish("other-a"), wish("other-b")), lambda: False)
    next(running)
    assert len(locks(cluster)) == 1
    yield
    list(running)


class Run(threading.Thread):
    """Applies a plan in a thread of its own; ``found`` and ``error`` afterwards."""

    def __init__(self, port: ZooKeeperCluster, plan: Plan, stop: Callable[[], bool] = lambda: False) -> None:
        super().__init__(daemon=True)
        self.found: list[Outcome] = []
        self.error: TopiaristError | None = None
        self._port, self._plan, self._stop_when = port, plan, stop
        self.start()

    def run(self) -> None:
        """In the thread."""
        try:
            self.found.extend(self._port.apply(self._plan, self._stop_when))
        except TopiaristError as error:
            self.error = error


@pytest.mark.timeout(30)  # it hangs where the watch on the first one's node is not heeded
def test_another_run_is_waited_for(cluster: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run gets the lock when the first ends, and then finds everything done (F7)."""
    monkeypatch.setattr(lock, "_LOOK_AGAIN", 3600.0)
    mixed(cluster)
    with opened(cluster.connect) as first, opened(cluster.connect, lock_timeout=3600.0) as second:
        one, other = planned(first, *WISHES), planned(second, *WISHES)
        running = first.apply(one, lambda: False)
        next(running)  # holds the lock now
        found: dict[str, Result] = {}
        waiting = threading.Thread(target=lambda: found.update(results(second, other)))
        waiting.start()
        wait_until(lambda: len(locks(cluster)) == 2, "the second run stands in the queue")
        list(running)
        waiting.join()
    assert set(found.values()) == {Result.ALREADY}


@pytest.mark.timeout(30)  # it hangs where the time-out does not end the wait
def test_a_lock_that_is_not_given_up_is_named(
    cluster: Playground, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the lock's time-out the message says who holds it, and nothing was written. Until then hardly anything is
    asked: a watch says when to look again.
    """
    monkeypatch.setattr(lock, "_LOOK_AGAIN", 3600.0)
    mixed(cluster)
    with opened(cluster.connect) as first, opened(proxy.through(cluster.connect), lock_timeout=0.2) as second:
        one, other = planned(first, *WISHES), planned(second, *WISHES)
        running = first.apply(one, lambda: False)
        next(running)
        proxy.reset()
        with pytest.raises(TopiaristError, match=r"owner default on .*, process \d+; waited 0.2 s") as raised:
            results(second, other)
        assert proxy.requests["exists"] == 1
        assert proxy.requests["multiRead"] < 10
        list(running)
    assert raised.value.reason is Reason.LOCKED
    assert locks(cluster) == []


@pytest.mark.parametrize("when", list(When))
def test_the_lock_is_given_up_over_a_cut_connection(cluster: Playground, proxy: Proxy, when: When) -> None:
    """When apply is over nobody waits for us, although our session goes on."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.cut(FIRST + len(WISHES), when)
        assert set(results(port, plan).values()) == {Result.DONE}
        assert proxy.fired.is_set()
        assert locks(cluster) == []


def test_our_place_is_looked_for_where_all_is_known(cluster: Playground, zookeeper: EmbeddedZooKeeper) -> None:
    """After a lost answer the server may be another one that lags behind: it catches up before we look for our node."""
    mixed(cluster)
    kinds: list[str] = []

    def note(kind: str) -> bool:
        kinds.append(kind)
        return True

    with Meddler(zookeeper.connect) as meddler, opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        meddler.before = note
        meddler.cut(OUR_WRITES, When.AFTER)
        assert set(results(port, plan).values()) == {Result.DONE}
    back = kinds[kinds.index("connect") + 1 :]
    assert back.index("sync") < back.index("multiRead")


def test_a_run_that_ends_in_the_middle_gives_the_lock_up(cluster: Playground) -> None:
    """Whoever takes no more outcomes ends the run: the lock is free at once. Until then it says who has it."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        running = port.apply(planned(port, *WISHES), lambda: False)
        next(running)
        (held,) = locks(cluster)
        found = json.loads(checker.look(cluster.connect)[held].data or b"")
        assert found == {"version": 1, "owner": "default", "host": socket.gethostname(), "pid": os.getpid()}
        running.close()  # type: ignore[attr-defined]  # an iterator that is a generator
        assert locks(cluster) == []


@pytest.mark.timeout(30)  # it hangs where nobody asks while it waits
def test_who_waits_can_be_stopped(cluster: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting, however long it would wait: nothing was sent, no place in the queue is left."""
    monkeypatch.setattr(lock, "_LOOK_AGAIN", 3600.0)
    mixed(cluster)
    stop = threading.Event()
    with (
        opened(cluster.connect) as first,
        opened(cluster.connect, lock_timeout=3600.0) as second,
        somebody_holds_it(cluster, first),
    ):
        run = Run(second, planned(second, *WISHES), stop.is_set)
        wait_until(lambda: len(locks(cluster)) == 2, "a second run in the queue")
        stop.set()
        run.join()
        assert len(locks(cluster)) == 1
    assert run.error is None
    assert by_result(run.found) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}


def test_who_waits_for_the_next_one_too_asks_seldom(cluster: Playground, proxy: Proxy, client: KazooClient) -> None:
    """The one directly before us gives up, the holder does not: a new watch, and nothing more is asked than before."""
    mixed(cluster)
    with (
        opened(cluster.connect) as first,
        opened(proxy.through(cluster.connect), lock_timeout=1.0) as second,
        somebody_holds_it(cluster, first),
    ):
        plan, other = planned(second, *WISHES), client.create("/topiarist/lock/run-", b"", sequence=True)
        proxy.reset()
        run = Run(second, plan)
        wait_until(lambda: proxy.requests["exists"] == 1, "the watch on the one before us")
        client.delete(other)
        run.join()
    assert run.error is not None
    assert run.error.reason is Reason.LOCKED
    assert proxy.requests["exists"] == 2


def test_who_waits_keeps_its_place_over_a_cut_connection(cluster: Playground, proxy: Proxy) -> None:
    """The session goes on, so does the place; it comes to its turn as if nothing had been."""
    mixed(cluster)
    with opened(cluster.connect) as first, opened(proxy.through(cluster.connect)) as second:
        plan = planned(second, *WISHES)
        with somebody_holds_it(cluster, first):
            run = Run(second, plan)
            wait_until(lambda: len(locks(cluster)) == 2, "a second run in the queue")
            places, connected = locks(cluster), len(proxy.connections)
            proxy.drop()
            wait_until(lambda: len(proxy.connections) > connected, "another connection")
            assert locks(cluster) == places
        run.join()
        assert run.error is None
        assert by_result(run.found) == {Result.DONE: ["configure", "create", "grow", "same"]}
        assert locks(cluster) == []


@pytest.mark.timeout(30)  # it hangs where it is waited for what is over
def test_who_has_gone_before_there_is_a_watch_is_not_waited_for(
    cluster: Playground, zookeeper: EmbeddedZooKeeper, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder ends between our look at the queue and the watch on its node, which will never tell."""
    monkeypatch.setattr(lock, "_LOOK_AGAIN", 3600.0)
    mixed(cluster)
    with Meddler(zookeeper.connect) as meddler, opened(meddler.through(cluster.connect), lock_timeout=3600.0) as port:
        results(port, planned(port, wish("first")))
        plan, holder = planned(port, *WISHES), client.create("/topiarist/lock/run-", b"", sequence=True)

        def end(kind: str) -> bool:
            if kind == "exists" and client.exists(holder):
                client.delete(holder)
            return True

        meddler.before = end
        assert set(results(port, plan).values()) == {Result.DONE}
        assert not client.exists(holder)


@pytest.mark.timeout(30)  # it hangs where nobody looks before the lock's time-out
def test_who_waits_ends_with_its_session(cluster: Playground, client: KazooClient) -> None:
    """A session that ends in the queue ends the run with that reason, however long it would wait; nothing was
    written.
    """
    mixed(cluster)
    with opened(cluster.connect) as first, opened(cluster.connect, lock_timeout=3600.0) as second:
        plan = planned(second, *WISHES)
        with somebody_holds_it(cluster, first):
            run = Run(second, plan)
            wait_until(lambda: len(locks(cluster)) == 2, "a second run in the queue")
            client.delete(max(locks(cluster)))
            run.join()
    assert run.found == []
    assert run.error is not None
    assert run.error.reason is Reason.SESSION_LOST
    assert "create" not in checker.topics(checker.look(cluster.connect))


def test_nodes_of_ours_that_are_there_need_no_permission_to_be_made(cluster: Playground, client: KazooClient) -> None:
    """An identity that may write below our nodes, but not beside them, is enough once somebody has made them."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, *WISHES))
        client.set_acls("/", [make_acl("world", "anyone", read=True)])
        assert results(port, planned(port, wish("another"))) == {"another": Result.DONE}


def test_nodes_of_ours_that_cannot_be_made_are_named(cluster: Playground, client: KazooClient) -> None:
    """Without the right to make our root nothing is written, and the message says which node is missing."""
    client.set_acls("/", [make_acl("world", "anyone", read=True)])
    with opened(cluster.connect) as port, pytest.raises(TopiaristError, match="no permission to create /topiarist,"):
        results(port, planned(port, wish("orders")))


@pytest.mark.parametrize(
    ("rights", "message"),
    [
        ({"read": True}, "no permission to create children of /topiarist/lock"),
        ({"create": True}, "no permission to read /topiarist/lock"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_named(
    cluster: Playground, client: KazooClient, rights: dict[str, bool], message: str
) -> None:
    """No right to take the lock, or to see who has it: one line with the path, nothing written, every topic told."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        client.set_acls("/topiarist/lock", [make_acl("world", "anyone", delete=True, **rights)])
        plan = planned(port, *WISHES)
        report = carried_out(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.NO_PERMISSION
    assert message in str(report.error)
    assert by_result(report.outcomes) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}


def test_a_lock_that_may_not_be_given_up_goes_with_the_session(cluster: Playground, client: KazooClient) -> None:
    """What was done is told all the same."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        client.set_acls("/topiarist/lock", [make_acl("world", "anyone", read=True, create=True)])
        assert set(results(port, planned(port, *WISHES)).values()) == {Result.DONE}
        assert len(locks(cluster)) == 1
    assert locks(cluster) == []


@pytest.mark.parametrize("note", [b"", b"not JSON", b"[1]", b"{}", b"[" * 100_000])
def test_a_holder_without_a_name_is_named_by_its_node(cluster: Playground, client: KazooClient, note: bytes) -> None:
    """Whatever stands in the lock's node, the message names something to look for."""
    mixed(cluster)
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
    held = client.create("/topiarist/lock/run-", note, sequence=True).rpartition("/")[2]
    with (
        opened(cluster.connect, lock_timeout=0.1) as port,
        pytest.raises(TopiaristError, match=f"holds the lock of this cluster: the node {held}; waited 0.1 s"),
    ):
        results(port, planned(port, *WISHES))


def test_an_error_that_nobody_expected_is_told_as_any_other(
    cluster: Playground, proxy: Proxy, client: KazooClient
) -> None:
    """Somebody takes our root away at the very moment: an error with the server's word for it, and every topic told."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(OUR_WRITES, lambda: client.delete("/topiarist/lock"))
        report = carried_out(port, plan)
    assert report.error is not None
    assert "answered NoNodeError" in str(report.error)
    assert by_result(report.outcomes) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}


def test_a_queue_that_has_gone_is_named(cluster: Playground, zookeeper: EmbeddedZooKeeper, client: KazooClient) -> None:
    """Somebody takes our nodes away before we stand in line: said with the path, and every topic told."""
    mixed(cluster)

    def take_away(kind: str) -> bool:
        if kind == "sync" and client.exists("/topiarist/gate") and client.exists("/topiarist/lock"):
            client.delete("/topiarist/lock")
        return True

    with Meddler(zookeeper.connect) as meddler, opened(meddler.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        meddler.before = take_away
        report = carried_out(port, plan)
    assert report.error is not None
    assert (report.error.reason, report.error.args[0]) == (Reason.STATE_CONFLICT, "/topiarist/lock has gone")
    assert by_result(report.outcomes) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}


def test_a_stopped_run_takes_no_lock(cluster: Playground, proxy: Proxy) -> None:
    """Who is to stop before it has begun writes nothing at all, not even nodes of its own."""
    mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        found = list(port.apply(planned(port, *WISHES), lambda: True))
    assert by_result(found) == {Result.NOT_SENT: ["configure", "create", "grow", "same"]}
    assert proxy.writes == 0


def test_a_name_that_collides_with_a_topic_of_the_run_before_is_not_created(cluster: Playground) -> None:
    """Two runs plan names that Kafka's metrics cannot tell apart; the one that had to wait creates nothing."""
    with opened(cluster.connect) as first, opened(cluster.connect) as second:
        one, other = planned(first, wish("orders.v1")), planned(second, wish("orders_v1"))
        assert results(first, one) == {"orders.v1": Result.DONE}
        found = outcomes(second, other)["orders_v1"]
    assert found.result is Result.MOVED
    assert "orders.v1" in found.message
    assert sorted(checker.topics(checker.look(cluster.connect))) == ["orders.v1"]
