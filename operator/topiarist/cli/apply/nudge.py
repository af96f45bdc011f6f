"""The ``topiarist nudge`` command: write the topic znodes of overlooked topics again, unchanged.

A controller that missed a topic reads its znode after such a write. The plan is ``plan_nudge``; ``execute`` writes it
as any other plan and waits for the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from topiarist.cli import formats, load, options, terminal
from topiarist.cli.apply.execute import apply_plans, confirm_plans
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.errors import Exit
from topiarist.model.outcome import Result, worst_exit_code
from topiarist.planning.nudge import NudgePlan, parse_topic_names, plan_nudge
from topiarist.ports import OpenCluster
from topiarist.reconcile import read_cluster

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
    # Only the controller's reaction shows whether the nudge helped, so the run always waits.
    settings = replace(options.build_settings(values), wait=True, wait_timeout=_NO_PROGRESS_TIMEOUT_S)
    try:
        names = parse_topic_names(topics)
    except ValueError as error:
        raise click.UsageError(f"{error}. Manifests of clusters are given with --clusters") from None
    terminal.require_interactive(yes, "nudge")
    specs = load.load_clusters(settings)

    def make_plan(name: str, cluster: OpenCluster) -> NudgePlan:
        state = read_cluster(cluster, specs[name].cluster_id)
        return plan_nudge(state, name, {topic: cluster.inspect(topic) for topic in names}, settings.owner)

    with ClusterSessions(specs, settings) as sessions:
        found = sessions.map_sessions(make_plan)
        plans = [each.plan for each in found.values() if each.plan.topics]
        terminal.print_result(formats.format_plans_as_text(plans, settings, applying=True))
        absent = _log_not_nudged(names, found, settings)
        if not yes and any(plan.has_changes for plan in plans):
            confirm_plans(plans, "Nudge")
        reports, code = apply_plans(sessions, plans, settings)
    if any(report.outcomes_with(Result.PENDING) for report in reports):
        terminal.log(f"error: {_NO_REACTION_HINT}")
    raise click.exceptions.Exit(code if code > max(Exit) else int(worst_exit_code([absent, Exit(code)])))


def _log_not_nudged(names: Sequence[str], nudges: Mapping[str, NudgePlan], settings: Settings) -> Exit:
    """Log the topics that need no nudge and those that no cluster has; return ``ERROR`` for the latter.

    Returns ``DONE`` if no cluster could be read, because that error is reported already.
    """
    for cluster, nudge in nudges.items():
        for name in nudge.initialized if settings.verbosity >= 0 else ():
            label = f"{cluster}: " if cluster else ""
            terminal.log(f"{label}{name}: no nudge is needed, the controller has taken all its partitions over")
    absent = [name for name in names if nudges and all(name in each.not_found for each in nudges.values())]
    for name in absent:
        terminal.log(f"error: no cluster of this run has a topic {name}")
    return Exit.ERROR if absent else Exit.DONE
