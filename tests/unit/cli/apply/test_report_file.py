"""The report file of a run that moves replicas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.builders import state, topic
from topiarist.adapters import atomic_files
from topiarist.cli.execute import ReportFile
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import MoveKind, MoveProgress, ReplicaMove
from topiarist.model.plan import MoveReplicas, Plan, Risk, RiskAssessment, TopicPlan

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
