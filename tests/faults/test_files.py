"""F4 and F28: killed at every step while a file is written, and manifests that change while they are read."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from faults.conftest import FaultStatistics
from support.cli import forked_runs
from support.cli.forked_runs import ForkedRuns
from support.cli.runs import document, write_manifests
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from topiarist.adapters.manifests import files
from topiarist.cli.main import run

pytestmark = pytest.mark.timeout(600)


def lines_of(processes: ForkedRuns, words: list[str], source: str, tmp_path: Path) -> int:
    """Return how many lines of a source file a run executes; each is a step at which it can be killed."""
    said = tmp_path / "said"
    assert forked_runs.wait_for_exit_code(processes.start(*words, output_file=said, kill_at=(source, 0))) == 0, (
        said.read_text()
    )
    return int(said.read_text().rpartition("lines: ")[2])


def killed_at(processes: ForkedRuns, words: list[str], source: str, step: int, tmp_path: Path) -> None:
    """Run and kill the process at that step."""
    running = processes.start(*words, output_file=tmp_path / "said", kill_at=(source, step))
    assert forked_runs.wait_for_exit_code(running) == -signal.SIGKILL


def test_f04_a_plan(mould: ClusterTemplate, processes: ForkedRuns, tmp_path: Path, tally: FaultStatistics) -> None:
    """At every line of the code that writes it: the file is the earlier plan or the new one, never a part."""
    folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", mould.create_copy())
    assert run(["snapshot", str(folder), "--out", str(tmp_path)]) == 0
    plan, source = tmp_path / "plan.json", "adapters/atomic_files.py"
    words = ["plan", str(folder), "--adopt=*", "--snapshot", str(tmp_path / "prod.jsonl"), "--out", str(plan)]
    steps, new, found = lines_of(processes, words, source, tmp_path), plan.read_bytes(), set()
    for step in range(1, steps + 1):
        plan.write_bytes(b"old")
        killed_at(processes, words, source, step, tmp_path)
        found.add(plan.read_bytes())
    assert found == {b"old", new}
    tally.set_cases(steps)


def test_f04_a_snapshot(mould: ClusterTemplate, processes: ForkedRuns, tmp_path: Path, tally: FaultStatistics) -> None:
    """The same for a snapshot, also while its rows are computed."""
    folder, total = busy_cluster.write_manifest_folder(tmp_path / "manifests", mould.create_copy()), 0
    place = tmp_path / "snapshots" / "prod.jsonl"
    words = ["snapshot", str(folder), "--out", str(place.parent)]
    for source in ("adapters/atomic_files.py", "adapters/snapshots/files.py"):
        steps, new, found = lines_of(processes, words, source, tmp_path), place.read_text(), set()
        for step in range(1, steps + 1):
            place.write_text("old")
            killed_at(processes, words, source, step, tmp_path)
            now = place.read_text()
            # Its time of reading is in it; everything else is as before.
            found.add(now if now == "old" else "new" if now.count("\n") == new.count("\n") and now[-1] == "\n" else now)
        assert found <= {"old", "new"}
        assert "old" in found
        total += steps
    tally.set_cases(total)


def test_f04_an_export(mould: ClusterTemplate, processes: ForkedRuns, tmp_path: Path, tally: FaultStatistics) -> None:
    """A folder of many files: complete or absent, and the remains of a kill do not disturb the next run."""
    folder, source = (
        busy_cluster.write_manifest_folder(tmp_path / "manifests", mould.create_copy()),
        "adapters/atomic_files.py",
    )

    def words(name: str) -> list[str]:
        return ["export", str(folder), "--out", str(tmp_path / name)]

    def contents(name: str) -> dict[str, str]:
        place = tmp_path / name
        return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}

    steps, seen = lines_of(processes, words("whole"), source, tmp_path), set()
    whole = contents("whole")
    for step in range(1, steps + 1):
        killed_at(processes, words(f"killed-{step}"), source, step, tmp_path)
        there = (tmp_path / f"killed-{step}").exists()
        seen.add(there)
        if there:
            assert contents(f"killed-{step}") == whole
        elif step % 10 == 0:
            assert run(words(f"killed-{step}")) == 0
            assert contents(f"killed-{step}") == whole
    assert seen == {True, False}
    tally.set_cases(steps)


def test_f04_a_report(mould: ClusterTemplate, processes: ForkedRuns, tmp_path: Path, tally: FaultStatistics) -> None:
    """Earlier lines are kept, each line is complete, and each reported change was made."""
    report, source = tmp_path / "report.jsonl", "adapters/atomic_files.py"

    def words(connect: str) -> list[str]:
        folder = write_manifests(tmp_path / "manifests", {"prod": connect}, "orders")
        return ["apply", str(folder), "--yes", "--kafka-version", "3.9", "--report", str(report)]

    steps = lines_of(processes, words(mould.create_copy()), source, tmp_path)
    for step in range(1, steps + 1):
        connect = mould.create_copy()
        report.write_text("old\n")
        killed_at(processes, words(connect), source, step, tmp_path)
        old, *lines = report.read_text().splitlines(keepends=True)
        assert old == "old\n"
        rows = [json.loads(line) for line in lines]
        assert all(line.endswith("\n") for line in lines)
        if [row for row in rows if row["row"] == "topic"]:
            assert "orders" in write_checker.decode_topics(write_checker.read_nodes(connect))
    tally.set_cases(steps)


def changed(path: Path, outside: Path) -> None:  # noqa: ARG001
    """Overwrite in place, with more content."""
    path.write_text(document("Topic", "changed", partitions=7, replicationFactor=1, config={"flush.ms": 5}))


def removed(path: Path, outside: Path) -> None:  # noqa: ARG001
    """Delete the file."""
    path.unlink()


def linked(path: Path, outside: Path) -> None:
    """Replace the file by a link that leads out of the folder."""
    path.unlink()
    path.symlink_to(outside)


def made_a_folder(path: Path, outside: Path) -> None:
    """Replace the file by a folder with a link that leads out."""
    path.unlink()
    path.mkdir()
    (path / "inner.yaml").symlink_to(outside)


def traced(victim: Path, step: int, act: Callable[[], None]) -> tuple[int, int]:
    """Render a folder of three files and call ``act`` at the given line of the code that reads; return the exit code
    and the number of lines.
    """
    folder = victim.parent
    for path in folder.rglob("*"):
        path.unlink() if not path.is_dir() else None
    if victim.is_dir():
        victim.rmdir()
    for name in "abc":
        (folder / f"{name}.yaml").write_text(document("Topic", name, partitions=1, replicationFactor=1))
    seen = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != files.__file__:
            return None
        seen += event == "line"
        if event == "line" and seen == step:
            act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return run(["render", str(folder)]), seen
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("act", [changed, removed, linked, made_a_folder])
def test_f28_a_manifest_that_changes_while_it_is_read(
    act: Callable[[Path, Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str], tally: FaultStatistics
) -> None:
    """At every line of the code that reads: the old content, the new content, or an error that names the file; never a
    mixture, and never content from outside of the folder.
    """
    outside, victim = tmp_path / "stranger.yaml", tmp_path / "manifests" / "b.yaml"
    outside.write_text(document("Topic", "stranger", partitions=1, replicationFactor=1))
    victim.parent.mkdir()

    def rendered(step: int) -> tuple[int, str, str, int]:
        code, steps = traced(victim, step, lambda: act(victim, outside))
        return code, *capsys.readouterr(), steps

    _, old, _, steps = rendered(0)
    act(victim, outside)
    codes = set()
    for step in range(1, steps + 1):
        code, out, err, _ = rendered(step)
        codes.add(code)
        assert "stranger" not in out
        if code:
            assert (code, out) == (1, "")
            assert "b.yaml" in err
        else:
            assert out == old or ("name: changed" in out and "name: b" not in out) or "name: b" not in out
            assert "name: a" in out
            assert "name: c" in out
    assert 0 in codes
    tally.set_cases(steps)


def test_f28_a_saved_plan_is_all_that_counts(mould: ClusterTemplate, tmp_path: Path) -> None:
    """The manifests have changed before the apply: the saved plan is applied, and nothing else."""
    connect, plan = mould.create_copy(), str(tmp_path / "plan.json")
    folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", connect)
    assert run(["plan", str(folder), "--adopt=*", "--out", plan]) == 0
    clusters = tmp_path / "clusters.yaml"
    clusters.write_text(document("Cluster", "prod", zookeeper={"connect": connect}, kafkaVersion="3.9"))
    (folder / "all.yaml").write_text(document("Topic", "stranger", partitions=1, replicationFactor=1))
    before = write_checker.read_nodes(connect)
    words = ["apply", "--plan", plan, "--clusters", str(clusters), "--yes", "--allow-risk", "DataLoss"]
    assert run(words) == 0
    after = write_checker.read_nodes(connect)
    assert "stranger" not in write_checker.decode_topics(after)
    assert list(busy_cluster.find_damage(before, after)) == []
