"""The ``topiarist freeze`` and ``topiarist unfreeze`` commands: block and allow writes to clusters.

``set_freeze`` sets or removes the freeze of each cluster of a run. The write takes no lock, so that it also stops
a run in progress.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import options, terminal
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit

if TYPE_CHECKING:
    from topiarist.model.outcome import FreezeResult
    from topiarist.model.state import Freeze
    from topiarist.ports import OpenCluster


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
def command(reason: str, user: str, force: bool, **values: Any) -> None:
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
    from topiarist.runs.inputs import load_clusters
    from topiarist.runs.sessions import ClusterSessions

    listener = terminal.TerminalListener(settings)
    specs = load_clusters(settings, listener)

    def work(name: str, cluster: OpenCluster) -> FreezeResult:
        require_cluster_id(specs[name].cluster_id, cluster.read_cluster_id())
        return cluster.set_freeze(freeze, by=user, force=force)

    try:
        with ClusterSessions(specs, settings, listener) as fleet:
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
        return f"already {result.before or 'open'}"
    was = f" (was {result.before})" if result.before else ""
    return f"{freeze or 'open'}{was}"


def _explain_refusal(result: FreezeResult) -> str:
    from topiarist.model.state import is_closed_by_move

    if is_closed_by_move(result.before):
        return (
            "its records were moved to Kafka, where runs continue: freeze and unfreeze it through its brokers"
            " (via: Kafka); --force opens ZooKeeper for runs again, and those through the brokers stop (MovedBack)"
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
Exit codes: 0 open, or already open; 1 error; 2 usage error; 4 another user has frozen a
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
