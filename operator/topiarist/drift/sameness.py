"""What Spark itself can tell of a topic and its spec: that they are equal as they stand, so that no plan has a word.

Only what is certain: a row that is not kept back here goes to ``plan_topic``, which decides. So a condition that is too
strict costs time, and one that is too lax would lose findings; a test holds both engines to the same rows. Two texts
that mean the same (``0.5`` and ``0.50``) are not equal here.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from topiarist.core.names import INTERNAL_TOPICS

_MIN_ISR = "min.insync.replicas"


def equal(owner: str) -> Column:
    """Whether the plan of a joined row, ``d`` and ``a``, has neither change nor refusal nor notice about a difference.

    What its record lacks is no difference, but that it is somebody else's is. A record without a topic has neither
    replicas nor config, so nothing of it is ever equal.
    """
    replicas = f.col("a.replicas")
    conditions = [
        f.col("d.topic") == f.col("a.topic"),
        f.col("a.fault").isNull(),
        ~f.col("a.deleting"),
        ~f.col("d.absent"),
        f.size("d.ignore") == 0,
        f.col("a.partitionIds").isNull(),
        f.forall(replicas, lambda brokers: f.size(brokers) > 0),
        f.col("d.partitions").isNull() | (f.col("d.partitions") == f.size(replicas)),
        f.col("d.replicationFactor").isNull()
        | f.forall(replicas, lambda brokers: f.size(brokers) == f.col("d.replicationFactor")),
        f.col("d.assignment").isNull() | (f.col("d.assignment") == replicas),
        f.array_sort(f.map_entries("d.config")) == f.array_sort(f.map_entries("a.config")),
        _enough_replicas(),
        f.col("a.record").isNull() | ~f.col("a.recordValid") | (f.col("a.record.owner") == owner),
    ]
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return f.coalesce(whole, f.lit(False))


def _enough_replicas() -> Column:
    """No more in-sync replicas wanted than the narrowest partition has; a value of another form is not judged here."""
    wanted = f.col("a.config")[_MIN_ISR]
    narrowest = f.array_min(f.transform("a.replicas", lambda brokers: f.size(brokers)))
    plain = wanted.rlike("^[0-9]{1,9}$")
    return wanted.isNull() | f.when(plain, wanted.try_cast("int") <= narrowest).otherwise(False)


def recorded(owner: str) -> Column:
    """Whether an equal row has the record that a plan would leave there."""
    record = f.col("a.record")
    return f.coalesce(
        f.col("a.recordValid")
        & (record["owner"] == owner)
        & ~record["absent"]
        & (record["config"] == f.array_sort(f.map_keys("d.config"))),
        f.lit(False),
    )


def of_no_interest() -> Column:
    """What nobody asked for and nothing is said about: records without a topic, Kafka's topics, what is about to go."""
    undeclared = f.col("d.topic").isNull()
    internal = f.col("a.topic").isin(*sorted(INTERNAL_TOPICS))
    return f.coalesce(undeclared & ((f.col("a.kind") == "record") | f.col("a.deleting") | internal), f.lit(False))
