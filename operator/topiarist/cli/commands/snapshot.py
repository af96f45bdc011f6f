"""The ``topiarist snapshot`` command: write the state of clusters to files.

Reads each cluster once and sends no write. ``plan``, ``describe``, ``list`` and ``drift`` read the files in place of
the clusters.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from topiarist.adapters.atomic_files import write_file
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
from topiarist.cli import load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.ports import OpenCluster
from topiarist.reconcile import read_cluster
from topiarist.text import format_count

STDOUT = "-"


@click.command(
    "snapshot",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist snapshot clusters.yaml --out snapshots
  topiarist snapshot --bootstrap-servers localhost:9092 > local.jsonl
  topiarist plan topics/ --clusters clusters.yaml --snapshot snapshots

\b
Exit codes: 0 all clusters saved; 1 error; 2 usage error.
""",
)
@options.manifests
@options.connection
@options.option(
    "--out",
    default=STDOUT,
    type=click.Path(),
    metavar="FOLDER",
    help="Folder for one file CLUSTER.jsonl per cluster. Default: standard output, for a single cluster.",
)
def command(out: str, **values: Any) -> None:
    """Save the state of clusters to files, so that plans can be made without a connection.

    Reads every cluster once and writes nothing to it. Each file is written completely or not at all. A cluster that
    cannot be read is reported and keeps its previous file, and the exit code is 1.
    """
    settings = options.build_settings(values)
    specs = load.load_clusters(settings)
    if out == STDOUT and len(specs) > 1:
        raise click.UsageError(f"there are {len(specs)} clusters: add --out FOLDER, or choose one with --cluster")

    def write(name: str, cluster: OpenCluster) -> str:
        taken = datetime.now(UTC)
        state = read_cluster(cluster, specs[name].cluster_id)
        rows = dump_snapshot(Snapshot(name, taken, state))
        if out == STDOUT:
            return b"".join(rows).decode()
        path = Path(out, file_name(name))
        write_file(str(path), rows, make_parents=True)
        return f"{path}: {format_count(len(state.topics) + len(state.topic_errors), 'topic')}"

    try:
        with ClusterSessions(specs, settings, keep_open=False) as fleet:
            written = fleet.map_sessions(write)
    except KeyboardInterrupt:
        if out == STDOUT:
            raise
        terminal.log("interrupted: some files may be new; each file is complete")
        raise click.exceptions.Exit(130) from None
    for text in written.values():
        if out == STDOUT:
            terminal.print_result(text)
        elif settings.verbosity >= 0:
            terminal.log(terminal.sanitize_lines(text))
    raise click.exceptions.Exit(int(fleet.error_code))
