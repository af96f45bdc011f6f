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

from topiarist.core.names import INTERNAL_TOPICS

_MIN_ISR = "min.insync.replicas"

WIDTHS = "widths"
"""A column that must be there: how many replicas each partition has."""


def widths() -> Column:
    """The numbers of replicas, in order of partition."""
    return f.transform("replicas", lambda brokers: f.size(brokers))


def own() -> Column:
    """Whether the spec beside a row is that of its topic, and not one whose name collides with it."""
    return f.coalesce(f.col("d_topic") == f.col("topic"), f.lit(False))


def equal(owner: str) -> Column:
    """Whether a row is equal to its spec as stored: no plan of it has a change, refusal or notice about a difference.

    A record without a topic has neither replicas nor config, so nothing of it is ever equal.
    """
    return f.coalesce(own() & _all([*_but_for_replicas(owner), *_size(), *_placed()]), f.lit(False))


def _but_for_replicas(owner: str) -> Iterable[Column]:
    entries, wanted = f.map_entries("config"), f.col("d_entries")
    yield f.col("kind") == "topic"
    yield f.col("fault").isNull()
    yield ~f.col("deleting")
    yield f.col("d_plain")
    yield f.col("partitionIds").isNull()
    yield f.size("movingPartitions") == 0
    # Most overrides stand in the order of their names already, and to sort them takes longer than to compare.
    yield (entries == wanted) | (f.sort_array(entries) == wanted)
    yield f.col("record").isNull() | ~f.col("recordValid") | ((f.col("record.owner") == owner) & _remembers(wanted))


def _remembers(wanted: Column) -> Column:
    """Whether a record remembers what the spec asks for, in the same words, or nothing."""
    applied = f.col("record")["applied"]
    return applied.isNull() | (
        (f.sort_array(f.map_entries(applied["config"])) == wanted)
        & (f.col("d_partitions").isNull() | (applied["partitions"] == f.col("d_partitions")))
        & (applied["removeUnmanaged"] == f.col("d_removes"))
    )


def _size() -> Iterable[Column]:
    narrowest, least = f.array_min(WIDTHS), f.col("config")[_MIN_ISR]
    plain = least.rlike(r"^[0-9]{1,9}\z")
    yield f.size("replicas") > 0
    yield narrowest >= 1
    yield least.isNull() | f.when(plain, least.try_cast("int") <= narrowest).otherwise(False)
    yield f.col("d_partitions").isNull() | (f.col("d_partitions") == f.size("replicas"))
    factor = f.col("d_factor")
    yield narrowest == f.array_max(WIDTHS)
    yield factor.isNull() | (narrowest == factor)


def _placed() -> Iterable[Column]:
    yield f.col("d_lists").isNull() | (f.col("d_lists") == f.col("replicas"))


def recorded() -> Column:
    """Whether an equal row has the record that a plan would leave there."""
    record = f.col("record")
    known = f.col("recordValid") & ~record["absent"] & (record["config"] == f.col("d_keys"))
    return f.coalesce(known, f.lit(False))


def of_no_interest() -> Column:
    """What nobody asked for and nothing is said about: records without a topic, Kafka's topics, what is about to go."""
    internal = f.col("topic").isin(*sorted(INTERNAL_TOPICS))
    return f.coalesce(~own() & ((f.col("kind") == "record") | f.col("deleting") | internal), f.lit(False))


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(and_, conditions)
