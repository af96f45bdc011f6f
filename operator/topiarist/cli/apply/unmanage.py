"""The ``topiarist unmanage`` command: remove the ownership records of topics, and keep the topics.

The plan is ``plan_unmanage``; ``execute`` writes it under the cluster's lock. Nothing of Kafka's is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from topiarist.cli import formats, load, options, terminal
from topiarist.cli.apply.execute import apply_plans, confirm_plans
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.name_completion import complete_topic
from topiarist.cli.settings import Settings
from topiarist.model.plan import Plan
from topiarist.planning.without_specs import UnmanageRequest, parse_unmanage_request, plan_unmanage
from topiarist.ports import Cluster
from topiarist.reconcile import read_cluster


@click.command(
    "unmanage",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist unmanage audit --zookeeper localhost:2181/kafka
  topiarist unmanage audit clicks --clusters clusters.yaml --cluster eu
  topiarist unmanage 'legacy-*' --clusters clusters.yaml --yes

\b
Exit codes: 0 unmanaged, or nothing to unmanage; 1 error; 2 usage error; 4 refused:
another owner, frozen cluster, KRaft; 5 a record changed since it was read.
""",
)
@options.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic)
@options.clusters
@options.connection
@options.ownership
@options.lock_timeout
@options.verbosity
@options.yes
def command(topics: Sequence[str], yes: bool, **values: Any) -> None:
    """Remove the ownership records of topics. The topics and their configs stay as they are.

    TOPIC is a name, or a pattern such as 'legacy-*', which matches only topics of this run's owner (--owner). Deletion
    records, and records of earlier topics of the same name, are removed too. Give Cluster documents with --clusters.
    """
    settings = options.build_settings(values)
    try:
        request = parse_unmanage_request(topics)
    except ValueError as error:
        raise click.UsageError(f"{error}. Manifests of clusters are given with --clusters") from None
    terminal.require_interactive(yes, "unmanage")
    specs = load.load_clusters(settings)

    def make_plan(name: str, cluster: Cluster) -> tuple[Plan, Sequence[str]]:
        return plan_unmanage(read_cluster(cluster, specs[name].cluster_id), name, request, settings.run_options)

    with ClusterSessions(specs, settings) as sessions:
        found = sessions.map_sessions(make_plan)
        plans = [plan for plan, _ in found.values() if plan.topics]
        terminal.print_result(formats.format_plans(plans, settings, applying=True))
        for name, (plan, absent) in found.items():
            _log_absent(name, absent, plan, request, settings)
        if not yes and any(plan.has_changes for plan in plans):
            confirm_plans(plans, "Unmanage")
        _, code = apply_plans(sessions, plans, settings)
    raise click.exceptions.Exit(code)


def _log_absent(cluster: str, names: Sequence[str], plan: Plan, request: UnmanageRequest, settings: Settings) -> None:
    """Log the names without a record, and patterns that match no record."""
    label = terminal.label_cluster(cluster)
    if settings.verbosity < 0:
        return
    for name in names:
        terminal.log(f"{label}{name}: nothing to unmanage, it has no ownership record")
    if request.patterns and not plan.topics and not names:
        terminal.log(f"{label}nothing to unmanage: no topic of owner {settings.owner} matches")
