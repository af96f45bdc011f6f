"""The Spark engine of a drift report: the same folder as processes of one machine write.

``cli.commands.drift`` creates it if Spark is selected. It makes the same parts as ``drift.report``, runs a
``SparkJob`` of them, and translates all Spark errors. Paths that do not need Spark are passed to the base class.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import reduce
from heapq import nsmallest
from io import SEEK_END
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.files import SUFFIX
from topiarist.adapters.snapshots.lenient_reader import InvalidRow, SnapshotHeader
from topiarist.drift.causes import CauseIndex, Causes, to_cause_row
from topiarist.drift.compare import INVALID_ROWS_FILE, LINE_FILES, ClusterResult
from topiarist.drift.cross_cluster import MAX_SHOWN_DIFFERENCES
from topiarist.drift.history import ACCEPTED_FILE, FINDINGS_FILE, RunHistory
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder
from topiarist.drift.outputs.remote import RemoteReportFolder
from topiarist.drift.report import (
    DuplicateClusterIds,
    Engine,
    ReportJob,
    SummaryBuilder,
    compare_duplicate,
    make_parts,
    sources_of,
)
from topiarist.drift.snapshots import (
    PARQUET_SUFFIX,
    SnapshotInventory,
    SnapshotLines,
    list_files,
    parse_header,
    read_headers,
    spark_required_reason,
    to_literal_uri,
    to_uri,
)
from topiarist.drift.spark import outputs, session
from topiarist.drift.spark.outputs import SparkHistory
from topiarist.drift.spark.session import HINT_SCHEMA, HINT_SHARED, NATIVE_ARCHIVE, is_distributed, translate_errors
from topiarist.drift.spark.worker import (
    DEVIATION,
    FAILURE,
    PART_TYPE,
    RESULT,
    TABLE_TYPE,
    TaskFailure,
    TaskResult,
    decode_result,
    difference_key,
    encode_lines,
)
from topiarist.drift.storage import Storage, is_remote, to_local_path
from topiarist.drift.task import MAX_PARALLEL_CLUSTERS, LiveCluster, Part, encode_line
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.text import printable, printable_path

# The Spark job behind a drift report: ``drift.task.work`` on executors, and a report from its results.
#
# ``drift.spark.engine`` calls it. One stage reads and compares all clusters. Executors write the results to a table in
# the report's staging folder: what a lost or repeated task has written does not count, and no cluster is read again for
# a later step. A second stage sorts the lines of the report's files; a third brings together the deviations of each
# topic. Only counts and the entries of ``summary.json`` reach the Python of the driver.

_TASKS_PER_CORE = 3
"""Tasks for each core: more would make the end even, fewer let a task learn more from its own clusters."""

_SETTINGS = {
    # Files of a task that are open at the same time: without this, a task sorts its rows by kind first.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # A row may be a whole snapshot.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 24),
}


def make_task(function: str, *given: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function of ``drift.spark.worker`` for ``mapInArrow``, with the arguments after its batches.

    Executors load it before they can import this package: it uses only Python and PySpark until it is called.
    """
    archive = NATIVE_ARCHIVE

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        import sys
        from importlib import import_module

        from pyspark import SparkFiles

        folder = SparkFiles.get(archive)
        if folder not in sys.path:
            sys.path.append(folder)
        yield from getattr(import_module("topiarist.drift.spark.worker"), function)(batches, *given)

    return task


