"""Fixtures of all tests: a real ZooKeeper, a cluster on it that is fresh for each test, a proxy before it.

The server is started when the first test of a process asks for it, and serves all of that process.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from kazoo.client import KazooClient

from support.examples import scaled
from support.secret_scanner import pytest_configure, pytest_runtest_makereport, pytest_runtest_teardown
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.kafka.types import Broker
from topiarist.runs import sessions

pytest_plugins = ["lanes.recorder"]

__all__ = ["pytest_configure", "pytest_runtest_makereport", "pytest_runtest_teardown"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("topiarist", deadline=None, max_examples=scaled(100))
settings.load_profile("topiarist")

BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
"""Six brokers in three racks."""

_UNIT_TESTS = Path(__file__).parent / "unit"
_LONGEST_ID = 100

_numbers = count(1)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Return a short id for a long text: ids go through the environment, and to each worker and back."""
    if isinstance(val, (str, bytes)) and len(val) > _LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups of tests in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the unit tests of a file to one process: xdist's time for each test grows with the number of groups."""
    for item in items:
        if _UNIT_TESTS in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(_UNIT_TESTS))))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the ten thousand tests out of searches for garbage, while they are collected and afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def patient() -> Iterator[None]:
    """Disable the remark about a slow connection on slow machines; the tests of that remark set its delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "_CONNECT_NOTICE_DELAY_S", 60.0)
        yield


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """One real ZooKeeper for all tests of this process."""
    with EmbeddedZooKeeper() as server:
        yield server


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper) -> str:
    """A connect string with an unused chroot that does not exist yet."""
    return f"{zookeeper.connect}/test-{next(_numbers)}"


@pytest.fixture
def cluster(chroot: str) -> Iterator[SimulatedKafka]:
    """A cluster of six brokers in three racks, without topics; its controller must report no fault at the end."""
    with SimulatedKafka(chroot, BROKERS) as playground:
        yield playground
        playground.wait_idle()
        assert playground.controller_errors == []


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    """A proxy before the real ZooKeeper, without any fault yet."""
    with Proxy(zookeeper.connect) as between:
        yield between


@pytest.fixture
def client(cluster: SimulatedKafka) -> Iterator[KazooClient]:
    """A client of the cluster, with its chroot, for the test only."""
    with connect_client(cluster.connect) as client:
        yield client
