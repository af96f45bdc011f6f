"""``topiarist apply``: plan, show, ask, do, report."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from topiarist.cli import formats, options, terminal, waiting
from topiarist.cli.fleet import Fleet
from topiarist.cli.forms import Form, Manifests
from topiarist.cli.interrupt import Interrupt
from topiarist.cli.journal import Journal
from topiarist.core.change import Plan, Risk
from topiarist.core.units import count
from topiarist.reconcile import Hooks, Report, worst
from topiarist.render import short, text
from topiarist.settings import Settings


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
  1 an error                  5 a topic moved, or a change was not reviewed
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
@options.kept
def command(yes: bool, report: str | None, **values: Any) -> None:
    """Plan, show the plan, ask, and make exactly that difference happen.

    Each topic is one checked transaction: all of it or nothing. What can be done is done; what cannot is named with its
    reason. Ctrl-C finishes what is under way and says what was not sent. A second run writes nothing.

    With --plan, what was planned and kept is done, as long as it is still true, and nothing else. With --reviewed, of
    what is planned anew only that is done which the reviewed plan has too.
    """
    terminal.require_answer(yes, "apply")
    if values["summary"] and not yes:
        raise click.UsageError("--summary shows too little to be asked about: add --yes to apply without asking")
    form, settings = _form(values, unasked=yes), options.settings(values)
    with Journal(report) as journal, Fleet(form.clusters, settings) as fleet:
        plans = form.plans(fleet)
        terminal.product(formats.plans_text(plans, settings, applying=True))
        terminal.product("".join(f"{remark}\n" for remark in map(terminal.plain_lines, form.remarks)))
        if not yes and form.asks and any(plan.pending for plan in plans):
            _ask(plans)
            plans = form.confirmed(fleet, plans)
        journal.begin(plans, owner=settings.owner, form=form.name, fingerprint=form.fingerprint)
        code = _carry_out(fleet, form, settings, plans, journal)
    raise click.exceptions.Exit(code)


def _form(values: dict[str, Any], *, unasked: bool) -> Form:
    """What the options mean; a form that is not wanted is not imported."""
    plan, reviewed = values.pop("plan_file"), values.pop("reviewed")
    settings = options.settings(dict(values))
    if plan is None and reviewed is None:
        return Manifests(settings, unasked)
    if plan is None:
        from topiarist.cli.reviewed import Reviewed

        return Reviewed(settings, reviewed, unasked)
    if reviewed is not None or settings.paths:
        what = "--reviewed" if reviewed is not None else "paths of manifests"
        raise click.UsageError(f"--plan does what its file says: it does not go with {what}")
    from topiarist.cli.kept import Kept

    return Kept(settings, plan, unasked)


def _ask(plans: list[Plan]) -> None:
    """Let a person answer for the plans; what may lose data is answered for by its number of topics."""
    risky = sum(topic.risk is Risk.DATA_LOSS for plan in plans for topic in plan.to_do())
    total = sum(1 for plan in plans for _ in plan.to_do())
    if risky:
        question = f"{count(risky, 'topic')} may lose data. Type how many that are to apply all of this"
        terminal.confirm(question, str(risky))
    else:
        terminal.confirm(f"Apply to {count(total, 'topic')}? Type yes")


def _carry_out(fleet: Fleet, form: Form, settings: Settings, plans: list[Plan], journal: Journal) -> int:
    reports: list[Report] = []
    watches: dict[str, waiting.Watch] = {}
    # Also while it is told what became of them: whoever presses Ctrl-C then must not read that nothing was written.
    with Interrupt() as interrupt:

        def stop() -> bool:
            return interrupt.happened() or journal.error is not None

        with terminal.Progress(sum(1 for plan in plans for _ in plan.to_do()), settings) as progress:
            for plan in plans:
                cluster, settled = fleet.clusters[plan.cluster], partial(journal.settled, plan)
                if settings.wait:
                    watches[plan.cluster] = waiting.Watch(cluster, settings, stop, settled)
                hooks = Hooks(stop=stop, tell=progress.step, settled=settled, pace=watches.get(plan.cluster))
                reports.append(form.carry_out(cluster, plan, hooks))
        if settings.wait:
            reports = waiting.wait(watches, reports, settings, interrupt.happened)
            journal.waited(reports)
        shown = []
        for report in reports:
            render = short.outcome if settings.summary else text.report
            shown.append(terminal.report(report, render(report, terminal.page(sys.stdout, settings))))
        code = interrupt.code or int(worst([fleet.error_code, *shown, *(report.exit for report in reports)]))
        code = journal.end(reports, code)
        if journal.error:
            terminal.fail(journal.error)
        return code
