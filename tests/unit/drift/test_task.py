"""The comparison as a task: live clusters that are read ahead, results by cluster, and forked processes."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from support import builders
from support.drift import drifted_fleet
from support.drift.runners import run_each
from support.drift.small_fleet import cluster_state, owned_topic, topic_document, write_manifests, write_snapshot
from support.memory_cluster import MemoryCluster
from support.waiting import wait_until
from topiarist.adapters.snapshots.codec import parse_time
from topiarist.cli.main import run
from topiarist.desired.resolve import Desired
from topiarist.drift import task
from topiarist.drift import task as module
from topiarist.drift.compare import ClusterResult
from topiarist.drift.findings import DriftClass, DriftFinding, FindingKey, FindingRow, finding_key
from topiarist.drift.history import ACCEPTED_FILE, FINDINGS_FILE, NOT_EVALUATED_FILE, RESOLVED_FILE, Repair
from topiarist.drift.report import Cost, LocalEngine, run_here
from topiarist.drift.rows import make_row
from topiarist.drift.snapshots import ClusterInput, SnapshotFile, SnapshotLines, StoredLines
from topiarist.drift.task import (
    Caches,
    ConnectOptions,
    LiveCluster,
    Part,
    Shipped,
    Source,
    encode_line,
    read_live_cluster,
    run_in_processes,
    work,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec

AS_OF, EARLIER = "2026-01-31T12:00:00Z", "2026-01-30T12:00:00Z"
NAMES = ("a", "b", "c", "d", "e")
SHIPPED = Shipped(
    Desired(dict.fromkeys(NAMES, ()), {name: ClusterSpec(name) for name in NAMES}), RunOptions(owner="me"), AS_OF
)
LIVE = LiveCluster(ConnectOptions("me", 2.5))


@pytest.mark.parametrize("parallel", [1, 2, 9])
def test_live_clusters_are_read_ahead_and_their_results_are_in_order(
    monkeypatch: pytest.MonkeyPatch, parallel: int
) -> None:
    """At most ``parallel`` clusters are in memory, and an input that is already read waits for those before it."""
    asked = list[tuple[str, ConnectOptions, datetime]]()

    def read(spec: ClusterSpec, options: ConnectOptions, taken_at: datetime) -> tuple[ClusterInput, str]:
        asked.append((spec.name, options, taken_at))
        if spec.name == "b":
            return ClusterInput("b", problem="could not be read (Unreachable)"), "zk-1 does not answer"
        return ClusterInput(spec.name, taken_at, builders.state()), ""

    monkeypatch.setattr(module, "read_live_cluster", read)
    sources: Mapping[str, Source] = {**dict.fromkeys(NAMES, LIVE), "d": ClusterInput("d", problem="no snapshot")}
    taken = list[str]()

    def parts() -> Iterator[Part]:
        for name in NAMES:
            taken.append(name)
            yield Part(name, sources[name])

    found = list[ClusterResult]()
    for result in work(parts(), SHIPPED, Caches(SHIPPED), parallel):
        assert len(taken) - len(found) <= parallel
        found.append(result)
    assert [result.cluster for result in found] == [*NAMES]
    assert {result.cluster: result.read_error for result in found if result.read_error} == {"b": "zk-1 does not answer"}
    documents = [result.document for result in found]
    problems = [None, "could not be read (Unreachable)", None, "no snapshot", None]
    assert [document and document["problem"] for document in documents] == problems
    assert sorted(name for name, *_ in asked) == ["a", "b", "c", "e"]
    assert {(options, at) for _, options, at in asked} == {(LIVE.connect_options, parse_time(AS_OF))}


def keyed(*rows: FindingRow) -> dict[FindingKey, FindingRow]:
    """Return rows as the previous report has them."""
    return {finding_key(row): row for row in rows}


def test_a_finding_that_is_gone_is_resolved_and_counts_as_a_repair_unless_it_was_accepted() -> None:
    """A repair has its class, its responsible, and the time for which the finding stayed."""
    gone = make_row("a", "orders", DriftFinding(DriftClass.CONFIG, "config.x"), EARLIER, "shop")
    accepted: dict[str, Any] = make_row("a", "clicks", DriftFinding(DriftClass.CONFIG, "config.x"), EARLIER, "web")
    accepted["exception"] = {"name": "campaign"}
    part = Part("a", ClusterInput("a", parse_time(AS_OF), builders.state()), (), keyed(gone), keyed(accepted))
    (result,) = work([part], SHIPPED, Caches(SHIPPED))
    assert result.findings.repairs == [Repair("config", "shop", 86_400)]
    assert result.findings.not_evaluated == 0
    assert {name: len(lines) for name, lines in result.lines.items() if lines} == {RESOLVED_FILE: 2}


def test_findings_of_a_cluster_that_cannot_be_read_are_not_resolved() -> None:
    """They are kept for the next report, and counted without those that an exception accepts."""
    kept = make_row("a", "orders", DriftFinding(DriftClass.CONFIG, "config.x"), EARLIER, "shop")
    accepted: dict[str, Any] = {**kept, "topic": "clicks", "exception": {"name": "campaign"}}
    part = Part("a", ClusterInput("a", problem="no snapshot"), (), keyed(kept), keyed(accepted))
    (result,) = work([part], SHIPPED, Caches(SHIPPED))
    assert (result.findings.repairs, result.findings.not_evaluated) == ([], 1)
    assert {name: len(lines) for name, lines in result.lines.items() if lines} == {
        FINDINGS_FILE: 1,
        NOT_EVALUATED_FILE: 2,
    }


def test_a_cluster_outside_the_run_has_only_what_manifests_say() -> None:
    """It has no entry of its own in the summary, and its rows are in the report."""
    row = make_row("z", "", DriftFinding(DriftClass.INVALID, message="no number"), AS_OF)
    (result,) = work([Part("z", None, [row])], SHIPPED, Caches(SHIPPED))
    assert (result.cluster, result.document) == ("z", None)
    assert result.lines[FINDINGS_FILE] == [encode_line(row)]
    assert result.lines[ACCEPTED_FILE] == []
    assert result.findings.by["class"] == {"invalid": 1}


def test_a_row_is_a_line_of_ascii() -> None:
    """Lines are compact, and each ends with a newline."""
    assert encode_line({"a": [1, None], "b": "é\n"}) == b'{"a":[1,null],"b":"\\u00e9\\n"}\n'


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STATE = builders.state(builders.topic("orders"))


@pytest.mark.parametrize(
    ("cluster_id", "error", "problem"),
    [
        ("", None, ""),
        (builders.CLUSTER_ID, None, ""),
        ("another", None, "could not be read (WrongCluster)"),
        (
            "",
            TopiaristError(Reason.UNREACHABLE, "zk-1.example.com:2181 does not answer"),
            "could not be read (Unreachable)",
        ),
    ],
)
def test_a_cluster_is_read_or_has_the_reason_without_addresses(
    monkeypatch: pytest.MonkeyPatch, cluster_id: str, error: TopiaristError | None, problem: str
) -> None:
    """The report has only the reason, because it has many readers; the message is for the user of the command."""
    opened = list[tuple[str, str, float]]()
    closed = list[str]()

    @contextmanager
    def open_cluster(spec: ClusterSpec, *, owner: str, connect_timeout: float) -> Iterator[MemoryCluster]:
        opened.append((spec.name, owner, connect_timeout))
        if error:
            raise error
        try:
            yield MemoryCluster(STATE)
        finally:
            closed.append(spec.name)

    monkeypatch.setattr(task, "open_cluster", open_cluster)
    found, message = read_live_cluster(ClusterSpec("eu", cluster_id=cluster_id), ConnectOptions("me", 2.5), NOON)
    assert opened == [("eu", "me", 2.5)]
    assert closed == ([] if error else ["eu"])
    wanted = ("eu", None, None, problem) if problem else ("eu", NOON, STATE, "")
    assert (found.cluster, found.taken_at, found.state, found.problem) == wanted
    assert bool(message) is bool(problem)
    assert "example.com" not in found.problem
    assert ("zk-1.example.com:2181" in message) is bool(error)


POOLED = ("ap", "eu", "us")

SHIPPED_TO_POOL = Shipped(
    Desired(dict.fromkeys(POOLED, ()), {name: ClusterSpec(name) for name in POOLED}),
    RunOptions(),
    "2025-01-31T12:00:00Z",
)


@pytest.fixture
def fleet(tmp_path: Path) -> tuple[str, str]:
    """Return the manifests and the snapshots of three clusters with drift."""
    for number, name in enumerate(POOLED):
        topic = owned_topic("orders", {"retention.ms": str(number)})
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, topic))
    topic_of_all = topic_document("orders", POOLED, config={"retention.ms": 1})
    return str(write_manifests(tmp_path / "manifests", POOLED, topic_of_all)), str(tmp_path / "snapshots")


def make_parts(folder: Path, rows: Iterable[int] = (1, 1, 1)) -> list[Part]:
    """Return a part of each cluster, with these numbers of rows in snapshots that do not exist."""
    taken_at = datetime(2025, 1, 31, tzinfo=UTC)
    return [
        Part(name, SnapshotLines(SnapshotFile(taken_at, "", count), StoredLines(str(folder / f"{name}.jsonl"))))
        for name, count in zip(POOLED, rows, strict=True)
    ]


def test_a_part_without_a_snapshot_has_no_rows(tmp_path: Path) -> None:
    """Neither a cluster outside the run, nor one that is read live, is known to be work."""
    snapshots = make_parts(tmp_path, (2, 1, 3))
    assert [part.row_count for part in (*snapshots, Part("eu", None), Part("eu", LIVE))] == [2, 1, 3, 0, 0]


def replace_work(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> None:
    """Replace the comparison by a function that is called with the name of each cluster."""

    def work(parts: Iterable[Part], *_: Any) -> Iterator[ClusterResult]:
        for part in parts:
            act(part.cluster)
            yield ClusterResult(part.cluster)

    monkeypatch.setattr(module, "work", work)


def test_a_report_is_the_same_in_a_pool(tmp_path: Path) -> None:
    """One process, two and three write the same bytes and messages for a fleet with drift of every kind."""
    sample = drifted_fleet.make_fleet(tmp_path, clusters=9, topics=50, per_kind=4)
    runners = {str(jobs): ("--jobs", str(jobs)) for jobs in (1, 2, 3)}
    reports = run_each(sample.manifests, sample.snapshots, tmp_path, runners, "--upgrade-to", "4.4")
    assert reports["1"] == reports["2"] == reports["3"]
    assert json.loads(reports["1"].files["summary.json"])["upgrade"]["risks"]
    again = run_each(sample.manifests, sample.snapshots, tmp_path, runners, "--previous", tmp_path / "1")
    assert again["1"] == again["2"] == again["3"]
    assert b'"status":"Unchanged"' in again["1"].files["findings.jsonl"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".topiarist")]


def test_results_come_in_order_and_the_largest_part_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process takes the largest snapshot first; results come in the order of the parts."""
    log = tmp_path / "log"
    replace_work(monkeypatch, lambda name: log.open("a").write(f"{name} "))
    results = [*run_in_processes(make_parts(tmp_path, (2, 1, 3)), SHIPPED_TO_POOL, 1, tmp_path)]
    assert [result.cluster for result in results] == ["ap", "eu", "us"]
    assert log.read_text() == "us ap eu "


