"""Live clusters as inputs of a comparison: reads several clusters at the same time.

``drift.task`` calls it in pool processes and on the executors of Spark. In the process of the command line,
``cli.commands.drift`` reads the clusters itself, to log slow connections.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from topiarist.adapters.open_cluster import open_cluster
from topiarist.drift.snapshots import ClusterInput
from topiarist.errors import TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.reconcile import read_cluster

MAX_PARALLEL_CLUSTERS = 16
"""Number of clusters that a machine reads at the same time; most of the time is spent waiting for answers."""


class ConnectOptions(NamedTuple):
    """The options of a connection: the owner, and the timeout for an answer in seconds."""

    owner: str
    connect_timeout: float


def describe_read_failure(error: TopiaristError) -> str:
    """Return the reason why a cluster could not be read, for a report.

    The error message is left out, because it names addresses and a report has many readers.
    """
    return f"could not be read ({error.reason})"


def read_live_cluster(
    spec: ClusterSpec, connect_options: ConnectOptions, taken_at: datetime
) -> tuple[ClusterInput, str]:
    """Return the state of a cluster and an empty text, or its problem and the error message."""
    try:
        with open_cluster(
            spec, owner=connect_options.owner, connect_timeout=connect_options.connect_timeout
        ) as cluster:
            return ClusterInput(spec.name, taken_at, read_cluster(cluster, spec.cluster_id)), ""
    except TopiaristError as error:
        return ClusterInput(spec.name, problem=describe_read_failure(error)), str(error)
