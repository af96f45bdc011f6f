"""The pool of processes: order, errors, and processes that die; and the choice of their number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.drift import drifted_fleet
from support.drift.runners import run_each
from support.drift.small_fleet import cluster_state, owned_topic, topic_document, write_manifests, write_snapshot
from support.waiting import wait_until
from topiarist.cli.main import run
from topiarist.desired.resolve import Desired
from topiarist.drift import pool
from topiarist.drift.engine import Cost, LocalEngine
from topiarist.drift.pool import run_in_processes
from topiarist.drift.report import run_here
from topiarist.drift.results import ClusterResult
from topiarist.drift.snapshots import LocalLines, SnapshotFile, SnapshotLines
from topiarist.drift.task import Part, Shipped
from topiarist.errors import Reason, TopiaristError
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec

NAMES = ("ap", "eu", "us")

SHIPPED = Shipped(
    Desired(dict.fromkeys(NAMES, ()), {name: ClusterSpec(name) for name in NAMES}),
    RunOptions(),
    "2025-01-31T12:00:00Z",
)

Work = Callable[..., Iterator[ClusterResult]]


@pytest.fixture
def fleet(tmp_path: Path) -> tuple[str, str]:
    """Return the manifests and the snapshots of three clusters with drift."""
    for number, name in enumerate(NAMES):
        topic = owned_topic("orders", {"retention.ms": str(number)})
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, topic))
    topic_of_all = topic_document("orders", NAMES, config={"retention.ms": 1})
    return str(write_manifests(tmp_path / "manifests", NAMES, topic_of_all)), str(tmp_path / "snapshots")


def make_parts(folder: Path, rows: Iterable[int] = (1, 1, 1)) -> list[Part]:
    """Return a part of each cluster, with these numbers of rows in snapshots that do not exist."""
    taken_at = datetime(2025, 1, 31, tzinfo=UTC)
    return [
        Part(name, SnapshotLines(SnapshotFile(taken_at, "", count), LocalLines(str(folder / f"{name}.jsonl"))))
        for name, count in zip(NAMES, rows, strict=True)
    ]


def replace_work(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> None:
    """Replace the comparison by a function that is called with the name of each cluster."""

    def work(parts: Iterable[Part], *_: Any) -> Iterator[ClusterResult]:
        for part in parts:
            act(part.cluster)
            yield ClusterResult(part.cluster)

    monkeypatch.setattr(pool, "work", work)


def test_a_report_is_the_same_in_a_pool(tmp_path: Path) -> None:
    """One process, two and three write the same bytes and messages for a fleet with drift of every kind."""
    sample = drifted_fleet.make_fleet(tmp_path, clusters=9, topics=50, per_kind=4)
    runners = {str(jobs): ("--jobs", str(jobs)) for jobs in (1, 2, 3)}
    reports = run_each(sample.manifests, sample.snapshots, tmp_path, runners)
    assert reports["1"] == reports["2"] == reports["3"]
    again = run_each(sample.manifests, sample.snapshots, tmp_path, runners, "--previous", tmp_path / "1")
    assert again["1"] == again["2"] == again["3"]
    assert b'"status":"Unchanged"' in again["1"].files["findings.jsonl"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".topiarist")]


def test_results_come_in_order_and_the_largest_part_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process takes the largest snapshot first; results come in the order of the parts."""
    log = tmp_path / "log"
    replace_work(monkeypatch, lambda name: log.open("a").write(f"{name} "))
    results = [*run_in_processes(make_parts(tmp_path, (2, 1, 3)), SHIPPED, 1, tmp_path)]
    assert [result.cluster for result in results] == ["ap", "eu", "us"]
    assert log.read_text() == "us ap eu "


@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_dead_process_is_named_by_its_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int) -> None:
    """A process that the system kills ends the run with an error that names its cluster, and all other processes."""
    pids = tmp_path / "pids"

    def act(name: str) -> None:
        with pids.open("a") as file:
            file.write(f"{os.getpid()} ")
        if name == "eu":
            os.kill(os.getpid(), signal.SIGKILL)

    replace_work(monkeypatch, act)
    with pytest.raises(TopiaristError, match="the process that compared eu was ended by SIGKILL") as raised:
        list(run_in_processes(make_parts(tmp_path), SHIPPED, jobs, tmp_path))
    assert raised.value.reason is Reason.INCOMPLETE
    assert "--jobs 1" in raised.value.hint
    assert not [pid for pid in pids.read_text().split() if Path("/proc", pid).exists()]


