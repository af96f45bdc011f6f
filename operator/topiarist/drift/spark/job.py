"""The Spark job behind a drift report: ``drift.task.work`` on executors, and a report from its results.

``drift.spark.engine`` calls it. One stage reads and compares all clusters. Executors write the results to a table in
the report's staging folder: what a lost or repeated task has written does not count, and no cluster is read again for a
later step. A second stage sorts the lines of the report's files; a third brings together the deviations of each topic.
Only counts and the entries of ``summary.json`` reach the Python of the driver.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge, nsmallest
from itertools import islice
from secrets import token_hex
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from topiarist.drift.checks.cross_cluster import MAX_SHOWN_DIFFERENCES, TopicComparer
from topiarist.drift.compare import INVALID_ROWS_FILE, LINE_FILES, ClusterResult
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder
from topiarist.drift.report import (
    DuplicateClusterIds,
    ReportJob,
    SummaryBuilder,
    compare_duplicate,
    write_unused_rows,
)
from topiarist.drift.snapshots import to_literal_uri, to_uri
from topiarist.drift.spark.session import HINT_SHARED, Storage, create_table, is_distributed
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
)
from topiarist.drift.task import MAX_PARALLEL_CLUSTERS, Part
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable

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
        summary = builder.build(total, shown)
        self._collect_lines(table, replaced, counts)
        self._folder.commit(summary)
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
