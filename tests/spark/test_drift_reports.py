"""``topiarist drift`` by all runners: byte for byte the same report, also from broken snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.cli.runs import document
from support.drift import drifted_fleet
from support.drift.hostile_rows import write_hostile_fleet
from support.drift.runners import RunnerReport, run_each
from support.drift.small_fleet import (
    REPLICA_LISTS,
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
from topiarist.drift.snapshots import SnapshotInventory
from topiarist.model.state import TopicState


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Write three clusters: one in sync, one with many kinds of drift, one without a snapshot."""
    snapshots = tmp_path / "snapshots"
    us = cluster_state(
        "us",
        owned_topic("clicks.v1", {"retention.ms": "5"}, modified_externally=True),
        owned_topic("old"),
        owned_topic("orders", replicas=REPLICA_LISTS[:2]),
        TopicState("guest", "9", REPLICA_LISTS),
        TopicState("users_v1", "9", REPLICA_LISTS),
        TopicState("connect-offsets", "9", REPLICA_LISTS),
        TopicState("__consumer_offsets", "9", REPLICA_LISTS),
    )
    write_snapshot(snapshots, "us", us)
    write_snapshot(
        snapshots, "eu", cluster_state("eu", *(owned_topic(name) for name in ("clicks.v1", "orders", "users.v1")))
    )
    names = ["eu", "gone", "us"]
    topics = (
        topic_document(name.replace(".", "-"), names, topicName=name) for name in ("clicks.v1", "orders", "users.v1")
    )
    return write_manifests(tmp_path / "manifests", names, *topics)


RUNNERS = {"one": ("--jobs", "1"), "pool": ("--jobs", "2"), "spark": ("--engine", "spark")}


def compare_all(manifests: Path, tmp_path: Path, *words: str | Path) -> RunnerReport:
    """Return the report of all runners, which have the same exit code, messages and files."""
    reports = run_each(manifests, tmp_path / "snapshots", tmp_path, RUNNERS, *words)
    for name in ("pool", "spark"):
        assert reports[name].code == reports["one"].code
        assert reports[name].messages == reports["one"].messages
        for file, content in reports["one"].files.items():
            assert reports[name].files[file] == content, (name, file)
    return reports["one"]


@pytest.mark.usefixtures("spark")
def test_the_reports_are_the_same(fleet: Path, tmp_path: Path) -> None:
    """The reports are the same, also with colliding names: the missing topic names the collision, and the existing
    topic is unexpected.
    """
    compare_all(fleet, tmp_path)
    assert read_summary(tmp_path / "spark")["findings"]["byReason"] == {"NameCollision": 1}


@pytest.mark.usefixtures("spark")
def test_manifests_make_the_same_rows(fleet: Path, tmp_path: Path) -> None:
    """The reports are the same with invalid documents and exceptions, and so are the places and links of rows."""
    (fleet / "broken.yaml").write_text(topic_document("old", ["us"], partitions=0))
    (fleet / "unreadable.yaml").write_text("kind: Topic\nmetadata: {name: guest\n")
    exception = {"topics": ["clicks.*"], "classes": ["config"], "reason": "moving", "author": "ada"}
    for name, until in (("valid", "2025-01-31"), ("past", "2025-01-30")):
        (fleet / f"{name}.yaml").write_text(document("DriftException", name, **exception, until=until))
    rules = [{"name": "undeclared", "classes": ["unexpected"], "severity": {"raise": 2}}]
    (fleet / "severities.yaml").write_text(document("DriftPolicy", "severities", rules=rules))
    words = ("--link-template", "https://github.com/{file}#L{line}", "--owner-label", "team", "--upgrade-to", "4.4")
    compare_all(fleet, tmp_path, *words)
    rows = read_rows(tmp_path / "spark")
    assert {row["severityRule"]["rule"] for row in rows if row["class"] == "unexpected"} == {"undeclared"}
    assert [row["class"] for row in rows].count("invalid") == 2
    assert [row["class"] for row in rows].count("expired") == 1
    assert [row["exception"]["name"] for row in read_rows(tmp_path / "spark", "accepted.jsonl")] == ["valid"]
    assert {"guest", "old"}.isdisjoint(row["topic"] for row in rows if row["cluster"] == "us")
    assert {row["line"] for row in rows if row["link"]} - {None}
    assert read_summary(tmp_path / "spark")["upgrade"]["checked"] == 2


