"""The commands that write manifests: ``topiarist init``, ``topiarist export``, ``topiarist import``.

``cli.repository`` does the work of the first two. They send no write to the cluster.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from topiarist.adapters import atomic_files
from topiarist.adapters.manifests import yaml_text
from topiarist.adapters.manifests.texts import read_documents
from topiarist.cli import options, terminal
from topiarist.errors import Diagnostic, Exit, InvalidManifests, Reason, TopiaristError
from topiarist.importers.formats import FORMATS, ImportResult, import_documents
from topiarist.importers.topic import ForeignDocument
from topiarist.text import format_count, printable


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
@options.option("--units", "use_units", is_flag=True, help="Write times and sizes with units, such as 7d and 1GiB.")
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
    are in topics/, and the Cluster is in platform/, which a branch cannot override in CI.

    A file that exists is never replaced. Writes nothing to the cluster: read-only credentials are enough.
    """
    from topiarist.cli.repository import write_repository

    settings = options.build_settings(values)
    if folder is not None and settings.address_option:
        raise click.UsageError(f"give either FOLDER or {settings.address_from}: both have the manifests")
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
@options.option("--units", "use_units", is_flag=True, help="Write times and sizes with units, such as 7d and 1GiB.")
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


# The ``topiarist import`` command: write the topics of another tool's files as manifests.
#
# Reads files only. Each field of the input is either in a manifest or named on stderr, with its place and the reason.

_ITEM = re.compile(r"^(?:items\.)?[0-9]+\.")
"""The start of the path of a resource in a list."""


@click.command(
    "import",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist import topicctl topics/ --out manifests
  topiarist import strimzi kafka-topics.yaml --cluster prod
  terraform show -json | topiarist import terraform - --cluster prod --out manifests

\b
Exit codes: 0 imported; 1 if a document could not be read, or nothing was imported; 2 usage error;
with --exit-code 4 if anything was left out that a user wrote.
""",
)
@options.argument("source", metavar="FORMAT", type=click.Choice(sorted(FORMATS)))
@options.argument("paths", metavar="PATH...", nargs=-1, required=True)
@options.option("--cluster", default="", metavar="NAME", help="Cluster of the topics that name none.")
@options.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to write to, one file for each topic; it must not exist, or be empty. Without it: standard output.",
)
@options.option("--exit-code", "tells_left_out", is_flag=True, help="End with 4 if anything was left out.")
@options.option("-q", "--quiet", is_flag=True, help="Do not name what is left out.")
def import_command(
    source: str, paths: tuple[str, ...], cluster: str, folder: Path | None, *, tells_left_out: bool, quiet: bool
) -> None:
    """Write the topics of another tool's files as manifests.

    FORMAT is the tool: jikkou, julie, kafka-gitops, strimzi, terraform or topicctl. PATH is a file, a folder with
    *.yaml and *.yml, or - for standard input. Fields without a counterpart are named with their place, never dropped in
    silence. A document that cannot be read does not stop the others. Nothing is read from a cluster: compare the
    manifests with it by topiarist plan.
    """
    if folder is not None:
        atomic_files.require_empty_folder(folder)
    found = [*read_documents(paths, sys.stdin.buffer)]
    result = import_documents(source, [each for each in found if isinstance(each, ForeignDocument)], cluster)
    if folder is None:
        terminal.print_result(yaml_text.dump_documents(result.documents) if result.documents else "")
    elif result.documents:
        files = {f"{body['metadata']['name']}.yaml": yaml_text.dump_file(body) for body in result.documents}
        atomic_files.write_folder(folder, files)
    if not quiet:
        _log_result(result, folder)
    if errors := [each for each in found if isinstance(each, Diagnostic)]:
        raise InvalidManifests(errors)
    if not result.documents:
        raise TopiaristError(Reason.INVALID_MANIFEST, "found no topic to import")
    if tells_left_out and result.left_out:
        raise click.exceptions.Exit(int(Exit.REFUSED))


def _log_result(result: ImportResult, folder: Path | None) -> None:
    """Log what is left out, what servers and tools have set, and the number of topics."""
    for each in result.left_out:
        terminal.log(f"left out: {printable(str(each), 4096)}")
    if result.passed_over:
        names = sorted({_ITEM.sub("", each.field) for each in result.passed_over})
        count = format_count(len(result.passed_over), "field")
        terminal.log(f"passed over {count} that a server or a tool has set: {printable(', '.join(names), 4096)}")
    where = f" into {folder}" if folder else ""
    left = f", {format_count(len(result.left_out), 'field')} left out" if result.left_out else ""
    terminal.log(f"imported {format_count(len(result.documents), 'topic')}{where}{left}")
