"""The ``topiarist nudge`` command: write the topic znodes of overlooked topics again, unchanged.

A controller that missed a topic reads its znode after such a write. The plan is ``plan_nudge``; ``apply_plan``
writes it as any other plan, and ``wait`` then watches the controller.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from topiarist import throttle
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.cli import load, options, terminal
from topiarist.cli.apply import wait
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.interrupt import Interrupt
from topiarist.cli.settings import Settings
from topiarist.errors import Exit
from topiarist.model.outcome import ReconcileReport, Result, worst_exit_code
from topiarist.model.plan import Plan
from topiarist.output.text import plan as plan_
from topiarist.output.text.apply import format_report
from topiarist.planning.nudge import NudgePlan, parse_topic_names, plan_nudge
from topiarist.reconcile import ApplyHooks, apply_plan, read_cluster
from topiarist.text import format_count

_NO_PROGRESS_TIMEOUT_S = 10.0
"""Seconds without progress after which the nudge is reported as failed.

A controller reacts within milliseconds.
"""

_NO_REACTION_HINT = (
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
@options.verbosity
@options.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Make the controller look again at topics that it has overlooked: describe shows them as not taken over although
    their brokers are registered.

    The node of each TOPIC is set again with the same data, under the lock and all checks of apply. Nothing of the topic
    changes. Then the run waits until the controller has taken the partitions over. A topic of which all partitions have
    been taken over is left alone.
    """
    settings = replace(options.build_settings(values), wait_timeout=_NO_PROGRESS_TIMEOUT_S)
    try:
        names = parse_topic_names(topics)
    except ValueError as error:
        raise click.UsageError(f"{error}. Manifests of clusters are given with --clusters") from None
    terminal.require_interactive(yes, "nudge")
    specs = load.load_clusters(settings)

    def survey(name: str, cluster: ZooKeeperCluster) -> NudgePlan:
        state = read_cluster(cluster, specs[name].cluster_id)
        found = {topic: cluster.inspect(topic) for topic in names}
        return plan_nudge(state, name, found, settings.owner)

    with ClusterSessions(specs, settings) as fleet:
        found = fleet.map_sessions(survey)
        plans = [each.plan for each in found.values() if each.plan.topics]
        terminal.print_result(plan_.format_plans(plans, terminal.make_layout(sys.stdout, settings), applying=True))
        for name, each in found.items():
            _log_unneeded(name, each, settings)
        absent = _log_absent(names, found)
        if not yes and any(plan.has_changes for plan in plans):
            _confirm(plans)
        reports, signal = _apply_plans(fleet, plans, settings)
        codes = [absent, fleet.error_code, *(report.exit_code for report in reports)]
    raise click.exceptions.Exit(signal or int(worst_exit_code(codes)))


def _log_unneeded(cluster: str, nudge: NudgePlan, settings: Settings) -> None:
    label = f"{cluster}: " if cluster else ""
    if settings.verbosity >= 0:
        for name in nudge.initialized:
            terminal.log(f"{label}{name}: no nudge is needed, the controller has taken all its partitions over")


def _log_absent(names: Sequence[str], nudges: Mapping[str, NudgePlan]) -> Exit:
    """Log the topics that no cluster has, and return ``ERROR`` for them.

    Returns ``DONE`` if no cluster could be read, because that error is reported already.
    """
    absent = [name for name in names if nudges and all(name in each.not_found for each in nudges.values())]
    for name in absent:
        terminal.log(f"error: no cluster of this run has a topic {name}")
    return Exit.ERROR if absent else Exit.DONE


def _confirm(plans: Sequence[Plan]) -> None:
    total = sum(1 for plan in plans for _ in plan.actionable_topics())
    terminal.confirm(f"Nudge {format_count(total, 'topic')}? Type yes")


def _apply_plans(
    sessions: ClusterSessions, plans: Sequence[Plan], settings: Settings
) -> tuple[list[ReconcileReport], int]:
    """Write the topic znodes and wait for the controller, which shows whether the nudge helped.

    Returns the reports, and the exit code of a signal that ended the run, or 0.
    """
    reports: list[ReconcileReport] = []
    with Interrupt() as interrupt:
        watches: dict[str, throttle.ControllerWait] = {}
        for plan in plans:
            cluster = sessions.clusters[plan.cluster]
            stop = interrupt.has_happened
            watches[plan.cluster] = wait.make_controller_wait(cluster, settings, stop, lambda plan, outcome: None)
            reports.append(apply_plan(cluster, ApplyHooks(stop=stop), plan))
        reports = wait.wait_for_controllers(watches, reports, settings, interrupt.has_happened)
        for report in reports:
            terminal.print_report(report, format_report(report, terminal.make_layout(sys.stdout, settings)))
            if report.outcomes_with(Result.PENDING):
                terminal.log(f"error: {_NO_REACTION_HINT}")
        return reports, interrupt.exit_code
