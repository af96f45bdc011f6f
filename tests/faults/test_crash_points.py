"""F1 to F3: every single write of a run with every kind of change, disturbed before and after the server makes it, by a
cut connection and by ``kill -9``; without reactions of brokers, and with a controller that reacts at once.

An undisturbed run counts the points, and each of them is tested.
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
from faults.conftest import FaultStatistics
from integration.write_fixtures import connect_cluster, lock_nodes_at
from support.builders import apply_results, plan_specs
from support.cli import forked_runs
from support.cli.forked_runs import ForkedRuns
from support.waiting import wait_until
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from support.zookeeper.write_checker import Tree
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.model.outcome import Result

pytestmark = pytest.mark.timeout(900)

RUN = ("--yes", "--adopt=*", "--allow-risk", "DataLoss", "--lock-timeout", "30")
WISHES = busy_cluster.desired_specs()

_numbers = count(1)


class Stage(NamedTuple):
    """A prepared cluster: its address, and a wait for its controller."""

    connect: str
    settle: Callable[[], None]


Stages = Callable[[], Stage]


@pytest.fixture(params=["still", "reacting"])
def stages(request: pytest.FixtureRequest, zookeeper: EmbeddedZooKeeper) -> Iterator[Stages]:
    """Return a new cluster for each call. ``reacting``: with a controller that writes ids and states, and deletes."""
    with ExitStack() as stack:
        server: KazooClient = stack.enter_context(connect_client(zookeeper.connect))
        if request.param == "still":
            mould = busy_cluster.ClusterTemplate(zookeeper.connect, server)
            yield lambda: Stage(mould.create_copy(), lambda: None)
            return

        def living() -> Stage:
            connect = f"{zookeeper.connect}/living-{next(_numbers)}"
            cluster = stack.enter_context(SimulatedKafka(connect, BROKERS))
            busy_cluster.create_initial_state(cluster)

            def settle() -> None:
                cluster.wait_idle()
                assert cluster.controller_errors == []

            return Stage(connect, settle)

        yield living


@contextmanager
def bare(zookeeper: EmbeddedZooKeeper) -> Iterator[Stage]:
    """Prepare a cluster without znodes of topiarist: the first run creates them too."""
    with SimulatedKafka(f"{zookeeper.connect}/bare-{next(_numbers)}", BROKERS) as cluster:
        busy_cluster.create_initial_state(cluster)
        cluster.client.delete("/topiarist", recursive=True)
        yield Stage(cluster.connect, cluster.wait_idle)


def broken_at(proxy: Proxy, stage: Stage, when: CutTiming, before: Tree) -> Callable[[], None]:
    """Check at the moment of the fault: the write was made completely or not at all."""

    def look() -> None:
        stage.settle()  # a controller that reacts has written over the topic by now
        topic, now = busy_cluster.faulted_topic(proxy), write_checker.read_nodes(stage.connect)
        if topic is None:
            return
        was, record = busy_cluster.topic_nodes(before, topic), f"/topiarist/topics/{topic}"
        if when is CutTiming.BEFORE:
            assert busy_cluster.topic_nodes(now, topic) == was
        else:
            assert now[record] != was[record]

    return look


def converges(proxy: Proxy, stage: Stage, before: Tree) -> None:
    """Check that a second run does the rest, a third sends nothing, nothing is lost, and each change is announced
    once.
    """
    proxy.reset()
    with connect_cluster(proxy.through(stage.connect), lock_timeout=30) as port:
        assert set(apply_results(port, plan_specs(port, *WISHES)).values()) <= {Result.DONE}
        stage.settle()
        writes = proxy.writes
        plan = plan_specs(port, *WISHES)
        assert (plan.has_changes, apply_results(port, plan)) == (False, {})
        assert proxy.writes == writes
    assert list(busy_cluster.find_damage(before, write_checker.read_nodes(stage.connect))) == []
    # The lock of a run that was killed after its last write goes with its session.
    wait_until(lambda: not lock_nodes_at(stage.connect), "the end of the lock")


def writes_of_a_clean_run(proxy: Proxy, stage: Stage) -> int:
    """Return the number of writes of an undisturbed run."""
    proxy.reset()
    before = write_checker.read_nodes(stage.connect)
    with connect_cluster(proxy.through(stage.connect)) as port:
        assert apply_results(port, plan_specs(port, *WISHES)) == dict.fromkeys(busy_cluster.NAMES, Result.DONE)
    assert proxy.requests["multi"] == len(busy_cluster.NAMES)
    total = proxy.writes
    stage.settle()
    converges(proxy, stage, before)
    return total


def cut(proxy: Proxy, stage: Stage, write: int, when: CutTiming) -> None:
    """Cut the connection of a run at that write: it resolves its outcomes and does the rest."""
    before = write_checker.read_nodes(stage.connect)
    proxy.reset()
    with connect_cluster(proxy.through(stage.connect)) as port:
        plan = plan_specs(port, *WISHES)
        proxy.cut(write, when, action=broken_at(proxy, stage, when, before))
        assert apply_results(port, plan) == dict.fromkeys(busy_cluster.NAMES, Result.DONE)
        assert proxy.triggered.is_set()
        stage.settle()
        assert not plan_specs(port, *WISHES).has_changes  # what it says it has done is there
    converges(proxy, stage, before)


def go_through(proxy: Proxy, stages: Stages, when: CutTiming, tally: FaultStatistics) -> None:
    """Cut every write in turn."""
    total = writes_of_a_clean_run(proxy, stages())
    for write in range(1, total + 1):
        cut(proxy, stages(), write, when)
    assert total == len(busy_cluster.NAMES) + 2  # the lock, one transaction a topic, the lock again
    tally.set_cases(total)


def test_f01_cut_before_every_write(proxy: Proxy, stages: Stages, tally: FaultStatistics) -> None:
    """The write that was cut has no effect; the run sends it again over the same session and ends normally."""
    go_through(proxy, stages, CutTiming.BEFORE, tally)


def test_f02_cut_after_every_write(proxy: Proxy, stages: Stages, tally: FaultStatistics) -> None:
    """The write was made and its answer is lost: the ownership record shows it, and nothing is done or announced
    twice.
    """
    go_through(proxy, stages, CutTiming.AFTER, tally)


def first_run(zookeeper: EmbeddedZooKeeper, proxy: Proxy, when: CutTiming, tally: FaultStatistics) -> None:
    """Cut every write before the first transaction: root, records, lock, freeze, and the place in the lock's queue."""
    for write in range(1, 6):
        with bare(zookeeper) as stage:
            before = write_checker.read_nodes(stage.connect)
            proxy.reset()
            with connect_cluster(proxy.through(stage.connect)) as port:
                plan = plan_specs(port, *(spec for spec in WISHES if spec.topic not in busy_cluster.DELETED_NAMES))
                proxy.cut(write, when)
                assert set(apply_results(port, plan).values()) == {Result.DONE}
                assert not plan_specs(
                    port, *(spec for spec in WISHES if spec.topic not in busy_cluster.DELETED_NAMES)
                ).has_changes
                assert b"/topiarist" in proxy.faulted_write
                assert not busy_cluster.faulted_topic(proxy)
            names = tuple(name for name in busy_cluster.NAMES if name not in busy_cluster.DELETED_NAMES)
            assert write_checker.find_problems(before, write_checker.read_nodes(stage.connect), names) == []
            assert lock_nodes_at(stage.connect) == []
    tally.set_cases(5)


