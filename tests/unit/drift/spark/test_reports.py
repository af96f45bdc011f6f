"""Reports by Spark over tables, stores and histories equal those of one process; each file is where it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.drift.small_fleet import (
    REPLICA_LISTS,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift.spark import columns
from topiarist.model.state import TopicState
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_store import STORE

NAMES = ("clicks", "orders", "users")


@pytest.fixture
def manifests(place: Place, tmp_path: Path) -> Path:
    """Write manifests for three clusters: one in sync, one with drift, one without a snapshot."""
    us = cluster_state(
        "us",
        owned_topic("clicks", {"retention.ms": "5"}),
        owned_topic("orders", replicas=REPLICA_LISTS[:2]),
        owned_topic("old"),
    )
    write_snapshot(place.store / "snapshots" / "a", "us", us)
    guest = TopicState("guest", "9", REPLICA_LISTS)
    write_snapshot(place.store / "snapshots", "eu", cluster_state("eu", *map(owned_topic, NAMES), guest))
    names = ["eu", "gone", "us"]
    return write_manifests(tmp_path / "manifests", names, *(topic_document(name, names) for name in NAMES))


def texts(out: Path, place: Place) -> dict[str, str]:
    """Return the files of a report except Parquet, with the store's address replaced by its folder."""
    return {path.name: path.read_text().replace(STORE, str(place.store)) for path in out.iterdir() if path.is_file()}


def report(manifests: Path, snapshots: str | Path, out: str | Path, *words: str | Path, code: int = 1) -> None:
    """Run ``topiarist drift`` in this process."""
    command = ["drift", str(manifests), "--snapshots", str(snapshots), "--out", str(out), "-q", *map(str, words)]
    assert run(command) == code


def write_table(place: Place, snapshots: Path, table: str) -> None:
    """Write snapshots as a table, as the documentation describes."""
    for number, path in enumerate(sorted(snapshots.rglob("*.jsonl"))):
        rows = place.spark.read.schema(columns.snapshot_row_type()).json(str(path.as_uri()))
        rows.repartition("kind").write.parquet(f"{table}/{number}.parquet")


def test_reports_from_store_to_store_are_the_same(manifests: Path, place: Place, tmp_path: Path) -> None:
    """The report is the same if input, output and previous report are in a store, and replaces an existing one."""
    here, there, latest = place.store / "snapshots", f"{STORE}/snapshots", f"{STORE}/reports/latest"
    report(manifests, here, tmp_path / "one")
    report(manifests, there, latest)
    assert texts(place.store / "reports" / "latest", place) == texts(tmp_path / "one", place)
    write_snapshot(here, "eu", cluster_state("eu", owned_topic("clicks")), hours=1)
    report(manifests, here, tmp_path / "two", "--previous", tmp_path / "one")
    report(manifests, there, latest, "--previous", latest)
    assert texts(place.store / "reports" / "latest", place) == texts(tmp_path / "two", place)
    assert read_summary(tmp_path / "two")["findings"]["unchanged"] > 0
    assert read_rows(tmp_path / "two")
    assert [path.name for path in (place.store / "reports").iterdir()] == ["latest"]
    tables = place.store / "reports" / "latest" / "findings.parquet"
    parts = [path.relative_to(tables).as_posix() for path in tables.rglob("*") if path.is_file()]
    assert sorted(parts) == ["date=2025-01-31/part.parquet"]
    assert place.spark.configuration.open_streams == 0


def test_a_table_is_as_good_as_files(manifests: Path, place: Place, tmp_path: Path) -> None:
    """A table with the rows of all clusters in any order gives the same report, locally and in a store."""
    write_table(place, place.store / "snapshots", f"{STORE}/tables")
    report(manifests, place.store / "snapshots", tmp_path / "files")
    for where in (place.store / "tables", f"{STORE}/tables"):
        report(manifests, where, tmp_path / "table")
        assert texts(tmp_path / "table", place) == texts(tmp_path / "files", place)
