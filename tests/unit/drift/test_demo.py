"""The sample fleet of ``topiarist drift --demo``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.drift.small_fleet import read_rows, read_summary
from topiarist.cli.main import run
from topiarist.drift.demo import INVALID_TEAM, READ_CLUSTERS, UNREAD_CLUSTER, write_demo
from topiarist.drift.findings import DriftClass
from topiarist.errors import TopiaristError

ACCEPT = "--author ops --until 2026-02-03 --reason 'PLAT-7: known'"
REPORT = "drift fleet/manifests --snapshots fleet/snapshots --owner-label team --baseline known.jsonl"
FIX = "drift fleet/manifests --from fleet/report --fix"

REPAIRS = (
    "drift -q --between prod-us,prod-eu,test --snapshots fleet/snapshots",
    f"{FIX} plan -q --cluster prod-eu --snapshots fleet/snapshots",
    f"{FIX} manifest --write",
    f"{FIX} accept --class missing --class racks {ACCEPT}",
    f"{FIX} baseline --class config --class racks --class unknown {ACCEPT} --out known.jsonl",
)
"""Ways to repair the findings of the demo."""

EMPTY_PATH = {"PATH": "/nonexistent", "JAVA_HOME": "/nonexistent"}
"""An environment in which no Java can be started."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a demo that ran in this process, with paths below the folder of the fleet."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["drift", "--demo", "fleet", "-q"]) == 1
    return folder / "fleet" / "report"


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


def compare(name: str, parts: Iterable[tuple[str, str]]) -> None:
    """Compare texts, each under a title, with a golden file; ``make golden`` writes it."""
    path = Path(__file__).with_name(name)
    text = "".join(f"=== {title}\n{part}" for title, part in parts)
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), f"{name} differs; if that is meant: make golden, and look at git diff"


def test_the_demo_has_this_content(report: Path) -> None:
    """Each manifest, each finding and each number of the demo is that of the golden file."""
    fleet = report.parent
    paths = [*sorted(fleet.glob("manifests/**/*.yaml")), report / "findings.jsonl", report / "summary.json"]
    parts = [(str(path.relative_to(fleet)), path.read_text()) for path in paths]
    heads = [path.read_text().splitlines(keepends=True)[0] for path in sorted(fleet.glob("snapshots/*"))]
    compare("demo.txt", [*parts, ("first rows of the snapshots", "".join(heads))])


def age_snapshots(folder: Path, day: str) -> None:
    """Write the snapshots as of a day: one topic keeps its messages longer, a fault is over, and a row is lost."""
    for path in folder.iterdir():
        text = re.sub(r'"takenAt":"[0-9-]*', f'"takenAt":"{day}', path.read_text())
        text = text.replace("2592000000", "7776000000").replace("[0,1,3]", "null")
        path.write_text(re.sub('.*"prod-us".*"topic":"stock".*\n', "", text))


def describe_rows(path: Path) -> str:
    """Return what changes from day to day in the rows of a file, one line each."""
    names = (
        *("cluster", "topic", "class", "field", "severity", "status", "firstSeen", "seenSince"),
        *("episodes", "ageSeconds", "acceptedSeconds", "exception"),
    )
    return "".join(f"{' | '.join(str(row.get(name)) for name in names)}\n" for row in read_rows(path.parent, path.name))


def test_the_findings_of_the_demo_are_repaired_and_age(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What each way of a repair prints, and the findings of the days after, are those of the golden file."""
    shutil.copytree(report.parent, tmp_path / "fleet")
    monkeypatch.chdir(tmp_path)
    Path("fleet/manifests/topics/marketing.yaml").unlink()  # with an invalid manifest, nothing is repaired
    pages = []
    for command in REPAIRS:
        code, said = run(shlex.split(command)), capsys.readouterr()
        pages.append((command, f"{said.out}{said.err}exit code {code}\n"))
    pages.append(("known.jsonl", Path("known.jsonl").read_text()))
    previous = "fleet/report"
    for day in ("2026-02-02", "2026-02-04"):
        age_snapshots(Path("fleet/snapshots"), day)
        code, said = run([*shlex.split(REPORT), "--previous", previous, "--out", day]), capsys.readouterr()
        pages.append((f"report of {day}", f"{said.err}exit code {code}\n"))
        names = ("findings", "accepted", "not-evaluated", "resolved")
        pages += [(f"{name} of {day}", describe_rows(Path(day, f"{name}.jsonl"))) for name in names]
        previous = day
    pages.append((f"summary of {previous}", Path(previous, "summary.md").read_text()))
    compare("demo_repaired.txt", pages)


def test_the_rest_of_the_sample_fleet_is_in_sync(report: Path) -> None:
    """All other topics match their manifests, one difference is accepted, and one value stops brokers of Kafka 4.4."""
    summary, rows = read_summary(report), read_rows(report)
    undeclared = ("unexpected", "orphaned")
    differing = {
        (row["cluster"], row["topic"])
        for row in rows
        if row["class"] not in undeclared and row["cluster"] in READ_CLUSTERS
    }
    (accepted,) = read_rows(report, "accepted.jsonl")
    keys = ("cluster", "topic", "field", "actual")
    assert [accepted[key] for key in keys] == ["prod-us", "banners", "config.retention.ms", str(90 * 86_400_000)]
    topics = summary["topics"]
    assert topics["declared"] == topics["compared"] == 55
    assert topics["inSync"] == 55 - len(differing) - 1  # the accepted difference is none of the findings
    stopping, *_ = summary["upgrade"]["risks"]
    assert (stopping["effect"], [one["topic"] for one in stopping["examples"]]) == ("stopsBrokers", ["searches"])


def test_every_snapshot_and_manifest_is_valid(tmp_path: Path) -> None:
    """The manifests are valid for every command, but for that of one team; each Cluster has its version, each team its
    label.
    """
    folders = write_demo(tmp_path / "fleet")
    assert run(["validate", str(folders.manifests)]) == 1
    valid = [path for path in (folders.manifests / "topics").iterdir() if path.stem != INVALID_TEAM]
    assert run(["validate", str(folders.manifests / "clusters.yaml"), *map(str, valid)]) == 0
    clusters = (folders.manifests / "clusters.yaml").read_text()
    assert clusters.count("kafkaVersion: ") == clusters.count("kind: Cluster\n") == len(READ_CLUSTERS) + 1
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


@pytest.mark.parametrize(
    "words",
    [
        ["--live"],
        ["--snapshots", "s"],
        ["--out", "r"],
        ["--previous", "r"],
        ["topics"],
        ["--owner-label", "t"],
        ["--fix", "plan"],
        ["--topic", "a"],
        ["--platform", "p"],
    ],
)
def test_the_demo_takes_no_other_input(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any other input or output is a usage error, and nothing is written."""
    assert run(["drift", "--demo", str(tmp_path / "fleet"), *words]) == 2
    assert "--demo makes its own" in capsys.readouterr().err
    assert not (tmp_path / "fleet").exists()


def test_out_is_required_without_a_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a demo the folder of the report must be given."""
    assert run(["drift", str(tmp_path), "--live"]) == 2
    assert "--out" in capsys.readouterr().err
