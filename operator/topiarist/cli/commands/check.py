"""The ``topiarist check`` command: what works with a cluster, what does not, and what its ``Cluster`` document needs.

Reads each cluster once and sends no write, also none that is validated only: the first command of a new user needs no
right to write, and a broker that does not know the flag would carry such a request out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import formats, options, terminal
from topiarist.errors import Reason, TopiaristError

if TYPE_CHECKING:
    from topiarist.inspection.check import ClusterCheck
    from topiarist.model.spec import ClusterSpec
    from topiarist.ports import OpenCluster


@click.command(
    "check",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist check --bootstrap-servers b1:9092,b2:9092
  topiarist check clusters.yaml
  topiarist check clusters.yaml --cluster eu --format json

\b
Exit codes: 0 checked, whatever a cluster can do; 1 error, or a cluster could not be read; 2 usage error.
""",
)
@options.manifests
@options.connection
@options.format_option(formats.CHECK_FORMATS)
def command(form: str, **values: Any) -> None:
    """Show what works with clusters, what does not and why, and what to write into their Cluster documents.

    Reads every cluster once and writes nothing: read-only credentials are enough. A service that answers a part of
    Kafka's protocol is used as far as it goes; plans and refusals name the same reasons.
    """
    from topiarist.runs.inputs import load_clusters
    from topiarist.runs.sessions import ClusterSessions

    settings = options.build_settings(values)
    listener = terminal.TerminalListener(settings)
    specs = load_clusters(settings, listener)
    with ClusterSessions(specs, settings, listener, keep_open=False) as fleet:
        checks = fleet.map_sessions(lambda name, cluster: _check(cluster, specs[name]))
    for name, check in checks.items():
        if check.error:
            fleet.fail(check.error, name)
    if checks or form != "text":
        terminal.print_result(formats.CHECK_FORMATS[form](list(checks.values()), settings))
    raise click.exceptions.Exit(int(fleet.error_code))


def _check(cluster: OpenCluster, spec: ClusterSpec) -> ClusterCheck:
    """Return the check of a cluster; that of its capabilities alone if its topics cannot be read."""
    from topiarist.inspection.check import ClusterCheck, check_state
    from topiarist.model.access import KafkaAccess
    from topiarist.reconcile import read_cluster

    try:
        return check_state(spec, read_cluster(cluster, spec.cluster_id), cluster.find_allowed_operations())
    except TopiaristError as error:
        is_known = isinstance(spec.access, KafkaAccess) and error.reason is not Reason.WRONG_CLUSTER
        if not is_known or error.reason.retryable:
            raise
        parts = cluster.read_cluster_id(), cluster.find_capabilities()
        return ClusterCheck(spec, *parts, error=error, allowed=cluster.find_allowed_operations())
