"""The ``topiarist moves revert`` command: make a plan that moves replicas back, from the report of an apply.

Sends no write. The plan has the form of any other: it is reviewed, and applied with ``apply --plan``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import formats, options, terminal
from topiarist.errors import Exit
from topiarist.text import shorten_list

if TYPE_CHECKING:
    from topiarist.adapters.saved_plans.report_moves import ReportMoves
    from topiarist.model.plan import Plan
    from topiarist.model.state import ClusterState
    from topiarist.ports import PartitionInspector


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
    from topiarist.adapters import atomic_files
    from topiarist.adapters.saved_plans.encode import dumps, encode_plans
    from topiarist.adapters.saved_plans.report_moves import parse_report
    from topiarist.planning.moves.revert import plan_revert
    from topiarist.reconcile import refuse_unhealthy_moves, require_cluster_id
    from topiarist.runs.inputs import RunInputs
    from topiarist.runs.modes import match_clusters
    from topiarist.runs.sessions import ClusterSessions

    settings = options.build_settings(values)
    if settings.summary and form != "text":
        raise click.UsageError("--summary cannot be combined with --format: it is for text output")
    moved = parse_report(atomic_files.read_file(report), report)
    _log_omissions(moved, report)
    names = [name for name in moved.clusters if settings.cluster in (None, name)]
    listener = terminal.TerminalListener(settings)
    specs = match_clusters(names, settings, "the report", listener)

    def make(name: str, cluster: PartitionInspector, state: ClusterState) -> Plan:
        found = moved.clusters[name]
        require_cluster_id(found.cluster_id, state.cluster_id, "the cluster of the report")
        made = plan_revert(state, specs[name], found.topics, settings.run_options)
        return refuse_unhealthy_moves(cluster, made, state)

    inputs = RunInputs.without_topics(specs)
    with ClusterSessions(specs, settings, listener, keep_open=False) as fleet:
        plans = [inputs.filter_plan(plan, settings) for plan in fleet.make_plans(make)]
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
