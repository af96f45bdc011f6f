"""The common part of the commands that write topics: confirm the plans, apply them, wait, print the reports.

``apply``, ``unmanage`` and ``nudge`` call it with the plans of their run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from topiarist.cli import terminal
from topiarist.cli.apply import wait
from topiarist.cli.apply.move_progress import MoveProgressLog
from topiarist.cli.apply.report_file import ReportFile
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.interrupt import Interrupt
from topiarist.cli.settings import Settings
from topiarist.model.moves import MoveProgress
from topiarist.model.outcome import Outcome, ReconcileReport, worst_exit_code
from topiarist.model.plan import Plan, Risk, TopicPlan
from topiarist.output.text.apply import format_report, format_report_summary
from topiarist.ports import Cluster, MoveOptions, Throttle
from topiarist.reconcile import apply_plan
from topiarist.text import format_count
from topiarist.throttle import ControllerWait


class ApplyPlan(Protocol):
    """A function that applies one plan, as ``reconcile.apply_plan`` does."""

    def __call__(
        self,
        cluster: Cluster,
        plan: Plan,
        /,
        *,
        stop: Callable[[], bool],
        on_outcome: Callable[[TopicPlan, Outcome], None],
        throttle: Throttle | None,
        move_options: MoveOptions,
    ) -> ReconcileReport:
        """Apply ``plan`` and return the report."""


def confirm_plans(plans: Sequence[Plan], action: str) -> None:
    """Ask the user to confirm the plans; ``action`` is the start of the question, such as ``Apply to``.

    If topics may lose data, the user must type their number instead of ``yes``.
    """
    topics = [topic for plan in plans for topic in plan.actionable_topics()]
    if risky := sum(topic.risk is Risk.DATA_LOSS for topic in topics):
        question = f"{format_count(risky, 'topic')} may lose data. Type {risky} to confirm the whole plan"
        terminal.confirm(question, str(risky))
    else:
        copies = sum(len(move.added) for topic in topics for move in topic.moves())
        also = f", and copy {format_count(copies, 'replica')}" if copies else ""
        terminal.confirm(f"{action} {format_count(len(topics), 'topic')}{also}? Type yes")


def moves_replicas(plan: Plan) -> bool:
    """Return whether applying the plan may wait for replicas that are copied."""
    return plan.batch is not None or any(topic.moves() for topic in plan.actionable_topics())


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
    waits: dict[str, ControllerWait] = {}
    # Printing the reports is inside too: Ctrl-C during it must not print "nothing was written".
    with Interrupt() as interrupt:

        def stop() -> bool:
            return interrupt.has_happened() or report_file.error is not None

        def apply_to_cluster(plan: Plan) -> ReconcileReport:
            write_outcome = partial(report_file.write_outcome, plan)
            cluster = sessions.clusters[plan.cluster]
            if settings.wait:
                waits[plan.cluster] = wait.make_controller_wait(cluster, settings, stop, write_outcome)

            move_log = MoveProgressLog(plan, settings, progress)

            def on_outcome(topic: TopicPlan, outcome: Outcome) -> None:
                progress.step()
                write_outcome(topic, outcome)

            def on_move_progress(moved: MoveProgress) -> None:
                report_file.write_moves(plan, moved)
                move_log.show(moved)

            report = apply_one(
                cluster,
                plan,
                stop=stop,
                on_outcome=on_outcome,
                throttle=waits.get(plan.cluster),
                move_options=MoveOptions(
                    sessions.specs[plan.cluster].moves, not settings.no_wait, on_progress=on_move_progress
                ),
            )
            progress.clear_text()
            return report

        with terminal.ProgressBar(sum(1 for plan in plans for _ in plan.actionable_topics()), settings) as progress:
            # Moves may take hours, so the clusters without moves are written first.
            by_cluster = {plan.cluster: apply_to_cluster(plan) for plan in sorted(plans, key=moves_replicas)}
            reports = [by_cluster[plan.cluster] for plan in plans]
        if settings.wait:
            reports = wait.wait_for_controllers(waits, reports, settings, interrupt.has_happened)
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
