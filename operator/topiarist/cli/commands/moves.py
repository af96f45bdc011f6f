"""The commands about moves of replicas, ``topiarist moves``, ``moves clear`` and ``moves revert``, and about the
freeze.

``moves`` and ``moves revert`` send no write. ``moves clear`` writes under the lock of each cluster, by the adapter's
``clear_moves``.

``topiarist freeze`` and ``topiarist unfreeze`` block and allow writes to clusters: ``set_freeze`` sets or removes the
freeze of each cluster of a run. The write takes no lock, so that it also stops a run in progress.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import formats, options, terminal
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit, TopiaristError
from topiarist.text import format_count, printable, shorten_list

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from topiarist.adapters.saved_plans.decode import ReportMoves
    from topiarist.inspection.moves import MoveStatus
    from topiarist.model.moves import BatchRecord, ClearedMoves
    from topiarist.model.outcome import FreezeResult
    from topiarist.model.plan import Plan
    from topiarist.model.state import ClusterState, Freeze
    from topiarist.ports import OpenCluster, PartitionInspector

# The ``topiarist moves revert`` command: make a plan that moves replicas back, from the report of an apply.
#
# Sends no write. The plan has the form of any other: it is reviewed, and applied with ``apply --plan``.


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
def revert_command(report: str, form: str, out: str | None, **values: Any) -> None:
    """Make a plan that moves back each partition that REPORT, a file of apply --report, says was moved.

    A partition that has another list by now is refused. The kinds of moves must be allowed by the Cluster, a throttle
    must be declared, and budgets count, as for any other plan. Policies are not evaluated: they judge manifests. Writes
    nothing: read-only credentials are enough.
    """
    from topiarist.adapters import atomic_files
    from topiarist.adapters.saved_plans.decode import parse_report
    from topiarist.planning.without_specs import plan_revert
    from topiarist.reconcile import refuse_unhealthy_moves, require_cluster_id
    from topiarist.runs.inputs import RunInputs
    from topiarist.runs.modes import match_clusters
    from topiarist.runs.sessions import ClusterSessions

    settings = options.build_settings(values)
    if settings.summary and form != "text":
        raise click.UsageError("--summary cannot be combined with --format: it is for text output")
    options.require_separate_files(settings, {"--out": out}, report)
    moved = parse_report(atomic_files.read_file(report), report)
    _log_omissions(moved, report)
    names = [name for name in moved.clusters if settings.cluster in (None, name)]
    listener = terminal.TerminalListener(settings)
    source = "the report" if moved.clusters else "a report without moves"
    specs = match_clusters(names, settings, source, listener)

    def make(name: str, cluster: PartitionInspector, state: ClusterState) -> Plan:
        found = moved.clusters[name]
        require_cluster_id(found.cluster_id, state.cluster_id, "the cluster of the report")
        made = plan_revert(state, specs[name], found.topics, settings.run_options)
        if settings.verbosity >= 0 and (back := len(found.topics) - len(made.topics)):
            count = f"{back:,} of {format_count(len(found.topics), 'topic')} that the report moved"
            terminal.log(f"{terminal.label_cluster(name)}nothing to move back of {count}")
        return refuse_unhealthy_moves(cluster, made, state)

    inputs = RunInputs.without_topics(specs)
    with ClusterSessions(specs, settings, listener, keep_open=False) as fleet:
        plans = [inputs.filter_plan(plan, settings) for plan in fleet.make_plans(make)]
    if out is not None and (plans or fleet.error_code is Exit.DONE):
        atomic_files.write_file(out, formats.encode_plan_file(plans, fleet.errors))
    terminal.print_result(formats.format_plans(plans, settings, form, errors=fleet.errors))
    raise click.exceptions.Exit(int(fleet.error_code))


def _log_omissions(moved: ReportMoves, report: str) -> None:
    """Log lines that are cut off; also with ``-q``: moves may be missing in the plan."""
    if moved.cut_lines:
        numbers = shorten_list(moved.cut_lines)
        text = f"{report}: line {numbers} is cut off: a partition that it names is not moved back"
        terminal.log(terminal.sanitize_lines(text))


def _complete_paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the words that may follow ``moves``, and the mark of the shell for files."""
    from click.shell_completion import CompletionItem

    words = [word for word in ("status", "clear", "revert") if word.startswith(incomplete)]
    return [*map(CompletionItem, words), CompletionItem(incomplete, type="file")]


