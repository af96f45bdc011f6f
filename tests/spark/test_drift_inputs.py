"""Snapshots and reports in remote stores, and snapshots as Parquet: the report equals that of local files.

The store is a Hadoop file system that maps a local folder to another address, and one of fsspec that does the same;
topiarist cannot distinguish it from a remote store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from fsspec import register_implementation
from pyspark.sql import SparkSession

from support.drift.folder_store import FolderStore
from support.drift.small_fleet import (
    REPLICA_LISTS,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    row_keys,
    topic_document,
    write_manifests,
    write_snapshot,
)
from support.snapshots import SNAPSHOT_TIME, snapshot_lines, write_snapshot_rows
from topiarist.adapters.snapshots.codec import format_time
from topiarist.cli.main import run
from topiarist.drift.spark import outputs
from topiarist.drift.spark.engine import SparkSnapshotInventory
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import TopicState

NAMES = ("clicks", "orders", "users")

_numbers = count(1)


class Store(NamedTuple):
    """A folder, and its address in Spark."""

    folder: Path
    address: str


class MountedStore(FolderStore):
    """The stores of these tests in fsspec, by their names."""

    protocol = "viewfs"
    folder = Path()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        text = str(path)
        return (text.split("/", 3)[3] if "://" in text else text).strip("/")


register_implementation("viewfs", MountedStore, clobber=True)


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a separate store for each test."""
    folder, name = tmp_path / "mounted" / "fleet", f"store-{next(_numbers)}"
    folder.mkdir(parents=True)
    spark.conf.set(f"fs.viewfs.mounttable.{name}.link./fleet", f"file://{folder}")
    monkeypatch.setattr(MountedStore, "folder", folder.parent)
    return Store(folder, f"viewfs://{name}/fleet")


@pytest.fixture
def manifests(store: Store, tmp_path: Path) -> Path:
    """Write manifests for three clusters: one in sync, one with drift, one without a snapshot.

    The snapshots are in the store.
    """
    us = cluster_state(
        "us",
        owned_topic("clicks", {"retention.ms": "5"}),
        owned_topic("orders", replicas=REPLICA_LISTS[:2]),
        owned_topic("old"),
    )
    write_snapshot(store.folder / "snapshots" / "a", "us", us)
    write_snapshot(
        store.folder / "snapshots",
        "eu",
        cluster_state("eu", *map(owned_topic, NAMES), TopicState("guest", "9", REPLICA_LISTS)),
    )
    names = ["eu", "gone", "us"]
    return write_manifests(tmp_path / "manifests", names, *(topic_document(name, names) for name in NAMES))


def texts(out: Path, store: Store) -> dict[str, str]:
    """Return the files of a report except Parquet, with the store's address replaced by its folder.

    Commands have the snapshots only where another command can read them.
    """
    files = {path.name: read_text(path) for path in out.iterdir() if path.suffix not in (".crc", ".parquet")}
    files = {name: text.replace(store.address, str(store.folder)) for name, text in files.items()}
    return {name: re.sub(r" --snapshots? ('[^']*'|\S+?)(?=[ \"])", "", text) for name, text in files.items()}


def read_text(path: Path) -> str:
    """Return the text of a file, or of the files that executors wrote in a folder."""
    return "".join(part.read_text() for part in (sorted(path.glob("part-*")) if path.is_dir() else [path]))


def as_table(spark: SparkSession, snapshots: Path, table: Path) -> Path:
    """Write the same snapshots as Parquet, as the documentation describes."""
    found = [str(path) for path in snapshots.rglob("*.jsonl")]
    spark.read.schema(outputs.snapshot_row_type()).json(found).repartition(3).write.mode("append").parquet(str(table))
    return table


def reported(manifests: Path, snapshots: str | Path, out: str | Path, *words: str | Path) -> int:
    """Run ``topiarist drift`` in this process, by Spark if a path is in a store; return its exit code."""
    engine = ["--engine", "spark"] if "://" in f"{snapshots}{out}" else []
    return run(["drift", str(manifests), "--snapshots", str(snapshots), "--out", str(out), *engine, *map(str, words)])


