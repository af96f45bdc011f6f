"""Real Kafka clusters for the tests: for each release one with racks and one without, which run while its tests run.

``TOPIARIST_KAFKA`` names the releases (``make test-kafka RELEASES="3.4.1"``). Tests that kill brokers or need other
settings start their own cluster with ``fresh``. ``TOPIARIST_KAFKA_KRAFT`` names the releases in KRaft mode, for
the clusters of ``kraft`` and of ``fresh_kraft``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from brokers.moves_fixture import MOVES_PROPERTIES, MOVES_RACKS, MovesFixture, moves_fixture
from support.kafka.clients import Clients, ConfigParser
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture, KafkaFixtureFactory
from support.kafka.kraft import KraftCluster, KraftOptions
from support.kafka.kraft_fixture import KraftFixture, KraftFixtureFactory
from support.kafka.programs import Program
from support.kafka.zookeeper import ZooKeeper
from support.soak import SOAK

RELEASES = tuple(os.environ.get("TOPIARIST_KAFKA", "3.9.2 2.4.1").split())

KRAFT_RELEASES = tuple(os.environ.get("TOPIARIST_KAFKA_KRAFT", "4.4.0").split())

RACKED_BROKERS: dict[int, str | None] = {1: "b", 2: "a", 4: "c", 7: "b", 9: "a"}
"""Racks of different sizes, with names in another order than the broker ids, and with gaps between the ids."""

RACKLESS_BROKERS: dict[int, str | None] = {3: None, 5: None, 6: None}

AUTO_CREATE_PROPERTIES: dict[str, object] = {
    "auto.create.topics.enable": "true",
    "num.partitions": 3,
    "default.replication.factor": 2,
}
"""Settings of brokers that create a topic at the first write to it."""

ONE_RELEASE_FILES = frozenset(
    {"test_automatic_creation.py", "test_describe.py", "test_move_faults.py", "test_moves.py", "test_wait.py"}
)
"""Files with tests of what releases have in common; all releases together take most of an hour."""

TEST_TIMEOUT_S = 600
"""Seconds for one test with its clusters; only a test that hangs takes this long."""

_starts = count()
"""Clusters that start again have a chroot of their own: the sessions of their old brokers may not have expired."""

MEASURED = "measured"
"""The name of the property of a test with a figure for the summary."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer timeout for tests of this folder, because brokers are slow on a busy machine.

    Except in a soak run, tests of ``ONE_RELEASE_FILES`` are skipped for all releases but the first.
    """
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        is_first = parameters.get("release", RELEASES[0]) == RELEASES[0]
        if not is_first and not SOAK and item.path.name in ONE_RELEASE_FILES:
            item.add_marker(pytest.mark.skip(reason=f"tested with {RELEASES[0]}; make soak has all releases"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the measured figures."""
    for name in ("passed", "failed"):
        for result in terminalreporter.getreports(name):
            for line in (value for key, value in result.user_properties if key == MEASURED):
                terminalreporter.write_line(f"measured: {line}")


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that adds a figure to the summary of the run; no test asserts the figure."""
    return lambda line: record_property(MEASURED, line)


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    """Start the clients of Kafka's newest release, for the clusters of all releases."""
    with Program("Clients", NEWEST) as program:
        yield program


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Return a release of Kafka; all tests of one release run before those of the next."""
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def server(release: str) -> Iterator[ZooKeeper]:
    """Start the ZooKeeper of the release."""
    with ZooKeeper(release) as server:
        yield server


@pytest.fixture(scope="session")
def racked_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Start five brokers in three racks."""
    with Cluster(server, release, RACKED_BROKERS, chroot="/kafka/racked") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bare_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Start three brokers without racks."""
    with Cluster(server, release, RACKLESS_BROKERS, chroot="/bare") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def automatic_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Start three brokers in separate racks, with automatic topic creation."""
    racks = {1: "a", 2: "b", 3: "c"}
    with Cluster(
        server, release, racks, chroot=f"/kafka/automatic-{next(_starts)}", properties=AUTO_CREATE_PROPERTIES
    ) as cluster:
        yield cluster


@pytest.fixture
def racked(racked_cluster: Cluster, program: Program, tmp_path: Path) -> KafkaFixture:
    """Return the cluster with racks and its clients."""
    return KafkaFixture(racked_cluster, Clients(program, racked_cluster.bootstrap), tmp_path)


@pytest.fixture
def bare(bare_cluster: Cluster, program: Program, tmp_path: Path) -> KafkaFixture:
    """Return the cluster without racks and its clients."""
    return KafkaFixture(bare_cluster, Clients(program, bare_cluster.bootstrap), tmp_path)


@pytest.fixture
def automatic(automatic_cluster: Cluster, program: Program, tmp_path: Path) -> KafkaFixture:
    """Return the cluster with automatic topic creation and its clients."""
    return KafkaFixture(automatic_cluster, Clients(program, automatic_cluster.bootstrap), tmp_path)


@pytest.fixture(scope="module")
def moves_cluster(server: ZooKeeper, release: str) -> Iterator[Cluster]:
    """Start four brokers in two racks for the tests that move replicas."""
    with Cluster(
        server, release, MOVES_RACKS, chroot=f"/kafka/moves-{next(_starts)}", properties=MOVES_PROPERTIES
    ) as cluster:
        yield cluster


@pytest.fixture
def moves(moves_cluster: Cluster, program: Program, tmp_path: Path) -> Iterator[MovesFixture]:
    """Return the cluster of the tests of moves, with all of its brokers online."""
    with moves_fixture(moves_cluster, program, tmp_path) as fixture:
        yield fixture


@pytest.fixture
def fresh(program: Program, tmp_path: Path) -> KafkaFixtureFactory:
    """Return a factory for a cluster of one test: ``with fresh("3.9.2", {1: None}, properties={...}) as bed:``."""

    @contextmanager
    def make(release: str, racks: dict[int, str | None], **options: Any) -> Iterator[KafkaFixture]:
        with ZooKeeper(release) as server, Cluster(server, release, racks, **options) as cluster:
            yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)

    return make


@pytest.fixture(scope="session", params=KRAFT_RELEASES)
def kraft_release(request: pytest.FixtureRequest) -> str:
    """Return a release of Kafka for KRaft mode."""
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def kraft_cluster(kraft_release: str) -> Iterator[KraftCluster]:
    """Start a controller and three brokers in separate racks."""
    with KraftCluster(kraft_release, {1: "a", 2: "b", 3: "c"}) as cluster:
        yield cluster


@pytest.fixture
def kraft(kraft_cluster: KraftCluster, program: Program, tmp_path: Path) -> KraftFixture:
    """Return the cluster in KRaft mode and its clients."""
    return KraftFixture(kraft_cluster, Clients(program, kraft_cluster.bootstrap), tmp_path)


@pytest.fixture
def fresh_kraft(program: Program, tmp_path: Path) -> KraftFixtureFactory:
    """Return a factory for a KRaft cluster of one test: ``with fresh_kraft("4.4.0", {1: "a"}, heap="1g") as bed:``."""

    @contextmanager
    def make(release: str, racks: dict[int, str | None], **options: Any) -> Iterator[KraftFixture]:
        with KraftCluster(release, racks, KraftOptions(**options)) as cluster:
            yield KraftFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)

    return make


@pytest.fixture(scope="session")
def parser(release: str) -> Iterator[ConfigParser]:
    """Start the release's own parser of topic configs."""
    with Program("Configs", release) as program:
        yield ConfigParser(program)