@click.command(
    "moves",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist moves clusters.yaml
  topiarist moves --bootstrap-servers localhost:9092
  topiarist moves clusters.yaml --cluster eu --format json | jq '.clusters[].partitions'

\b
Exit codes: 0 nothing is wrong, also while replicas move; 1 error, or a reassignment request
that the controller never ends; 2 usage error.
""",
)
@options.argument("paths", nargs=-1, type=click.Path(), metavar="[PATH]...", shell_complete=_complete_paths)
@options.clusters
@options.connection
@options.verbosity
@options.format_option(formats.MOVES_FORMATS)
def command(form: str, **values: Any) -> None:
    """Show the moves of replicas: the last batch, the partitions that are left, what they wait for, and throttles.

    Shows moves of other clients too, entries of the reassignment request that block it, and throttles that no batch of
    topiarist explains. Also: topiarist moves status. Writes nothing: read-only credentials are enough.
    """
    from topiarist.inspection.moves import inspect_moves, inspected_topics
    from topiarist.model.outcome import worst_exit_code

    settings = options.build_settings(values)

    def look(name: str, cluster: OpenCluster) -> MoveStatus:
        state = fleet.read(name, cluster)
        topics = [state.topics[topic] for topic in sorted(inspected_topics(state))]
        return inspect_moves(name, state, cluster.inspect_all(topics), cluster.read_broker_throttles())

    with terminal.open_sessions(settings, keep_open=False) as fleet:
        statuses = list(fleet.map_sessions(look).values())
    if statuses:
        terminal.print_result(formats.MOVES_FORMATS[form](statuses, settings))
    stuck = [Exit.ERROR for status in statuses if status.stuck]
    raise click.exceptions.Exit(int(worst_exit_code([fleet.error_code, *stuck])))


@click.command(
    "moves clear",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist moves clear clusters.yaml --cluster eu
  topiarist moves clear --bootstrap-servers localhost:9092 --yes

\b
Exit codes: 0 cleared, or nothing to clear; 1 error; 2 usage error; 4 a reassignment request
exists, or the cluster has a write block.
""",
)
@options.paths
@options.clusters
@options.connection
@options.owner
@options.lock_timeout
@options.verbosity
@options.yes
def clear_command(yes: bool, **values: Any) -> None:
    """Put back the throttles that a run of moves left, and delete its record, if no run is going to continue.

    Only values that topiarist's record names are put back, and only where they are still those of topiarist. The next
    apply of the same owner does this by itself. Refused while a reassignment request exists: brokers may still copy.
    """
    from topiarist.model.outcome import worst_exit_code

    terminal.require_interactive(yes, "clear")
    settings = options.build_settings(values)
    with terminal.open_sessions(settings) as fleet:
        found = fleet.map_sessions(lambda name, cluster: fleet.read(name, cluster).batch)
        records = {name: record for name, record in found.items() if record}
        _show_records(records, settings)
        if records and not yes:
            terminal.confirm(f"Clear the last batch of {format_count(len(records), 'cluster')}? Type yes")
        try:
            codes = [fleet.error_code, *(_clear(name, fleet.clusters[name]) for name in found)]
        except KeyboardInterrupt:
            terminal.log("interrupted: some clusters may not be cleared yet; run the command again")
            raise click.exceptions.Exit(130) from None
    raise click.exceptions.Exit(int(worst_exit_code(codes)))


def _show_records(records: Mapping[str, BatchRecord], settings: Settings) -> None:
    from topiarist.output.moves import format_recorded_throttles

    layout = terminal.make_layout(sys.stdout, settings)
    for name, record in records.items():
        count = sum(map(len, record.throttles.values()))
        text = f"batch {record.batch} of {record.batches} by owner {printable(record.owner)}"
        terminal.print_result(f"{terminal.label_cluster(name)}{text}, {format_count(count, 'throttle value')}")
        terminal.print_result(format_recorded_throttles(record, layout))


def _clear(name: str, cluster: OpenCluster) -> Exit:
    label = terminal.label_cluster(name)
    try:
        # Also without a record: a record that cannot be read is an error, which a plan only warns of.
        cleared = cluster.clear_moves()
    except TopiaristError as error:
        terminal.print_error(error, name)
        return error.reason.exit_code
    return terminal.print_outcome(terminal.sanitize_lines(f"{label}{_describe_cleared(cleared)}"))


