"""``topiarist drift --history`` with Spark: the tables that runs without Spark write, and the documented queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from support.drift.documented_queries import ANSWERS, read_queries, read_views, write_history
from support.drift.small_fleet import read_rows, read_summary, run_drift


def read_tables(history: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each file of a history by its path, in one order, without the paths of manifests."""
    found = {}
    for file in sorted(history.rglob("*.parquet")):
        rows = [row | {"file": None} for row in pq.ParquetFile(file).read().to_pylist()]
        for row in rows:
            if "command" in row:
                row["command"] = row["command"].replace(str(history.parent), "")
        found[str(file.relative_to(history))] = sorted(
            rows, key=lambda row: (row.get("cluster", ""), row.get("class", ""))
        )
    return found


def test_spark_continues_a_history(spark: SparkSession, tmp_path: Path) -> None:
    """A run by Spark reads and writes the same history as one without, and Spark answers the documented questions."""
    for engine in ("python", "spark"):
        (tmp_path / engine).mkdir()
        write_history(tmp_path / engine, "--engine", engine)
    ours, theirs = tmp_path / "spark", tmp_path / "python"
    assert read_tables(ours / "history") == read_tables(theirs / "history")
    assert [row["seenSince"] for row in read_rows(ours / "report")] == [
        row["seenSince"] for row in read_rows(theirs / "report")
    ]
    assert read_summary(ours / "report") == read_summary(theirs / "report")
    for statement in read_views("spark").replace("'history/", f"'{ours}/history/").split(";")[:-1]:
        spark.sql(statement)
    answers = {name: [*map(tuple, spark.sql(query).collect())] for name, query in read_queries().items()}
    assert answers == ANSWERS


def test_spark_starts_a_history_and_replaces_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """The first run by Spark makes the tables, and a second run with the same time replaces the first."""
    write_history(tmp_path)
    for _ in range(2):
        words = ("--history", str(tmp_path / "new"), "--owner-label", "team", "--engine", "spark")
        assert run_drift(tmp_path / "manifests", tmp_path / "report", "-q", *words) == 1
    assert spark.read.parquet(str(tmp_path / "new" / "runs")).count() == 1
    assert {row["status"] for rows in read_tables(tmp_path / "new").values() for row in rows if "status" in row} == {
        "New"
    }
    assert len(read_tables(tmp_path / "new")) == 3
