"""Random fleets by all runners: one process, a pool of processes, and Spark write the same report, to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pyspark.sql import types

from support.drift.near_equal_clusters import make_near_equal
from support.drift.small_fleet import SNAPSHOT_TIME, read_rows, read_summary
from support.examples import scaled
from support.strategies import PlanInput, make_plan_input
from topiarist.adapters.manifests.source import Document, File
from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
from topiarist.desired.resolve import Desired
from topiarist.desired.shared_specs import ClusterTopicSpecs, SpecGroup
from topiarist.drift.history import PreviousReport
from topiarist.drift.report import Engine, LocalEngine, ReportJob
from topiarist.drift.snapshots import SnapshotInventory
from topiarist.drift.spark import outputs
from topiarist.drift.spark.engine import SparkEngine
from topiarist.drift.task import Shipped
from topiarist.model.moves import BatchRecord, MoveKind, MoveSettings, ReplicaMove, RequestedReassignment
from topiarist.model.plan import RunOptions
from topiarist.model.spec import TopicSpec
from topiarist.schema import load

RUNS = (
    RunOptions(),
    RunOptions(adopt=("*",)),
    RunOptions(recreate=("*",), take_ownership=("o*",)),
    RunOptions(owner="k8s/team/release"),
)

SOURCE = Document(File("topics.yaml", b"spec:\n  partitions: 3\n"), 0, 22, 0)
"""The document of every manifest; it has lines to find, and survives the way to an executor."""


class Fleet:
    """Generated plan inputs as the clusters of one fleet, with snapshots on disk."""

    def __init__(self, found: Sequence[PlanInput], run: RunOptions, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._worlds = {f"c{number}": _named(world, f"c{number}") for number, world in enumerate(found)}
        (folder / "snapshots").mkdir()
        for name, world in self._worlds.items():
            lines = dump_snapshot(Snapshot(name, SNAPSHOT_TIME, world.state))
            (folder / "snapshots" / file_name(name)).write_bytes(b"".join(lines))

    def report(self, engine: Engine, name: str) -> dict[str, bytes]:
        """Return the files of the report of an engine, except Parquet."""
        desired = Desired(
            {name: _specs(world) for name, world in self._worlds.items()},
            {name: world.cluster for name, world in self._worlds.items()},
        )
        inventory = SnapshotInventory([str(self._folder / "snapshots")], desired.clusters, SNAPSHOT_TIME)
        shipped = Shipped(desired, self._run, format_time(SNAPSHOT_TIME))
        job = ReportJob(shipped, PreviousReport(), inventory.unused_input)
        out = self._folder / name
        with engine.create_report_folder(str(out)) as folder:
            engine.compare(job, inventory, folder)
        return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

    def require_equality(self) -> None:
        """Assert that all runners write the same report."""
        pool = LocalEngine()
        pool.jobs = 2
        here = self.report(LocalEngine(), "here")
        assert self.report(pool, "pool") == here
        assert self.report(SparkEngine("a test"), "spark") == here


def _named(world: PlanInput, name: str) -> PlanInput:
    cluster = replace(world.cluster, name=name, cluster_id=name, source=SOURCE)
    specs = (
        replace(spec, cluster=cluster, manifest=spec.manifest._replace(source=SOURCE))
        for spec in sorted(world.specs, key=lambda spec: spec.topic)
    )
    return world._replace(cluster=cluster, specs=tuple(specs), state=replace(world.state, cluster_id=name))


def _specs(world: PlanInput) -> Sequence[TopicSpec]:
    """Return the specs as a group of two clusters: the other one does not exist."""
    return ClusterTopicSpecs((SpecGroup((world.cluster.name, "other"), False, [*world.specs]),), world.cluster)


# A job takes seconds at any size, and a failing seed reproduces its fleet: many clusters, few examples.
@pytest.mark.usefixtures("spark")
@settings(max_examples=scaled(4), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40), st.sampled_from(RUNS))
def test_all_runners_find_the_same(seed: int, run: RunOptions) -> None:
    """All runners write the same report for random fleets with all unusual states of clusters."""
    with TemporaryDirectory() as folder:
        found = [make_plan_input(seed + number, 1 + number % 10, (0.0, 0.08, 0.25)[number % 3]) for number in range(60)]
        close = [make_near_equal(world, seed + number) for number, world in enumerate(found)]
        Fleet([*found, *close], run, Path(folder)).require_equality()
        assert read_rows(Path(folder, "spark"))
        assert read_summary(Path(folder, "spark"))["topics"]["inSync"] > 0


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


@pytest.mark.usefixtures("spark")
@settings(max_examples=scaled(2), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 1 << 40))
def test_all_runners_find_the_same_moves(seed: int) -> None:
    """All runners write the same report for clusters with reassignments, drained and excluded brokers."""
    with TemporaryDirectory() as folder:
        found = [make_plan_input(seed + number, 1 + number % 10, (0.0, 0.08, 0.25)[number % 3]) for number in range(40)]
        close = [make_near_equal(world, seed + number) for number, world in enumerate(found)]
        worlds = [_with_reassignments(world, seed + number) for number, world in enumerate([*found, *close])]
        Fleet(worlds, RunOptions(), Path(folder)).require_equality()
        rows = read_rows(Path(folder, "spark"))
    assert {"moving", "stuck", "racks", "spread", "drained"} <= {row["class"] for row in rows}


def test_the_schema_is_that_of_snapshots() -> None:
    """The row type has a column of the right type for every field of snapshots; fields of two types are text."""
    definitions = load.load_schema("snapshot")["definitions"]
    made = outputs.snapshot_row_type()
    assert set(made.names) == {name for kind in outputs.ROW_KINDS for name in definitions[kind]["properties"]}
    assert made["identity"].dataType == types.StringType()
    assert made["replicas"].dataType == types.ArrayType(types.ArrayType(types.IntegerType()))
    assert made["config"].dataType == types.MapType(types.StringType(), types.StringType())
    assert made["reassigning"].dataType == types.StringType()
    record = made["record"].dataType
    assert isinstance(record, types.StructType)
    assert set(record.names) == set(definitions["topic"]["properties"]["record"]["properties"])
    assert all(field.nullable for field in made.fields)
