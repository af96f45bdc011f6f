"""The physical plan by which Spark drops equal rows of a sample fleet, as JSON: its nodes, and what Python gets."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from pyspark.sql import functions as f  # noqa: E402

from topiarist.adapters.snapshot import read_head  # noqa: E402
from topiarist.cli import inputs  # noqa: E402
from topiarist.drift import spark, spark_local, spark_specs  # noqa: E402
from topiarist.settings import Settings  # noqa: E402


def plan(folder: Path) -> dict[str, Any]:
    """What is found of the fleet below ``folder``."""
    desired = inputs.load(Settings(paths=(str(folder / "manifests"),), snapshot="any", verbosity=-1), ruled=False)
    files = {read_head(path)["cluster"]: path for path in sorted((folder / "snapshots").iterdir())}
    started = spark_local.session()
    spark.prepare(started)
    known = spark_specs.sorts({name: desired.specs[name] for name in files})
    there = spark.topics(spark.lines(started, [str(path) for path in files.values()]))
    parts = spark.aggregated(started, known, there, "default").persist()
    found = parts.agg(
        f.sum("rows").alias("rows"), f.sum("in_order").alias("equal"), f.sum(f.size("differing")).alias("left"),
        f.sum("left_alone").alias("silent"),
    ).first()  # fmt: skip
    assert found is not None
    text = str(spark.aggregated(started, known, there, "default")._jdf.queryExecution().executedPlan().toString())
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
    print(json.dumps(plan(Path(sys.argv[1]))))
