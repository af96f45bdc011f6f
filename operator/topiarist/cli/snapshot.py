"""``topiarist snapshot``: what clusters hold, as files that stand in for them in ``plan``. Sends no write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from topiarist.adapters.snapshot import Snapshot, dump, file_name
from topiarist.adapters.textfiles import write_whole
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli import inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.core.units import count
from topiarist.reconcile import read

STDOUT = "-"


@click.command(
    "snapshot",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist snapshot clusters.yaml --out snapshots
  topiarist snapshot --zookeeper localhost:2181/kafka > local.jsonl
  topiarist plan topics/ --clusters clusters.yaml --snapshot snapshots

\b
Exit codes: 0 all clusters written; 1 an error; 2 wrong usage.
""",
)
@options.manifests
@options.connection
@options.option(
    "--out",
    default=STDOUT,
    type=click.Path(),
    metavar="FOLDER",
    help="Where to write CLUSTER.jsonl for each cluster. Default: standard output, for a single cluster.",
)
def command(out: str, **values: Any) -> None:
    """Write down what clusters hold, so that plans can be made where there is no way to them.

    Reads every cluster once and writes nothing to it. Each file is written whole or not at all; a cluster that cannot
    be read is named, keeps the file it has, and fails the run at its end.
    """
    settings = options.settings(values)
    specs = inputs.load_clusters(settings)
    if out == STDOUT and len(specs) > 1:
        raise click.UsageError(f"there are {len(specs)} clusters: add --out FOLDER, or choose one with --cluster")

    def write(name: str, cluster: ZooKeeperCluster) -> str:
        taken = datetime.now(UTC)
        state = read(cluster, specs[name].cluster_id)
        rows = dump(Snapshot(name, taken, state))
        if out == STDOUT:
            return b"".join(rows).decode()
        path = Path(out, file_name(name))
        write_whole(str(path), rows, parents=True)
        return f"{path}: {count(len(state.topics) + len(state.faults), 'topic')}"

    try:
        with Fleet(specs, settings, keep=False) as fleet:
            written = fleet.each(write)
    except KeyboardInterrupt:
        if out == STDOUT:
            raise
        terminal.say("interrupted: some files may be new, and each is whole")
        raise click.exceptions.Exit(130) from None
    for text in written.values():
        if out == STDOUT:
            terminal.product(text)
        elif settings.verbosity >= 0:
            terminal.say(terminal.plain_lines(text))
    raise click.exceptions.Exit(int(fleet.error_code))
