"""Real Kafka clusters for the tests: one with racks and one without for each release, alive as long as its tests run.

``TOPIARIST_KAFKA`` names the releases (``make test-kafka RELEASES="3.4.1"``). Tests that kill brokers or need other
settings make a cluster of their own with ``fresh``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.kafka.clients import Clients, ConfigParser
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture, KafkaFixtureFactory
from support.kafka.programs import Program
from support.kafka.zookeeper import ZooKeeper

RELEASES = tuple(os.environ.get("TOPIARIST_KAFKA", "3.9.2 2.8.2 2.4.1").split())

RACKED_BROKERS: dict[int, str | None] = {1: "b", 2: "a", 4: "c", 7: "b", 9: "a"}
"""Racks of different size, whose names are not in the order of the brokers' ids, and ids with holes."""

RACKLESS_BROKERS: dict[int, str | None] = {3: None, 5: None, 6: None}

AUTO_CREATE_PROPERTIES: dict[str, object] = {
    "auto.create.topics.enable": "true",
    "num.partitions": 3,
    "default.replication.factor": 2,
}
"""Brokers that make a topic as soon as somebody writes to it."""

TEST_TIMEOUT_S = 600
"""Seconds for one test with the clusters that it starts: only what hangs takes this long."""

_reported_figures: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of this folder the time that brokers may need on a busy machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was measured."""
    for line in _reported_figures:
        terminalreporter.write_line(f"measured: {line}")


@pytest.fixture
def report() -> Callable[[str], None]:
    """Have a figure shown at the end of the run: it is no part of what is asserted."""
    return _reported_figures.append


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """Kafka's newest clients, for all clusters of all releases."""
    with Program("Clients", NEWEST) as program:
        yield program


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """A release of Kafka; all tests of one release run before those of the next."""
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def server(release: str) -> Iterator[ZooKeeper]:
    """The ZooKeeper that comes with the release."""
    with ZooKeeper(release) as server:
        yield server


@pytest.fixture(scope="session")
def racked_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Five brokers in three racks."""
    with Cluster(server, release, RACKED_BROKERS, chroot="/kafka/racked") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bare_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Three brokers without racks."""
    with Cluster(server, release, RACKLESS_BROKERS, chroot="/bare") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def automatic_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Three brokers in racks of their own, which make topics automatically."""
    racks = {1: "a", 2: "b", 3: "c"}
    with Cluster(server, release, racks, chroot="/kafka/automatic", properties=AUTO_CREATE_PROPERTIES) as cluster:
        yield cluster


@pytest.fixture
def racked(racked_cluster: Cluster, program: Program, tmp_path: Path) -> KafkaFixture:
    """The cluster with racks, and what is needed to work with it."""
    return KafkaFixture(racked_cluster, Clients(program, racked_cluster.bootstrap), tmp_path)


@pytest.fixture
def bare(bare_cluster: Cluster, program: Program, tmp_path: Path) -> KafkaFixture:
    """The cluster without racks, and what is needed to work with it."""
    return KafkaFixture(bare_cluster, Clients(program, bare_cluster.bootstrap), tmp_path)


@pytest.fixture
def automatic(automatic_cluster: Cluster, program: Program, tmp_path: Path) -> KafkaFixture:
    """The cluster that makes topics automatically, and what is needed to work with it."""
    return KafkaFixture(automatic_cluster, Clients(program, automatic_cluster.bootstrap), tmp_path)


@pytest.fixture
def fresh(program: Program, tmp_path: Path) -> KafkaFixtureFactory:
    """A cluster that is nobody's but the test's: ``with fresh("3.9.2", {1: None}, properties={...}) as bed:``."""

    @contextmanager
    def make(release: str, racks: dict[int, str | None], **options: Any) -> Iterator[KafkaFixture]:
        with ZooKeeper(release) as server, Cluster(server, release, racks, **options) as cluster:
            yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)

    return make


@pytest.fixture(scope="session")
def parser(release: str) -> Iterator[ConfigParser]:
    """Kafka's own parser of topic configs, of the release."""
    with Program("Configs", release) as program:
        yield ConfigParser(program)
