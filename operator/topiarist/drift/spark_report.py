"""A report by Spark, from snapshots: the same folder as ``report`` writes, for fleets that one process is slow for.

The driver reads the first row of each file, and nothing else of it. A file that does not have the rows that it should
have is read again in this process, as ``report`` would: what is broken in it is then named by its line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from topiarist.adapters.snapshot import state_of
from topiarist.core.plan import context_of
from topiarist.drift import parquet, spark, spark_inputs
from topiarist.drift.comparing import Comparison, add_stale_requests
from topiarist.drift.observing import Observation, Recorded, without_twins
from topiarist.drift.outputs import Folder
from topiarist.drift.report import Job, compare_one, settle
from topiarist.drift.settling import Settled
from topiarist.drift.spark import Found, Totals
from topiarist.drift.unevenness import Fleet, as_asked, sized
from topiarist.drift.worker import Done, Frame


def write(started: SparkSession, job: Job, recorded: Recorded, folder: Folder) -> dict[str, Any]:
    """As ``report.write``, by Spark."""
    seen = {one.cluster: one for one in without_twins(_heads(job, recorded))}
    frames = {
        name: spark.frame(job.desired.clusters[name], recorded.head(name))
        for name, one in seen.items()
        if one.state is not None
    }
    folder.at_end(lambda place: parquet.write(started, folder, place))
    if not frames:
        return settle(job, (compare_one(job, one) for one in seen.values()), folder)
    there = spark_inputs.there(started, recorded, frames)
    found = spark.run_job(started, job.desired.specs, there, frames, job.run)
    whole = [name for name, each in sorted(frames.items()) if _is_whole(found.totals[name], each)]
    by_cluster: defaultdict[str, list[Done]] = defaultdict(list)
    for done in found.done:
        by_cluster[done.cluster].append(done)

    def comparisons() -> Iterator[Comparison]:
        for name, one in seen.items():
            if one.state is None:
                yield compare_one(job, one)
            elif name in counted:
                yield _comparison(job, one, found, by_cluster[name])
            else:
                yield compare_one(job, recorded.observed(name, Settled()))

    counted = frozenset(whole)
    return settle(job, comparisons(), folder, lambda tally: _sightings(tally.fleet, found, whole))


def _is_whole(totals: Totals, frame: Frame) -> bool:
    """Whether Spark has made rows of all that the snapshot says it has."""
    return totals.rows == frame.head["rows"] and not totals.doubled


def _sightings(fleet: Fleet, found: Found, whole: Sequence[str]) -> None:
    """Topics as they are on the clusters that were compared; those that are equal to what all ask for at once."""
    others: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    by_sort: defaultdict[int, list[str]] = defaultdict(list)
    for name in whole:
        by_sort[found.sorts.of[name]].append(name)
        for number, partitions, widths in found.totals[name].sized:
            fleet.note(name, [sized(found.sorts.declared(name)[number], partitions, widths)])
    counted = frozenset(whole)
    for done in found.done:
        if done.declared and done.cluster in counted:
            others[found.sorts.of[done.cluster], done.declared].add(done.cluster)
            fleet.note(done.cluster, [done.seen] if done.seen else [])
    for sort, names in by_sort.items():
        for spec in found.sorts.specs[sort]:
            if one := as_asked(spec):
                but = others[sort, spec.topic]
                fleet.note_all(one, [name for name in names if name not in but] if but else names)


def _heads(job: Job, recorded: Recorded) -> Iterator[Observation]:
    """Each cluster of the run by the first row of its snapshot: its state is without topics."""
    for name in sorted(job.desired.clusters):
        if name not in recorded.files:
            yield recorded.observed(name, Settled())
            continue
        taken, _ = recorded.files[name]
        state = state_of(recorded.head(name), [])
        problem = recorded.mistaken(name, state)
        yield Observation(name, taken, None if problem else state, problem)


def _comparison(job: Job, seen: Observation, found: Found, left: Sequence[Done]) -> Comparison:
    """What Spark found of one cluster, in the form of a comparison."""
    name = seen.cluster
    totals = found.totals[name]
    done = Comparison(seen, len(job.desired.specs[name]), present=totals.present)
    done.rows = sorted(
        (row for one in left for row in one.rows), key=lambda row: (row["topic"], row["class"], row["field"])
    )
    done.in_order = totals.in_order + sum(one.in_order for one in left)
    done.unrecorded = totals.unrecorded + sum(one.unrecorded for one in left)
    done.left_alone = totals.left_alone + sum(one.left_alone for one in left)
    if seen.state is not None:
        done.context = context_of(seen.state, job.desired.clusters[name], job.run)
        done.load = found.carried[name].load
    add_stale_requests(done, job.desired.specs[name])
    return done
