"""A small fleet on disk: clusters as snapshots, their documents and topics as manifests, and drift reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft7Validator

from support.cli.runs import document
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
from topiarist.cli.main import run
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.schema.load import load_schema

SNAPSHOT_TIME = datetime(2025, 1, 31, 12, tzinfo=UTC)

BROKERS = tuple(Broker(number) for number in (1, 2, 3))

NO_TIMES = {"takenAt": "", "firstSeen": "", "seenSince": "", "command": ""}
"""What replaces the times and the paths that a row has of its run, where the reports of two runs are compared."""

REPLICA_LISTS: tuple[Replicas, ...] = ((1, 2), (2, 3), (3, 1))


def owned_topic(name: str, config: Mapping[str, str] | None = None, **fields: Any) -> TopicState:
    """Return an owned topic with three partitions and two replicas; all of its overrides are managed keys."""
    config = {} if config is None else config
    given: dict[str, Any] = {
        "record": OwnershipRecord("default", tuple(sorted(config))),
        "record_valid": True,
        "replicas": REPLICA_LISTS,
    } | fields
    return TopicState(name=name, identity="7", config=config, **given)


def cluster_state(name: str, *topics: TopicState, **fields: Any) -> ClusterState:
    """Return the state of the cluster ``name``; its id equals its name."""
    return ClusterState(name, BROKERS, {topic.name: topic for topic in topics}, **fields)


def write_snapshot(folder: Path, name: str, state: ClusterState, *, hours: int = 0, file: str = "") -> Path:
    """Write a snapshot of the state into a folder, taken this many hours after the first snapshots."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / (file or file_name(name))
    path.write_bytes(b"".join(dump_snapshot(Snapshot(name, SNAPSHOT_TIME + timedelta(hours=hours), state))))
    return path


def write_manifests(folder: Path, clusters: Iterable[str], *topics: str) -> Path:
    """Write these clusters and documents as manifests into a folder."""
    folder.mkdir(exist_ok=True, parents=True)
    made = [document("Cluster", name, kafkaVersion="3.9") for name in clusters]
    (folder / "all.yaml").write_text("\n---\n".join([*made, *topics]))
    return folder


def topic_document(name: str, clusters: Iterable[str], **fields: Any) -> str:
    """Return a topic for these clusters, equal to ``held`` except for the given fields."""
    return document("Topic", name, **({"partitions": 3, "replicationFactor": 2} | fields), clusters=list(clusters))


def run_drift(manifests: Path, out: Path, *words: str | Path) -> int:
    """Run ``topiarist drift`` in this process with the snapshots next to the report; return its exit code."""
    snapshots = () if "--live" in words else ("--snapshots", str(out.parent / "snapshots"))
    return run(["drift", str(manifests), *snapshots, "--out", str(out), *map(str, words)])


def read_rows(out: Path, name: str = "findings.jsonl") -> list[dict[str, Any]]:
    """Return the rows of a file of the report."""
    return [json.loads(line) for line in (out / name).read_text().splitlines()]


def read_summary(out: Path) -> dict[str, Any]:
    """Return the summary of a report."""
    found: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return found


def check_schema(kind: str, *values: Any) -> None:
    """Raise unless each value matches the definition of its kind in the schema of drift reports."""
    definitions = load_schema("drift")["definitions"]
    validator = Draft7Validator({**definitions[kind], "definitions": definitions})
    for value in values:
        validator.validate(value)


def row_keys(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return cluster, topic, class and field of each row."""
    return [(row["cluster"], row["topic"], row["class"], row["field"]) for row in rows]
