"""Fast equality check for Spark: the conditions of ``drift.equality`` as built-in functions.

``drift.spark.job`` evaluates them on joined rows: a row of a snapshot, and in columns with prefix ``d_`` the spec with
the same or a colliding name. Built-in functions keep equal rows inside the JVM. A test holds both modules to the same
result on every row: change both together.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as f

from topiarist.drift.equality import MIN_ISR
from topiarist.kafka.names import INTERNAL_TOPICS

REPLICATION_FACTORS_COLUMN = "factors"
"""Required column with the number of replicas of each partition."""


def replication_factors() -> Column:
    """Return a column with the numbers of replicas, in order of partition."""
    return f.transform("replicas", lambda brokers: f.size(brokers))


def is_own_spec() -> Column:
    """Return a condition: the joined spec is that of the row's topic, not one with a colliding name."""
    return f.coalesce(f.col("d_topic") == f.col("topic"), f.lit(False))


def is_equal_to_spec(owner: str) -> Column:
    """Return a condition: a plan of the row has no change, refusal or notice about a difference.

    A record without a topic has neither replicas nor config, so that it is never equal.
    """
    entries, desired_entries = f.map_entries("config"), f.col("d_entries")
    partitions, factor = f.col("d_partitions"), f.col("d_factor")
    min_factor, max_factor = f.array_min(REPLICATION_FACTORS_COLUMN), f.array_max(REPLICATION_FACTORS_COLUMN)
    min_isr = f.col("config")[MIN_ISR]
    has_enough_replicas = f.when(min_isr.rlike(r"^[0-9]{1,9}\z"), min_isr.try_cast("int") <= min_factor)
    record, applied = f.col("record"), f.col("record")["applied"]
    has_expected_last_applied = applied.isNull() | (
        (f.sort_array(f.map_entries(applied["config"])) == desired_entries)
        & (partitions.isNull() | (applied["partitions"] == partitions))
        & (applied["removeUnmanaged"] == f.col("d_removes"))
    )
    conditions = (
        is_own_spec(),
        f.col("kind") == "topic",
        f.col("readError").isNull(),
        ~f.col("deleting"),
        ~f.col("reassigning"),
        f.col("d_plain"),
        f.col("partitionIds").isNull(),
        f.size("reassigningPartitions") == 0,
        # Most configs are sorted by name already, and a comparison is faster than a sort.
        (entries == desired_entries) | (f.sort_array(entries) == desired_entries),
        record.isNull() | ~f.col("recordValid") | ((record["owner"] == owner) & has_expected_last_applied),
        f.size("replicas") > 0,
        min_factor >= 1,
        min_isr.isNull() | has_enough_replicas.otherwise(False),
        partitions.isNull() | (partitions == f.size("replicas")),
        min_factor == max_factor,
        factor.isNull() | (factor == min_factor),
        ~f.arrays_overlap(f.flatten("replicas"), "c_drained"),
        f.when(f.col("d_lists").isNull(), is_regular()).otherwise(f.col("d_lists") == f.col("replicas")),
    )
    return f.coalesce(reduce(and_, conditions), f.lit(False))


def is_regular() -> Column:
    """Return a condition: ``PlacementChecker.is_regular``, for lists of one or more replicas each."""
    lists = f.col("replicas")
    # A function of an array with one element evaluates the element once, for all its uses in the condition.
    brokers_of_topic = f.array(f.array_union("c_takers", f.flatten(lists)))
    within_bounds = f.exists(
        brokers_of_topic,
        lambda holders: (
            _is_within_bounds(f.flatten(lists), f.size(holders), f.array_max(REPLICATION_FACTORS_COLUMN))
            & _is_within_bounds(f.transform(lists, lambda brokers: f.get(brokers, f.lit(0))), f.size(holders), f.lit(1))
        ),
    )
    return ~f.exists(lists, _lacks_rack) & within_bounds


def _lacks_rack(brokers: Column) -> Column:
    # A broker that is not registered is a rack of its own.
    racks = f.array_distinct(f.transform(brokers, lambda broker: f.coalesce(f.col("c_racks")[broker], -1 - broker)))
    return f.exists(
        f.array(racks),
        lambda found: f.size(found) < f.least(f.size(brokers), f.size(f.array_union("c_taker_racks", found))),
    )


def _is_within_bounds(brokers: Column, holders: Column, factor: Column) -> Column:
    """Return whether each broker that takes replicas occurs in ``brokers`` as often as Kafka's placement allows."""
    partitions, takers = f.size("replicas"), f.size("c_takers")
    least = (factor * f.floor(partitions / holders)).cast("int")
    most = (factor * f.ceil(partitions / takers)).cast("int")
    held = f.array_sort(f.filter(brokers, lambda broker: f.array_contains("c_takers", broker)))

    def is_within(held: Column) -> Column:
        excess = f.exists(f.array(most), lambda most: f.size(_repeated(held, most)) > 0)
        enough = f.exists(f.array(least), lambda least: f.size(f.array_distinct(_repeated(held, least - 1))) == takers)
        return ~excess & ((least == 0) | enough)

    return (takers == 0) | f.exists(f.array(held), is_within)


def _repeated(held: Column, distance: Column) -> Column:
    """Return the elements of a sorted array that are equal to the element ``distance`` places before."""
    return f.filter(held, lambda broker, place: f.get(held, place - distance) == broker)


def has_expected_record() -> Column:
    """Return a condition: an equal row has the ownership record that a plan would write."""
    record = f.col("record")
    is_expected = f.col("recordValid") & ~record["absent"] & (record["config"] == f.col("d_keys"))
    return f.coalesce(is_expected, f.lit(False))


def is_ignorable() -> Column:
    """Return a condition: an undeclared row needs no finding.

    These rows are records without a topic, topics with a pending deletion, and Kafka's internal topics that no
    reassignment request names.
    """
    internal = f.col("topic").isin(*sorted(INTERNAL_TOPICS)) & ~f.col("reassigning")
    return f.coalesce(~is_own_spec() & ((f.col("kind") == "record") | f.col("deleting") | internal), f.lit(False))
