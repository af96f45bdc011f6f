"""Snapshot inputs that only Spark can read: remote URIs, Parquet tables, and live clusters.

A JSON lines file holds one snapshot. A Parquet table has the same rows, for any number of clusters and times. The
driver reads the first row of each snapshot; the executors read the other rows. A snapshot without all the rows that its
first row announces is then read line by line on the driver, as ``SnapshotInventory`` does.

Live clusters are read by the executors through the ZooKeeper adapter, several clusters per task. The rows are written
as one Parquet table, completely or not at all, and then read like any other table. In this way each cluster is read
only once, even if Spark evaluates a query again or an executor is lost. ``drift.spark.engine`` opens the inventories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.adapters.snapshots.codec import format_time, parse_time
from topiarist.adapters.snapshots.files import SUFFIX, printable_path, read_lines
from topiarist.adapters.snapshots.lenient_reader import InvalidRow, SnapshotHeader
from topiarist.adapters.snapshots.validate import RowChecker, RowError, parse_row
from topiarist.drift.equality import EqualTopics
from topiarist.drift.live import FAILURE_MESSAGE, MAX_PARALLEL_CLUSTERS, PROBLEM, ConnectOptions, read_clusters
from topiarist.drift.snapshots import ClusterInput, SnapshotInventory, list_files, require_files
from topiarist.drift.spark import columns, job
from topiarist.drift.spark.errors import translate_errors
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.uris import PARQUET_SUFFIX, is_remote, to_literal_uri, to_local_path, to_uri
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec

_MAX_PARALLEL_READS = 16
"""Number of first rows to fetch at the same time; a remote store has a high latency per request."""

_PARQUET_MAGIC, _FILE_COLUMN = b"PAR1", "_file"


class SparkSnapshotInventory(SnapshotInventory):
    """A ``SnapshotInventory`` for local paths and remote URIs, of JSON lines files and Parquet tables."""

    def __init__(self, spark: SparkSession, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> None:
        self._spark = spark
        self._storage = Storage(spark)
        self._cluster_row_lines: dict[tuple[str, str, str], bytes] = {}
        self._tables: list[str] = []
        # Spark removes this folder when the session ends.
        self._fetched_file = Path(SparkFiles.getRootDirectory(), f"fetched-{token_hex(8)}{SUFFIX}")
        super().__init__(paths, clusters)

    def list_snapshots(self, paths: Sequence[str]) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        """Yield each file with its snapshot header, or with the error of an unusable file.

        A table is yielded once for each snapshot that it holds.
        """
        files = {file for path in paths for file in self._list_files(path)}
        tables = sorted(file for file in files if file.endswith(PARQUET_SUFFIX))
        plain = sorted(files.difference(tables))
        with ThreadPoolExecutor(_MAX_PARALLEL_READS) as pool:
            for file, line in zip(plain, pool.map(self._read_first_line, plain), strict=True):
                yield file, line if isinstance(line, InvalidRow) else self._parse_header(file, line)
        for file in tables:
            if problem := self._parquet_problem(file):
                yield file, InvalidRow(printable_path(file), 0, problem)
            else:
                self._tables.append(file)
        if self._tables:
            yield from self._list_table_snapshots()

    def read_cluster_row(self, name: str) -> dict[str, Any]:
        """Return the first row of the snapshot in use for a cluster."""
        return parse_row(self._cluster_row_line(name))

    def local_path(self, name: str) -> Path:
        """Return a local file with all rows of the snapshot in use for a cluster.

        Rows of a table or a remote file are fetched into one file, which the next call overwrites.
        """
        file = self._files[name][1]
        if not is_remote(file) and not file.endswith(PARQUET_SUFFIX):
            return Path(file)
        lines = self._read_lines(name) if file.endswith(PARQUET_SUFFIX) else self._storage.read_lines(file)
        with self._fetched_file.open("wb") as output:
            output.writelines(lines)
        return self._fetched_file

    def read_actual_rows(self, names: Iterable[str]) -> DataFrame:
        """Return the topic and record rows of the snapshots in use for these clusters.

        The columns are those of ``drift.spark.columns.actual_row_type``.
        """
        snapshots = {name: self._files[name] for name in names}
        json_files = [to_literal_uri(file) for _, file in snapshots.values() if not file.endswith(PARQUET_SUFFIX)]
        json_rows = job.read_json_lines(self._spark, json_files) if json_files else None
        table_snapshots = [
            (name, format_time(taken)) for name, (taken, file) in snapshots.items() if file.endswith(PARQUET_SUFFIX)
        ]
        if json_rows is not None and not table_snapshots:
            return json_rows
        snapshot_keys = f.broadcast(self._spark.createDataFrame(table_snapshots, "cluster string, takenAt string"))
        rows = self._read_tables().where("kind <> 'cluster'").join(snapshot_keys, ["cluster", "takenAt"], "left_semi")
        uncorrupted = f.lit(None).cast("string").alias(columns.CORRUPT_COLUMN)
        table = columns.select_typed(rows, columns.fields_of_kinds("topic", "record"), uncorrupted)
        return table if json_rows is None else json_rows.unionByName(table)

    def _list_files(self, path: str) -> list[str]:
        suffixes = (SUFFIX, PARQUET_SUFFIX)
        if not is_remote(path):
            return list_files(path, *suffixes)
        files = [file for file in self._storage.list_files(path) if file.endswith(suffixes) or file == path]
        return require_files(path, files, suffixes)

    def _read_first_line(self, file: str) -> bytes | InvalidRow:
        """Return the first line of a file, empty for an empty file, or the error if it cannot be read."""
        try:
            return next(iter(self._storage.read_lines(file) if is_remote(file) else read_lines(Path(file))), b"")
        except TopiaristError as error:
            return InvalidRow(printable_path(file), 0, str(error.args[0]))

    def _parse_header(self, file: str, line: bytes) -> SnapshotHeader | InvalidRow:
        """Return the snapshot header of a first line, or the error; a valid line is kept as the cluster row."""
        name = printable_path(file)
        if not line:
            return InvalidRow(name, 0, f"{name}: found an empty file, wanted a snapshot")
        try:
            row = parse_row(line)
            RowChecker().check(row)
        except RowError as error:
            return InvalidRow(name, 0, f"{name}:1: {error}")
        header = SnapshotHeader(row["cluster"], parse_time(row["takenAt"]))
        self._cluster_row_lines[header.cluster, row["takenAt"], file] = line
        return header

    def _cluster_row_line(self, name: str) -> bytes:
        taken, file = self._files[name]
        return self._cluster_row_lines[name, format_time(taken), file]

    def _parquet_problem(self, file: str) -> str:
        """Return the reason why a file is not Parquet; empty if it ends like a Parquet file."""
        try:
            # Only Spark's Parquet reader can check the rest of the file.
            ended = self._storage.read_tail(to_uri(file), len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        except TopiaristError as error:
            return str(error.args[0])
        return "" if ended else "found no end of a Parquet file: the file is truncated or is not Parquet"

    def _list_table_snapshots(self) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        with translate_errors(Reason.SNAPSHOT_UNUSABLE, self._tables[0]):
            _require_columns(self._spark.read.parquet(to_literal_uri(self._tables[0])).schema, self._tables[0])
            heads = self._to_lines(self._read_tables(), "cluster").collect()
        given = {to_uri(file): file for file in self._tables}
        for row in heads:
            # Spark returns the file as a percent-encoded URI.
            file = given.get(to_uri(to_local_path(row.file))) or given.get(unquote(row.file), row.file)
            yield file, self._parse_header(file, row.text.encode())

    def _read_lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines that the snapshot of a cluster would have as a JSON lines file."""
        taken, _ = self._files[name]
        yield self._cluster_row_line(name) + b"\n"
        whole = self._read_tables().where((f.col("cluster") == name) & (f.col("takenAt") == format_time(taken)))
        for kind in ("topic", "record"):
            for row in self._to_lines(whole, kind).toLocalIterator():
                yield row.text.encode() + b"\n"

    def _read_tables(self) -> DataFrame:
        """Return all rows of all tables, each with the URI of its file."""
        rows = self._spark.read.schema(columns.snapshot_row_type()).parquet(*map(to_literal_uri, self._tables))
        return rows.select("*", f.col("_metadata.file_path").alias(_FILE_COLUMN))

    def _to_lines(self, rows: DataFrame, kind: str) -> DataFrame:
        """Return the rows of a kind as JSON lines in column ``text``, each with its ``file``."""
        fields = columns.fields_of_kinds(kind)
        line = f.to_json(f.struct([field.name for field in fields]), {"ignoreNullFields": "false"})
        rows_of_kind = rows.where(f.col("kind") == kind)
        return columns.select_typed(rows_of_kind, fields, f.col(_FILE_COLUMN)).select(
            line.alias("text"), f.col(_FILE_COLUMN).alias("file")
        )


