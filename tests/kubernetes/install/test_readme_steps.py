"""The README's installation steps for Kubernetes, with real Helm, kubectl and API server.

Two parts are replaced. No image runs, so the test starts the operator as the Deployment would. The ZooKeeper address of
the README is replaced by the address of the test's server.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import BROKERS
from kubernetes.fixtures.chart_fixture import EXTERNAL_CRDS_VALUES, ChartFixture
from support.checkout import ROOT
from support.kubernetes.helm import only_document, render
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer
from support.repo.pages import blocks
from support.zookeeper.client import connect_client
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

README = (ROOT / "README.md").read_text()
ADDRESS = "zk1.example.com:2181/kafka"
CLUSTER_ID = "7sYkR1TQ9mWb3xE0uVfLpA"

(STEPS,) = [block.text for block in blocks(README) if block.language == "sh" and "helm install" in block.text]


@pytest.fixture
def kafka() -> Iterator[SimulatedKafka]:
    """Start a simulated Kafka cluster."""
    with EmbeddedZooKeeper() as server, SimulatedKafka(f"{server.connect}/kafka", BROKERS) as kafka:
        yield kafka


def step(program: str) -> list[str]:
    """Return the words of the only step that starts with a program."""
    (line,) = [line for line in STEPS.splitlines() if line.startswith(f"{program} ")]
    return shlex.split(line)


def test_the_image_that_is_built_is_the_one_that_runs() -> None:
    """The steps build and load the image name that the chart uses by default."""
    (container,) = only_document(render(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == step("docker")[-2] == step("kind")[-1]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert step("docker") == ["docker", "build", "--tag", container["image"], "."]
    assert (ROOT / "Dockerfile").exists()


def test_the_steps_lead_to_a_topic(server: ApiServer, namespace: str, kafka: SimulatedKafka, tmp_path: Path) -> None:
    """Helm installs the chart of the README, and the resources that kubectl applies become ready and create the topic
    in ZooKeeper.
    """
    helm = step("helm")
    assert helm[:4] == ["helm", "install", "topiarist", "charts/topiarist"]
    assert {*helm[4:]} == {"--namespace", "topiarist", "--create-namespace", "--wait"}
    site = ChartFixture(server, f"{namespace}-readme")
    site.install(EXTERNAL_CRDS_VALUES, ROOT / helm[3])
    container = site.get_object("apis/apps/v1 deployments/topiarist")["spec"]["template"]["spec"]["containers"][0]
    words = [word for word in container["args"] if not word.startswith("--listen=")]
    token = site.api.request_token(site.namespace, "topiarist")
    rest = STEPS[STEPS.index("cat > ") :].replace("--namespace topiarist", f"--namespace {site.namespace}")
    assert rest.count(ADDRESS) == rest.count(CLUSTER_ID) == 1
    rest = rest.replace(ADDRESS, kafka.connect).replace(CLUSTER_ID, kafka.cluster_id)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(site.api.endpoint.kubectl)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(site.api.kubeconfig),
    }
    operator = OperatorProcess(server, site.namespace, tmp_path / "operator", *words[1:], token=token)
    with operator, connect_client(kafka.connect) as client:
        done = subprocess.run(
            ["bash", "-e", "-c", rest], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{operator.process.read_log()}"
        assert client.exists("/brokers/topics/orders")
    met = [line for line in done.stdout.splitlines() if line.endswith("condition met")]
    assert len(met) == len(re.findall("^kubectl wait", rest, re.MULTILINE)) == 2
