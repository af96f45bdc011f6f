"""``topiarist plan``: the difference between manifests and clusters, shown and nothing else. Sends no write."""

from __future__ import annotations

import sys
from typing import Any

import click

from topiarist.cli import inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.errors import Exit
from topiarist.render import text
from topiarist.render.document import document, dumps


@click.command(
    "plan",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist plan topics/ --clusters clusters.yaml
  topiarist plan topics/ --zookeeper localhost:2181/kafka --kafka-version 3.9
  topiarist plan topics/ --cluster eu --format json | jq .clusters[0].topics
  topiarist plan topics/ --exit-code || echo "something is pending"

\b
Exit codes: 0 planned; 1 an error; 2 wrong usage.
With --exit-code also: 3 changes are pending; 4 nothing but refusals.
""",
)
@options.manifests
@options.connection
@options.planning
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--exit-code", is_flag=True, help="End with 3 if changes are pending, 4 if there are only refusals.")
def command(form: str, exit_code: bool, **values: Any) -> None:
    """Show what would change: exact replica lists and values, before and after, with the risk of each change.

    Reads every cluster once and writes nothing; read-only credentials are enough.
    """
    settings = options.settings(values)
    desired = inputs.load(settings)
    with Fleet(desired, settings) as fleet:
        plans = fleet.survey()
    code = fleet.error_code
    if form == "text":
        terminal.product(text.plans(plans, terminal.page(sys.stdout, settings)))
    elif plans or code is Exit.DONE:
        terminal.product(dumps(document(plans)))
    if code is Exit.DONE and exit_code:
        if any(plan.pending for plan in plans):
            code = Exit.CHANGES
        elif any(plan.refused for plan in plans):
            code = Exit.REFUSED
    raise click.exceptions.Exit(int(code))