def read_actual_rows(spark: SparkSession, inventory: SnapshotInventory, names: Iterable[str]) -> DataFrame:
    """Return the topic and record rows of the snapshots in use for these clusters."""
    if isinstance(inventory, SparkSnapshotInventory):
        return inventory.read_actual_rows(names)
    return job.read_json_lines(spark, [to_literal_uri(inventory.files[name][1]) for name in names])


def _require_columns(found: types.StructType, file: str) -> None:
    """Raise ``SnapshotUnusable`` unless a table has the columns of snapshots with their types."""
    expected = {field.name: field.dataType.simpleString() for field in columns.snapshot_row_type()}
    actual = {field.name: field.dataType.simpleString() for field in found}
    if wrong := [name for name, kind in expected.items() if actual.get(name) != kind]:
        first = f"{wrong[0]}: found {actual.get(wrong[0], 'no such column')}, wanted {expected[wrong[0]]}"
        message = f"{printable_path(file)}: found no table of snapshots: column {first}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "write the table with the schema in docs/drift.md")


LIVE_TABLE = f"live{PARQUET_SUFFIX}"


class LiveInventory(SparkSnapshotInventory):
    """An inventory of live clusters that the executors have read.

    ``place`` is a folder that all executors can write to; its content belongs to this run only. ``read_errors`` has the
    error message of each cluster that could not be read.
    """

    def __init__(
        self, spark: SparkSession, clusters: Mapping[str, ClusterSpec], connect_options: ConnectOptions, place: str
    ) -> None:
        table = f"{place}/{LIVE_TABLE}"
        _write_live_table(spark, clusters.values(), connect_options, to_uri(table))
        problems = spark.read.schema(_live_row_type()).parquet(to_literal_uri(table)).where(f.col("kind") == PROBLEM)
        failures = sorted((row.cluster, row[PROBLEM], row[FAILURE_MESSAGE]) for row in problems.collect())
        self._problems = {name: problem for name, problem, _ in failures}
        self.read_errors = {name: message for name, _, message in failures}
        super().__init__(spark, [table], clusters)

    def read_cluster(self, name: str, equal_topics: EqualTopics) -> ClusterInput:
        """Return the input of one cluster, or its problem if it could not be read."""
        problem = self._problems.get(name)
        return ClusterInput(name, problem=problem) if problem else super().read_cluster(name, equal_topics)


def _write_live_table(
    spark: SparkSession, clusters: Iterable[ClusterSpec], connect_options: ConnectOptions, table: str
) -> None:
    # Only references to secrets are sent to executors, never secret values: each task resolves them where it runs.
    specs = [replace(spec, source=None) for spec in clusters]
    context = spark.sparkContext
    parts = max(min(len(specs), context.defaultParallelism), -(-len(specs) // MAX_PARALLEL_CLUSTERS), 1)

    def lines(part: Iterable[ClusterSpec]) -> Iterator[tuple[str]]:
        return ((line,) for line in read_clusters([*part], connect_options))

    text = spark.createDataFrame(context.parallelize(specs, parts).mapPartitions(lines), "line string")
    row = f.from_json("line", _live_row_type(), {"mode": "FAILFAST"})
    text.select(row.alias("row")).select("row.*").write.parquet(table)


def _live_row_type() -> types.StructType:
    text_fields = (types.StructField(name, types.StringType()) for name in (PROBLEM, FAILURE_MESSAGE))
    return types.StructType([*columns.snapshot_row_type().fields, *text_fields])
