"""The Spark job behind a drift report: compares all clusters in parallel, and only differences leave the JVM.

``drift.spark.engine`` calls it. Rows of snapshots are joined with the specs of their cluster group by metric name, so
that topics with colliding metric names meet too. Built-in functions count and drop the rows that are equal to their
spec (``drift.spark.equality``). Python workers plan the other rows (``drift.spark.worker``) with ``plan_topic``. One
query over the input collects the counts, the differing rows and the specs without a topic; a second query, over the
replica lists only, sums the load of the brokers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from topiarist.drift.compare import TopicCounts
from topiarist.drift.spark import equality
from topiarist.drift.spark import specs as specs_
from topiarist.drift.spark.columns import CORRUPT_COLUMN, actual_row_type, is_valid_row
from topiarist.drift.spark.specs import ClusterGroups
from topiarist.drift.spark.worker import ClusterContext, RowResult, compare_rows, spec_to_row
from topiarist.model.credentials import ANONYMOUS
from topiarist.model.plan import Load
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec

_MAX_DRIVER_SPECS = 1000
"""Number of specs without a topic that the driver plans itself; a larger number is sent to Spark workers."""

_SPARK_SETTINGS = {
    # Groups per task above which Spark falls back to sort-based aggregation; no task has rows of so many clusters.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": 100_000,
    # Disable constraint propagation: it costs about 10 s per query here and prunes nothing.
    "spark.sql.constraintPropagation.enabled": False,
}


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """Counts of one cluster: ``rows`` of its snapshot, and the ``topics`` that Spark has counted without a plan.

    ``has_duplicates`` is true if a topic has two rows. ``equal_sizes`` lists equal topics with specs that leave the
    size open, as (spec number, partitions, replication factors).
    """

    rows: int = 0
    topics: TopicCounts = field(default_factory=TopicCounts)
    has_duplicates: bool = False
    equal_sizes: Sequence[tuple[int, int, Sequence[int]]] = ()


class BrokerLoad(NamedTuple):
    """Load of the brokers of a cluster.

    ``unregistered_holders`` are brokers that are not registered and hold replicas of topics without a pending deletion.
    """

    loads: Mapping[int, Load]
    unregistered_holders: frozenset[int]


@dataclass(frozen=True, slots=True)
class SparkResult:
    """The result of the job: counts per cluster, results of the rows that differ, and broker loads."""

    cluster_groups: ClusterGroups
    counts: Mapping[str, ClusterCounts]
    row_results: Sequence[RowResult]
    broker_loads: Mapping[str, BrokerLoad]


def make_cluster_context(cluster: ClusterSpec, cluster_row: dict[str, Any]) -> ClusterContext:
    """Return the context that workers need of a cluster, without manifest source, addresses and credentials."""
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
    groups = specs_.make_cluster_groups(specs, contexts)
    brokers = {name: [broker["id"] for broker in each.cluster_row["brokers"]] for name, each in contexts.items()}
    parts = aggregate_rows(spark, groups, select_valid_rows(actual), options.owner)
    parts.persist(StorageLevel.MEMORY_AND_DISK)  # two queries read it: one for the counts, one for the differing rows
    try:
        counts, missing, colliding = _collect_counts(parts, groups)
        loads = aggregate_broker_loads(actual, brokers)
        full_contexts = {
            name: replace(
                each, unregistered_holders=loads[name].unregistered_holders, colliding_topics=colliding.get(name, {})
            )
            for name, each in contexts.items()
        }
        row_results = _compare_differing(spark, parts, missing, full_contexts, options)
    finally:
        parts.unpersist()
    return SparkResult(groups, counts, row_results, loads)


def configure_session(spark: SparkSession) -> None:
    """Set the session options that the queries of this job need, on any session."""
    for key, value in _SPARK_SETTINGS.items():
        spark.conf.set(key, value)


def read_json_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Read the topic and record rows of JSON lines snapshots.

    A line that Spark cannot parse is put into the column ``CORRUPT_COLUMN``.
    """
    return spark.read.schema(actual_row_type()).option("columnNameOfCorruptRecord", CORRUPT_COLUMN).json(list(files))


def select_valid_rows(actual: DataFrame) -> DataFrame:
    """Return the rows that are complete and valid."""
    return actual.where(f.col(CORRUPT_COLUMN).isNull() & is_valid_row()).drop(CORRUPT_COLUMN)


def aggregate_rows(spark: SparkSession, groups: ClusterGroups, actual: DataFrame, owner: str) -> DataFrame:
    """Return a few rows per cluster, with counts and, as JSON, the rows that Python workers must plan.

    Equal topics are only counted. Rows are grouped by partition too, so that a large cluster is not collected in one
    task.
    """
    is_topic = f.col("kind") == "topic"
    joined = (
        join_specs(spark, groups, actual)
        .withColumn("equal", equality.is_equal_to_spec(owner))
        .withColumn("silent", equality.is_ignorable())
    )
    number, equal, silent, own = f.col("d_number"), f.col("equal"), f.col("silent"), f.col("own")
    has_open_size = equal & (f.col("d_partitions").isNull() | f.col("d_factor").isNull())
    factors = f.array_distinct(equality.REPLICATION_FACTORS_COLUMN)
    size = f.struct(number, f.size("replicas").alias("partitions"), factors.alias("factors"))
    collides = number.isNotNull() & ~own & is_topic
    row = f.to_json(f.struct(*actual.columns), {"ignoreNullFields": "false"})
    spec = f.when(own, f.col("d_spec")).otherwise("null")  # null if the row has only a colliding spec
    pair = f.concat(f.lit('{"d":'), spec, f.lit(',"a":'), row, f.lit("}"))
    return joined.groupBy("cluster", "declared", f.spark_partition_id().alias("part")).agg(
        f.count("*").alias("rows"),
        f.count_if(equal).alias("in_sync"),
        f.count_if(equal & ~equality.has_expected_record()).alias("missing_record"),
        f.count_if(silent & is_topic).alias("ignored"),
        f.collect_list(f.when(~equal & ~silent, pair)).alias("differing"),
        f.collect_list(f.when(own, number)).alias("known"),
        f.collect_list(f.when(has_open_size, size)).alias("sized"),
        f.collect_list(f.when(collides, f.struct(number, "topic"))).alias("colliding"),
    )


