"""Reports by the engine of Spark, and the snapshots that only Spark can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.drift.folder_store import STORE, FolderStore
from support.drift.small_fleet import (
    REPLICA_LISTS,
    SNAPSHOT_TIME,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    topic_document,
    write_manifests,
    write_snapshot,
)
from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot
from topiarist.adapters.snapshots.lenient_reader import InvalidRow
from topiarist.cli.main import run
from topiarist.drift.snapshots import StoredLines
from topiarist.drift.spark import outputs
from topiarist.drift.spark.engine import SparkSnapshotInventory, distribute_parts
from topiarist.drift.spark.worker import read_parts
from topiarist.drift.task import Part
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import TopicState
from unit.drift.spark.conftest import Place

CLUSTERS = {name: ClusterSpec(name) for name in ("ap", "eu", "us")}

TIME = format_time(SNAPSHOT_TIME)


def lines_of(name: str, *topics: str) -> list[bytes]:
    """Return the lines of a snapshot with some topics."""
    return [*dump_snapshot(Snapshot(name, SNAPSHOT_TIME, cluster_state(name, *map(owned_topic, topics))))]


def write_table(place: Place, table: Path, *names: str, drop: str = "") -> None:
    """Write a table with the snapshots of some clusters, in no useful order."""
    source = table.with_name("source.json")
    source.write_bytes(b"".join(line for name in names for line in lines_of(name, "a", "b")[::-1]))
    rows = place.spark.read.schema(outputs.snapshot_row_type()).json(source.as_uri())
    source.unlink()
    rows.select(*(name for name in outputs.snapshot_row_type().names if name != drop)).write.parquet(f"file://{table}")


def open_inventory(place: Place, *paths: str | Path) -> SparkSnapshotInventory:
    """Return the inventory of some paths."""
    return SparkSnapshotInventory(place.spark, [*map(str, paths)], CLUSTERS, SNAPSHOT_TIME)  # type: ignore[arg-type]


def test_files_and_tables_are_found_in_stores_and_folders(place: Place, tmp_path: Path) -> None:
    """Each cluster has its snapshot, whatever holds it; files with other names are left out, unless one is named."""
    write_snapshot(place.store / "a", "eu", cluster_state("eu", owned_topic("a")))
    write_snapshot(place.store, "ap", cluster_state("ap"), file="named.txt")
    (place.store / "a" / "notes.txt").write_text("none")
    write_table(place, tmp_path / "us.parquet", "us")
    found = open_inventory(place, f"{STORE}/a", f"{STORE}/named.txt", tmp_path / "us.parquet")
    assert found.unused_input.invalid_rows == []
    assert {name: each.taken_at for name, each in found.files.items()} == dict.fromkeys(CLUSTERS, SNAPSHOT_TIME)
    files = {name: each.file for name, each in found.files.items()}
    assert (files["eu"], files["ap"]) == (f"{STORE}/a/eu.jsonl", f"{STORE}/named.txt")
    assert files["us"].startswith(str(tmp_path / "us.parquet" / "part-"))
    assert {name: each.row_count for name, each in found.files.items()} == {"ap": 0, "eu": 1, "us": 2}


def test_a_folder_without_snapshots_is_an_error(place: Place) -> None:
    """The error names the address and both suffixes."""
    (place.store / "empty").mkdir()
    with pytest.raises(TopiaristError, match=rf"{STORE}/empty has no file \*.jsonl or \*.parquet") as raised:
        open_inventory(place, f"{STORE}/empty")
    assert raised.value.reason is Reason.SNAPSHOT_UNUSABLE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found an empty file, wanted a snapshot"),
        (b"{\n", "1: "),
        (b'{"kind":"topic"}\n', "1: "),
        (b"PAR1", ""),
    ],
)
def test_an_unusable_file_is_named(place: Place, content: bytes, message: str) -> None:
    """A file without a valid first row is an invalid row without a line, with its address in the message."""
    (place.store / "eu.jsonl").write_bytes(content)
    found = open_inventory(place, STORE)
    (row,) = found.unused_input.invalid_rows
    assert found.files == {}
    assert (row.file, row.line) == (f"{STORE}/eu.jsonl", 0)
    assert row.message.startswith(f"{STORE}/eu.jsonl:{'' if message.startswith('1') else ' ' * bool(message)}{message}")


def test_a_file_that_cannot_be_read_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first row that is too long is an invalid row, and the other snapshots are used."""
    monkeypatch.setattr("topiarist.drift.storage.MAX_ROW_BYTES", 2000)
    write_snapshot(place.store, "eu", cluster_state("eu"))
    (place.store / "us.jsonl").write_bytes(b"x" * 2001)
    found = open_inventory(place, STORE)
    assert [*found.files] == ["eu"]
    (row,) = found.unused_input.invalid_rows
    assert row == InvalidRow(f"{STORE}/us.jsonl", 0, f"{STORE}/us.jsonl: found a row of more than ~2 KiB")