@pytest.mark.parametrize(("at_a_time", "is_live", "each"), [(1, True, "1"), (7, True, "3"), (7, False, "1")])
def test_live_clusters_at_a_time_are_shared_by_the_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_a_time: int, is_live: bool, each: str
) -> None:
    """Each of two processes reads its half of them at the same time, and one at least; snapshots one by one."""
    monkeypatch.setattr(module, "MAX_PARALLEL_CLUSTERS", at_a_time)
    log = tmp_path / "log"

    def work(parts: Iterable[Part], *given: Any) -> Iterator[ClusterResult]:
        *_, parallel = given
        for part in parts:
            log.open("a").write(f"{parallel} ")
            yield ClusterResult(part.cluster)

    monkeypatch.setattr(module, "work", work)
    parts = [Part(name, LIVE) for name in POOLED] if is_live else make_parts(tmp_path)
    results = [*run_in_processes(parts, SHIPPED_TO_POOL, 2, tmp_path)]
    assert [result.cluster for result in results] == [*POOLED]
    assert log.read_text().split() == [each] * len(POOLED)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("jobs", "code", "ending"),
    [*((jobs, 0, "was ended by SIGKILL") for jobs in (1, 2, 3)), (2, 1, "has ended")],
)
def test_a_dead_process_is_named_by_its_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int, code: int, ending: str
) -> None:
    """A process that the system kills ends the run with an error that names its cluster, and all other processes."""
    pids = tmp_path / "pids"

    def act(name: str) -> None:
        with pids.open("a") as file:
            file.write(f"{os.getpid()} ")
        if name == "eu":
            os._exit(code) if code else os.kill(os.getpid(), signal.SIGKILL)

    replace_work(monkeypatch, act)
    with pytest.raises(TopiaristError) as raised:
        list(run_in_processes(make_parts(tmp_path), SHIPPED_TO_POOL, jobs, tmp_path))
    assert (raised.value.reason, str(raised.value)) == (
        Reason.INCOMPLETE,
        f"the process that compared eu {ending}\n"
        "    if the machine has too little memory, use fewer processes: --jobs 1",
    )
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
from topiarist.drift import task
from topiarist.cli.main import run

