"""``stored`` for Spark: what built-in functions can tell of a topic and its spec, condition by condition the same.

A row is one of a snapshot, beside it (with ``d_``) the spec that has its name, or one that collides with it. A test
holds this and ``stored`` to the same verdict on every row: whoever changes one changes the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as f

from topiarist.kafka.names import INTERNAL_TOPICS

_MIN_ISR = "min.insync.replicas"

REPLICATION_FACTORS_COLUMN = "widths"
"""A column that must be there: how many replicas each partition has."""


def replication_factors() -> Column:
    """The numbers of replicas, in order of partition."""
    return f.transform("replicas", lambda brokers: f.size(brokers))


def is_own_spec() -> Column:
    """Whether the spec beside a row is that of its topic, and not one whose name collides with it."""
    return f.coalesce(f.col("d_topic") == f.col("topic"), f.lit(False))


def is_equal_to_spec(owner: str) -> Column:
    """Whether a row is equal to its spec as stored: no plan of it has a change, refusal or notice about a difference.

    A record without a topic has neither replicas nor config, so nothing of it is ever equal.
    """
    return f.coalesce(
        is_own_spec() & _all_of([*_conditions_except_replicas(owner), *_size_conditions(), *_assignment_conditions()]),
        f.lit(False),
    )


def _conditions_except_replicas(owner: str) -> Iterable[Column]:
    entries, wanted = f.map_entries("config"), f.col("d_entries")
    yield f.col("kind") == "topic"
    yield f.col("fault").isNull()
    yield ~f.col("deleting")
    yield f.col("d_plain")
    yield f.col("partitionIds").isNull()
    yield f.size("movingPartitions") == 0
    # Most overrides stand in the order of their names already, and to sort them takes longer than to compare.
    yield (entries == wanted) | (f.sort_array(entries) == wanted)
    yield (
        f.col("record").isNull()
        | ~f.col("recordValid")
        | ((f.col("record.owner") == owner) & _has_expected_last_applied(wanted))
    )


def _has_expected_last_applied(desired_entries: Column) -> Column:
    """Whether a record remembers what the spec asks for, in the same words, or nothing."""
    applied = f.col("record")["applied"]
    return applied.isNull() | (
        (f.sort_array(f.map_entries(applied["config"])) == desired_entries)
        & (f.col("d_partitions").isNull() | (applied["partitions"] == f.col("d_partitions")))
        & (applied["removeUnmanaged"] == f.col("d_removes"))
    )


def _size_conditions() -> Iterable[Column]:
    narrowest, least = f.array_min(REPLICATION_FACTORS_COLUMN), f.col("config")[_MIN_ISR]
    plain = least.rlike(r"^[0-9]{1,9}\z")
    yield f.size("replicas") > 0
    yield narrowest >= 1
    yield least.isNull() | f.when(plain, least.try_cast("int") <= narrowest).otherwise(False)
    yield f.col("d_partitions").isNull() | (f.col("d_partitions") == f.size("replicas"))
    factor = f.col("d_factor")
    yield narrowest == f.array_max(REPLICATION_FACTORS_COLUMN)
    yield factor.isNull() | (narrowest == factor)


def _assignment_conditions() -> Iterable[Column]:
    yield f.col("d_lists").isNull() | (f.col("d_lists") == f.col("replicas"))


def has_expected_record() -> Column:
    """Whether an equal row has the record that a plan would leave there."""
    record = f.col("record")
    known = f.col("recordValid") & ~record["absent"] & (record["config"] == f.col("d_keys"))
    return f.coalesce(known, f.lit(False))


def is_ignorable() -> Column:
    """What nobody asked for and nothing is said about: records without a topic, Kafka's topics, what is about to go."""
    internal = f.col("topic").isin(*sorted(INTERNAL_TOPICS))
    return f.coalesce(~is_own_spec() & ((f.col("kind") == "record") | f.col("deleting") | internal), f.lit(False))


def _all_of(conditions: Iterable[Column]) -> Column:
    return reduce(and_, conditions)
