"""Rows of findings: their place in the manifests, links, who is responsible, and severity."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.drift.small_fleet import (
    REPLICA_LISTS,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    run_drift,
    write_snapshot,
)
from topiarist.drift.findings.finding import DriftClass, DriftFinding, PlannedAction
from topiarist.drift.findings.rows import find_link_problem, make_row
from topiarist.drift.findings.severity import Severity, find_severity
from topiarist.model.plan import Risk
from topiarist.model.state import TopicState

CLUSTERS = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata:
  name: eu
  labels: {team: platform}
spec:
  kafkaVersion: "3.9"
  defaults:
    config: {segment.ms: 5}
---
apiVersion: topiarist.dev/v1
kind: Cluster
metadata:
  name: us
spec:
  kafkaVersion: "3.9"
"""

TOPICS = """\
# Topics of the shop.
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: orders
  namespace: shop
  labels:
    team: checkout
spec:
  clusters: [eu, us]
  partitions: 3
  replicationFactor: 2
  config:
    retention.ms: 8
  overrides:
    - clusters: [us]
      config:
        retention.ms: 9
---
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: clicks
spec:
  clusters: [eu, us]
  partitions: 3
  replicationFactor: 2
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of two clusters on which topics differ in fields of the manifests and in others."""
    monkeypatch.chdir(tmp_path)
    manifests = tmp_path / "fleet"
    manifests.mkdir()
    (manifests / "clusters.yaml").write_text(CLUSTERS)
    (manifests / "the topics.yaml").write_text(TOPICS)
    for name in ("eu", "us"):
        topics = (
            owned_topic("orders", {"retention.ms": "7"}, replicas=REPLICA_LISTS[:2]),
            TopicState("guest", "9", REPLICA_LISTS),
        )
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    return Path("fleet")


