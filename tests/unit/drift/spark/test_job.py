"""The job of Spark: the report of all its results, and the errors that end it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from support.cli.runs import document
from support.drift.folder_store import STORE
from support.drift.small_fleet import (
    SNAPSHOT_TIME,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.cli.main import run
from topiarist.drift import cross_cluster
from topiarist.drift import report as report_module
from topiarist.drift.compare import ClusterResult
from topiarist.drift.snapshots import SnapshotFile, SnapshotLines
from topiarist.drift.spark import engine, worker
from topiarist.drift.spark.engine import distribute
from topiarist.drift.task import MAX_PARALLEL_CLUSTERS, ConnectOptions, LiveCluster, Part
from topiarist.errors import Reason, TopiaristError
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_spark import Table
from unit.drift.spark.test_engine import read_text, report, texts

NAMES = [f"c{number}" for number in range(8)]


@pytest.fixture
def manifests(place: Place, tmp_path: Path) -> Path:
    """Write a fleet in which topics differ between clusters, two have one id, and one has an invalid row."""
    for number, name in enumerate(NAMES):
        topics = [owned_topic(f"t{each}", {"retention.ms": str(each % (number + 1))}) for each in range(6)]
        path = write_snapshot(
            place.store / "snapshots", name, cluster_state(NAMES[number & ~1 if number < 4 else number], *topics)
        )
        if number % 4 == 1:
            path.write_bytes(path.read_bytes() + b"{\n")
    documents = [topic_document(f"t{each}", NAMES, config={"retention.ms": 1}) for each in range(6)]
    return write_manifests(tmp_path / "manifests", NAMES, *documents)


def test_a_fleet_with_every_kind_of_result_has_the_same_report(
    manifests: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duplicate ids, invalid rows and files, and more differences than are shown give the report of one process."""
    for module in (engine, cross_cluster, report_module):
        monkeypatch.setattr(module, "MAX_SHOWN_DIFFERENCES", 2, raising=False)
    (place.store / "snapshots" / "none.jsonl").write_text("{\n")
    report(manifests, place.store / "snapshots", tmp_path / "here")
    report(manifests, f"{STORE}/snapshots", f"{STORE}/there")
    assert texts(place.store / "there", place) == texts(tmp_path / "here", place)
    summary = read_summary(tmp_path / "here")
    assert summary["clusters"] == {"declared": 8, "compared": 6, "unknown": 2}
    assert summary["crossClusterDifferences"]["total"] > len(summary["crossClusterDifferences"]["topics"]) == 2
    assert len(read_rows(tmp_path / "here", "broken.jsonl")) == summary["inputs"]["broken"] > 0
    assert place.spark.settings["spark.sql.maxConcurrentOutputFileWriters"] == "16"


