"""The ``topiarist nudge`` command: write the topic znodes of overlooked topics again, unchanged.

A controller that missed a topic reads its znode after such a write. The plan is ``plan_nudge``; ``execute`` writes it
as any other plan and waits for the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from msgspec.structs import replace

from topiarist.cli import formats, load, options, terminal
from topiarist.cli.apply.execute import apply_plans, confirm_plans
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.name_completion import complete_topic
from topiarist.cli.settings import Settings
from topiarist.errors import Exit
from topiarist.model.outcome import Result, worst_exit_code
from topiarist.planning.without_specs import NudgePlan, parse_topic_names, plan_nudge
from topiarist.ports import OpenCluster
from topiarist.reconcile import read_cluster

_NO_PROGRESS_TIMEOUT_S = 10.0
"""Seconds without progress after which the nudge is reported as failed.

A controller reacts within milliseconds.
"""

_NO_REACTION_HINT = (
    "the controller did not react to the nudge: restart the broker that is controller, so that another broker becomes"
    " controller and reads all topics again"
)


@click.command(
    "nudge",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist nudge audit --zookeeper localhost:2181/kafka
  topiarist nudge audit clicks --clusters clusters.yaml --cluster eu --yes

\b
Exit codes: 0 initialized, or no nudge was needed; 1 error, no such topic, or no reaction
of the controller; 2 usage error; 4 refused: deletion or reassignment in progress, no
registered broker, frozen cluster, KRaft; 5 a topic changed since it was read.
""",
)
@options.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic)
@options.clusters
@options.connection
@options.owner
@options.lock_timeout
@options.verbosity
@options.yes
def command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Make the controller initialize topics that it has missed: describe shows them as not initialized although their
    brokers are registered.

    Only through ZooKeeper, because Kafka's protocol has no request for it: writes the znode of each TOPIC again with
    the same data, under the lock and with all checks of apply, and waits until the controller has initialized the
    partitions. Nothing else changes. Initialized topics are skipped.
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
        terminal.print_result(formats.format_plans(plans, settings, applying=True))
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
        label = terminal.label_cluster(cluster)
        for name in nudge.initialized if settings.verbosity >= 0 else ():
            terminal.log(f"{label}{name}: no nudge is needed, the controller has initialized all its partitions")
    absent = [name for name in names if nudges and all(name in each.not_found for each in nudges.values())]
    for name in absent:
        terminal.log(f"error: no cluster of this run has a topic {name}")
    return Exit.ERROR if absent else Exit.DONE
