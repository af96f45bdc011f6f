"""The sample fleet of ``topiarist drift --demo``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.drift.small_fleet import read_rows, read_summary
from topiarist.cli.main import run
from topiarist.drift.demo import INVALID_TEAM, READ_CLUSTERS, UNREAD_CLUSTER, write_demo
from topiarist.drift.findings.finding import DriftClass
from topiarist.errors import TopiaristError

EMPTY_PATH = {"PATH": "/nonexistent", "JAVA_HOME": "/nonexistent"}
"""An environment in which no Java can be started."""


def demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process without Java."""
    command = [sys.executable, "-P", "-m", "topiarist", "drift", "--demo", str(folder), *words]
    return subprocess.run(command, env=EMPTY_PATH, capture_output=True, text=True, check=False)


def test_every_class_is_found_without_java(tmp_path: Path) -> None:
    """The report has every class of drift, and is incomplete by one cluster; no Java is needed."""
    done = demo(tmp_path / "fleet")
    assert done.returncode == 1, done.stderr
    report = tmp_path / "fleet" / "report"
    assert {row["class"] for row in read_rows(report)} == {kind.value for kind in DriftClass}
    assert read_summary(report)["clusters"] == {"declared": 4, "compared": 3, "unknown": 1}
    assert f"cluster {UNREAD_CLUSTER}: not compared" in done.stderr
    assert (report / "report.html").exists()
    assert str(report / "report.html") in done.stdout


def test_the_printed_command_makes_the_same_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that the demo prints makes the same findings and the same summary, by the normal code path."""
    assert run(["drift", "--demo", str(tmp_path / "fleet")]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  topiarist drift "))
    report = tmp_path / "fleet" / "report"
    before = {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()}
    assert run(line.split()[1:]) == 1
    assert {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()} == before


def test_every_snapshot_and_manifest_is_valid(tmp_path: Path) -> None:
    """The manifests are valid for every command, but for that of one team, and each team has its label."""
    folders = write_demo(tmp_path / "fleet")
    assert run(["validate", str(folders.manifests)]) == 1
    valid = [path for path in (folders.manifests / "topics").iterdir() if path.stem != INVALID_TEAM]
    assert run(["validate", str(folders.manifests / "clusters.yaml"), *map(str, valid)]) == 0
    assert {path.stem for path in folders.snapshots.iterdir()} == set(READ_CLUSTERS)
    for path in (folders.manifests / "topics").iterdir():
        assert f"team: {path.stem}\n" in path.read_text()


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    """The fleet depends on no time and no random number."""
    fleets = [tmp_path / name for name in ("one", "two")]
    written = []
    for fleet in fleets:
        write_demo(fleet)
        written.append({path.relative_to(fleet): path.read_bytes() for path in fleet.rglob("*") if path.is_file()})
    assert written[0] == written[1]


def test_a_folder_with_content_is_left_alone(tmp_path: Path) -> None:
    """The demo never writes into a folder that has content, also not into its own."""
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(TopiaristError, match="not empty"):
        write_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    fleet = tmp_path / "fleet"
    write_demo(fleet)
    assert run(["drift", "--demo", str(fleet)]) == 1
    assert not (fleet / "report").exists()


@pytest.mark.parametrize("words", [["--live"], ["--snapshots", "s"], ["--out", "r"], ["--previous", "r"], ["topics"]])
def test_the_demo_takes_no_other_input(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any other input or output is a usage error, and nothing is written."""
    assert run(["drift", "--demo", str(tmp_path / "fleet"), *words]) == 2
    assert "--demo makes its own" in capsys.readouterr().err
    assert not (tmp_path / "fleet").exists()


def test_out_is_required_without_a_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a demo the folder of the report must be given."""
    assert run(["drift", str(tmp_path), "--live"]) == 2
    assert "--out" in capsys.readouterr().err
