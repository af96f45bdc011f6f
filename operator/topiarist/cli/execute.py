"""The common part of the commands that write topics: confirm the plans, apply them, wait, print and save the reports.

``apply``, ``unmanage`` and ``nudge`` call it with the plans of their run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Self

from topiarist.adapters.atomic_files import LineFile
from topiarist.cli import terminal
from topiarist.cli.terminal import Interrupt, Settings
from topiarist.errors import Exit, TopiaristError
from topiarist.model.moves import MoveProgress, ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport, worst_exit_code
from topiarist.model.plan import Plan, Risk, TopicPlan
from topiarist.output import report as rendering
from topiarist.output.moves import format_move_progress
from topiarist.output.report import format_report, format_report_summary
from topiarist.reconcile import ApplyPlan, apply_plan
from topiarist.runs import modes as running
from topiarist.runs.modes import wait_for_controllers
from topiarist.runs.sessions import ClusterSessions
from topiarist.text import format_count

# The file of ``--report``: one JSON line per topic and per moved partition, written when its outcome is final.
#
# ``apply`` writes it during the run. A run that cannot write its report sends nothing more.


class ReportFile:
    """A context manager that writes the report to ``path``; with None it writes nothing.

    ``error`` is the first error of a line that could not be written after something was sent. After it nothing more is
    written to the file.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: LineFile | None = None
        self._stack = ExitStack()
        self._written_outcomes: dict[tuple[str, str], tuple[TopicPlan, Outcome]] = {}
        self.error: TopiaristError | None = None

    def __enter__(self) -> Self:
        """Open the file; raise ``TopiaristError`` if that fails, before any connection is made."""
        self._file = self._stack.enter_context(LineFile(self._path)) if self._path is not None else None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write_header(self, plans: Sequence[Plan], *, owner: str, form: str, fingerprint: str | None) -> None:
        """Write the header, and the refused topics of the plans.

        Raises ``TopiaristError`` if that fails, before anything is sent.
        """
        if self._file is None:
            return
        self._file.add_line(
            rendering.format_header(plans, at=_utc_timestamp(), owner=owner, mode=form, fingerprint=fingerprint),
            last=True,
        )
        for plan in plans:
            for topic in plan.topics:
                if topic.refusals and not topic.is_actionable and not topic.observe_only:
                    self._write_topic(plan, topic, rendering.make_refused_outcome(topic))

    def write_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Write the outcome of a topic; store the first failure in ``error`` and do not raise it."""
        if self.error is None:
            try:
                self._write_topic(plan, topic, outcome)
            except TopiaristError as error:
                self.error = error

    def write_moves(self, plan: Plan, progress: MoveProgress) -> None:
        """Write the moves that were finished since the last report; store the first failure in ``error``."""
        if self._file is None or self.error is not None or not progress.finished:
            return
        topics = {topic.topic: topic for topic in plan.topics}
        try:
            for move in progress.finished:
                line = rendering.format_move(plan, topics[move.topic], move, batch=progress.batch, at=_utc_timestamp())
                self._file.add_line(line)
        except TopiaristError as error:
            self.error = error

    def write_changed_outcomes(self, reports: Sequence[ReconcileReport]) -> None:
        """Write the outcomes again that changed during the wait."""
        for report in reports:
            topics = {topic.topic: topic for topic in report.plan.topics}
            for outcome in report.outcomes:
                topic, before = self._written_outcomes.get((report.plan.cluster, outcome.topic), (None, None))
                if before != outcome:
                    self.write_outcome(report.plan, topic or topics[outcome.topic], outcome)

    def write_summary(self, reports: Sequence[ReconcileReport], code: int) -> int:
        """Write the summary; return the exit code of the run, an error if the report is incomplete."""
        reasons = [report.error.reason for report in reports if report.error]
        if self._file is not None and self.error is None:
            try:
                results = [outcome.result for _, outcome in self._written_outcomes.values()]
                line = rendering.format_summary(results, at=_utc_timestamp(), code=code, reasons=reasons)
                self._file.add_line(line, last=True)
            except TopiaristError as error:
                self.error = error
        return code if self.error is None or code > max(Exit) else int(worst_exit_code([Exit(code), Exit.ERROR]))

    def _write_topic(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        if self._file is not None:
            self._file.add_line(rendering.format_topic(plan, topic, outcome, at=_utc_timestamp()))
        self._written_outcomes[plan.cluster, topic.topic] = (topic, outcome)


def _utc_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# The progress of moves on standard error: one line that is replaced on a terminal, plain lines otherwise.
#
# Without a terminal a line is printed for a batch, when a batch begins or ends to wait for something else than copies,
# and every minute; never more than one in five seconds. ``-q`` prints nothing. Remarks about throttles of other clients
# are printed once each.

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


class _ApplyListener(terminal.TerminalListener):
    """A listener that draws the progress of a run and writes its report file."""

    def __init__(self, settings: Settings, report_file: ReportFile, progress: terminal.ProgressBar) -> None:
        super().__init__(settings)
        self._settings = settings
        self._report_file = report_file
        self._progress = progress
        self._move_logs: dict[str, MoveProgressLog] = {}

    def on_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Count the topic and write its line."""
        self._progress.step()
        self._report_file.write_outcome(plan, topic, outcome)

    def on_late_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Write the line of the topic again."""
        self._report_file.write_outcome(plan, topic, outcome)

    def on_move_progress(self, plan: Plan, progress: MoveProgress) -> None:
        """Write the lines of finished moves, and show the others."""
        self._report_file.write_moves(plan, progress)
        self._log_of(plan).show(progress)

    def on_cluster_finished(self, plan: Plan) -> None:
        """Show the bar of topics again."""
        self._progress.clear_text()

    def _log_of(self, plan: Plan) -> MoveProgressLog:
        if plan.cluster not in self._move_logs:
            self._move_logs[plan.cluster] = MoveProgressLog(plan, self._settings, self._progress)
        return self._move_logs[plan.cluster]


def confirm_plans(plans: Sequence[Plan], action: str) -> None:
    """Ask the user to confirm the plans; ``action`` is the start of the question, such as ``Apply to``.

    If topics may lose data, the user must type their number instead of ``yes``.
    """
    topics = [topic for plan in plans for topic in plan.actionable_topics()]
    names = dict.fromkeys(topic.name for plan in plans for topic in plan.implied_topics)
    also = f", and create {' and '.join(names)}" if names else ""
    if risky := sum(topic.risk is Risk.DATA_LOSS for topic in topics):
        question = (
            f"{format_count(risky, 'topic')} may lose data."
            f" Type the number of topics ({risky}) to confirm the whole plan{also}"
        )
        terminal.confirm(question, str(risky))
    else:
        copies = sum(len(move.added) for topic in topics for move in topic.moves())
        also += f", and copy {format_count(copies, 'replica')}" if copies else ""
        terminal.confirm(f"{action} {format_count(len(topics), 'topic')}{also}? Type yes")


def apply_plans(
    sessions: ClusterSessions,
    plans: Sequence[Plan],
    settings: Settings,
    *,
    report_file: ReportFile | None = None,
    apply_one: ApplyPlan = apply_plan,
) -> tuple[list[ReconcileReport], int]:
    """Apply the plans, wait for the controllers with ``settings.wait``, and print and return the reports.

    Also returns the exit code of the run: 128 plus the signal number if a signal ended it.
    """
    report_file = report_file or ReportFile(None)
    # Printing the reports is inside too: Ctrl-C during it must not print "nothing was written".
    with Interrupt() as interrupt:

        def stop() -> bool:
            return interrupt.has_happened() or report_file.error is not None

        with terminal.ProgressBar(sum(1 for plan in plans for _ in plan.actionable_topics()), settings) as progress:
            listener = _ApplyListener(settings, report_file, progress)
            reports, waits = running.apply_plans(sessions, plans, settings, listener, stop, apply_one=apply_one)
        if settings.wait:
            reports = wait_for_controllers(
                waits, reports, settings, interrupt.has_happened, listener, partial(_show_progress, settings)
            )
            report_file.write_changed_outcomes(reports)
        codes = [sessions.error_code, *(report.exit_code for report in reports)]
        render = format_report_summary if settings.summary else format_report
        for report in reports:
            codes.append(terminal.print_outcome(render(report, terminal.make_layout(sys.stdout, settings))))
            if report.error:
                terminal.print_error(report.error, report.plan.cluster)
        code = report_file.write_summary(reports, interrupt.exit_code or int(worst_exit_code(codes)))
        if report_file.error:
            terminal.print_error(report_file.error)
        return reports, code


@contextmanager
def _show_progress(settings: Settings, total: int) -> Iterator[Callable[[], None]]:
    with terminal.ProgressBar(total, settings) as progress:
        yield progress.step
