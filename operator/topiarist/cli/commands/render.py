"""The ``topiarist render`` command: print the specs after defaults and overrides are merged."""

from __future__ import annotations

from typing import Any

import click

from topiarist.cli import options, terminal


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
    from topiarist.adapters.manifests import dump
    from topiarist.desired.render import render_document
    from topiarist.runs.inputs import load_manifests

    settings = options.build_settings(values)
    desired = load_manifests(settings, terminal.TerminalListener(settings), offline=True, with_policies=False).desired
    documents = [render_document(spec) for specs in desired.specs.values() for spec in specs]
    terminal.print_result(dump.dump_documents(documents))
