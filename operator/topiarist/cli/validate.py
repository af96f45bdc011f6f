"""``topiarist validate``: everything about manifests that needs no cluster."""

from __future__ import annotations

from typing import Any

import click

from topiarist.cli import formats, inputs, options, terminal
from topiarist.core.units import count
from topiarist.errors import InvalidManifests


@click.command(
    "validate",
    cls=options.Command,
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
@options.option(
    "--format", "form", type=click.Choice(["text", "json", "github", "sarif"]), default="text", show_default=True
)
def command(form: str, **values: Any) -> None:
    """Check manifests: syntax, schema, names, config values, and rules between fields.

    Every complaint names file, line and column; all of them at once. Ends with 1 if there is any. A cluster that no
    document has is an error with --platform or --clusters. Without these it is a warning, and the checks that need the
    document are left out.
    """
    settings = options.settings(values)
    try:
        desired = inputs.load(settings, offline=True)
    except InvalidManifests as error:
        if form == "text":
            raise
        terminal.product(formats.COMPLAINTS[form](error.complaints, (), error.more))
        raise click.exceptions.Exit(int(error.reason.exit)) from None
    if form != "text":
        terminal.product(formats.COMPLAINTS[form]((), desired.warnings, 0))
    elif settings.verbosity >= 0:
        terminal.say(f"{count(desired.judged, 'topic')} valid")
