"""Clusters read as they are, by a task of Spark or whoever has some to read: lines of snapshots, or why there are none.

No Spark in here: what runs on an executor can be tested without one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

from topiarist.adapters.snapshot import Snapshot, dump, text_of
from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.core.spec import ClusterSpec
from topiarist.errors import TopiaristError
from topiarist.reconcile import read

AT_ONCE = 16
"""Clusters that one task reads at the same time: most of the time each of them is waited for."""

PROBLEM, SAID = "problem", "said"
"""The kind of a row that stands in place of a snapshot: why the cluster could not be read, and what was said of it."""


class Approach(NamedTuple):
    """How clusters are entered: as which owner, and how long an answer is waited for, in seconds."""

    owner: str
    connect_timeout: float


def unread(error: TopiaristError) -> str:
    """Why a cluster could not be read, for a report: an error's own words name addresses, and many may read reports."""
    return f"could not be read ({error.reason})"


def read_all(clusters: Sequence[ClusterSpec], approach: Approach) -> Iterator[str]:
    """The lines of a snapshot of each cluster, or one line of kind ``PROBLEM``."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for lines in pool.map(lambda spec: _lines(spec, approach), clusters):
            yield from lines


def _lines(spec: ClusterSpec, approach: Approach) -> list[str]:
    taken = datetime.now(UTC)
    try:
        with ZooKeeperCluster(
            spec.connect,
            owner=approach.owner,
            max_buffer=spec.max_buffer,
            connect_timeout=approach.connect_timeout,
            credentials=spec.credentials,
        ) as cluster:
            state = read(cluster, spec.cluster_id)
    except TopiaristError as error:
        row = {"kind": PROBLEM, "cluster": spec.name, "takenAt": text_of(taken), PROBLEM: unread(error)}
        return [json.dumps({**row, SAID: str(error)})]
    return [line.decode() for line in dump(Snapshot(spec.name, taken, state))]
