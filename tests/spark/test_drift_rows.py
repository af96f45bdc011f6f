"""What Spark finds is, row for row, what is found without it, and that is what a plan says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession, types

from support.fleets import TAKEN, asked, described, held, holding
from support.nearly import nearly
from topiarist import schema
from topiarist.adapters.snapshot import Lists, Skimmer, Snapshot, dump, file_name
from topiarist.core.plan import Run, context_of, plan_topic
from topiarist.core.spec import TopicSpec
from topiarist.core.state import ClusterState
from topiarist.drift import columns, sameness, spark_specs, stored
from topiarist.drift import spark as engine
from topiarist.drift.comparing import Comparison, compare
from topiarist.drift.desired_rows import row_of, spec_of
from topiarist.drift.observing import Observation
from topiarist.drift.worker import Frame
from unit.strategies import World, make_world, worlds

RUNS = (Run(), Run(adopt=("*",)), Run(recreate=("*",), take_ownership=("o*",)), Run(owner="k8s/team/release"))


class Fleet:
    """Worlds as the clusters of one fleet, on disk as Spark reads them."""

    def __init__(self, found: Sequence[World], run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.worlds = {f"c{number}": _named(world, f"c{number}") for number, world in enumerate(found)}
        for name, world in self.worlds.items():
            (folder / file_name(name)).write_bytes(b"".join(dump(Snapshot(name, TAKEN, world.state))))

    def here(self) -> dict[str, Comparison]:
        """What each cluster comes to without Spark, and without settling anything before it is planned."""
        seen = {name: Observation(name, TAKEN, world.state) for name, world in self.worlds.items()}
        return {
            name: compare(seen[name], world.cluster, world.specs, self.run, "") for name, world in self.worlds.items()
        }

    def frames(self) -> dict[str, Frame]:
        """What the workers are told of each cluster."""
        heads = {name: (self.folder / file_name(name)).read_bytes().splitlines()[0] for name in self.worlds}
        return {name: engine.frame(world.cluster, json.loads(heads[name])) for name, world in self.worlds.items()}

    def lines(self, spark: SparkSession) -> DataFrame:
        """The snapshots."""
        return engine.lines(spark, [str(self.folder / file_name(name)) for name in self.worlds])

    def specs(self) -> dict[str, tuple[TopicSpec, ...]]:
        """The specs of each cluster."""
        return {name: world.specs for name, world in self.worlds.items()}

    def there(self, spark: SparkSession) -> engine.Found:
        """What they come to with it."""
        return engine.run_job(spark, self.specs(), self.lines(spark), self.frames(), self.run)


def _named(world: World, name: str) -> World:
    cluster = replace(world.cluster, name=name)
    return world._replace(cluster=cluster, specs=tuple(replace(spec, cluster=cluster) for spec in world.specs))


def ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of a report."""
    return sorted(rows, key=lambda row: (row["cluster"], row["topic"], row["class"], row["field"]))


# A job takes a second whatever its size, and a seed that fails makes the same fleet again: many clusters, few examples.
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_both_engines_find_the_same(spark: SparkSession, seed: int, run: Run) -> None:
    """Rows and counts of random fleets, of clusters with everything odd that a cluster can be."""
    with TemporaryDirectory() as folder:
        found = [make_world(seed + number, 1 + number % 10, (0.0, 0.08, 0.25)[number % 3]) for number in range(60)]
        close = [nearly(world, seed + number) for number, world in enumerate(found)]
        fleet = Fleet([*found, *close], run, Path(folder))
        there, wanted = fleet.there(spark), fleet.here()
    rows = [row for done in there.done for row in done.rows]
    assert ordered(rows) == ordered([row for done in wanted.values() for row in done.rows])
    assert len(rows) > 0
    assert sum(totals.in_order for totals in there.totals.values()) > 0
    for name, done in wanted.items():
        totals = there.totals[name]
        assert there.carried[name].load == done.load
        left = [one for one in there.done if one.cluster == name]
        assert totals.present == done.present
        assert totals.in_order + sum(one.in_order for one in left) == done.in_order
        assert totals.unrecorded + sum(one.unrecorded for one in left) == done.unrecorded
        assert totals.left_alone + sum(one.left_alone for one in left) == done.left_alone
        assert totals.rows == len(fleet.worlds[name].state.records) + done.present


