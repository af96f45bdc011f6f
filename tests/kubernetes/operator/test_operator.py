"""The operator in operation: it creates declared topics, detects external changes, and writes correct statuses."""

from __future__ import annotations

from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from kubernetes.fixtures.resources import cluster, resource_path
from support.kubernetes.server import ApiServer
from support.waiting import wait_until
from support.zookeeper import write_checker
from topiarist.adapters.zookeeper.codec import topics


def test_a_topic_is_made_and_ready(scene: OperatorFixture) -> None:
    """The operator creates a topic with the declared partitions, a status that names them, and an Event."""
    scene.declare_cluster()
    scene.wait_for_cluster_status()
    scene.declare_topic("orders", config={"retention.ms": 604800000, "preallocate": False})
    scene.wait_until_ready("orders")
    done = scene.api.kubectl("wait", "--for=condition=Ready", "topic/orders", "--timeout=10s")
    assert done.returncode == 0, done.stderr
    assert scene.partition_count("orders") == 3
    assert scene.topic_config("orders") == {"retention.ms": "604800000", "preallocate": "false"}
    (on,) = scene.get_topic("orders")["status"]["clusters"]
    assert (on["name"], on["state"], on["partitions"], on["replicationFactor"]) == ("prod", "Synced", 3, 2)
    assert on["topicId"]
    scene.wait_for_events("orders", "TopicCreated")


def test_a_pass_with_nothing_to_do_writes_nothing(scene: OperatorFixture) -> None:
    """A pass without changes writes neither to ZooKeeper nor to the API server."""
    scene.declare_cluster()
    scene.declare_topic("orders")
    scene.wait_until_ready("orders")
    tree, version = (
        write_checker.read_nodes(scene.kafka.connect),
        scene.get_topic("orders")["metadata"]["resourceVersion"],
    )
    scene.declare_topic("later")
    scene.wait_until_ready("later")  # so another pass has ended
    assert {
        name: node for name, node in write_checker.read_nodes(scene.kafka.connect).items() if name in tree
    }.keys() == tree.keys()
    assert scene.get_topic("orders")["metadata"]["resourceVersion"] == version


def test_what_the_spec_changes_is_done(scene: OperatorFixture) -> None:
    """The operator applies growth and a changed config value of the spec once each, with an Event."""
    scene.declare_cluster()
    scene.wait_for_cluster_status()
    scene.declare_topic("orders", config={"flush.ms": 7, "retention.ms": 604800000})
    scene.wait_until_ready("orders")
    scene.declare_topic("orders", partitions=6, config={"flush.ms": 8, "retention.ms": 604800000})
    scene.wait_until_ready("orders")
    assert scene.partition_count("orders") == 6
    assert scene.topic_config("orders")["flush.ms"] == "8"
    scene.wait_for_events("orders", "TopicCreated", "PartitionsIncreased", "ConfigUpdated")


def test_drift_is_reported(scene: OperatorFixture) -> None:
    """A condition and an Event report drift.

    The operator keeps the external change and still applies other changes of the spec.
    """
    scene.declare_cluster()
    scene.declare_topic("orders", config={"flush.ms": 7})
    scene.wait_until_ready("orders")
    scene.client.set("/config/topics/orders", topics.encode_config({"flush.ms": "9"}))
    scene.wait_for_conditions("orders", DriftDetected=("True", "DriftDetected"), Ready=("False", "DriftDetected"))
    scene.declare_topic("orders", config={"flush.ms": 7, "segment.ms": 86400000})
    wait_until(lambda: "segment.ms" in scene.topic_config("orders"), "the new key is set", timeout=OPERATOR_TIMEOUT_S)
    assert scene.topic_config("orders")["flush.ms"] == "9"
    wait_until(lambda: "DriftDetected" in scene.event_reasons("orders"), "an Event", timeout=OPERATOR_TIMEOUT_S)


