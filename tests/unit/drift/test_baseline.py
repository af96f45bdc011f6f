"""Baselines: one file with the findings of a day, which are accepted until another day."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.cli.runs import document
from support.drift.small_fleet import (
    REPLICA_LISTS,
    check_schema,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.model.state import TopicState

BOTH = ["eu", "us"]
WORDS = ("--author", "ops", "--until", "2025-02-01", "--reason", "known on the first day")
DAY = 24
HINT = "set --baseline to a file that drift --fix baseline wrote"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of two clusters with drift that the baseline of the first report has."""
    monkeypatch.chdir(tmp_path)
    take_snapshots(tmp_path)
    topic = topic_document("orders", BOTH, config={"retention.ms": "604800000"})
    fleet = write_manifests(tmp_path / "fleet", BOTH, topic).relative_to(tmp_path)
    assert run_drift(fleet, tmp_path / "first", "-q") == 0
    assert make_baseline() == 0
    return fleet


def make_baseline(*words: str, report: str = "first") -> int:
    """Write ``baseline.jsonl`` from a report; return the exit code."""
    return run(
        ["drift", "fleet", "--from", report, "--fix", "baseline", *WORDS, "--out", "baseline.jsonl", "-q", *words]
    )


def take_snapshots(
    tmp_path: Path, *, hours: int = 0, retention: str = "500000000", guests: tuple[str, ...] = ("guest",), **config: str
) -> None:
    """Write the snapshots of both clusters: less retention than declared, fewer partitions, and undeclared topics."""
    given = {"retention.ms": retention} | {key.replace("_", "."): value for key, value in config.items()}
    for name in BOTH:
        topics = (
            owned_topic("orders", given, replicas=REPLICA_LISTS[:2]),
            *(TopicState(guest, "9", REPLICA_LISTS) for guest in guests),
        )
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics), hours=hours)


def statuses(out: Path) -> dict[tuple[str, str], str]:
    """Return the status of each finding that counts, by topic and by field or class."""
    return {(row["topic"], row["field"] or row["class"]): row["status"] for row in read_rows(out)}


def test_only_news_count(fleet: Path, tmp_path: Path) -> None:
    """The findings of the baseline are accepted, each with its line; a new finding counts, and ends the run with 3."""
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q", "--baseline", "baseline.jsonl", "--exit-code") == 0
    assert read_rows(out) == []
    lines = Path("baseline.jsonl").read_text().splitlines()
    for row in read_rows(out, "accepted.jsonl"):
        found = row["exception"]
        assert (found["name"], found["file"], found["author"], found["until"]) == (
            *("baseline", "baseline.jsonl", "ops", "2025-02-01"),
        )
        entry = json.loads(lines[found["line"] - 1])
        assert entry == {name: row[name] for name in entry}
    assert read_summary(out)["baseline"] == {
        **{"file": "baseline.jsonl", "author": "ops", "reason": "known on the first day", "until": "2025-02-01"},
        **{"findings": 6, "accepted": 6, "worse": 0, "unmatched": 0},
    }
    assert "topiarist_drift_new_findings 0\n" in (out / "metrics.prom").read_text()
    take_snapshots(tmp_path, hours=1, guests=("guest", "stranger"))
    assert run_drift(fleet, out, "-q", "--baseline", "baseline.jsonl", "--exit-code") == 3
    assert statuses(out) == {("stranger", "unexpected"): "New"}
    check_schema("summary", read_summary(out))
    check_schema("accepted", *read_rows(out, "accepted.jsonl"))


@pytest.mark.parametrize("previous", [False, True])
def test_what_gets_worse_counts_once_as_new(fleet: Path, tmp_path: Path, previous: bool) -> None:
    """A value worse than in the baseline is ``Worse`` and alerts, whatever came before; then it is unchanged."""
    out = tmp_path / "report"
    words = ("-q", "--baseline", "baseline.jsonl", *(("--previous", str(out)) if previous else ()))
    run_drift(fleet, out, *words)
    take_snapshots(tmp_path, hours=1, retention="60000")
    run_drift(fleet, out, *words)
    assert statuses(out) == {("orders", "config.retention.ms"): "Worse"}
    found = read_summary(out)
    assert (found["findings"]["worse"], found["baseline"]["worse"], found["baseline"]["accepted"]) == (2, 2, 4)
    assert "topiarist_drift_new_findings 2\n" in (out / "metrics.prom").read_text()
    take_snapshots(tmp_path, hours=2, retention="60000")
    run_drift(fleet, out, *words)
    again = "Unchanged" if previous else "Worse"
    assert statuses(out) == {("orders", "config.retention.ms"): again}
    take_snapshots(tmp_path, hours=3, retention="550000000")
    run_drift(fleet, out, *words)
    assert read_rows(out) == []


def test_another_severity_is_worse(fleet: Path, tmp_path: Path) -> None:
    """A finding that kept too much and now keeps too little is worse, although its number fell."""
    take_snapshots(tmp_path, hours=1, retention="900000000")
    run_drift(fleet, tmp_path / "first", "-q")
    make_baseline()
    take_snapshots(tmp_path, hours=2, retention="600000000")
    run_drift(fleet, tmp_path / "report", "-q", "--baseline", "baseline.jsonl")
    assert statuses(tmp_path / "report") == {("orders", "config.retention.ms"): "Worse"}


