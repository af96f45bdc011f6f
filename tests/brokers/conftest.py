"""Real Kafka clusters for the tests, which share those of ``shared_clusters``: each is cleaned after each test.

``TOPIARIST_KAFKA`` names the releases in ZooKeeper mode (``make test-kafka RELEASES="3.4.1"``), and
``TOPIARIST_KAFKA_KRAFT`` those in KRaft mode. Tests that need another cluster start their own with ``fresh`` and
``fresh_kraft``. All tests of a shared cluster run in one worker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from brokers.moves_fixture import MOVES_PROPERTIES, MOVES_RACKS, MovesFixture, moves_fixture
from brokers.shared_clusters import (
    AUTO_CREATE_PROPERTIES,
    RACKED_BROKERS,
    RACKLESS_BROKERS,
    THREE_RACKS,
    SecurityFiles,
    kraft_options,
    secured_cluster,
    security_files,
)
from support.kafka import releases
from support.kafka.cleaning import SharedCluster
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

KRAFT_RELEASES = tuple(os.environ.get("TOPIARIST_KAFKA_KRAFT", releases.NEWEST).split())

ONE_RELEASE_FILES = frozenset(
    {"test_automatic_creation.py", "test_describe.py", "test_move_faults.py", "test_moves.py", "test_wait.py"}
)
"""Files with tests of what releases have in common; all releases together take most of an hour."""

SHARED_BY = {
    "shared_kraft": "kraft_release",
    "shared_secured": "kraft_release",
    "shared_quorum": "kraft_release",
    "server": "release",
    "parser": "release",
}
"""The fixtures that exist once in all workers, with the parameter of their release."""

SHARED_CLUSTERS = ("shared_racked", "shared_bare", "shared_automatic", "shared_moves", "shared_kraft", "shared_secured")
"""The fixtures of clusters that tests share."""

FIRST_RELEASE_FILES = frozenset({"test_broker_faults.py", "test_kafka_fixture.py"})
"""Files with tests that run with the first release only, in a soak run too."""

TEST_TIMEOUT_S = 600
"""Seconds for one test with its clusters; only a test that hangs takes this long."""

_starts = count()
"""Each start of a shared cluster in ZooKeeper mode has a chroot of its own."""

MEASURED = "measured"
"""The name of the property of a test with a figure for the summary."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer timeout for tests of this folder, because brokers are slow on a busy machine, and their groups.

    Except in a soak run, tests of ``ONE_RELEASE_FILES`` are skipped for all releases but the first. Tests of other
    releases run at night.
    """
    items.sort(key=_cluster_order)
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))
        assert isinstance(item, pytest.Function)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if group := _group(item.fixturenames, parameters):
            item.add_marker(pytest.mark.xdist_group(group))
        is_first = parameters.get("release", RELEASES[0]) == RELEASES[0]
        is_first_in_kraft = parameters.get("kraft_release", KRAFT_RELEASES[0]) == KRAFT_RELEASES[0]
        if not (is_first and is_first_in_kraft):
            item.add_marker(pytest.mark.night(area="releases"))
        left_out = FIRST_RELEASE_FILES if SOAK else FIRST_RELEASE_FILES | ONE_RELEASE_FILES
        if not is_first and item.path.name in left_out:
            item.add_marker(pytest.mark.skip(reason=f"tested with {RELEASES[0]}; make soak has all releases"))


def _cluster_order(item: pytest.Item) -> tuple[int, ...]:
    """Return where a test runs: those of one shared cluster one after the other, since it ends for the next one."""
    names = item.fixturenames if isinstance(item, pytest.Function) else ()
    return tuple(place for place, name in enumerate(SHARED_CLUSTERS) if name in names)


def _group(names: Collection[str], parameters: Mapping[str, object]) -> str:
    """Return the group of a test: all tests of one group run in one worker, which has their shared clusters.

    Without a shared cluster it is empty, and the test runs in any worker.
    """
    for fixture, parameter in SHARED_BY.items():
        if fixture in names:
            return f"{fixture}-{parameters[parameter]}"
    return ""


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


Shared = Iterator[SharedCluster[Cluster]]


@contextmanager
def _shared(
    server: ZooKeeper, release: str, program: Program, racks: dict[int, str | None], **properties: object
) -> Shared:
    """Share a cluster of this release; each start has a chroot of its own, where no earlier broker was."""

    def start() -> Cluster:
        return Cluster(server, release, racks, chroot=f"/kafka/shared-{next(_starts)}", properties=properties)

    with closing(SharedCluster(start, program)) as shared:
        yield shared


@pytest.fixture(scope="session")
def shared_racked(server: ZooKeeper, release: str, program: Program) -> Shared:
    """Share five brokers in three racks."""
    with _shared(server, release, program, RACKED_BROKERS) as shared:
        yield shared


@pytest.fixture(scope="session")
def shared_bare(server: ZooKeeper, release: str, program: Program) -> Shared:
    """Share three brokers without racks."""
    with _shared(server, release, program, RACKLESS_BROKERS) as shared:
        yield shared


@pytest.fixture(scope="session")
def shared_automatic(server: ZooKeeper, release: str, program: Program) -> Shared:
    """Share three brokers in separate racks, with automatic topic creation."""
    with _shared(server, release, program, THREE_RACKS, **AUTO_CREATE_PROPERTIES) as shared:
        yield shared


@pytest.fixture(scope="session")
def shared_moves(server: ZooKeeper, release: str, program: Program) -> Shared:
    """Share four brokers in two racks for the tests that move replicas."""
    with _shared(server, release, program, MOVES_RACKS, **MOVES_PROPERTIES) as shared:
        yield shared


@pytest.fixture
def racked(shared_racked: SharedCluster[Cluster], program: Program, tmp_path: Path) -> Iterator[KafkaFixture]:
    """Return the cluster with racks and its clients."""
    with shared_racked.cleaned() as cluster:
        yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


@pytest.fixture
def bare(shared_bare: SharedCluster[Cluster], program: Program, tmp_path: Path) -> Iterator[KafkaFixture]:
    """Return the cluster without racks and its clients."""
    with shared_bare.cleaned() as cluster:
        yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


@pytest.fixture
def automatic(shared_automatic: SharedCluster[Cluster], program: Program, tmp_path: Path) -> Iterator[KafkaFixture]:
    """Return the cluster with automatic topic creation and its clients."""
    with shared_automatic.cleaned() as cluster:
        yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


@pytest.fixture
def moves(shared_moves: SharedCluster[Cluster], program: Program, tmp_path: Path) -> Iterator[MovesFixture]:
    """Return the cluster of the tests of moves."""
    with shared_moves.cleaned() as cluster, moves_fixture(cluster, program, tmp_path) as fixture:
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
def policy_switch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that must exist for policies to apply on the shared cluster."""
    return tmp_path_factory.mktemp("policies") / "on"


