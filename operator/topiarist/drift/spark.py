"""The report by Spark: all clusters at the same time, and only what differs ever leaves the JVM.

Rows of snapshots meet the specs of their cluster's sort by the name that Kafka's metrics make of a topic's, so that
names that collide meet too. What is equal as it stands (``sameness``) is counted and dropped by built-in functions; the
rest goes to Python workers (``worker``), which ask ``plan_topic``. One pass over the input finds counts, rows that are
left and specs that nothing was found of; another, over replica lists alone, what brokers carry.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f

from topiarist.core.credentials import NOBODY
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.drift import sameness, spark_specs
from topiarist.drift.columns import CORRUPT, actual, sound
from topiarist.drift.desired_rows import row_of
from topiarist.drift.spark_fleet import Carried, carried
from topiarist.drift.spark_specs import Sorts
from topiarist.drift.worker import Done, Frame, work

_HERE = 1000
"""Specs without a topic that are planned in this process; more of them are work for Spark."""

_SETTINGS = {
    # Clusters in one task before Spark sorts rows to group them: far more than rows of so many would be in one.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": 100_000,
    # What else follows from our conditions helps nobody, and to infer it takes Spark ten seconds for each plan.
    "spark.sql.constraintPropagation.enabled": False,
}


@dataclass(frozen=True, slots=True)
class Totals:
    """What Spark counted of one cluster: rows of its snapshot, topics, and declared topics that are equal.

    ``left_alone`` are those of the undeclared that nothing is said about. ``doubled``: there are two rows of a topic.
    ``sized`` are equal topics whose specs do not say how large: the number of the spec, partitions, widths.
    """

    rows: int = 0
    present: int = 0
    in_order: int = 0
    unrecorded: int = 0
    left_alone: int = 0
    doubled: bool = False
    sized: Sequence[tuple[int, int, Sequence[int]]] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome: counts of each cluster, what came of each row that was not equal, and what its brokers carry."""

    sorts: Sorts
    totals: Mapping[str, Totals]
    done: Sequence[Done]
    carried: Mapping[str, Carried]


def frame(cluster: ClusterSpec, head: dict[str, Any]) -> Frame:
    """A cluster for the workers: without its document's place, and without whatever leads to it."""
    return Frame(replace(cluster, source=None, connect="", credentials=NOBODY), head)


def run_job(
    spark: SparkSession,
    specs: Mapping[str, Sequence[TopicSpec]],
    there: DataFrame,
    frames: Mapping[str, Frame],
    run: Run,
) -> Found:
    """The findings of the clusters in ``frames``, by their specs; ``there`` is what they hold, as ``lines`` has it."""
    prepare(spark)
    known = spark_specs.sorts({name: specs[name] for name in frames})
    brokers = {name: [broker["id"] for broker in each.head["brokers"]] for name, each in frames.items()}
    parts = aggregated(spark, known, topics(there), run.owner).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        totals, missing, neighbours = _gathered(parts, known)
        loads = carried(there, brokers)
        framed = {
            name: replace(each, holders=loads[name].strays, neighbours=neighbours.get(name, {}))
            for name, each in frames.items()
        }
        done = _worked(spark, parts, missing, framed, run)
    finally:
        parts.unpersist()
    return Found(known, totals, done, loads)


def prepare(spark: SparkSession) -> None:
    """Set what our plans want of a session, whoever has started it."""
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)


def lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Topics and records in snapshots of JSON lines; what Spark cannot make rows of stands in a column of its own."""
    return spark.read.schema(actual()).option("columnNameOfCorruptRecord", CORRUPT).json(list(files))


def topics(there: DataFrame) -> DataFrame:
    """The rows that are whole."""
    return there.where(f.col(CORRUPT).isNull() & sound()).drop(CORRUPT)


def aggregated(spark: SparkSession, known: Sorts, there: DataFrame, owner: str) -> DataFrame:
    """A few rows for each cluster: counts, and as JSON what is left for Python. No row of it is of an equal topic.

    By partition too, so that one large cluster is not gathered in one place.
    """
    is_topic = f.col("kind") == "topic"
    both = (
        joined(spark, known, there)
        .withColumn("equal", sameness.equal(owner))
        .withColumn("silent", sameness.of_no_interest())
    )
    number, equal, own = f.col("d_number"), f.col("equal"), f.col("own")
    open_ = equal & (f.col("d_partitions").isNull() | f.col("d_factor").isNull())
    size = f.struct(number, f.size("replicas").alias("partitions"), f.array_distinct(sameness.WIDTHS).alias("widths"))
    collides = number.isNotNull() & ~own & is_topic
    return both.groupBy("cluster", "declared", f.spark_partition_id().alias("part")).agg(
        f.count("*").alias("rows"),
        _number(is_topic).alias("present"),
        _number(equal).alias("in_order"),
        _number(equal & ~sameness.recorded()).alias("unrecorded"),
        _number(f.col("silent") & is_topic).alias("left_alone"),
        f.collect_list(f.when(~equal & ~f.col("silent"), _pair(there))).alias("differing"),
        f.collect_list(f.when(own, number)).alias("known"),
        f.collect_list(f.when(open_, size)).alias("sized"),
        f.collect_list(f.when(collides, f.struct(number, "topic"))).alias("colliding"),
    )


def joined(spark: SparkSession, known: Sorts, there: DataFrame) -> DataFrame:
    """Rows of snapshots, each with the spec of its topic beside it, or one whose name collides, if there is any."""
    return (
        there.withColumn("key", f.translate("topic", ".", "_"))
        .join(spark_specs.clusters(spark, known), "cluster")
        .join(spark_specs.wanted(spark, known), ["sort", "key"], "left")
        .withColumn(sameness.WIDTHS, sameness.widths())
        .withColumn("own", sameness.own())
    )


def _pair(there: DataFrame) -> Column:
    """A row and its spec as JSON."""
    row = f.to_json(f.struct(*there.columns), {"ignoreNullFields": "false"})
    spec = f.when(f.col("own"), f.col("d_spec")).otherwise("null")
    return f.concat(f.lit('{"d":'), spec, f.lit(',"a":'), row, f.lit("}"))


def _number(condition: Column) -> Column:
    return f.sum(f.when(condition, 1).otherwise(0))


def _gathered(
    parts: DataFrame, known: Sorts
) -> tuple[dict[str, Totals], list[tuple[str, TopicSpec]], dict[str, dict[str, tuple[str, ...]]]]:
    """Counts by cluster, the specs of which there is no topic, and by declared topic the others of colliding names."""
    numbers = ("rows", "present", "in_order", "unrecorded", "left_alone")
    lists = ("known", "sized", "colliding")
    whole = parts.groupBy("cluster", "declared").agg(
        *(f.sum(name).alias(name) for name in numbers),
        *(f.flatten(f.collect_list(name)).alias(name) for name in lists),
    )
    every = f.when(f.col("declared") > 0, f.sequence(f.lit(0), f.col("declared") - 1)).otherwise(f.array())
    doubled = f.size("known") > f.size(f.array_distinct("known"))
    asked = whole.select(
        "cluster", *numbers, "sized", "colliding", f.array_except(every, "known").alias("missing"), doubled.alias("two")
    )
    totals = {name: Totals() for name in known.of}
    missing = {name: range(len(known.declared(name))) for name in known.of}
    neighbours: defaultdict[str, defaultdict[str, tuple[str, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for row in asked.collect():
        counted = {name: row[name] for name in numbers}
        totals[row.cluster] = Totals(**counted, doubled=row.two, sized=[tuple(one) for one in row.sized])
        missing[row.cluster] = row.missing
        for number, topic in row.colliding:
            neighbours[row.cluster][known.declared(row.cluster)[number].topic] += (topic,)
    left = [(name, known.declared(name)[number]) for name, some in missing.items() for number in some]
    return totals, left, {name: dict(found) for name, found in neighbours.items()}


def _worked(
    spark: SparkSession,
    parts: DataFrame,
    missing: Sequence[tuple[str, TopicSpec]],
    frames: Mapping[str, Frame],
    run: Run,
) -> list[Done]:
    """What plans say of all that is left, by Python workers."""
    context = spark.sparkContext
    shared = context.broadcast((frames, run))

    def settled(pairs: Iterable[tuple[str, str]]) -> Iterator[Done]:
        known, whose = shared.value
        return work(pairs, known, whose)

    def paired(rows: Iterable[SparkRow]) -> Iterator[Done]:
        return settled((row.cluster, row.pair) for row in rows)

    done = parts.select("cluster", f.explode("differing").alias("pair")).rdd.mapPartitions(paired).collect()
    extra = [(name, json.dumps({"d": row_of(spec), "a": None})) for name, spec in missing]
    if len(extra) <= _HERE:
        done.extend(work(extra, frames, run))
    else:
        done.extend(context.parallelize(extra).mapPartitions(settled).collect())
    shared.destroy()
    return done
