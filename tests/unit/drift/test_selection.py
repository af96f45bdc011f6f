"""Reports limited to some topics: what they leave out, and what a later whole report still knows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.drift.small_fleet import (
    check_schema,
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
from topiarist.errors import Exit

LABELS = {"orders": "shop", "clicks": "ads"}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return the folder of a fleet with one cluster: two topics differ, and one has no manifest."""
    documents = [
        topic_document(name, ["eu"], config={"retention.ms": 1}).replace(
            '"metadata": {', f'"metadata": {{"labels": {{"team": "{team}"}}, '
        )
        for name, team in LABELS.items()
    ]
    write_manifests(tmp_path / "manifests", ["eu"], *documents)
    topics = [owned_topic(name) for name in ("orders", "clicks", "orders-left")]
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *topics))
    return tmp_path


def _report(fleet: Path, name: str, *words: str) -> list[tuple[str, str, str, str]]:
    out = fleet / name
    assert run_drift(fleet / "manifests", out, "-q", *words) == 0
    return row_keys(read_rows(out))


def test_a_pattern_that_matches_no_manifest_is_named(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in a plan: a report without findings is no good news if the name has a typing error."""
    assert run_drift(fleet / "manifests", fleet / "report", "--topic", "ordres", "--topic", "click*") == 0
    assert "--topic: no topic of the manifests matches ordres\n" in (said := capsys.readouterr().err)
    assert "click*" not in said


@pytest.mark.parametrize(
    ("words", "topics"),
    [
        ((), {"orders", "clicks", "orders-left"}),
        (("--topic", "orders*"), {"orders", "orders-left"}),
        (("--selector", "team=ads"), {"clicks"}),
        (("--topic", "orders*", "--selector", "team=ads"), set()),
    ],
)
def test_a_limited_report_has_the_selected_topics(fleet: Path, words: tuple[str, ...], topics: set[str]) -> None:
    """A pattern selects topics without a manifest too; labels are those of manifests."""
    assert {topic for _, topic, *_ in _report(fleet, "report", *words)} == topics
    summary = read_summary(fleet / "report")
    assert summary.get("selection", "") == " ".join(words)
    assert ("selected by" in (fleet / "report" / "summary.md").read_text()) is bool(words)
    check_schema("summary", summary)


def test_a_finding_that_a_report_leaves_out_is_not_resolved(fleet: Path) -> None:
    """It has its age in the next whole report, and a limited one is no point of the trend."""

    def ages(report: str) -> dict[str, Any]:
        return {row["topic"]: (row["status"], row["firstSeen"]) for row in read_rows(fleet / report)}

    _report(fleet, "one")
    first = ages("one")
    _report(fleet, "two", "--topic", "clicks", "--previous", str(fleet / "one"))
    two = read_summary(fleet / "two")
    assert (two["findings"]["resolved"], two["findings"]["notEvaluated"]) == (0, 2)
    assert len(two["trend"]) == len(read_summary(fleet / "one")["trend"])
    _report(fleet, "three", "--previous", str(fleet / "two"))
    assert ages("three") == {topic: ("Unchanged", seen) for topic, (_, seen) in first.items()}


def test_every_runner_selects_alike(fleet: Path) -> None:
    """One process and a pool write the same bytes."""
    for jobs in ("1", "2"):
        _report(fleet, jobs, "--topic", "orders*", "--jobs", jobs)
    files = {path.relative_to(fleet / "1"): path.read_bytes() for path in (fleet / "1").rglob("*") if path.is_file()}
    assert files == {name: (fleet / "2" / name).read_bytes() for name in files}


def test_a_history_has_whole_reports(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limited one is a usage error."""
    words = ("--history", str(fleet / "history"), "--topic", "a")
    assert run_drift(fleet / "manifests", fleet / "report", *words) == Exit.USAGE
    assert "--topic a: a history takes only complete reports" in capsys.readouterr().err
