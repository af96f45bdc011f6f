"""A whole report in this process: clusters come by one after the other, and only their findings are kept on disk.

For fleets that one process can look at; ``spark`` does the same for larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from topiarist.desired.resolve import Desired
from topiarist.drift.compare import Comparison, compare_cluster
from topiarist.drift.history import PreviousReport
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.snapshots import ClusterInput, UnusedInput, reject_duplicate_cluster_ids
from topiarist.drift.summary import SummaryBuilder
from topiarist.model.run_options import RunOptions


@dataclass(frozen=True, slots=True)
class ReportJob:
    """What a report is about: the specs of each cluster, as whom, and where to.

    ``as_of`` is the report's time. ``step`` is called once for each cluster.
    """

    desired: Desired
    options: RunOptions
    as_of: str
    previous: PreviousReport
    unused_input: UnusedInput
    on_cluster_done: Callable[[], None] = field(default=lambda: None)


def compare_and_write(job: ReportJob, cluster_inputs: Iterable[ClusterInput], folder: ReportFolder) -> dict[str, Any]:
    """Compare, write and put in place; ``cluster_inputs`` are all clusters of the run in order of name.

    Gives the summary. Raises ``TopiaristError`` (Unwritable), and then there is no report.
    """
    return write_report(
        job, (compare_job_cluster(job, seen) for seen in reject_duplicate_cluster_ids(cluster_inputs)), folder
    )


def compare_job_cluster(job: ReportJob, cluster_input: ClusterInput) -> Comparison:
    """One cluster of a job."""
    return compare_cluster(
        cluster_input,
        job.desired.clusters[cluster_input.cluster],
        job.desired.specs[cluster_input.cluster],
        job.options,
        job.as_of,
    )


def write_report(
    job: ReportJob,
    comparisons: Iterable[Comparison],
    folder: ReportFolder,
    add_cross_cluster: Callable[[SummaryBuilder], None] = lambda tally: None,
) -> dict[str, Any]:
    """Write what came of all clusters, in order of name, however they were compared; gives the summary.

    ``add_cross_cluster`` adds what was found of the fleet as a whole elsewhere.
    """
    tally = SummaryBuilder(job.as_of, job.options.owner)
    for done in comparisons:
        name = done.cluster_input.cluster
        job.previous.match_findings(name, done.rows)
        folder.add_rows(done.rows)
        tally.add(done)
        job.on_cluster_done()
    add_cross_cluster(tally)
    summary = tally.build(job.previous, job.unused_input)
    folder.commit(summary, job.previous.not_evaluated, job.unused_input.invalid_rows)
    return summary
