"""``topiarist drift`` with Spark: byte for byte the same report as without Spark, also from broken snapshots."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.drift import drifted_fleet
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
        TopicState("guest", 9, REPLICA_LISTS),
        TopicState("users_v1", 9, REPLICA_LISTS),
        TopicState("connect-offsets", 9, REPLICA_LISTS),
        TopicState("__consumer_offsets", 9, REPLICA_LISTS),
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


def both(manifests: Path, tmp_path: Path) -> None:
    """Run both engines and compare all their files."""
    codes = {
        engine: run_drift(manifests, tmp_path / engine, "-q", "--engine", engine) for engine in ("python", "spark")
    }
    assert codes["python"] == codes["spark"]
    for path in filter(Path.is_file, (tmp_path / "python").iterdir()):
        assert (tmp_path / "spark" / path.name).read_text() == path.read_text(), path.name


@pytest.mark.usefixtures("spark")
def test_the_reports_are_the_same(fleet: Path, tmp_path: Path) -> None:
    """The reports are the same, also with colliding names: the missing topic names the collision, and the existing
    topic is unexpected.
    """
    both(fleet, tmp_path)
    assert read_summary(tmp_path / "spark")["findings"]["byReason"] == {"NameCollision": 1}


@pytest.mark.usefixtures("spark")
def test_a_sample_fleet_is_the_same(tmp_path: Path) -> None:
    """The reports are the same for a fleet with drift of every kind and cross-cluster differences."""
    sample = drifted_fleet.make_fleet(tmp_path, clusters=9, topics=50, per_kind=4)
    both(sample.manifests, tmp_path)
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
    both(manifests, tmp_path)
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


def test_what_is_broken_is_named_by_its_line(spark: SparkSession, fleet: Path, tmp_path: Path) -> None:
    """Invalid rows and truncated files are read again in the driver, so both engines report the same lines."""
    path = tmp_path / "snapshots" / "us.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    twice = [*whole[:2], whole[1], *whole[3:]]
    for broken in ([*whole[:2], "{\n", *whole[3:]], whole[:3], [*whole[:-1], whole[-1][:40]], twice):
        path.write_text("".join(broken))
        both(fleet, tmp_path)
        assert read_summary(tmp_path / "spark")["inputs"]["broken"] > 0
    assert spark.sparkContext.getConf().get("spark.ui.enabled") == "false"