def test_a_dead_process_leaves_no_report(
    fleet: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command ends with exit code 1 and one error, and leaves no report and no other file."""
    replace_work(monkeypatch, lambda name: os.kill(os.getpid(), signal.SIGKILL))
    manifests, snapshots = fleet
    before = sorted(tmp_path.iterdir())
    out = str(tmp_path / "report")
    assert run(["drift", manifests, "--snapshots", snapshots, "--out", out, "--jobs", "2", "-q"]) == 1
    assert "error: the process that compared " in capfd.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


_ORPHANS = """
import sys, time
from pathlib import Path
from topiarist.drift import pool
from topiarist.cli.main import run

folder = Path(sys.argv[1])
whole = pool.work

def work(*given):
    for result in whole(*given):
        (folder / f"here-{result.cluster}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        yield result

pool.work = work
run(["drift", *sys.argv[2:]])
"""


@pytest.mark.timeout(600)
def test_processes_end_with_their_parent(fleet: tuple[str, str], tmp_path: Path) -> None:
    """If the command is killed, its processes end in silence when they have finished their part."""
    manifests, snapshots = fleet
    words = [str(tmp_path), manifests, "--snapshots", snapshots, "--out", str(tmp_path / "report"), "--jobs", "2", "-q"]
    command = subprocess.Popen([sys.executable, "-c", _ORPHANS, *words], stderr=subprocess.PIPE)
    wait_until(lambda: len([*tmp_path.glob("here-*")]) == 2, "two processes at work", timeout=60)
    tasks = Path(f"/proc/{command.pid}/task").iterdir()
    children = [pid for task in tasks for pid in (task / "children").read_text().split()]
    assert len(children) == 2
    command.kill()
    (tmp_path / "go").touch()
    assert command.communicate()[1] == b""  # the processes have the same stderr: it is closed when both have ended


def test_an_unexpected_error_names_its_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An exception of a process is raised with its cluster and its own traceback."""

    def act(name: str) -> None:
        if name == "eu":
            raise ValueError("a defect")

    replace_work(monkeypatch, act)
    with pytest.raises(RuntimeError, match=r"^eu: (.|\n)*ValueError: a defect"):
        list(run_in_processes(make_parts(tmp_path), SHIPPED, 2, tmp_path))


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_file_that_a_task_cannot_open_ends_the_run(tmp_path: Path, jobs: int) -> None:
    """A snapshot that was listed and cannot be opened is an error with its path in every runner, never a finding."""
    parts = make_parts(tmp_path)
    results = run_in_processes(parts, SHIPPED, jobs, tmp_path) if jobs else run_here(parts, SHIPPED)
    with pytest.raises(TopiaristError, match=rf"{tmp_path}/(ap|eu|us).jsonl: cannot be read: no such file") as raised:
        list(results)
    assert raised.value.reason is Reason.SNAPSHOT_UNUSABLE


@pytest.mark.parametrize(
    ("jobs", "cost", "chosen", "description"),
    [
        (None, Cost(500, 10_000, 0), 1, "this process: 10,000 topics, less than a second of work"),
        (None, Cost(500, 1_000_000, 0), 4, "4 processes: 1,000,000 topics, about 4 s of work, 4 cores"),
        (None, Cost(500, 1, 50_000), 4, "4 processes: 1 topic and 50,000 earlier findings, about 8 s of work, 4 cores"),
        (None, Cost(2, 9_000_000, 0), 2, "2 processes: 9,000,000 topics, about 36 s of work, 4 cores"),
        (None, Cost(500, 10_000, 0, is_live=True), 1, "this process: 10,000 topics, about 1 s of work"),
        (None, Cost(500, 100_000, 0, is_live=True), 4, "4 processes: 100,000 topics, about 10 s of work, 4 cores"),
        (3, Cost(500, 10, 0), 3, "3 processes: 10 topics, less than a second of work, --jobs 3"),
        (9, Cost(2, 10, 0), 2, "2 processes: 10 topics, less than a second of work, --jobs 9"),
        (1, Cost(500, 9_000_000, 0), 1, "this process: 9,000,000 topics, about 36 s of work, --jobs 1"),
        (None, Cost(0, 0, 0), 1, "this process: 0 topics, less than a second of work"),
    ],
)
def test_the_number_of_processes_is_chosen_by_cost(
    monkeypatch: pytest.MonkeyPatch, jobs: int | None, cost: Cost, chosen: int, description: str
) -> None:
    """Topics and earlier findings decide, at most one process for each core and cluster; ``--jobs`` overrides it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    engine = LocalEngine()
    engine.choose_jobs(jobs, cost)
    assert (engine.jobs, engine.description) == (chosen, description)


def test_what_compares_is_said_once(
    fleet: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first message names the runner and the reason, unless messages are off."""
    monkeypatch.setattr("topiarist.drift.engine.find_java", lambda purpose: "java")
    manifests, snapshots = fleet
    words = ["drift", manifests, "--snapshots", snapshots, "--out", str(tmp_path / "report")]
    assert run(words) == 0
    assert capfd.readouterr().err.startswith("comparing in this process: 3 topics, less than a second of work\n")
    assert run([*words, "-q"]) == 0
    assert capfd.readouterr().err == ""
    assert run([*words, "--jobs", "2", "--engine", "python"]) == 0
    assert capfd.readouterr().err.startswith("comparing in 2 processes: ")
    assert run([*words, "--jobs", "2", "--engine", "spark"]) == 2
    assert "--jobs is for processes of this machine" in capfd.readouterr().err
    assert run([*words, "--jobs", "0"]) == 2
