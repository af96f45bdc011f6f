"""Comparison with the previous report: new, unchanged, resolved, dropped and not evaluated findings, and their age."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    row_keys,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.drift.history import previous
from topiarist.model.state import TopicState

MISSING = ("eu", "orders", "missing", "")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return manifests of two topics that are missing on both clusters."""
    for name in ("eu", "us"):
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name))
    both = ["eu", "us"]
    return write_manifests(tmp_path / "manifests", both, topic_document("orders", both), topic_document("users", both))


def counts(out: Path) -> tuple[int, ...]:
    """Return the numbers of new, unchanged, resolved, not evaluated and dropped findings."""
    found = read_summary(out)["findings"]
    return tuple(found[name] for name in ("new", "unchanged", "resolved", "notEvaluated", "dropped"))


def test_a_finding_is_as_old_as_its_first_report(manifests: Path, tmp_path: Path) -> None:
    """The age of a finding is the time between its first and its latest snapshot, over any number of reports."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q")
    for hours in (5, 7):
        write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("users")), hours=hours)
        run_drift(manifests, out, "-q", "--previous", out)
    row = read_rows(out)[0]
    assert row_keys([row]) == [MISSING]
    assert (row["firstSeen"], row["takenAt"]) == ("2025-01-31T12:00:00Z", "2025-01-31T19:00:00Z")
    assert (row["ageSeconds"], row["status"]) == (7 * 3600, "Unchanged")
    assert counts(out) == (0, 3, 0, 0, 0)
    trend = [(one["asOf"][11:13], one["findings"], one["new"], one["resolved"]) for one in read_summary(out)["trend"]]
    assert trend == [("12", 4, 4, 0), ("17", 3, 0, 1), ("19", 3, 0, 0)]
    assert read_summary(out)["previous"] == "2025-01-31T17:00:00Z"


def test_the_same_input_again_adds_nothing_to_the_trend(manifests: Path, tmp_path: Path) -> None:
    """A second report of the same time replaces the first in the trend, and further runs give the same bytes."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q")
    run_drift(manifests, tmp_path / "one", "-q", "--previous", out)
    run_drift(manifests, tmp_path / "two", "-q", "--previous", tmp_path / "one")
    assert len(read_summary(tmp_path / "two")["trend"]) == 1
    assert (tmp_path / "one" / "findings.jsonl").read_bytes() == (tmp_path / "two" / "findings.jsonl").read_bytes()


def test_what_cannot_be_seen_is_neither_gone_nor_young_again(manifests: Path, tmp_path: Path) -> None:
    """The findings of a cluster without a snapshot are kept, and keep their age when the cluster is read again."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q")
    gone = (tmp_path / "snapshots" / "eu.jsonl").rename(tmp_path / "eu.jsonl")
    for _ in range(2):
        assert run_drift(manifests, out, "-q", "--previous", out) == 1
        assert row_keys(read_rows(out, "not-evaluated.jsonl")) == [MISSING, ("eu", "users", "missing", "")]
        assert counts(out)[2:] == (0, 2, 0)
    gone.unlink()
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"), hours=9)
    assert run_drift(manifests, out, "-q", "--previous", out) == 0
    assert [row["ageSeconds"] for row in read_rows(out)] == [9 * 3600, 9 * 3600, 0, 0]
    assert counts(out) == (0, 4, 1, 0, 0)  # the finding of the unknown cluster is resolved
    assert read_rows(out, "not-evaluated.jsonl") == []


def test_only_topics_whose_rows_are_lost_are_unseen(manifests: Path, tmp_path: Path) -> None:
    """In an incomplete snapshot, only the earlier findings of topics without a row are not evaluated."""
    out = tmp_path / "report"
    run_drift(manifests, out, "-q", "--cluster", "eu")
    path = write_snapshot(
        tmp_path / "snapshots", "eu", cluster_state("eu", owned_topic("orders"), TopicState("x", "7", ((1,),)))
    )
    first, orders, _ = path.read_text().splitlines()
    path.write_text(f"{first}\n{orders}\n{{")
    assert run_drift(manifests, out, "-q", "--cluster", "eu", "--previous", out) == 1
    assert read_rows(out) == []
    assert row_keys(read_rows(out, "not-evaluated.jsonl")) == [("eu", "users", "missing", "")]
    assert counts(out) == (0, 0, 1, 1, 0)


def test_an_undeclared_topic_whose_row_is_lost_is_unseen(manifests: Path, tmp_path: Path) -> None:
    """The earlier finding of an undeclared topic is not resolved by a snapshot that lacks its row."""
    out = tmp_path / "report"
    topics = (owned_topic("orders"), owned_topic("users"), TopicState("guest", "7", ((1,),)))
    path = write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *topics))
    run_drift(manifests, out, "-q", "--cluster", "eu")
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"guest"' not in line))
    assert run_drift(manifests, out, "-q", "--cluster", "eu", "--previous", out) == 1
    assert row_keys(read_rows(out, "not-evaluated.jsonl")) == [("eu", "guest", "unexpected", "")]
    assert read_summary(out)["findings"]["resolved"] == 0


def test_clusters_that_nobody_asks_for_are_dropped(manifests: Path, tmp_path: Path) -> None:
    """Findings of clusters outside the run are counted as dropped, and are neither resolved nor kept."""
    run_drift(manifests, tmp_path / "one", "-q")
    run_drift(manifests, tmp_path / "two", "-q", "--previous", tmp_path / "one", "--cluster", "us")
    assert counts(tmp_path / "two") == (0, 2, 0, 0, 2)


def test_an_older_snapshot_than_before_makes_nothing_younger(manifests: Path, tmp_path: Path) -> None:
    """With an older snapshot than before, a finding is first seen at that snapshot, with the age 0."""
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"), hours=9)
    run_drift(manifests, tmp_path / "one", "-q")
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu"))
    run_drift(manifests, tmp_path / "two", "-q", "--previous", tmp_path / "one")
    assert {row["ageSeconds"] for row in read_rows(tmp_path / "two")} == {0}
    assert {row["firstSeen"] for row in read_rows(tmp_path / "two")} == {"2025-01-31T12:00:00Z"}


@pytest.mark.parametrize("name", ["summary.json", "findings.jsonl", "not-evaluated.jsonl", "accepted.jsonl"])
@pytest.mark.parametrize("content", [None, "{", "[]", '{"cluster": 5}', "[" * 100_000])
def test_what_is_no_report_is_no_previous_one(
    manifests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | None
) -> None:
    """An invalid file of the previous report is an error that names it, before topiarist writes anything."""
    run_drift(manifests, tmp_path / "one", "-q")
    (tmp_path / "one" / name).unlink()
    if content is not None:
        (tmp_path / "one" / name).write_text(content)
    assert run_drift(manifests, tmp_path / "two", "--previous", tmp_path / "one") == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "one" / name) in said
    assert content is None or "of a drift report" in said
    assert not (tmp_path / "two").exists()


def test_a_trend_has_an_end() -> None:
    """The trend keeps more than a year of daily reports, and drops the oldest first."""
    before = [{"asOf": f"{year:04d}"} for year in range(1000)]
    found = previous.extend_trend(before, {"asOf": "1000"})
    assert len(found) == previous.MAX_REPORTS
    assert (found[0]["asOf"], found[-1]["asOf"]) == (f"{1001 - previous.MAX_REPORTS:04d}", "1000")
