"""The ``topiarist validate`` command: check manifests without a cluster."""

from __future__ import annotations

from typing import Any

import click

from topiarist.cli import formats, options, terminal
from topiarist.errors import InvalidManifests
from topiarist.text import format_count


@click.command(
    "validate",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist validate topics/
  topiarist validate topics/ --clusters clusters.yaml
  git diff --name-only main -- '*.yaml' | xargs topiarist validate
  topiarist validate topics/ --format sarif >topiarist.sarif
  topiarist validate - < orders.yaml
""",
)
@options.manifests
@options.require_topics
@options.format_option(["text", *formats.DIAGNOSTIC_FORMATS])
def command(form: str, **values: Any) -> None:
    """Check manifests: syntax, schema, names, config values, and rules between fields.

    Prints all errors, each with file, line and column, and ends with exit code 1 if there are any. Connects to nothing.
    A topic may name a cluster without a Cluster document: that is an error with --platform or --clusters, else a
    warning, and the checks that need the document are skipped.
    """
    from topiarist.runs.inputs import load_manifests

    settings = options.build_settings(values)
    try:
        desired = load_manifests(settings, terminal.TerminalListener(settings), offline=True).desired
    except InvalidManifests as error:
        if form == "text":
            raise
        terminal.print_result(formats.format_diagnostics(form, error.errors, (), error.suppressed_count))
        raise click.exceptions.Exit(int(error.reason.exit_code)) from None
    if form != "text":
        terminal.print_result(formats.format_diagnostics(form, (), desired.warnings))
    elif settings.verbosity >= 0:
        terminal.log(f"{format_count(desired.validated_count, 'topic')} valid")
