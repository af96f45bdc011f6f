"""The ``topiarist freeze`` and ``topiarist unfreeze`` commands: block and allow writes to clusters.

``set_freeze`` sets or removes the freeze znode of each cluster of a run. The write takes no lock, so that it also stops
a run in progress.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from topiarist.cli import load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.errors import Exit
from topiarist.model.outcome import FreezeResult, Result, worst_exit_code
from topiarist.model.state import Freeze
from topiarist.ports import OpenCluster
from topiarist.reconcile import require_cluster_id


@click.command(
    "freeze",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist freeze clusters.yaml --reason "brokers are being replaced, ask the storage team"
  topiarist freeze --zookeeper localhost:2181/kafka --reason "incident 4711" --user "ada"
  topiarist freeze clusters.yaml --cluster eu --reason "migration" --force

\b
Exit codes: 0 frozen, or frozen already by you for this reason; 1 an error;
2 wrong usage; 4 somebody else has frozen a cluster, or KRaft is in charge.
""",
)
@options.paths
@options.clusters
@options.connection
@options.reason
@options.freezing
def command(reason: str, user: str, force: bool, **values: Any) -> None:
    """Freeze clusters: from now on nothing of topiarist writes to them, until they are unfrozen.

    Takes no lock: a run that is writing ends at its next topic. Plans still work, and every refusal shows who froze
    the cluster, why and since when. Kafka itself and its own tools notice nothing.
    """
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    set_freeze(options.build_settings(values), Freeze(reason, user, since), user=user, force=force)


def set_freeze(settings: Settings, freeze: Freeze | None, *, user: str, force: bool) -> None:
    """Freeze every cluster of the run, or unfreeze it (None), and print the result of each.

    Ends the command with its exit code.
    """
    specs = load.load_clusters(settings)

    def work(name: str, cluster: OpenCluster) -> FreezeResult:
        require_cluster_id(specs[name].cluster_id, cluster.read_cluster_id())
        return cluster.set_freeze(freeze, by=user, force=force)

    try:
        with ClusterSessions(specs, settings) as fleet:
            results = fleet.map_sessions(work)
    except KeyboardInterrupt:
        terminal.log("interrupted: some clusters may be frozen, or unfrozen, and others not; run it again for all")
        raise click.exceptions.Exit(130) from None
    for name, result in results.items():
        label = f"{name}: " if name else ""
        terminal.print_outcome(terminal.sanitize_lines(f"{label}{_describe_result(result, freeze)}"))
    raise click.exceptions.Exit(int(worst_exit_code([fleet.error_code, *_exit_codes(results)])))


def _exit_codes(results: Mapping[str, FreezeResult]) -> list[Exit]:
    return [Exit.REFUSED if result.result is Result.REFUSED else Exit.DONE for result in results.values()]


def _describe_result(result: FreezeResult, freeze: Freeze | None) -> str:
    """Return the result of setting one freeze znode as text."""
    if result.result is Result.REFUSED:
        done = "unfreezes" if freeze is None else "freezes"
        return f"refused: {result.before}\n    that is somebody else's word; --force {done} it all the same"
    if result.result is Result.UNCHANGED:
        return f"already {result.before or 'open'}"
    was = f" (was {result.before})" if result.before else ""
    return f"{freeze or 'open'}{was}"


@click.command(
    "unfreeze",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist unfreeze clusters.yaml
  topiarist unfreeze --zookeeper localhost:2181/kafka --force

\b
Exit codes: 0 open, or open already; 1 an error; 2 wrong usage;
4 somebody else has frozen a cluster, or KRaft is in charge.
""",
)
@options.paths
@options.clusters
@options.connection
@options.freezing
def unfreeze_command(user: str, force: bool, **values: Any) -> None:
    """Unfreeze clusters that you froze, or with --force those that others froze.

    A freeze znode that cannot be read is written anew.
    """
    set_freeze(options.build_settings(values), None, user=user, force=force)