def test_reports_from_store_to_store_are_the_same(
    spark: SparkSession, manifests: Path, store: Store, tmp_path: Path
) -> None:
    """The report is the same if input, output and previous report are in a store.

    An existing report is replaced, and no other file remains.
    """
    here, there = store.folder / "snapshots", f"{store.address}/snapshots"
    latest = f"{store.address}/reports/latest"
    assert reported(manifests, here, tmp_path / "one", "-q") == 1
    assert reported(manifests, there, latest, "-q") == 1
    assert texts(store.folder / "reports" / "latest", store) == texts(tmp_path / "one", store)
    write_snapshot(here, "eu", cluster_state("eu", owned_topic("clicks")), hours=1)
    assert reported(manifests, here, tmp_path / "two", "-q", "--previous", tmp_path / "one") == 1
    assert reported(manifests, there, latest, "-q", "--previous", latest) == 1
    assert texts(store.folder / "reports" / "latest", store) == texts(tmp_path / "two", store)
    assert read_summary(tmp_path / "two")["findings"]["unchanged"] > 0
    assert [path.name for path in (store.folder / "reports").iterdir() if path.suffix != ".crc"] == ["latest"]
    parts = (store.folder / "reports" / "latest" / "findings.parquet").rglob("*.parquet")
    rows = [row.asDict() for path in parts for row in spark.read.parquet(str(path)).collect()]
    lines = read_text(store.folder / "reports" / "latest" / "findings.jsonl").splitlines()
    assert sorted(map(str, rows)) == sorted(str(json.loads(line)) for line in lines)


def test_what_is_broken_in_a_store_is_named_by_its_address(manifests: Path, store: Store, tmp_path: Path) -> None:
    """Invalid rows, incomplete rows, truncated files and empty files in a store are reported with their address."""
    path = store.folder / "snapshots" / "eu.jsonl"
    whole = path.read_text().splitlines(keepends=True)
    lacking = {key: value for key, value in json.loads(whole[2]).items() if key != "config"}
    (store.folder / "snapshots" / "none.jsonl").write_text("")
    for broken in ([*whole[:2], "{\n", *whole[3:]], [*whole[:2], f"{json.dumps(lacking)}\n", *whole[3:]], whole[:3]):
        path.write_text("".join(broken))
        assert reported(manifests, store.folder / "snapshots", tmp_path / "here", "-q") == 1
        assert reported(manifests, f"{store.address}/snapshots", tmp_path / "there", "-q") == 1
        found = read_rows(tmp_path / "there", "broken.jsonl")
        assert {one["file"].startswith(store.address) for one in found} == {True}
        assert texts(tmp_path / "there", store) == texts(tmp_path / "here", store)


def test_a_table_is_as_good_as_files(spark: SparkSession, manifests: Path, store: Store, tmp_path: Path) -> None:
    """A Parquet table with the rows of all clusters in any order gives the same report, locally and in a store.

    JSON Lines files may be next to it.
    """
    as_table(spark, store.folder / "snapshots", store.folder / "tables" / "all.parquet")
    assert reported(manifests, store.folder / "snapshots", tmp_path / "files", "-q") == 1
    wanted = texts(tmp_path / "files", store)
    for place in (store.folder / "tables", f"{store.address}/tables", store.folder / "tables" / "all.parquet"):
        assert reported(manifests, place, tmp_path / "table", "-q") == 1
        assert texts(tmp_path / "table", store) == wanted
    write_snapshot(store.folder / "tables", "eu", cluster_state("eu"), hours=1)
    assert reported(manifests, store.folder / "tables", tmp_path / "both", "-q") == 1
    assert ("eu", "clicks", "missing", "") in row_keys(read_rows(tmp_path / "both"))
    (old,) = read_summary(tmp_path / "both")["inputs"]["superseded"]
    assert (old["cluster"], old["newer"]) == ("eu", str(store.folder / "tables" / "eu.jsonl"))