@settings(max_examples=300)
@given(worlds())
def test_a_spec_comes_back_from_its_row(world: World) -> None:
    """As JSON, with all that a plan asks of it: the plan is the same."""
    context = context_of(world.state, world.cluster, world.run)
    for spec in world.specs:
        again = spec_of(json.loads(json.dumps(row_of(spec))), world.cluster)
        one, other = (replace(plan_topic(each, context), spec=None) for each in (spec, again))
        assert one == other


@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_what_is_equal_as_stored_is_said_in_one_way(spark: SparkSession, seed: int, run: Run) -> None:
    """Spark's verdict on each row is that of this process, condition by condition; and so it is on records."""
    with TemporaryDirectory() as folder:
        found = [make_world(seed + number, 1 + number % 10, (0.0, 0.08)[number % 2]) for number in range(30)]
        close = [nearly(world, seed + number) for number, world in enumerate(found) for _ in range(3)]
        fleet = Fleet([*found, *close], run, Path(folder))
        rows = engine.joined(spark, spark_specs.sorts(fleet.specs()), engine.topics(fleet.lines(spark)))
        verdicts = rows.where("own and kind = 'topic'").select(
            "cluster", "topic", sameness.equal(run.owner).alias("equal"), sameness.recorded().alias("recorded")
        )
        by_spark = {(row.cluster, row.topic): (row.equal, row.recorded) for row in verdicts.collect()}
        here = {
            (name, row["topic"]): (
                stored.equal(spec, row, _lists(row), run.owner),
                stored.recorded(spec, row),
            )
            for name, world in fleet.worlds.items()
            for row in map(json.loads, list(dump(Snapshot(name, TAKEN, world.state)))[1:])
            for spec in world.specs
            if row["kind"] == "topic" and row["topic"] == spec.topic
        }
    assert by_spark == here
    assert {equal for equal, _ in here.values()} == {True, False}


def _lists(row: dict[str, Any]) -> Lists:
    found = Skimmer().lists(json.dumps(row["replicas"], separators=(",", ":")).encode())
    assert found is not None
    return found


def test_the_schema_is_that_of_snapshots() -> None:
    """Every field of topics and records is a column of its type, and no other is but that for broken lines."""
    definitions = schema.schema("snapshot")["definitions"]
    names = {*definitions["topic"]["properties"], *definitions["record"]["properties"]}
    made = columns.actual()
    assert set(made.names) == names | {columns.CORRUPT}
    assert made["identity"].dataType == types.LongType()
    assert made["replicas"].dataType == types.ArrayType(types.ArrayType(types.IntegerType()))
    assert made["config"].dataType == types.MapType(types.StringType(), types.StringType())
    record = made["record"].dataType
    assert isinstance(record, types.StructType)
    assert set(record.names) == set(definitions["topic"]["properties"]["record"]["properties"])
    assert all(field.nullable for field in made.fields)


@pytest.fixture
def quiet(tmp_path: Path) -> Fleet:
    """A fleet of one cluster with a hundred topics, all but one as asked."""
    described(tmp_path, ["c0"], asked("x", ["c0"]))
    names = [f"t{number}" for number in range(100)]
    state: ClusterState = holding("c0", *(held(name) for name in names))
    world = make_world(1, 1, 0.0)
    body: dict[str, Any] = {
        "partitions": 3,
        "replicationFactor": 2,
        "assignment": None,
        "config": {},
        "ignore": [],
        "absent": False,
    }
    rows = [{**row_of(world.specs[0]), **body, "topic": name, "observe": False} for name in names]
    cluster = replace(world.cluster, default_config={}, protected=())
    specs = tuple(spec_of({**row, "without": [], "inherited": [], "removeUnmanaged": False}, cluster) for row in rows)
    specs = (replace(specs[0], partitions=5), *specs[1:])
    return Fleet([World(state, cluster, specs, Run())], Run(), tmp_path)


def test_no_worker_sees_a_row_that_is_equal(spark: SparkSession, quiet: Fleet) -> None:
    """One of a hundred is told: in the plan no Python stands before the aggregation, and one row comes out of it."""
    found = quiet.there(spark)
    assert len(found.done) == 1
    assert [row["class"] for row in found.done[0].rows] == ["partitions"]
    known = spark_specs.sorts(quiet.specs())
    parts = engine.aggregated(spark, known, engine.topics(quiet.lines(spark)), "default")
    assert not re.search("python|arrow|udf", _plan(parts), re.IGNORECASE)


def _plan(frame: DataFrame) -> str:
    """The physical plan, as Spark has it."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
