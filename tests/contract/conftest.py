"""Two clusters behind one port: the suite in this folder runs over both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from contract.cluster_fixtures import ClusterFixture, MemoryClusterFixture, ZooKeeperClusterFixture


@pytest.fixture(params=["memory", "zookeeper"])
def world(request: pytest.FixtureRequest) -> Iterator[ClusterFixture]:
    """One cluster of each kind, empty."""
    if request.param == "memory":
        yield MemoryClusterFixture()
        return
    with ExitStack() as stack:
        yield ZooKeeperClusterFixture(request.getfixturevalue("cluster"), request.getfixturevalue("client"), stack)
