"""``topiarist freeze``: stop every writer of a cluster, also one that is at it."""

from __future__ import annotations

import time
from typing import Any

import click

from topiarist.cli import gates, options
from topiarist.core.state import Freeze


@click.command(
    "freeze",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist freeze clusters.yaml --reason "brokers are being replaced, ask the storage team"
  topiarist freeze --zookeeper localhost:2181/kafka --reason "incident 4711" --by "ada"
  topiarist freeze clusters.yaml --cluster eu --reason "migration" --force

\b
Exit codes: 0 frozen, or frozen already by you for this reason; 1 an error;
2 wrong usage; 4 somebody else has frozen a cluster, or KRaft is in charge.
""",
)
@options.paths
@options.clusters
@options.connection
@options.reason
@options.freezing
def command(reason: str, by: str, force: bool, **values: Any) -> None:
    """Freeze clusters: from now on nothing of topiarist writes to them, until they are thawed.

    Takes no lock: a run that is writing ends at its next topic. Plans still work, and every refusal shows who froze
    the cluster, why and since when. Kafka itself and its own tools notice nothing.
    """
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    gates.turn(options.settings(values), Freeze(reason, by, since), by=by, force=force)
