"""A report by Spark in a terminal: whoever waits for it sees how far it has come, and nobody else does."""

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

PATIENCE = 300.0
"""Seconds until something must have been drawn."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVMs of these few jobs do not compile what they run once."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-java-options '{FAST_START_OPTIONS}' pyspark-shell")


@pytest.fixture
def fleet(tmp_path: Path) -> drifted_fleet.DriftedFleet:
    """Some clusters."""
    return drifted_fleet.make_fleet(tmp_path / "fleet", 4, 60, 1)


def words(fleet: drifted_fleet.DriftedFleet, out: Path) -> list[str]:
    """The command line of a report by Spark."""
    command = [sys.executable, "-m", "topiarist", "drift", str(fleet.manifests), "--engine", "spark"]
    return [*command, "--snapshots", str(fleet.snapshots), "--out", str(out)]


def shown(terminal: int, until: str = "") -> str:
    """What a terminal shows until a text is there, or until the other side has closed it."""
    text = ""
    while (not until or until not in text) and select.select([terminal], [], [], PATIENCE)[0]:
        try:
            piece = os.read(terminal, 65_536).decode(errors="replace")
        except OSError:  # Linux says so when the other side of a terminal has closed
            break
        if not piece:
            break
        text += piece
    return text


def test_a_person_sees_how_far_it_is(fleet: drifted_fleet.DriftedFleet, tmp_path: Path) -> None:
    """Stages are drawn while they last, and the last word is the report's; no word of Spark's log."""
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
    """Where nobody looks there are our own words and no others."""
    done = subprocess.run(words(fleet, tmp_path / "report"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "[Stage " not in done.stderr
    assert done.stderr.splitlines() == [
        "cluster cluster-0003: not compared: it has no snapshot",
        f"{tmp_path / 'report'}: {len(fleet.expected)} findings on 3 clusters",
    ]
