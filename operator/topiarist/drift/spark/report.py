"""A report by Spark, from snapshots: the same folder as ``report`` writes, for fleets that one process is slow for.

The driver reads the first row of each file, and nothing else of it. A file that does not have the rows that it should
have is read again in this process, as ``report`` would: what is broken in it is then named by its line.
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
    """As ``report.write``, by Spark."""
    seen = {one.cluster: one for one in reject_duplicate_cluster_ids(_inputs_from_cluster_rows(job, inventory))}
    frames = {
        name: job_.make_cluster_context(job.desired.clusters[name], inventory.cluster_row(name))
        for name, one in seen.items()
        if one.state is not None
    }
    folder.add_final_step(lambda place: outputs.write_parquet(spark, folder, place))
    if not frames:
        return write_report(job, (compare_job_cluster(job, one) for one in seen.values()), folder)
    there = inputs.read_actual_rows(spark, inventory, frames)
    found = job_.run_job(spark, job.desired.specs, there, frames, job.options)
    whole = [name for name, each in sorted(frames.items()) if _is_complete(found.counts[name], each)]
    by_cluster: defaultdict[str, list[RowResult]] = defaultdict(list)
    for done in found.row_results:
        by_cluster[done.cluster].append(done)

    def comparisons() -> Iterator[Comparison]:
        for name, one in seen.items():
            if one.state is None:
                yield compare_job_cluster(job, one)
            elif name in counted:
                yield _make_comparison(job, one, found, by_cluster[name])
            else:
                yield compare_job_cluster(job, inventory.read_cluster(name, EqualTopics()))

    counted = frozenset(whole)
    return write_report(
        job, comparisons(), folder, lambda tally: _add_variants(tally.cross_cluster_index, found, whole)
    )


def _is_complete(counts: ClusterCounts, context: ClusterContext) -> bool:
    """Whether Spark has made rows of all that the snapshot says it has."""
    return counts.rows == context.cluster_row["rows"] and not counts.has_duplicates


def _add_variants(index: CrossClusterIndex, result: SparkResult, complete: Sequence[str]) -> None:
    """Topics as they are on the clusters that were compared; those that are equal to what all ask for at once."""
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
    """Each cluster of the run by the first row of its snapshot: its state is without topics."""
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
    """What Spark found of one cluster, in the form of a comparison."""
    name = cluster_input.cluster
    totals = result.counts[name]
    done = Comparison(cluster_input, len(job.desired.specs[name]), present=totals.present)
    done.rows = sorted(
        (row for one in row_results for row in one.rows), key=lambda row: (row["topic"], row["class"], row["field"])
    )
    done.in_sync = totals.in_sync + sum(one.in_sync for one in row_results)
    done.missing_record = totals.missing_record + sum(one.missing_record for one in row_results)
    done.ignored = totals.ignored + sum(one.ignored for one in row_results)
    if cluster_input.state is not None:
        done.context = make_plan_context(cluster_input.state, job.desired.clusters[name], job.options)
        done.broker_load = result.broker_loads[name].loads
    add_stale_reassignments(done, job.desired.specs[name])
    return done
