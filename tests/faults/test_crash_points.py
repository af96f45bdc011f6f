"""F1 to F3: every single write of a run that does something of every kind, broken before and after the server did it,
by a cut connection and by ``kill -9``; with brokers that do nothing, and with a controller that reacts at once.

How many points there are is counted by a clean run, and each of them is gone through.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from faults.conftest import Tally
from integration.scene import locks_of, opened
from support import checker, forks, plenty
from support.checker import Tree
from support.clients import connected
from support.forks import Forks
from support.proxy import Proxy, When
from support.waiting import wait_until
from support.wishes import planned, results
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground
from topiarist.reconcile import Result

pytestmark = pytest.mark.timeout(300)

RUN = ("--yes", "--adopt=*", "--allow-risk", "DataLoss", "--lock-timeout", "30")
WISHES = plenty.wishes()

_numbers = count(1)


class Stage(NamedTuple):
    """One furnished cluster: where it is, and how to wait until its controller has seen everything."""

    connect: str
    settle: Callable[[], None]


Stages = Callable[[], Stage]


@pytest.fixture(params=["still", "reacting"])
def stages(request: pytest.FixtureRequest, zookeeper: EmbeddedZooKeeper) -> Iterator[Stages]:
    """A new stage for each call. ``reacting``: with a controller that gives ids and states, and deletes."""
    with ExitStack() as stack:
        server: KazooClient = stack.enter_context(connected(zookeeper.connect))
        if request.param == "still":
            mould = plenty.Mould(zookeeper.connect, server)
            yield lambda: Stage(mould.cast(), lambda: None)
            return

        def living() -> Stage:
            connect = f"{zookeeper.connect}/living-{next(_numbers)}"
            cluster = stack.enter_context(Playground(connect, BROKERS))
            plenty.furnish(cluster)

            def settle() -> None:
                cluster.settle()
                assert cluster.faults == []

            return Stage(connect, settle)

        yield living


@contextmanager
def bare(zookeeper: EmbeddedZooKeeper) -> Iterator[Stage]:
    """A cluster without anything of ours: the first run makes its own nodes too."""
    with Playground(f"{zookeeper.connect}/bare-{next(_numbers)}", BROKERS) as cluster:
        plenty.furnish(cluster)
        cluster.client.delete("/topiarist", recursive=True)
        yield Stage(cluster.connect, cluster.settle)


def broken_at(proxy: Proxy, stage: Stage, when: When, before: Tree) -> Callable[[], None]:
    """Look at the very moment: nothing of the write that was struck is there, or all of it."""

    def look() -> None:
        stage.settle()  # a controller that reacts has written over the topic by now
        topic, now = plenty.struck(proxy), checker.look(stage.connect)
        if topic is None:
            return
        was, record = plenty.nodes_of(before, topic), f"/topiarist/topics/{topic}"
        if when is When.BEFORE:
            assert plenty.nodes_of(now, topic) == was
        else:
            assert now[record] != was[record]

    return look


def converges(proxy: Proxy, stage: Stage, before: Tree) -> None:
    """A second run does what is left, a third has nothing to send; nothing is lost, and all is told once."""
    proxy.reset()
    with opened(proxy.through(stage.connect), lock_timeout=30) as port:
        assert set(results(port, planned(port, *WISHES)).values()) <= {Result.DONE}
        stage.settle()
        writes = proxy.writes
        plan = planned(port, *WISHES)
        assert (plan.pending, results(port, plan)) == (False, {})
        assert proxy.writes == writes
    assert list(plenty.harm(before, checker.look(stage.connect))) == []
    # The lock of a run that was killed after its last write goes with its session.
    wait_until(lambda: not locks_of(stage.connect), "the end of the lock")


def writes_of_a_clean_run(proxy: Proxy, stage: Stage) -> int:
    """How many writes a run takes in which nothing breaks."""
    proxy.reset()
    before = checker.look(stage.connect)
    with opened(proxy.through(stage.connect)) as port:
        assert results(port, planned(port, *WISHES)) == dict.fromkeys(plenty.NAMES, Result.DONE)
    assert proxy.requests["multi"] == len(plenty.NAMES)
    total = proxy.writes
    stage.settle()
    converges(proxy, stage, before)
    return total


def cut(proxy: Proxy, stage: Stage, write: int, when: When) -> None:
    """A run whose connection is cut there: it finds out what became of its writes, and does the rest."""
    before = checker.look(stage.connect)
    proxy.reset()
    with opened(proxy.through(stage.connect)) as port:
        plan = planned(port, *WISHES)
        proxy.cut(write, when, then=broken_at(proxy, stage, when, before))
        assert results(port, plan) == dict.fromkeys(plenty.NAMES, Result.DONE)
        assert proxy.fired.is_set()
        stage.settle()
        assert not planned(port, *WISHES).pending  # what it says it has done is there
    converges(proxy, stage, before)


def go_through(proxy: Proxy, stages: Stages, when: When, tally: Tally) -> None:
    """Cut every write in turn."""
    total = writes_of_a_clean_run(proxy, stages())
    for write in range(1, total + 1):
        cut(proxy, stages(), write, when)
    assert total == len(plenty.NAMES) + 2  # the lock, one transaction a topic, the lock again
    tally.cases(total)


def test_f01_cut_before_every_write(proxy: Proxy, stages: Stages, tally: Tally) -> None:
    """Nothing of the write that was cut is there; the run sends it again over the same session and ends as if nothing
    had been.
    """
    go_through(proxy, stages, When.BEFORE, tally)


def test_f02_cut_after_every_write(proxy: Proxy, stages: Stages, tally: Tally) -> None:
    """The write was done and its answer is lost: our record says so, and nothing is done or announced twice."""
    go_through(proxy, stages, When.AFTER, tally)


def first_run(zookeeper: EmbeddedZooKeeper, proxy: Proxy, when: When, tally: Tally) -> None:
    """Cut every write before the first transaction: our root, records, lock, gate, and the place in the queue."""
    for write in range(1, 6):
        with bare(zookeeper) as stage:
            before = checker.look(stage.connect)
            proxy.reset()
            with opened(proxy.through(stage.connect)) as port:
                plan = planned(port, *(spec for spec in WISHES if spec.topic not in plenty.DELETED))
                proxy.cut(write, when)
                assert set(results(port, plan).values()) == {Result.DONE}
                assert not planned(port, *(spec for spec in WISHES if spec.topic not in plenty.DELETED)).pending
                assert b"/topiarist" in proxy.struck
                assert not plenty.struck(proxy)
            names = tuple(name for name in plenty.NAMES if name not in plenty.DELETED)
            assert checker.problems(before, checker.look(stage.connect), names) == []
            assert locks_of(stage.connect) == []
    tally.cases(5)


def test_f01_cut_before_our_own_nodes(zookeeper: EmbeddedZooKeeper, proxy: Proxy, tally: Tally) -> None:
    """On a cluster that we have never written to: our own nodes are made, and one place in the queue."""
    first_run(zookeeper, proxy, When.BEFORE, tally)


def test_f02_cut_after_our_own_nodes(zookeeper: EmbeddedZooKeeper, proxy: Proxy, tally: Tally) -> None:
    """The same with answers that are lost: they are found again, also the place in the queue."""
    first_run(zookeeper, proxy, When.AFTER, tally)


def kill(running: Queue[BaseProcess], look: Callable[[], None]) -> None:
    """Kill the run whose write was struck, and look at what it has left."""
    forks.kill(running.get(timeout=30))
    look()


class Assassin(NamedTuple):
    """Starts whole runs of the command line through the proxy, to kill them."""

    proxy: Proxy
    processes: Forks
    folder: Path

    def start(self, stage: Stage) -> BaseProcess:
        """Begin a run."""
        place = plenty.folder(self.folder / "manifests", self.proxy.through(stage.connect))
        return self.processes.start("apply", place, *RUN, said=self.said)

    def strike(self, stage: Stage, write: int, when: When) -> Tree:
        """Kill a run at that write; the cluster as it was before."""
        before, running = checker.look(stage.connect), Queue[BaseProcess]()
        self.proxy.reset()
        self.proxy.cut(write, when, then=partial(kill, running, broken_at(self.proxy, stage, when, before)))
        running.put(doomed := self.start(stage))
        assert forks.ended(doomed) == -signal.SIGKILL, self.said.read_text()
        assert self.proxy.fired.wait(30)
        return before

    @property
    def said(self) -> Path:
        """What a run has said."""
        return self.folder / "said"


@pytest.fixture
def assassin(proxy: Proxy, processes: Forks, tmp_path: Path) -> Assassin:
    """For one test."""
    return Assassin(proxy, processes, tmp_path)


@pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
def test_f03_killed_at_every_write(stages: Stages, when: When, assassin: Assassin, tally: Tally) -> None:
    """A whole run of the command line is killed there; the lock is free when its session ends, and the next run does
    the rest.
    """
    assassin.proxy.reset()
    assert forks.ended(assassin.start(stages())) == 0, assassin.said.read_text()
    total, killed = assassin.proxy.writes, []
    for write in range(1, total + 1):
        stage = stages()
        killed.append((stage, assassin.strike(stage, write, when)))
    # Only now, when the sessions of most have ended by themselves, and with them the locks.
    for stage, before in killed:
        converges(assassin.proxy, stage, before)
    assert total == len(plenty.NAMES) + 2
    tally.cases(total)


def test_f03_killed_at_our_own_nodes(zookeeper: EmbeddedZooKeeper, assassin: Assassin, tally: Tally) -> None:
    """On a cluster that we have never written to, before and after each of our own nodes: the next run makes those that
    are missing, and does all there is to do.
    """
    points = [(write, when) for write in range(1, 6) for when in When]
    wishes = [spec for spec in WISHES if spec.topic not in plenty.DELETED]
    with ExitStack() as stack:
        stages = [stack.enter_context(bare(zookeeper)) for _ in points]
        killed = [assassin.strike(stage, *point) for stage, point in zip(stages, points, strict=True)]
        for stage, before in zip(stages, killed, strict=True):
            with opened(stage.connect, lock_timeout=30) as port:
                assert set(results(port, planned(port, *wishes)).values()) == {Result.DONE}
                assert not planned(port, *wishes).pending
            assert checker.problems(before, checker.look(stage.connect), [spec.topic for spec in wishes]) == []
    tally.cases(len(points))