def _describe_cleared(cleared: ClearedMoves | None) -> str:
    if cleared is None:
        return "nothing to clear: there is no record of a batch"
    put_back = "its throttles are put back, and " if cleared.record.throttles else ""
    return "\n".join([f"cleared: {put_back}its record is deleted", *(f"    {remark}" for remark in cleared.remarks)])


@click.command(
    "freeze",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist freeze clusters.yaml --reason "brokers are being replaced, ask the storage team"
  topiarist freeze --bootstrap-servers localhost:9092 --reason "incident 4711" --user "ada"
  topiarist freeze clusters.yaml --cluster eu --reason "migration" --force

\b
Exit codes: 0 frozen, or already frozen by you for this reason; 1 error; 2 usage error;
4 another user has frozen a cluster, or through ZooKeeper: the controller is a KRaft one.
""",
)
@options.paths
@options.clusters
@options.connection
@options.reason
@options.freezing
def freeze_command(reason: str, user: str, force: bool, **values: Any) -> None:
    """Stop topiarist from writing to clusters until they are unfrozen.

    Takes no lock: a run in progress ends before its next topic. Plans still work, and every refused run shows the user,
    the reason and the time of the freeze. Kafka and its own tools are not affected.
    """
    from topiarist.model.state import Freeze

    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    set_freeze(options.build_settings(values), Freeze(reason, user, since), user=user, force=force)


def set_freeze(settings: Settings, freeze: Freeze | None, *, user: str, force: bool) -> None:
    """Freeze every cluster of the run, or unfreeze it (None), and print the result of each.

    Ends the command with its exit code.
    """
    from topiarist.model.outcome import Result, worst_exit_code
    from topiarist.reconcile import require_cluster_id

    def work(name: str, cluster: OpenCluster) -> FreezeResult:
        require_cluster_id(fleet.specs[name].cluster_id, cluster.read_cluster_id())
        return cluster.set_freeze(freeze, by=user, force=force)

    try:
        with terminal.open_sessions(settings) as fleet:
            results = fleet.map_sessions(work)
    except KeyboardInterrupt:
        terminal.log("interrupted: some clusters may not be changed yet; run the command again")
        raise click.exceptions.Exit(130) from None
    for name, result in results.items():
        terminal.print_outcome(
            terminal.sanitize_lines(f"{terminal.label_cluster(name)}{_describe_result(result, freeze)}")
        )
    codes = [Exit.REFUSED for result in results.values() if result.result is Result.REFUSED]
    raise click.exceptions.Exit(int(worst_exit_code([fleet.error_code, *codes])))


def _describe_result(result: FreezeResult, freeze: Freeze | None) -> str:
    """Return the result of setting the freeze of one cluster as text."""
    from topiarist.model.outcome import Result

    if result.result is Result.REFUSED:
        return f"refused: {result.before}\n    {_explain_refusal(result)}"
    if result.result is Result.UNCHANGED:
        return f"already {result.before or 'unfrozen'}"
    was = f" (had been {result.before})" if result.before else ""
    return f"{freeze or 'unfrozen'}{was}"


def _explain_refusal(result: FreezeResult) -> str:
    from topiarist.model.state import is_closed_by_move

    if is_closed_by_move(result.before):
        return (
            "its records were moved to Kafka, where runs continue: freeze and unfreeze it through its brokers"
            " (via: Kafka); --force allows runs through ZooKeeper again, and those through the brokers stop (MovedBack)"
        )
    return "another user froze it; to override this, add --force"


@click.command(
    "unfreeze",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist unfreeze clusters.yaml
  topiarist unfreeze --bootstrap-servers localhost:9092 --force

\b
Exit codes: 0 unfrozen, or already unfrozen; 1 error; 2 usage error; 4 another user has frozen a
cluster, or through ZooKeeper: the controller is a KRaft one.
""",
)
@options.paths
@options.clusters
@options.connection
@options.freezing
def unfreeze_command(user: str, force: bool, **values: Any) -> None:
    """Allow writes to clusters that you froze, or with --force to clusters that another user froze.

    A freeze that cannot be read is replaced.
    """
    set_freeze(options.build_settings(values), None, user=user, force=force)
