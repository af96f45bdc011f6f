"""The common part of the commands that write topics: confirm the plans, apply them, wait, print the reports.

``apply``, ``unmanage`` and ``nudge`` call it with the plans of their run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from topiarist.cli import terminal
from topiarist.cli.apply.move_progress import MoveProgressLog
from topiarist.cli.apply.report_file import ReportFile
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.interrupt import Interrupt
from topiarist.cli.settings import Settings
from topiarist.model.moves import MoveProgress
from topiarist.model.outcome import Outcome, ReconcileReport, worst_exit_code
from topiarist.model.plan import Plan, Risk, TopicPlan
from topiarist.output.report import format_report, format_report_summary
from topiarist.reconcile import apply_plan
from topiarist.runs import execute, wait
from topiarist.runs.execute import ApplyPlan
from topiarist.text import format_count


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
        question = f"{format_count(risky, 'topic')} may lose data. Type {risky} to confirm the whole plan{also}"
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
            reports, waits = execute.apply_plans(sessions, plans, settings, listener, stop, apply_one=apply_one)
        if settings.wait:
            reports = wait.wait_for_controllers(
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
