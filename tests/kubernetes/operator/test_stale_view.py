"""An operator with a watch that lags behind a real API server deletes no topic because of its old view."""

from __future__ import annotations

import threading

from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S
from kubernetes.fixtures.resources import cluster, resource_path, topic
from support.kubernetes.relay import ApiRelay, Event
from support.waiting import wait_until


def test_a_recreated_topic_survives_an_old_view(stage: FaultFixture, namespace: str) -> None:
    """A Topic is deleted while its Cluster is paused, and recreated, which the operator does not receive.

    Then the pause ends: the topic stays, and is reconciled once the events arrive.
    """
    relay = stage.stack.enter_context(ApiRelay(stage.server))
    scene = stage.make_fixture(namespace)
    scene.declare_cluster(allowDeletion=True)
    is_lagging, seen = threading.Event(), threading.Event()

    def on_watch_event(event: Event) -> bool:
        """Withhold events of Topics while the watch lags; note the deletion of the first Topic."""
        if event["object"].get("kind") != "Topic":
            return True
        if "deletionTimestamp" in event["object"]["metadata"]:
            seen.set()
        return not is_lagging.is_set()

    relay.on_watch_event = on_watch_event
    operator = stage.start_operator(namespace, through=relay.api)
    scene.declare_topic("orders", deletionPolicy="Delete")
    scene.wait_until_ready("orders")
    wait_until(lambda: "finalizers" in scene.get_topic("orders")["metadata"], "a finalizer", timeout=OPERATOR_TIMEOUT_S)
    created = scene.client.get("/brokers/topics/orders")[1].czxid

    def pause(paused: str) -> None:
        body = {"metadata": {"annotations": {"topiarist.dev/paused": paused}}}
        path = resource_path(namespace, cluster("prod"), "prod")
        assert scene.api.call("PATCH", path, body, "application/merge-patch+json").status == 200

    pause("true")
    wait_until(
        lambda: scene.get_topic("orders")["status"]["clusters"][0]["state"] == "Paused",
        "the pause is effective",
        timeout=OPERATOR_TIMEOUT_S,
    )
    scene.delete_topic("orders")
    wait_until(seen.is_set, "the operator receives the deletion", timeout=OPERATOR_TIMEOUT_S)
    is_lagging.set()
    path = resource_path(namespace, topic("orders"), "orders")
    body = {"metadata": {"finalizers": None}}
    assert scene.api.call("PATCH", path, body, "application/merge-patch+json").status == 200
    wait_until(lambda: not scene.get_topic("orders"), "the resource is deleted", timeout=OPERATOR_TIMEOUT_S)
    scene.declare_topic("orders", deletionPolicy="Delete")
    pause("false")
    conflict = "the Topic was changed or deleted since it was read"
    wait_until(lambda: conflict in operator.log, "the deletion is withheld", timeout=OPERATOR_TIMEOUT_S)
    assert scene.client.get("/brokers/topics/orders")[1].czxid == created
    is_lagging.clear()
    scene.declare_topic("orders", deletionPolicy="Delete", config={"flush.ms": 7})
    scene.wait_until_ready("orders")
    assert scene.client.get("/brokers/topics/orders")[1].czxid == created
    assert scene.topic_config("orders") == {"flush.ms": "7"}
    assert_healthy(operator)
