"""The ``topiarist moves revert`` command: make a plan that moves replicas back, from the report of an apply.

Sends no write. The plan has the form of any other: it is reviewed, and applied with ``apply --plan``.
"""

from __future__ import annotations

from typing import Any

import click

from topiarist.adapters import atomic_files
from topiarist.adapters.saved_plans.decode import ReportMoves, parse_report
from topiarist.adapters.saved_plans.encode import dumps, encode_plans
from topiarist.cli import formats, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.errors import Exit
from topiarist.filters.budgets import enforce_budgets
from topiarist.model.plan import Plan
from topiarist.planning.moves.revert import plan_revert
from topiarist.ports import OpenCluster
from topiarist.reconcile import read_cluster, refuse_unhealthy_moves
from topiarist.runs.modes import match_clusters
from topiarist.text import shorten_list


@click.command(
    "moves revert",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist moves revert report.jsonl --clusters clusters.yaml
  topiarist moves revert report.jsonl --clusters clusters.yaml --out back.json
  topiarist apply --plan back.json --clusters clusters.yaml

\b
Exit codes: 0 planned, also if something is refused; 1 error; 2 usage error.
""",
)
@options.argument("report", type=click.Path(), metavar="REPORT")
@options.clusters
@options.connection
@options.owner
@options.verbosity
@options.summary
@options.format_option(formats.PLAN_FORMATS)
@options.out
def command(report: str, form: str, out: str | None, **values: Any) -> None:
    """Make a plan that moves back each partition that REPORT, a file of apply --report, says was moved.

    A partition that has another list by now is refused. The kinds of moves must be allowed by the Cluster, a throttle
    must be declared, and budgets count, as for any other plan. Policies are not evaluated: they judge manifests. Writes
    nothing: read-only credentials are enough.
    """
    settings = options.build_settings(values)
    if settings.summary and form != "text":
        raise click.UsageError("--summary cannot be combined with --format: it is for text output")
    moved = parse_report(atomic_files.read_file(report), report)
    _log_omissions(moved, report)
    names = [name for name in moved.clusters if settings.cluster in (None, name)]
    with terminal.as_usage_errors():
        specs = match_clusters(names, settings, "the report", terminal.TerminalListener(settings))

    def plan(name: str, cluster: OpenCluster) -> Plan:
        found = moved.clusters[name]
        state = read_cluster(cluster, found.cluster_id, "the cluster of the report")
        made = plan_revert(state, specs[name], found.topics, settings.run_options)
        return enforce_budgets(refuse_unhealthy_moves(cluster, made, state), specs[name].budgets, partial=False)

    with ClusterSessions(specs, settings, keep_open=False) as fleet:
        plans = list(fleet.map_sessions(plan).values())
    if out is not None and (plans or fleet.error_code is Exit.DONE):
        atomic_files.write_file(out, dumps(encode_plans(plans)))
    failed = sorted(specs.keys() - {plan.cluster for plan in plans})
    terminal.print_result(formats.format_plans(plans, settings, form, failed_clusters=failed))
    raise click.exceptions.Exit(int(fleet.error_code))


def _log_omissions(moved: ReportMoves, report: str) -> None:
    """Log lines that are cut off, and a report without moves; also with ``-q``: moves may be missing in the plan."""
    if moved.cut_lines:
        numbers = shorten_list(moved.cut_lines)
        text = f"{report}: line {numbers} is cut off: a partition that it names is not moved back"
        terminal.log(terminal.sanitize_lines(text))
    if not moved.clusters:
        terminal.log(terminal.sanitize_lines(f"{report}: names no moved partition"))
