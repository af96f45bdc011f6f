"""Fast equality check for Spark: the conditions of ``drift.equality`` as built-in functions.

``drift.spark.job`` evaluates them on joined rows: a row of a snapshot, and in columns with prefix ``d_`` the spec with
the same or a colliding name. Built-in functions keep equal rows inside the JVM. A test holds both modules to the same
result on every row: change both together.
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
    # Most configs are sorted by name already, and a comparison is faster than a sort.
    yield (entries == wanted) | (f.sort_array(entries) == wanted)
    yield (
        f.col("record").isNull()
        | ~f.col("recordValid")
        | ((f.col("record.owner") == owner) & _has_expected_last_applied(wanted))
    )


def _has_expected_last_applied(desired_entries: Column) -> Column:
    """Return a condition: the last applied spec of the record is absent or equal, text by text."""
    applied = f.col("record")["applied"]
    return applied.isNull() | (
        (f.sort_array(f.map_entries(applied["config"])) == desired_entries)
        & (f.col("d_partitions").isNull() | (applied["partitions"] == f.col("d_partitions")))
        & (applied["removeUnmanaged"] == f.col("d_removes"))
    )


def _size_conditions() -> Iterable[Column]:
    min_factor, min_isr = f.array_min(REPLICATION_FACTORS_COLUMN), f.col("config")[_MIN_ISR]
    is_plain_integer = min_isr.rlike(r"^[0-9]{1,9}\z")
    yield f.size("replicas") > 0
    yield min_factor >= 1
    yield min_isr.isNull() | f.when(is_plain_integer, min_isr.try_cast("int") <= min_factor).otherwise(False)
    yield f.col("d_partitions").isNull() | (f.col("d_partitions") == f.size("replicas"))
    factor = f.col("d_factor")
    yield min_factor == f.array_max(REPLICATION_FACTORS_COLUMN)
    yield factor.isNull() | (min_factor == factor)


def _assignment_conditions() -> Iterable[Column]:
    yield f.col("d_lists").isNull() | (f.col("d_lists") == f.col("replicas"))


def has_expected_record() -> Column:
    """Return a condition: an equal row has the ownership record that a plan would write."""
    record = f.col("record")
    is_expected = f.col("recordValid") & ~record["absent"] & (record["config"] == f.col("d_keys"))
    return f.coalesce(is_expected, f.lit(False))


def is_ignorable() -> Column:
    """Return a condition: an undeclared row needs no finding.

    These rows are records without a topic, Kafka's internal topics, and topics with a pending deletion.
    """
    internal = f.col("topic").isin(*sorted(INTERNAL_TOPICS))
    return f.coalesce(~is_own_spec() & ((f.col("kind") == "record") | f.col("deleting") | internal), f.lit(False))


def _all_of(conditions: Iterable[Column]) -> Column:
    return reduce(and_, conditions)
