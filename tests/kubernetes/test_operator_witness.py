"""What was last applied is known by the record in ZooKeeper alone: whatever becomes of resources and their statuses, a
change that somebody made on the cluster is told, and not overwritten.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubernetes.estate import Place
from kubernetes.resources import cluster, path, topic
from kubernetes.scene import SIZED
from topiarist.adapters import znodes

SHORT, LONG = "3600000", "604800000"


def _declare_the_cluster_anew(place: Place) -> None:
    place.leave()
    place.wait(lambda: not place.on("orders"), "its part of the status has gone")
    place.cluster()


def _declare_the_topic_anew(place: Place) -> None:
    place.delete("orders")
    place.until_gone("orders")
    place.topic("orders", config={"retention.ms": LONG})


def _take_the_status_away(place: Place) -> None:
    where = path(place.namespace, topic("orders"), "orders")
    answer = place.api.call("PATCH", f"{where}/status", {"status": None}, "application/merge-patch+json")
    assert answer.status == 200, answer


def _declare_a_second_cluster_for_a_moment(place: Place) -> None:
    """A Topic that names no Cluster stays where it was applied; the operator has looked at the second Cluster."""
    body = topic("orders", **SIZED, config={"retention.ms": LONG})
    second = cluster("second", zookeeper={"connect": f"{place.kafka.connect}-second"})
    place.apply(body | {"metadata": {"name": "orders", "labels": {"unjudged": ""}}})
    place.until_ready("orders") if place.config("orders") == {"retention.ms": LONG} else None
    place.apply(second)
    where = path(place.estate.home, second, "second")
    place.wait(lambda: "conditions" in place.api.call("GET", where).body.get("status", {}), "a status of second")
    assert place.api.call("DELETE", where).status == 200


FORGETTING = [
    _declare_the_cluster_anew,
    _declare_the_topic_anew,
    _take_the_status_away,
    _declare_a_second_cluster_for_a_moment,
]


@pytest.mark.parametrize("forget", FORGETTING)
def test_what_others_changed_is_told_whatever_is_forgotten(place: Place, forget: Callable[[Place], None]) -> None:
    """It stays as it is, also when the spec says something else that is new; what the spec then says counts."""
    place.cluster()
    place.topic("orders", config={"retention.ms": LONG})
    place.until_ready("orders")
    place.client.set("/config/topics/orders", znodes.encode_config({"retention.ms": SHORT}))
    forget(place)
    place.until("orders", Ready=("False", "DriftDetected"), DriftDetected=("True", "DriftDetected"))
    place.pass_by()
    assert place.config("orders") == {"retention.ms": SHORT}
    place.topic("orders", config={"retention.ms": LONG, "flush.ms": 7})
    place.wait(lambda: place.config("orders") == {"retention.ms": SHORT, "flush.ms": "7"}, "what is new is done")
    place.until("orders", Ready=("False", "DriftDetected"))
    place.topic("orders", config={"retention.ms": SHORT, "flush.ms": 7})
    place.until_ready("orders")
    assert place.on("orders")["applied"]["config"] == {"retention.ms": SHORT, "flush.ms": "7"}
