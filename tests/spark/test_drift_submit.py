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

from support import drifted
from support.fleets import lines, summary
from support.heldpython import HeldPython
from support.packages import build, cloned
from support.standalone import Standalone, environment, finished
from support.waiting import wait_until
from topiarist.cli.main import run

PATIENCE = 300.0
"""Seconds for a job to come as far as its Python workers."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, with the entry script out of it beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build(cloned(tmp_path_factory.mktemp("clone")), "wheel", folder)
    with zipfile.ZipFile(wheel) as archive:
        (folder / "submit.py").write_bytes(archive.read("topiarist/submit.py"))
    return wheel


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers."""
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> drifted.Sample:
    """Eight clusters that differ in every way, one of them without a snapshot."""
    return drifted.make(tmp_path_factory.mktemp("fleet"), 8, 60, 3)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> HeldPython:
    """A Python for executors that has nothing installed: what it finds is what was sent to it."""
    return HeldPython(tmp_path_factory.mktemp("bare"), "-S")


def job(
    cluster: Standalone, package: Path, bare: HeldPython, fleet: drifted.Sample, out: Path
) -> subprocess.Popen[str]:
    """The report of the fleet, submitted."""
    words = (fleet.manifests, "--snapshots", fleet.snapshots, "--out", out)
    conf = {"spark.pyspark.python": str(bare.script)}
    return cluster.submit(package.parent / "submit.py", *words, files=(package,), conf=conf)


def content(out: Path) -> dict[str, bytes]:
    """All files of a report."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_the_package_is_that_of_the_wheel(package: Path) -> None:
    """Where the wheel is given to a job, no other installation of the package counts."""
    script = "import topiarist; print(topiarist.__file__)"
    found = environment(package.parent, PYTHONPATH=str(package))
    said = subprocess.run([sys.executable, "-c", script], env=found, capture_output=True, text=True, check=True).stdout
    assert said == f"{package}/topiarist/__init__.py\n"


def test_a_submitted_job_writes_the_same_report(
    standalone: Standalone, package: Path, bare: HeldPython, fleet: drifted.Sample, tmp_path: Path
) -> None:
    """What was made to differ and nothing else, in the same bytes as in one process; a second run changes no byte."""
    done = finished(job(standalone, package, bare, fleet, tmp_path / "one"))
    assert done.code == 1, done
    # Spark hands on all that Python says on one stream.
    assert done.out.splitlines() == [
        "cluster cluster-0007: not compared: there is no snapshot of it",
        f"{tmp_path / 'one'}: {len(fleet.expected)} findings on 7 clusters",
    ]
    found = {(row["cluster"], row["topic"], row["class"], row["field"]) for row in lines(tmp_path / "one")}
    assert found == fleet.expected
    assert bare.callers
    words = ("--snapshots", fleet.snapshots, "--out", tmp_path / "here", "-q", "--engine", "python")
    assert run(["drift", str(fleet.manifests), *map(str, words)]) == 1
    one = content(tmp_path / "one")
    assert {name: data for name, data in one.items() if not name.startswith("findings.parquet/")} == content(
        tmp_path / "here"
    )
    again = finished(job(standalone, package, bare, fleet, tmp_path / "one"))
    assert again.code == 1, again
    assert content(tmp_path / "one") == one
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_f31_a_worker_is_lost_in_the_middle_of_the_job(
    standalone: Standalone, package: Path, bare: HeldPython, fleet: drifted.Sample, tmp_path: Path
) -> None:
    """With its executor, when that has done its part of the join and is about to ask the planner: all of it is redone.

    The report is complete, and equal to that of a job that lost nothing.
    """
    whole = finished(job(standalone, package, bare, fleet, tmp_path / "whole"))
    assert whole.code == 1, whole
    bare.hold()
    running = job(standalone, package, bare, fleet, tmp_path / "report")
    try:
        wait_until(
            lambda: running.poll() is not None or bare.callers, "an executor that starts Python", patience=PATIENCE
        )
        assert running.poll() is None
        executor = bare.callers[0]
        (lost,) = [worker for worker in standalone.workers if worker.group == os.getpgid(executor)]
        lost.kill()
        standalone.workers.remove(lost)
    finally:
        bare.release()
    done = finished(running)
    assert done.code == 1, done
    assert "Traceback" not in done.out
    assert standalone.master.said("Removing worker|got disassociated")
    assert content(tmp_path / "report") == content(tmp_path / "whole")
    assert summary(tmp_path / "report")["clusters"] == {"wanted": 8, "compared": 7, "unknown": 1}
