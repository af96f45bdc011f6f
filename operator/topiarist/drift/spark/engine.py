"""The Spark engine of a drift report: the same folder as processes of one machine write.

``cli.commands.drift`` creates it if Spark is selected. It makes the same parts as ``drift.report``, runs
``drift.spark.job``, and translates all Spark errors. Paths that do not need Spark are passed to the base class.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import reduce
from heapq import merge, nsmallest
from itertools import chain, groupby, islice
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.files import SUFFIX, RowChecker, RowError, parse_row, printable_path, read_lines
from topiarist.adapters.snapshots.lenient_reader import InvalidRow, SnapshotHeader, make_header
from topiarist.drift.causes import CauseIndex, Causes, to_cause_row
from topiarist.drift.compare import INVALID_ROWS_FILE, LINE_FILES, ClusterResult
from topiarist.drift.cross_cluster import MAX_SHOWN_DIFFERENCES, TopicComparer
from topiarist.drift.history import FINDINGS_FILE, PreviousReport, RunHistory
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder
from topiarist.drift.report import (
    DuplicateClusterIds,
    Engine,
    ReportJob,
    SummaryBuilder,
    compare_duplicate,
    make_parts,
    sources_of,
    write_unused_rows,
)
from topiarist.drift.snapshots import (
    PARQUET_SUFFIX,
    SnapshotInventory,
    SnapshotLines,
    is_remote,
    list_files,
    require_files,
    spark_required_reason,
    to_literal_uri,
    to_local_path,
    to_uri,
)
from topiarist.drift.spark import outputs, session
from topiarist.drift.spark.outputs import SparkHistory
from topiarist.drift.spark.session import HINT_SHARED, Storage, create_table, is_distributed, translate_errors
from topiarist.drift.spark.worker import (
    DEVIATION,
    FAILURE,
    RESULT,
    TaskFailure,
    TaskResult,
    TaskRow,
    encode_lines,
    load_job,
    run_task,
    split_lines,
)
from topiarist.drift.task import MAX_PARALLEL_CLUSTERS, LiveCluster, Part
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.text import printable

# The Spark job behind a drift report: ``drift.task.work`` on executors, and a report from its results.
#
# ``drift.spark.engine`` calls it. One stage reads and compares all clusters. Executors write the results to a table in
# the report's staging folder: what a lost or repeated task has written does not count, and no cluster is read again for
# a later step. A second stage sorts the lines of the report's files; a third brings together the deviations of each
# topic. Only counts and the entries of ``summary.json`` reach the Python of the driver.

_ROW_TYPE = "cluster string, kind string, number int, data binary"

_TASKS_PER_CORE = 3
"""Tasks for each core: more would make the end even, fewer let a task learn more from its own clusters."""


class SparkJob:
    """The comparison of one report by Spark; ``folder`` is the report's staging folder."""

    def __init__(self, spark: SparkSession, job: ReportJob, folder: ReportFolder) -> None:
        self._spark = spark
        self._job = job
        self._folder = folder
        self._shipped = job.shipped
        self._broadcast = spark.sparkContext.broadcast(self._shipped)
        self._name = token_hex(8)
        # Files of a task that are open at the same time: without this, a task sorts its rows by kind first.
        spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", 16)

    def run(self, parts: Mapping[str, Part], sources: Sequence[RDD[Part]]) -> dict[str, Any]:
        """Compare all parts, write the report, and return its summary.

        ``parts`` are all parts by cluster, in order of name; ``sources`` have the same parts with their lines.
        """
        table = self._write_table(sources)
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
        self._folder.commit(summary, causes, self._job.repairs)
        return summary

    def compare(self, sources: Sequence[RDD[Part]]) -> RDD[TaskRow]:
        """Return the results of all parts as rows, which executors compute when the rows are used."""
        name, shared = self._name, self._broadcast

        def run(parts: Iterable[Part]) -> Iterator[TaskRow]:
            return run_task(parts, *load_job(name, lambda: shared.value))

        return self._spark.sparkContext.union([each.mapPartitions(run) for each in sources])

    def _write_table(self, sources: Sequence[RDD[Part]]) -> DataFrame:
        """Compare all parts; return the table of the results, which executors have written."""
        place = self._place("results")
        frame = create_table(self._spark, self.compare(sources), _ROW_TYPE)
        frame.write.partitionBy("kind").parquet(to_uri(place))
        return self._spark.read.schema(_ROW_TYPE).parquet(to_literal_uri(place))

    def _place(self, name: str) -> str:
        return f"{self._folder.staging_path}/{WORK_FOLDER}/{name}"

    def _read_results(self, table: DataFrame, expected: int) -> list[TaskResult]:
        """Return the results in order of cluster. Raises the errors of tasks."""
        rows = table.where(f.col("kind").isin(RESULT, FAILURE)).select("data").collect()
        found = [pickle.loads(row.data) for row in rows]  # written by the tasks of this run
        failures = sorted(each for each in found if isinstance(each, TaskFailure))
        for reason, message, hint in failures:
            raise TopiaristError(reason, message, hint or (HINT_SHARED if is_distributed(self._spark) else ""))
        self._require(len(found), expected, "results")
        return sorted(found, key=lambda each: each.result.cluster)

    def _require(self, found: int, expected: int, what: str) -> None:
        if found != expected:
            # The rest is on the disks of other machines.
            message = f"{printable(self._folder.staging_path, 4096)}: found {found:,} {what} after writing {expected:,}"
            hint = "set --out to a folder that all machines of the Spark cluster share, or to an address such as hdfs:"
            raise TopiaristError(Reason.UNWRITABLE, message, hint)

    def _find_differences(self, table: DataFrame, compared: Iterable[str]) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of cross-cluster differences, and the first of them."""
        name, shared, names = self._name, self._broadcast, frozenset(compared)

        def split(row: Any) -> tuple[tuple[str, str], tuple[str, int, str]]:
            topic, manifest, group, variant = json.loads(row.data)
            return (topic, manifest), (row.cluster, group, variant)

        def find(topics: Iterable[tuple[tuple[str, str], Iterable[tuple[str, int, str]]]]) -> Iterator[Any]:
            _, caches = load_job(name, lambda: shared.value)
            comparer, count, shown = TopicComparer(caches.groups, names), 0, list[dict[str, Any]]()
            for (topic, manifest), deviations in topics:
                differences = [*comparer.find_differences(topic, manifest, deviations)]
                count += len(differences)
                shown += differences
                if len(shown) > 2 * MAX_SHOWN_DIFFERENCES:
                    shown = nsmallest(MAX_SHOWN_DIFFERENCES, shown, key=_difference_key)
            yield count, nsmallest(MAX_SHOWN_DIFFERENCES, shown, key=_difference_key)

        rows = table.where(f.col("kind") == DEVIATION).select("cluster", "data").rdd
        found = rows.map(split).groupByKey().mapPartitions(find).collect()
        ordered = merge(*(shown for _, shown in found), key=_difference_key)
        return sum(count for count, _ in found), [*islice(ordered, MAX_SHOWN_DIFFERENCES)]

    def _find_causes(self, table: DataFrame, replaced: Sequence[ClusterResult]) -> Causes:
        """Return the causes of all findings, which a sort on the driver's disk brings together."""
        rows = table.where(f.col("kind") == FINDINGS_FILE).select("data").toLocalIterator(prefetchPartitions=True)
        given = (line for result in replaced for line in result.lines[FINDINGS_FILE])
        with closing(CauseIndex(self._folder.local_path)) as index, self._folder.translate_errors():
            for line in chain(given, (row.data for row in rows)):
                index.add(to_cause_row(line))
            return index.find()

    def _collect_lines(self, table: DataFrame, replaced: Sequence[ClusterResult], counts: Mapping[str, int]) -> None:
        """Append the lines of all results to the files of the report, in order of cluster."""
        write_unused_rows(self._job, self._folder)
        if not any(counts[name] for name in LINE_FILES):
            return
        lines = table.where(f.col("kind").isin(*LINE_FILES))
        if given := [row for result in replaced for row in encode_lines(result)]:
            lines = lines.unionByName(create_table(self._spark, given, _ROW_TYPE))
        place = self._place("lines")
        ordered = lines.orderBy("kind", "cluster", "number")
        ordered.select("kind", f.col("data").cast("string")).write.partitionBy("kind").text(to_uri(place))
        storage = Storage(self._spark)
        for name in LINE_FILES:
            found = 0

            def counted(chunks: Iterable[bytes]) -> Iterator[bytes]:
                nonlocal found
                for chunk in chunks:
                    found += chunk.count(b"\n")
                    yield chunk

            files = sorted(storage.list_files(to_uri(f"{place}/kind={name}"))) if counts[name] else ()
            for file in files:
                self._folder.add_lines({name: counted(storage.read_chunks(file))})
            self._require(found, counts[name], f"lines of {name}")


