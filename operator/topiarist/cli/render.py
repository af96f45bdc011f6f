"""``topiarist render``: what the manifests mean, once defaults and overrides are merged in."""

from __future__ import annotations

from typing import Any

import click

from topiarist.adapters import manifests
from topiarist.cli import inputs, options, terminal
from topiarist.render import specs as rendering


@click.command(
    "render",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist render topics/ --clusters clusters.yaml
  topiarist render topics/ --cluster prod-eu
""",
)
@options.manifests
def command(**values: Any) -> None:
    """Print one document per topic and cluster: the spec after defaults and overrides, as YAML that can be applied."""
    desired = inputs.load(options.settings(values), offline=True, ruled=False)
    documents = [rendering.document(spec) for specs in desired.specs.values() for spec in specs]
    terminal.product(manifests.dump(documents))