def test_nothing_is_lost_in_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """A Parquet table keeps every field and every kind of row of a snapshot without default values."""
    (tmp_path / "snapshots").mkdir()
    write_snapshot_rows(tmp_path / "snapshots", snapshot_lines())
    table = as_table(spark, tmp_path / "snapshots", tmp_path / "all.parquet")
    found = SparkSnapshotInventory(spark, [str(table)], {"eu": ClusterSpec("eu")}, SNAPSHOT_TIME)
    lines = found.read_table_lines([("eu", format_time(SNAPSHOT_TIME))]).collect()
    rows = [row.text for row in lines]
    assert {row.cluster for row in lines} == {"eu"}
    assert sorted(map(_plain, rows)) == sorted(_plain(line.decode()) for line in snapshot_lines())
    assert set(outputs.snapshot_row_type().names) == {name for row in map(json.loads, rows) for name in row}


def _plain(line: str) -> str:
    """Return a row without the fields below batch and record that a table has as null, and a line leaves out."""
    row = json.loads(line)
    optional = {"batch": ("replaced",), "record": ("applied", "memory")}
    for name, fields in optional.items():
        if row.get(name):
            row[name] = {key: each for key, each in row[name].items() if key not in fields or each is not None}
    return json.dumps(row, sort_keys=True)


def test_any_name_of_a_folder_will_do(spark: SparkSession, manifests: Path, store: Store, tmp_path: Path) -> None:
    """Folder names with characters that Spark would decode as part of an address work."""
    odd = tmp_path / "a b%20#é"
    odd.mkdir()
    (store.folder / "snapshots").rename(odd / "snapshots")
    as_table(spark, odd / "snapshots", store.folder / "all.parquet")
    (odd / "tables").mkdir()
    for file in (store.folder / "all.parquet").glob("*.parquet"):
        file.rename(odd / "tables" / file.name)
    assert reported(manifests, odd / "snapshots", tmp_path / "here", "-q") == 1
    wanted = texts(tmp_path / "here", store)
    for place in ("snapshots", "tables"):
        assert reported(manifests, odd / place, odd / "report", "-q", "--engine", "spark") == 1
        assert texts(odd / "report", store) == wanted


def test_of_two_times_in_a_table_the_newer_counts(
    spark: SparkSession, manifests: Path, store: Store, tmp_path: Path
) -> None:
    """Of two snapshots of one cluster in a table the newer is used, and the summary lists the older as superseded."""
    table = as_table(spark, store.folder / "snapshots", store.folder / "all.parquet")
    write_snapshot(tmp_path / "later", "us", cluster_state("us", *map(owned_topic, NAMES)), hours=2)
    as_table(spark, tmp_path / "later", table)
    assert reported(manifests, table, tmp_path / "report", "-q") == 1
    assert [row for row in read_rows(tmp_path / "report") if row["cluster"] == "us"] == []
    (old,) = read_summary(tmp_path / "report")["inputs"]["superseded"]
    assert (old["cluster"], old["takenAt"]) == ("us", "2025-01-31T12:00:00Z")


def test_rows_that_a_table_lacks_are_not_missing(
    spark: SparkSession, manifests: Path, store: Store, tmp_path: Path
) -> None:
    """If a table has fewer rows than the first row announces, topics without a row are not judged."""
    whole = (store.folder / "snapshots" / "eu.jsonl").read_text().splitlines(keepends=True)
    (store.folder / "snapshots" / "eu.jsonl").write_text("".join(line for line in whole if '"orders"' not in line))
    table = as_table(spark, store.folder / "snapshots", store.folder / "all.parquet")
    assert reported(manifests, table, tmp_path / "report", "-q") == 1
    assert ("eu", "orders") not in {key[:2] for key in row_keys(read_rows(tmp_path / "report"))}
    (incomplete,) = read_summary(tmp_path / "report")["incomplete"]
    assert (incomplete["cluster"], incomplete["notJudged"]) == ("eu", 1)
    (broken,) = read_rows(tmp_path / "report", "broken.jsonl")
    assert (broken["line"], broken["message"]) == (0, "is truncated: found 3 rows after the first, wanted 4")
    assert broken["file"].startswith(str(table))


