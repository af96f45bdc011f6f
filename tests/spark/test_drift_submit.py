"""``spark-submit`` on a real cluster with a master and two workers: a job needs only the wheel and the entry script.

F31: a worker is lost in the middle of the job, with its finished work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import SparkSession

from support.drift import drifted_fleet
from support.drift.small_fleet import read_rows, read_summary
from support.repo.packages import build, copy_sources
from support.spark.cluster import StandaloneCluster, environment, wait_for_run
from support.spark.pausable_python import PausablePython
from support.waiting import wait_until
from topiarist.cli.main import run

PATIENCE = 300.0
"""Seconds until a job reaches its Python workers."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, and extract the entry script next to it."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build(copy_sources(tmp_path_factory.mktemp("clone")), "wheel", folder)
    with zipfile.ZipFile(wheel) as archive:
        (folder / "submit.py").write_bytes(archive.read("topiarist/spark_submit.py"))
    return wheel


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Start a master and two workers."""
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> drifted_fleet.DriftedFleet:
    """Return a fleet of eight clusters with all kinds of drift, one of them without a snapshot."""
    return drifted_fleet.make_fleet(tmp_path_factory.mktemp("fleet"), 8, 60, 3)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> PausablePython:
    """Return a Python for executors with the packages of Arrow alone, so that it uses the submitted files."""
    folder = tmp_path_factory.mktemp("arrow")
    for name in ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs"):
        if (found := Path(pyarrow.__file__).parents[1] / name).exists():
            (folder / name).symlink_to(found)
    return PausablePython(tmp_path_factory.mktemp("bare"), "-S", folder)


def job(
    cluster: StandaloneCluster, package: Path, bare: PausablePython, fleet: drifted_fleet.DriftedFleet, out: Path
) -> subprocess.Popen[str]:
    """Submit the report of the fleet."""
    words = (fleet.manifests, "--snapshots", fleet.snapshots, "--out", out)
    conf = {"spark.pyspark.python": str(bare.script)}
    return cluster.submit(package.parent / "submit.py", *words, files=(package,), conf=conf)


@pytest.fixture(scope="module")
def whole(
    standalone: StandaloneCluster,
    package: Path,
    bare: PausablePython,
    fleet: drifted_fleet.DriftedFleet,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return the report of an undisturbed job."""
    out = tmp_path_factory.mktemp("whole") / "report"
    done = wait_for_run(job(standalone, package, bare, fleet, out))
    assert done.code == 1, done
    # Spark forwards all output of Python on one stream.
    assert done.out.splitlines() == [
        "comparing in Spark: started by spark-submit",
        "cluster cluster-0007: not compared: it has no snapshot",
        f"{out}: {len(fleet.expected)} findings on 7 clusters",
    ]
    assert bare.caller_pids
    return out


def content(out: Path) -> dict[str, bytes]:
    """Return all files of a report except Parquet, because two JVMs may order the metadata in Parquet footers
    differently.
    """
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()}


def require_table(spark: SparkSession, out: Path) -> None:
    """Assert that the Parquet files have all findings."""
    place = out / "findings.parquet"
    made = [row.asDict() for row in spark.read.parquet(str(place)).drop("date").collect()]
    assert made == read_rows(out)
    files = [str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()]
    assert files == ["date=2025-01-31/part.parquet"]


@pytest.mark.slow
def test_the_package_is_that_of_the_wheel(package: Path) -> None:
    """A job that gets the wheel imports the package from it, and from no other installation."""
    script = "import topiarist; print(topiarist.__file__)"
    found = environment(package.parent, PYTHONPATH=str(package))
    said = subprocess.run([sys.executable, "-c", script], env=found, capture_output=True, text=True, check=True).stdout
    assert said == f"{package}/topiarist/__init__.py\n"


def test_a_submitted_job_writes_the_same_report(
    spark: SparkSession, whole: Path, fleet: drifted_fleet.DriftedFleet, tmp_path: Path
) -> None:
    """A submitted job reports exactly the generated drift, with the same bytes as one process."""
    assert {(row["cluster"], row["topic"], row["class"], row["field"]) for row in read_rows(whole)} == fleet.expected
    words = ("--snapshots", fleet.snapshots, "--out", tmp_path / "here", "-q", "--engine", "python")
    assert run(["drift", str(fleet.manifests), *map(str, words)]) == 1
    assert content(whole) == content(tmp_path / "here")
    require_table(spark, whole)
    assert [path.name for path in whole.parent.iterdir()] == ["report"]


def test_f31_a_worker_is_lost_in_the_middle_of_the_job(  # noqa: PLR0913
    spark: SparkSession,
    standalone: StandaloneCluster,
    package: Path,
    bare: PausablePython,
    fleet: drifted_fleet.DriftedFleet,
    whole: Path,
    tmp_path: Path,
) -> None:
    """A worker and its executor are killed when the executor is about to compare clusters: others compare them.

    The report is complete, and equals that of an undisturbed job.
    """
    bare.pause()
    running = job(standalone, package, bare, fleet, tmp_path / "report")
    try:
        wait_until(
            lambda: running.poll() is not None or bare.caller_pids, "an executor that starts Python", timeout=PATIENCE
        )
        assert running.poll() is None
        executor = bare.caller_pids[0]
        (lost,) = [worker for worker in standalone.workers if worker.group == os.getpgid(executor)]
        lost.kill()
        standalone.workers.remove(lost)
    finally:
        bare.resume()
    done = wait_for_run(running)
    assert done.code == 1, done
    assert "Traceback" not in done.out
    assert standalone.master.find_in_log("Removing worker|got disassociated")
    assert content(tmp_path / "report") == content(whole)
    require_table(spark, tmp_path / "report")
    assert read_summary(tmp_path / "report")["clusters"] == {"declared": 8, "compared": 7, "unknown": 1}
