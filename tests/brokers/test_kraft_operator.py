"""The operator with a real API server, over real brokers in KRaft mode that it logs in to."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.shared_clusters import FIRST_WITH_SCRAM, OPERATOR_PASSWORD
from brokers.topiarist_runs import run_in_process
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, DeclaredResources, conditions_of
from support.builders import document
from support.kafka.acls import Acl, create_acls
from support.kafka.kraft_fixture import KraftFixture
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.server import ApiServer, open_api_server
from support.secret_scanner import assert_no_secrets_in_files
from support.waiting import wait_until
from topiarist.errors import Exit
from topiarist.model.access import DEFAULT_RECORDS_TOPIC

NAMESPACE = "topiarist"
RECORDS = DEFAULT_RECORDS_TOPIC.name


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Start an API server with topiarist's definitions; without Go the test is skipped, but fails in CI."""
    with open_api_server(tmp_path_factory.mktemp("kube")) as server:
        yield server


def test_the_operator_keeps_the_topics_of_a_cluster_in_kraft_mode(
    api_server: ApiServer, kraft: KraftFixture, kraft_release: str, tmp_path: Path
) -> None:
    """It logs in with a Secret, creates and changes topics, reports drift, an offline broker, a freeze and lost
    records, and its metrics count requests of Kafka's protocol.
    """
    api_server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    if kraft_release < FIRST_WITH_SCRAM:
        pytest.skip(f"Kafka {kraft_release} has no SCRAM in KRaft mode")
    bed = kraft
    with OperatorProcess(api_server, NAMESPACE, tmp_path / "operator", "--period", "1", secrets=["kafka"]) as operator:
        declared = DeclaredResources(api_server.api("admin", NAMESPACE), NAMESPACE)
        check_login(declared, bed)
        check_topic(declared, bed, operator)
        check_drift_and_growth(declared, bed)
        check_freeze(declared, bed)
        check_lost_records(declared, bed)
        log = operator.process.read_log()
        assert operator.process.alive, log
        assert "Traceback" not in log, log
    assert_no_secrets_in_files(tmp_path)


def check_login(declared: DeclaredResources, bed: KraftFixture) -> None:
    """Without the Secret the Cluster is not ready; with it the operator logs in."""
    login = {
        "mechanism": "SCRAM-SHA-512",
        "username": "topiarist",
        "password": {"secretKeyRef": {"name": "kafka", "key": "password"}},
    }
    rights = [Acl("topiarist", ("All",), resource) for resource in ("Cluster", "Group", "Topic", "TransactionalId")]
    create_acls(bed.kafka.bootstrap, rights)
    kafka = {"bootstrapServers": bed.kafka.bootstrap_of("LOGIN"), "sasl": login}
    declared.apply(document("Cluster", "prod", kafka=kafka))
    wait_for_cluster(declared, ("False", "CredentialsInvalid"))
    secret = {
        "metadata": {"name": "kafka"},
        "data": {"password": base64.b64encode(OPERATOR_PASSWORD.encode()).decode()},
    }
    declared.api.create_object(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
    wait_for_cluster(declared, ("True", "Reachable"))
    assert declared.get_cluster()["status"]["clusterId"] == bed.kafka.cluster_id


def check_topic(declared: DeclaredResources, bed: KraftFixture, operator: OperatorProcess) -> None:
    """The topic exists with its id in the status; the metrics have the session and the requests by name."""
    declared.declare_topic("orders", partitions=3, config={"flush.ms": 7})
    declared.wait_until_ready("orders")
    declared.wait_for_events("orders", "TopicCreated")
    wait_until(lambda: "TopicCreated" in declared.event_reasons("prod"), "the records", timeout=OPERATOR_TIMEOUT_S)
    topic = bed.wait_for_topic("orders", lambda topic: len(topic.replicas) == 3)
    (on,) = declared.get_topic("orders")["status"]["clusters"]
    assert (on["topicId"], on["partitions"], on["replicationFactor"]) == (topic.id, 3, 2)
    wait_until(lambda: "recordsTopicId" in declared.get_cluster()["status"], "the records", timeout=OPERATOR_TIMEOUT_S)
    assert declared.get_cluster()["status"]["recordsTopicId"] == bed.wait_for_topic(RECORDS).id
    metrics = operator.http_get("/metrics")[1]
    assert 'topiarist_cluster_session_state{cluster="prod"} 1.0' in metrics
    counts = dict(re.findall(r'topiarist_cluster_requests_total{cluster="prod",op="(\w+)",result="ok"} (\S+)', metrics))
    assert float(counts["CreateTopics"]) == 3.0  # a question about replica lists, the records, the topic
    assert float(counts["Metadata"]) > 0
    assert "zookeeper" not in metrics.lower()


def check_drift_and_growth(declared: DeclaredResources, bed: KraftFixture) -> None:
    """A change by another client is drift; growth waits while a broker is offline."""
    bed.clients.alter({"orders": {"flush.ms": "9"}})
    declared.wait_for_conditions("orders", DriftDetected=("True", "DriftDetected"))
    bed.clients.alter({"orders": {"flush.ms": "7"}})
    declared.wait_until_ready("orders")
    bed.kafka.kill(3)
    bed.kafka.wait(lambda: bed.registered() == {1, 2}, "the session of the broker to expire")
    declared.declare_topic("orders", partitions=6, config={"flush.ms": 8})
    declared.wait_for_conditions("orders", Ready=("False", "BrokersMissing"))
    wait_for_cluster(declared, ("True", "Reachable"))
    bed.kafka.start(3)
    declared.wait_until_ready("orders")
    bed.wait_for_topic("orders", lambda topic: len(topic.replicas) == 6)
    bed.kafka.wait(lambda: bed.clients.overrides(["orders"])["orders"] == {"flush.ms": "8"}, "the config")


def check_freeze(declared: DeclaredResources, bed: KraftFixture) -> None:
    """A freeze from the command line stops the operator, until it is ended."""
    address = ("--bootstrap-servers", bed.kafka.bootstrap)
    assert run_in_process("freeze", *address, "--reason", "test").code == Exit.DONE
    wait_for_cluster(declared, ("False", "Frozen"))
    declared.declare_topic("later")
    assert run_in_process("unfreeze", *address).code == Exit.DONE
    declared.wait_until_ready("later")
    wait_for_cluster(declared, ("True", "Reachable"))


def check_lost_records(declared: DeclaredResources, bed: KraftFixture) -> None:
    """A deleted topic of records stops the operator, until a user removes the annotation with the id."""
    assert bed.clients.delete([RECORDS]) == {}
    wait_for_cluster(declared, ("False", "RecordsLost"))
    declared.declare_topic("afterwards")
    done = declared.api.kubectl("annotate", "clusters.topiarist.dev", "prod", "topiarist.dev/records-topic-id-")
    assert done.returncode == 0, done.stderr
    declared.wait_until_ready("orders", "later", "afterwards")
    records = bed.wait_for_topic(RECORDS)
    wait_until(
        lambda: declared.get_cluster()["status"].get("recordsTopicId") == records.id,
        "the new records",
        timeout=OPERATOR_TIMEOUT_S,
    )


def wait_for_cluster(declared: DeclaredResources, ready: tuple[str, str]) -> None:
    """Wait until the Cluster has this condition ``Ready``."""

    def read() -> Any:
        return conditions_of(declared.get_cluster()).get("Ready")

    wait_until(lambda: read() == ready, f"Cluster: {ready}", timeout=OPERATOR_TIMEOUT_S)
