"""``topiarist release``: give topics up. Our record goes, nothing of Kafka's does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli import inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.cli.interrupt import Interrupt
from topiarist.core.change import Plan
from topiarist.core.release import Wanted, plan_release, wanted
from topiarist.core.units import count
from topiarist.reconcile import Hooks, Report, carry_out, read, worst
from topiarist.render import text
from topiarist.settings import Settings


@click.command(
    "release",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist release audit --zookeeper localhost:2181/kafka
  topiarist release audit clicks --clusters clusters.yaml --cluster eu
  topiarist release 'legacy-*' --clusters clusters.yaml --yes

\b
Exit codes: 0 released, or nothing to release; 1 an error; 2 wrong usage;
4 refused: another owner's, frozen, KRaft; 5 a record moved.
""",
)
@options.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@options.clusters
@options.connection
@options.ownership
@options.lock_timeout
@options.volume
@options.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Give topics up: topiarist forgets that they are its own. The topics stay as they are.

    A TOPIC is a name, or a pattern like 'legacy-*', which means those of this run's --owner. Notes of deletions, and
    records that belong to an earlier topic of their name, go too. Manifests of clusters are given with --clusters.
    """
    settings = options.settings(values)
    try:
        what = wanted(topics)
    except ValueError as error:
        raise click.UsageError(f"{error}. Manifests of clusters are given with --clusters") from None
    terminal.require_answer(yes, "release")
    specs = inputs.load_clusters(settings)

    def survey(name: str, cluster: ZooKeeperCluster) -> tuple[Plan, Sequence[str]]:
        return plan_release(read(cluster, specs[name].cluster_id), name, what, settings.run)

    with Fleet(specs, settings) as fleet:
        found = fleet.each(survey)
        plans = [plan for plan, _ in found.values() if plan.topics]
        terminal.product(text.plans(plans, terminal.page(sys.stdout, settings), applying=True))
        for name, (plan, absent) in found.items():
            _say_absent(name, absent, plan, what, settings)
        if not yes and any(plan.pending for plan in plans):
            _ask(plans)
        code = _carry_out(fleet, plans, settings)
    raise click.exceptions.Exit(code)


def _say_absent(cluster: str, names: Sequence[str], plan: Plan, what: Wanted, settings: Settings) -> None:
    """Say for what there is nothing to release: for names that have no record, and for patterns that meet none."""
    label = f"{cluster}: " if cluster else ""
    if settings.verbosity < 0:
        return
    for name in names:
        terminal.say(f"{label}{name}: nothing to release, there is no record of it")
    if what.patterns and not plan.topics and not names:
        terminal.say(f"{label}nothing to release: no record of owner {settings.owner} has such a name")


def _ask(plans: Sequence[Plan]) -> None:
    total = sum(1 for plan in plans for _ in plan.to_do())
    terminal.confirm(f"Release {count(total, 'topic')}? Type yes")


def _carry_out(fleet: Fleet, plans: Sequence[Plan], settings: Settings) -> int:
    """Do what was shown, tell what became of it, and give the exit code."""
    reports: list[Report] = []
    with Interrupt() as interrupt:
        for plan in plans:
            hooks = Hooks(stop=interrupt.happened)
            reports.append(carry_out(fleet.clusters[plan.cluster], hooks, plan))
        for report in reports:
            terminal.report(report, text.report(report, terminal.page(sys.stdout, settings)))
        return interrupt.code or int(worst([fleet.error_code, *(report.exit for report in reports)]))
