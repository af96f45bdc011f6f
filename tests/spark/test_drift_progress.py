"""Progress of a Spark report: shown at a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from support.drift import drifted_fleet
from support.spark.cluster import FAST_START_OPTIONS
from support.spark.pausable_python import PausablePython

pytestmark = pytest.mark.slow

PATIENCE = 300.0
"""Seconds until output must appear."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set JVM options that start these short jobs faster."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-java-options '{FAST_START_OPTIONS}' pyspark-shell")


@pytest.fixture
def fleet(tmp_path: Path) -> drifted_fleet.DriftedFleet:
    """Return a small fleet."""
    return drifted_fleet.make_fleet(tmp_path / "fleet", 4, 60, 1)


def words(fleet: drifted_fleet.DriftedFleet, out: Path) -> list[str]:
    """Return the command line of a report by Spark."""
    command = [sys.executable, "-m", "topiarist", "drift", str(fleet.manifests), "--engine", "spark"]
    return [*command, "--snapshots", str(fleet.snapshots), "--out", str(out)]


def shown(terminal: int, until: str = "") -> str:
    """Return the output at a terminal until a text appears or the other side closes."""
    text = ""
    while (not until or until not in text) and select.select([terminal], [], [], PATIENCE)[0]:
        try:
            piece = os.read(terminal, 65_536).decode(errors="replace")
        except OSError:  # raised by Linux when the other side of a terminal closes
            break
        if not piece:
            break
        text += piece
    return text


def test_a_person_sees_how_far_it_is(fleet: drifted_fleet.DriftedFleet, tmp_path: Path) -> None:
    """At a terminal Spark's stages are drawn while they run, the report's message is last, and no line of Spark's log
    appears.
    """
    python = PausablePython(tmp_path)
    python.pause()
    command = words(fleet, tmp_path / "report")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", PYSPARK_PYTHON=str(python.script))
        os.execv(command[0], command)
    drawn = shown(terminal, "[Stage ")
    python.resume()
    after = shown(terminal)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert "[Stage " in drawn
    assert f"{tmp_path / 'report'}: {len(fleet.expected)} findings on 3 clusters" in after
    assert "WARN" not in drawn + after
    assert os.waitstatus_to_exitcode(status) == 1


def test_a_log_has_no_bars(fleet: drifted_fleet.DriftedFleet, tmp_path: Path) -> None:
    """Without a terminal only topiarist's own messages are printed."""
    done = subprocess.run(words(fleet, tmp_path / "report"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "[Stage " not in done.stderr
    assert done.stderr.splitlines() == [
        "comparing in Spark: --engine spark",
        "cluster cluster-0003: not compared: it has no snapshot",
        f"{tmp_path / 'report'}: {len(fleet.expected)} findings on 3 clusters",
    ]
