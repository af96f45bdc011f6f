"""Spark's physical plan to drop equal rows of a sample fleet, as JSON: its nodes, and the rows left for Python."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from topiarist.adapters.snapshots.files import read_first_row
from topiarist.cli import load
from topiarist.cli.settings import Settings
from topiarist.drift.spark import job, session, specs


def inspect_plan(folder: Path) -> dict[str, Any]:
    """Return the plan and the counts of rows for the fleet below ``folder``."""
    desired = load.load_manifests(
        Settings(paths=(str(folder / "manifests"),), snapshot="any", verbosity=-1), with_policies=False
    ).desired
    files = {read_first_row(path)["cluster"]: path for path in sorted((folder / "snapshots").iterdir())}
    started = session.create_local_session()
    job.configure_session(started)
    contexts = {
        name: job.make_cluster_context(desired.clusters[name], read_first_row(path)) for name, path in files.items()
    }
    known = specs.make_cluster_groups(desired.specs, contexts)
    there = job.select_valid_rows(job.read_json_lines(started, [str(path) for path in files.values()]))
    parts = job.aggregate_rows(started, known, there, "default").persist()
    found = parts.agg(
        f.sum("rows").alias("rows"), f.sum("in_sync").alias("equal"), f.sum(f.size("differing")).alias("left"),
        f.sum("ignored").alias("silent"),
    ).first()  # fmt: skip
    assert found is not None
    text = str(job.aggregate_rows(started, known, there, "default")._jdf.queryExecution().executedPlan().toString())
    started.stop()
    return {
        "python": bool(re.search("python|arrow|udf", text, re.IGNORECASE)),
        "nodes": re.findall(r"^[ :+*()0-9-]*([A-Z]\w+)", text, re.MULTILINE),
        "rows": found["rows"],
        "rows_equal": found["equal"],
        "rows_for_python": found["left"],
        "rows_that_differ": found["rows"] - found["equal"] - found["silent"],
    }


if __name__ == "__main__":
    print(json.dumps(inspect_plan(Path(sys.argv[1]))))
