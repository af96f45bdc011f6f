"""Invalid manifests in a drift report: each is a finding, and the report of everything else goes on."""

from __future__ import annotations

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
from topiarist.model.state import TopicState
from topiarist.schema import load

BOTH = ["eu", "us"]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of two clusters: one topic is missing, and two are undeclared."""
    monkeypatch.chdir(tmp_path)
    for name in BOTH:
        topics = (owned_topic("clicks"), owned_topic("orders"), TopicState("guest", "9", REPLICA_LISTS))
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    write_manifests(tmp_path / "fleet", BOTH, *(topic_document(name, BOTH) for name in ("clicks", "users")))
    return Path("fleet")


def add(fleet: Path, name: str, text: str) -> None:
    """Write another file of manifests."""
    (fleet / name).write_text(text)


def invalid_rows(out: Path) -> list[dict[str, Any]]:
    """Return the rows of class ``invalid``."""
    return [row for row in read_rows(out) if row["class"] == "invalid"]


OTHERS = [
    (cluster, topic, kind, "") for cluster in BOTH for topic, kind in (("guest", "unexpected"), ("users", "missing"))
]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (topic_document("orders", BOTH, partitions=0), 1, "partitions"),
        (topic_document("orders", BOTH, config={"retention.ms": "x"}), 1, "retention.ms"),
        (topic_document("orders", ["asia"]), 1, "there is no Cluster asia"),
        ("apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: orders}\nspec: {size: 3}\n", 4, "size"),
    ],
)
def test_an_invalid_topic_is_a_finding_and_no_other(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, message: str
) -> None:
    """The errors of a topic are a finding with its name and place; on the clusters the topic is not judged."""
    add(fleet, "orders.yaml", text)
    out = tmp_path / "report"
    assert run_drift(fleet, out) == 1
    assert row_keys(read_rows(out)) == [("", "orders", "invalid", ""), *OTHERS]
    (row,) = invalid_rows(out)
    assert (row["file"], row["line"], row["manifest"]) == ("fleet/orders.yaml", line, "orders")
    assert (row["severity"], row["command"]) == ("High", "topiarist validate fleet/orders.yaml")
    assert message in row["message"]
    assert f"fleet/orders.yaml:{line}:" in capsys.readouterr().err
    definitions = load.load_schema("drift")["definitions"]
    Draft7Validator({**definitions["finding"], "definitions": definitions}).validate(row)
    summary = read_summary(out)
    assert summary["findings"]["byClass"] == {"invalid": 1, "missing": 2, "unexpected": 2}
    assert sum(one["findings"] for one in summary["byCluster"]) == 4
    assert "topiarist_drift_invalid_manifests 1\n" in (out / "metrics.prom").read_text()
    assert "1 invalid manifest could not be compared" in (out / "summary.md").read_text()
    assert '"invalid"' in (out / "report.html").read_text()


def test_a_file_that_is_no_yaml_hides_its_topics_only(fleet: Path, tmp_path: Path) -> None:
    """A file that cannot be read is one finding with its line, and topics that its text names are not undeclared."""
    add(fleet, "orders.yaml", "kind: Topic\nmetadata:\n  name: some\nspec:\n  topicName: orders\n  config: {a: b\n")
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("", "", "invalid", "fleet/orders.yaml"), *OTHERS]
    (row,) = invalid_rows(tmp_path / "report")
    assert (row["file"], row["manifest"]) == ("fleet/orders.yaml", None)
    assert row["line"] >= 6


def test_several_errors_of_a_document_are_one_finding(fleet: Path, tmp_path: Path) -> None:
    """A document has one finding with the lines of all its errors; another document has its own."""
    first = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: orders}\nspec:\n  size: 3\n  partitions: 0\n"
    add(fleet, "orders.yaml", f"{first}---\n{topic_document('others', BOTH, partitions=0)}")
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    one, other = invalid_rows(tmp_path / "report")
    assert (one["topic"], one["line"], other["topic"], other["line"]) == ("orders", 5, "others", 8)
    assert "line 5: " in one["message"]
    assert "; line 6: " in one["message"]


def test_an_invalid_cluster_is_left_out(fleet: Path, tmp_path: Path) -> None:
    """Only the cluster with an invalid document is not compared; its earlier findings are neither new nor resolved."""
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q") == 0
    text = (fleet / "all.yaml").read_text()
    eu = document("Cluster", "eu", kafkaVersion="3.9")
    assert eu in text
    (fleet / "all.yaml").write_text(text.replace(eu, eu.replace("kafkaVersion", "kafkaRelease")))
    assert run_drift(fleet, out, "-q", "--previous", str(out)) == 1
    found = [("eu", "", "invalid", ""), ("us", "guest", "unexpected", ""), ("us", "orders", "orphaned", "")]
    assert row_keys(read_rows(out)) == [*found, ("us", "users", "missing", "")]
    assert {row["cluster"] for row in read_rows(out, "not-evaluated.jsonl")} == {"eu"}
    assert [one["cluster"] for one in read_summary(out)["byCluster"]] == ["us"]
    assert read_summary(out)["findings"]["resolved"] == 0


def test_topics_without_a_cluster_are_not_judged_beside_an_invalid_one(fleet: Path, tmp_path: Path) -> None:
    """A topic that names no cluster may be meant for the invalid one, so that it is not undeclared on the other."""
    add(fleet, "orders.yaml", document("Topic", "orders", partitions=3, replicationFactor=2))
    text = (fleet / "all.yaml").read_text()
    eu = document("Cluster", "eu", kafkaVersion="3.9")
    (fleet / "all.yaml").write_text(text.replace(eu, eu.replace("kafkaVersion", "kafkaRelease")))
    run_drift(fleet, tmp_path / "report", "-q")
    assert "orders" not in {row["topic"] for row in read_rows(tmp_path / "report")}


def test_a_second_document_of_a_name_is_left_out(fleet: Path, tmp_path: Path) -> None:
    """Of two documents of one topic the first is compared, and the second is a finding."""
    add(fleet, "second.yaml", topic_document("clicks", BOTH, partitions=9))
    assert run_drift(fleet, tmp_path / "report", "-q") == 1
    (row,) = invalid_rows(tmp_path / "report")
    assert (row["topic"], "another Topic has the same name" in row["message"]) == ("clicks", True)
    assert {row["file"] for row in read_rows(tmp_path / "report") if row["topic"] == "clicks"} == {"fleet/second.yaml"}


def test_a_fixed_manifest_is_resolved(fleet: Path, tmp_path: Path) -> None:
    """While a manifest is invalid its earlier findings are kept; when it is valid again they have their age."""
    out = tmp_path / "report"
    add(fleet, "orders.yaml", topic_document("orders", BOTH, partitions=5))
    run_drift(fleet, out, "-q")
    add(fleet, "orders.yaml", topic_document("orders", BOTH, partitions=0))
    run_drift(fleet, out, "-q", "--previous", str(out))
    kept = [(name, "orders", "partitions", "partitions") for name in BOTH]
    assert row_keys(read_rows(out, "not-evaluated.jsonl")) == kept
    assert (read_summary(out)["findings"]["resolved"], read_summary(out)["findings"]["notEvaluated"]) == (0, 2)
    add(fleet, "orders.yaml", topic_document("orders", BOTH, partitions=5))
    assert run_drift(fleet, out, "-q", "--previous", str(out)) == 0
    statuses = {row["topic"]: row["status"] for row in read_rows(out)}
    assert statuses == {"guest": "Unchanged", "orders": "Unchanged", "users": "Unchanged"}
    assert read_summary(out)["findings"]["resolved"] == 1  # the finding of the manifest


def test_a_run_without_a_valid_cluster_ends(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a valid Cluster document there is nothing to compare: the run ends with the errors, and no report."""
    add(fleet, "all.yaml", document("Cluster", "eu", kafkaRelease="3.9"))
    assert run_drift(fleet, tmp_path / "report") == 1
    assert "kafkaRelease" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
