"""A drift report by Spark: the same folder as ``drift.report`` writes, for fleets that are too slow in one process.

``drift.spark.engine`` calls it, and it runs ``drift.spark.job``. The driver reads only the first row of each snapshot.
A snapshot without all the rows that its first row announces is read again in this process, as ``drift.report`` does, so
that errors name the line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from topiarist.adapters.snapshots.codec import decode_state
from topiarist.drift.compare import Comparison, add_stale_reassignments
from topiarist.drift.cross_cluster import CrossClusterIndex, make_variant_equal_to_spec, make_variant_of_size
from topiarist.drift.equality import EqualTopics
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.report import ReportJob, compare_job_cluster, write_report
from topiarist.drift.snapshots import ClusterInput, SnapshotInventory, reject_duplicate_cluster_ids
from topiarist.drift.spark import inputs, outputs
from topiarist.drift.spark import job as job_
from topiarist.drift.spark.job import ClusterCounts, SparkResult
from topiarist.drift.spark.worker import ClusterContext, RowResult
from topiarist.planning.planner import make_plan_context


def compare_and_write(
    spark: SparkSession, job: ReportJob, inventory: SnapshotInventory, folder: ReportFolder
) -> dict[str, Any]:
    """Compare by Spark, write the report, and return its summary, as ``drift.report.compare_and_write`` does."""
    cluster_inputs = {
        one.cluster: one for one in reject_duplicate_cluster_ids(_inputs_from_cluster_rows(job, inventory))
    }
    contexts = {
        name: job_.make_cluster_context(job.desired.clusters[name], inventory.cluster_row(name))
        for name, one in cluster_inputs.items()
        if one.state is not None
    }
    folder.add_final_step(lambda place: outputs.write_parquet(spark, folder, place))
    if not contexts:
        return write_report(job, (compare_job_cluster(job, one) for one in cluster_inputs.values()), folder)
    actual_rows = inputs.read_actual_rows(spark, inventory, contexts)
    result = job_.run_job(spark, job.desired.specs, actual_rows, contexts, job.options)
    complete = [name for name, each in sorted(contexts.items()) if _is_complete(result.counts[name], each)]
    by_cluster: defaultdict[str, list[RowResult]] = defaultdict(list)
    for done in result.row_results:
        by_cluster[done.cluster].append(done)

    def comparisons() -> Iterator[Comparison]:
        for name, one in cluster_inputs.items():
            if one.state is None:
                yield compare_job_cluster(job, one)
            elif name in counted:
                yield _make_comparison(job, one, result, by_cluster[name])
            else:
                # Spark has not read all rows: the reader of this process reports each invalid row by its line.
                yield compare_job_cluster(job, inventory.read_cluster(name, EqualTopics()))

    counted = frozenset(complete)
    return write_report(
        job, comparisons(), folder, lambda tally: _add_variants(tally.cross_cluster_index, result, complete)
    )


def _is_complete(counts: ClusterCounts, context: ClusterContext) -> bool:
    """Return whether Spark has read all rows that the snapshot announces, without duplicates."""
    return counts.rows == context.cluster_row["rows"] and not counts.has_duplicates


def _add_variants(index: CrossClusterIndex, result: SparkResult, complete: Sequence[str]) -> None:
    """Add the topic variants of the compared clusters to the index.

    Topics that are equal to shared specs are added once for all clusters of a group.
    """
    others: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    by_sort: defaultdict[int, list[str]] = defaultdict(list)
    for name in complete:
        by_sort[result.cluster_groups.group_of[name]].append(name)
        for number, partitions, widths in result.counts[name].equal_sizes:
            index.add_variants(
                name, [make_variant_of_size(result.cluster_groups.specs_of(name)[number], partitions, widths)]
            )
    counted = frozenset(complete)
    for done in result.row_results:
        if done.declared_topic and done.cluster in counted:
            others[result.cluster_groups.group_of[done.cluster], done.declared_topic].add(done.cluster)
            index.add_variants(done.cluster, [done.variant] if done.variant else [])
    for sort, names in by_sort.items():
        for spec in result.cluster_groups.specs[sort]:
            if one := make_variant_equal_to_spec(spec):
                but = others[sort, spec.topic]
                index.add_shared_variant(one, [name for name in names if name not in but] if but else names)


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


def _make_comparison(
    job: ReportJob, cluster_input: ClusterInput, result: SparkResult, row_results: Sequence[RowResult]
) -> Comparison:
    """Return the Spark result of one cluster as a ``Comparison``."""
    name = cluster_input.cluster
    totals = result.counts[name]
    comparison = Comparison(cluster_input, len(job.desired.specs[name]), present=totals.present)
    comparison.rows = sorted(
        (row for one in row_results for row in one.rows), key=lambda row: (row["topic"], row["class"], row["field"])
    )
    comparison.in_sync = totals.in_sync + sum(one.in_sync for one in row_results)
    comparison.missing_record = totals.missing_record + sum(one.missing_record for one in row_results)
    comparison.ignored = totals.ignored + sum(one.ignored for one in row_results)
    if cluster_input.state is not None:
        comparison.context = make_plan_context(cluster_input.state, job.desired.clusters[name], job.options)
        comparison.broker_load = result.broker_loads[name].loads
    add_stale_reassignments(comparison, job.desired.specs[name])
    return comparison
