"""The operator at work: what is declared comes about, and the statuses say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import BROKERS
from kubernetes.resources import cluster, create, path, topic
from support.kube import ApiServer
from support.kubeapi import Api
from support.operator import Operator
from support.waiting import wait_until
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper."""
    with EmbeddedZooKeeper() as server:
        yield server


@pytest.fixture
def kafka(zookeeper: EmbeddedZooKeeper, namespace: str) -> Iterator[Playground]:
    """A cluster on it, with a played controller."""
    with Playground(f"{zookeeper.connect}/{namespace}", BROKERS) as playground:
        yield playground


@pytest.fixture
def operator(server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Operator]:
    """The operator, at home in the test's namespace."""
    with Operator(server, namespace, tmp_path / "operator") as operator:
        yield operator


def condition(api: Api, namespace: str, body: dict[str, Any], name: str) -> dict[str, Any]:
    """A condition of a resource; empty if it has none yet."""
    found = api.call("GET", path(namespace, body, body["metadata"]["name"])).body
    conditions = found.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == name), {})


def test_a_topic_is_made_and_ready(api: Api, namespace: str, kafka: Playground, operator: Operator) -> None:
    """With the partitions that it asks for, and a status that names them."""
    made = create(api, namespace, cluster("prod", zookeeper={"connect": kafka.connect}, kafkaVersion="3.9"))
    assert made.status == 201, made
    orders = topic("orders", partitions=3, replicationFactor=2, config={"retention.ms": 604800000})
    assert create(api, namespace, orders).status == 201
    wait_until(
        lambda: condition(api, namespace, orders, "Ready").get("status") == "True",
        "the Topic is ready",
        patience=60,
    )
    done = api.kubectl("wait", "--for=condition=Ready", "topic/orders", "--timeout=10s")
    assert done.returncode == 0, done.stderr
    print(api.kubectl("get", "topics,clusters.topiarist.dev").stdout)
    print(api.kubectl("describe", "topic", "orders").stdout)
    print(operator.process.log()[-3000:])
    print(operator.asked("/metrics")[1])
