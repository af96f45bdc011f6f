"""The specs of a fleet as Spark has them: those that clusters share once, and which of them a cluster has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.core.alike import Specs
from topiarist.core.names import collision_key
from topiarist.core.spec import TopicSpec
from topiarist.drift.desired_rows import row_of

FEW = 500_000
"""Specs that are sent to wherever rows are; of more than that, both are brought together by cluster and name."""

_STRING, _NUMBER = types.StringType(), types.IntegerType()

_WANTED = types.StructType(
    [
        types.StructField("sort", _NUMBER),
        types.StructField("key", _STRING),
        types.StructField("d_number", _NUMBER),
        types.StructField("d_topic", _STRING),
        types.StructField("d_plain", types.BooleanType()),
        types.StructField("d_partitions", _NUMBER),
        types.StructField("d_factor", _NUMBER),
        types.StructField("d_lists", types.ArrayType(types.ArrayType(_NUMBER))),
        types.StructField("d_removes", types.BooleanType()),
        types.StructField("config", types.MapType(_STRING, _STRING)),
        types.StructField("d_spec", _STRING),
    ]
)

_CLUSTERS = types.StructType(
    [
        types.StructField("cluster", _STRING),
        types.StructField("sort", _NUMBER),
        types.StructField("declared", _NUMBER),
    ]
)


class Sorts(NamedTuple):
    """The sorts of clusters: the specs of each, in order of topic, and the sort of each cluster by number."""

    specs: Sequence[Sequence[TopicSpec]]
    of: Mapping[str, int]

    def declared(self, cluster: str) -> Sequence[TopicSpec]:
        """The specs of a cluster; the cluster that they name is the first of its sort."""
        return self.specs[self.of[cluster]]


def sorts(specs: Mapping[str, Sequence[TopicSpec]]) -> Sorts:
    """The sorts of the clusters of which these are the specs."""
    found: dict[int, Sequence[TopicSpec]] = {}
    numbers: dict[int, int] = {}
    of: dict[str, int] = {}
    for name, each in specs.items():
        shared = each.shared if isinstance(each, Specs) else each
        of[name] = numbers.setdefault(id(shared), len(numbers))
        found[of[name]] = shared
    return Sorts(list(found.values()), of)


def wanted(spark: SparkSession, known: Sorts) -> DataFrame:
    """A row for each spec of each sort, with what can be told of it beforehand; ``d_spec`` is the whole of it."""
    rows = spark.createDataFrame(list(_rows(known)), _WANTED, verifySchema=False)
    entries, keys = f.sort_array(f.map_entries("config")), f.sort_array(f.map_keys("config"))
    made = rows.withColumn("d_entries", entries).withColumn("d_keys", keys).drop("config")
    return f.broadcast(made) if sum(map(len, known.specs)) <= FEW else made


def clusters(spark: SparkSession, known: Sorts) -> DataFrame:
    """A row for each cluster: its sort, and how many specs it has."""
    rows = [(name, sort, len(known.specs[sort])) for name, sort in known.of.items()]
    return f.broadcast(spark.createDataFrame(rows, _CLUSTERS, verifySchema=False))


def _rows(known: Sorts) -> Iterator[tuple[Any, ...]]:
    for sort, specs in enumerate(known.specs):
        for number, spec in enumerate(specs):
            row = row_of(spec)
            plain = not spec.absent and not spec.ignore
            sizes = (spec.partitions, spec.replication_factor, row["assignment"])
            named = (sort, collision_key(spec.topic), number, spec.topic)
            yield (*named, plain, *sizes, spec.remove_unmanaged, row["config"], json.dumps(row))
