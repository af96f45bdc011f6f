"""The report by Spark: all clusters at the same time, and only what differs ever leaves the JVM.

Rows of snapshots meet the specs of their cluster's sort by the name that Kafka's metrics make of a topic's, so that
names that collide meet too. What is equal as it stands (``sameness``) is counted and dropped by built-in functions; the
rest goes to Python workers (``worker``), which ask ``plan_topic``. One pass over the input finds counts, rows that are
left and specs that nothing was found of; another, over replica lists alone, what brokers carry.

What brokers carry, by Spark: the one thing that every replica list of a fleet has a part in.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f

from topiarist.drift.spark import equality
from topiarist.drift.spark import specs as specs_
from topiarist.drift.spark.columns import CORRUPT_COLUMN, actual_row_type, is_valid_row
from topiarist.drift.spark.specs import ClusterGroups, spec_to_row
from topiarist.drift.spark.worker import ClusterContext, RowResult, compare_rows
from topiarist.model.credentials import ANONYMOUS
from topiarist.model.plan import Load
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec

_MAX_DRIVER_SPECS = 1000
"""Specs without a topic that are planned in this process; more of them are work for Spark."""

_SPARK_SETTINGS = {
    # Clusters in one task before Spark sorts rows to group them: far more than rows of so many would be in one.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": 100_000,
    # What else follows from our conditions helps nobody, and to infer it takes Spark ten seconds for each plan.
    "spark.sql.constraintPropagation.enabled": False,
}


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """What Spark counted of one cluster: rows of its snapshot, topics, and declared topics that are equal.

    ``ignored`` are those of the undeclared that nothing is said about. ``doubled``: there are two rows of a topic.
    ``sized`` are equal topics whose specs do not say how large: the number of the spec, partitions, widths.
    """

    rows: int = 0
    present: int = 0
    in_sync: int = 0
    missing_record: int = 0
    ignored: int = 0
    has_duplicates: bool = False
    equal_sizes: Sequence[tuple[int, int, Sequence[int]]] = ()


@dataclass(frozen=True, slots=True)
class SparkResult:
    """The outcome: counts of each cluster, what came of each row that was not equal, and what its brokers carry."""

    cluster_groups: ClusterGroups
    counts: Mapping[str, ClusterCounts]
    row_results: Sequence[RowResult]
    broker_loads: Mapping[str, BrokerLoad]


def make_cluster_context(cluster: ClusterSpec, cluster_row: dict[str, Any]) -> ClusterContext:
    """A cluster for the workers: without its document's place, and without whatever leads to it."""
    return ClusterContext(replace(cluster, source=None, connect="", credentials=ANONYMOUS), cluster_row)


def run_job(
    spark: SparkSession,
    specs: Mapping[str, Sequence[TopicSpec]],
    actual: DataFrame,
    contexts: Mapping[str, ClusterContext],
    options: RunOptions,
) -> SparkResult:
    """Compare the clusters in ``contexts`` with their specs; ``actual`` has the rows of their topics."""
    configure_session(spark)
    known = specs_.make_cluster_groups({name: specs[name] for name in contexts})
    brokers = {name: [broker["id"] for broker in each.cluster_row["brokers"]] for name, each in contexts.items()}
    parts = aggregate_rows(spark, known, select_valid_rows(actual), options.owner).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        totals, missing, neighbours = _collect_counts(parts, known)
        loads = aggregate_broker_loads(actual, brokers)
        framed = {
            name: replace(
                each, unregistered_holders=loads[name].unregistered_holders, colliding_topics=neighbours.get(name, {})
            )
            for name, each in contexts.items()
        }
        done = _compare_differing(spark, parts, missing, framed, options)
    finally:
        parts.unpersist()
    return SparkResult(known, totals, done, loads)


def configure_session(spark: SparkSession) -> None:
    """Set what our plans want of a session, whoever has started it."""
    for key, value in _SPARK_SETTINGS.items():
        spark.conf.set(key, value)


