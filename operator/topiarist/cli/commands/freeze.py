"""``topiarist freeze``: stop every writer of a cluster, also one that is at it.

What ``freeze`` and ``thaw`` share: turning the gates of all clusters of a run, and saying what became of each.

``topiarist thaw``: let writers in again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.cli import load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.errors import Exit
from topiarist.model.outcome import FreezeResult, Result, worst_exit_code
from topiarist.model.state import Freeze
from topiarist.reconcile import require_cluster_id


@click.command(
    "freeze",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist freeze clusters.yaml --reason "brokers are being replaced, ask the storage team"
  topiarist freeze --zookeeper localhost:2181/kafka --reason "incident 4711" --by "ada"
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
def command(reason: str, by: str, force: bool, **values: Any) -> None:
    """Freeze clusters: from now on nothing of topiarist writes to them, until they are thawed.

    Takes no lock: a run that is writing ends at its next topic. Plans still work, and every refusal shows who froze
    the cluster, why and since when. Kafka itself and its own tools notice nothing.
    """
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    set_freeze(options.build_settings(values), Freeze(reason, by, since), by=by, force=force)


def set_freeze(settings: Settings, freeze: Freeze | None, *, by: str, force: bool) -> None:
    """Freeze every cluster of the run, or thaw it (None), tell, and end the command with its exit code."""
    specs = load.load_clusters(settings)

    def work(name: str, cluster: ZooKeeperCluster) -> FreezeResult:
        require_cluster_id(specs[name].cluster_id, cluster.read_cluster_id())
        return cluster.set_freeze(freeze, by=by, force=force)

    try:
        with ClusterSessions(specs, settings) as fleet:
            turned = fleet.map_sessions(work)
    except KeyboardInterrupt:
        terminal.log("interrupted: some clusters may be frozen, or thawed, and others not; run it again for all")
        raise click.exceptions.Exit(130) from None
    for name, found in turned.items():
        label = f"{name}: " if name else ""
        terminal.print_outcome(terminal.sanitize_lines(f"{label}{_describe_result(found, freeze)}"))
    raise click.exceptions.Exit(int(worst_exit_code([fleet.error_code, *_exit_codes(turned)])))


def _exit_codes(results: Mapping[str, FreezeResult]) -> list[Exit]:
    return [Exit.REFUSED if found.result is Result.REFUSED else Exit.DONE for found in results.values()]


def _describe_result(result: FreezeResult, freeze: Freeze | None) -> str:
    """What became of one gate."""
    if result.result is Result.REFUSED:
        done = "thaws" if freeze is None else "freezes"
        return f"refused: {result.before}\n    that is somebody else's word; --force {done} it all the same"
    if result.result is Result.UNCHANGED:
        return f"already {result.before or 'open'}"
    was = f" (was {result.before})" if result.before else ""
    return f"{freeze or 'open'}{was}"


@click.command(
    "thaw",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist thaw clusters.yaml
  topiarist thaw --zookeeper localhost:2181/kafka --force

\b
Exit codes: 0 open, or open already; 1 an error; 2 wrong usage;
4 somebody else has frozen a cluster, or KRaft is in charge.
""",
)
@options.paths
@options.clusters
@options.connection
@options.freezing
def thaw_command(by: str, force: bool, **values: Any) -> None:
    """Thaw clusters that were frozen, by you or, with --force, by others. A gate that cannot be read is made anew."""
    set_freeze(options.build_settings(values), None, by=by, force=force)
