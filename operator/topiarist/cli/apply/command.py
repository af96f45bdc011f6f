"""The ``topiarist apply`` command: plan, show the plan, confirm, apply and report.

The mode (``modes``) makes and applies the plans; ``report_file`` and ``wait`` do the work of ``--report`` and
``--wait``.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from topiarist import throttle
from topiarist.cli import formats, options, terminal
from topiarist.cli.apply import wait
from topiarist.cli.apply.modes import ApplyManifests, ApplyMode
from topiarist.cli.apply.report_file import ReportFile
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.interrupt import Interrupt
from topiarist.cli.settings import Settings
from topiarist.model.outcome import ReconcileReport, worst_exit_code
from topiarist.model.plan import Plan, Risk
from topiarist.output.text.apply import format_report, format_report_summary
from topiarist.reconcile import ApplyHooks
from topiarist.text import format_count


@click.command(
    "apply",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist apply topics/ --clusters clusters.yaml
  topiarist apply topics/ --zookeeper localhost:2181/kafka --yes
  topiarist apply topics/ --adopt='orders.*' --yes
  topiarist apply topics/ --yes --allow-risk DataLoss=clicks,audit --wait
  topiarist apply --plan plan.json --clusters clusters.yaml --yes --report report.jsonl
  topiarist apply topics/ --reviewed plan.json --yes

\b
Exit codes, the highest that applies, 1 before all:
  0 done, or nothing to do    4 something was refused
  1 an error                  5 a topic changed since it was planned, or a change was not reviewed
  2 wrong usage
""",
)
@options.manifests
@options.require_topics
@options.connection
@options.planning
@options.applying
@options.summary
@options.waiting
@options.saved_plan
def command(yes: bool, report: str | None, **values: Any) -> None:
    """Plan, show the plan, ask, and make exactly that difference happen.

    Each topic is one checked transaction: all of it or nothing. What can be done is done; what cannot is named with its
    reason. Ctrl-C finishes what is under way and says what was not sent. A second run writes nothing.

    With --plan, what was planned and kept is done, as long as it is still true, and nothing else. With --reviewed, of
    what is planned anew only that is done which the reviewed plan has too.
    """
    terminal.require_interactive(yes, "apply")
    if values["summary"] and not yes:
        raise click.UsageError("--summary shows too little to be asked about: add --yes to apply without asking")
    form, settings = _select_mode(values, non_interactive=yes), options.build_settings(values)
    with ReportFile(report) as journal, ClusterSessions(form.clusters, settings) as fleet:
        plans = form.make_plans(fleet)
        terminal.print_result(formats.format_plans_as_text(plans, settings, applying=True))
        terminal.print_result("".join(f"{remark}\n" for remark in map(terminal.sanitize_lines, form.remarks)))
        if not yes and form.needs_confirmation and any(plan.has_changes for plan in plans):
            _confirm(plans)
            plans = form.refresh_after_prompt(fleet, plans)
        journal.write_header(plans, owner=settings.owner, form=form.name, fingerprint=form.fingerprint)
        code = _apply_plans(fleet, form, settings, plans, journal)
    raise click.exceptions.Exit(code)


def _select_mode(values: dict[str, Any], *, non_interactive: bool) -> ApplyMode:
    """Return the mode that the options select; raise ``click.UsageError`` for options that exclude each other."""
    plan, reviewed = values.pop("plan_file"), values.pop("reviewed")
    settings = options.build_settings(dict(values))
    if plan is None and reviewed is None:
        return ApplyManifests(settings, non_interactive)
    if plan is None:
        from topiarist.cli.apply.modes import ApplyReviewed

        return ApplyReviewed(settings, reviewed, non_interactive)
    if reviewed is not None or settings.paths:
        what = "--reviewed" if reviewed is not None else "paths of manifests"
        raise click.UsageError(f"--plan does what its file says: it does not go with {what}")
    from topiarist.cli.apply.modes import ApplySavedPlan

    return ApplySavedPlan(settings, plan, non_interactive)


def _confirm(plans: list[Plan]) -> None:
    """Ask the user to confirm the plans.

    If topics may lose data, the user must type their number instead of ``yes``.
    """
    risky = sum(topic.risk is Risk.DATA_LOSS for plan in plans for topic in plan.actionable_topics())
    total = sum(1 for plan in plans for _ in plan.actionable_topics())
    if risky:
        question = f"{format_count(risky, 'topic')} may lose data. Type how many that are to apply all of this"
        terminal.confirm(question, str(risky))
    else:
        terminal.confirm(f"Apply to {format_count(total, 'topic')}? Type yes")


def _apply_plans(
    sessions: ClusterSessions, mode: ApplyMode, settings: Settings, plans: list[Plan], report_file: ReportFile
) -> int:
    reports: list[ReconcileReport] = []
    watches: dict[str, throttle.ControllerWait] = {}
    # Reporting is inside too: Ctrl-C during it must not print "nothing was written".
    with Interrupt() as interrupt:

        def stop() -> bool:
            return interrupt.has_happened() or report_file.error is not None

        with terminal.ProgressBar(sum(1 for plan in plans for _ in plan.actionable_topics()), settings) as progress:
            for plan in plans:
                cluster, settled = sessions.clusters[plan.cluster], partial(report_file.write_outcome, plan)
                if settings.wait:
                    watches[plan.cluster] = wait.make_controller_wait(cluster, settings, stop, settled)
                hooks = ApplyHooks(
                    stop=stop, on_outcome=progress.step, on_final_outcome=settled, throttle=watches.get(plan.cluster)
                )
                reports.append(mode.apply_plan(cluster, plan, hooks))
        if settings.wait:
            reports = wait.wait_for_controllers(watches, reports, settings, interrupt.has_happened)
            report_file.write_changed_outcomes(reports)
        shown = []
        for report in reports:
            render = format_report_summary if settings.summary else format_report
            shown.append(terminal.print_report(report, render(report, terminal.make_layout(sys.stdout, settings))))
        code = interrupt.exit_code or int(
            worst_exit_code([sessions.error_code, *shown, *(report.exit_code for report in reports)])
        )
        code = report_file.write_summary(reports, code)
        if report_file.error:
            terminal.print_error(report_file.error)
        return code