class SparkJob:
    """The comparison of one report by Spark; ``folder`` is the report's staging folder.

    Last steps of the folder read all lines: only for them, the driver fetches those of a report at an address.
    """

    def __init__(self, spark: SparkSession, job: ReportJob, folder: ReportFolder) -> None:
        self._spark = spark
        self._job = job
        self._folder = folder
        self._needs_lines = folder.has_final_steps
        self._shipped = job.shipped
        self._sent = token_hex(8), pickle.dumps(self._shipped)
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)

    def run(self, parts: Mapping[str, Part], rows: DataFrame) -> dict[str, Any]:
        """Compare all parts, write the report, and return its summary.

        ``parts`` are all parts by cluster, in order of name; ``rows`` has the same parts with their lines.
        """
        table = self._write_table(rows)
        found = self._read_results(table, len(parts))
        builder, duplicates = SummaryBuilder(self._job), DuplicateClusterIds()
        counts = dict.fromkeys([*LINE_FILES, DEVIATION], 0)
        replaced: list[ClusterResult] = []
        for result, numbers in found:
            if problem := duplicates.find_problem(result):
                numbers = {INVALID_ROWS_FILE: numbers[INVALID_ROWS_FILE]}
                unknown = compare_duplicate(result, parts[result.cluster], problem, self._shipped)
                replaced.append(unknown)
                for name, lines in unknown.lines.items():
                    numbers[name] = numbers.get(name, 0) + len(lines)
            builder.add(unknown if problem else result)
            for name, number in numbers.items():
                counts[name] += number
        names = [result.cluster for result in replaced]
        table = table.where(~f.col("cluster").isin(names) | (f.col("kind") == INVALID_ROWS_FILE)) if names else table
        total, shown = self._find_differences(table, builder.compared) if counts[DEVIATION] else (0, [])
        causes = self._find_causes(table, replaced)
        summary = builder.build(causes, total, shown)
        self._collect_lines(table, replaced, counts)
        self._folder.commit(summary, causes, self._job.repairs, self._job.between)
        return summary

    def compare(self, rows: DataFrame) -> DataFrame:
        """Return the results of all parts, which executors compute when they are used."""
        return rows.mapInArrow(make_task("compare_batches", *self._sent), TABLE_TYPE)

    def _write_table(self, rows: DataFrame) -> DataFrame:
        """Compare all parts; return the table of the results, which executors have written."""
        place = self._place("results")
        self.compare(rows).write.partitionBy("kind").parquet(to_uri(place))
        return self._spark.read.schema(TABLE_TYPE).parquet(to_literal_uri(place))

    def _place(self, name: str) -> str:
        # The name of the job: a task that an earlier job left behind in a store writes into a folder of its own.
        return f"{self._folder.staging_path}/{WORK_FOLDER}/{self._sent[0]}/{name}"

    def _read_results(self, table: DataFrame, expected: int) -> list[TaskResult]:
        """Return the results in order of cluster. Raises the errors of tasks."""
        rows = table.where(f.col("kind").isin(RESULT, FAILURE)).select("kind", "data").collect()
        found = [decode_result(row.kind, row.data) for row in rows]
        failures = sorted(each for each in found if isinstance(each, TaskFailure))
        for reason, message, hint in failures:
            raise TopiaristError(reason, message, hint or (HINT_SHARED if is_distributed(self._spark) else ""))
        self._require(len(found), expected, "results")
        results = (each for each in found if isinstance(each, TaskResult))
        return sorted(results, key=lambda each: each.result.cluster)

    def _require(self, found: int, expected: int, what: str) -> None:
        if found != expected:
            # The rest is on the disks of other machines.
            message = f"{printable_path(self._folder.staging_path)}: found {found:,} {what} after writing {expected:,}"
            hint = "set --out to a folder that all machines of the Spark cluster share, or to an address such as s3a:"
            raise TopiaristError(Reason.UNWRITABLE, message, hint)

    def _find_differences(self, table: DataFrame, compared: Iterable[str]) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of cross-cluster differences, and the first of them."""
        fields = f.from_json(f.col("data").cast("string"), "array<string>")
        rows = table.where(f.col("kind") == DEVIATION).select("cluster", fields.alias("fields"))
        names = "topic", "manifest", "group", "variant"
        columns = [f.col("fields").getItem(place).alias(name) for place, name in enumerate(names)]
        ordered = rows.select("cluster", *columns).repartition("topic", "manifest")
        ordered = ordered.sortWithinPartitions("topic", "manifest")
        task = make_task("find_differences", *self._sent, frozenset(compared), MAX_SHOWN_DIFFERENCES)
        found = ordered.mapInArrow(task, "number bigint, data binary").collect()
        shown = (json.loads(row.data) for row in found if row.data is not None)
        return sum(row.number for row in found), nsmallest(MAX_SHOWN_DIFFERENCES, shown, key=difference_key)

    def _find_causes(self, table: DataFrame, replaced: Sequence[ClusterResult]) -> Causes:
        """Return the causes of all findings, which a sort on the driver's disk brings together."""
        rows = table.where(f.col("kind") == FINDINGS_FILE).select("data").toLocalIterator(prefetchPartitions=True)
        given = (line for result in replaced for line in result.lines[FINDINGS_FILE])
        with closing(CauseIndex(self._folder.local_path)) as index, self._folder.translate_errors():
            for line in chain(given, (row.data for row in rows)):
                index.add(to_cause_row(line))
            return index.find()

    def _collect_lines(self, table: DataFrame, replaced: Sequence[ClusterResult], counts: Mapping[str, int]) -> None:
        """Write the files of the report in order of cluster; executors write those of an address themselves."""
        unused = [encode_line(row._asdict()) for row in self._job.unused_input.invalid_rows]
        before = [("", INVALID_ROWS_FILE, place - len(unused), line.rstrip(b"\n")) for place, line in enumerate(unused)]
        given = [*before, *(row for result in replaced for row in encode_lines(result))]
        lines = table.where(f.col("kind").isin(*LINE_FILES))
        lines = lines.unionByName(self._spark.createDataFrame(given, TABLE_TYPE)) if given else lines
        totals = {name: counts[name] + (len(unused) if name == INVALID_ROWS_FILE else 0) for name in LINE_FILES}
        for name in (name for name, total in totals.items() if total):
            ordered = lines.where(f.col("kind") == name).orderBy("cluster", "number")
            texts = ordered.select("cluster", "number", f.col("data").cast("string").alias("value"))
            if isinstance(self._folder, RemoteReportFolder):
                address = f"{self._folder.staging_path}/{name}"
                texts.select("value").write.mode("overwrite").text(address)
                self._folder.remote_names.add(name)
                if self._needs_lines:
                    self._folder.add_lines({name: Storage().read_parts(address)})
                elif name in (FINDINGS_FILE, ACCEPTED_FILE):
                    shown = outputs.sample_lines(texts, totals[name])
                    self._folder.add_lines({name: [row.value.encode() + b"\n" for row in shown]})
            else:
                place = self._place(name)
                texts.select("value").write.text(to_uri(place))
                self._require(self._join_files(name, Path(place)), totals[name], f"lines of {name}")

    def _join_files(self, name: str, place: Path) -> int:
        """Append the files that Spark wrote to a file of the report; return the number of lines."""
        count = 0
        for part in sorted(place.glob("part-*")):
            with part.open("rb") as lines:
                content = lines.read()
            count += content.count(b"\n")
            self._folder.add_lines({name: [content]})
        return count


