"""What brokers carry, by Spark: the one thing that every replica list of a fleet has a part in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from topiarist.core.change import Load


class Carried(NamedTuple):
    """What the brokers of a cluster carry; ``strays`` are not registered and hold replicas of topics that stay."""

    load: Mapping[int, Load]
    strays: frozenset[int]


def carried(there: DataFrame, registered: Mapping[str, Sequence[int]]) -> dict[str, Carried]:
    """Leaders and replicas of every broker, by cluster. Few replica lists are distinct: each is counted, then shared
    out.
    """
    rows = there.where("kind = 'topic'").select("cluster", "deleting", f.explode("replicas").alias("brokers"))
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
        name: Carried({**dict.fromkeys(brokers, Load(0, 0)), **loads[name]}, frozenset(strays[name]))
        for name, brokers in registered.items()
    }
