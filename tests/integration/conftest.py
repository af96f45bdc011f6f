"""Fixtures of tests with a ZooKeeper that wants to know who comes, and of tests with several clusters."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.protected import Protected
from integration.scene import REPLICAS, opened
from support.api import TOKEN, Api
from support.secured import SUPER, SecuredZooKeeper
from support.wishes import planned, results, wish
from topiarist.adapters.playground import Playground, Topic
from topiarist.reconcile import Result

_numbers = count(1)


@pytest.fixture
def ours(cluster: Playground) -> Playground:
    """A cluster with one topic, made by another client and adopted: its znodes have the versions that a new one has."""
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    with opened(cluster.connect) as port:
        assert results(port, planned(port, wish("orders"))) == {"orders": Result.DONE}
    return cluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """A server with SASL, digest and TLS that lets everybody in and leaves the rest to ACLs."""
    with SecuredZooKeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """A server that lets nobody in without a client certificate (by TLS) and a SASL login, and takes no digest."""
    folder = tmp_path_factory.mktemp("strict")
    insists = {"sessionRequireClientSASLAuth": "true", "DigestAuthenticationProvider.enabled": "false"}
    with SecuredZooKeeper(folder, client_auth="need", **insists) as server:
        yield server


@pytest.fixture
def protected(secured: SecuredZooKeeper) -> Iterator[Protected]:
    """A cluster on ``secured`` whose controller may do everything, and who sets its ACLs."""
    with Playground(f"{secured.connect}/test-{next(_numbers)}", BROKERS) as playground:
        playground.client.add_auth("digest", SUPER)
        yield Protected(secured, playground)
        playground.settle()
        assert playground.faults == []


@pytest.fixture
def superuser(secured: SecuredZooKeeper) -> Iterator[KazooClient]:
    """A client of ``secured`` that stands above all ACLs."""
    client = KazooClient(secured.connect, auth_data=[("digest", SUPER)])
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def clusters(chroot: str) -> Iterator[dict[str, Playground]]:
    """Three clusters, each with an id and a topic of its own, by name."""
    with ExitStack() as stack:
        found = {}
        for name in ("b", "c", "a"):
            cluster = stack.enter_context(Playground(f"{chroot}-{name}", BROKERS))
            cluster.client.set("/cluster/id", b'{"version":"1","id":"%s"}' % name.encode())
            cluster.add_topics(Topic(f"on-{name}", ((1, 2, 3), (2, 3, 4)), {"retention.ms": "1000"}))
            cluster.settle()
            found[name] = cluster
        yield found


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def api() -> Iterator[Api]:
    """A repository without comments; every request has to carry the token, and nothing else may."""
    with Api() as api:
        yield api
        for request in api.requests:
            wanted = None if request.path.startswith("/storage") else f"Bearer {TOKEN}"
            assert request.headers.get("authorization") == wanted
            assert TOKEN not in request.path + str(request.query) + str(request.body)
