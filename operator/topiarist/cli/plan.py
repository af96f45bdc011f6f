"""``topiarist plan``: the difference between manifests and clusters, shown and nothing else. Sends no write."""

from __future__ import annotations

from typing import Any

import click

from topiarist.adapters import textfiles
from topiarist.cli import formats, guards, inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.errors import Exit, InvalidManifests
from topiarist.render.document import document, dumps


@click.command(
    "plan",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist plan topics/ --clusters clusters.yaml
  topiarist plan topics/ --zookeeper localhost:2181/kafka --kafka-version 3.9
  topiarist plan topics/ --cluster eu --format json | jq .clusters[0].topics
  topiarist plan topics/ --out plan.json
  topiarist plan topics/ --format markdown >comment.md
  topiarist plan topics/ --clusters clusters.yaml --snapshot snapshots
  topiarist plan topics/ --exit-code || echo "something is pending"

\b
Exit codes: 0 planned; 1 an error; 2 wrong usage.
With --exit-code also: 3 changes are pending; 4 nothing but refusals.
""",
)
@options.manifests
@options.require_topics
@options.connection
@options.recorded
@options.planning
@options.summary
@options.option("--format", "form", type=click.Choice([*formats.PLANS]), default="text", show_default=True)
@options.option("--out", type=click.Path(), metavar="FILE", help="Keep the plan, for apply --plan or --reviewed.")
@options.option("--exit-code", is_flag=True, help="End with 3 if changes are pending, 4 if there are only refusals.")
def command(form: str, out: str | None, exit_code: bool, **values: Any) -> None:
    """Show what would change: exact replica lists and values, before and after, with the risk of each change.

    Reads every cluster once and writes nothing; read-only credentials are enough.
    """
    settings = options.settings(values)
    if settings.summary and form != "text":
        raise click.UsageError("--summary is about text: leave it out with --format")
    try:
        desired = inputs.load(settings)
    except InvalidManifests as error:
        if form in ("markdown", "github"):
            # Whoever reviews sees no stderr: that there is no plan, and why, is what there is to show.
            terminal.product(formats.COMPLAINTS[form](error.complaints, (), error.more))
        raise
    with Fleet(desired.wanted, settings, keep=False) as fleet:
        plans = [guards.allowed(plan, desired, settings) for plan in fleet.survey(desired, settings.run)]
    code = fleet.error_code
    if out is not None and (plans or code is Exit.DONE):
        textfiles.write_whole(out, dumps(document(plans)))
    failed = sorted(desired.wanted.keys() - {plan.cluster for plan in plans})
    terminal.product(formats.PLANS[form](plans, failed, settings))
    if code is Exit.DONE and exit_code:
        if any(plan.pending for plan in plans):
            code = Exit.CHANGES
        elif any(plan.refused for plan in plans):
            code = Exit.REFUSED
    raise click.exceptions.Exit(int(code))