def join_specs(spark: SparkSession, groups: ClusterGroups, actual: DataFrame) -> DataFrame:
    """Join rows of snapshots with specs by metric name.

    Each row gets the spec of its topic or a spec with a colliding name. A row without any such spec is kept.
    """
    return (
        actual.withColumn("key", f.translate("topic", ".", "_"))
        .join(specs_.create_cluster_table(spark, groups), "cluster")
        .join(specs_.create_spec_table(spark, groups), ["sort", "key"], "left")
        .withColumn(equality.REPLICATION_FACTORS_COLUMN, equality.replication_factors())
        .withColumn("own", equality.is_own_spec())
    )


def _collect_counts(
    parts: DataFrame, groups: ClusterGroups
) -> tuple[dict[str, ClusterCounts], list[tuple[str, TopicSpec]], dict[str, dict[str, tuple[str, ...]]]]:
    """Return counts by cluster, specs without a topic, and colliding topics by cluster and declared topic."""
    numbers, lists = ("rows", "in_sync", "missing_record", "ignored"), ("known", "sized", "colliding")
    whole = parts.groupBy("cluster", "declared").agg(
        *(f.sum(name).alias(name) for name in numbers),
        *(f.flatten(f.collect_list(name)).alias(name) for name in lists),
    )
    # sequence(0, -1) counts down to -1, so that a cluster without specs needs an empty array.
    all_numbers = f.when(f.col("declared") > 0, f.sequence(f.lit(0), f.col("declared") - 1)).otherwise(f.array())
    per_cluster = whole.select(
        "cluster",
        *numbers,
        "sized",
        "colliding",
        f.array_except(all_numbers, "known").alias("missing"),
        (f.size("known") > f.size(f.array_distinct("known"))).alias("has_duplicates"),
    )
    counts = {name: ClusterCounts() for name in groups.group_of}
    missing = {name: range(len(groups.specs_of(name))) for name in groups.group_of}
    colliding: defaultdict[str, defaultdict[str, tuple[str, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for row in per_cluster.collect():
        equal, ignored = row.in_sync, row.ignored
        topics = TopicCounts(equal, equal, equal + ignored, equal, row.missing_record, ignored)
        sizes = [tuple(size) for size in row.sized]
        counts[row.cluster] = ClusterCounts(row.rows, topics, row.has_duplicates, sizes)
        missing[row.cluster] = row.missing
        for number, topic in row.colliding:
            colliding[row.cluster][groups.specs_of(row.cluster)[number].topic] += (topic,)
    missing_specs = [(name, groups.specs_of(name)[number]) for name, some in missing.items() for number in some]
    return counts, missing_specs, {name: dict(found) for name, found in colliding.items()}


def _compare_differing(
    spark: SparkSession,
    parts: DataFrame,
    missing: Sequence[tuple[str, TopicSpec]],
    contexts: Mapping[str, ClusterContext],
    options: RunOptions,
) -> list[RowResult]:
    """Return the plan results of differing rows and of specs without a topic."""
    shared = spark.sparkContext.broadcast((contexts, options))

    def compare(pairs: Iterable[Sequence[str]]) -> Iterator[RowResult]:
        return compare_rows(pairs, *shared.value)

    results = parts.select("cluster", f.explode("differing")).rdd.mapPartitions(compare).collect()
    missing_pairs = [(name, json.dumps({"d": spec_to_row(spec), "a": None})) for name, spec in missing]
    if len(missing_pairs) <= _MAX_DRIVER_SPECS:
        results.extend(compare_rows(missing_pairs, contexts, options))
    else:
        results.extend(spark.sparkContext.parallelize(missing_pairs).mapPartitions(compare).collect())
    shared.destroy()
    return results


def aggregate_broker_loads(actual: DataFrame, registered: Mapping[str, Sequence[int]]) -> dict[str, BrokerLoad]:
    """Return leaders and replicas of every broker, by cluster.

    Few replica lists are distinct, so that each distinct list is counted first and then expanded to brokers.
    """
    rows = actual.where("kind = 'topic'").select("cluster", "deleting", f.explode("replicas").alias("brokers"))
    lists = rows.groupBy("cluster", "deleting", "brokers").count()
    replicas = lists.select("cluster", "deleting", "count", f.posexplode("brokers").alias("place", "broker"))
    sums = replicas.groupBy("cluster", "deleting", "broker").agg(
        f.sum(f.when(f.col("place") == 0, f.col("count")).otherwise(0)).alias("leaders"),
        f.sum("count").alias("replicas"),
    )
    loads = {name: dict.fromkeys(brokers, Load(0, 0)) for name, brokers in registered.items()}
    holders: defaultdict[str, set[int]] = defaultdict(set)
    for row in sums.collect():
        if row.cluster in loads and row.broker is not None:
            before = loads[row.cluster].get(row.broker, Load(0, 0))
            loads[row.cluster][row.broker] = Load(before.leaders + row.leaders, before.replicas + row.replicas)
            if not row.deleting:
                holders[row.cluster].add(row.broker)
    return {name: BrokerLoad(loads[name], frozenset(holders[name].difference(registered[name]))) for name in loads}
