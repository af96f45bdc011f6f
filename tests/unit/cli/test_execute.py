"""The estimate of the time that moves still need, and the lines of a run without a terminal."""

from __future__ import annotations

import json
import time
from itertools import count
from pathlib import Path

import pytest

from support.builders import state, topic
from topiarist.adapters import atomic_files
from topiarist.cli import terminal
from topiarist.cli.execute import MovePace, MoveProgressLog, ReportFile
from topiarist.cli.terminal import Settings
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import MoveKind, MoveProgress, ReplicaMove
from topiarist.model.plan import MoveReplicas, Plan, Risk, RiskAssessment, TopicPlan

# The report file of a run that moves replicas.

MOVES = tuple(ReplicaMove("orders", number, (1, 2), (4, 2), (MoveKind.DRAIN,)) for number in range(3))
SEEN = state(topic("orders"))
PLAN = Plan(
    "prod",
    "ID",
    topics=(
        TopicPlan(
            "orders", SEEN.topics["orders"], changes=(MoveReplicas(MOVES, RiskAssessment(Risk.DISRUPTIVE, "copies")),)
        ),
    ),
)


def test_finished_moves_are_written_as_they_are_reported(tmp_path: Path) -> None:
    """Each report of progress adds the lines of its finished moves, before the run has ended."""
    path = tmp_path / "report.jsonl"
    with ReportFile(str(path)) as report:
        report.write_moves(PLAN, MoveProgress(1, 2, 2, 3, finished=MOVES[:2]))
        assert [json.loads(line)["partition"] for line in path.read_text().splitlines()] == [0, 1]
        report.write_moves(PLAN, MoveProgress(2, 2, 2, 3))
        report.write_moves(PLAN, MoveProgress(2, 2, 3, 3, finished=MOVES[2:]))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["partition"], row["batch"]) for row in rows] == [(0, 1), (1, 1), (2, 2)]


def test_a_report_that_cannot_be_written_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure is kept as the error of the report, and nothing more is written."""
    calls: list[str] = []

    def fail(_file: atomic_files.LineFile, line: str) -> None:
        calls.append(line)
        raise TopiaristError(Reason.UNWRITABLE, "no space left on device")

    with ReportFile(str(tmp_path / "report.jsonl")) as report:
        monkeypatch.setattr(atomic_files.LineFile, "add_line", fail)
        report.write_moves(PLAN, MoveProgress(1, 2, 2, 3, finished=MOVES[:2]))
        report.write_moves(PLAN, MoveProgress(2, 2, 3, 3, finished=MOVES[2:]))
        assert report.error is not None
        assert report.error.reason is Reason.UNWRITABLE
    assert len(calls) == 1


def test_a_run_without_a_report_writes_nothing() -> None:
    """Without ``--report`` finished moves need no file."""
    with ReportFile(None) as report:
        report.write_moves(PLAN, MoveProgress(1, 2, 2, 3, finished=MOVES))
        assert report.error is None


COPIES = tuple(ReplicaMove("orders", partition, (1, 2), (4, 2)) for partition in range(10))
REORDERS = tuple(ReplicaMove("clicks", partition, (1, 2), (2, 1)) for partition in range(100))
NOW = 1000.0


def test_there_is_no_estimate_before_the_first_copy_is_done() -> None:
    """Reorders are done at once and tell nothing about copies."""
    pace = MovePace([*REORDERS, *COPIES])
    assert pace.estimate(MoveProgress(2, 7, 100, 110, ()), NOW) is None
    assert pace.estimate(MoveProgress(3, 7, 100, 110, COPIES[:2]), NOW + 1) is None
    assert pace.estimate(MoveProgress(3, 7, 100, 110, COPIES[:2]), NOW + 50) is None


def test_the_estimate_is_the_pace_so_far() -> None:
    """Two of ten partitions in 60 seconds: the other eight need 240."""
    pace = MovePace([*REORDERS, *COPIES])
    pace.estimate(MoveProgress(3, 7, 100, 110, COPIES[:2]), NOW)
    assert pace.estimate(MoveProgress(4, 7, 102, 110, COPIES[2:4]), NOW + 60) == 240


def test_moves_of_an_earlier_run_do_not_count() -> None:
    """Partitions that were done before this run have needed none of its time."""
    pace = MovePace(COPIES)
    pace.estimate(MoveProgress(1, 3, 6, 10, COPIES[6:8]), NOW)
    assert pace.estimate(MoveProgress(2, 3, 8, 10, COPIES[8:]), NOW + 10) == 10


def test_no_estimate_when_all_is_done() -> None:
    """Nothing is left, and less than a second is not shown."""
    pace = MovePace(COPIES)
    pace.estimate(MoveProgress(1, 2, 0, 10, COPIES[:5]), NOW)
    assert pace.estimate(MoveProgress(2, 2, 5, 10, COPIES[5:]), NOW + 0.5) is None
    assert pace.estimate(MoveProgress(2, 2, 10, 10), NOW + 9) is None


def _log(settings: Settings, monkeypatch: pytest.MonkeyPatch, step: float) -> MoveProgressLog:
    """Return a log with a clock that goes on by ``step`` seconds with each report."""
    ticks = count()
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) * step)
    return MoveProgressLog(Plan("prod", state().cluster_id), settings, terminal.ProgressBar(0, settings))


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_line_for_each_batch_and_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same batch has a line again after a minute, the next one at once."""
    log = _log(Settings(), monkeypatch, 10.0)
    for _ in range(8):
        log.show(MoveProgress(1, 2, 0, 4, COPIES[:2]))
    log.show(MoveProgress(2, 2, 2, 4, COPIES[2:4]))
    assert [line.partition(":  ")[0][:19] for line in _lines(capsys)] == [
        "prod: batch 1 of 2:",
        "prod: batch 1 of 2:",
        "prod: batch 2 of 2:",
    ]


def test_short_batches_share_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Hundreds of batches that end at once have one line in five seconds."""
    log = _log(Settings(), monkeypatch, 1.0)
    for batch in range(1, 13):
        log.show(MoveProgress(batch, 20, batch, 40, REORDERS[:2]))
    assert len(_lines(capsys)) == 3


def test_a_new_cause_of_waiting_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A batch that begins to wait for something else than copies is reported before the minute is over."""
    log = _log(Settings(), monkeypatch, 6.0)
    log.show(MoveProgress(1, 2, 0, 4, COPIES[:2]))
    log.show(MoveProgress(1, 2, 0, 4, COPIES[:2], waiting_for="broker 4 is not registered"))
    assert "broker 4 is not registered" in _lines(capsys)[1]


def test_remarks_are_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A remark is printed as it comes, without control characters."""
    log = _log(Settings(), monkeypatch, 1.0)
    log.show(MoveProgress(1, 1, 4, 4, remarks=("brokers/1: a rate is 7 already, and stays\x1b[2J",)))
    assert _lines(capsys) == ["prod: brokers/1: a rate is 7 already, and stays\\x1b[2J"]


def test_quiet_logs_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``-q`` neither progress nor remarks are printed."""
    log = _log(Settings(verbosity=-1), monkeypatch, 100.0)
    log.show(MoveProgress(1, 2, 0, 4, COPIES[:2], remarks=("a remark",)))
    assert _lines(capsys) == []
