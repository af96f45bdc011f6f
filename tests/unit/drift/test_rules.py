"""Severity rules: ``DriftPolicy`` documents that raise or lower the severity of findings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift.findings import FindingSelection, Severity
from topiarist.drift.rules import SeverityRule
from topiarist.model.state import TopicState

BOTH = ["eu", "us"]

BY_EFFECT = {
    **{(name, "config.retention.ms"): "Critical" for name in BOTH},
    **{(name, "partitions"): "Medium" for name in BOTH},
    **{(name, "unexpected"): "Low" for name in BOTH},
}
"""The severities of the fleet without a rule, by cluster and by field or class."""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of a production and a test cluster, with a topic that differs and one without a manifest."""
    monkeypatch.chdir(tmp_path)
    take_snapshots(tmp_path)
    folder = tmp_path / "fleet"
    folder.mkdir()
    clusters = (
        yaml.safe_dump(yaml.safe_load(document("Cluster", name, kafkaVersion="3.9")) | {"metadata": metadata})
        for name, metadata in {
            "eu": {"name": "eu", "labels": {"env": "prod"}},
            "us": {"name": "us", "labels": {"env": "test"}},
        }.items()
    )
    topic = topic_document("orders", BOTH, config={"retention.ms": "604800000"})
    (folder / "all.yaml").write_text("\n---\n".join([*clusters, topic]))
    return Path("fleet")


def take_snapshots(tmp_path: Path, *, hours: int = 0, retention: str = "60000") -> None:
    """Write the snapshots of both clusters."""
    for name in BOTH:
        topics = (
            owned_topic("orders", {"retention.ms": retention}, replicas=REPLICA_LISTS[:2]),
            TopicState("guest", "9", REPLICA_LISTS),
        )
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics), hours=hours)


def rule(name: str = "some", **fields: Any) -> dict[str, Any]:
    """Return a rule that lowers what it is for by one step, unless a severity is given."""
    return {"name": name, "severity": {"lower": 1}} | fields


def decide(fleet: Path, *rules: dict[str, Any], name: str = "severities") -> None:
    """Write a policy with some rules."""
    (fleet / f"{name}.yaml").write_text(yaml.safe_dump(yaml.safe_load(document("DriftPolicy", name, rules=[*rules]))))


def severities(out: Path) -> dict[tuple[str, str], str]:
    """Return the severity of each finding, by cluster and by field or class."""
    return {(row["cluster"], row["field"] or row["class"]): row["severity"] for row in read_rows(out)}


TEST: dict[str, Any] = {"clusterSelector": {"matchLabels": {"env": "test"}}}


@pytest.mark.parametrize(
    ("rules", "changed"),
    [
        ([rule(**TEST)], {("us", "config.retention.ms"): "High", ("us", "partitions"): "Low"}),
        (
            [rule(classes=["partitions"], severity={"raise": 1})],
            dict.fromkeys([(n, "partitions") for n in BOTH], "High"),
        ),
        ([rule(clusters=["e*"], classes=["unexpected"], severity={"atLeast": "High"})], {("eu", "unexpected"): "High"}),
        ([rule(fields=["config.*"], **TEST, severity={"set": "Low"})], {("us", "config.retention.ms"): "Low"}),
        ([rule(topics=["orders"], severity={"atMost": "High"})], {(n, "config.retention.ms"): "High" for n in BOTH}),
        ([rule(topics=["order"])], {}),
        ([rule(clusterSelector={"matchLabels": {"env": "stage"}})], {}),
        ([rule(clusterSelector={"matchLabels": {"env": "test", "zone": "a"}})], {}),
        (
            [rule("first", fields=["partitions"], severity={"set": "Critical"}), rule("second", **TEST)],
            {**dict.fromkeys([(n, "partitions") for n in BOTH], "Critical"), ("us", "config.retention.ms"): "High"},
        ),
    ],
)
def test_the_first_rule_that_fits_decides(
    fleet: Path, tmp_path: Path, rules: list[dict[str, Any]], changed: dict[tuple[str, str], str]
) -> None:
    """A rule is for findings that fit all that it names; the first decides alone, and every number follows it."""
    decide(fleet, *rules)
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q") == 0
    expected = BY_EFFECT | changed
    assert severities(out) == expected
    for row in read_rows(out):
        key = (row["cluster"], row["field"] or row["class"])
        found = row["severityRule"]
        assert (found is not None) == (key in changed)
        if found:
            assert (found["from"], found["policy"], found["file"]) == (
                BY_EFFECT[key],
                "severities",
                "fleet/severities.yaml",
            )
            assert found["rule"] in {each["name"] for each in rules}
            text = (fleet / "severities.yaml").read_text().splitlines()[found["line"] - 1]
            assert text.lstrip().startswith("- ")
    summary = read_summary(out)
    assert summary["bySeverity"] == Counter(expected.values())
    assert sum((Counter(team["bySeverity"]) for team in summary["byResponsible"]), Counter()) == Counter(
        expected.values()
    )
    order = [each.value for each in Severity]
    causes = [one["severity"] for one in summary["causes"]["first"]]
    assert causes == sorted(causes, key=order.index)
    assert causes[0] == min(expected.values(), key=order.index)
    metrics = (out / "metrics.prom").read_text()
    for severity in order:
        number = [*expected.values()].count(severity)
        assert f'topiarist_drift_findings_by_severity{{severity="{severity}"}} {number}\n' in metrics
    check_schema("finding", *read_rows(out))


