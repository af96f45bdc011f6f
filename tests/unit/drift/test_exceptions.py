"""Accepted drift, and invalid manifests."""

from __future__ import annotations

import re
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
    row_keys,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.adapters.manifests.source import MAX_ERRORS
from topiarist.cli.main import run
from topiarist.model.state import TopicState

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
    check_schema("summary", summary)
    assert summary["findings"]["total"] == summary["trend"][0]["findings"] == len(rows)
    assert sum(one["findings"] for one in summary["byCluster"]) == len(rows)
    assert summary["accepted"]["total"] == sum(summary["accepted"]["byClass"].values()) == len(accepted)
    unmatched = [] if accepted else [{"name": "some", "file": "fleet/some.yaml", "line": 1}]
    assert summary["exceptions"]["unmatched"] == unmatched
    exception = {"name": "some", "file": "fleet/some.yaml", "line": 1, "reason": "moving", "author": "ada"}
    check_schema("accepted", *others)
    for row in others:
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
    check_schema("finding", row)
    assert row["message"] == "some expired: ada accepted this drift until 2025-01-30: moving"
    assert (row["file"], row["line"], row["severity"]) == ("fleet/some.yaml", 1, "High")
    assert read_summary(out)["exceptions"]["unmatched"] == []
    assert "topiarist_drift_expired_exceptions 1\n" in (out / "metrics.prom").read_text()


def test_an_exception_accepts_no_finding_about_a_document(fleet: Path, tmp_path: Path) -> None:
    """A valid exception for all of a topic leaves the finding that another one of this topic has expired."""
    accept(fleet, "old", until="2025-01-30")
    accept(fleet, "whole", classes=None, fields=["*"], until="2025-02-28")
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q") == 0
    assert row_keys(read_rows(out)) == [("", "orders", "expired", "old"), *GUESTS]
    assert row_keys(read_rows(out, "accepted.jsonl")) == ORDERS


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


@pytest.mark.parametrize("option", ["--previous", "--history"])
def test_accepted_days_do_not_count_into_the_time_to_repair(fleet: Path, tmp_path: Path, option: str) -> None:
    """A finding that was accepted for a time and then repaired took as long to repair as it was not accepted."""
    out, hour = tmp_path / "report", 3600
    place = str(out) if option == "--previous" else str(tmp_path / "history")
    run_drift(fleet, out, "-q", option, place)
    accept(fleet, until="2025-02-01")
    for hours in (2, 5, 24):
        take_snapshots(tmp_path, hours=hours)
        run_drift(fleet, out, "-q", option, place)
    assert {row["acceptedSeconds"] for row in read_rows(out, "accepted.jsonl")} == {22 * hour}
    take_snapshots(tmp_path, hours=48)  # the day after the last
    run_drift(fleet, out, "-q", option, place)
    (found,) = {row["acceptedSeconds"] for row in read_rows(out) if row["class"] == "config"}
    assert found == 46 * hour
    for name in BOTH:
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, owned_topic("orders")), hours=49)
    run_drift(fleet, out, "-q", option, place)
    if option == "--history":
        repairs = read_summary(out)["timeToRepair"]["byClass"]
        assert repairs["config"] == {"resolved": 2, "medianSeconds": 3 * hour}
        assert repairs["unexpected"] == {"resolved": 2, "medianSeconds": 49 * hour}
        for name in BOTH:
            write_snapshot(tmp_path / "snapshots", name, cluster_state(name, owned_topic("orders")), hours=50)
        run_drift(fleet, out, "-q", option, place)
        assert read_summary(out)["timeToRepair"]["byClass"]["config"] == repairs["config"]