@pytest.mark.usefixtures("spark")
def test_a_sample_fleet_is_the_same(tmp_path: Path) -> None:
    """The reports are the same for a fleet with drift of every kind and cross-cluster differences."""
    sample = drifted_fleet.make_fleet(tmp_path, clusters=9, topics=50, per_kind=4)
    compare_all(sample.manifests, tmp_path)
    found = read_summary(tmp_path / "spark")
    assert len(sample.expected) == found["findings"]["total"]
    assert found["crossClusterDifferences"]["total"] > 10


@pytest.mark.usefixtures("spark")
def test_topics_of_no_size_are_the_same(tmp_path: Path) -> None:
    """Specs without sizes match topics of all sizes, and both engines find the differences between clusters."""
    sizes = {
        "a": REPLICA_LISTS,
        "b": REPLICA_LISTS[:2],
        "c": REPLICA_LISTS,
        "d": ((1,), (2,), (3,)),
        "e": ((1, 2), (1, 2, 3), (2, 3)),
    }
    for name, lists in sizes.items():
        topics = (
            owned_topic(topic, {"retention.ms": "5"}, replicas=lists) for topic in ("both", "narrow", "open", "wide")
        )
        write_snapshot(tmp_path / "snapshots", name, cluster_state(name, *topics))
    open_, config = {"partitions": None, "replicationFactor": None}, {"config": {"retention.ms": 5}}
    given: dict[str, dict[str, Any]] = {"both": {}, "narrow": {"replicationFactor": None}, "open": open_}
    given["wide"] = {"partitions": None, "overrides": [{"clusters": ["b"], "partitions": 2}]}
    made = [topic_document(name, sizes, **config, **fields) for name, fields in given.items()]
    manifests = write_manifests(tmp_path / "manifests", sizes, *(text.replace(": null", ": 3") for text in made))
    path = manifests / "all.yaml"
    wanted = [json.loads(document) for document in path.read_text().split("\n---\n")]
    for body in wanted:
        if body["kind"] == "Cluster":
            body["spec"]["defaults"] = {"partitions": 3, "replicationFactor": 2}
        for field in [name for name, value in given.get(body["metadata"]["name"], {}).items() if value is None]:
            del body["spec"][field]
    path.write_text("\n---\n".join(map(json.dumps, wanted)))
    compare_all(manifests, tmp_path)
    found = {
        (one["topic"], one["field"]) for one in read_summary(tmp_path / "spark")["crossClusterDifferences"]["topics"]
    }
    every = {(name, field) for name in given for field in ("partitions", "replicationFactor")}
    assert found == every - {("wide", "partitions")}  # the manifest declares this difference


def test_findings_are_there_as_parquet(spark: SparkSession, fleet: Path, tmp_path: Path) -> None:
    """The Parquet files have every field of every finding, partitioned by the day of the snapshot; a second run writes
    the same bytes.
    """
    for name in ("one", "two"):
        run_drift(fleet, tmp_path / name, "-q", "--engine", "spark")
    place = tmp_path / "one" / "findings.parquet"
    rows = spark.read.parquet(str(place))
    made = [row.asDict() for row in rows.collect()]
    assert {str(row.pop("date")) for row in made} == {"2025-01-31"}
    key = itemgetter("cluster", "topic", "class", "field")
    assert sorted(made, key=key) == sorted(read_rows(tmp_path / "one"), key=key)
    files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    assert files == [Path("date=2025-01-31/part.parquet")]
    for file in files:
        assert (place / file).read_bytes() == (tmp_path / "two" / "findings.parquet" / file).read_bytes()


