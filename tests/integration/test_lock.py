"""The lock of a cluster on a real ZooKeeper: waiting, the name of the holder, and cleanup of lock nodes."""

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

from integration.write_fixtures import (
    DESIRED_SPECS,
    FIRST_TOPIC_WRITE,
    SETUP_WRITES,
    InterceptingProxy,
    apply_without_hooks,
    connect_cluster,
    create_mixed_topics,
    lock_nodes,
    topics_by_result,
)
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.adapters.zookeeper.write import write_context
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan


@contextmanager
def somebody_holds_it(cluster: SimulatedKafka, port: ZooKeeperCluster) -> Iterator[None]:
    """Hold the lock with another run until the block ends."""
    running = port.apply(plan_specs(port, topic_spec("other-a"), topic_spec("other-b")), lambda: False)
    next(running)
    assert len(lock_nodes(cluster)) == 1
    yield
    list(running)


class Run(threading.Thread):
    """A thread that applies a plan; ``found`` and ``error`` have its result."""

    def __init__(self, port: ZooKeeperCluster, plan: Plan, stop: Callable[[], bool] = lambda: False) -> None:
        super().__init__(daemon=True)
        self.found: list[Outcome] = []
        self.error: TopiaristError | None = None
        self._port, self._plan, self._stop_when = port, plan, stop
        self.start()

    def run(self) -> None:
        """Apply the plan in the thread."""
        try:
            self.found.extend(self._port.apply(self._plan, self._stop_when))
        except TopiaristError as error:
            self.error = error


@pytest.mark.timeout(300)  # it hangs where the watch on the first one's node is not heeded
def test_another_run_is_waited_for(cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run gets the lock when the first run ends, and then finds everything done (F7)."""
    monkeypatch.setattr(write_context, "_RECHECK_INTERVAL_S", 3600.0)
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as first, connect_cluster(cluster.connect, lock_timeout=3600.0) as second:
        one, other = plan_specs(first, *DESIRED_SPECS), plan_specs(second, *DESIRED_SPECS)
        running = first.apply(one, lambda: False)
        next(running)  # holds the lock now
        found: dict[str, Result] = {}
        waiting = threading.Thread(target=lambda: found.update(apply_results(second, other)))
        waiting.start()
        wait_until(lambda: len(lock_nodes(cluster)) == 2, "the second run stands in the queue")
        list(running)
        waiting.join()
    assert set(found.values()) == {Result.UNCHANGED}


@pytest.mark.timeout(300)  # it hangs where the time-out does not end the wait
def test_a_lock_that_is_not_given_up_is_named(
    cluster: SimulatedKafka, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the lock's time-out the message names the holder, and nothing was written. Until then the run sends hardly
    any request, because it waits for a watch.
    """
    monkeypatch.setattr(write_context, "_RECHECK_INTERVAL_S", 3600.0)
    create_mixed_topics(cluster)
    with (
        connect_cluster(cluster.connect) as first,
        connect_cluster(proxy.through(cluster.connect), lock_timeout=0.2) as second,
    ):
        one, other = plan_specs(first, *DESIRED_SPECS), plan_specs(second, *DESIRED_SPECS)
        running = first.apply(one, lambda: False)
        next(running)
        proxy.reset()
        with pytest.raises(TopiaristError, match=r"owner default on .*, process \d+; waited 0.2 s") as raised:
            apply_results(second, other)
        assert proxy.requests["exists"] == 1
        assert proxy.requests["multiRead"] < 10
        list(running)
    assert raised.value.reason is Reason.LOCKED
    assert lock_nodes(cluster) == []


@pytest.mark.parametrize("when", list(CutTiming))
def test_the_lock_is_given_up_over_a_cut_connection(cluster: SimulatedKafka, proxy: Proxy, when: CutTiming) -> None:
    """After apply no other run waits for the lock, although the session continues."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.cut(FIRST_TOPIC_WRITE + len(DESIRED_SPECS), when)
        assert set(apply_results(port, plan).values()) == {Result.DONE}
        assert proxy.triggered.is_set()
        assert lock_nodes(cluster) == []


def test_our_place_is_looked_for_where_all_is_known(cluster: SimulatedKafka, meddler: InterceptingProxy) -> None:
    """After a lost answer the run may be connected to a lagging server: it sends a sync before it searches for its own
    lock node.
    """
    create_mixed_topics(cluster)
    kinds: list[str] = []

    def note(kind: str) -> bool:
        kinds.append(kind)
        return True

    with connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        meddler.may_forward = note
        meddler.cut(SETUP_WRITES, CutTiming.AFTER)
        assert set(apply_results(port, plan).values()) == {Result.DONE}
    back = kinds[kinds.index("connect") + 1 :]
    assert back.index("sync") < back.index("multiRead")


def test_a_run_that_ends_in_the_middle_gives_the_lock_up(cluster: SimulatedKafka) -> None:
    """A caller that stops reading outcomes ends the run, and the lock is free at once. Until then the lock names its
    holder.
    """
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        running = port.apply(plan_specs(port, *DESIRED_SPECS), lambda: False)
        next(running)
        (held,) = lock_nodes(cluster)
        found = json.loads(write_checker.read_nodes(cluster.connect)[held].data or b"")
        assert found == {"version": 1, "owner": "default", "host": socket.gethostname(), "pid": os.getpid()}
        running.close()  # type: ignore[attr-defined]  # an iterator that is a generator
        assert lock_nodes(cluster) == []


@pytest.mark.timeout(300)  # it hangs where nobody asks while it waits
def test_who_waits_can_be_stopped(cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C stops a run that waits for the lock: nothing was sent, and no node stays in the queue."""
    monkeypatch.setattr(write_context, "_RECHECK_INTERVAL_S", 3600.0)
    create_mixed_topics(cluster)
    stop = threading.Event()
    with (
        connect_cluster(cluster.connect) as first,
        connect_cluster(cluster.connect, lock_timeout=3600.0) as second,
        somebody_holds_it(cluster, first),
    ):
        run = Run(second, plan_specs(second, *DESIRED_SPECS), stop.is_set)
        wait_until(lambda: len(lock_nodes(cluster)) == 2, "a second run in the queue")
        stop.set()
        run.join()
        assert len(lock_nodes(cluster)) == 1
    assert run.error is None
    assert topics_by_result(run.found) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}


