"""The Spark engine of a drift report: the same folder as ``drift.report`` writes, for fleets too large for one process.

``cli.commands.drift`` creates it if Spark is selected. It runs ``drift.spark.job`` and translates all Spark errors.
Paths that do not need Spark are passed to the base class. The driver reads only the first row of each snapshot. A
snapshot without all the rows that its first row announces is read again in this process, as ``drift.report`` does, so
that errors name the line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from topiarist.adapters.snapshots.codec import decode_state
from topiarist.drift.compare import Comparison, TopicCounts, complete_rows
from topiarist.drift.cross_cluster import CrossClusterIndex, make_variant_equal_to_spec, make_variant_of_size
from topiarist.drift.engine import Engine
from topiarist.drift.equality import EqualTopics
from topiarist.drift.history import PreviousReport
from topiarist.drift.live import ConnectOptions
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder
from topiarist.drift.report import ReportJob, compare_job_cluster, write_report
from topiarist.drift.snapshots import ClusterInput, SnapshotInventory, reject_duplicate_cluster_ids
from topiarist.drift.spark import inputs, outputs, session
from topiarist.drift.spark import job as job_
from topiarist.drift.spark.errors import translate_errors
from topiarist.drift.spark.filesystem import Storage
from topiarist.drift.spark.inputs import LiveInventory, SparkSnapshotInventory
from topiarist.drift.spark.job import SparkResult
from topiarist.drift.spark.worker import RowResult
from topiarist.drift.uris import is_remote, spark_required_reason
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import make_plan_context


class SparkEngine(Engine):
    """The engine that runs on the Spark session of this process; ``quiet`` disables progress bars."""

    def __init__(self, *, quiet: bool = False) -> None:
        with translate_errors():
            self._spark = session.start_session(quiet=quiet)
            self._storage = Storage(self._spark)

    def exists(self, path: str) -> bool:
        """Return whether a path or URI is a file or a non-empty folder."""
        return bool(self._storage.list_names(path)) if is_remote(path) else super().exists(path)

    def load_previous(self, path: str) -> PreviousReport:
        """Read an earlier report."""
        return outputs.load_previous(self._storage, path) if is_remote(path) else super().load_previous(path)

    def open_snapshots(self, paths: Sequence[str], clusters: Mapping[str, ClusterSpec]) -> SnapshotInventory:
        """Open the snapshots at some paths or URIs, files or Parquet tables."""
        if not any(map(spark_required_reason, paths)):
            return super().open_snapshots(paths, clusters)
        with translate_errors():
            return SparkSnapshotInventory(self._spark, paths, clusters)

    def read_live(
        self, clusters: Mapping[str, ClusterSpec], connect_options: ConnectOptions, folder: ReportFolder
    ) -> SnapshotInventory | None:
        """Read live clusters with the executors; the rows are stored in the work folder of ``folder``."""
        with translate_errors():
            return LiveInventory(self._spark, clusters, connect_options, f"{folder.staging_path}/{WORK_FOLDER}")

    def create_report_folder(self, path: str) -> ReportFolder:
        """Create the staging folder of the report."""
        return (
            outputs.RemoteReportFolder(self._storage, path) if is_remote(path) else super().create_report_folder(path)
        )

    def compare_and_write(self, job: ReportJob, inventory: SnapshotInventory, folder: ReportFolder) -> dict[str, Any]:
        """Compare the clusters of an inventory by Spark, write the report, and return its summary."""
        with translate_errors():
            folder.add_final_step(lambda place: outputs.write_parquet(self._spark, folder, place))
            cluster_inputs = [*reject_duplicate_cluster_ids(_inputs_from_cluster_rows(job, inventory))]
            readable = {one.cluster for one in cluster_inputs if one.state is not None}
            if not readable:
                return write_report(job, (compare_job_cluster(job, one) for one in cluster_inputs), folder)
            clusters = {name: (job.desired.clusters[name], inventory.cluster_row(name)) for name in sorted(readable)}
            actual_rows = inputs.read_actual_rows(self._spark, inventory, clusters)
            contexts = {name: job_.make_cluster_context(*each) for name, each in clusters.items()}
            result = job_.run_job(self._spark, job.desired.specs, actual_rows, contexts, job.options)
            complete = [
                name
                for name, (_, cluster_row) in clusters.items()
                if result.counts[name].rows == cluster_row["rows"] and not result.counts[name].has_duplicates
            ]
            comparisons = _make_comparisons(job, inventory, cluster_inputs, result, frozenset(complete))
            return write_report(job, comparisons, folder, lambda index: _add_variants(index, result, complete))


def _inputs_from_cluster_rows(job: ReportJob, inventory: SnapshotInventory) -> Iterator[ClusterInput]:
    """Yield each cluster of the run from the first row of its snapshot, with a state without topics."""
    for name in sorted(job.desired.clusters):
        if name not in inventory.files:
            yield inventory.read_cluster(name, EqualTopics())
            continue
        taken, _ = inventory.files[name]
        state = decode_state(inventory.cluster_row(name), [])
        problem = inventory.identity_problem(name, state)
        yield ClusterInput(name, taken, None if problem else state, problem)


def _make_comparisons(
    job: ReportJob,
    inventory: SnapshotInventory,
    cluster_inputs: Sequence[ClusterInput],
    result: SparkResult,
    complete: Collection[str],
) -> Iterator[Comparison]:
    """Yield the comparison of each cluster; ``complete`` are the clusters that Spark has compared."""
    row_results: defaultdict[str, list[RowResult]] = defaultdict(list)
    for one in result.row_results:
        row_results[one.cluster].append(one)
    for cluster_input in cluster_inputs:
        name, state = cluster_input.cluster, cluster_input.state
        if state is None:
            yield compare_job_cluster(job, cluster_input)
        elif name not in complete:
            # Spark has not read all rows: the reader of this process reports each invalid row by its line.
            yield compare_job_cluster(job, inventory.read_cluster(name, EqualTopics()))
        else:
            comparison = Comparison(cluster_input, TopicCounts(), broker_load=result.broker_loads[name].loads)
            comparison.context = make_plan_context(state, job.desired.clusters[name], job.options)
            comparison.counts.add(result.counts[name].topics)
            for one in row_results[name]:
                comparison.counts.add(one.counts)
                comparison.rows.extend(one.rows)
            complete_rows(comparison, job.desired.specs[name])
            yield comparison


def _add_variants(index: CrossClusterIndex, result: SparkResult, complete: Sequence[str]) -> None:
    """Add the topic variants of the compared clusters to the index.

    Topics that are equal to shared specs are added once for all clusters of a group.
    """
    groups = result.cluster_groups
    names_by_group: defaultdict[int, list[str]] = defaultdict(list)
    for name in complete:
        names_by_group[groups.group_of[name]].append(name)
        for number, partitions, factors in result.counts[name].equal_sizes:
            index.add_variants(name, [make_variant_of_size(groups.specs_of(name)[number], partitions, factors)])
    differing: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    compared = frozenset(complete)
    for one in result.row_results:
        if one.declared_topic and one.cluster in compared:
            differing[groups.group_of[one.cluster], one.declared_topic].add(one.cluster)
            index.add_variants(one.cluster, [one.variant] if one.variant else [])
    for group, names in names_by_group.items():
        for spec in groups.specs[group]:
            if variant := make_variant_equal_to_spec(spec):
                others = differing[group, spec.topic]
                index.add_shared_variant(variant, [name for name in names if name not in others] if others else names)
