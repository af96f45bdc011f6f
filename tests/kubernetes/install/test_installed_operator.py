"""The operator after ``helm install``, started as the Deployment starts it.

The tests send the requests of kubelet and ``helm test``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import BROKERS
from kubernetes.fixtures.chart_fixture import EXTERNAL_CRDS_VALUES, ChartFixture
from kubernetes.fixtures.resources import create, topic
from support.kubernetes.helm import only_document, render
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer
from support.zookeeper.client import connect_client
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

PATIENCE = 120.0


@pytest.fixture
def kafka() -> Iterator[SimulatedKafka]:
    """Start a simulated Kafka cluster."""
    with EmbeddedZooKeeper() as server, SimulatedKafka(f"{server.connect}/kafka", BROKERS) as kafka:
        yield kafka


def started(site: ChartFixture, server: ApiServer, folder: Path) -> tuple[OperatorProcess, Mapping[str, Any]]:
    """Return the operator with the Deployment's arguments and ServiceAccount, and its container.

    Only the listen address differs, and the namespace is explicit, because there is no ServiceAccount folder.
    """
    spec = site.get_object("apis/apps/v1 deployments/topiarist")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    words = [word for word in container["args"] if not word.startswith("--listen=")]
    token = site.api.request_token(site.namespace, spec["serviceAccountName"])
    return OperatorProcess(server, site.namespace, folder, *words[1:], token=token), container


@pytest.mark.parametrize("values", [{}, {"leaderElection": {"enabled": True}, "replicas": 2}], ids=["one", "several"])
@pytest.mark.parametrize("everywhere", [True, False], ids=["everywhere", "namespaces"])
def test_topics_come_about(
    server: ApiServer, namespace: str, kafka: SimulatedKafka, tmp_path: Path, values: dict[str, Any], everywhere: bool
) -> None:
    """After one install and one apply, a topic exists, declared in a namespace that the Cluster allows by label."""
    site = ChartFixture(server, f"{namespace}-hard")
    rule = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}}
    spec = {"zookeeper": {"connect": kafka.connect}, "kafkaVersion": "3.9", "allowedTopics": [rule]}
    watched = [] if everywhere else [namespace]
    site.install({**EXTERNAL_CRDS_VALUES, **values, "watchNamespaces": watched, "clusters": {"prod": {"spec": spec}}})
    operator, container = started(site, server, tmp_path / "operator")
    with operator, connect_client(kafka.connect) as client:
        assert create(site.api, namespace, topic("orders", partitions=3, replicationFactor=2)).status == 201
        for what in ("cluster/prod", f"--namespace={namespace} topic/orders"):
            done = site.api.kubectl("wait", "--for=condition=Ready", f"--timeout={PATIENCE:.0f}s", *what.split())
            assert done.returncode == 0, f"{done.stderr}\n{operator.process.read_log()}"
        assert client.exists("/brokers/topics/orders")
        for probe in ("livenessProbe", "readinessProbe"):
            assert operator.http_get(container[probe]["httpGet"]["path"])[0] == 200
        assert "forbidden" not in operator.process.read_log()
        assert asked_as_helm_does(operator, site).returncode == 0
    assert asked_as_helm_does(operator, site).returncode != 0


def asked_as_helm_does(operator: OperatorProcess, site: ChartFixture) -> subprocess.CompletedProcess[str]:
    """Run the program of ``helm test`` against an operator."""
    command = only_document(render(namespace=site.namespace), "Pod")["spec"]["containers"][0]["command"]
    words = [sys.executable, *command[1:-1], f"http://127.0.0.1:{operator.port}"]
    return subprocess.run(words, capture_output=True, text=True, check=False)