folder = Path(sys.argv[1])
whole = task.work

def work(*given):
    for result in whole(*given):
        (folder / f"here-{result.cluster}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        yield result

task.work = work
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
        list(run_in_processes(make_parts(tmp_path), SHIPPED_TO_POOL, 2, tmp_path))


@pytest.mark.parametrize(
    ("error", "words"), [(OSError(errno.ENOSPC, "no space left"), "no space left"), (OSError("is closed"), "is closed")]
)
def test_results_that_cannot_be_written_name_their_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError, words: str
) -> None:
    """The error has the file of the process, and the words of the system or those of Python."""

    def fail(*_: Any) -> None:
        raise error

    replace_work(monkeypatch, lambda name: None)
    monkeypatch.setattr(pickle, "dump", fail)
    with pytest.raises(TopiaristError) as raised:
        list(run_in_processes(make_parts(tmp_path), SHIPPED_TO_POOL, 1, tmp_path))
    assert (raised.value.reason, raised.value.message) == (Reason.UNWRITABLE, f"{tmp_path}/results-0: {words}")


def test_an_error_of_a_process_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error of a task in another process has its reason, its message and its hint."""

    def fail(name: str) -> None:
        raise TopiaristError(Reason.UNREADABLE, f"{name} has no end", "take the snapshot again")

    replace_work(monkeypatch, fail)
    with pytest.raises(TopiaristError) as raised:
        list(run_in_processes(make_parts(tmp_path), SHIPPED_TO_POOL, 1, tmp_path))
    error = raised.value
    assert (error.reason, error.hint) == (Reason.UNREADABLE, "take the snapshot again")
    assert error.message.endswith(" has no end")


def test_processes_end_with_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python ends the processes when it exits, even if the results are not read to their end."""
    replace_work(monkeypatch, lambda name: None)
    with closing(run_in_processes(make_parts(tmp_path), SHIPPED_TO_POOL, 2, tmp_path)) as results:  # type: ignore[type-var]
        next(results)
        assert [each.daemon for each in active_children()] == [True, True]
    assert active_children() == []


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_a_file_that_a_task_cannot_open_ends_the_run(tmp_path: Path, jobs: int) -> None:
    """A snapshot that was listed and cannot be opened is an error with its path in every runner, never a finding."""
    parts = make_parts(tmp_path)
    results = run_in_processes(parts, SHIPPED_TO_POOL, jobs, tmp_path) if jobs else run_here(parts, SHIPPED_TO_POOL)
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
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(4 if pid == 0 else 1))  # 0: this process
    engine = LocalEngine()
    engine.choose_jobs(jobs, cost)
    assert (engine.jobs, engine.description) == (chosen, description)


@pytest.mark.parametrize(("cores", "chosen"), [(3, 3), (None, 1)])
def test_without_an_affinity_all_cores_count(monkeypatch: pytest.MonkeyPatch, cores: int | None, chosen: int) -> None:
    """A system that cannot limit a process to some cores names all of them, or does not know their number."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    engine = LocalEngine()
    engine.choose_jobs(None, Cost(500, 1_000_000, 0))
    assert engine.jobs == chosen


def test_what_compares_is_said_once(
    fleet: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first message names the runner and the reason, unless messages are off."""
    monkeypatch.setattr("topiarist.drift.report.find_java", lambda purpose: "java")
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
