"""The ``topiarist import`` command: write the topics of another tool's files as manifests.

Reads files only. Each field of the input is either in a manifest or named on stderr, with its place and the reason.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from topiarist.adapters import atomic_files
from topiarist.adapters.manifests import yaml_text
from topiarist.adapters.manifests.diagnose import read_foreign_files
from topiarist.cli import options, terminal
from topiarist.errors import Diagnostic, Exit, InvalidManifests, Reason, TopiaristError
from topiarist.importers.formats import FORMATS, ImportResult, import_documents
from topiarist.importers.topic import ForeignDocument
from topiarist.text import format_count, printable

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
def command(
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
    found = [*read_foreign_files(paths, sys.stdin.buffer)]
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
