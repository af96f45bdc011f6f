"""The ``topiarist apply`` command: plan, show the plan, confirm, apply and report.

The mode (``runs.modes``) makes the plans, and ``execute`` applies them; ``report_file`` does the work of ``--report``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import formats, options, terminal
from topiarist.cli.settings import Settings

if TYPE_CHECKING:
    from topiarist.cli.terminal import TerminalListener
    from topiarist.runs.modes import ApplyManifests


@click.command(
    "apply",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist apply topics/ --clusters clusters.yaml
  topiarist apply topics/ --bootstrap-servers localhost:9092 --yes
  topiarist apply topics/ --adopt='orders.*' --yes
  topiarist apply topics/ --yes --allow-risk DataLoss=clicks,audit --wait
  topiarist apply --plan plan.json --clusters clusters.yaml --yes --report report.jsonl
  topiarist apply topics/ --reviewed plan.json --yes

\b
Exit codes (1 takes precedence, then the highest):
  0 done, or nothing to do    4 a change was refused
  1 error                     5 a topic changed since it was planned, or a change was not reviewed
  2 usage error
""",
)
@options.manifests
@options.selection
@options.require_topics
@options.connection
@options.planning
@options.applying
@options.summary
@options.waiting
@options.no_wait
@options.in_use
@options.saved_plan
def command(yes: bool, report: str | None, **values: Any) -> None:
    """Make a plan, show it, ask for confirmation, and apply it.

    Each topic is compared with the plan directly before it is changed. Through ZooKeeper it is then changed completely
    or not at all. Through the brokers growth and configs are two requests; if only one was made, the next run makes the
    other. Refused topics are listed with the reason, and all others are changed. Ctrl-C finishes the writes in progress
    and lists the topics that were not sent. A second run finds nothing to change.

    Moves of existing replicas come last, in batches, and the run waits for them; with --no-wait it sends one batch. A
    run that ends early continues with the next one: no replica is copied twice.

    With --plan, a saved plan is applied, as far as the clusters have not changed since. With --reviewed, a new plan is
    made, and only the changes that the reviewed plan contains too are applied.
    """
    from topiarist.cli.apply.execute import apply_plans, confirm_plans
    from topiarist.cli.apply.report_file import ReportFile
    from topiarist.runs.sessions import ClusterSessions

    terminal.require_interactive(yes, "apply")
    if values["summary"] and not yes:
        raise click.UsageError("--summary shows too little for a confirmation: add --yes to apply without confirmation")
    settings = options.build_settings(values)
    if settings.wait and settings.no_wait:
        raise click.UsageError("--wait and --no-wait exclude each other: --no-wait ends the run while brokers copy")
    listener = terminal.TerminalListener(settings)
    mode = _select_mode(settings, listener, values["plan_file"], values["reviewed"], non_interactive=yes)
    with ReportFile(report) as report_file, ClusterSessions(mode.clusters, settings, listener) as sessions:
        plans = mode.make_plans(sessions)
        terminal.print_result(formats.format_plans(plans, settings, applying=True))
        terminal.print_result("".join(f"{remark}\n" for remark in map(terminal.sanitize_lines, mode.remarks)))
        if not yes and mode.needs_confirmation and any(plan.has_changes for plan in plans):
            confirm_plans(plans, "Apply to")
            plans = mode.refresh_after_prompt(sessions, plans)
        report_file.write_header(plans, owner=settings.owner, form=mode.name, fingerprint=mode.fingerprint)
        _, code = apply_plans(sessions, plans, settings, report_file=report_file, apply_one=mode.apply_plan)
    raise click.exceptions.Exit(code)


def _select_mode(
    settings: Settings, listener: TerminalListener, plan: str | None, reviewed: str | None, *, non_interactive: bool
) -> ApplyManifests:
    """Return the mode that the options select; raise ``click.UsageError`` for options that exclude each other."""
    from topiarist.adapters.atomic_files import read_file
    from topiarist.runs.inputs import load_manifests
    from topiarist.runs.modes import (
        ApplyManifests,
        ApplyReviewed,
        ApplySavedPlan,
        PlanFile,
        require_no_planning_settings,
    )

    if plan is not None:
        if reviewed is not None or settings.paths or settings.selection.text:
            other = "--reviewed" if reviewed is not None else settings.selection.text or "paths of manifests"
            raise click.UsageError(f"--plan applies the plan as saved: it cannot be combined with {other}")
        require_no_planning_settings(settings)  # before the file is read
        return ApplySavedPlan(settings, PlanFile(read_file(plan), plan), listener, non_interactive=non_interactive)
    inputs = load_manifests(settings, listener)
    if reviewed is not None:
        file = PlanFile(read_file(reviewed), reviewed)
        return ApplyReviewed(settings, inputs, file, non_interactive=non_interactive)
    return ApplyManifests(settings, inputs, non_interactive=non_interactive)
