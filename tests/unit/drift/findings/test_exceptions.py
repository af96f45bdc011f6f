"""Accepted drift: exceptions in git, their expiry, and what they do not change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from support.cli.runs import document
from support.drift.small_fleet import (
    REPLICA_LISTS,
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
from topiarist.cli.main import run
from topiarist.model.state import TopicState
from topiarist.schema import load

BOTH = ["eu", "us"]
ORDERS = [
    (name, "orders", kind, field)
    for name in BOTH
    for kind, field in (("config", "config.retention.ms"), ("partitions", "partitions"))
]
GUESTS = [(name, "guest", "unexpected", "") for name in BOTH]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of two clusters on which a topic differs in two fields, and another is undeclared."""
    monkeypatch.chdir(tmp_path)
    take_snapshots(tmp_path)
    return write_manifests(tmp_path / "fleet", BOTH, topic_document("orders", BOTH)).relative_to(tmp_path)


def take_snapshots(tmp_path: Path, *, hours: int = 0) -> None:
    """Write the snapshots of both clusters; the first are of 2025-01-31, 12:00."""
    for name in BOTH:
        topics = (
            owned_topic("orders", {"retention.ms": "5"}, replicas=REPLICA_LISTS[:2]),
            TopicState("guest", "9", REPLICA_LISTS),
        )
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics), hours=hours)


def accept(fleet: Path, name: str = "some", **fields: Any) -> None:
    """Write an exception for config of the topic ``orders`` that is valid on the day of the first snapshots."""
    given = {
        "topics": ["orders"],
        "classes": ["config"],
        "reason": "moving",
        "author": "ada",
        "until": "2025-01-31",
    } | fields
    text = document("DriftException", name, **{key: value for key, value in given.items() if value is not None})
    (fleet / f"{name}.yaml").write_text(text)


def valid(kind: str, row: dict[str, Any]) -> None:
    """Raise unless a row matches the schema of its kind."""
    definitions = load.load_schema("drift")["definitions"]
    Draft7Validator({**definitions[kind], "definitions": definitions}).validate(row)


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({}, [ORDERS[0], ORDERS[2]]),
        ({"clusters": ["e*"]}, ORDERS[:1]),
        ({"clusters": ["us"]}, ORDERS[2:3]),
        ({"classes": ["config", "partitions"]}, ORDERS),
        ({"classes": None, "fields": ["config.*"]}, [ORDERS[0], ORDERS[2]]),
        ({"fields": ["partitions"]}, []),
        ({"topics": ["*"], "classes": ["unexpected"]}, GUESTS),
        ({"topics": ["ORDERS"]}, []),
    ],
)
def test_what_fits_is_accepted(
    fleet: Path, tmp_path: Path, fields: dict[str, Any], accepted: list[tuple[str, str, str, str]]
) -> None:
    """A row moves to the accepted ones if cluster, topic, class and field fit; nothing else counts it."""
    accept(fleet, **fields)
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q") == 0
    rows, others = read_rows(out), read_rows(out, "accepted.jsonl")
    assert row_keys(others) == sorted(accepted)
    assert row_keys(rows) == sorted({*ORDERS, *GUESTS} - {*accepted})
    summary = read_summary(out)
    valid("summary", summary)
    assert summary["findings"]["total"] == summary["trend"][0]["findings"] == len(rows)
    assert sum(one["findings"] for one in summary["byCluster"]) == len(rows)
    assert summary["accepted"]["total"] == sum(summary["accepted"]["byClass"].values()) == len(accepted)
    unmatched = [] if accepted else [{"name": "some", "file": "fleet/some.yaml", "line": 1}]
    assert summary["exceptions"]["unmatched"] == unmatched
    exception = {"name": "some", "file": "fleet/some.yaml", "line": 1, "reason": "moving", "author": "ada"}
    for row in others:
        valid("accepted", row)
        assert row["exception"] == {**exception, "until": "2025-01-31"}
    metrics = (out / "metrics.prom").read_text()
    assert sum(map(int, re.findall(r"^topiarist_drift_accepted_findings.* (\d+)$", metrics, re.M))) == len(accepted)


def test_an_expired_exception_is_a_finding(fleet: Path, tmp_path: Path) -> None:
    """After its last day an exception accepts nothing, and says itself who accepted what and why."""
    accept(fleet, until="2025-01-30")
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q", "--fail-on", "expired") == 4
    assert row_keys(read_rows(out)) == [("", "orders", "expired", "some"), *sorted([*ORDERS, *GUESTS])]
    assert read_rows(out, "accepted.jsonl") == []
    row = read_rows(out)[0]
    valid("finding", row)
    assert row["message"] == "some expired: ada accepted this drift until 2025-01-30: moving"
    assert (row["file"], row["line"], row["severity"]) == ("fleet/some.yaml", 1, "High")
    assert read_summary(out)["exceptions"]["unmatched"] == []
    assert "topiarist_drift_expired_exceptions 1\n" in (out / "metrics.prom").read_text()


