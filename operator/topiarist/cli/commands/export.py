"""The ``topiarist export`` command: write a cluster's topics as manifests.

The first step to bring a cluster under management. Reads one cluster and writes a new folder (``export_cluster``);
sends no write to the cluster.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from topiarist.adapters import atomic_files
from topiarist.adapters.manifests import dump
from topiarist.cli import load, options, terminal
from topiarist.cli.clusters import ClusterSessions
from topiarist.cli.settings import Settings
from topiarist.desired.export import build_cluster_document, derive_cluster_name, export_cluster
from topiarist.model.spec import ClusterSpec
from topiarist.output import list as rendering
from topiarist.reconcile import read_cluster
from topiarist.schema import check


@click.command(
    "export",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist export --bootstrap-servers localhost:9092 --cluster prod --out prod
  topiarist export clusters.yaml --cluster prod --out prod
  topiarist plan prod

\b
Exit codes: 0 written; 1 error, nothing was written; 2 usage error.
""",
)
@options.manifests
@options.connection
@options.owner
@options.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to write to; it must not exist, or be empty.",
)
@options.option("--units", "use_units", is_flag=True, help="Write times and sizes with units, such as 7d and 1GiB.")
def command(folder: Path, *, use_units: bool, **values: Any) -> None:
    """Write the topics of one cluster as manifests: one file per topic, and a Cluster with defaults.

    A plan of the written manifests has no changes; applying them writes ownership records. Omitted are internal topics,
    topics of other software, and values that a manifest cannot express; the summary lists them. Writes nothing to the
    cluster: read-only credentials are enough.

    With an address alone, --cluster is the name of the new Cluster (default: by the address). If PATH has the Cluster
    document, only Topics are written, and they name that Cluster.
    """
    settings = options.build_settings(values)
    cluster = select_cluster(settings)
    atomic_files.require_empty_folder(folder)
    with ClusterSessions({cluster.name: cluster}, settings) as fleet:
        states = fleet.map_sessions(lambda _, connected: read_cluster(connected, cluster.cluster_id))
    for state in states.values():
        export = export_cluster(state, cluster, settings.owner, use_units=use_units)
        atomic_files.write_folder(folder, {name: dump.dump_file(body) for name, body in export.files.items()})
        if settings.verbosity >= 0:
            page = terminal.make_layout(sys.stderr, settings)
            terminal.log(rendering.format_summary(export, state, cluster, folder=str(folder), layout=page))
    raise click.exceptions.Exit(int(fleet.error_code))


def select_cluster(settings: Settings) -> ClusterSpec:
    """Return the one cluster to export: that of a document, or a new one with name and address from flags."""
    given = settings.paths or settings.clusters or settings.platform
    clusters = load.load_clusters(settings if given else replace(settings, cluster=None))
    if len(clusters) > 1:
        raise click.UsageError(f"export reads one cluster: add --cluster with one of {', '.join(sorted(clusters))}")
    (cluster,) = clusters.values()
    if cluster.source is not None:
        return cluster
    cluster = replace(cluster, name=settings.cluster or derive_cluster_name(cluster.access))
    for problem in check.check(build_cluster_document(cluster)):
        flag = "--cluster" if problem.path[0] == "metadata" else settings.address_option
        raise click.UsageError(f"{flag}: {problem.message}")
    if not settings.cluster and settings.verbosity >= 0:
        terminal.log(f"cluster name: {cluster.name}, by {settings.address_from}; to choose another, add --cluster")
    return cluster
