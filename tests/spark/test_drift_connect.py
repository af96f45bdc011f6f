"""Reports by a local Spark Connect server: the bytes of one process, and nothing of the driver's JVM."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import topiarist.drift.spark
from support.drift import drifted_fleet
from support.spark.cluster import FAST_START_OPTIONS

_JVM_NAMES = frozenset({"rdd", "sparkContext", "_jvm", "_jsc", "_sc", "_python_includes", "SparkContext", "RDD"})
"""Names of PySpark that a session of Spark Connect does not have."""


def report(fleet: drifted_fleet.DriftedFleet, out: Path, *words: str, **variables: str) -> dict[str, bytes]:
    """Report on a fleet in a process of its own; return the files except Parquet."""
    command = [sys.executable, "-m", "topiarist", "drift", str(fleet.manifests), "--snapshots", str(fleet.snapshots)]
    options = f"--driver-java-options '{FAST_START_OPTIONS}' pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": options, **variables}
    command += ["--out", str(out), "-q", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.mark.slow
def test_a_connect_server_writes_the_same_report(tmp_path: Path) -> None:
    """A second report with the first as the previous one has the same bytes by one process and by Spark Connect."""
    fleet = drifted_fleet.make_fleet(tmp_path / "fleet", 6, 40, 2)
    first = report(fleet, tmp_path / "first", "--engine", "python")
    words = ("--previous", str(tmp_path / "first"))
    expected = report(fleet, tmp_path / "one", "--engine", "python", *words)
    assert expected["findings.jsonl"] != first["findings.jsonl"]
    found = report(fleet, tmp_path / "connect", "--engine", "spark", *words, SPARK_API_MODE="connect")
    assert found == expected


def test_no_name_of_the_jvm_is_used() -> None:
    """The package has only what a session of Spark Connect has: no RDD, no context, and no JVM."""
    for path in Path(topiarist.drift.spark.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = {getattr(node, "attr", ""), getattr(node, "id", "")}
            names |= {alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)}
            assert not names & _JVM_NAMES, f"{path.name}:{getattr(node, 'lineno', 0)}"
