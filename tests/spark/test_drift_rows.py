"""Row-by-row equality of the Spark engine, the Python engine and plans."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession, types

from support.drift.near_equal_clusters import make_near_equal
from support.drift.row_equality import check_row
from support.drift.small_fleet import SNAPSHOT_TIME, cluster_state, owned_topic, topic_document, write_manifests
from support.strategies import PlanInput, make_plan_input, plan_inputs
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
from topiarist.drift.compare import Comparison, compare_cluster
from topiarist.drift.snapshots import ClusterInput
from topiarist.drift.spark import columns, equality
from topiarist.drift.spark import job as engine
from topiarist.drift.spark import specs as specs_
from topiarist.drift.spark.worker import ClusterContext, spec_from_row, spec_to_row
from topiarist.model.moves import BatchRecord, MoveKind, MoveSettings, ReplicaMove, RequestedReassignment
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan_context, plan_topic
from topiarist.schema import load

RUNS = (
    RunOptions(),
    RunOptions(adopt=("*",)),
    RunOptions(recreate=("*",), take_ownership=("o*",)),
    RunOptions(owner="k8s/team/release"),
)


class Fleet:
    """Generated plan inputs as the clusters of one fleet, with snapshots on disk for Spark."""

    def __init__(self, found: Sequence[PlanInput], run: RunOptions, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.worlds = {f"c{number}": _named(world, f"c{number}") for number, world in enumerate(found)}
        for name, world in self.worlds.items():
            (folder / file_name(name)).write_bytes(b"".join(dump_snapshot(Snapshot(name, SNAPSHOT_TIME, world.state))))

    def here(self) -> dict[str, Comparison]:
        """Compare each cluster without Spark and without the fast equality check before planning."""
        seen = {name: ClusterInput(name, SNAPSHOT_TIME, world.state) for name, world in self.worlds.items()}
        return {
            name: compare_cluster(seen[name], world.cluster, world.specs, self.run, "")
            for name, world in self.worlds.items()
        }

    def frames(self) -> dict[str, ClusterContext]:
        """Return the context of each cluster that the workers get."""
        heads = {name: (self.folder / file_name(name)).read_bytes().splitlines()[0] for name in self.worlds}
        return {
            name: engine.make_cluster_context(world.cluster, json.loads(heads[name]))
            for name, world in self.worlds.items()
        }

    def lines(self, spark: SparkSession) -> DataFrame:
        """Return the snapshots as a data frame."""
        return engine.read_json_lines(spark, [str(self.folder / file_name(name)) for name in self.worlds])

    def specs(self) -> dict[str, tuple[TopicSpec, ...]]:
        """Return the specs of each cluster."""
        return {name: world.specs for name, world in self.worlds.items()}

    def there(self, spark: SparkSession) -> engine.SparkResult:
        """Compare the clusters with Spark."""
        return engine.run_job(spark, self.specs(), self.lines(spark), self.frames(), self.run)


def _named(world: PlanInput, name: str) -> PlanInput:
    cluster = replace(world.cluster, name=name)
    return world._replace(cluster=cluster, specs=tuple(replace(spec, cluster=cluster) for spec in world.specs))


def ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in the order of a report."""
    return sorted(rows, key=lambda row: (row["cluster"], row["topic"], row["class"], row["field"]))


# A job takes a second at any size, and a failing seed reproduces its fleet: many clusters, few examples.
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_both_engines_find_the_same(spark: SparkSession, seed: int, run: RunOptions) -> None:
    """Both engines return the same rows and counts for random fleets with all unusual states of clusters."""
    with TemporaryDirectory() as folder:
        found = [make_plan_input(seed + number, 1 + number % 10, (0.0, 0.08, 0.25)[number % 3]) for number in range(60)]
        close = [make_near_equal(world, seed + number) for number, world in enumerate(found)]
        fleet = Fleet([*found, *close], run, Path(folder))
        there, wanted = fleet.there(spark), fleet.here()
    rows = [row for done in there.row_results for row in done.rows]
    assert ordered(rows) == ordered([row for done in wanted.values() for row in done.rows])
    assert len(rows) > 0
    assert sum(counts.topics.in_sync for counts in there.counts.values()) > 0
    for name, done in wanted.items():
        totals = there.counts[name]
        assert there.broker_loads[name].loads == done.broker_load
        topics = replace(totals.topics)
        for one in there.row_results:
            if one.cluster == name:
                topics.add(one.counts)
        assert topics == done.counts
        assert totals.rows == len(fleet.worlds[name].state.dangling_records) + done.counts.present