def rows_by_key(out: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the rows of a report by cluster, topic and field."""
    return {(row["cluster"], row["topic"], row["field"]): row for row in read_rows(out)}


def test_a_row_has_the_place_of_its_field_in_the_manifest(fleet: Path, tmp_path: Path) -> None:
    """The line is that of the field, also in an override, and that of the document for a field it does not have."""
    run_drift(fleet, tmp_path / "report", "-q")
    found = rows_by_key(tmp_path / "report")
    file = "fleet/the topics.yaml"
    places = {key: (row["manifest"], row["file"], row["line"]) for key, row in found.items()}
    assert places == {
        ("eu", "orders", "partitions"): ("shop/orders", file, 11),
        ("eu", "orders", "config.retention.ms"): ("shop/orders", file, 14),
        ("eu", "orders", "config.segment.ms"): ("shop/orders", file, 2),
        ("us", "orders", "partitions"): ("shop/orders", file, 11),
        ("us", "orders", "config.retention.ms"): ("shop/orders", file, 18),
        ("eu", "clicks", ""): ("clicks", file, 20),
        ("us", "clicks", ""): ("clicks", file, 20),
        ("eu", "guest", ""): (None, None, None),
        ("us", "guest", ""): (None, None, None),
    }
    assert {row["link"] for row in found.values()} == {None}


def test_a_link_leads_to_the_line(fleet: Path, tmp_path: Path) -> None:
    """The link template gets the values of the row, percent-encoded; a topic without a manifest has no link."""
    template = "https://github.com/blob/main/{file}#L{line}?{topic}@{cluster}"
    run_drift(fleet, tmp_path / "report", "-q", "--link-template", template)
    found = rows_by_key(tmp_path / "report")
    link = "https://github.com/blob/main/fleet/the%20topics.yaml#L18?orders@us"
    assert found["us", "orders", "config.retention.ms"]["link"] == link
    assert found["us", "guest", ""]["link"] is None


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("https://github.com/{file}#L{line}", ""),
        ("", ""),
        ("{path}", "{path}"),
        ("{file}{", "{"),
        ("{file}}", "}"),
        ("{}", "{}"),
        ("{file!r}", "{file!r}"),
    ],
)
def test_a_template_has_known_fields_only(template: str, problem: str) -> None:
    """Any other text in braces is an error that names it."""
    assert find_link_problem(template) == problem


def test_a_wrong_template_is_a_usage_error(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run ends before it reads anything, and names the fields that a template may have."""
    assert run_drift(fleet, tmp_path / "report", "--link-template", "https://github.com/{path}") == 2
    assert 'found "{path}", wanted only {file}, {line}, {cluster}, {topic} in braces' in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_the_responsible_team_is_that_of_the_nearest_label(fleet: Path, tmp_path: Path) -> None:
    """The label of the topic comes before that of the cluster, and both before the owner in the ownership record."""
    run_drift(fleet, tmp_path / "report", "-q", "--owner-label", "team")
    teams = {key[:2]: row["responsible"] for key, row in rows_by_key(tmp_path / "report").items()}
    assert teams == {
        ("eu", "orders"): "checkout",
        ("us", "orders"): "checkout",
        ("eu", "clicks"): "platform",
        ("us", "clicks"): None,
        ("eu", "guest"): "platform",
        ("us", "guest"): None,
    }
    run_drift(fleet, tmp_path / "report", "-q")
    owners = {key[:2]: row["responsible"] for key, row in rows_by_key(tmp_path / "report").items()}
    assert owners == {key: "default" if key[1] == "orders" else None for key in teams}


def test_the_summary_counts_by_severity_and_responsible(fleet: Path, tmp_path: Path) -> None:
    """The counts are those of the rows, the most severe first, and new findings are counted for each team."""
    out = tmp_path / "report"
    run_drift(fleet, out, "-q", "--owner-label", "team", "--cluster", "us")
    run_drift(fleet, out, "-q", "--owner-label", "team", "--previous", str(out))
    rows, summary = read_rows(out), read_summary(out)
    order = [each.value for each in Severity]
    counts = Counter(row["severity"] for row in rows)
    assert [*summary["bySeverity"].items()] == [(each, counts[each]) for each in order if counts[each]]
    assert len(counts) > 2
    assert [one["responsible"] for one in summary["byResponsible"]] == ["checkout", None, "platform"]
    for one in summary["byResponsible"]:
        own = [row for row in rows if row["responsible"] == one["responsible"]]
        assert one["findings"] == len(own)
        assert one["new"] == sum(row["status"] == "New" for row in own)
        assert one["byClass"] == dict(sorted(Counter(row["class"] for row in own).items()))
        assert one["bySeverity"] == dict(Counter(row["severity"] for row in own))
    assert {one["responsible"]: one["new"] for one in summary["byResponsible"]} == {
        "checkout": 3,
        None: 0,
        "platform": 2,
    }


def test_the_oldest_finding_is_named(fleet: Path, tmp_path: Path) -> None:
    """The oldest finding was first seen earliest; the first of the report wins among equals."""
    out = tmp_path / "report"
    run_drift(fleet, out, "-q", "--cluster", "us")
    clicks = TopicState("clicks", "9", REPLICA_LISTS)
    for name in ("eu", "us"):
        write_snapshot(
            tmp_path / "snapshots", name, cluster_state(name, clicks, TopicState("guest", "9", REPLICA_LISTS)), hours=5
        )
    run_drift(fleet, out, "-q", "--previous", str(out))
    wanted = {"firstSeen": "2025-01-31T12:00:00Z", "cluster": "us", "topic": "guest", "class": "unexpected"}
    assert read_summary(out)["oldestFinding"] == wanted
    assert "The oldest, unexpected of `guest` on `us`, was first seen at" in (out / "summary.md").read_text()


@pytest.mark.parametrize(
    ("cluster", "topic", "kind", "command"),
    [
        ("prod", "orders", DriftClass.CONFIG, "topiarist describe orders --cluster prod"),
        ("", "orders", DriftClass.CONFIG, "topiarist describe orders"),
        ("prod", "-x", DriftClass.CONFIG, "topiarist describe --cluster prod -- -x"),
        ("prod", "a b;c", DriftClass.CONFIG, "topiarist describe 'a b;c' --cluster prod"),
        ("prod", "", DriftClass.UNKNOWN, "topiarist list --cluster prod"),
        ("prod", "", DriftClass.THROTTLE, "topiarist moves --cluster prod"),
    ],
)
def test_the_command_shows_the_finding(cluster: str, topic: str, kind: DriftClass, command: str) -> None:
    """The command is quoted for a shell, and a topic that begins with a dash is no option."""
    assert make_row(cluster, topic, DriftFinding(kind), "2025-01-31T12:00:00Z")["command"] == command


CRITICAL = {"missing", "stuck"}
HIGH = {"refused", "unknown", "invalid", "expired"}


@pytest.mark.parametrize("drift_class", DriftClass)
def test_a_class_has_a_least_severity(drift_class: DriftClass) -> None:
    """What is missing or stuck is critical and what cannot be judged is high; others depend on the plan."""
    found = find_severity(DriftFinding(drift_class))
    name = drift_class.value
    assert found is (Severity.CRITICAL if name in CRITICAL else Severity.HIGH if name in HIGH else Severity.LOW)
    assert find_severity(DriftFinding(drift_class, risk=Risk.DATA_LOSS)) is Severity.CRITICAL


@pytest.mark.parametrize(
    ("planned", "risk", "severity"),
    [
        (PlannedAction.CHANGE, Risk.SAFE, Severity.MEDIUM),
        (PlannedAction.CHANGE, Risk.DISRUPTIVE, Severity.HIGH),
        (PlannedAction.REFUSED, Risk.SAFE, Severity.HIGH),
        (PlannedAction.REFUSED, Risk.DATA_LOSS, Severity.CRITICAL),
        (PlannedAction.REFUSED, None, Severity.HIGH),
    ],
)
def test_what_a_plan_does_decides_the_rest(planned: PlannedAction, risk: Risk | None, severity: Severity) -> None:
    """A change is of medium severity, a disruption and a refusal are high, a loss is critical."""
    finding = DriftFinding(DriftClass.CONFIG, planned=planned, risk=risk)
    assert find_severity(finding) is severity
    assert make_row("eu", "orders", finding, "2025-01-31T12:00:00Z")["severity"] == severity.value


def test_the_most_severe_comes_first() -> None:
    """The order of severities is that of summaries."""
    assert [each.value for each in Severity] == ["Critical", "High", "Medium", "Low"]