def test_a_cluster_that_was_not_read_has_a_severity_by_rule(fleet: Path, tmp_path: Path) -> None:
    """The finding of a cluster as a whole has the labels of its document too."""
    (tmp_path / "snapshots" / "us.jsonl").unlink()
    decide(fleet, rule(classes=["unknown"], **TEST, severity={"set": "Low"}))
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    assert severities(tmp_path / "report")["us", "unknown"] == "Low"


def test_the_exit_code_follows_the_rules(fleet: Path, tmp_path: Path) -> None:
    """``--fail-on`` with a severity ends with 4 for findings of this severity or a more severe one, after the rules."""
    out = tmp_path / "report"
    decide(fleet, rule(clusters=["*"], severity={"atMost": "Medium"}))
    assert run_drift(fleet, out, "-q", "--fail-on", "High") == 0
    assert run_drift(fleet, out, "-q", "--fail-on", "medium") == 4
    assert run_drift(fleet, out, "-q", "--fail-on", "Low") == 4
    (fleet / "severities.yaml").unlink()
    assert run_drift(fleet, out, "-q", "--fail-on", "High") == 4


def test_a_rule_makes_no_finding_worse(fleet: Path, tmp_path: Path) -> None:
    """A new rule changes the severity, and no status; a worse value is worse whatever the rules say."""
    out = tmp_path / "report"
    decide(fleet, rule(clusters=["*"], severity={"set": "Low"}))
    run_drift(fleet, out, "-q")
    (fleet / "severities.yaml").unlink()
    take_snapshots(tmp_path, hours=1)
    run_drift(fleet, out, "-q", "--previous", str(out))
    assert {row["status"] for row in read_rows(out)} == {"Unchanged"}
    decide(fleet, rule(clusters=["*"], severity={"set": "Low"}))
    take_snapshots(tmp_path, hours=2, retention="30000")
    run_drift(fleet, out, "-q", "--previous", str(out))
    assert {row["field"] for row in read_rows(out) if row["status"] == "Worse"} == {"config.retention.ms"}


