"""Fixtures of tests with an authenticating ZooKeeper, and of tests with several clusters."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.protected_cluster import ProtectedCluster
from integration.write_fixtures import REPLICAS, InterceptingProxy, connect_cluster
from support.builders import apply_results, plan_specs, topic_spec
from support.cli.github_api import TOKEN, FakeGitHubApi
from support.zookeeper.secured_server import SUPER, SecuredZooKeeper
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.model.outcome import Result

_numbers = count(1)


@pytest.fixture
def ours(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with one topic that another client created and topiarist adopted: its znodes have the versions of a new
    topic.
    """
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    with connect_cluster(cluster.connect) as port:
        assert apply_results(port, plan_specs(port, topic_spec("orders"))) == {"orders": Result.DONE}
    return cluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """A server with SASL, digest and TLS that accepts every client and leaves authorization to ACLs."""
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """A server that requires a client certificate (TLS) and a SASL login, and rejects digest."""
    folder = tmp_path_factory.mktemp("strict")
    insists = {"sessionRequireClientSASLAuth": "true", "DigestAuthenticationProvider.enabled": "false"}
    with SecuredZooKeeper(folder, client_auth="need", **insists) as server:
        yield server


@pytest.fixture
def protected(secured: SecuredZooKeeper) -> Iterator[ProtectedCluster]:
    """A cluster on ``secured`` with a fully authorized controller that sets the ACLs."""
    with SimulatedKafka(f"{secured.connect}/test-{next(_numbers)}", BROKERS) as playground:
        playground.client.add_auth("digest", SUPER)
        yield ProtectedCluster(secured, playground)
        playground.wait_idle()
        assert playground.controller_errors == []


@pytest.fixture
def superuser(secured: SecuredZooKeeper) -> Iterator[KazooClient]:
    """A client of ``secured`` that bypasses all ACLs."""
    client = KazooClient(secured.connect, auth_data=[("digest", SUPER)])
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def clusters(chroot: str) -> Iterator[dict[str, SimulatedKafka]]:
    """Three clusters by name, each with its own id and topic."""
    with ExitStack() as stack:
        found = {}
        for name in ("b", "c", "a"):
            cluster = stack.enter_context(SimulatedKafka(f"{chroot}-{name}", BROKERS))
            cluster.client.set("/cluster/id", b'{"version":"1","id":"%s"}' % name.encode())
            cluster.add_topics(Topic(f"on-{name}", ((1, 2, 3), (2, 3, 4)), {"retention.ms": "1000"}))
            cluster.wait_idle()
            found[name] = cluster
        yield found


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[InterceptingProxy]:
    """A proxy that calls a hook before every request."""
    with InterceptingProxy(zookeeper.connect) as meddler:
        yield meddler


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def api() -> Iterator[FakeGitHubApi]:
    """A repository without comments; every request must carry the token and no other credentials."""
    with FakeGitHubApi() as api:
        yield api
        for request in api.requests:
            wanted = None if request.path.startswith("/storage") else f"Bearer {TOKEN}"
            assert request.headers.get("authorization") == wanted
            assert TOKEN not in request.path + str(request.query) + str(request.body)
