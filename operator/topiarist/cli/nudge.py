"""``topiarist nudge``: set the nodes of topics that the controller has overlooked again, as they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli import inputs, options, terminal, waiting
from topiarist.cli.fleet import Fleet
from topiarist.cli.interrupt import Interrupt
from topiarist.core.change import Plan
from topiarist.core.nudge import Nudging, checked, plan_nudge
from topiarist.core.units import count
from topiarist.errors import Exit
from topiarist.reconcile import Hooks, Report, Result, carry_out, read, worst
from topiarist.render import text
from topiarist.settings import Settings

_PATIENCE = 10.0
"""Seconds without progress after which the nudge has not helped: a controller takes milliseconds."""

_ELSE = (
    "the controller did not react to the nudge: let another broker become controller, which reads all topics anew"
    " (stop the broker that is controller, and start it again)"
)


@click.command(
    "nudge",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist nudge audit --zookeeper localhost:2181/kafka
  topiarist nudge audit clicks --clusters clusters.yaml --cluster eu --yes

\b
Exit codes: 0 taken over, or no nudge was needed; 1 an error, no such topic, or the
controller did not react; 2 wrong usage; 4 refused: being deleted or reassigned, no broker
of its partitions registered, frozen, KRaft; 5 a topic changed meanwhile.
""",
)
@options.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@options.clusters
@options.connection
@options.owner
@options.lock_timeout
@options.volume
@options.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Make the controller look again at topics that it has overlooked: describe shows them as not taken over although
    their brokers are registered.

    The node of each TOPIC is set again with the same data, under the lock and all checks of apply. Nothing of the topic
    changes. Then the run waits until the controller has taken the partitions over. A topic of which all partitions have
    been taken over is left alone.
    """
    settings = replace(options.settings(values), wait_timeout=_PATIENCE)
    try:
        names = checked(topics)
    except ValueError as error:
        raise click.UsageError(f"{error}. Manifests of clusters are given with --clusters") from None
    terminal.require_answer(yes, "nudge")
    specs = inputs.load_clusters(settings)

    def survey(name: str, cluster: ZooKeeperCluster) -> Nudging:
        state = read(cluster, specs[name].cluster_id)
        found = {topic: cluster.inspect(topic) for topic in names}
        return plan_nudge(state, name, found, settings.owner)

    with Fleet(specs, settings) as fleet:
        found = fleet.each(survey)
        plans = [each.plan for each in found.values() if each.plan.topics]
        terminal.product(text.plans(plans, terminal.page(sys.stdout, settings), applying=True))
        for name, each in found.items():
            _say_well(name, each, settings)
        absent = _say_absent(names, found)
        if not yes and any(plan.pending for plan in plans):
            _ask(plans)
        reports, signal = _carry_out(fleet, plans, settings)
        codes = [absent, fleet.error_code, *(report.exit for report in reports)]
    raise click.exceptions.Exit(signal or int(worst(codes)))


def _say_well(cluster: str, found: Nudging, settings: Settings) -> None:
    label = f"{cluster}: " if cluster else ""
    if settings.verbosity >= 0:
        for name in found.well:
            terminal.say(f"{label}{name}: no nudge is needed, the controller has taken all its partitions over")


def _say_absent(names: Sequence[str], found: Mapping[str, Nudging]) -> Exit:
    """Say which topics no cluster has; an error, unless no cluster could be read, which has been said."""
    absent = [name for name in names if found and all(name in each.absent for each in found.values())]
    for name in absent:
        terminal.say(f"error: no cluster of this run has a topic {name}")
    return Exit.ERROR if absent else Exit.DONE


def _ask(plans: Sequence[Plan]) -> None:
    total = sum(1 for plan in plans for _ in plan.to_do())
    terminal.confirm(f"Nudge {count(total, 'topic')}? Type yes")


def _carry_out(fleet: Fleet, plans: Sequence[Plan], settings: Settings) -> tuple[list[Report], int]:
    """Set the nodes, and wait for the controller: a set that it does not react to has not helped.

    Gives the reports, and the exit code of a signal that ended the run; 0 if none did.
    """
    reports: list[Report] = []
    with Interrupt() as interrupt:
        watches: dict[str, waiting.Watch] = {}
        for plan in plans:
            cluster = fleet.clusters[plan.cluster]
            stop = interrupt.happened
            watches[plan.cluster] = waiting.Watch(cluster, settings, stop, lambda plan, outcome: None)
            reports.append(carry_out(cluster, Hooks(stop=stop), plan))
        reports = waiting.wait(watches, reports, settings, interrupt.happened)
        for report in reports:
            terminal.report(report, text.report(report, terminal.page(sys.stdout, settings)))
            if report.topics(Result.UNFINISHED):
                terminal.say(f"error: {_ELSE}")
        return reports, interrupt.code
