"""``topiarist thaw``: let writers in again."""

from __future__ import annotations

from typing import Any

import click

from topiarist.cli import gates, options


@click.command(
    "thaw",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist thaw clusters.yaml
  topiarist thaw --zookeeper localhost:2181/kafka --force

\b
Exit codes: 0 open, or open already; 1 an error; 2 wrong usage;
4 somebody else has frozen a cluster, or KRaft is in charge.
""",
)
@options.paths
@options.clusters
@options.connection
@options.freezing
def command(by: str, force: bool, **values: Any) -> None:
    """Thaw clusters that were frozen, by you or, with --force, by others. A gate that cannot be read is made anew."""
    gates.turn(options.settings(values), None, by=by, force=force)