def distribute(spark: SparkSession, parts: Iterable[Part]) -> RDD[Part]:
    """Return parts as an RDD of even tasks, the task with the largest cluster first.

    A task has so many live clusters at most as a machine reads at the same time.
    """
    ordered = sorted(parts, key=lambda part: -part.row_count)
    number = min(len(ordered), spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    if any(part.is_live for part in ordered):
        number = max(number, -(-len(ordered) // MAX_PARALLEL_CLUSTERS))
    tasks = [ordered[first::number] for first in range(number)]
    return spark.sparkContext.parallelize(tasks, max(number, 1)).flatMap(iter)


def _difference_key(difference: Mapping[str, Any]) -> tuple[str, str, str]:
    return difference["topic"], difference["manifest"], difference["field"]


# Snapshot inputs that only Spark can read: remote URIs and Parquet tables, and the distribution of all snapshots.
#
# A JSON lines file holds one snapshot. A Parquet table has the same rows, for any number of clusters and times. The
# driver reads the first row of each snapshot. The executors read the rest: local files by themselves, remote files as
# bytes and tables as JSON lines through Spark, so that the task that validates and compares rows is the same for all.
# ``drift.spark.engine`` opens the inventory.

_MAX_PARALLEL_READS = 16
"""Number of first rows to fetch at the same time; a remote store has a high latency per request."""

_PARQUET_MAGIC, _FILE_COLUMN = b"PAR1", "_file"


class SparkSnapshotInventory(SnapshotInventory):
    """A ``SnapshotInventory`` for local paths and remote URIs, of JSON lines files and Parquet tables."""

    def __init__(self, spark: SparkSession, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> None:
        self._spark = spark
        self._storage = Storage(spark)
        self._tables: list[str] = []
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

    def open_lines(self, file: str) -> Iterable[bytes]:
        """Return the lines of a local file; those of other files are added by ``distribute_parts``."""
        return () if is_remote(file) or file.endswith(PARQUET_SUFFIX) else super().open_lines(file)

    def read_table_lines(self, snapshots: Iterable[tuple[str, str]]) -> DataFrame:
        """Return the rows of some snapshots as JSON lines: columns ``cluster`` and ``text``, in order of kind.

        ``snapshots`` are pairs of cluster and time.
        """
        keys = f.broadcast(create_table(self._spark, [*snapshots], "cluster string, takenAt string"))
        rows = self._read_tables().join(keys, ["cluster", "takenAt"], "left_semi")
        kinds = (
            self._to_lines(rows, kind).select("text", f.lit(number).alias("order"), "cluster")
            for number, kind in enumerate(outputs.ROW_KINDS)
        )
        lines = reduce(DataFrame.unionByName, kinds).repartition("cluster")
        return lines.sortWithinPartitions("cluster", "order", "text").select("cluster", "text")

    def _list_files(self, path: str) -> list[str]:
        suffixes = (SUFFIX, PARQUET_SUFFIX)
        if not is_remote(path):
            return list_files(path, *suffixes)
        files = [file for file in self._storage.list_files(path) if file.endswith(suffixes) or file == path]
        return require_files(path, files, suffixes)

    def _read_first_line(self, file: str) -> bytes | InvalidRow:
        """Return the first line of a file, empty for an empty file, or the error if it cannot be read."""
        try:
            return self._storage.read_first_line(file) if is_remote(file) else next(read_lines(Path(file)), b"")
        except TopiaristError as error:
            return InvalidRow(printable_path(file), 0, str(error.args[0]))

    def _parse_header(self, file: str, line: bytes) -> SnapshotHeader | InvalidRow:
        """Return the snapshot header of a first line, or the error."""
        name = printable_path(file)
        if not line:
            return InvalidRow(name, 0, f"{name}: found an empty file, wanted a snapshot")
        try:
            row = parse_row(line)
            RowChecker().check(row)
        except RowError as error:
            return InvalidRow(name, 0, f"{name}:1: {error}")
        return make_header(row)

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

    def _read_tables(self) -> DataFrame:
        """Return all rows of all tables, each with the URI of its file."""
        rows = self._spark.read.schema(outputs.snapshot_row_type()).parquet(*map(to_literal_uri, self._tables))
        return rows.select("*", f.col("_metadata.file_path").alias(_FILE_COLUMN))

    def _to_lines(self, rows: DataFrame, kind: str) -> DataFrame:
        """Return the rows of a kind as JSON lines in column ``text``, each with its ``cluster`` and ``file``."""
        fields = outputs.fields_of_kinds(kind)
        line = f.to_json(f.struct([field.name for field in fields]), {"ignoreNullFields": "false"})
        rows_of_kind = rows.where(f.col("kind") == kind)
        typed = outputs.select_typed(rows_of_kind, fields, f.col(_FILE_COLUMN))
        return typed.select(line.alias("text"), f.col(_FILE_COLUMN).alias("file"), "cluster")


def distribute_parts(
    spark: SparkSession, given: SnapshotInventory | LiveCluster, parts: Iterable[Part]
) -> list[RDD[Part]]:
    """Return all parts as RDDs, with the lines of their snapshots."""
    here, remote, stored = list[Part](), dict[str, Part](), dict[str, Part]()
    for part in parts:
        file = part.source.snapshot.file if isinstance(part.source, SnapshotLines) else ""
        if file.endswith(PARQUET_SUFFIX):
            stored[part.cluster] = part
        elif is_remote(file):
            remote[file] = part
        else:
            here.append(part)
    found = [distribute(spark, here)] if here else []
    if remote:
        found.append(_distribute_files(spark, remote))
    if stored and isinstance(given, SparkSnapshotInventory):
        keys = [(name, format_time(given.files[name].taken_at)) for name in stored]
        found.append(_distribute_lines(spark, given.read_table_lines(keys), stored))
    return found


def _distribute_files(spark: SparkSession, parts: Mapping[str, Part]) -> RDD[Part]:
    """Return parts by the URI of their file, with the lines of the files."""
    files = spark.read.format("binaryFile").load([*map(to_literal_uri, parts)])
    shared = spark.sparkContext.broadcast(dict(parts))

    def with_lines(row: Any) -> Part:
        part = shared.value[row.path]
        return _with_lines(part, split_lines(row.path, row.content))

    return files.select("path", "content").rdd.map(with_lines)


def _distribute_lines(spark: SparkSession, lines: DataFrame, parts: Mapping[str, Part]) -> RDD[Part]:
    """Return parts by cluster, with the lines of a table."""
    shared = spark.sparkContext.broadcast(dict(parts))

    def with_lines(rows: Iterable[Any]) -> Iterator[Part]:
        for cluster, some in groupby(rows, key=lambda row: row.cluster):
            yield _with_lines(shared.value[cluster], (row.text.encode() + b"\n" for row in some))

    return lines.rdd.mapPartitions(with_lines)


def _with_lines(part: Part, lines: Iterable[bytes]) -> Part:
    assert isinstance(part.source, SnapshotLines)
    return part._replace(source=part.source._replace(lines=lines))


def _require_columns(found: types.StructType, file: str) -> None:
    """Raise ``SnapshotUnusable`` unless a table has the columns of snapshots with their types."""
    expected = {field.name: field.dataType.simpleString() for field in outputs.snapshot_row_type()}
    actual = {field.name: field.dataType.simpleString() for field in found}
    optional = outputs.optional_columns() - actual.keys()
    if wrong := [name for name, kind in expected.items() if name not in optional and actual.get(name) != kind]:
        first = f"{wrong[0]}: found {actual.get(wrong[0], 'no such column')}, wanted {expected[wrong[0]]}"
        message = f"{printable_path(file)}: found no table of snapshots: column {first}"
        raise TopiaristError(Reason.SNAPSHOT_UNUSABLE, message, "write the table with the schema in docs/drift.md")


class SparkEngine(Engine):
    """The engine that runs on the Spark session of this process; ``quiet`` disables progress bars.

    ``reason`` says why Spark compares.
    """

    def __init__(self, reason: str, *, quiet: bool = False) -> None:
        super().__init__(f"Spark: {reason}")
        with translate_errors():
            self._spark = session.start_session(quiet=quiet)
            self._storage = Storage(self._spark)

    def exists(self, path: str) -> bool:
        """Return whether a path or URI is a file or a non-empty folder."""
        return bool(self._storage.list_names(path)) if is_remote(path) else super().exists(path)

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report."""
        return outputs.load_previous(self._storage, path) if is_remote(path) else super().load_previous(path)

    def open_history(self, path: str) -> RunHistory:
        """Return the history at a path or URI."""
        return SparkHistory(self._spark, path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """Open the snapshots at some paths or URIs, files or Parquet tables."""
        if not any(map(spark_required_reason, paths)):
            return super().open_snapshots(paths, clusters)
        with translate_errors():
            return SparkSnapshotInventory(self._spark, paths, clusters)

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report."""
        return (
            outputs.RemoteReportFolder(self._storage, path) if is_remote(path) else super().create_report_folder(path)
        )

    def compare(self, job: ReportJob, given: SnapshotInventory | LiveCluster, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of a job on executors, write the report, and return its summary."""
        with translate_errors():
            parts = {part.cluster: part for part in make_parts(job, sources_of(job, given))}
            sources = distribute_parts(self._spark, given, parts.values())
            folder.add_final_step(lambda place: outputs.write_parquet(self._spark, folder, place))
            return SparkJob(self._spark, job, folder).run(parts, sources)