def test_a_table_that_was_cut_off_is_one_line(
    spark: SparkSession, manifests: Path, store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A truncated Parquet file makes its clusters unknown and is reported without a stack trace."""
    table = as_table(spark, store.folder / "snapshots", store.folder / "all.parquet")
    for file in table.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-20])
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    capfd.readouterr()
    assert reported(manifests, table, tmp_path / "report") == 1
    said = capfd.readouterr().err
    assert {(one["line"], one["message"]) for one in read_rows(tmp_path / "report", "broken.jsonl")} == {
        (0, "found no end of a Parquet file: the file is truncated or is not Parquet")
    }
    assert row_keys(read_rows(tmp_path / "report")) == [(name, "", "unknown", "") for name in ("eu", "gone", "us")]
    assert "\tat " not in said
    assert "Traceback" not in said


def spoiled(table: Path) -> Path:
    """Overwrite the columns of a table with zeros; header and footer stay valid."""
    for file in table.rglob("*.parquet"):
        data = file.read_bytes()
        length = int.from_bytes(data[-8:-4], "little") + 8
        file.write_bytes(data[:4] + b"\0" * (len(data) - length - 4) + data[-length:])
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return table


def guessed(spark: SparkSession, store: Store) -> Path:
    """Write a table with types that Spark inferred."""
    table = store.folder / "guessed.parquet"
    spark.read.json(str(store.folder / "snapshots" / "eu.jsonl")).write.parquet(str(table))
    return table


Wrong = Callable[[SparkSession, Store], str | Path]


@pytest.mark.parametrize(
    ("snapshots", "why"),
    [
        (lambda spark, store: f"{store.address}/nowhere", "nowhere: there is no such file or folder"),
        (lambda spark, store: f"{store.address}/snapshots/empty", "has no file *.jsonl"),
        (lambda spark, store: "nonsense:/a", "nonsense:/a: there is no such file or folder"),
        (guessed, "found no table of snapshots: column "),
        (
            lambda spark, store: spoiled(as_table(spark, store.folder / "snapshots", store.folder / "t.parquet")),
            ".parquet: ",
        ),
    ],
    ids=["no folder", "empty folder", "no scheme", "other types", "spoiled"],
)
def test_input_that_cannot_be_read_is_one_line(  # noqa: PLR0913
    spark: SparkSession,
    manifests: Path,
    store: Store,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    snapshots: Wrong,
    why: str,
) -> None:
    """Unreadable input gives one error with the problem and its place, and no report, traceback or stack trace."""
    (store.folder / "snapshots" / "empty").mkdir()
    place = snapshots(spark, store)
    capfd.readouterr()
    assert reported(manifests, place, tmp_path / "report") == 1
    said = capfd.readouterr().err
    assert said.count("error: ") == 1
    assert why in said
    assert len(said.splitlines()) <= 2
    assert "\tat " not in said
    assert "Traceback" not in said
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("out", ["{address}/mine"], ids=["not a report"])
def test_a_place_that_is_not_for_us_is_one_line(
    manifests: Path, store: Store, capfd: pytest.CaptureFixture[str], out: str
) -> None:
    """An output that topiarist may not replace is an error before any comparison, and the existing files stay."""
    (store.folder / "mine").mkdir()
    (store.folder / "mine" / "mine.txt").write_text("mine")
    name = store.address.removeprefix("viewfs://").partition("/")[0]
    there = out.format(name=name, address=store.address)
    capfd.readouterr()
    assert reported(manifests, f"{store.address}/snapshots", there) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"error: {there}")
    assert len(said.splitlines()) <= 2
    assert "\tat " not in said
    assert sorted(path.name for path in store.folder.iterdir()) == ["mine", "snapshots"]


def test_a_report_before_that_is_none_is_named_by_its_address(
    manifests: Path, store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error for an invalid previous report names its address instead of the local copy."""
    there = f"{store.address}/snapshots"
    assert reported(manifests, there, tmp_path / "report", "--previous", there) == 1
    assert f"error: {there}/summary.json" in capfd.readouterr().err
