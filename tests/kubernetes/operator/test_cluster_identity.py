"""The Kafka cluster of a Cluster on a real API server: kept from its first use on, and served for one Cluster only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from conftest import BROKERS
from kubernetes.fixtures.shared_operator_fixture import SharedOperatorFixture
from support.zookeeper.simulated_kafka import SimulatedKafka


def test_a_kafka_cluster_has_one_cluster_which_has_one_kafka_cluster(place: SharedOperatorFixture) -> None:
    """A second Cluster is refused with an Event, and takes over after the deletion of the first one.

    The id in its annotation then refuses another Kafka cluster at a changed address.
    """
    place.declare_cluster()
    place.declare_topic("orders", config={"flush.ms": 7})
    place.wait_until_ready("orders")
    second = SharedOperatorFixture(place.shared_operator, place.api, place.namespace, place.kafka, place.client)
    try:
        second.declare_cluster()
        second.declare_topic("again", topicName="orders", config={"flush.ms": 8})
        second.wait_for_cluster_conditions(
            Ready=("False", "ClusterConflict"),
            Stalled=("True", "ClusterConflict"),
            Reconciling=("False", "ClusterConflict"),
        )
        second.wait_for_conditions("again", Ready=("False", "ClusterConflict"))
        second.wait_for(lambda: cluster_event_reasons(second) == ["ClusterConflict"], "one Event")
        assert place.topic_config("orders") == {"flush.ms": "7"}
        assert pinned_id(place) == place.kafka.cluster_id
        assert pinned_id(second) is None
        place.delete_cluster()
        second.wait_until_ready("again")
        assert place.topic_config("orders") == {"flush.ms": "8"}
        assert pinned_id(second) == place.kafka.cluster_id
        with SimulatedKafka(f"{place.kafka.connect}-other", BROKERS, cluster_id="other") as other:
            second.declare_cluster(zookeeper={"connect": other.connect})
            second.wait_for_cluster_conditions(Ready=("False", "WrongCluster"))
            assert not other.client.get_children("/brokers/topics")
            second.declare_cluster(zookeeper={"connect": other.connect}, clusterId="other")
            second.wait_until_ready("again")
            second.wait_for(partial(has_topic, other, "orders"), "the topic on the other cluster")
    finally:
        second.delete_cluster()


def has_topic(kafka: SimulatedKafka, name: str) -> bool:
    """Return whether a Kafka cluster has a topic."""
    return kafka.client.exists(f"/brokers/topics/{name}") is not None


def pinned_id(place: SharedOperatorFixture) -> str | None:
    """Return the id in the annotation of a Cluster."""
    metadata: Mapping[str, Any] = place.cluster_resource()["metadata"]
    found: str | None = metadata.get("annotations", {}).get("topiarist.dev/cluster-id")
    return found


def cluster_event_reasons(place: SharedOperatorFixture) -> list[str]:
    """Return the reasons of the Events about a Cluster."""
    namespace = place.shared_operator.namespace
    found = place.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").body["items"]
    return [event["reason"] for event in found if event["regarding"]["name"] == place.name]
