"""M2 and M3: every write and every request of a run that moves replicas, disturbed.

The plan drains a broker, lowers one topic and raises another, in three batches. An undisturbed run counts the points,
and each of them is tested.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Queue

import pytest

from faults.conftest import FaultStatistics
from integration.write_fixtures import InterceptingProxy, lock_nodes_at
from support.cli import forked_runs
from support.cli.forked_runs import ForkedRuns
from support.cli.runs import document
from support.waiting import wait_until
from support.zookeeper import moves as scene
from support.zookeeper.moves import MovingCluster, moving_cluster
from support.zookeeper.opcodes import WRITES
from support.zookeeper.proxy import Connection, CutTiming, Proxy
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.model.outcome import ReconcileReport, Result
from topiarist.model.plan import Plan

pytestmark = pytest.mark.timeout(900)  # a run for each request of a run: 5 minutes were measured on a slow machine

TOPICS = (
    Topic("drained", ((6, 1), (2, 6)), {"retention.ms": "7"}),
    Topic("lowered", ((1, 2, 3), (2, 3, 4)), {}),
    Topic("raised", ((1, 2), (2, 3)), {}),
)
FACTORS = {"drained": 2, "lowered": 2, "raised": 3}
SPECS = tuple(scene.topic(name, partitions=2, replicationFactor=factor) for name, factor in FACTORS.items())
BATCHES = 3

RUNS_AT_ONCE = 20
"""Killed runs that are waited for together: their sessions, and with them their locks, end at the same time."""


class RequestProxy(InterceptingProxy):
    """A proxy that can cut the connection at each request, reads included; ``counted`` is their number so far.

    Requests of the session itself (connect, ping, close) are not counted. ``first_write`` is the number of the first
    one that writes.
    """

    counted = first_write = 0
    _at: tuple[int, CutTiming] | None = None

    def cut_request(self, number: int, timing: CutTiming, action: Callable[[], None] | None = None) -> None:
        """Cut the connection at request ``number``, counted from 1; ``action`` runs at that moment."""
        self.reset()
        self.counted, self.first_write, self._at = 0, 0, (number, timing)
        self.cut(0, timing, action=action)

    def _request(self, connection: Connection, body: bytes, first: bool) -> bool:
        going_on = super()._request(connection, body, first)
        xid = int.from_bytes(body[:4], "big", signed=True)
        if first or xid <= 0 or connection.request_names.get(xid) == "close":
            return going_on
        self.counted += 1
        if not self.first_write and connection.request_names.get(xid) in WRITES:
            self.first_write = self.counted
        if self._at and self._at[0] == self.counted and self._cut:
            if self._at[1] is CutTiming.BEFORE:
                self._trigger(self._cut)
                return False
            connection.cut_at = xid
        return going_on


@pytest.fixture
def requests(zookeeper: EmbeddedZooKeeper) -> Iterator[RequestProxy]:
    """Return a proxy that can cut at every request."""
    with RequestProxy(zookeeper.connect) as between:
        yield between


def apply_through(kafka: MovingCluster, proxy: Proxy, plan: Plan) -> ReconcileReport:
    """Apply a plan through the proxy."""
    return kafka.apply(plan, connect=proxy.through(kafka.kafka.connect))


def cut_points(zookeeper: EmbeddedZooKeeper, proxy: RequestProxy) -> tuple[int, int]:
    """Return the number of requests and of writes of an undisturbed run."""
    with moving_cluster(zookeeper.connect, *TOPICS) as kafka:
        plan = kafka.plan(*SPECS)
        proxy.reset()
        proxy.counted = 0
        report = apply_through(kafka, proxy, plan)
        assert {outcome.result for outcome in report.outcomes} == {Result.DONE}
        assert kafka.problems(plan) == []
        # One transaction for each adopted topic, for each batch, and for the end.
        assert proxy.requests["multi"] == len(TOPICS) + BATCHES + 1
        return proxy.counted, proxy.writes


def cut(kafka: MovingCluster, proxy: Proxy, plan: Plan) -> None:
    """Apply a plan through a proxy that cuts the connection: the run ends normally all the same."""
    report = apply_through(kafka, proxy, plan)
    assert report.error is None
    assert {outcome.result for outcome in report.outcomes} == {Result.DONE}, report.outcomes
    assert kafka.problems(plan) == []


@pytest.mark.parametrize("timing", list(CutTiming), ids=lambda timing: timing.value)
def test_m02_cut_at_every_write(
    zookeeper: EmbeddedZooKeeper, requests: RequestProxy, timing: CutTiming, tally: FaultStatistics
) -> None:
    """The connection is lost before or after each write, and the record of the batch decides: no second request, each
    replica copied once, no throttle left.
    """
    _, writes = cut_points(zookeeper, requests)
    for number in range(1, writes + 1):
        with moving_cluster(zookeeper.connect, *TOPICS) as kafka:
            plan = kafka.plan(*SPECS)
            requests.reset()
            requests.cut(number, timing)
            cut(kafka, requests, plan)
            assert requests.triggered.is_set()
    tally.set_cases(writes)


@pytest.mark.night(area="moves")
def test_m03_cut_at_every_request(zookeeper: EmbeddedZooKeeper, requests: RequestProxy, tally: FaultStatistics) -> None:
    """The connection is lost before each request, reads included: the run ends with the same lists."""
    total = 0
    for number in count(1):
        with moving_cluster(zookeeper.connect, *TOPICS) as kafka:
            plan = kafka.plan(*SPECS)
            requests.cut_request(number, CutTiming.BEFORE)
            cut(kafka, requests, plan)
            if not requests.triggered.is_set():
                break
            total = number
    assert total > 50
    tally.set_cases(total)


class Assassin:
    """Starts whole runs of the command line through the proxy, and kills each at one request."""

    def __init__(self, proxy: RequestProxy, processes: ForkedRuns, folder: Path) -> None:
        self.proxy = proxy
        self._processes = processes
        self._folder = folder

    def run(self, kafka: MovingCluster, number: int) -> bool:
        """Kill a run at request ``number``; return False if it had ended before."""
        running = Queue[BaseProcess]()
        self.proxy.cut_request(number, CutTiming.BEFORE, lambda: forked_runs.kill(running.get(timeout=300)))
        said = self._folder / "said"
        place = self._write_manifests(self.proxy.through(kafka.kafka.connect))
        running.put(process := self._processes.start("apply", place, "--yes", "--adopt=*", output_file=said))
        code = forked_runs.wait_for_exit_code(process)
        assert code in (0, -signal.SIGKILL), said.read_text()
        return code != 0

    def _write_manifests(self, connect: str) -> Path:
        moves = {"allow": ["Drain", "Factor"], "throttle": "1MiB", "batch": {"partitions": 2}}
        place = self._folder / "manifests"
        place.mkdir(exist_ok=True)
        fields = {"zookeeper": {"connect": connect}, "kafkaVersion": "3.9", "drainBrokers": [6], "moves": moves}
        texts = [document("Cluster", "prod", **fields)]
        texts += [document("Topic", name, partitions=2, replicationFactor=factor) for name, factor in FACTORS.items()]
        (place / "all.yaml").write_text("\n---\n".join(texts))
        return place


@pytest.mark.night(area="moves")
def test_m03_killed_at_every_request(
    zookeeper: EmbeddedZooKeeper,
    requests: RequestProxy,
    processes: ForkedRuns,
    tmp_path: Path,
    tally: FaultStatistics,
) -> None:
    """A whole run of the command line is killed before its first write and before each request after it, in turn.

    The next run ends with the lists of the first plan; each replica is copied once, no throttle and no record is left.
    """
    assassin, total = Assassin(requests, processes, tmp_path), 0
    with moving_cluster(zookeeper.connect, *TOPICS) as kafka:
        assert not assassin.run(kafka, 10_000)
    for first in count(requests.first_write, RUNS_AT_ONCE):
        with ExitStack() as stack:
            killed = []
            for number in range(first, first + RUNS_AT_ONCE):
                kafka = stack.enter_context(moving_cluster(zookeeper.connect, *TOPICS))
                plan = kafka.plan(*SPECS)
                if not assassin.run(kafka, number):
                    assert kafka.problems(plan) == []
                    break
                killed.append((kafka, plan))
            for kafka, plan in killed:
                resume(kafka, plan)
            total += len(killed)
            if len(killed) < RUNS_AT_ONCE:
                break
    assert total > 50
    tally.set_cases(total)


def resume(kafka: MovingCluster, plan: Plan) -> None:
    """Check that the next run, planned anew from the same manifests, ends as the first one was to end."""
    report = kafka.apply(kafka.plan(*SPECS))
    assert report.error is None
    assert {outcome.result for outcome in report.outcomes} <= {Result.DONE, Result.UNCHANGED}, report.outcomes
    wait_until(partial(_has_no_lock, kafka), "the end of the killed run's lock")
    assert kafka.problems(plan) == []
    again = kafka.plan(*SPECS)
    assert not again.has_changes


def _has_no_lock(kafka: MovingCluster) -> bool:
    return not lock_nodes_at(kafka.kafka.connect)
