"""F5 and F6: the session ends under a run, or its process is stopped until others have taken over: nothing is written
that rests on what is no longer true.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from integration.scene import FIRST, MANY, WISHES, by_result, carried_out, locks, mixed, opened, witnessed
from support import checker, forks, plenty
from support.clients import expire
from support.forks import Forks
from support.proxy import Proxy, When
from support.waiting import wait_until
from support.wire import Node
from support.wishes import planned, results
from topiarist.adapters.playground import Playground
from topiarist.adapters.zookeeper import writing
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import Hooks, Outcome, Result, carry_out


def test_f05_between_plan_and_apply(cluster: Playground, proxy: Proxy) -> None:
    """The session of the plan has ended: no other is begun for it, nothing is written, the reason is its own."""
    names = mixed(cluster)
    before = checker.look(cluster.connect)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        expire(cluster.connect, port._session.client.client_id)
        report = carried_out(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert by_result(report.outcomes) == {Result.NOT_SENT: sorted(names)}
    assert proxy.writes == 0
    assert checker.look(cluster.connect) == before


@pytest.mark.parametrize("done", range(1, 4))
def test_f05_between_transactions(
    cluster: Playground, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """What was done before is done, the one that was under way is in doubt, and after it nothing is sent at all."""
    monkeypatch.setattr(writing, "WINDOW", 1)
    names = mixed(cluster)
    with witnessed(cluster.connect, *names), opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(FIRST + done, lambda: expire(cluster.connect, port._session.client.client_id))
        report = carried_out(port, plan)
    found = by_result(report.outcomes)
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert {result: len(topics) for result, topics in found.items()} == {
        result: count
        for result, count in ((Result.DONE, done), (Result.UNKNOWN, 1), (Result.NOT_SENT, 3 - done))
        if count
    }
    assert proxy.writes == FIRST + done
    with opened(cluster.connect) as port:
        assert set(results(port, planned(port, *WISHES)).values()) <= {Result.DONE}
        assert not planned(port, *WISHES).pending


@pytest.mark.parametrize("write", [1, 20])
def test_f06_stopped_for_longer_than_its_session(
    cluster: Playground, proxy: Proxy, processes: Forks, tmp_path: Path, write: int
) -> None:
    """A real process sleeps until its session is over; another run does everything in the meantime. Woken up, it writes
    nothing and ends with its own reason.
    """
    plenty.furnish(cluster)
    folder = plenty.folder(tmp_path / "manifests", proxy.through(cluster.connect))
    started = list[forks.BaseProcess]()

    def oversleep() -> None:
        wait_until(lambda: started, "the process")
        os.kill(forks.pid(started[0]), signal.SIGSTOP)
        wait_until(lambda: not locks(cluster), "the end of its session")
        with opened(cluster.connect) as port:
            results(port, planned(port, *plenty.wishes()))
        cluster.settle()
        seen.update(checker.look(cluster.connect))
        os.kill(forks.pid(started[0]), signal.SIGCONT)

    seen: dict[str, Node] = {}
    before = checker.look(cluster.connect)
    proxy.hold(write + 1, oversleep)
    flags = ("--yes", "--adopt=*", "--allow-risk", "DataLoss")
    started.append(running := processes.start("apply", folder, *flags, said=tmp_path / "said"))
    assert forks.ended(running) == Exit.ERROR
    said = (tmp_path / "said").read_text()
    assert "the session with ZooKeeper at" in said
    assert "ended in the middle of the work" in said
    assert seen
    assert checker.look(cluster.connect) == seen
    assert list(plenty.harm(before, seen)) == []


def test_f05_the_next_run_converges(cluster: Playground, proxy: Proxy) -> None:
    """When the session cannot come back, what was under way is unknown, the rest not sent, and a re-run converges
    .
    """
    names = mixed(cluster)
    with witnessed(cluster.connect, *names):
        with opened(proxy.through(cluster.connect)) as port:
            plan = planned(port, *WISHES)
            proxy.cut(7, When.AFTER, refuse=True)
            with pytest.raises(TopiaristError) as raised:
                results(port, plan)
        assert raised.value.reason is Reason.SESSION_LOST
        proxy.reset()
        with opened(cluster.connect, lock_timeout=30) as port:
            assert set(results(port, planned(port, *WISHES)).values()) <= {Result.DONE}
            assert not planned(port, *WISHES).pending


def test_f05_every_topic_has_its_outcome(cluster: Playground, proxy: Proxy) -> None:
    """The outcomes before the end: done, unknown or not sent, one for each topic."""
    names = mixed(cluster)
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.cut(7, When.AFTER, refuse=True)
        report = carry_out(port, Hooks(), plan)
    seen = {outcome.topic: outcome.result for outcome in report.outcomes}
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert seen.keys() == set(names)
    assert Result.UNKNOWN in seen.values()
    assert set(seen.values()) <= {Result.DONE, Result.UNKNOWN, Result.NOT_SENT}


def test_f05_in_the_pipeline_doubt_is_left_only_where_there_is_some(cluster: Playground, proxy: Proxy) -> None:
    """Done is done, not sent is not there, and only what was under way is unknown; a re-run converges."""

    with witnessed(cluster.connect, *(spec.topic for spec in MANY)):
        with opened(proxy.through(cluster.connect)) as port:
            plan = planned(port, *MANY)
            proxy.hold(FIRST + 40, lambda: expire(cluster.connect, port._session.client.client_id))
            report = carried_out(port, plan)
        there = set(checker.topics(checker.look(cluster.connect)))
        found = by_result(report.outcomes)
        assert sum(map(len, found.values())) == len(MANY)
        assert report.error is not None
        assert report.error.reason is Reason.SESSION_LOST
        assert set(found.get(Result.DONE, ())) <= there <= {*found.get(Result.DONE, ()), *found[Result.UNKNOWN]}
        with opened(cluster.connect) as port:
            assert set(results(port, planned(port, *MANY)).values()) <= {Result.DONE}
            assert not planned(port, *MANY).pending


def test_f06_a_lock_that_goes_in_the_middle_leaves_no_doubt(
    cluster: Playground, proxy: Proxy, client: KazooClient
) -> None:
    """Once our lock's node has gone every transaction is refused: that is known, for those under way too."""

    def take_it_away() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        (name,) = client.get_children("/topiarist/lock")
        client.delete(f"/topiarist/lock/{name}")

    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        proxy.hold(FIRST + 40, take_it_away)
        report = carried_out(port, plan)
    found = by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.NOT_SENT: 110}
    assert sorted(checker.topics(checker.look(cluster.connect))) == found[Result.DONE]
    assert report.error is not None
    assert report.error.reason is Reason.SESSION_LOST
    assert report.exit is Exit.ERROR


def test_f06_without_the_lock_nothing_is_written(cluster: Playground, proxy: Proxy, client: KazooClient) -> None:
    """A holder whose node has gone (it was stopped for too long) is refused by its own check."""
    mixed(cluster)

    def take_the_lock_away() -> None:
        (path,) = locks(cluster)
        client.delete(path)

    before, found = checker.topics(checker.look(cluster.connect)), list[Outcome]()
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.hold(6, take_the_lock_away)
        with pytest.raises(TopiaristError) as raised:
            found.extend(port.apply(plan, lambda: False))
    assert raised.value.reason is Reason.SESSION_LOST
    assert by_result(found) == {Result.NOT_SENT: sorted(spec.topic for spec in WISHES)}
    assert checker.topics(checker.look(cluster.connect)) == before
