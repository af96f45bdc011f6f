"""A drift report in this process: compares one cluster after the other and writes findings to disk.

``drift.engine.LocalEngine`` calls it, for fleets that one process can read. ``drift.spark.engine`` compares larger
fleets and shares ``write_report``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from topiarist.desired.resolve import Desired
from topiarist.drift.compare import Comparison, compare_cluster
from topiarist.drift.cross_cluster import CrossClusterIndex
from topiarist.drift.history import PreviousReport
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.snapshots import ClusterInput, UnusedInput, reject_duplicate_cluster_ids
from topiarist.drift.summary import SummaryBuilder
from topiarist.model.run_options import RunOptions


@dataclass(frozen=True, slots=True)
class ReportJob:
    """The inputs of a report that do not depend on the engine: specs, options, previous report.

    ``as_of`` is the time of the report. ``on_cluster_done`` is called once for each cluster.
    """

    desired: Desired
    options: RunOptions
    as_of: str
    previous: PreviousReport
    unused_input: UnusedInput
    on_cluster_done: Callable[[], None] = field(default=lambda: None)


def compare_and_write(job: ReportJob, cluster_inputs: Iterable[ClusterInput], folder: ReportFolder) -> dict[str, Any]:
    """Compare all clusters, write the report, and return its summary.

    ``cluster_inputs`` are all clusters of the run in order of name. Raises ``TopiaristError`` (Unwritable); then no
    report is written.
    """
    distinct = reject_duplicate_cluster_ids(cluster_inputs)
    return write_report(job, (compare_job_cluster(job, one) for one in distinct), folder)


def compare_job_cluster(job: ReportJob, cluster_input: ClusterInput) -> Comparison:
    """Return the comparison of one cluster of a job."""
    name, desired = cluster_input.cluster, job.desired
    return compare_cluster(cluster_input, desired.clusters[name], desired.specs[name], job.options, job.as_of)


def write_report(
    job: ReportJob,
    comparisons: Iterable[Comparison],
    folder: ReportFolder,
    add_cross_cluster: Callable[[CrossClusterIndex], None] = lambda index: None,
) -> dict[str, Any]:
    """Write the report of all comparisons, in order of cluster name, and return its summary.

    ``add_cross_cluster`` adds topic variants that the caller has compared elsewhere.
    """
    builder = SummaryBuilder(job.as_of, job.options.owner)
    for comparison in comparisons:
        job.previous.match_findings(comparison.cluster_input.cluster, comparison.rows)
        folder.add_rows(comparison.rows)
        builder.add(comparison)
        job.on_cluster_done()
    add_cross_cluster(builder.cross_cluster_index)
    summary = builder.build(job.previous, job.unused_input)
    folder.commit(summary, job.previous.not_evaluated, job.unused_input.invalid_rows)
    return summary
