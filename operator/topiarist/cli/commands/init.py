"""The commands that write manifests of a cluster: ``topiarist init`` for a new repository, ``topiarist export``.

``cli.repository`` does the work of both. They send no write to the cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from topiarist.cli import options
from topiarist.cli.parameters import reject_options

_units = options.option(
    "--units/--no-units",
    "use_units",
    default=True,
    show_default=True,
    help="Write times and sizes with units, such as 7d and 1GiB, or as Kafka's numbers.",
)


@click.command(
    "init",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist init --bootstrap-servers localhost:9092 --cluster prod
  topiarist init --zookeeper zk1:2181/kafka --cluster prod --kafka-version 3.9
  topiarist init prod
  topiarist init --ci gitlab --dry-run

\b
Exit codes: 0 written, or nothing to write; 1 error, or a file exists with other content: nothing was written;
2 usage error.
""",
)
@options.argument("folder", metavar="[FOLDER]", required=False, type=click.Path())
@options.connection
@options.cluster_name
@options.kafka_version
@options.owner
@options.verbosity
@_units
@options.option(
    "--ci",
    type=click.Choice(["auto", "github", "gitlab", "atlantis", "none"]),
    default="auto",
    show_default=True,
    help="CI configuration to write; auto: that of the forge of the git repository.",
)
@options.option("--dry-run", is_flag=True, help="Print the files, and write none.")
def command(folder: str | None, use_units: bool, ci: str, dry_run: bool, **values: Any) -> None:
    """Start a repository of topics in the working folder: topiarist.yaml, manifests, and a CI configuration.

    With an address, the topics of the cluster are exported, as by topiarist export. With FOLDER, which export or
    another user has written, its manifests are copied. With neither, those in topics/ and platform/ are used. Topics
    are in topics/, beside a guide for developers, and the Cluster is in platform/, which a branch cannot override in
    CI.

    A file that exists is never replaced. Writes nothing to the cluster: read-only credentials are enough.
    """
    from topiarist.cli.repository import write_repository

    settings = options.build_settings(values)
    if folder is not None and settings.address_option:
        raise click.UsageError(f"give either FOLDER or {settings.address_from}: both have the manifests")
    if not settings.address_option:
        names = ("cluster", "use_units", "kafka_version", "connect_timeout")
        reject_options(names, "for an export: give --bootstrap-servers or --zookeeper too")
    write_repository(settings, folder, ci, use_units=use_units, dry_run=dry_run)


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
@_units
def export_command(folder: Path, *, use_units: bool, **values: Any) -> None:
    """Write the topics of one cluster as manifests: one file per topic, and a Cluster with defaults.

    A plan of the written manifests has no changes; applying them writes ownership records. Omitted are internal topics,
    topics of other software, and values that a manifest cannot express; the summary lists them. Writes nothing to the
    cluster: read-only credentials are enough.

    With an address alone, --cluster is the name of the new Cluster (default: by the address). If PATH has the Cluster
    document, only Topics are written, and they name that Cluster.
    """
    from topiarist.cli.repository import export_to_folder

    settings = options.build_settings(values)
    raise click.exceptions.Exit(export_to_folder(settings, folder, use_units=use_units))
