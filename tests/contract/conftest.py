"""Two clusters with the same ports: the suite in this folder runs on both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from contract.cluster_fixtures import ClusterFixture, MemoryClusterFixture, ZooKeeperClusterFixture


@pytest.fixture(params=["memory", "zookeeper"])
def world(request: pytest.FixtureRequest) -> Iterator[ClusterFixture]:
    """Return one empty cluster of each kind."""
    if request.param == "memory":
        yield MemoryClusterFixture()
        return
    with ExitStack() as stack:
        yield ZooKeeperClusterFixture(request.getfixturevalue("cluster"), request.getfixturevalue("client"), stack)
