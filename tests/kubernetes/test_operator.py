"""The operator at work: what is declared comes about, what is changed outside is seen, and statuses tell the truth."""

from __future__ import annotations

from kubernetes.resources import cluster, path
from kubernetes.scene import PATIENCE, Scene
from support import checker
from support.kube import ApiServer
from support.waiting import wait_until
from topiarist.adapters import znodes


def test_a_topic_is_made_and_ready(scene: Scene) -> None:
    """With the partitions that it asks for, a status that names them, and an Event."""
    scene.cluster()
    scene.until_seen()
    scene.topic("orders", config={"retention.ms": 604800000, "preallocate": False})
    scene.until_ready("orders")
    done = scene.api.kubectl("wait", "--for=condition=Ready", "topic/orders", "--timeout=10s")
    assert done.returncode == 0, done.stderr
    assert scene.partitions("orders") == 3
    assert scene.config("orders") == {"retention.ms": "604800000", "preallocate": "false"}
    (on,) = scene.found("orders")["status"]["clusters"]
    assert (on["name"], on["state"], on["partitions"], on["replicationFactor"]) == ("prod", "InStep", 3, 2)
    assert on["topicId"]
    scene.until_events("orders", "TopicCreated")


def test_a_pass_with_nothing_to_do_writes_nothing(scene: Scene) -> None:
    """Neither into ZooKeeper nor to the API server."""
    scene.cluster()
    scene.topic("orders")
    scene.until_ready("orders")
    tree, version = checker.look(scene.kafka.connect), scene.found("orders")["metadata"]["resourceVersion"]
    scene.topic("later")
    scene.until_ready("later")  # so a pass has been there
    assert {
        name: node for name, node in checker.look(scene.kafka.connect).items() if name in tree
    }.keys() == tree.keys()
    assert scene.found("orders")["metadata"]["resourceVersion"] == version


def test_what_the_spec_changes_is_done(scene: Scene) -> None:
    """Growth, a value, a key that leaves; each once, with an Event."""
    scene.cluster()
    scene.until_seen()
    scene.topic("orders", config={"flush.ms": 7, "retention.ms": 604800000})
    scene.until_ready("orders")
    scene.topic("orders", partitions=6, config={"flush.ms": 8, "retention.ms": 604800000})
    scene.until_ready("orders")
    assert scene.partitions("orders") == 6
    assert scene.config("orders")["flush.ms"] == "8"
    scene.until_events("orders", "TopicCreated", "PartitionsIncreased", "ConfigUpdated")


def test_drift_is_reported(scene: Scene) -> None:
    """By condition and Event; the cluster keeps what others made of it, and what the spec changes is still done."""
    scene.cluster()
    scene.topic("orders", config={"flush.ms": 7})
    scene.until_ready("orders")
    scene.client.set("/config/topics/orders", znodes.encode_config({"flush.ms": "9"}))
    scene.until("orders", DriftDetected=("True", "DriftDetected"), Ready=("False", "DriftDetected"))
    scene.topic("orders", config={"flush.ms": 7, "segment.ms": 86400000})
    wait_until(lambda: "segment.ms" in scene.config("orders"), "the new key is set", patience=PATIENCE)
    assert scene.config("orders")["flush.ms"] == "9"
    wait_until(lambda: "DriftDetected" in scene.events("orders"), "an Event", patience=PATIENCE)


def test_drift_is_corrected_where_that_is_asked_for(scene: Scene) -> None:
    """The cluster is as asked again, without anybody's doing."""
    scene.cluster(driftPolicy="Correct")
    scene.topic("orders", config={"flush.ms": 7})
    scene.until_ready("orders")
    scene.client.set("/config/topics/orders", znodes.encode_config({"flush.ms": "9"}))
    wait_until(lambda: scene.config("orders")["flush.ms"] == "7", "the value is back", patience=PATIENCE)
    scene.until_ready("orders")


def test_a_retained_topic_stays(scene: Scene) -> None:
    """Its resource goes at once."""
    scene.cluster(allowDeletion=True)
    scene.topic("orders")
    scene.until_ready("orders")
    assert "finalizers" not in scene.found("orders")["metadata"]
    scene.delete("orders")
    wait_until(lambda: not scene.found("orders"), "the resource has gone", patience=PATIENCE)
    assert scene.partitions("orders") == 3


def test_a_topic_goes_with_its_resource(scene: Scene) -> None:
    """With deletionPolicy: Delete and the Cluster's word: first the topic, then the resource."""
    scene.cluster(allowDeletion=True)
    scene.topic("orders", deletionPolicy="Delete")
    scene.until_ready("orders")
    wait_until(lambda: "finalizers" in scene.found("orders")["metadata"], "the finalizer is there", patience=PATIENCE)
    scene.delete("orders")
    wait_until(lambda: not scene.found("orders"), "the resource has gone", patience=PATIENCE)
    assert scene.partitions("orders") == 0


def test_a_deletion_is_held_without_the_clusters_word(scene: Scene) -> None:
    """The resource says so, and an annotation lets it go."""
    scene.cluster()
    scene.topic("orders", deletionPolicy="Delete")
    scene.until_ready("orders")
    wait_until(lambda: "finalizers" in scene.found("orders")["metadata"], "the finalizer is there", patience=PATIENCE)
    scene.delete("orders")
    scene.until("orders", Stalled=("True", "DeletionHeld"))
    scene.topic("orders", {"retain": "true"}, deletionPolicy="Delete")
    wait_until(lambda: not scene.found("orders"), "the resource has gone", patience=PATIENCE)
    assert scene.partitions("orders") == 3


def test_topics_of_other_namespaces_are_refused(scene: Scene, server: ApiServer) -> None:
    """Unless the Cluster allows them."""
    other = f"{scene.namespace}-b"
    server.admin.make("/api/v1/namespaces", {"metadata": {"name": other, "labels": {"team": "b"}}})
    scene.cluster()
    stranger = Scene(scene.api, other, scene.kafka, scene.client)
    stranger.topic("theirs")
    stranger.until("theirs", Stalled=("True", "NotAllowed"))
    rule = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}, "names": ["th*"]}
    scene.cluster(allowedTopics=[rule])
    stranger.until_ready("theirs")


def test_a_cluster_that_is_away_is_said(scene: Scene) -> None:
    """By its own condition; other clusters go on."""
    scene.apply(cluster("away", zookeeper={"connect": "127.0.0.1:1"}, kafkaVersion="3.9"))
    scene.cluster()
    scene.topic("orders", clusters=["prod"])
    scene.until_ready("orders")
    found = scene.api.call("GET", path(scene.namespace, cluster("away"), "away")).body
    wait_until(
        lambda: scene.api.call("GET", path(scene.namespace, cluster("away"), "away")).body.get("status"),
        "the cluster has a status",
        patience=PATIENCE,
    )
    found = scene.api.call("GET", path(scene.namespace, cluster("away"), "away")).body
    (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "Unreachable")
