"""Specs as rows and back, for engines that join them with the rows of snapshots.

A row has what ``plan_topic`` asks of a spec. The cluster's document is not in it: it is the same for all its topics.
Nor is the manifest: what is found says what differs, not where that was written.

The specs of a fleet as Spark has them: those that clusters share once, and which of them a cluster has.
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
    """The source of specs that come from rows."""

    def locate(self, path: FieldPath = ()) -> Location:
        """No place."""
        return Location("")


NO_SOURCE = _NoSource()


def spec_to_row(spec: TopicSpec) -> SpecRow:
    """A spec as a row: plain values only, every field always there."""
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
    """The spec of which a row is, on its cluster."""
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
"""Specs that are sent to wherever rows are; of more than that, both are brought together by cluster and name."""

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
    """The sorts of clusters: the specs of each, in order of topic, and the sort of each cluster by number."""

    specs: Sequence[Sequence[TopicSpec]]
    group_of: Mapping[str, int]

    def specs_of(self, cluster: str) -> Sequence[TopicSpec]:
        """The specs of a cluster; the cluster that they name is the first of its sort."""
        return self.specs[self.group_of[cluster]]


def make_cluster_groups(specs: Mapping[str, Sequence[TopicSpec]]) -> ClusterGroups:
    """The sorts of the clusters of which these are the specs."""
    found: dict[int, Sequence[TopicSpec]] = {}
    numbers: dict[int, int] = {}
    of: dict[str, int] = {}
    for name, each in specs.items():
        shared = each.shared_specs if isinstance(each, ClusterTopicSpecs) else each
        of[name] = numbers.setdefault(id(shared), len(numbers))
        found[of[name]] = shared
    return ClusterGroups(list(found.values()), of)


def create_spec_table(spark: SparkSession, groups: ClusterGroups) -> DataFrame:
    """A row for each spec of each sort, with what can be told of it beforehand; ``d_spec`` is the whole of it."""
    rows = spark.createDataFrame(list(_spec_rows(groups)), _SPEC_ROW_TYPE, verifySchema=False)
    entries, keys = f.sort_array(f.map_entries("config")), f.sort_array(f.map_keys("config"))
    made = rows.withColumn("d_entries", entries).withColumn("d_keys", keys).drop("config")
    return f.broadcast(made) if sum(map(len, groups.specs)) <= MAX_BROADCAST_SPECS else made


def create_cluster_table(spark: SparkSession, groups: ClusterGroups) -> DataFrame:
    """A row for each cluster: its sort, and how many specs it has."""
    rows = [(name, sort, len(groups.specs[sort])) for name, sort in groups.group_of.items()]
    return f.broadcast(spark.createDataFrame(rows, _CLUSTER_ROW_TYPE, verifySchema=False))


def _spec_rows(groups: ClusterGroups) -> Iterator[tuple[Any, ...]]:
    for sort, specs in enumerate(groups.specs):
        for number, spec in enumerate(specs):
            row = spec_to_row(spec)
            plain = not spec.absent and not spec.ignored_fields
            sizes = (spec.partitions, spec.replication_factor, row["assignment"])
            named = (sort, metric_name(spec.topic), number, spec.topic)
            yield (*named, plain, *sizes, spec.remove_unmanaged, row["config"], json.dumps(row))