def test_accepted_findings_keep_their_age(fleet: Path, tmp_path: Path) -> None:
    """Acceptance resolves nothing, and a finding of an ended exception has the time when it was first seen."""
    out = tmp_path / "report"
    run_drift(fleet, out, "-q")
    accept(fleet)
    take_snapshots(tmp_path, hours=1)
    run_drift(fleet, out, "-q", "--previous", str(out))
    assert (read_summary(out)["findings"]["resolved"], read_summary(out)["findings"]["new"]) == (0, 0)
    assert {row["ageSeconds"] for row in read_rows(out, "accepted.jsonl")} == {3600}
    take_snapshots(tmp_path, hours=24)
    run_drift(fleet, out, "-q", "--previous", str(out))
    ages = {(row["class"], row["status"]): row["ageSeconds"] for row in read_rows(out)}
    old = {(kind, "Unchanged"): 86400 for kind in ("config", "partitions", "unexpected")}
    assert ages == {("expired", "New"): 0, **old}
    assert read_summary(out)["findings"]["resolved"] == 0


def test_the_first_valid_exception_counts(fleet: Path, tmp_path: Path) -> None:
    """Of several exceptions the first by file counts; an expired one does not, and both have matched."""
    accept(fleet, "a", until="2025-01-30")
    accept(fleet, "b", reason="of b")
    accept(fleet, "c", reason="of c")
    run_drift(fleet, tmp_path / "report", "-q")
    accepted = read_rows(tmp_path / "report", "accepted.jsonl")
    assert {row["exception"]["reason"] for row in accepted} == {"of b"}
    assert read_summary(tmp_path / "report")["exceptions"]["unmatched"] == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"until": "2025-02-30"}, "until: found 2025-02-30, wanted a day of the calendar"),
        ({"until": "soon"}, "wanted a day such as"),
        ({"reason": None}, "reason"),
        ({"author": None}, "author"),
        ({"until": None}, "until"),
        ({"classes": None}, "classes"),
        ({"classes": ["unknown"]}, "unknown"),
        ({"topic": "orders"}, "topic"),
    ],
)
def test_an_invalid_exception_is_named(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], message: str
) -> None:
    """``validate`` rejects it with its place; a report goes on without it, and has it as a finding."""
    accept(fleet, **fields)
    assert run(["validate", str(fleet)]) == 1
    said = capsys.readouterr().err
    assert "fleet/some.yaml:1:" in said
    assert message in said
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report"))[0] == ("", "", "invalid", "fleet/some.yaml")
    assert read_rows(tmp_path / "report", "accepted.jsonl") == []


def test_two_exceptions_of_a_name_are_an_error(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second document of the same name is rejected, because reports name exceptions."""
    accept(fleet)
    (fleet / "twice.yaml").write_text((fleet / "some.yaml").read_text())
    assert run(["validate", str(fleet)]) == 1
    assert "DriftException some: another DriftException has the same name" in capsys.readouterr().err


def test_other_commands_ignore_exceptions(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``validate`` accepts a valid exception, and ``plan`` gives the same plan with it as without."""
    words = ["plan", str(fleet), "--cluster", "eu", "--snapshot", str(tmp_path / "snapshots" / "eu.jsonl")]
    assert run(words) == 0
    before = capsys.readouterr()
    accept(fleet)
    assert run(["validate", str(fleet)]) == 0
    capsys.readouterr()
    assert run(words) == 0
    assert capsys.readouterr() == before


def test_a_branch_does_not_accept_its_own_drift(fleet: Path, tmp_path: Path) -> None:
    """With ``--platform`` only the exceptions of its paths count, and exceptions alone restrict no run."""
    accept(fleet)
    (tmp_path / "platform").mkdir()
    (fleet / "all.yaml").rename(tmp_path / "platform" / "all.yaml")
    (fleet / "orders.yaml").write_text(topic_document("orders", BOTH))
    run_drift(fleet, tmp_path / "report", "-q", "--platform", "platform")
    assert read_rows(tmp_path / "report", "accepted.jsonl") == []
    accept(Path("platform"))
    run_drift(fleet, tmp_path / "report", "-q", "--platform", "platform")
    assert len(read_rows(tmp_path / "report", "accepted.jsonl")) == 2
    (tmp_path / "platform" / "all.yaml").unlink()
    assert run_drift(fleet, tmp_path / "report", "-q", "--platform", "platform") == 2
