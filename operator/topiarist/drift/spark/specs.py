"""Specs as Spark tables, to be joined with the rows of snapshots.

``drift.spark.job`` builds the tables on the driver. Clusters with shared specs form a group, so that shared specs are
stored once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from topiarist.desired.shared_specs import ClusterTopicSpecs
from topiarist.drift.equality import may_be_equal
from topiarist.drift.placement import PlacementChecker, find_row_checker
from topiarist.drift.spark.worker import ClusterContext, spec_to_row
from topiarist.kafka.names import metric_name
from topiarist.model.spec import TopicSpec

MAX_BROADCAST_SPECS = 500_000
"""Number of specs up to which Spark broadcasts them to all tasks; a larger number is joined by shuffle."""

_SPEC_ROW_TYPE = (
    "sort int, key string, d_number int, d_topic string, d_plain boolean, d_partitions int, d_factor int,"
    " d_lists array<array<int>>, d_removes boolean, config map<string, string>, d_spec string"
)

_CLUSTER_ROW_TYPE = (
    "cluster string, sort int, declared int, c_takers array<int>, c_taker_racks array<int>, c_racks map<int, int>,"
    " c_drained array<int>"
)


class ClusterGroups(NamedTuple):
    """Groups of clusters with shared specs.

    ``specs`` has the specs of each group in order of topic; ``group_of`` has the group number of each cluster, and
    ``checkers`` its checker of replica lists.
    """

    specs: Sequence[Sequence[TopicSpec]]
    group_of: Mapping[str, int]
    checkers: Mapping[str, PlacementChecker]

    def specs_of(self, cluster: str) -> Sequence[TopicSpec]:
        """Return the specs of a cluster; the specs name the first cluster of the group."""
        return self.specs[self.group_of[cluster]]


def make_cluster_groups(
    specs: Mapping[str, Sequence[TopicSpec]], contexts: Mapping[str, ClusterContext]
) -> ClusterGroups:
    """Group the clusters in ``contexts`` that share their specs."""
    specs_by_group: dict[int, Sequence[TopicSpec]] = {}
    numbers: dict[int, int] = {}
    group_of: dict[str, int] = {}
    for name in contexts:
        each = specs[name]
        shared = each.shared_specs if isinstance(each, ClusterTopicSpecs) else each
        group_of[name] = numbers.setdefault(id(shared), len(numbers))
        specs_by_group[group_of[name]] = shared
    checkers = {name: find_row_checker(each.cluster_row, each.cluster) for name, each in contexts.items()}
    return ClusterGroups(list(specs_by_group.values()), group_of, checkers)


def create_spec_table(spark: SparkSession, groups: ClusterGroups) -> DataFrame:
    """Return a table with a row for each spec of each group.

    The columns have the values that built-in functions compare; ``d_spec`` is the whole spec as JSON.
    """
    rows = spark.createDataFrame(list(_spec_rows(groups)), _SPEC_ROW_TYPE, verifySchema=False)
    entries, keys = f.sort_array(f.map_entries("config")), f.sort_array(f.map_keys("config"))
    table = rows.withColumn("d_entries", entries).withColumn("d_keys", keys).drop("config")
    return f.broadcast(table) if sum(map(len, groups.specs)) <= MAX_BROADCAST_SPECS else table


def create_cluster_table(spark: SparkSession, groups: ClusterGroups) -> DataFrame:
    """Return a table with a row for each cluster: its group (``sort``), its number of specs, and its brokers.

    ``c_takers`` are the brokers that may take replicas, and ``c_racks`` has a number for the rack of each broker.
    """
    rows = [
        (name, sort, len(groups.specs[sort]), *_broker_columns(groups.checkers[name]))
        for name, sort in groups.group_of.items()
    ]
    return f.broadcast(spark.createDataFrame(rows, _CLUSTER_ROW_TYPE, verifySchema=False))


def _broker_columns(checker: PlacementChecker) -> tuple[Any, ...]:
    takers, numbers = sorted(checker.takers), dict[str | int, int]()
    racks = {broker: numbers.setdefault(checker.picker.rack_of(broker), len(numbers)) for broker in checker.registered}
    return takers, sorted({racks[broker] for broker in takers}), racks, sorted(checker.drained)


def _spec_rows(groups: ClusterGroups) -> Iterator[tuple[Any, ...]]:
    for sort, specs in enumerate(groups.specs):
        for number, spec in enumerate(specs):
            row = spec_to_row(spec)
            sizes = (spec.partitions, spec.replication_factor, row["assignment"])
            keys = (sort, metric_name(spec.topic), number, spec.topic)
            yield (*keys, may_be_equal(spec), *sizes, spec.remove_unmanaged, row["config"], json.dumps(row))
