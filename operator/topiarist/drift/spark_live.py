"""Clusters as they are, read by the executors: a task for some of them, all through the adapter that every run has.

What they read is put down as one table, whole or not at all, and from there on is like any other input. So each cluster
is looked at once, whatever is asked of it later and whichever executor is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession, types
from pyspark.sql import functions as f

from topiarist.core.spec import ClusterSpec
from topiarist.drift import columns
from topiarist.drift.observing import Observation
from topiarist.drift.places import PARQUET, address, exact
from topiarist.drift.reading_live import AT_ONCE, PROBLEM, SAID, Approach, read_all
from topiarist.drift.settling import Settled
from topiarist.drift.spark_inputs import Stored

NAME = f"live{PARQUET}"


class Live(Stored):
    """The clusters of a run as the executors have read them; ``said`` is what there is to say of those they could not.

    ``place`` is where all of them may write; what is put there is for the run alone.
    """

    def __init__(
        self, started: SparkSession, clusters: Mapping[str, ClusterSpec], approach: Approach, place: str
    ) -> None:
        table = f"{place}/{NAME}"
        _read(started, clusters.values(), approach, address(table))
        problems = started.read.schema(_rows()).parquet(exact(table)).where(f.col("kind") == PROBLEM)
        found = sorted((row.cluster, row[PROBLEM], row[SAID]) for row in problems.collect())
        self._problems = {name: problem for name, problem, _ in found}
        self.said = {name: said for name, _, said in found}
        super().__init__(started, [table], clusters)

    def observed(self, name: str, settled: Settled) -> Observation:
        """What is known of one cluster."""
        problem = self._problems.get(name)
        return Observation(name, problem=problem) if problem else super().observed(name, settled)


def _read(started: SparkSession, clusters: Iterable[ClusterSpec], approach: Approach, table: str) -> None:
    # References to secrets go with a cluster, and never what is in them: a task reads that where it runs.
    wanted = [replace(spec, source=None) for spec in clusters]
    context = started.sparkContext
    parts = max(min(len(wanted), context.defaultParallelism), -(-len(wanted) // AT_ONCE), 1)

    def lines(part: Iterable[ClusterSpec]) -> Iterator[tuple[str]]:
        return ((line,) for line in read_all([*part], approach))

    text = started.createDataFrame(context.parallelize(wanted, parts).mapPartitions(lines), "line string")
    row = f.from_json("line", _rows(), {"mode": "FAILFAST"})
    text.select(row.alias("row")).select("row.*").write.parquet(table)


def _rows() -> types.StructType:
    words = (types.StructField(name, types.StringType()) for name in (PROBLEM, SAID))
    return types.StructType([*columns.rows().fields, *words])
