"""Handing KafkaTopics over, step by step as docs/strimzi.md has it: from Strimzi, to Topics, and back to Strimzi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S
from kubernetes.fixtures.shared_operator_fixture import SharedOperator, SharedOperatorFixture
from kubernetes.fixtures.strimzi import MERGE_PATCH, KafkaTopics, install_strimzi, kafka_path, remove_strimzi
from support.cli.runs import run_topiarist
from support.kubernetes.operator_process import OperatorProcess
from support.kubernetes.rbac import grant, rbac_documents
from support.kubernetes.server import ApiServer
from support.waiting import wait_until
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

REPLICAS = ((1, 2), (2, 3), (3, 1))
HOME = "strimzi-home"
TAKEN = ("Ready", "True", "Synced")


@pytest.fixture(scope="module")
def estate(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedOperator]:
    """Start an operator with the rights for KafkaTopics; the API server does not know them yet."""
    remove_strimzi(server.admin)
    server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": HOME}})
    token = grant(server, rbac_documents(HOME, {"kafkaTopics": {"enabled": True}}))
    folder = tmp_path_factory.mktemp("strimzi")
    with OperatorProcess(server, HOME, folder, "--period", "1", token=token) as operator:
        yield SharedOperator(server, zookeeper, operator, HOME, folder)
        log = operator.process.read_log()
        assert operator.process.alive, log
    assert "Traceback" not in log, log
    remove_strimzi(server.admin)


@pytest.fixture
def topics(place: SharedOperatorFixture) -> KafkaTopics:
    """Return the KafkaTopics of the test, for its Cluster."""
    return KafkaTopics(place.api, place.namespace, place.name)


def test_kafka_topics_are_handed_over(place: SharedOperatorFixture, topics: KafkaTopics, tmp_path: Path) -> None:
    """In each direction no topic is lost, and at no time do two operators write.

    The definition of KafkaTopics comes after the operator, which notices it.
    """
    place.kafka.add_topics(Topic("orders", REPLICAS, {"flush.ms": "7"}), Topic("clicks", REPLICAS))
    place.declare_cluster(sources=["KafkaTopic"])
    place.wait_for_cluster_conditions(Stalled=("True", "PrerequisiteMissing"))
    install_strimzi(place.shared_operator.server.admin)
    place.wait_for_cluster_conditions(Ready=("True", "Reachable"))
    leave_them_to_strimzi(place, topics)
    take_them_over(place, topics)
    delete_one(place, topics)
    replace_by_topic(place, topics, tmp_path)
    strimzi_comes_back(place, topics)
    give_them_back(place, topics)


def leave_them_to_strimzi(place: SharedOperatorFixture, topics: KafkaTopics) -> None:
    """While a Kafka resource declares a topic operator, nothing is written, and everyone is told."""
    entity_operator: dict[str, Any] = {"entityOperator": {"topicOperator": {}, "userOperator": {}}}
    body = {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": {"name": topics.cluster}}
    place.api.create_object(kafka_path(place.namespace), {**body, "spec": entity_operator})
    topics.create("orders", config={"flush.ms": 7})
    topics.create("clicks")
    topics.create("payments")
    place.wait_for_cluster_conditions(StrimziActive=("True", "StrimziActive"))
    for name in ("orders", "clicks", "payments"):
        place.wait_for_events(name, "StrimziActive")
        assert "status" not in topics.get(name)
    assert not place.client.exists("/topiarist/topics/orders")
    assert place.partition_count("payments") == 0


def take_them_over(place: SharedOperatorFixture, topics: KafkaTopics) -> None:
    """Without the topic operator they are topiarist's: adopted or created, with statuses and without Strimzi's hold."""
    without = {"spec": {"entityOperator": {"topicOperator": None}}}
    assert place.api.call("PATCH", kafka_path(place.namespace, topics.cluster), without, MERGE_PATCH).status == 200
    for name in ("orders", "clicks", "payments"):
        topics.wait_for_condition(name, *TAKEN)
        assert "finalizers" not in topics.get(name)["metadata"]
    assert "StrimziActive" not in place.cluster_conditions()
    assert place.are_present_and_owned("orders", "clicks", "payments")
    found = topics.get("orders")
    assert found["status"]["topicName"] == "orders"
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    topics.patch("orders", spec={"partitions": 4, "config": {"flush.ms": 8}})
    place.wait_for(lambda: place.partition_count("orders") == 4, "the topic grows")
    place.wait_for(lambda: place.topic_config("orders") == {"flush.ms": "8"}, "its config is set")


def delete_one(place: SharedOperatorFixture, topics: KafkaTopics) -> None:
    """The deletion of a KafkaTopic is not held, and keeps its topic."""
    topics.delete("payments")
    place.wait_for(lambda: not topics.get("payments"), "the resource is gone")
    place.wait_for_full_pass()
    assert place.partition_count("payments") == 3


def replace_by_topic(place: SharedOperatorFixture, topics: KafkaTopics, folder: Path) -> None:
    """A Topic of the importer takes over when its KafkaTopic is unmanaged, and stays when that one is deleted."""
    name = f"{place.name}.orders"
    place.declare_cluster(sources=["Topic", "KafkaTopic"])
    where = f"--namespace={place.namespace}"
    found = place.api.kubectl("get", where, "kafkatopics.kafka.strimzi.io", "orders", "-o", "yaml")
    (folder / "kafkatopics.yaml").write_text(found.stdout)
    done = run_topiarist("import", "strimzi", str(folder / "kafkatopics.yaml"), "--out", str(folder / "topics"))
    assert done.code == 0, done.err
    applied = place.api.kubectl("apply", where, "-f", folder / "topics")
    assert applied.returncode == 0, applied.stderr
    place.wait_for_conditions(name, Stalled=("True", "ResourceConflict"))
    marked = place.api.kubectl("annotate", where, "kafkatopics.kafka.strimzi.io", "orders", "strimzi.io/managed=false")
    assert marked.returncode == 0, marked.stderr
    place.wait_until_ready(name)
    topics.wait_for_condition("orders", "Unmanaged", "True", "Unmanaged")
    topics.delete("orders")
    wait_until(lambda: not topics.get("orders"), "the resource is gone", timeout=OPERATOR_TIMEOUT_S)
    place.wait_for_full_pass()
    assert place.are_present_and_owned("orders")
    assert place.partition_count("orders") == 4


def strimzi_comes_back(place: SharedOperatorFixture, topics: KafkaTopics) -> None:
    """A topic operator that no Kafka resource declares is noticed by its writes; then nothing is written any more."""
    topics.reconcile("clicks")
    place.wait_for_cluster_conditions(StrimziActive=("True", "StrimziActive"))
    topics.patch("clicks", spec={"partitions": 5})
    place.wait_for_full_pass()
    assert place.partition_count("clicks") == 3
    assert topics.condition("clicks") == ("Ready", "True", "")


def give_them_back(place: SharedOperatorFixture, topics: KafkaTopics) -> None:
    """Without KafkaTopic among the sources topiarist writes no KafkaTopic; Topics are not affected."""
    place.declare_cluster(sources=["Topic"])
    place.wait_for(lambda: "StrimziActive" not in place.cluster_conditions(), "the Cluster has no KafkaTopics")
    version = topics.reconcile("clicks")
    place.wait_for_full_pass()
    assert topics.get("clicks")["metadata"]["resourceVersion"] == version
    assert place.partition_count("clicks") == 3
    place.wait_until_ready(f"{place.name}.orders")
