"""The ``topiarist render`` command: print the specs after defaults and overrides are merged."""

from __future__ import annotations

from typing import Any

import click

from topiarist.adapters.manifests import yaml_text
from topiarist.cli import load, options, terminal
from topiarist.desired import export as rendering


@click.command(
    "render",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist render topics/ --clusters clusters.yaml
  topiarist render topics/ --cluster prod-eu
""",
)
@options.manifests
def command(**values: Any) -> None:
    """Print one manifest per topic and cluster, with defaults and overrides merged."""
    desired = load.load_manifests(options.build_settings(values), offline=True, with_policies=False).desired
    documents = [rendering.render_document(spec) for specs in desired.specs.values() for spec in specs]
    terminal.print_result(yaml_text.dump_documents(documents))
