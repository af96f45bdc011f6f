"""What only a fleet shows, by Spark: what brokers carry, and the few topics that are not the same everywhere.

Built-in functions count, and drop every topic of which all clusters hold the same; what is left is compared in this
process, as without Spark.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from topiarist.core.change import Load
from topiarist.core.differences import THROTTLES
from topiarist.core.placing import loads
from topiarist.core.state import Replicas

_NAMES = ("topic", "namespace", "manifest")


def carried(there: DataFrame, registered: Mapping[str, list[int]]) -> dict[str, dict[int, Load]]:
    """Leaders and replicas of every broker, by cluster; the lists that occur are few, and are counted as they are."""
    lists: defaultdict[str, dict[Replicas, int]] = defaultdict(dict)
    rows = there.where("kind = 'topic'").select("cluster", f.explode("replicas").alias("brokers"))
    for row in rows.groupBy("cluster", "brokers").count().collect():
        lists[row.cluster][tuple(row.brokers)] = row["count"]
    return {name: loads(lists[name], brokers) for name, brokers in registered.items()}


def unlike(wanted: DataFrame, there: DataFrame) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Cluster, spec and topic, as rows, of every topic of a manifest that some clusters hold otherwise than others."""
    left = wanted.where("not absent").alias("d")
    right = there.where("kind = 'topic' and fault is null").alias("a")
    both = left.join(right, ["cluster", "topic"]).select(
        "cluster", "topic", "d.namespace", "d.manifest", _shape().alias("shape"), _pair(wanted, there).alias("pair")
    )
    shapes = both.groupBy(*_NAMES).agg(f.min("shape").alias("least"), f.max("shape").alias("most"))
    odd = shapes.where("least <> most").select(*_NAMES)
    for row in both.join(f.broadcast(odd), list(_NAMES), "left_semi").select("cluster", "pair").collect():
        pair = json.loads(row.pair)
        yield row.cluster, pair["d"], pair["a"]


def _shape() -> Column:
    """A number for what of a topic is compared between clusters; of 64 bits, so that none is missed by chance."""
    config = f.map_filter("a.config", lambda key, _: ~key.isin(*sorted(THROTTLES)))
    widths = f.transform("a.replicas", lambda brokers: f.size(brokers))
    moving = f.concat_ws(",", f.col("a.movingPartitions").cast("array<string>"))
    return f.xxhash64(widths, f.array_sort(f.map_entries(config)), moving)


def _pair(wanted: DataFrame, there: DataFrame) -> Column:
    """Both rows as JSON; the columns that they are joined by belong to both."""

    def whole(name: str, frame: DataFrame) -> Column:
        shared = ("cluster", "topic")
        return f.struct(*(f.col(each if each in shared else f"{name}.{each}") for each in frame.columns)).alias(name)

    return f.to_json(f.struct(whole("d", wanted), whole("a", there)), {"ignoreNullFields": "false"})
