"""The ``topiarist moves`` command, and ``moves clear``: show moves of replicas, and put throttles of an ended run back.

``moves`` sends no write. ``moves clear`` writes under the lock of each cluster, by the adapter's ``clear_moves``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from topiarist.cli import formats, load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.errors import Exit, TopiaristError
from topiarist.inspection.moves import MoveStatus, inspect_moves, inspected_topics
from topiarist.model.moves import BatchRecord, ClearedMoves
from topiarist.model.outcome import worst_exit_code
from topiarist.output.moves import format_recorded_throttles
from topiarist.ports import OpenCluster
from topiarist.reconcile import read_cluster
from topiarist.text import format_count, printable


def _complete_paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the words that may follow ``moves``, and the mark of the shell for files."""
    words = [word for word in ("status", "clear", "revert") if word.startswith(incomplete)]
    return [*map(CompletionItem, words), CompletionItem(incomplete, type="file")]


@click.command(
    "moves",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist moves clusters.yaml
  topiarist moves --zookeeper localhost:2181/kafka
  topiarist moves clusters.yaml --cluster eu --format json | jq .clusters[].partitions

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
    settings = options.build_settings(values)
    specs = load.load_clusters(settings)

    def look(name: str, cluster: OpenCluster) -> MoveStatus:
        state = read_cluster(cluster, specs[name].cluster_id)
        topics = [state.topics[topic] for topic in sorted(inspected_topics(state))]
        return inspect_moves(name, state, cluster.inspect_all(topics), cluster.read_broker_throttles())

    with ClusterSessions(specs, settings, keep_open=False) as fleet:
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
  topiarist moves clear --zookeeper localhost:2181/kafka --yes

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
    terminal.require_interactive(yes, "clear")
    settings = options.build_settings(values)
    specs = load.load_clusters(settings)

    def find(name: str, cluster: OpenCluster) -> BatchRecord | None:
        return read_cluster(cluster, specs[name].cluster_id).batch

    with ClusterSessions(specs, settings) as fleet:
        found = fleet.map_sessions(find)
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
