"""Two clusters behind one port: the suite in this folder runs over both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from contract.worlds import MemoryWorld, World, ZooKeeperWorld


@pytest.fixture(params=["memory", "zookeeper"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One cluster of each kind, empty."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    with ExitStack() as stack:
        yield ZooKeeperWorld(request.getfixturevalue("cluster"), request.getfixturevalue("client"), stack)