# Snapshot inputs that only Spark can read, which are Parquet tables, and the distribution of all snapshots.
#
# A JSON lines file holds one snapshot. A Parquet table has the same rows, for any number of clusters and times. The
# driver reads the first row of each snapshot. The executors read the rest: local files by themselves, remote files as
# bytes and tables as JSON lines through Spark, so that the task that validates and compares rows is the same for all.

_PARQUET_MAGIC, _FILE_COLUMN = b"PAR1", "_file"


class SparkSnapshotInventory(SnapshotInventory):
    """A ``SnapshotInventory`` of JSON lines files and Parquet tables, at paths and URIs."""

    def __init__(
        self, spark: SparkSession, paths: Sequence[str], clusters: Mapping[str, ClusterSpec], now: datetime
    ) -> None:
        self._spark = spark
        self._tables: list[str] = []
        super().__init__(paths, clusters, now)

    def list_snapshots(self, paths: Sequence[str]) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        """Yield each file with its snapshot header, or with the error of an unusable file.

        A table is yielded once for each snapshot that it holds.
        """
        files = {file for path in paths for file in list_files(path, SUFFIX, PARQUET_SUFFIX)}
        tables = sorted(file for file in files if file.endswith(PARQUET_SUFFIX))
        yield from read_headers(files.difference(tables))
        for file in tables:
            if problem := self._parquet_problem(file):
                yield file, InvalidRow(printable_path(file), 0, problem)
            else:
                self._tables.append(file)
        if self._tables:
            yield from self._list_table_snapshots()

    def open_lines(self, file: str) -> Iterable[bytes]:
        """Return the lines of a file; those of a table are added by ``distribute_parts``."""
        return () if file.endswith(PARQUET_SUFFIX) else super().open_lines(file)

    def read_table_lines(self, snapshots: Iterable[tuple[str, str]]) -> DataFrame:
        """Return the rows of some snapshots as JSON lines: columns ``cluster``, ``text``, and ``order`` of the kind.

        ``snapshots`` are pairs of cluster and time.
        """
        pairs = [*snapshots]
        names, times = ([*map(str, column)] for column in zip(*pairs, strict=True))
        keys = f.broadcast(self._spark.createDataFrame(pairs, "cluster string, takenAt string"))
        # The reader of a table skips the files and row groups of other clusters and times by constants only.
        days = {_find_day(each.file) for each in self.files.values()}
        rows = self._read_tables(file for file in self._tables if _find_day(file) in days)
        rows = rows.where(f.col("cluster").isin(names)).where(f.col("takenAt").isin(times))
        rows = rows.join(keys, ["cluster", "takenAt"], "left_semi")
        kinds = (
            self._to_lines(rows, kind).select("text", f.lit(number).alias("order"), "cluster")
            for number, kind in enumerate(outputs.ROW_KINDS)
        )
        return reduce(DataFrame.unionByName, kinds)

    def _parquet_problem(self, file: str) -> str:
        """Return the reason why a file is not Parquet; empty if it ends like a Parquet file."""
        try:
            # Only Spark's Parquet reader can check the rest of the file.
            if is_remote(file):
                ended = Storage(Reason.SNAPSHOT_UNUSABLE).read_tail(file, len(_PARQUET_MAGIC))
            else:
                with Path(file).open("rb") as table:
                    table.seek(max(table.seek(0, SEEK_END) - len(_PARQUET_MAGIC), 0))
                    ended = table.read()
        except TopiaristError as error:
            return error.message
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return (
            "" if ended == _PARQUET_MAGIC else "found no end of a Parquet file: the file is truncated or is not Parquet"
        )

    def _list_table_snapshots(self) -> Iterator[tuple[str, SnapshotHeader | InvalidRow]]:
        with translate_errors(Reason.SNAPSHOT_UNUSABLE, self._tables[0]):
            _require_columns(self._spark.read.parquet(to_literal_uri(self._tables[0])).schema, self._tables[0])
            heads = self._to_lines(self._read_tables(self._tables), "cluster").collect()
        given = {to_uri(file): file for file in self._tables}
        for row in heads:
            # Spark returns the file as a percent-encoded URI.
            file = given.get(to_uri(to_local_path(row.file))) or given.get(unquote(row.file), row.file)
            place = f": cluster {printable(str(row.cluster))}"
            yield file, parse_header(printable_path(file), row.text.encode(), place)

    def _read_tables(self, files: Iterable[str]) -> DataFrame:
        """Return all rows of some files of tables, each with the URI of its file."""
        rows = self._spark.read.schema(outputs.snapshot_row_type()).parquet(*map(to_literal_uri, files))
        return rows.select("*", f.col("_metadata.file_path").alias(_FILE_COLUMN))

    def _to_lines(self, rows: DataFrame, kind: str) -> DataFrame:
        """Return the rows of a kind as JSON lines in column ``text``, each with its ``cluster`` and ``file``."""
        fields = outputs.fields_of_kinds(kind)
        line = f.to_json(f.struct([field.name for field in fields]), {"ignoreNullFields": "false"})
        rows_of_kind = rows.where(f.col("kind") == kind)
        typed = outputs.select_typed(rows_of_kind, fields, f.col(_FILE_COLUMN))
        return typed.select(line.alias("text"), f.col(_FILE_COLUMN).alias("file"), "cluster")