def test_who_waits_for_the_next_one_too_asks_seldom(cluster: SimulatedKafka, proxy: Proxy, client: KazooClient) -> None:
    """If the run directly ahead in the queue ends and the holder does not, the waiting run sets a new watch and sends
    no other extra request.
    """
    create_mixed_topics(cluster)
    with (
        connect_cluster(cluster.connect) as first,
        connect_cluster(proxy.through(cluster.connect), lock_timeout=1.0) as second,
        somebody_holds_it(cluster, first),
    ):
        plan, other = plan_specs(second, *DESIRED_SPECS), client.create("/topiarist/lock/run-", b"", sequence=True)
        proxy.reset()
        run = Run(second, plan)
        wait_until(lambda: proxy.requests["exists"] == 1, "the watch on the one before us")
        client.delete(other)
        run.join()
    assert run.error is not None
    assert run.error.reason is Reason.LOCKED
    assert proxy.requests["exists"] == 2


def test_who_waits_keeps_its_place_over_a_cut_connection(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A waiting run keeps its session and its place in the queue over a cut connection, and then gets the lock."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as first, connect_cluster(proxy.through(cluster.connect)) as second:
        plan = plan_specs(second, *DESIRED_SPECS)
        with somebody_holds_it(cluster, first):
            run = Run(second, plan)
            wait_until(lambda: len(lock_nodes(cluster)) == 2, "a second run in the queue")
            places, connected = lock_nodes(cluster), len(proxy.connections)
            proxy.drop()
            wait_until(lambda: len(proxy.connections) > connected, "another connection")
            assert lock_nodes(cluster) == places
        run.join()
        assert run.error is None
        assert topics_by_result(run.found) == {Result.DONE: ["configure", "create", "grow", "same"]}
        assert lock_nodes(cluster) == []


@pytest.mark.timeout(300)  # it hangs where it is waited for what is over
def test_who_has_gone_before_there_is_a_watch_is_not_waited_for(
    cluster: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run gets the lock if the holder ends between the read of the queue and the watch on its node, although that
    watch never fires.
    """
    monkeypatch.setattr(write_context, "_RECHECK_INTERVAL_S", 3600.0)
    create_mixed_topics(cluster)
    with connect_cluster(meddler.through(cluster.connect), lock_timeout=3600.0) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        plan, holder = plan_specs(port, *DESIRED_SPECS), client.create("/topiarist/lock/run-", b"", sequence=True)

        def end(kind: str) -> bool:
            if kind == "exists" and client.exists(holder):
                client.delete(holder)
            return True

        meddler.may_forward = end
        assert set(apply_results(port, plan).values()) == {Result.DONE}
        assert not client.exists(holder)


@pytest.mark.timeout(300)  # it hangs where nobody looks before the lock's time-out
def test_who_waits_ends_with_its_session(cluster: SimulatedKafka, client: KazooClient) -> None:
    """A session that ends in the queue ends the run with that reason, regardless of the lock time-out; nothing was
    written.
    """
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as first, connect_cluster(cluster.connect, lock_timeout=3600.0) as second:
        plan = plan_specs(second, *DESIRED_SPECS)
        with somebody_holds_it(cluster, first):
            run = Run(second, plan)
            wait_until(lambda: len(lock_nodes(cluster)) == 2, "a second run in the queue")
            client.delete(max(lock_nodes(cluster)))
            run.join()
    assert run.found == []
    assert run.error is not None
    assert run.error.reason is Reason.SESSION_LOST
    assert "create" not in write_checker.decode_topics(write_checker.read_nodes(cluster.connect))


def test_nodes_of_ours_that_are_there_need_no_permission_to_be_made(
    cluster: SimulatedKafka, client: KazooClient
) -> None:
    """An identity that may write below topiarist's nodes, but not beside them, can apply once those nodes exist."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, *DESIRED_SPECS))
        client.set_acls("/", [make_acl("world", "anyone", read=True)])
        assert apply_results(port, plan_specs(port, topic_spec("another"))) == {"another": Result.DONE}


def test_nodes_of_ours_that_cannot_be_made_are_named(cluster: SimulatedKafka, client: KazooClient) -> None:
    """Without the permission to create topiarist's root nothing is written, and the message names the missing node."""
    client.set_acls("/", [make_acl("world", "anyone", read=True)])
    with (
        connect_cluster(cluster.connect) as port,
        pytest.raises(TopiaristError, match="no permission to create /topiarist,"),
    ):
        apply_results(port, plan_specs(port, topic_spec("orders")))


@pytest.mark.parametrize(
    ("rights", "message"),
    [
        ({"read": True}, "no permission to create children of /topiarist/lock"),
        ({"create": True}, "no permission to read /topiarist/lock"),
    ],
)
def test_a_lock_that_cannot_be_taken_is_named(
    cluster: SimulatedKafka, client: KazooClient, rights: dict[str, bool], message: str
) -> None:
    """Without the permission to take the lock or to list its holders, the run prints one line with the path, writes
    nothing and reports every topic.
    """
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        client.set_acls("/topiarist/lock", [make_acl("world", "anyone", delete=True, **rights)])
        plan = plan_specs(port, *DESIRED_SPECS)
        report = apply_without_hooks(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.NO_PERMISSION
    assert message in str(report.error)
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}


def test_a_lock_that_may_not_be_given_up_goes_with_the_session(cluster: SimulatedKafka, client: KazooClient) -> None:
    """A lock that the run may not delete ends with the session, and the run still reports its results."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        client.set_acls("/topiarist/lock", [make_acl("world", "anyone", read=True, create=True)])
        assert set(apply_results(port, plan_specs(port, *DESIRED_SPECS)).values()) == {Result.DONE}
        assert len(lock_nodes(cluster)) == 1
    assert lock_nodes(cluster) == []


@pytest.mark.parametrize("note", [b"", b"not JSON", b"[1]", b"{}", b"[" * 100_000])
def test_a_holder_without_a_name_is_named_by_its_node(
    cluster: SimulatedKafka, client: KazooClient, note: bytes
) -> None:
    """The message names the lock's node if the node's content has no name of a holder."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
    held = client.create("/topiarist/lock/run-", note, sequence=True).rpartition("/")[2]
    with (
        connect_cluster(cluster.connect, lock_timeout=0.1) as port,
        pytest.raises(TopiaristError, match=f"holds the lock of this cluster: the znode {held}; waited 0.1 s"),
    ):
        apply_results(port, plan_specs(port, *DESIRED_SPECS))


def test_an_error_that_nobody_expected_is_told_as_any_other(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient
) -> None:
    """If another client deletes topiarist's root at that moment, the run reports the server's error and every topic."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.hold(SETUP_WRITES, lambda: client.delete("/topiarist/lock"))
        report = apply_without_hooks(port, plan)
    assert report.error is not None
    assert "returned NoNodeError" in str(report.error)
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}


def test_a_queue_that_has_gone_is_named(
    cluster: SimulatedKafka, meddler: InterceptingProxy, client: KazooClient
) -> None:
    """If another client deletes topiarist's nodes before the run is in the queue, the error has the path and every
    topic is reported.
    """
    create_mixed_topics(cluster)

    def take_away(kind: str) -> bool:
        if kind == "sync" and client.exists("/topiarist/gate") and client.exists("/topiarist/lock"):
            client.delete("/topiarist/lock")
        return True

    with connect_cluster(meddler.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        meddler.may_forward = take_away
        report = apply_without_hooks(port, plan)
    assert report.error is not None
    assert (report.error.reason, report.error.message) == (Reason.STATE_CONFLICT, "/topiarist/lock was deleted")
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}


def test_a_stopped_run_takes_no_lock(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A run that is stopped before its start writes nothing, not even topiarist's own nodes."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        found = list(port.apply(plan_specs(port, *DESIRED_SPECS), lambda: True))
    assert topics_by_result(found) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}
    assert proxy.writes == 0


def test_a_name_that_collides_with_a_topic_of_the_run_before_is_not_created(cluster: SimulatedKafka) -> None:
    """Two runs plan names that Kafka's metrics cannot distinguish; the run that waited for the lock creates nothing."""
    with connect_cluster(cluster.connect) as first, connect_cluster(cluster.connect) as second:
        one, other = plan_specs(first, topic_spec("orders.v1")), plan_specs(second, topic_spec("orders_v1"))
        assert apply_results(first, one) == {"orders.v1": Result.DONE}
        found = apply_outcomes(second, other)["orders_v1"]
    assert found.result is Result.CONFLICT
    assert "orders.v1" in found.message
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == ["orders.v1"]
