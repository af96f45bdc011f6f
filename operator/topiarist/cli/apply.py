"""``topiarist apply``: plan, show, ask, do, report."""

from __future__ import annotations

import sys
from typing import Any

import click

from topiarist.cli import inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.cli.interrupt import Interrupt
from topiarist.core.change import Plan, Risk
from topiarist.core.policy import allow_risk
from topiarist.core.units import count
from topiarist.desired import Desired
from topiarist.errors import Exit
from topiarist.reconcile import Pass, Report, carry_out, worst
from topiarist.render import text
from topiarist.settings import Settings


@click.command(
    "apply",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist apply topics/ --clusters clusters.yaml
  topiarist apply topics/ --zookeeper localhost:2181/kafka --yes
  topiarist apply topics/ --adopt='orders.*' --yes
  topiarist apply topics/ --yes --allow-risk DataLoss=clicks,audit

\b
Exit codes, the highest that applies, 1 before all:
  0 done, or nothing to do    4 something was refused
  1 an error                  5 a topic moved under the plan
  2 wrong usage
""",
)
@options.manifests
@options.connection
@options.planning
@options.applying
def command(yes: bool, **values: Any) -> None:
    """Plan, show the plan, ask, and make exactly that difference happen.

    Each topic is one checked transaction: all of it or nothing. What can be done is done; what cannot is named with its
    reason. Ctrl-C finishes what is under way and says what was not sent. A second run writes nothing.
    """
    settings = options.settings(values)
    if not yes and not terminal.interactive():
        raise click.UsageError("nobody can be asked here: this is no terminal. Add --yes to apply without asking")
    desired = inputs.load(settings)
    with Fleet(desired, settings) as fleet:
        plans = fleet.survey()
        if yes:
            plans = [allow_risk(plan, settings.allow_risk) for plan in plans]
        terminal.product(text.plans(plans, terminal.page(sys.stdout, settings), applying=True))
        if not yes and any(plan.pending for plan in plans):
            _ask(plans)
        code = _carry_out(fleet, desired, settings, plans, asked=not yes)
    raise click.exceptions.Exit(code)


def _ask(plans: list[Plan]) -> None:
    """Let a person answer for the plans; what may lose data is answered for by its number of topics."""
    risky = sum(topic.risk is Risk.DATA_LOSS for plan in plans for topic in plan.to_do())
    total = sum(1 for plan in plans for _ in plan.to_do())
    if risky:
        question = f"{count(risky, 'topic')} may lose data. Type how many that are to apply all of this"
        wanted = str(risky)
    else:
        question, wanted = f"Apply to {count(total, 'topic')}? Type yes", "yes"
    answer = click.prompt(question, prompt_suffix=": ", default="", show_default=False, err=True)
    if answer.strip() != wanted:
        terminal.say("not confirmed: nothing was written")
        raise click.exceptions.Exit(int(Exit.ERROR))


def _carry_out(fleet: Fleet, desired: Desired, settings: Settings, plans: list[Plan], *, asked: bool) -> int:
    reports: list[Report] = []
    # Also while it is told what became of them: whoever presses Ctrl-C then must not read that nothing was written.
    with Interrupt() as interrupt:
        with terminal.Progress(sum(1 for plan in plans for _ in plan.to_do()), settings) as progress:
            for plan in plans:
                job = Pass(
                    spec=desired.clusters[plan.cluster],
                    topics=desired.specs[plan.cluster],
                    run=fleet.run,
                    allow=lambda plan: allow_risk(plan, settings.allow_risk),
                    asked=asked,
                    stop=interrupt.happened,
                    tell=progress.step,
                )
                reports.append(carry_out(fleet.clusters[plan.cluster], job, plan))
        for report in reports:
            terminal.product(text.report(report, terminal.page(sys.stdout, settings)))
            if report.error:
                terminal.fail(report.error, about=f"cluster {report.plan.cluster}" if report.plan.cluster else "")
        return interrupt.code or int(worst([fleet.error_code, *(report.exit for report in reports)]))
