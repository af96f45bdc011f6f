"""The compare stage of Spark alone, twice in one session: the first pass is cold, the second has warm workers.

``spark-submit`` runs it with the manifests, the snapshots, and a folder. It prints the seconds of both passes as JSON.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from topiarist.adapters.snapshots.codec import format_time
from topiarist.cli.terminal import Settings
from topiarist.drift.history import PreviousReport
from topiarist.drift.outputs.folder import ReportFolder
from topiarist.drift.report import ReportJob, make_parts, sources_of
from topiarist.drift.snapshots import SnapshotInventory
from topiarist.drift.spark import engine, session
from topiarist.drift.spark.engine import SparkJob
from topiarist.drift.task import Shipped
from topiarist.runs.inputs import load_manifests


def measure_passes(manifests: str, snapshots: str, folder: str) -> dict[str, Any]:
    """Return the seconds of a cold and a warm pass over a fleet."""
    from time import perf_counter

    settings = Settings(paths=(manifests,), snapshot=snapshots, verbosity=-1)
    desired = load_manifests(settings, with_policies=False).desired
    spark = session.start_session(quiet=True)
    inventory = SnapshotInventory([snapshots], desired.clusters, datetime.now(UTC))
    taken_at = inventory.newest_taken_at
    assert taken_at
    shipped = Shipped(desired, settings.run_options, format_time(taken_at))
    job = ReportJob(shipped, PreviousReport(), inventory.unused_input)
    with ReportFolder(f"{folder}/report") as staging:
        compared = SparkJob(spark, job, staging)
        parts = [*make_parts(job, sources_of(job, inventory))]
        seconds = {}
        for name in ("cold", "warm"):
            start = perf_counter()
            rows = compared.compare(engine.distribute_parts(spark, inventory, parts)).count()
            seconds[name] = round(perf_counter() - start, 2)
    spark.stop()
    return {"topics": inventory.count_rows(), "rows": rows, **seconds}


if __name__ == "__main__":
    print(json.dumps(measure_passes(*sys.argv[1:])))
