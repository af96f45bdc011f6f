"""The report by Spark: all clusters at the same time, and only what differs ever leaves the JVM.

Specs and snapshots are joined by cluster and by the name that Kafka's metrics make of a topic's, so that names that
collide meet. What is equal as it stands (``sameness``) is counted and dropped by built-in functions; the rest goes
to Python workers (``worker``), which ask ``plan_topic``. One pass over the input: counts and the rows that are left
come out of one aggregation.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f

from topiarist.core.change import Load
from topiarist.core.credentials import NOBODY
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec
from topiarist.drift import sameness, spark_fleet
from topiarist.drift.columns import CORRUPT, DESIRED, actual, sound
from topiarist.drift.worker import Done, Frame, work

_FRAMES = types.StructType(
    [
        types.StructField("cluster", types.StringType()),
        types.StructField("registered", types.ArrayType(types.IntegerType())),
    ]
)


@dataclass(frozen=True, slots=True)
class Totals:
    """What Spark counted of one cluster: rows of its snapshot, topics, and declared topics that are equal.

    ``left_alone`` are those of the undeclared that nothing is said about.
    """

    rows: int = 0
    present: int = 0
    in_order: int = 0
    unrecorded: int = 0
    left_alone: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome: counts of each cluster, and what came of each row that a Python worker saw.

    ``loads`` are what brokers carry, ``unlike`` specs and topics, as rows, that may be uneven.
    """

    totals: Mapping[str, Totals]
    done: Sequence[Done]
    loads: Mapping[str, Mapping[int, Load]] = field(default_factory=dict)
    unlike: Sequence[tuple[str, dict[str, Any], dict[str, Any]]] = ()


def session(memory: str = "3g", *, progress: bool = False) -> SparkSession:
    """Spark in this process's own JVM, with a thread for each core and nothing that listens but to itself.

    ``progress``: it draws bars on stderr while it is at work.
    """
    # A worker must find what we find, whatever the system calls python3.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").appName("topiarist drift")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def frame(cluster: ClusterSpec, head: dict[str, Any]) -> Frame:
    """A cluster for the workers: without its document's place, and without whatever leads to it."""
    return Frame(replace(cluster, source=None, connect="", credentials=NOBODY), head)


def run_job(spark: SparkSession, desired: str, there: DataFrame, frames: Mapping[str, Frame], run: Run) -> Found:
    """The findings of the clusters in ``frames``: ``desired`` has rows of their specs, ``there`` is what they hold."""
    wanted = spark.read.schema(DESIRED).json(desired)
    parts = aggregated(spark, wanted, there, frames, run.owner).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        totals, framed, extra = _gathered(parts, there, frames)
        shared = spark.sparkContext.broadcast((framed, run))
        left = parts.select("cluster", f.explode("differing").alias("pair")).rdd

        def settled(rows: Iterable[SparkRow]) -> Iterator[Done]:
            known, whose = shared.value
            return work(((row.cluster, row.pair) for row in rows), known, whose)

        done = left.mapPartitions(settled).collect()
        shared.destroy()
    finally:
        parts.unpersist()
    registered = {name: [broker["id"] for broker in each.head["brokers"]] for name, each in frames.items()}
    found = [*done, *work(extra, framed, run)]
    return Found(totals, found, spark_fleet.carried(there, registered), [*spark_fleet.unlike(wanted, there)])