def read_json_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Topics and records in snapshots of JSON lines; what Spark cannot make rows of stands in a column of its own."""
    return spark.read.schema(actual_row_type()).option("columnNameOfCorruptRecord", CORRUPT_COLUMN).json(list(files))


def select_valid_rows(actual: DataFrame) -> DataFrame:
    """The rows that are whole."""
    return actual.where(f.col(CORRUPT_COLUMN).isNull() & is_valid_row()).drop(CORRUPT_COLUMN)


def aggregate_rows(spark: SparkSession, groups: ClusterGroups, actual: DataFrame, owner: str) -> DataFrame:
    """A few rows for each cluster: counts, and as JSON what is left for Python. No row of it is of an equal topic.

    By partition too, so that one large cluster is not gathered in one place.
    """
    is_topic = f.col("kind") == "topic"
    both = (
        join_specs(spark, groups, actual)
        .withColumn("equal", equality.is_equal_to_spec(owner))
        .withColumn("silent", equality.is_ignorable())
    )
    number, equal, own = f.col("d_number"), f.col("equal"), f.col("own")
    open_ = equal & (f.col("d_partitions").isNull() | f.col("d_factor").isNull())
    size = f.struct(
        number,
        f.size("replicas").alias("partitions"),
        f.array_distinct(equality.REPLICATION_FACTORS_COLUMN).alias("widths"),
    )
    collides = number.isNotNull() & ~own & is_topic
    return both.groupBy("cluster", "declared", f.spark_partition_id().alias("part")).agg(
        f.count("*").alias("rows"),
        _count_if(is_topic).alias("present"),
        _count_if(equal).alias("in_sync"),
        _count_if(equal & ~equality.has_expected_record()).alias("missing_record"),
        _count_if(f.col("silent") & is_topic).alias("ignored"),
        f.collect_list(f.when(~equal & ~f.col("silent"), _pair_as_json(actual))).alias("differing"),
        f.collect_list(f.when(own, number)).alias("known"),
        f.collect_list(f.when(open_, size)).alias("sized"),
        f.collect_list(f.when(collides, f.struct(number, "topic"))).alias("colliding"),
    )


def join_specs(spark: SparkSession, groups: ClusterGroups, actual: DataFrame) -> DataFrame:
    """Rows of snapshots, each with the spec of its topic beside it, or one whose name collides, if there is any."""
    return (
        actual.withColumn("key", f.translate("topic", ".", "_"))
        .join(specs_.create_cluster_table(spark, groups), "cluster")
        .join(specs_.create_spec_table(spark, groups), ["sort", "key"], "left")
        .withColumn(equality.REPLICATION_FACTORS_COLUMN, equality.replication_factors())
        .withColumn("own", equality.is_own_spec())
    )


def _pair_as_json(actual: DataFrame) -> Column:
    """A row and its spec as JSON."""
    row = f.to_json(f.struct(*actual.columns), {"ignoreNullFields": "false"})
    spec = f.when(f.col("own"), f.col("d_spec")).otherwise("null")
    return f.concat(f.lit('{"d":'), spec, f.lit(',"a":'), row, f.lit("}"))


def _count_if(condition: Column) -> Column:
    return f.sum(f.when(condition, 1).otherwise(0))


def _collect_counts(
    parts: DataFrame, groups: ClusterGroups
) -> tuple[dict[str, ClusterCounts], list[tuple[str, TopicSpec]], dict[str, dict[str, tuple[str, ...]]]]:
    """Counts by cluster, the specs of which there is no topic, and by declared topic the others of colliding names."""
    numbers = ("rows", "present", "in_sync", "missing_record", "ignored")
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
    totals = {name: ClusterCounts() for name in groups.group_of}
    missing = {name: range(len(groups.specs_of(name))) for name in groups.group_of}
    neighbours: defaultdict[str, defaultdict[str, tuple[str, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for row in asked.collect():
        counted = {name: row[name] for name in numbers}
        totals[row.cluster] = ClusterCounts(
            **counted, has_duplicates=row.two, equal_sizes=[tuple(one) for one in row.sized]
        )
        missing[row.cluster] = row.missing
        for number, topic in row.colliding:
            neighbours[row.cluster][groups.specs_of(row.cluster)[number].topic] += (topic,)
    left = [(name, groups.specs_of(name)[number]) for name, some in missing.items() for number in some]
    return totals, left, {name: dict(found) for name, found in neighbours.items()}


def _compare_differing(
    spark: SparkSession,
    parts: DataFrame,
    missing: Sequence[tuple[str, TopicSpec]],
    contexts: Mapping[str, ClusterContext],
    options: RunOptions,
) -> list[RowResult]:
    """What plans say of all that is left, by Python workers."""
    context = spark.sparkContext
    shared = context.broadcast((contexts, options))

    def settled(pairs: Iterable[tuple[str, str]]) -> Iterator[RowResult]:
        known, whose = shared.value
        return compare_rows(pairs, known, whose)

    def paired(rows: Iterable[SparkRow]) -> Iterator[RowResult]:
        return settled((row.cluster, row.pair) for row in rows)

    done = parts.select("cluster", f.explode("differing").alias("pair")).rdd.mapPartitions(paired).collect()
    extra = [(name, json.dumps({"d": spec_to_row(spec), "a": None})) for name, spec in missing]
    if len(extra) <= _MAX_DRIVER_SPECS:
        done.extend(compare_rows(extra, contexts, options))
    else:
        done.extend(context.parallelize(extra).mapPartitions(settled).collect())
    shared.destroy()
    return done


class BrokerLoad(NamedTuple):
    """What the brokers of a cluster carry; ``strays`` are not registered and hold replicas of topics that stay."""

    loads: Mapping[int, Load]
    unregistered_holders: frozenset[int]


def aggregate_broker_loads(actual: DataFrame, registered: Mapping[str, Sequence[int]]) -> dict[str, BrokerLoad]:
    """Leaders and replicas of every broker, by cluster. Few replica lists are distinct: each is counted, then shared
    out.
    """
    rows = actual.where("kind = 'topic'").select("cluster", "deleting", f.explode("replicas").alias("brokers"))
    lists = rows.groupBy("cluster", "deleting", "brokers").count()
    one = lists.select("cluster", "deleting", "count", f.posexplode("brokers").alias("place", "broker"))
    found = one.groupBy("cluster", "deleting", "broker").agg(
        f.sum(f.when(f.col("place") == 0, f.col("count")).otherwise(0)).alias("leaders"),
        f.sum("count").alias("replicas"),
    )
    loads: defaultdict[str, dict[int, Load]] = defaultdict(dict)
    strays: defaultdict[str, set[int]] = defaultdict(set)
    known = {name: frozenset(brokers) for name, brokers in registered.items()}
    for row in found.collect():
        if row.cluster in known and row.broker is not None:
            before = loads[row.cluster].get(row.broker, Load(0, 0))
            loads[row.cluster][row.broker] = Load(before.leaders + row.leaders, before.replicas + row.replicas)
            if not row.deleting and row.broker not in known[row.cluster]:
                strays[row.cluster].add(row.broker)
    return {
        name: BrokerLoad({**dict.fromkeys(brokers, Load(0, 0)), **loads[name]}, frozenset(strays[name]))
        for name, brokers in registered.items()
    }