def test_a_baseline_ends_with_its_day(fleet: Path, tmp_path: Path) -> None:
    """From the next day on its findings count again, with their age, and it is itself an expired exception."""
    out = tmp_path / "report"
    words = ("-q", "--baseline", "baseline.jsonl", "--previous", str(out))
    run_drift(fleet, out, *words)
    take_snapshots(tmp_path, hours=2 * DAY)
    run_drift(fleet, out, *words)
    expired, *rows = read_rows(out)
    assert (expired["class"], expired["field"], expired["file"], expired["line"]) == (
        *("expired", "baseline", "baseline.jsonl", 1),
    )
    assert expired["message"] == "baseline expired: ops accepted this drift until 2025-02-01: known on the first day"
    assert {(row["status"], row["ageSeconds"]) for row in rows} == {("Unchanged", 2 * DAY * 3600)}
    shown = subprocess.run(shlex.split(expired["command"]), capture_output=True, text=True, check=True).stdout
    assert json.loads(shown)["kind"] == "DriftBaseline"


def test_a_baseline_that_has_ended_is_counted_as_that(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its findings are there, so they are not called unmatched, which are those that are repaired."""
    take_snapshots(tmp_path, hours=2 * DAY)
    capsys.readouterr()
    run_drift(fleet, tmp_path / "report", "--baseline", "baseline.jsonl")
    baseline = read_summary(tmp_path / "report")["baseline"]
    assert (baseline["findings"], baseline["accepted"], baseline["worse"], baseline["unmatched"]) == (6, 0, 0, 0)
    assert "0 unmatched, 6 counted again after the last day\n" in capsys.readouterr().err


def test_a_repaired_finding_is_counted(fleet: Path, tmp_path: Path) -> None:
    """A finding of the baseline that is over is neither a finding nor accepted; the summary counts the line."""
    take_snapshots(tmp_path, hours=1, guests=())
    run_drift(fleet, tmp_path / "report", "-q", "--baseline", "baseline.jsonl")
    assert read_rows(tmp_path / "report") == []
    assert read_summary(tmp_path / "report")["baseline"]["unmatched"] == 2


def test_exceptions_come_first(fleet: Path, tmp_path: Path) -> None:
    """A finding that an exception accepts has this exception, also if it is worse than in the baseline."""
    fields: dict[str, Any] = {"topics": ["orders"], "fields": ["config.*"], "reason": "r", "author": "ada"}
    (fleet / "some.yaml").write_text(document("DriftException", "some", **fields, until="2025-03-01"))
    take_snapshots(tmp_path, hours=1, retention="60000")
    run_drift(fleet, tmp_path / "report", "-q", "--baseline", "baseline.jsonl")
    found = {
        row["field"] or row["class"]: row["exception"]["name"]
        for row in read_rows(tmp_path / "report", "accepted.jsonl")
    }
    assert found == {"config.retention.ms": "some", "partitions": "baseline", "unexpected": "baseline"}


def test_a_selection_makes_a_smaller_baseline(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A baseline has the selected findings; those that nothing accepts are named."""
    assert make_baseline("--field", "partitions") == 0
    assert len(Path("baseline.jsonl").read_text().splitlines()) == 3
    (fleet / "broken.yaml").write_text(topic_document("old", BOTH, partitions=0))
    assert run_drift(fleet, Path("second").resolve(), "-q") == 1
    capsys.readouterr()
    assert make_baseline(report="second") == 0
    (row,) = (row for row in read_rows(Path("second")) if row["class"] == "invalid")
    why = "it concerns a document, or a cluster that was not read, which nothing accepts"
    assert capsys.readouterr().err == f"not repaired: {row['id']} old: invalid: {why}\n1 finding not repaired\n"
    assert len(Path("baseline.jsonl").read_text().splitlines()) == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], f"1: found no first line of a baseline\n    {HINT}"),
        (lambda lines: lines[1:], f"1: found no first line of a baseline\n    {HINT}"),
        (lambda lines: [*lines[:2], "{}"], f"3: found no finding of a baseline\n    {HINT}"),
        (lambda lines: [*lines[:2], lines[1]], "3: found the finding of line 2 again\n    remove one of the two lines"),
        (
            lambda lines: [lines[0].replace("2025-02-01", "2025-02-30"), *lines[1:]],
            "1: until: found 2025-02-30, wanted a day of the calendar",
        ),
    ],
)
def test_a_file_that_is_no_baseline_is_named(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, message: str
) -> None:
    """The error names the file and the line; no report is written."""
    lines = Path("baseline.jsonl").read_text().splitlines()
    Path("baseline.jsonl").write_text("".join(f"{line}\n" for line in change(lines)))
    assert run_drift(fleet, tmp_path / "report", "-q", "--baseline", "baseline.jsonl") == 1
    assert capsys.readouterr().err == f"error: baseline.jsonl:{message}\n"
    assert not (tmp_path / "report").exists()


def test_options_of_a_baseline(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An acceptance has an author, a day and a reason; a repair takes findings from a report, not from a baseline."""
    assert run(["drift", "fleet", "--from", "first", "--fix", "baseline"]) == 2
    assert "give --author, --until, --reason" in capsys.readouterr().err
    assert make_baseline("--baseline", "baseline.jsonl") == 2
    assert run_drift(fleet, tmp_path / "report", "--baseline", "none.jsonl") == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: none.jsonl: cannot be read: No such file or directory"
