"""A real API server for the tests of this folder, with topiarist's definitions and one namespace per test.

Without Go the tests are skipped with a message that names the missing tool; in CI they fail instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from conftest import BROKERS
from kubernetes.fixtures.fault_fixture import FaultFixture
from kubernetes.fixtures.resources import cluster, create, topic
from kubernetes.fixtures.shared_operator_fixture import SharedOperator, SharedOperatorFixture, clear_resources
from support.checkout import ROOT
from support.kubernetes.api_client import ApiClient, load_documents, to_yaml
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer, open_api_server
from support.secret_scanner import assert_no_secrets_in_files
from support.waiting import wait_until
from support.zookeeper.client import connect_client
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

LIMIT = 600
"""Seconds for one test; only a test that hangs takes this long."""

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer timeout for tests of this folder, because an API server is slow on a busy machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Start the API server with topiarist's definitions."""
    with open_api_server(tmp_path_factory.mktemp("kube")) as server:
        yield server


@pytest.fixture
def namespace(server: ApiServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """Create a namespace for the test; afterwards delete the Topics and Clusters of all namespaces."""
    words = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:50].strip("-")
    name = f"{words}-{next(_numbers)}"
    server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    clear_resources(server.admin)


@pytest.fixture
def api(server: ApiServer, namespace: str) -> ApiClient:
    """Return a client with all rights and the test's namespace as its default."""
    return server.api("admin", namespace)


@pytest.fixture
def stage(server: ApiServer, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[FaultFixture]:
    """Return a factory for fixtures of one test."""
    with ExitStack() as stack:
        yield FaultFixture(server, zookeeper, stack, tmp_path)


@pytest.fixture(scope="session")
def server_api(server: ApiServer) -> ApiClient:
    """Return a client with all rights, for requests that create no objects."""
    return server.admin


@pytest.fixture(scope="session")
def config_admission(server: ApiServer) -> None:
    """Install the shipped admission policies for all objects without the label ``unjudged``."""
    made = load_documents(ROOT / "manifests" / "admission" / "config.yaml")
    for one in made:
        if one["kind"] == "ValidatingAdmissionPolicyBinding":
            passed = {"matchExpressions": [{"key": "unjudged", "operator": "DoesNotExist"}]}
            one["spec"]["matchResources"] = {"objectSelector": passed}
    done = server.admin.kubectl("apply", "-f", "-", given=to_yaml(made))
    assert done.returncode == 0, done.stderr
    for body in (topic(config={"/": 1}), cluster(brokerConfig={"/": 1})):
        refused = partial(create, server.admin, "default", body, keep=False)
        wait_until(lambda: refused().status == 422, "the admission policy has arrived")  # noqa: B023


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """Start a real ZooKeeper."""
    with EmbeddedZooKeeper() as server:
        yield server


@pytest.fixture(scope="module")
def estate(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedOperator]:
    """Start one operator for all tests of a file.

    At the end assert that it runs, and that its log holds only JSON and no secrets.
    """
    home, folder = f"estate-{next(_numbers)}", tmp_path_factory.mktemp("estate")
    server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": home}})
    with OperatorProcess(server, home, folder, "--period", "1") as operator:
        yield SharedOperator(server, zookeeper, operator, home, folder)
        log = operator.process.read_log()
        assert operator.process.alive, log
    assert "Traceback" not in log, log
    assert all(isinstance(json.loads(line), dict) for line in log.splitlines())
    assert_no_secrets_in_files(folder)


@pytest.fixture
def place(estate: SharedOperator, api: ApiClient, namespace: str) -> Iterator[SharedOperatorFixture]:
    """Return a Kafka cluster for one test; its Cluster is not declared yet."""
    connect = f"{estate.zookeeper.connect}/{namespace}"
    # An id of its own: the operator serves one Cluster for each Kafka cluster.
    with SimulatedKafka(connect, BROKERS, cluster_id=namespace) as kafka, connect_client(connect) as client:
        found = SharedOperatorFixture(estate, api, namespace, kafka, client)
        yield found
        found.delete_cluster()