def test_files_of_teams_have_all_findings(
    manifests: Path, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A last step reads all lines also of a report at an address, where the page has only some."""
    monkeypatch.setattr("topiarist.drift.outputs.html.MAX_FINDINGS", 1)
    words = ("--split-by", "responsible")
    report(manifests, f"{STORE}/snapshots", tmp_path / "here", *words)
    monkeypatch.setattr("topiarist.drift.spark.outputs.sample_lines", lambda *_: [])
    report(manifests, f"{STORE}/snapshots", f"{STORE}/there", *words)
    here, there = tmp_path / "here" / "by-responsible", place.store / "there" / "by-responsible"
    found = {path.name: read_text(path) for path in there.iterdir()}
    assert found == {path.name: path.read_text() for path in here.iterdir()} != {}


def test_a_fleet_without_findings_has_empty_files(place: Place, tmp_path: Path) -> None:
    """Where all is in sync, the report of Spark is that of one process too."""
    for name in NAMES[:2]:
        write_snapshot(place.store / "snapshots", name, cluster_state(name, owned_topic("t")))
    manifests = write_manifests(tmp_path / "manifests", NAMES[:2], topic_document("t", NAMES[:2]))
    report(manifests, place.store / "snapshots", tmp_path / "here", code=0)
    report(manifests, f"{STORE}/snapshots", f"{STORE}/there", code=0)
    assert texts(place.store / "there", place) == texts(tmp_path / "here", place)
    assert (place.store / "there" / "findings.jsonl").read_bytes() == b""


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
@pytest.mark.parametrize("hint", ["", "try again"])
def test_the_error_of_a_task_ends_the_run(
    manifests: Path,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    master: str,
    hint: str,
) -> None:
    """The first error in order is raised with its hint, or on a cluster with the usual one; no report is left."""

    def work(parts: Iterable[Part], *_: Any) -> Iterator[ClusterResult]:
        names = [part.cluster for part in parts if part.cluster]
        if names:
            raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, f"{min(names)} cannot be read", hint)
        yield from ()

    monkeypatch.setattr(worker, "work", work)
    place.spark.master = master
    report(manifests, f"{STORE}/snapshots", f"{STORE}/there")
    said = capfd.readouterr().err
    assert "c0 cannot be read" in said
    assert ("try again" in said) == bool(hint)
    assert ("all machines of the Spark cluster share" in said) == (not hint and master == "yarn")
    assert sorted(path.name for path in place.store.iterdir()) == ["snapshots"]


@pytest.mark.parametrize("missed", ["8 results after writing 9", "31 lines of findings.jsonl after writing 32"])
def test_results_on_the_disks_of_other_machines_are_missed(
    manifests: Path,
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    missed: str,
) -> None:
    """Fewer results or lines than were written are an error that says where to put the report."""
    write = Table.where if "results" in missed else Table.orderBy

    def lose_last(table: Table, *given: Any) -> Table:
        whole = write(table, *given)
        return Table(place.spark, whole.schema, [*whole._partitions[:-1], whole._partitions[-1][:-1]])

    monkeypatch.setattr(Table, write.__name__, lose_last)
    out = tmp_path / "out" / "there"
    report(manifests, f"{STORE}/snapshots", out, "--engine", "spark")
    hint = "set --out to a folder that all machines of the Spark cluster share, or to an address such as s3a:"
    assert re.search(rf"^error: {out.parent}/\S+: found {missed}\n    {hint}$", capfd.readouterr().err, re.MULTILINE)
    assert [*out.parent.iterdir()] == []


@pytest.mark.parametrize(
    ("count", "is_live", "tasks"),
    [(3, False, 3), (6, False, 6), (20, False, 6), (200, False, 6), (20, True, 6), (97, True, 7)],
)
def test_parts_are_tasks_of_even_size(place: Place, count: int, is_live: bool, tasks: int) -> None:
    """There are three tasks for each core, or more for live clusters; each has the parts of all sizes."""
    live, lines = (
        LiveCluster(ConnectOptions("default", 1.0)),
        [SnapshotLines(SnapshotFile(SNAPSHOT_TIME, "", number), ()) for number in range(count)],
    )
    parts = [Part(str(number), live if is_live else lines[number]) for number in range(count)]
    table: Any = distribute(place.spark, parts)  # type: ignore[arg-type]
    found = [[int(row["cluster"]) for row in rows] for rows in table._partitions]
    assert len(found) == tasks
    assert sorted(chain(*found)) == [*range(count)]
    lengths = [*map(len, found)]
    assert max(lengths) - min(lengths) <= 1
    assert not is_live or max(lengths) <= MAX_PARALLEL_CLUSTERS
    first = [*range(count)] if is_live else [*range(count)][::-1]
    assert [each[0] for each in found if each] == first[: min(tasks, count)]


def test_live_clusters_are_read_by_tasks(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each live cluster is read by one task, and the report is that of what the tasks found."""
    given: list[Part] = []

    def work(parts: Iterable[Part], *_: Any) -> Iterator[ClusterResult]:
        for part in parts:
            given.append(part)
            yield ClusterResult(part.cluster)

    monkeypatch.setattr(worker, "work", work)
    addresses = {name: {"connect": f"{name}:2181"} for name in NAMES}
    clusters = [document("Cluster", name, kafkaVersion="3.9", zookeeper=each) for name, each in addresses.items()]
    (tmp_path / "all.yaml").write_text("\n---\n".join(clusters))
    out = f"{STORE}/there"
    assert run(["drift", str(tmp_path / "all.yaml"), "--live", "--out", out, "-q", "--engine", "spark"]) == 0
    assert sorted(part.cluster for part in given if part.cluster) == NAMES
    assert {type(part.source) for part in given if part.cluster} == {LiveCluster}
    assert (place.store / "there" / "summary.json").exists()