def test_f01_cut_before_our_own_nodes(zookeeper: EmbeddedZooKeeper, proxy: Proxy, tally: FaultStatistics) -> None:
    """On a cluster without znodes of topiarist: they are created, with one place in the lock's queue."""
    first_run(zookeeper, proxy, CutTiming.BEFORE, tally)


def test_f02_cut_after_our_own_nodes(zookeeper: EmbeddedZooKeeper, proxy: Proxy, tally: FaultStatistics) -> None:
    """The same with lost answers: the znodes are found again, also the place in the lock's queue."""
    first_run(zookeeper, proxy, CutTiming.AFTER, tally)


def kill(running: Queue[BaseProcess], look: Callable[[], None]) -> None:
    """Kill the run at that write, and check what it leaves."""
    forked_runs.kill(running.get(timeout=300))
    look()


class Assassin(NamedTuple):
    """Starts whole runs of the command line through the proxy, and kills them."""

    proxy: Proxy
    processes: ForkedRuns
    folder: Path

    def start(self, stage: Stage) -> BaseProcess:
        """Begin a run."""
        place = busy_cluster.write_manifest_folder(self.folder / "manifests", self.proxy.through(stage.connect))
        return self.processes.start("apply", place, *RUN, output_file=self.said)

    def strike(self, stage: Stage, write: int, when: CutTiming) -> Tree:
        """Kill a run at that write; return the cluster before."""
        before, running = write_checker.read_nodes(stage.connect), Queue[BaseProcess]()
        self.proxy.reset()
        self.proxy.cut(write, when, action=partial(kill, running, broken_at(self.proxy, stage, when, before)))
        running.put(doomed := self.start(stage))
        assert forked_runs.wait_for_exit_code(doomed) == -signal.SIGKILL, self.said.read_text()
        assert self.proxy.triggered.wait(30)
        return before

    @property
    def said(self) -> Path:
        """Return the output of a run."""
        return self.folder / "said"


