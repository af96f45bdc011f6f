"""The whole path from a manifest to a message.

The tests run kubectl, the operator, ZooKeeper, real brokers of the newest release, and a client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.jars import NEWEST, JarsError, fetch_jars
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.programs import Program
from support.kafka.zookeeper import ZooKeeper
from support.kubernetes.api_client import ApiClient
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer

MANIFESTS = """
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: prod}}
spec:
  zookeeper: {{connect: "{connect}"}}
  kafkaVersion: "{version}"
  allowDeletion: true
---
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: orders}}
spec:
  topicName: orders.v1
  partitions: {partitions}
  replicationFactor: 2
  config: {{retention.ms: 604800000, cleanup.policy: delete}}
  deletionPolicy: Delete
"""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaFixture]:
    """Start two brokers of the newest release, and Kafka's own clients."""
    try:
        fetch_jars(NEWEST)
    except JarsError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with (
        ZooKeeper(NEWEST) as zookeeper,
        Cluster(zookeeper, NEWEST, {1: "a", 2: "b"}) as cluster,
        Program("Clients", NEWEST) as program,
    ):
        yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


def test_a_message_goes_through_a_topic_that_kubectl_applied(
    server: ApiServer, api: ApiClient, namespace: str, kafka: KafkaFixture, tmp_path: Path
) -> None:
    """A topic applied by kubectl becomes ready and carries messages, also after growth.

    Its deletion removes it from the brokers.
    """

    def applied(partitions: int) -> None:
        given = MANIFESTS.format(connect=kafka.kafka.connect, version=kafka.kafka.version, partitions=partitions)
        for words in (("apply", "-f", "-"), ("wait", "--for=condition=Ready", "topic/orders", "--timeout=110s")):
            done = api.kubectl(*words, given=given)
            assert done.returncode == 0, (done.stderr, api.kubectl("describe", "tpt,tpc").stdout)

    with OperatorProcess(server, namespace, tmp_path / "operator", "--period", "1") as operator:
        applied(3)
        described = kafka.describe_in_sync(["orders.v1"])["orders.v1"]
        assert len(described.partitions) == 3
        assert kafka.clients.overrides(["orders.v1"]) == {
            "orders.v1": {"retention.ms": "604800000", "cleanup.policy": "delete"}
        }
        found = api.kubectl("get", "tpt", "orders", "-o", "jsonpath={.status.clusters[0].topicId}").stdout
        assert found == described.id
        kafka.write_messages({"orders.v1": range(3)}, "first")
        assert kafka.read_messages({"orders.v1": range(3)}) == {"orders.v1": [["first"]] * 3}
        applied(5)
        kafka.describe_grown({"orders.v1": 5})
        kafka.describe_in_sync(["orders.v1"])
        kafka.write_messages({"orders.v1": range(5)}, "second")
        assert kafka.read_messages({"orders.v1": range(5)}) == {
            "orders.v1": [["first", "second"]] * 3 + [["second"]] * 2
        }
        done = api.kubectl("delete", "tpt", "orders", "--timeout=110s")
        assert done.returncode == 0, done.stderr
        kafka.kafka.wait(lambda: kafka.clients.describe(["orders.v1"])["orders.v1"] is None, "the topic to be gone")
        assert "Traceback" not in operator.process.read_log()
