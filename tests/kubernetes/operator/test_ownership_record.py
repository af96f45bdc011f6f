"""The ownership record in ZooKeeper as the only source of the applied spec.

After any loss of resources or statuses, an external change of the topic is reported and not overwritten.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubernetes.fixtures.operator_fixture import DEFAULT_SIZE
from kubernetes.fixtures.resources import cluster, resource_path, topic
from kubernetes.fixtures.shared_operator_fixture import SharedOperatorFixture
from topiarist.adapters.zookeeper.codec import topics

SHORT, LONG = "3600000", "604800000"


def _declare_the_cluster_anew(place: SharedOperatorFixture) -> None:
    place.delete_cluster()
    place.wait_for(lambda: not place.cluster_status_of("orders"), "its part of the status has gone")
    place.declare_cluster()


def _declare_the_topic_anew(place: SharedOperatorFixture) -> None:
    place.delete_topic("orders")
    place.wait_until_deleted("orders")
    place.declare_topic("orders", config={"retention.ms": LONG})


def _take_the_status_away(place: SharedOperatorFixture) -> None:
    where = resource_path(place.namespace, topic("orders"), "orders")
    answer = place.api.call("PATCH", f"{where}/status", {"status": None}, "application/merge-patch+json")
    assert answer.status == 200, answer


def _declare_a_second_cluster_for_a_moment(place: SharedOperatorFixture) -> None:
    """Declare a Topic without a Cluster name, then a second Cluster until the operator has read it.

    The Topic stays on the first.
    """
    body = topic("orders", **DEFAULT_SIZE, config={"retention.ms": LONG})
    second = cluster("second", zookeeper={"connect": f"{place.kafka.connect}-second"})
    place.apply(body | {"metadata": {"name": "orders", "labels": {"unjudged": ""}}})
    place.wait_until_ready("orders") if place.topic_config("orders") == {"retention.ms": LONG} else None
    place.apply(second)
    where = resource_path(place.shared_operator.namespace, second, "second")
    place.wait_for(lambda: "conditions" in place.api.call("GET", where).body.get("status", {}), "a status of second")
    assert place.api.call("DELETE", where).status == 200


FORGETTING = [
    _declare_the_cluster_anew,
    _declare_the_topic_anew,
    _take_the_status_away,
    _declare_a_second_cluster_for_a_moment,
]


@pytest.mark.parametrize("forget", FORGETTING)
def test_what_others_changed_is_told_whatever_is_forgotten(
    place: SharedOperatorFixture, forget: Callable[[SharedOperatorFixture], None]
) -> None:
    """An external change stays after the loss of resources or status, also when the spec changes another key.

    A new value in the spec for the changed key is applied.
    """
    place.declare_cluster()
    place.declare_topic("orders", config={"retention.ms": LONG})
    place.wait_until_ready("orders")
    place.client.set("/config/topics/orders", topics.encode_config({"retention.ms": SHORT}))
    forget(place)
    place.wait_for_conditions("orders", Ready=("False", "DriftDetected"), DriftDetected=("True", "DriftDetected"))
    place.wait_for_full_pass()
    assert place.topic_config("orders") == {"retention.ms": SHORT}
    place.declare_topic("orders", config={"retention.ms": LONG, "flush.ms": 7})
    place.wait_for(
        lambda: place.topic_config("orders") == {"retention.ms": SHORT, "flush.ms": "7"}, "what is new is done"
    )
    place.wait_for_conditions("orders", Ready=("False", "DriftDetected"))
    place.declare_topic("orders", config={"retention.ms": SHORT, "flush.ms": 7})
    place.wait_until_ready("orders")
    assert place.cluster_status_of("orders")["applied"]["config"] == {"retention.ms": SHORT, "flush.ms": "7"}
