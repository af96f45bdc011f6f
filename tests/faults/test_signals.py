"""F30: SIGINT and SIGTERM at every write, and a second signal."""

from __future__ import annotations

import os
import re
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event

import pytest

from faults.conftest import FaultStatistics
from integration.write_fixtures import FIRST_TOPIC_WRITE, MANY_SPECS, connect_cluster, lock_nodes_at, topics_by_result
from support.builders import apply_results, plan_specs
from support.cli import forked_runs
from support.cli.forked_runs import ForkedRuns
from support.waiting import wait_until
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.model.outcome import Result

pytestmark = pytest.mark.timeout(600)

RUN = ("--yes", "--adopt=*", "--allow-risk", "DataLoss", "--lock-timeout", "30")
WRITES = len(busy_cluster.NAMES) + 2
"""The lock, a transaction for each topic, the lock again."""

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def converges(connect: str, before: write_checker.Tree) -> None:
    """Check that the next run does the rest, and another one nothing."""
    with connect_cluster(connect, lock_timeout=30) as port:
        assert set(apply_results(port, plan_specs(port, *busy_cluster.desired_specs())).values()) <= {Result.DONE}
        assert not plan_specs(port, *busy_cluster.desired_specs()).has_changes
    assert list(busy_cluster.find_damage(before, write_checker.read_nodes(connect))) == []


def send(running: list[BaseProcess], number: signal.Signals, said: Path) -> None:
    """Send the signal to the run, and wait until the run has received it."""
    wait_until(lambda: running, "the process")
    os.kill(forked_runs.pid(running[0]), number)
    wait_until(lambda: "nothing more is sent" in said.read_text(), "word of the signal")


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_f30_at_every_write(  # noqa: PLR0913
    mould: ClusterTemplate,
    proxy: Proxy,
    processes: ForkedRuns,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    tally: FaultStatistics,
) -> None:
    """A whole run gets the signal just before each of its writes: the lock is released, the summary has every topic,
    the exit code is that of the signal, and the next run does the rest.
    """
    for write in range(1, WRITES + 1):
        connect = mould.create_copy()
        before = write_checker.read_nodes(connect)
        running = list[BaseProcess]()

        proxy.reset()
        proxy.hold(write, lambda running=running: send(running, number, tmp_path / "said"))  # type: ignore[misc]
        folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", proxy.through(connect))
        running.append(processes.start("apply", folder, *RUN, output_file=tmp_path / "said"))
        assert forked_runs.wait_for_exit_code(running[0]) == code
        said = (tmp_path / "said").read_text()
        counts = re.search(r"Applied: (?:(\d+) done)?(?:, )?(?:(\d+) skipped)?", said)
        assert counts, said
        assert sum(int(count or 0) for count in counts.groups()) == len(busy_cluster.NAMES)
        assert lock_nodes_at(connect) == []
        converges(connect, before)
    tally.set_cases(WRITES)


def test_f30_nothing_more_is_sent_after_the_signal(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """During many topics that were read together: transactions in flight finish, the others are not begun."""
    stopped = Event()
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 10, stopped.set)
        found = topics_by_result(list(port.apply(plan, stopped.is_set)))
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == found[Result.DONE]
    assert len(found[Result.DONE]) == proxy.requests["multi"]
    assert len(found[Result.DONE]) + len(found[Result.SKIPPED]) == len(MANY_SPECS)


def test_f30_a_second_signal_ends_at_once(
    mould: ClusterTemplate, proxy: Proxy, processes: ForkedRuns, tmp_path: Path
) -> None:
    """A second signal while the first is being handled, with an unanswered write: the process ends at once, and the
    next run does the rest when the session has expired.
    """
    ended = []
    for write, (number, code) in zip((1, 2, 11, WRITES), SIGNALS * 2, strict=True):
        connect = mould.create_copy()
        before, running = write_checker.read_nodes(connect), list[BaseProcess]()

        def twice(running: list[BaseProcess] = running, number: signal.Signals = number) -> None:
            send(running, number, tmp_path / "said")
            os.kill(forked_runs.pid(running[0]), number)
            forked_runs.wait_for_exit(running[0])

        proxy.reset()
        proxy.hold(write, twice)
        folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", proxy.through(connect))
        running.append(processes.start("apply", folder, *RUN, output_file=tmp_path / "said"))
        assert forked_runs.wait_for_exit_code(running[0]) == code
        assert "Applied" not in (tmp_path / "said").read_text()
        assert proxy.triggered.wait(30)
        ended.append((connect, before))
    for connect, before in ended:
        converges(connect, before)
