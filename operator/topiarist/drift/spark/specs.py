"""Specs as rows and Spark tables, to be joined with the rows of snapshots.

``drift.spark.job`` builds the tables on the driver, and ``drift.spark.worker`` turns rows into specs again. A row has
the fields that ``plan_topic`` reads. It has no cluster document, which is the same for all topics of a cluster, and no
manifest content, because findings name the difference and not its source line. Clusters with shared specs form a group,
so that shared specs are stored once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as f

from topiarist.desired.shared_specs import ClusterTopicSpecs
from topiarist.errors import FieldPath, Location
from topiarist.kafka.names import metric_name
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec

SpecRow = dict[str, Any]


class _NoSource:
    """The manifest source of specs that were built from rows."""

    def locate(self, path: FieldPath = ()) -> Location:
        """Return an empty location."""
        return Location("")


NO_SOURCE = _NoSource()


def spec_to_row(spec: TopicSpec) -> SpecRow:
    """Return a spec as a row of plain values with all fields."""
    manifest = spec.manifest
    return {
        "cluster": spec.cluster.name,
        "topic": spec.topic,
        "namespace": manifest.namespace,
        "manifest": manifest.name,
        "partitions": spec.partitions,
        "replicationFactor": spec.replication_factor,
        "createPartitions": spec.create_partitions,
        "createReplicationFactor": spec.create_replication_factor,
        "assignment": None if spec.assignment is None else [list(replicas) for replicas in spec.assignment],
        "config": dict(spec.config),
        "inherited": sorted(spec.inherited_keys),
        "ignore": sorted(spec.ignored_fields),
        "without": list(spec.excluded_default_keys),
        "removeUnmanaged": spec.remove_unmanaged,
        "absent": spec.absent,
        "observe": spec.observe_only,
    }


def spec_from_row(row: Mapping[str, Any], cluster: ClusterSpec) -> TopicSpec:
    """Return the spec of a row, on its cluster."""
    lists = row["assignment"]
    return TopicSpec(
        topic=row["topic"],
        cluster=cluster,
        manifest=Manifest("Topic", row["manifest"], row["namespace"], {}, {}, NO_SOURCE),
        partitions=row["partitions"],
        replication_factor=row["replicationFactor"],
        create_partitions=row["createPartitions"],
        create_replication_factor=row["createReplicationFactor"],
        assignment=None if lists is None else tuple(tuple(replicas) for replicas in lists),
        config=row["config"],
        inherited_keys=frozenset(row["inherited"]),
        ignored_fields=frozenset(row["ignore"]),
        excluded_default_keys=tuple(row["without"]),
        remove_unmanaged=row["removeUnmanaged"],
        absent=row["absent"],
        observe_only=row["observe"],
    )


MAX_BROADCAST_SPECS = 500_000
"""Number of specs up to which Spark broadcasts them to all tasks; a larger number is joined by shuffle."""

_STRING, _INTEGER = types.StringType(), types.IntegerType()

_SPEC_ROW_TYPE = types.StructType(
    [
        types.StructField("sort", _INTEGER),
        types.StructField("key", _STRING),
        types.StructField("d_number", _INTEGER),
        types.StructField("d_topic", _STRING),
        types.StructField("d_plain", types.BooleanType()),
        types.StructField("d_partitions", _INTEGER),
        types.StructField("d_factor", _INTEGER),
        types.StructField("d_lists", types.ArrayType(types.ArrayType(_INTEGER))),
        types.StructField("d_removes", types.BooleanType()),
        types.StructField("config", types.MapType(_STRING, _STRING)),
        types.StructField("d_spec", _STRING),
    ]
)

_CLUSTER_ROW_TYPE = types.StructType(
    [
        types.StructField("cluster", _STRING),
        types.StructField("sort", _INTEGER),
        types.StructField("declared", _INTEGER),
    ]
)


class ClusterGroups(NamedTuple):
    """Groups of clusters with shared specs.

    ``specs`` has the specs of each group in order of topic; ``group_of`` has the group number of each cluster.
    """

    specs: Sequence[Sequence[TopicSpec]]
    group_of: Mapping[str, int]

    def specs_of(self, cluster: str) -> Sequence[TopicSpec]:
        """Return the specs of a cluster; the specs name the first cluster of the group."""
        return self.specs[self.group_of[cluster]]


def make_cluster_groups(specs: Mapping[str, Sequence[TopicSpec]]) -> ClusterGroups:
    """Group the clusters that share their specs."""
    specs_by_group: dict[int, Sequence[TopicSpec]] = {}
    numbers: dict[int, int] = {}
    group_of: dict[str, int] = {}
    for name, each in specs.items():
        shared = each.shared_specs if isinstance(each, ClusterTopicSpecs) else each
        group_of[name] = numbers.setdefault(id(shared), len(numbers))
        specs_by_group[group_of[name]] = shared
    return ClusterGroups(list(specs_by_group.values()), group_of)


def create_spec_table(spark: SparkSession, groups: ClusterGroups) -> DataFrame:
    """Return a table with a row for each spec of each group.

    The columns have the values that built-in functions compare; ``d_spec`` is the whole spec as JSON.
    """
    rows = spark.createDataFrame(list(_spec_rows(groups)), _SPEC_ROW_TYPE, verifySchema=False)
    entries, keys = f.sort_array(f.map_entries("config")), f.sort_array(f.map_keys("config"))
    table = rows.withColumn("d_entries", entries).withColumn("d_keys", keys).drop("config")
    return f.broadcast(table) if sum(map(len, groups.specs)) <= MAX_BROADCAST_SPECS else table


def create_cluster_table(spark: SparkSession, groups: ClusterGroups) -> DataFrame:
    """Return a table with a row for each cluster: its group (``sort``) and its number of specs."""
    rows = [(name, sort, len(groups.specs[sort])) for name, sort in groups.group_of.items()]
    return f.broadcast(spark.createDataFrame(rows, _CLUSTER_ROW_TYPE, verifySchema=False))


def _spec_rows(groups: ClusterGroups) -> Iterator[tuple[Any, ...]]:
    for sort, specs in enumerate(groups.specs):
        for number, spec in enumerate(specs):
            row = spec_to_row(spec)
            may_be_equal = not spec.absent and not spec.ignored_fields
            sizes = (spec.partitions, spec.replication_factor, row["assignment"])
            keys = (sort, metric_name(spec.topic), number, spec.topic)
            yield (*keys, may_be_equal, *sizes, spec.remove_unmanaged, row["config"], json.dumps(row))