def _with_reassignments(world: PlanInput, seed: int) -> PlanInput:
    """Return the input with drained and excluded brokers, a request, partitions in flight, and a batch record."""
    random = Random(seed)
    ids = [broker.id for broker in world.state.brokers]
    cluster = replace(
        world.cluster,
        drain_brokers=frozenset(random.sample(ids, min(len(ids), random.choice((0, 0, 1))))),
        exclude_brokers=frozenset(random.sample(ids, min(len(ids), random.choice((0, 0, 1))))),
        moves=MoveSettings(allow=frozenset(random.sample([*MoveKind], random.choice((0, 2))))),
    )
    names = [name for name in world.state.topics if random.random() < 0.4]
    targets = ((1, 2), (2, 2), (3, -1), (2, 1))
    entries = tuple(
        RequestedReassignment(name, number, targets[(seed + number) % 4]) for name in names for number in (0, 1)
    )
    topics = dict(world.state.topics)
    for name in names:
        if random.random() < 0.5 and topics[name].replicas:
            topics[name] = replace(topics[name], reassigning_partitions=(topics[name].partition_ids[0],))
    state = replace(
        world.state,
        topics=topics,
        reassigning_topics=frozenset(names),
        stale_reassignments=frozenset(),
        requested_reassignments=entries,
        requested_at_ms=int(SNAPSHOT_TIME.timestamp() - random.choice((5, 500))) * 1000,
        batch=BatchRecord("default", 1, 2, tuple(ReplicaMove(*entry[:2], (1,), entry[2]) for entry in entries), {}),
        batch_at_ms=int(SNAPSHOT_TIME.timestamp() - 9) * 1000,
    )
    specs = (replace(spec, cluster=cluster, allowed_moves=cluster.moves.allow) for spec in world.specs)
    return world._replace(state=state, cluster=cluster, specs=tuple(specs))


@settings(max_examples=2, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40))
def test_both_engines_find_the_same_moves(spark: SparkSession, seed: int) -> None:
    """Both engines return the same rows for clusters with reassignments, drained and excluded brokers."""
    with TemporaryDirectory() as folder:
        found = [make_plan_input(seed + number, 1 + number % 10, (0.0, 0.08, 0.25)[number % 3]) for number in range(40)]
        close = [make_near_equal(world, seed + number) for number, world in enumerate(found)]
        worlds = [_with_reassignments(world, seed + number) for number, world in enumerate([*found, *close])]
        fleet = Fleet(worlds, RunOptions(), Path(folder))
        there, wanted = fleet.there(spark), fleet.here()
    rows = ordered([row for done in there.row_results for row in done.rows])
    with_topic = [row for done in wanted.values() for row in done.rows if row["topic"]]
    assert rows == ordered(with_topic)
    assert {"moving", "stuck", "racks", "spread", "drained"} <= {row["class"] for row in rows}
    assert sum(counts.topics.in_sync for counts in there.counts.values()) > 0


@settings(max_examples=300)
@given(plan_inputs())
def test_a_spec_comes_back_from_its_row(world: PlanInput) -> None:
    """A spec survives the conversion to a JSON row and back: its plan is the same."""
    for spec in world.specs:
        again = spec_from_row(json.loads(json.dumps(spec_to_row(spec))), world.cluster)
        # A context counts the replicas of the topics that it has planned.
        contexts = (make_plan_context(world.state, world.cluster, world.run) for _ in range(2))
        pairs = zip((spec, again), contexts, strict=True)
        one, other = (replace(plan_topic(each, context), spec=None) for each, context in pairs)
        assert one == other


