"""Live clusters as snapshot lines: reads several clusters and returns rows or read errors.

``drift.spark.inputs`` runs it on executors. This module does not import PySpark, so that it can be tested without
Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

from topiarist.adapters.open_cluster import open_cluster
from topiarist.adapters.snapshots.codec import format_time
from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot
from topiarist.errors import TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.reconcile import read_cluster

MAX_PARALLEL_CLUSTERS = 16
"""Number of clusters that one task reads at the same time; most of the time is spent waiting for ZooKeeper."""

PROBLEM, FAILURE_MESSAGE = "problem", "failureMessage"
"""Row kind and column of the reason why a cluster could not be read, and column of the error message."""


class ConnectOptions(NamedTuple):
    """The options of a connection: the owner, and the timeout for an answer in seconds."""

    owner: str
    connect_timeout: float


def describe_read_failure(error: TopiaristError) -> str:
    """Return the reason why a cluster could not be read, for a report.

    The error message is left out, because it names addresses and a report has many readers.
    """
    return f"could not be read ({error.reason})"


def read_clusters(clusters: Sequence[ClusterSpec], connect_options: ConnectOptions) -> Iterator[str]:
    """Yield the snapshot lines of each cluster, or one line of kind ``PROBLEM``."""
    with ThreadPoolExecutor(MAX_PARALLEL_CLUSTERS) as pool:
        for lines in pool.map(lambda spec: _read_snapshot_lines(spec, connect_options), clusters):
            yield from lines


def _read_snapshot_lines(spec: ClusterSpec, connect_options: ConnectOptions) -> list[str]:
    taken_at = datetime.now(UTC)
    try:
        with open_cluster(
            spec, owner=connect_options.owner, connect_timeout=connect_options.connect_timeout
        ) as cluster:
            state = read_cluster(cluster, spec.cluster_id)
    except TopiaristError as error:
        row = {"kind": PROBLEM, "cluster": spec.name, "takenAt": format_time(taken_at)}
        return [json.dumps({**row, PROBLEM: describe_read_failure(error), FAILURE_MESSAGE: str(error)})]
    return [line.decode() for line in dump_snapshot(Snapshot(spec.name, taken_at, state))]