def topics(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Topics and records in snapshots of JSON lines; what Spark cannot make whole rows of is left out."""
    lines = spark.read.schema(actual()).option("columnNameOfCorruptRecord", CORRUPT).json(list(files))
    return lines.where(f.col(CORRUPT).isNull() & sound()).drop(CORRUPT)


def aggregated(
    spark: SparkSession, wanted: DataFrame, there: DataFrame, frames: Mapping[str, Frame], owner: str
) -> DataFrame:
    """A few rows for each cluster: counts, and as JSON what is left for Python. No row of it is of an equal topic.

    By partition too, so that one large cluster is not gathered in one place.
    """
    known = [(name, [broker["id"] for broker in each.head["brokers"]]) for name, each in frames.items()]
    registered = f.broadcast(spark.createDataFrame(known, _FRAMES))
    left, right = _keyed(wanted, "d"), _keyed(there, "a")
    both = (
        left.join(right, ["cluster", "key"], "full_outer")
        .join(registered, "cluster")
        .withColumn("equal", sameness.equal(owner))
        .withColumn("silent", sameness.of_no_interest())
        .withColumn("collides", f.coalesce(f.col("d.topic") != f.col("a.topic"), f.lit(False)))
    )
    is_topic = f.coalesce(f.col("a.kind") == "topic", f.lit(False))
    pair = f.to_json(f.struct("d", "a"), {"ignoreNullFields": "false"})
    foreign = f.array_except(f.flatten("a.replicas"), "registered")
    stray = is_topic & f.coalesce(~f.col("a.deleting") & (f.size(foreign) > 0), f.lit(False))
    open_ = ~f.col("equal") & ~f.col("silent")
    return both.groupBy("cluster", f.spark_partition_id().alias("part")).agg(
        _number(f.col("a.kind").isNotNull()).alias("rows"),
        _number(is_topic).alias("present"),
        _number(f.col("equal")).alias("in_order"),
        _number(f.col("equal") & ~sameness.recorded(owner)).alias("unrecorded"),
        _number(f.col("silent") & is_topic).alias("left_alone"),
        f.collect_list(f.when(open_ & ~f.col("collides"), pair)).alias("differing"),
        f.collect_list(f.when(f.col("collides"), pair)).alias("colliding"),
        f.array_distinct(f.flatten(f.collect_list(f.when(stray, foreign)))).alias("holders"),
    )


def _keyed(rows: DataFrame, name: str) -> DataFrame:
    """Rows as one column, beside the cluster and the name as Kafka's metrics have it."""
    return rows.select(
        "cluster", f.translate("topic", ".", "_").alias("key"), f.struct(*map(f.col, rows.columns)).alias(name)
    )


def _number(condition: Column) -> Column:
    return f.sum(f.when(condition, 1).otherwise(0))


def _gathered(
    parts: DataFrame, there: DataFrame, frames: Mapping[str, Frame]
) -> tuple[dict[str, Totals], dict[str, Frame], list[tuple[str, str]]]:
    """Counts by cluster, the frames with what only the whole of a cluster shows, and rows of names that collide."""
    numbers = ("rows", "present", "in_order", "unrecorded", "left_alone")
    totals: dict[str, Totals] = {name: Totals() for name in frames}
    framed = dict(frames)
    colliding: list[tuple[str, dict[str, Any]]] = []
    for row in parts.drop("differing").collect():
        old, name = totals[row.cluster], row.cluster
        totals[name] = Totals(*(getattr(old, number) + row[number] for number in numbers))
        framed[name] = replace(framed[name], holders=framed[name].holders | set(row.holders))
        colliding.extend((name, json.loads(text)) for text in row.colliding)
    return totals, *_apart(colliding, there, framed)


def _apart(
    colliding: Sequence[tuple[str, dict[str, Any]]], there: DataFrame, frames: dict[str, Frame]
) -> tuple[dict[str, Frame], list[tuple[str, str]]]:
    """Pairs of different topics taken apart: each is a row of its own, and the declared one knows its neighbours.

    A declared topic that is also there by its own name has a row already; rare as that is, the input is asked again.
    """
    extra: list[tuple[str, str]] = []
    declared: dict[tuple[str, str], dict[str, Any]] = {}
    neighbours: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster, pair in colliding:
        asked = (cluster, pair["d"]["topic"])
        declared[asked] = pair["d"]
        if pair["a"]["kind"] == "topic":
            neighbours[asked].append(pair["a"]["topic"])
            extra.append((cluster, json.dumps({"d": None, "a": pair["a"]})))
    if declared:
        names = sorted({topic for _, topic in declared})
        own = there.where(f.col("topic").isin(*names)).select("cluster", "topic").collect()
        seen = {(row.cluster, row.topic) for row in own}
        extra += [
            (key[0], json.dumps({"d": row, "a": None})) for key, row in sorted(declared.items()) if key not in seen
        ]
    for (cluster, topic), names in neighbours.items():
        frames[cluster] = replace(frames[cluster], neighbours={**frames[cluster].neighbours, topic: tuple(names)})
    return frames, extra
