"""What ``freeze`` and ``thaw`` share: turning the gates of all clusters of a run, and saying what became of each."""

from __future__ import annotations

from collections.abc import Mapping

import click

from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.adapters.zookeeper.gate import Turned
from topiarist.cli import inputs, terminal
from topiarist.cli.fleet import Fleet
from topiarist.core.state import Freeze
from topiarist.errors import Exit
from topiarist.reconcile import Result, require_meant, worst
from topiarist.settings import Settings


def turn(settings: Settings, freeze: Freeze | None, *, by: str, force: bool) -> None:
    """Freeze every cluster of the run, or thaw it (None), tell, and end the command with its exit code."""
    specs = inputs.load_clusters(settings)

    def work(name: str, cluster: ZooKeeperCluster) -> Turned:
        require_meant(specs[name].cluster_id, cluster.cluster_id())
        return cluster.turn(freeze, by=by, force=force)

    try:
        with Fleet(specs, settings) as fleet:
            turned = fleet.each(work)
    except KeyboardInterrupt:
        terminal.say("interrupted: some clusters may be frozen, or thawed, and others not; run it again for all")
        raise click.exceptions.Exit(130) from None
    for name, found in turned.items():
        label = f"{name}: " if name else ""
        terminal.outcome(terminal.plain_lines(f"{label}{_words(found, freeze)}"))
    raise click.exceptions.Exit(int(worst([fleet.error_code, *_codes(turned)])))


def _codes(turned: Mapping[str, Turned]) -> list[Exit]:
    return [Exit.REFUSED if found.result is Result.REFUSED else Exit.DONE for found in turned.values()]


def _words(found: Turned, freeze: Freeze | None) -> str:
    """What became of one gate."""
    if found.result is Result.REFUSED:
        done = "thaws" if freeze is None else "freezes"
        return f"refused: {found.before}\n    that is somebody else's word; --force {done} it all the same"
    if found.result is Result.ALREADY:
        return f"already {found.before or 'open'}"
    was = f" (was {found.before})" if found.before else ""
    return f"{freeze or 'open'}{was}"