@pytest.mark.usefixtures("spark")
def test_a_second_report_is_the_same(fleet: Path, tmp_path: Path) -> None:
    """New, unchanged, resolved and unevaluated findings are the same, and so is the time when they were first seen."""
    exception = {"topics": ["guest"], "classes": ["unexpected"], "reason": "moving", "author": "ada"}
    (fleet / "valid.yaml").write_text(document("DriftException", "valid", **exception, until="2025-02-28"))
    whole = [owned_topic(name) for name in ("orders", "users.v1")]
    snapshots = tmp_path / "snapshots"
    write_snapshot(snapshots, "eu", cluster_state("eu", owned_topic("clicks.v1", {"retention.ms": "5"}), *whole))
    run_drift(fleet, tmp_path / "first", "-q")
    write_snapshot(snapshots, "eu", cluster_state("eu", owned_topic("clicks.v1"), *whole), hours=5)
    changed = [owned_topic("old"), owned_topic("new"), TopicState("guest", "9", REPLICA_LISTS)]
    path = write_snapshot(snapshots, "us", cluster_state("us", *changed), hours=5)
    path.write_text(path.read_text() + "?\n")
    accept = ["--author", "ada", "--until", "2025-02-28", "--reason", "known"]
    baseline = str(tmp_path / "baseline.jsonl")
    assert (
        run(["drift", str(fleet), "--from", str(tmp_path / "first"), "--fix", "baseline", *accept, "--out", baseline])
        == 0
    )
    lines = [*Path(baseline).read_text().splitlines(keepends=True)]
    Path(baseline).write_text("".join(lines[:2]))
    report = compare_all(fleet, tmp_path, "--previous", tmp_path / "first", "--baseline", baseline)
    assert read_summary(tmp_path / "spark")["baseline"]["findings"] == 1
    found = read_summary(tmp_path / "spark")["findings"]
    assert all(found[name] > 0 for name in ("new", "unchanged", "resolved", "notEvaluated"))
    assert b'"ageSeconds":18000' in report.files["accepted.jsonl"]


@pytest.mark.usefixtures("spark")
def test_clusters_with_one_id_are_the_same(fleet: Path, tmp_path: Path) -> None:
    """Of two clusters with one id the later by name is unknown; its invalid rows are named, and its topics are not
    compared with others.
    """
    path = tmp_path / "snapshots" / "us.jsonl"
    path.write_text(path.read_text().replace('"clusterId":"us"', '"clusterId":"eu"') + "?\n")
    report = compare_all(fleet, tmp_path)
    assert b"its cluster id, eu, is that of cluster eu" in report.files["findings.jsonl"]
    assert report.files["broken.jsonl"].count(b"\n") == 2
    assert read_summary(tmp_path / "spark")["crossClusterDifferences"]["total"] == 0


@pytest.mark.usefixtures("spark")
def test_hostile_rows_are_the_same(tmp_path: Path) -> None:
    """Rows that are invalid in every way have the same findings, messages and exit code."""
    manifests, _ = write_hostile_fleet(tmp_path)
    assert compare_all(manifests, tmp_path).code == 1


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_file_that_a_task_cannot_open_ends_the_run(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], runner: str
) -> None:
    """A snapshot that the driver has listed and that a task cannot open is an error with its path, and no report."""
    path = tmp_path / "snapshots" / "us.jsonl"
    count_rows = SnapshotInventory.list_snapshots

    def list_and_remove(self: SnapshotInventory, paths: Sequence[str]) -> Iterator[Any]:
        yield from [*count_rows(self, paths)]
        path.unlink()

    monkeypatch.setattr(SnapshotInventory, "list_snapshots", list_and_remove)
    assert run_drift(fleet, tmp_path / "report", "-q", *RUNNERS[runner]) == 1
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert f"{path}: cannot be read: no such file or directory" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "report").exists()