@pytest.mark.parametrize("content", [b"", b"PAR", b"PAR1 and no end"])
def test_a_table_without_its_end_is_named(place: Place, content: bytes) -> None:
    """A truncated table is an invalid row, and the other tables are read."""
    write_table(place, place.store / "us.parquet", "us")
    (place.store / "eu.parquet").write_bytes(content)
    found = open_inventory(place, STORE)
    (row,) = found.unused_input.invalid_rows
    message = "found no end of a Parquet file: the file is truncated or is not Parquet"
    assert row == InvalidRow(f"{STORE}/eu.parquet", 0, message)
    assert [*found.files] == ["us"]


def test_a_table_that_cannot_be_read_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row has the error of the store, and the other tables are read."""
    write_table(place, place.store / "us.parquet", "us")
    (place.store / "eu.parquet").write_bytes(b"PAR1")
    opening = FolderStore.open

    def fail(store: FolderStore, path: str, *given: Any, **options: Any) -> Any:
        if path.endswith("eu.parquet"):
            raise OSError("connection reset")
        return opening(store, path, *given, **options)

    monkeypatch.setattr(FolderStore, "open", fail)
    found = open_inventory(place, STORE)
    (row,) = found.unused_input.invalid_rows
    assert (row.file, row.line) == (f"{STORE}/eu.parquet", 0)
    assert row.message.startswith(f"{STORE}/eu.parquet: ")
    assert "connection reset" in row.message
    assert [*found.files] == ["us"]


@pytest.mark.parametrize(("drop", "is_usable"), [("usage", True), ("evidence", True), ("config", False)])
def test_a_table_has_the_columns_of_snapshots(place: Place, drop: str, is_usable: bool) -> None:
    """A table that lacks a column is an error that names it; tables of earlier releases lack those of usage."""
    write_table(place, place.store / "us.parquet", "us", drop=drop)
    if is_usable:
        assert [*open_inventory(place, STORE).files] == ["us"]
        return
    with pytest.raises(TopiaristError, match="found no table of snapshots: column config: found no such") as raised:
        open_inventory(place, STORE)
    assert "wanted map<string,string>" in raised.value.message
    assert raised.value.message.startswith(f"{STORE}/us.parquet/part-")
    assert "docs/drift-reference.md" in raised.value.hint
    assert raised.value.reason is Reason.SNAPSHOT_UNUSABLE


def test_a_column_of_another_type_is_named(place: Place) -> None:
    """The error has the type that was found, and the one that was wanted."""
    write_table(place, place.store / "us.parquet", "us")
    (file,) = (place.store / "us.parquet").glob("part-*")
    table = pq.read_table(file)
    pq.write_table(table.set_column(table.column_names.index("rows"), "rows", table["rows"].cast(pa.int64())), file)
    with pytest.raises(TopiaristError, match="column rows: found bigint, wanted int"):
        open_inventory(place, STORE)


def test_a_first_row_of_a_table_is_named_by_its_cluster(place: Place) -> None:
    """A table has the snapshots of many clusters, and no lines."""
    write_table(place, place.store / "all.parquet", "us", "eu")
    (file,) = (place.store / "all.parquet").glob("part-*")
    rows = [row | {"takenAt": "?"} if row["cluster"] == "eu" else row for row in pq.read_table(file).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    found = open_inventory(place, STORE)
    (row,) = found.unused_input.invalid_rows
    assert row.message.startswith(f"{row.file}: cluster eu: takenAt: found")
    assert f"{row.file} is unusable: cluster eu: takenAt: found" in found.describe_missing("eu")


def test_a_large_table_is_not_read_for_its_end(place: Place, tmp_path: Path) -> None:
    """Only the last bytes of a local file are read."""
    (tmp_path / "tables").mkdir()
    with (tmp_path / "tables" / "large.parquet").open("wb") as file:
        file.truncate(1 << 43)
    (row,) = open_inventory(place, tmp_path / "tables").unused_input.invalid_rows
    (tmp_path / "tables" / "large.parquet").unlink()
    assert row.message == "found no end of a Parquet file: the file is truncated or is not Parquet"


def test_of_a_table_only_the_days_in_use_are_read(place: Place) -> None:
    """Files in the folder of a day without a snapshot in use are not opened for the rows of snapshots."""
    days = place.store / "date=2025-01-30", place.store / "date=2025-01-31"
    for day, cluster in zip(days, ("old", "eu"), strict=True):
        write_table(place, day, cluster)
    found = open_inventory(place, STORE)
    assert [*found.files] == ["eu"]
    rmtree(days[0])
    assert len(found.read_table_lines([("eu", TIME)]).collect()) == 3


def test_the_rows_of_a_table_are_lines_in_order_of_kind(place: Place) -> None:
    """The lines of the snapshots asked for are those of their files, the row of the cluster first, with every field."""
    write_table(place, place.store / "all.parquet", "us", "eu", "ap")
    lines = open_inventory(place, STORE).read_table_lines([("eu", TIME), ("us", "2020-01-01T00:00:00Z")])
    found = sorted(lines.collect(), key=lambda row: (row.order, row.text))
    assert {row.cluster for row in found} == {"eu"}
    rows = [json.loads(row.text) for row in found]
    assert [*map(drop_nulls, rows)] == [drop_nulls(json.loads(line)) for line in lines_of("eu", "a", "b")]
    kinds = ("cluster", "topic", "topic")
    assert [{*row} for row in rows] == [{field.name for field in outputs.fields_of_kinds(kind)} for kind in kinds]


def drop_nulls(value: Any) -> Any:
    """Return a row without the fields that are null, at any depth: a snapshot may leave some out."""
    if isinstance(value, list):
        return [*map(drop_nulls, value)]
    if not isinstance(value, dict):
        return value
    return {name: drop_nulls(each) for name, each in value.items() if each is not None}


def open_all_kinds(place: Place, tmp_path: Path) -> SparkSnapshotInventory:
    """Return an inventory with a local file, a file in a store, and a table with two clusters."""
    write_snapshot(tmp_path / "here", "ap", cluster_state("ap", owned_topic("a")))
    write_snapshot(place.store / "files", "us", cluster_state("us", owned_topic("a")))
    write_table(place, place.store / "t.parquet", "eu", "other")
    return open_inventory(place, tmp_path / "here", f"{STORE}/files", f"{STORE}/t.parquet")


def parts_of(inventory: SparkSnapshotInventory) -> list[Any]:
    """Return the part of each cluster with a snapshot."""
    return [Part(name, inventory.find_lines(name)) for name in inventory.files]


def test_sources_have_lines_where_a_task_can_read_them(place: Place, tmp_path: Path) -> None:
    """A task reads a local file by itself; the lines of all other snapshots are added on the way to it."""
    lines = {part.cluster: part.source.lines for part in parts_of(open_all_kinds(place, tmp_path))}
    here, there = str(tmp_path / "here" / "ap.jsonl"), f"{STORE}/files/us.jsonl"
    assert lines == {"ap": StoredLines(here), "eu": (), "us": StoredLines(there)}


def test_every_part_reaches_a_task_with_its_lines(place: Place, tmp_path: Path) -> None:
    """Each part is distributed once, with the lines of its own snapshot; one without a snapshot is too. The content of
    a file in a store is beside its part.
    """
    inventory = open_all_kinds(place, tmp_path)
    table: Any = distribute_parts(place.spark, inventory, [*parts_of(inventory), Part("gone", None)])  # type: ignore[arg-type]
    topics = {"ap": ["a"], "eu": ["a", "b"], "us": ["a"]}
    assert dict(map(read_lines, parts_in(table))) == {
        "gone": None,
        **{name: [drop_nulls(json.loads(line)) for line in lines_of(name, *each)] for name, each in topics.items()},
    }
    data = {row.cluster: row.data for row in table.collect() if row.part}
    assert data == {"ap": None, "eu": None, "gone": None, "us": (place.store / "files" / "us.jsonl").read_bytes()}


def parts_in(table: Any) -> Iterator[Part]:
    """Yield the parts in a table as its tasks read them."""
    for rows in table._partitions:
        columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in PART_COLUMNS.items()}
        yield from read_parts([pa.record_batch(columns)])


PART_COLUMNS = {"cluster": pa.string(), "part": pa.binary(), "data": pa.binary()}


def read_lines(part: Any) -> Any:
    """Return the cluster of a part with its rows."""
    return part.cluster, part.source and [drop_nulls(json.loads(line)) for line in part.source.lines]


@pytest.mark.parametrize("name", ["ap", "eu", "us"])
def test_kinds_that_no_part_needs_are_not_distributed(place: Place, tmp_path: Path, name: str) -> None:
    """Where all parts are of one kind, the table has that kind alone."""
    inventory = open_all_kinds(place, tmp_path)
    table = distribute_parts(place.spark, inventory, [Part(name, inventory.find_lines(name))])  # type: ignore[arg-type]
    assert [part.cluster for part in parts_in(table)] == [name]


def test_the_largest_local_snapshot_is_first(place: Place, tmp_path: Path) -> None:
    """Tasks begin with the clusters that have the most rows."""
    for name, count in (("ap", 1), ("eu", 3), ("us", 2)):
        topics = [owned_topic(f"t{number}") for number in range(count)]
        write_snapshot(tmp_path / "here", name, cluster_state(name, *topics))
    inventory = open_inventory(place, tmp_path / "here")
    table = distribute_parts(place.spark, inventory, parts_of(inventory))  # type: ignore[arg-type]
    assert [part.cluster for part in parts_in(table)] == ["eu", "us", "ap"]


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
    """Return the files of a report except Parquet, with the store's address replaced by its folder.

    Commands have the snapshots only where another command can read them.
    """
    found = {path.name: read_text(path).replace(STORE, str(place.store)) for path in out.iterdir() if is_text(path)}
    return {name: re.sub(r" --snapshots? \S+?(?=[ \"])", "", text) for name, text in found.items()}


def is_text(path: Path) -> bool:
    """Return whether a file or folder of a report has text."""
    return path.suffix != ".parquet"


def read_text(path: Path) -> str:
    """Return the text of a file, or of the files that executors wrote in a folder."""
    parts = sorted(path.glob("part-*")) if path.is_dir() else [path]
    return "".join(part.read_text() for part in parts)


def report(manifests: Path, snapshots: str | Path, out: str | Path, *words: str | Path, code: int = 1) -> None:
    """Run ``topiarist drift`` in this process."""
    engine = ["--engine", "spark"] if STORE in str(out) else []
    command = ["drift", str(manifests), "--snapshots", str(snapshots), "--out", str(out), "-q", *engine]
    command += map(str, words)
    assert run(command) == code


def write_tables(place: Place, snapshots: Path, table: str) -> None:
    """Write snapshots as a table, as the documentation describes."""
    for number, path in enumerate(sorted(snapshots.rglob("*.jsonl"))):
        rows = place.spark.read.schema(outputs.snapshot_row_type()).json(str(path.as_uri()))
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
    assert {part.partition("/")[0] for part in parts} == {"date=2025-01-31"}


def test_a_table_is_as_good_as_files(manifests: Path, place: Place, tmp_path: Path) -> None:
    """A table with the rows of all clusters in any order gives the same report, locally and in a store."""
    write_tables(place, place.store / "snapshots", f"{STORE}/tables")
    report(manifests, place.store / "snapshots", tmp_path / "files")
    for where in (place.store / "tables", f"{STORE}/tables"):
        report(manifests, where, tmp_path / "table")
        assert texts(tmp_path / "table", place) == texts(tmp_path / "files", place)
