"""A report by Spark, from snapshots: the same folder as ``report`` writes, for fleets that one process is slow for.

The driver reads the first row of each file, and nothing else of it. A file that does not have the rows that it should
have is read again in this process, as ``report`` would: what is broken in it is then named by its line.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from topiarist.adapters.snapshot import state_of
from topiarist.core.plan import context_of
from topiarist.drift import parquet, spark, spark_inputs
from topiarist.drift.comparing import Comparison
from topiarist.drift.desired_rows import row_of, spec_of
from topiarist.drift.observing import Observation, Recorded, without_twins
from topiarist.drift.outputs import Folder
from topiarist.drift.places import address
from topiarist.drift.report import Job, compare_one, settle
from topiarist.drift.settling import Settled
from topiarist.drift.spark import Found, Totals
from topiarist.drift.tally import Tally
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
    found = _found(started, job, recorded, folder, frames) if frames else Found({}, [])
    whole = {name for name, each in frames.items() if found.totals[name].rows == each.head["rows"]}

    def also(tally: Tally) -> None:
        for name in sorted(whole):
            tally.add_load(name, found.loads[name], state_of(frames[name].head, []))
        for name, desired, actual in found.unlike:
            if name in whole:
                topics = state_of(frames[name].head, [actual]).topics
                tally.add_shape(name, spec_of(desired, frames[name].cluster), topics[actual["topic"]])

    return settle(job, _comparisons(job, recorded, seen, whole, found), folder, also)


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


def _found(started: SparkSession, job: Job, recorded: Recorded, folder: Folder, frames: Mapping[str, Frame]) -> Found:
    desired = folder.work("desired.jsonl")
    with desired.open("w", encoding="utf-8") as file:
        for name in frames:
            file.writelines(json.dumps(row_of(spec)) + "\n" for spec in job.desired.specs[name])
    there = spark_inputs.there(started, recorded, frames)
    return spark.run_job(started, address(folder.shared(desired)), there, frames, job.run)


def _comparisons(
    job: Job, recorded: Recorded, seen: Mapping[str, Observation], whole: Collection[str], found: Found
) -> Iterator[Comparison]:
    by_cluster: defaultdict[str, list[Done]] = defaultdict(list)
    for done in found.done:
        by_cluster[done.cluster].append(done)
    for name, one in seen.items():
        if one.state is None:
            yield compare_one(job, one)
        elif name not in whole:
            yield compare_one(job, recorded.observed(name, Settled()))
        else:
            yield _comparison(job, one, found.totals[name], by_cluster[name])


def _comparison(job: Job, seen: Observation, totals: Totals, left: list[Done]) -> Comparison:
    """What Spark found of one cluster, in the form of a comparison."""
    name = seen.cluster
    done = Comparison(seen, len(job.desired.specs[name]), present=totals.present)
    done.rows = sorted(
        (row for one in left for row in one.rows), key=lambda row: (row["topic"], row["class"], row["field"])
    )
    done.in_order = totals.in_order + sum(one.in_order for one in left)
    done.unrecorded = totals.unrecorded + sum(one.unrecorded for one in left)
    done.left_alone = totals.left_alone + sum(one.left_alone for one in left)
    if seen.state is not None:
        done.context = context_of(seen.state, job.desired.clusters[name], job.run)
    return done