@pytest.fixture(scope="session")
def shared_kraft(kraft_release: str, program: Program, policy_switch: Path) -> Iterator[SharedCluster[KraftCluster]]:
    """Share a controller and three brokers in separate racks."""
    options = kraft_options(kraft_release, policy_switch)
    with closing(SharedCluster(lambda: KraftCluster(kraft_release, THREE_RACKS, options), program)) as shared:
        yield shared


@pytest.fixture
def kraft(shared_kraft: SharedCluster[KraftCluster], program: Program, tmp_path: Path) -> Iterator[KraftFixture]:
    """Return the cluster in KRaft mode and its clients."""
    with shared_kraft.cleaned() as cluster:
        yield KraftFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


@pytest.fixture
def policies(policy_switch: Path) -> Iterator[None]:
    """Let policies apply on the shared cluster in KRaft mode."""
    policy_switch.touch()
    yield
    policy_switch.unlink()


@pytest.fixture(scope="session")
def security(tmp_path_factory: pytest.TempPathFactory) -> SecurityFiles:
    """Return the certificates of the node with all listeners, and the folder of its clients' files."""
    return security_files(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="session")
def shared_secured(
    kraft_release: str, program: Program, security: SecurityFiles
) -> Iterator[SharedCluster[KraftCluster]]:
    """Share one node with a listener for each kind of security."""
    with closing(SharedCluster(lambda: secured_cluster(kraft_release, security), program)) as shared:
        yield shared


@pytest.fixture
def secured_node(
    shared_secured: SharedCluster[KraftCluster], program: Program, tmp_path: Path
) -> Iterator[KraftFixture]:
    """Return the node with a listener for each kind of security, and its clients."""
    with shared_secured.cleaned() as cluster:
        yield KraftFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


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
