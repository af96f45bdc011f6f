"""A whole report in this process: clusters come by one after the other, and only their findings are kept on disk.

For fleets that one process can look at; ``spark`` does the same for larger ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from topiarist.core.plan import Run
from topiarist.desired import Desired
from topiarist.drift.comparing import Comparison, compare
from topiarist.drift.history import Previous
from topiarist.drift.observing import Inputs, Observation, without_twins
from topiarist.drift.outputs import Folder
from topiarist.drift.tally import Tally


@dataclass(frozen=True, slots=True)
class Job:
    """What a report is about: the specs of each cluster, as whom, and where to.

    ``as_of`` is the report's time. ``step`` is called once for each cluster.
    """

    desired: Desired
    run: Run
    as_of: str
    previous: Previous
    inputs: Inputs
    step: Callable[[], None] = field(default=lambda: None)


def write(job: Job, observations: Iterable[Observation], folder: Folder) -> dict[str, Any]:
    """Compare, write and put in place; ``observations`` are all clusters of the run in order of name.

    Gives the summary. Raises ``TopiaristError`` (Unwritable), and then there is no report.
    """
    return settle(job, (compare_one(job, seen) for seen in without_twins(observations)), folder)


def compare_one(job: Job, seen: Observation) -> Comparison:
    """One cluster of a job."""
    return compare(seen, job.desired.clusters[seen.cluster], job.desired.specs[seen.cluster], job.run, job.as_of)


def settle(
    job: Job, comparisons: Iterable[Comparison], folder: Folder, also: Callable[[Tally], None] = lambda tally: None
) -> dict[str, Any]:
    """Write what came of all clusters, in order of name, however they were compared; gives the summary.

    ``also`` adds what was found of the fleet as a whole elsewhere.
    """
    tally = Tally(job.as_of, job.run.owner)
    for done in comparisons:
        name = done.observation.cluster
        job.previous.settle(name, done.rows)
        folder.add(done.rows)
        tally.add(done)
        job.step()
    also(tally)
    summary = tally.summary(job.previous, job.inputs)
    folder.commit(summary, job.previous.unseen, job.inputs.broken)
    return summary