def _find_day(file: str) -> str:
    """Return the name of the folder of a day that a file of a partitioned table is in; empty without one."""
    found = re.search(r"/(date=[^/]*)/", file)
    return found[1] if found else ""


def distribute_parts(spark: SparkSession, given: SnapshotInventory | LiveCluster, parts: Iterable[Part]) -> DataFrame:
    """Return all parts as rows of ``PART_TYPE``, with the lines of their snapshots."""
    here, remote, stored = list[Part](), list[Part](), list[Part]()
    for part in parts:
        file = part.source.snapshot.file if isinstance(part.source, SnapshotLines) else ""
        (stored if file.endswith(PARQUET_SUFFIX) else remote if is_remote(file) else here).append(part)
    found = [distribute(spark, here)] if here else []
    if remote:
        found.append(_distribute_files(spark, remote))
    if stored and isinstance(given, SparkSnapshotInventory):
        keys = [(part.cluster, format_time(given.files[part.cluster].taken_at)) for part in stored]
        found.append(_distribute_lines(spark, given.read_table_lines(keys), stored))
    return reduce(DataFrame.unionByName, found)


def distribute(spark: SparkSession, parts: Iterable[Part]) -> DataFrame:
    """Return parts as even tasks, the task with the largest cluster first.

    A task has so many live clusters at most as a machine reads at the same time.
    """
    ordered = sorted(parts, key=lambda part: -part.row_count)
    number = min(len(ordered), _count_cores(spark) * _TASKS_PER_CORE)
    if any(part.is_live for part in ordered):
        number = max(number, -(-len(ordered) // MAX_PARALLEL_CLUSTERS))
    rows = [(place % number, part.cluster, pickle.dumps(part), None) for place, part in enumerate(ordered)]
    table = spark.createDataFrame(rows, f"task int, {PART_TYPE}")
    return table.repartitionById(number, "task").drop("task")


def _count_cores(spark: SparkSession) -> int:
    """Return the number of tasks that Spark runs at the same time; more than 1,024 count as 1,024.

    A range has so many partitions by default, and its 1,024 rows show those that are not empty.
    """
    return spark.range(1 << 10).select(f.spark_partition_id()).distinct().count()


def _distribute_files(spark: SparkSession, parts: Sequence[Part]) -> DataFrame:
    """Return parts with the content of their files, which executors read."""
    sources = {part.source.snapshot.file: part for part in parts if isinstance(part.source, SnapshotLines)}
    rows = [(file, part.cluster, pickle.dumps(part)) for file, part in sources.items()]
    table = f.broadcast(spark.createDataFrame(rows, "path string, cluster string, part binary"))
    files = spark.read.format("binaryFile").load([*map(to_literal_uri, sources)])
    found = files.select("path", f.col("content").alias("data"))
    return found.join(table, "path").select("cluster", "part", "data")


def _distribute_lines(spark: SparkSession, lines: DataFrame, parts: Sequence[Part]) -> DataFrame:
    """Return parts by cluster, each before the lines of a table."""
    rows = [(part.cluster, pickle.dumps(part), None, -1) for part in parts]
    table = spark.createDataFrame(rows, f"{PART_TYPE}, order int")
    data = f.col("text").cast("binary").alias("data")
    typed = lines.select("cluster", f.lit(None).cast("binary").alias("part"), data, "order")
    together = table.unionByName(typed).repartition("cluster")
    return together.sortWithinPartitions("cluster", "order", "data").drop("order")


def _require_columns(found: types.StructType, file: str) -> None:
    """Raise ``SnapshotUnusable`` unless a table has the columns of snapshots with their types."""
    expected = {field.name: field.dataType.simpleString() for field in outputs.snapshot_row_type()}
    actual = {field.name: field.dataType.simpleString() for field in found}
    optional = outputs.optional_columns() - actual.keys()
    if wrong := [name for name, kind in expected.items() if name not in optional and actual.get(name) != kind]:
        first = f"{wrong[0]}: found {actual.get(wrong[0], 'no such column')}, wanted {expected[wrong[0]]}"
        message = f"{printable_path(file)}: found no table of snapshots: column {first}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, HINT_SCHEMA)


class SparkEngine(Engine):
    """The engine that runs on the Spark session of this process; ``quiet`` disables progress bars.

    ``reason`` says why Spark compares.
    """

    def __init__(self, reason: str, *, quiet: bool = False) -> None:
        super().__init__(f"Spark: {reason}")
        with translate_errors():
            self._spark = session.start_session(quiet=quiet)

    def open_history(self, path: str) -> RunHistory:
        """Return the history at a path or URI."""
        return SparkHistory(self._spark, path)

    def open_snapshots(
        self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec], now: datetime
    ) -> SnapshotInventory:
        """Open the snapshots at some paths or URIs, files or Parquet tables."""
        if not any(map(spark_required_reason, paths)):
            return super().open_snapshots(paths, clusters, now)
        with translate_errors():
            return SparkSnapshotInventory(self._spark, paths, clusters, now)

    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job on executors, write the report, and return its summary."""
        with translate_errors():
            parts = {part.cluster: part for part in make_parts(job, sources_of(job, given))}
            spark_job = SparkJob(self._spark, job, folder)
            folder.add_final_step(lambda _: outputs.write_parquet(self._spark, folder))
            return spark_job.run(parts, distribute_parts(self._spark, given, parts.values()))