@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_what_is_equal_as_stored_is_said_in_one_way(spark: SparkSession, seed: int, run: RunOptions) -> None:
    """Spark's fast equality check of topics and ownership records gives the same result for each row as the Python
    check.
    """
    with TemporaryDirectory() as folder:
        found = [make_plan_input(seed + number, 1 + number % 10, (0.0, 0.08)[number % 2]) for number in range(30)]
        close = [make_near_equal(world, seed + number) for number, world in enumerate(found) for _ in range(3)]
        fleet = Fleet([*found, *close], run, Path(folder))
        rows = engine.join_specs(
            spark,
            specs_.make_cluster_groups(fleet.specs(), fleet.frames()),
            engine.select_valid_rows(fleet.lines(spark)),
        )
        verdicts = rows.where("own and kind = 'topic'").select(
            "cluster",
            "topic",
            equality.is_equal_to_spec(run.owner).alias("equal"),
            equality.has_expected_record().alias("recorded"),
        )
        by_spark = {
            (row.cluster, row.topic): (row.equal, int(row.equal and not row.recorded)) for row in verdicts.collect()
        }
        here = {
            (name, row["topic"]): (bool(counted.names), counted.missing_record)
            for name, world in fleet.worlds.items()
            for row in map(json.loads, list(dump_snapshot(Snapshot(name, SNAPSHOT_TIME, world.state)))[1:])
            for spec in world.specs
            if row["kind"] == "topic" and row["topic"] == spec.topic
            for counted in [check_row(spec, row, run.owner, world.state.brokers)]
        }
    assert by_spark == here
    assert {equal for equal, _ in here.values()} == {True, False}


def test_the_schema_is_that_of_snapshots() -> None:
    """The row type has a column of the right type for every field of topics and records, and one more for corrupt
    lines.
    """
    definitions = load.load_schema("snapshot")["definitions"]
    names = {*definitions["topic"]["properties"], *definitions["record"]["properties"]}
    made = columns.actual_row_type()
    assert set(made.names) == names | {columns.CORRUPT_COLUMN}
    assert made["identity"].dataType == types.LongType()
    assert made["replicas"].dataType == types.ArrayType(types.ArrayType(types.IntegerType()))
    assert made["config"].dataType == types.MapType(types.StringType(), types.StringType())
    record = made["record"].dataType
    assert isinstance(record, types.StructType)
    assert set(record.names) == set(definitions["topic"]["properties"]["record"]["properties"])
    assert all(field.nullable for field in made.fields)


@pytest.fixture
def quiet(tmp_path: Path) -> Fleet:
    """Return a fleet of one cluster with a hundred topics, all but one in sync."""
    write_manifests(tmp_path, ["c0"], topic_document("x", ["c0"]))
    names = [f"t{number}" for number in range(100)]
    state: ClusterState = cluster_state("c0", *(owned_topic(name) for name in names))
    world = make_plan_input(1, 1, 0.0)
    body: dict[str, Any] = {
        "partitions": 3,
        "replicationFactor": 2,
        "assignment": None,
        "config": {},
        "ignore": [],
        "absent": False,
    }
    rows = [{**spec_to_row(world.specs[0]), **body, "topic": name, "observe": False} for name in names]
    cluster = replace(world.cluster, default_config={}, protected=())
    specs = tuple(
        spec_from_row({**row, "without": [], "inherited": [], "removeUnmanaged": False}, cluster) for row in rows
    )
    specs = (replace(specs[0], partitions=5), *specs[1:])
    return Fleet([PlanInput(state, cluster, specs, RunOptions())], RunOptions(), tmp_path)


def test_no_worker_sees_a_row_that_is_equal(spark: SparkSession, quiet: Fleet) -> None:
    """Of a hundred topics only the differing one reaches a Python worker.

    The query plan has no Python before the aggregation.
    """
    found = quiet.there(spark)
    assert len(found.row_results) == 1
    assert [row["class"] for row in found.row_results[0].rows] == ["partitions"]
    known = specs_.make_cluster_groups(quiet.specs(), quiet.frames())
    parts = engine.aggregate_rows(spark, known, engine.select_valid_rows(quiet.lines(spark)), "default")
    assert not re.search("python|arrow|udf", _plan(parts), re.IGNORECASE)


def _plan(frame: DataFrame) -> str:
    """Return Spark's physical plan as text."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
