"""The progress of moves on standard error: one line that is replaced on a terminal, plain lines otherwise.

Without a terminal a line is printed for a batch, when a batch begins or ends to wait for something else than copies,
and every minute; never more than one in five seconds. ``-q`` prints nothing. Remarks about throttles of other clients
are printed once each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.model.moves import MoveProgress, ReplicaMove
from topiarist.model.plan import Plan
from topiarist.output.moves import format_move_progress

_LINE_INTERVAL_S = 60.0
"""Seconds between two lines about the same batch, if standard error is not a terminal."""

_MIN_LINE_INTERVAL_S = 5.0
"""Seconds between any two lines: batches without copies end at once, and there may be hundreds."""


class MovePace:
    """An estimate of the time that the moves of a plan still need.

    It counts the partitions that are copied: a move that only reorders or shortens a list ends at once, and would make
    the estimate too short. Times are in seconds by any steady clock.
    """

    def __init__(self, moves: Iterable[ReplicaMove]) -> None:
        moves = tuple(moves)
        self._total = sum(bool(move.added) for move in moves)
        self._without_copies = len(moves) - self._total
        self._started: tuple[float, int] | None = None

    def estimate(self, progress: MoveProgress, now: float) -> float | None:
        """Return the estimated seconds that are left; None while no copy is done, and for less than a second."""
        # Moves without copies have the first batches.
        done = max(progress.done - self._without_copies, 0)
        if self._started is None:
            if any(move.added for move in progress.copying):
                self._started = now, done
            return None
        started_at, done_before = self._started
        if done <= done_before or done >= self._total:
            return None
        left = (now - started_at) * (self._total - done) / (done - done_before)
        return left if left >= 1 else None


class MoveProgressLog:
    """A reporter of the moves of one plan; it draws in the place of ``bar``."""

    def __init__(self, plan: Plan, settings: Settings, bar: terminal.ProgressBar) -> None:
        moves = [move for topic in plan.actionable_topics() for move in topic.moves()]
        self._label = terminal.label_cluster(plan.cluster)
        self._is_quiet = settings.verbosity < 0
        self._bar = bar
        self._pace = MovePace(moves)
        self._started_at: float | None = None
        self._printed: tuple[int, bool] | None = None
        self._printed_at: float | None = None

    def show(self, progress: MoveProgress) -> None:
        """Show one report of the adapter."""
        if self._is_quiet:
            return
        now = time.monotonic()
        self._started_at = now if self._started_at is None else self._started_at
        for remark in progress.remarks:
            terminal.log_over_progress(terminal.sanitize_lines(f"{self._label}{remark}"))
        if progress.done >= progress.total and not progress.waiting_for:
            return
        text = format_move_progress(progress, now - self._started_at, self._pace.estimate(progress, now))
        if sys.stderr.isatty():
            self._bar.draw_text(f"{self._label}{text}")
            return
        subject = progress.batch, bool(progress.waiting_for)
        interval = _LINE_INTERVAL_S if subject == self._printed else _MIN_LINE_INTERVAL_S
        if self._printed_at is None or now >= self._printed_at + interval:
            self._printed, self._printed_at = subject, now
            terminal.log(f"{self._label}{text}")