@pytest.mark.parametrize("topics", [["orders"], ["o*", "x"]], ids=["name", "pattern"])
def test_the_first_valid_exception_counts(fleet: Path, tmp_path: Path, topics: list[str]) -> None:
    """Of several exceptions the first by file counts; an expired one does not, and all have matched."""
    accept(fleet, "a", until="2025-01-30")
    accept(fleet, "b", reason="of b", topics=topics)
    accept(fleet, "c", reason="of c", topics=["orders", "orders"])
    accept(fleet, "d", reason="of d", topics=["*"])
    run_drift(fleet, tmp_path / "report", "-q")
    accepted = read_rows(tmp_path / "report", "accepted.jsonl")
    assert {row["exception"]["reason"] for row in accepted} == {"of b"}
    assert read_summary(tmp_path / "report")["exceptions"]["unmatched"] == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"until": "2025-02-30"}, "until: found 2025-02-30, wanted a day of the calendar"),
        ({"until": "soon"}, 'spec.until: found "soon", wanted a day such as "2026-01-31"'),
        ({"reason": None}, "spec.reason: this required field is missing"),
        ({"author": None}, "spec.author: this required field is missing"),
        ({"until": None}, "spec.until: this required field is missing"),
        ({"classes": None}, "spec: found neither classes nor fields, wanted one of them"),
        ({"classes": ["unknown"]}, 'spec.classes[0]: found "unknown", wanted missing, unexpected'),
        ({"topic": "orders"}, "spec.topic: found an unknown field"),
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


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of two clusters: one topic is missing, and two are undeclared."""
    monkeypatch.chdir(tmp_path)
    for name in BOTH:
        topics = (owned_topic("clicks"), owned_topic("orders"), TopicState("guest", "9", REPLICA_LISTS))
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    write_manifests(tmp_path / "fleet", BOTH, *(topic_document(name, BOTH) for name in ("clicks", "users")))
    return Path("fleet")


def add(fresh: Path, name: str, text: str) -> None:
    """Write another file of manifests."""
    (fresh / name).write_text(text)


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
    fresh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, message: str
) -> None:
    """The errors of a topic are a finding with its name and place; on the clusters the topic is not judged."""
    add(fresh, "orders.yaml", text)
    out = tmp_path / "report"
    assert run_drift(fresh, out) == 1
    assert row_keys(read_rows(out)) == [("", "orders", "invalid", ""), *OTHERS]
    (row,) = invalid_rows(out)
    assert (row["file"], row["line"], row["manifest"]) == ("fleet/orders.yaml", line, "orders")
    assert (row["severity"], row["command"]) == ("High", "topiarist validate fleet")
    assert message in row["message"]
    assert f"fleet/orders.yaml:{line}:" in capsys.readouterr().err
    check_schema("finding", row)
    summary = read_summary(out)
    assert summary["findings"]["byClass"] == {"invalid": 1, "missing": 2, "unexpected": 2}
    assert sum(one["findings"] for one in summary["byCluster"]) == 4
    assert "topiarist_drift_invalid_manifests 1\n" in (out / "metrics.prom").read_text()
    assert "1 invalid manifest could not be compared" in (out / "summary.md").read_text()
    assert '"invalid"' in (out / "report.html").read_text()


def test_a_file_that_is_no_yaml_hides_its_topics_only(fresh: Path, tmp_path: Path) -> None:
    """A file that cannot be read is one finding with its line, and topics that its text names are not undeclared."""
    add(fresh, "orders.yaml", "kind: Topic\nmetadata:\n  name: some\nspec:\n  topicName: orders\n  config: {a: b\n")
    assert run_drift(fresh, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("", "", "invalid", "fleet/orders.yaml"), *OTHERS]
    (row,) = invalid_rows(tmp_path / "report")
    assert (row["file"], row["manifest"]) == ("fleet/orders.yaml", None)
    assert row["line"] >= 6


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ('"apiVersion": "topiarist.dev/v1", ', ""),
        ('"kind": "Topic", ', ""),
        ('"kind": "Topic"', '"kind": "Topc"'),
        ('"name": ', '"nam": '),
        ('"metadata"', '"metadat"'),
        ("utf-8", "utf-16"),
    ],
)
def test_a_document_that_hides_its_name_hides_its_topic_only(
    fresh: Path, tmp_path: Path, found: str, wrong: str
) -> None:
    """A typing error in the fields that name a topic does not make the topic an undeclared one."""
    text = topic_document("orders", BOTH)
    assert wrong == "utf-16" or found in text
    (tmp_path / "fleet" / "orders.yaml").write_bytes(
        text.encode("utf-16") if wrong == "utf-16" else text.replace(found, wrong).encode()
    )
    assert run_drift(fresh, tmp_path / "report", "-q") == 1
    assert row_keys(read_rows(tmp_path / "report")) == [("", "", "invalid", "fleet/orders.yaml"), *OTHERS]


def test_manifests_that_cannot_be_read_end_the_run(
    fresh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is known of their names, nor of those in encrypted files: all topics would be undeclared."""
    file = tmp_path / "fleet" / "orders.yaml"
    file.symlink_to("nowhere")
    assert run_drift(fresh, tmp_path / "report", "-q") == 1
    assert "fleet/orders.yaml: error: found a broken symbolic link" in capsys.readouterr().err
    file.unlink()
    for data in (b"\0GITCRYPT\0\xe5\xff\x01", topic_document("orders", BOTH).encode("utf-16-le")):
        file.write_bytes(data)
        assert run_drift(fresh, tmp_path / "report", "-q") == 1
        assert "fleet/orders.yaml:1:" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_a_run_without_a_cluster_ends(fresh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No snapshot is that of the unnamed cluster, so no report says that it was not read."""
    (fresh / "empty").mkdir()
    assert run_drift(fresh / "empty", tmp_path / "report", "-q") == 2
    assert "Error: found no Cluster document, and no snapshot of" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_several_errors_of_a_document_are_one_finding(fresh: Path, tmp_path: Path) -> None:
    """A document has one finding with the lines of all its errors; another document has its own."""
    first = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: orders}\nspec:\n  size: 3\n  partitions: 0\n"
    add(fresh, "orders.yaml", f"{first}---\n{topic_document('others', BOTH, partitions=0)}")
    assert run_drift(fresh, tmp_path / "report", "-q") == 1
    one, other = invalid_rows(tmp_path / "report")
    assert (one["topic"], one["line"], other["topic"], other["line"]) == ("orders", 5, "others", 8)
    assert "line 5: " in one["message"]
    assert "; line 6: " in one["message"]


def test_an_error_that_is_not_shown_leaves_no_empty_finding(fresh: Path, tmp_path: Path) -> None:
    """A file with too many errors shows the first; a document after them has a finding that says so."""
    names = [f"t{number:03}" for number in range(MAX_ERRORS + 1)]
    add(fresh, "many.yaml", "\n---\n".join(topic_document(name, BOTH, partitions=0) for name in names))
    assert run_drift(fresh, tmp_path / "report", "-q") == 1
    messages = [row["message"] for row in invalid_rows(tmp_path / "report")]
    assert len(messages) == len(names)
    assert messages[-1].startswith("has errors, which are not shown")
    assert len({*messages}) == 2


def test_an_invalid_cluster_is_left_out(fresh: Path, tmp_path: Path) -> None:
    """Only the cluster with an invalid document is not compared; its earlier findings are neither new nor resolved."""
    out = tmp_path / "report"
    assert run_drift(fresh, out, "-q") == 0
    text = (fresh / "all.yaml").read_text()
    eu = document("Cluster", "eu", kafkaVersion="3.9")
    assert eu in text
    (fresh / "all.yaml").write_text(text.replace(eu, eu.replace("kafkaVersion", "kafkaRelease")))
    assert run_drift(fresh, out, "-q", "--previous", str(out)) == 1
    found = [("eu", "", "invalid", ""), ("us", "guest", "unexpected", ""), ("us", "orders", "orphaned", "")]
    assert row_keys(read_rows(out)) == [*found, ("us", "users", "missing", "")]
    assert {row["cluster"] for row in read_rows(out, "not-evaluated.jsonl")} == {"eu"}
    assert [one["cluster"] for one in read_summary(out)["byCluster"]] == ["us"]
    assert read_summary(out)["findings"]["resolved"] == 0


def test_topics_without_a_cluster_are_not_judged_beside_an_invalid_one(fresh: Path, tmp_path: Path) -> None:
    """A topic that names no cluster may be meant for the invalid one, so that it is not undeclared on the other."""
    add(fresh, "orders.yaml", document("Topic", "orders", partitions=3, replicationFactor=2))
    text = (fresh / "all.yaml").read_text()
    eu = document("Cluster", "eu", kafkaVersion="3.9")
    (fresh / "all.yaml").write_text(text.replace(eu, eu.replace("kafkaVersion", "kafkaRelease")))
    run_drift(fresh, tmp_path / "report", "-q")
    assert "orders" not in {row["topic"] for row in read_rows(tmp_path / "report")}


def test_a_second_document_of_a_name_is_left_out(fresh: Path, tmp_path: Path) -> None:
    """Of two documents of one topic the first is compared, and the second is a finding."""
    add(fresh, "second.yaml", topic_document("clicks", BOTH, partitions=9))
    assert run_drift(fresh, tmp_path / "report", "-q") == 1
    (row,) = invalid_rows(tmp_path / "report")
    assert (row["topic"], "another Topic has the same name" in row["message"]) == ("clicks", True)
    assert {row["file"] for row in read_rows(tmp_path / "report") if row["topic"] == "clicks"} == {"fleet/second.yaml"}


def test_a_fixed_manifest_is_resolved(fresh: Path, tmp_path: Path) -> None:
    """While a manifest is invalid its earlier findings are kept; when it is valid again they have their age."""
    out = tmp_path / "report"
    add(fresh, "orders.yaml", topic_document("orders", BOTH, partitions=5))
    run_drift(fresh, out, "-q")
    add(fresh, "orders.yaml", topic_document("orders", BOTH, partitions=0))
    run_drift(fresh, out, "-q", "--previous", str(out))
    kept = [(name, "orders", "partitions", "partitions") for name in BOTH]
    assert row_keys(read_rows(out, "not-evaluated.jsonl")) == kept
    assert (read_summary(out)["findings"]["resolved"], read_summary(out)["findings"]["notEvaluated"]) == (0, 2)
    add(fresh, "orders.yaml", topic_document("orders", BOTH, partitions=5))
    assert run_drift(fresh, out, "-q", "--previous", str(out)) == 0
    statuses = {row["topic"]: row["status"] for row in read_rows(out)}
    assert statuses == {"guest": "Unchanged", "orders": "Unchanged", "users": "Unchanged"}
    assert read_summary(out)["findings"]["resolved"] == 1  # the finding of the manifest


def test_a_run_without_a_valid_cluster_ends(fresh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a valid Cluster document there is nothing to compare: the run ends with the errors, and no report."""
    add(fresh, "all.yaml", document("Cluster", "eu", kafkaRelease="3.9"))
    assert run_drift(fresh, tmp_path / "report") == 1
    assert "kafkaRelease" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_a_cluster_that_no_document_declares_is_named(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``validate`` and reports warn of each pattern or selector in an exception or a rule that matches no cluster.

    A name that is nearly that of a cluster comes with that one; patterns that match a cluster are not named.
    """
    accept(fleet, clusters=["e*", "eu", "euu", "prod-*"])
    selections: list[dict[str, object]] = [
        {"clusters": ["us"]},
        {"clusters": ["*", "*-dev"]},
        {"topics": ["orders"]},
        {"clusterSelector": {"matchLabels": {"env": "qa"}}},
    ]
    rules = [{"name": f"r{index}", **each, "severity": {"set": "Low"}} for index, each in enumerate(selections)]
    (fleet / "rules.yaml").write_text(document("DriftPolicy", "rules", rules=rules))
    for command in ("validate", "drift"):
        assert (run_drift(fleet, tmp_path / "report") if command == "drift" else run([command, str(fleet)])) == 0
        warned = re.findall(r"^(?!ignored).*", re.sub(r":1:\d+: warning", "", capsys.readouterr().err), re.MULTILINE)
        assert warned[:5] == [
            'fleet/rules.yaml: clusters: found "*-dev", which matches no Cluster document',
            "fleet/rules.yaml: clusterSelector: no Cluster has these labels, so the rule has no effect",
            'fleet/some.yaml: clusters: found "euu", which matches no Cluster document',
            "    did you mean eu?",
            'fleet/some.yaml: clusters: found "prod-*", which matches no Cluster document',
        ]