def test_drift_is_corrected_where_that_is_asked_for(scene: OperatorFixture) -> None:
    """With ``driftPolicy: Correct`` the operator reverts an external change."""
    scene.declare_cluster(driftPolicy="Correct")
    scene.declare_topic("orders", config={"flush.ms": 7})
    scene.wait_until_ready("orders")
    scene.client.set("/config/topics/orders", topics.encode_config({"flush.ms": "9"}))
    wait_until(lambda: scene.topic_config("orders")["flush.ms"] == "7", "the value is back", timeout=OPERATOR_TIMEOUT_S)
    scene.wait_until_ready("orders")


def test_a_retained_topic_stays(scene: OperatorFixture) -> None:
    """With ``deletionPolicy: Retain`` the resource is deleted at once and the topic stays."""
    scene.declare_cluster(allowDeletion=True)
    scene.declare_topic("orders")
    scene.wait_until_ready("orders")
    assert "finalizers" not in scene.get_topic("orders")["metadata"]
    scene.delete_topic("orders")
    wait_until(lambda: not scene.get_topic("orders"), "the resource has gone", timeout=OPERATOR_TIMEOUT_S)
    assert scene.partition_count("orders") == 3


def test_a_topic_goes_with_its_resource(scene: OperatorFixture) -> None:
    """With ``deletionPolicy: Delete`` and ``allowDeletion`` the operator deletes the topic first, then the resource."""
    scene.declare_cluster(allowDeletion=True)
    scene.declare_topic("orders", deletionPolicy="Delete")
    scene.wait_until_ready("orders")
    wait_until(
        lambda: "finalizers" in scene.get_topic("orders")["metadata"],
        "the finalizer is there",
        timeout=OPERATOR_TIMEOUT_S,
    )
    scene.delete_topic("orders")
    wait_until(lambda: not scene.get_topic("orders"), "the resource has gone", timeout=OPERATOR_TIMEOUT_S)
    assert scene.partition_count("orders") == 0


def test_a_deletion_is_held_without_the_clusters_word(scene: OperatorFixture) -> None:
    """Without ``allowDeletion`` the resource stays and reports ``DeletionHeld``.

    The annotation ``retain`` releases it.
    """
    scene.declare_cluster()
    scene.declare_topic("orders", deletionPolicy="Delete")
    scene.wait_until_ready("orders")
    wait_until(
        lambda: "finalizers" in scene.get_topic("orders")["metadata"],
        "the finalizer is there",
        timeout=OPERATOR_TIMEOUT_S,
    )
    scene.delete_topic("orders")
    scene.wait_for_conditions("orders", Stalled=("True", "DeletionHeld"))
    scene.declare_topic("orders", {"retain": "true"}, deletionPolicy="Delete")
    wait_until(lambda: not scene.get_topic("orders"), "the resource has gone", timeout=OPERATOR_TIMEOUT_S)
    assert scene.partition_count("orders") == 3


def test_topics_of_other_namespaces_are_refused(scene: OperatorFixture, server: ApiServer) -> None:
    """The operator refuses Topics of other namespaces until the Cluster allows them."""
    other = f"{scene.namespace}-b"
    server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": other, "labels": {"team": "b"}}})
    scene.declare_cluster()
    stranger = OperatorFixture(scene.api, other, scene.kafka, scene.client)
    stranger.declare_topic("theirs")
    stranger.wait_for_conditions("theirs", Stalled=("True", "NotAllowed"))
    rule = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}, "names": ["th*"]}
    scene.declare_cluster(allowedTopics=[rule])
    stranger.wait_until_ready("theirs")


def test_a_cluster_that_is_away_is_said(scene: OperatorFixture) -> None:
    """An unreachable cluster is reported in its condition; the operator still serves the other clusters."""
    scene.apply(cluster("away", zookeeper={"connect": "127.0.0.1:1"}, kafkaVersion="3.9"))
    scene.declare_cluster()
    scene.declare_topic("orders", clusters=["prod"])
    scene.wait_until_ready("orders")
    found = scene.api.call("GET", resource_path(scene.namespace, cluster("away"), "away")).body
    wait_until(
        lambda: scene.api.call("GET", resource_path(scene.namespace, cluster("away"), "away")).body.get("status"),
        "the cluster has a status",
        timeout=OPERATOR_TIMEOUT_S,
    )
    found = scene.api.call("GET", resource_path(scene.namespace, cluster("away"), "away")).body
    (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "Unreachable")