@pytest.fixture
def assassin(proxy: Proxy, processes: ForkedRuns, tmp_path: Path) -> Assassin:
    """Return one for a test."""
    return Assassin(proxy, processes, tmp_path)


@pytest.mark.parametrize("when", list(CutTiming), ids=lambda when: when.value)
def test_f03_killed_at_every_write(stages: Stages, when: CutTiming, assassin: Assassin, tally: FaultStatistics) -> None:
    """A whole run of the command line is killed at that write; the lock ends with its session, and the next run does
    the rest.
    """
    assassin.proxy.reset()
    assert forked_runs.wait_for_exit_code(assassin.start(stages())) == 0, assassin.said.read_text()
    total, killed = assassin.proxy.writes, []
    for write in range(1, total + 1):
        stage = stages()
        killed.append((stage, assassin.strike(stage, write, when)))
    # Only now, when the sessions of most have ended by themselves, and with them the locks.
    for stage, before in killed:
        converges(assassin.proxy, stage, before)
    assert total == len(busy_cluster.NAMES) + 2
    tally.set_cases(total)


def test_f03_killed_at_our_own_nodes(zookeeper: EmbeddedZooKeeper, assassin: Assassin, tally: FaultStatistics) -> None:
    """On a cluster without znodes of topiarist, before and after each of them: the next run creates the missing ones
    and does everything.
    """
    points = [(write, when) for write in range(1, 6) for when in CutTiming]
    wishes = [spec for spec in WISHES if spec.topic not in busy_cluster.DELETED_NAMES]
    with ExitStack() as stack:
        stages = [stack.enter_context(bare(zookeeper)) for _ in points]
        killed = [assassin.strike(stage, *point) for stage, point in zip(stages, points, strict=True)]
        for stage, before in zip(stages, killed, strict=True):
            with connect_cluster(stage.connect, lock_timeout=30) as port:
                assert set(apply_results(port, plan_specs(port, *wishes)).values()) == {Result.DONE}
                assert not plan_specs(port, *wishes).has_changes
            assert (
                write_checker.find_problems(
                    before, write_checker.read_nodes(stage.connect), [spec.topic for spec in wishes]
                )
                == []
            )
    tally.set_cases(len(points))
