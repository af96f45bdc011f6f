"""``spark-submit`` on a real cluster, a master and two workers: the wheel and the entry script are all that it takes.

F31: a worker is lost in the middle of the job, with what it had done until then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

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
"""Seconds for a job to come as far as its Python workers."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, with the entry script out of it beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build(copy_sources(tmp_path_factory.mktemp("clone")), "wheel", folder)
    with zipfile.ZipFile(wheel) as archive:
        (folder / "submit.py").write_bytes(archive.read("topiarist/spark_submit.py"))
    return wheel


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers."""
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> drifted_fleet.DriftedFleet:
    """Eight clusters that differ in every way, one of them without a snapshot."""
    return drifted_fleet.make_fleet(tmp_path_factory.mktemp("fleet"), 8, 60, 3)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> PausablePython:
    """A Python for executors that has nothing installed: what it finds is what was sent to it."""
    return PausablePython(tmp_path_factory.mktemp("bare"), "-S")


def job(
    cluster: StandaloneCluster, package: Path, bare: PausablePython, fleet: drifted_fleet.DriftedFleet, out: Path
) -> subprocess.Popen[str]:
    """The report of the fleet, submitted."""
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
    """The report of a job that lost nothing."""
    out = tmp_path_factory.mktemp("whole") / "report"
    done = wait_for_run(job(standalone, package, bare, fleet, out))
    assert done.code == 1, done
    # Spark hands on all that Python says on one stream.
    assert done.out.splitlines() == [
        "cluster cluster-0007: not compared: it has no snapshot",
        f"{out}: {len(fleet.expected)} findings on 7 clusters",
    ]
    assert bare.caller_pids
    return out


def content(out: Path) -> dict[str, bytes]:
    """All files of a report but Parquet's, in whose ends two JVMs may put the same words in another order."""
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.is_file()}


def require_table(spark: SparkSession, out: Path) -> None:
    """Raise unless the findings are all there as Parquet too."""
    place = out / "findings.parquet"
    made = [row.asDict() for row in spark.read.parquet(str(place)).drop("date").collect()]
    assert made == read_rows(out)
    files = [str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()]
    assert files == ["date=2025-01-31/part.parquet"]


def test_the_package_is_that_of_the_wheel(package: Path) -> None:
    """Where the wheel is given to a job, no other installation of the package counts."""
    script = "import topiarist; print(topiarist.__file__)"
    found = environment(package.parent, PYTHONPATH=str(package))
    said = subprocess.run([sys.executable, "-c", script], env=found, capture_output=True, text=True, check=True).stdout
    assert said == f"{package}/topiarist/__init__.py\n"


def test_a_submitted_job_writes_the_same_report(
    spark: SparkSession, whole: Path, fleet: drifted_fleet.DriftedFleet, tmp_path: Path
) -> None:
    """What was made to differ and nothing else, in the same bytes as in one process."""
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
    """A worker and its executor are killed when the executor has done its part of the join and is about to call the
    planner: all of it is recomputed.

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
    assert read_summary(tmp_path / "report")["clusters"] == {"wanted": 8, "compared": 7, "unknown": 1}
