"""The ``topiarist import`` command: write the topics of another tool's files as manifests, or compare them with some.

Reads files only. Each field of the input is either in a manifest or named on stderr, with its place and the reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from topiarist.adapters import atomic_files
from topiarist.adapters.manifests import yaml_text
from topiarist.adapters.manifests.diagnose import read_foreign_files
from topiarist.adapters.manifests.files import IgnoredPath
from topiarist.cli import options, terminal
from topiarist.errors import Diagnostic, Exit, InvalidManifests, Reason, TopiaristError
from topiarist.importers.formats import FORMATS, ImportResult, import_documents
from topiarist.importers.topic import ForeignDocument, find_differences
from topiarist.schema import check
from topiarist.schema.load import API_VERSION
from topiarist.text import format_count, printable, quote

_ITEM = re.compile(r"^(?:items\.)?[0-9]+\.|(?<=^channels\.).*\.(?=[^.]+$)")
"""The part of a path that leads to a resource in a list, or to a channel."""

_CLUSTER = {"apiVersion": API_VERSION, "kind": "Cluster", "spec": {"kafka": {"bootstrapServers": "b:9092"}}}
"""A Cluster document without its metadata."""


def _parse_clusters(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the names of clusters by those of the input; the key of topics that name none is empty."""
    clusters: dict[str, str] = {}
    for value in values:
        found, _, name = value.rpartition("=")
        if not name or found in clusters:
            raise click.BadParameter(f"found {quote(value)}, wanted NAME once, or FOUND=NAME once for each name found")
        for problem in check.check({**_CLUSTER, "metadata": {"name": name}}):
            raise click.BadParameter(problem.message.partition(": ")[2])
        clusters[found] = name
    return clusters


@click.command(
    "import",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist import topicctl topics/ --out manifests
  terraform show -json | topiarist import terraform - --cluster lkc-abc123=prod --out manifests
  topiarist import asyncapi api.yaml --check topics --check clusters.yaml --exit-code

\b
Exit codes: 0 imported; 1 if a document could not be read, or nothing was imported; 2 usage error.
With --exit-code also: 3 with --check if topics differ; 4 if anything was left out that a user wrote.
""",
)
@options.argument("source", metavar="FORMAT", type=click.Choice(sorted(FORMATS)))
@options.argument("paths", metavar="PATH...", nargs=-1, required=True)
@options.option(
    "--cluster",
    "clusters",
    multiple=True,
    callback=_parse_clusters,
    metavar="[FOUND=]NAME",
    help="Cluster of the topics that name none, or the name FOUND. Can be repeated.",
)
@options.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder to write to, one file for each topic; it must not exist, or be empty. Without it: standard output.",
)
@options.option(
    "--check",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="PATH",
    help="Print where the topics differ from these manifests and their Clusters, and no manifests. Can be repeated.",
)
@options.option("--exit-code", is_flag=True, help="End with 3 if topics differ, 4 if anything was left out.")
@options.option("-q", "--quiet", is_flag=True, help="Do not name what is left out.")
def command(
    source: str,
    paths: tuple[str, ...],
    clusters: dict[str, str],
    folder: Path | None,
    check: tuple[str, ...],
    **flags: bool,
) -> None:
    """Write the topics of another tool's files as manifests, or compare them with manifests.

    FORMAT is asyncapi, cfk (Confluent for Kubernetes), jikkou, julie, kafka-gitops, koperator, strimzi, terraform or
    topicctl. PATH is a file, a folder with *.yaml and *.yml, or - for standard input. Fields without a counterpart are
    named with their place. A document that cannot be read does not stop the others. Nothing is read from a cluster.
    """
    if folder is not None and check:
        raise click.UsageError("--out cannot be combined with --check, which writes no manifests")
    if folder is not None:
        atomic_files.require_empty_folder(folder)
    found = [*read_foreign_files(paths, sys.stdin.buffer)]
    documents = [each for each in found if isinstance(each, ForeignDocument)]
    if not flags["quiet"]:
        terminal.print_warnings([each.warning for each in found if isinstance(each, IgnoredPath)])
    result = import_documents(source, documents, clusters, may_repeat=bool(check))
    differs = False
    if check:
        differs = _print_differences(result, check, quiet=flags["quiet"])
    elif folder is None:
        terminal.print_result(yaml_text.dump_documents(result.documents) if result.documents else "")
    elif result.documents:
        files = {f"{body['metadata']['name']}.yaml": yaml_text.dump_file(body) for body in result.documents}
        atomic_files.write_folder(folder, files)
    if not flags["quiet"]:
        _log_account(result)
        _log_unused(result.unused, clusters)
    if not flags["quiet"] and not check:
        where = f" into {folder}" if folder else ""
        left = f", {format_count(len(result.left_out), 'field')} left out" if result.left_out else ""
        terminal.log(f"imported {format_count(len(result.documents), 'topic')}{where}{left}")
    if errors := [each for each in found if isinstance(each, Diagnostic)]:
        raise InvalidManifests(errors)
    if not result.documents:
        raise TopiaristError(Reason.INVALID_MANIFEST, "found no topic to import")
    if flags["exit_code"] and (differs or result.left_out):
        raise click.exceptions.Exit(int(Exit.CHANGES if differs else Exit.REFUSED))


def _print_differences(result: ImportResult, paths: tuple[str, ...], *, quiet: bool) -> bool:
    """Print where topics differ from manifests, and return whether any does."""
    from topiarist.runs.inputs import load_manifests

    settings = terminal.Settings(paths=paths, verbosity=-1 if quiet else 0)
    listener = terminal.TerminalListener(settings)
    specs = load_manifests(settings, listener, offline=True, with_policies=False).desired.specs
    if not any(specs.values()):
        hint = "give the folder of Topics, and the Cluster documents that they name"
        raise TopiaristError(Reason.INVALID_MANIFEST, "--check: found no topic of a known cluster", hint)
    differences = [*find_differences([topic for topic, _ in result.topics], specs)]
    lines = [*dict.fromkeys(terminal.sanitize_lines(str(each)) + "\n" for _, each in differences)]
    count = len({(topic.cluster, topic.name) for topic, _ in differences})
    total = format_count(len({(topic.cluster, topic.name) for topic, _ in result.topics}), "topic")
    terminal.print_result("".join([*lines, f"{count:,} of {total} {'differs' if count == 1 else 'differ'}\n"]))
    return bool(differences)


def _log_account(result: ImportResult) -> None:
    """Log what is left out, and what describes no topic."""
    for each in result.left_out:
        terminal.log(f"left out: {printable(str(each), 4096)}")
    if result.passed_over:
        names = sorted({_ITEM.sub("", each.field) for each in result.passed_over})
        count = format_count(len(result.passed_over), "field")
        verb = "describes" if len(result.passed_over) == 1 else "describe"
        terminal.log(f"passed over {count} that {verb} no topic: {printable(', '.join(names), 4096)}")


def _log_unused(names: list[str], clusters: Mapping[str, str]) -> None:
    """Log each ``--cluster`` that has no effect, such as one with a typing error."""
    for name in names:
        given = f"{name}={clusters[name]}" if name else clusters[name]
        reason = f"no topic names cluster {name}" if name else "each topic names a cluster; give FOUND=NAME for it"
        terminal.log(f"--cluster {printable(given, 600)} has no effect: {printable(reason, 600)}")