def test_a_branch_does_not_lower_its_own_findings(fleet: Path, tmp_path: Path) -> None:
    """With ``--platform`` only the policies of its paths count."""
    decide(fleet, rule(clusters=["*"], severity={"set": "Low"}))
    (tmp_path / "platform").mkdir()
    documents = (fleet / "all.yaml").read_text().split("\n---\n")
    (tmp_path / "platform" / "all.yaml").write_text("\n---\n".join(documents[:2]))
    (fleet / "all.yaml").write_text(documents[2])
    run_drift(fleet, tmp_path / "report", "-q", "--platform", "platform")
    assert severities(tmp_path / "report") == BY_EFFECT
    decide(Path("platform"), rule(clusters=["*"], severity={"set": "High"}))
    run_drift(fleet, tmp_path / "report", "-q", "--platform", "platform")
    assert set(severities(tmp_path / "report").values()) == {"High"}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([rule()], "found neither clusters nor clusterSelector nor topics nor classes nor fields, wanted one of them"),
        ([rule(fields=[])], "fields"),
        ([rule(clusterSelector={"matchLabels": {}})], "matchLabels"),
        ([rule(clusterSelector={})], "matchLabels"),
        ([rule(classes=["confg"])], "did you mean config?"),
        (
            [rule(fields=["partitions", "retention.ms"])],
            'yaml:9:7: error: fields: found "retention.ms", wanted a field',
        ),
        ([rule(fields=["retention.ms"])], "; did you mean config.retention.ms?"),
        (
            [rule(fields=["size"])],
            'found "size", wanted a field of findings; such as partitions or config.retention.ms',
        ),
        ([rule(fields=["config.retention.sm"])], "did you mean config.retention.ms?"),
        ([rule(clusters=["*"], severity={})], "severity"),
        ([rule(clusters=["*"], severity={"set": "Low", "raise": 1})], "severity"),
        ([rule(clusters=["*"], severity={"set": "Lowest"})], "wanted Critical, High, Medium or Low"),
        ([rule(clusters=["*"], severity={"raise": 0})], "raise"),
        ([rule(clusters=["*"], team="shop")], "team"),
        (
            [rule(clusters=["*"]), rule(clusters=["eu"])],
            "yaml:14:11: error: name: another rule of the policy is called some; rename one of them",
        ),
        ([], "rules"),
    ],
)
def test_an_invalid_rule_is_named(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: list[dict[str, Any]], message: str
) -> None:
    """``validate`` rejects it with its place; a report goes on without the policy, and has it as a finding."""
    decide(fleet, *rules)
    assert run(["validate", str(fleet)]) == 1
    found = capsys.readouterr().err
    assert re.match(r"fleet/severities\.yaml:[1-9]\d*:[1-9]\d*: error: ", found)
    assert message in found.replace("\n    ", "; ")
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    (row,) = (row for row in read_rows(tmp_path / "report") if row["class"] == "invalid")
    assert row["file"] == "fleet/severities.yaml"
    rest = {key: value for key, value in severities(tmp_path / "report").items() if key[0]}
    assert rest == BY_EFFECT


def test_patterns_and_keys_of_vendors_are_fields(fleet: Path) -> None:
    """A pattern with wildcards, a part of the size, and a key that a Cluster allows are fields of findings."""
    text = (fleet / "all.yaml").read_text()
    (fleet / "all.yaml").write_text(
        text.replace("kafkaVersion: '3.9'", "kafkaVersion: '3.9'\n  allowUnknownConfigs: [acme.*]")
    )
    decide(fleet, rule(fields=["config.*", "config.acme.tier", "repl*", "config.unclean*", "partitions", "config"]))
    assert run(["validate", str(fleet)]) == 0


def test_two_policies_of_a_name_are_an_error(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second policy of the same name is rejected, because findings name it; an exception may have its name."""
    decide(fleet, rule(clusters=["*"]))
    (fleet / "twice.yaml").write_text((fleet / "severities.yaml").read_text())
    assert run(["validate", str(fleet)]) == 1
    assert "DriftPolicy severities: another DriftPolicy has the same name" in capsys.readouterr().err
    fields = {"topics": ["a"], "classes": ["config"], "reason": "r", "author": "a", "until": "2025-01-31"}
    (fleet / "twice.yaml").write_text(document("DriftException", "severities", **fields))
    assert run(["validate", str(fleet)]) == 0


def test_policies_are_in_order_of_file_and_line(fleet: Path, tmp_path: Path) -> None:
    """Of rules in two files, that of the first file by name decides."""
    decide(fleet, rule(clusters=["*"], severity={"set": "High"}), name="b")
    decide(fleet, rule(clusters=["*"], severity={"set": "Medium"}), name="a")
    run_drift(fleet, tmp_path / "report", "-q")
    assert set(severities(tmp_path / "report").values()) == {"Medium"}


@pytest.mark.parametrize(
    ("action", "value", "decided"),
    [
        ("set", "High", "High High High High"),
        ("atLeast", "High", "Critical High High High"),
        ("atMost", "High", "High High Medium Low"),
        ("raise", 1, "Critical Critical High Medium"),
        ("raise", 3, "Critical Critical Critical Critical"),
        ("lower", 1, "High Medium Low Low"),
        ("lower", 3, "Low Low Low Low"),
    ],
)
def test_each_action_has_its_severity(action: str, value: str | int, decided: str) -> None:
    """Each action gives each severity its own; no step leads beyond the ends."""
    made = SeverityRule("p", "r", "f", 1, FindingSelection(), {}, action, value)
    assert " ".join(made.decide(each).value for each in Severity) == decided
