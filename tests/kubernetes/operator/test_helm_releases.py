"""Two releases of the operator.

Each release serves its own resources, and one release serves a resource in the scope of both.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy
from kubernetes.fixtures.operator_fixture import DEFAULT_SIZE, OPERATOR_TIMEOUT_S, OperatorFixture, operator_owner
from kubernetes.fixtures.resources import cluster, topic
from kubernetes.fixtures.shared_operator_fixture import POLL_INTERVAL_S
from support.kubernetes.forked_operators import ForkedOperator
from support.waiting import wait_until

PASSES = "controller_runtime_reconcile_total"


class Release(NamedTuple):
    """An operator that watches all namespaces, and its Kafka cluster."""

    scene: OperatorFixture
    operator: ForkedOperator

    @property
    def owner(self) -> str:
        """Return the owner that the operator writes."""
        return operator_owner(self.scene.api, self.scene.namespace)

    def cluster(self, name: str, **spec: Any) -> None:
        """Declare the release's cluster under a name, for Topics of all namespaces."""
        fields = {"kafkaVersion": "3.9", "allowedTopics": [{"namespaces": {"from": "All"}}], **spec}
        self.scene.apply(cluster(name, zookeeper={"connect": self.scene.kafka.connect}, **fields))

    def pass_by(self) -> None:
        """Wait until the operator has made two more passes over each of its clusters."""
        wait_until(self._passes, "a pass", timeout=OPERATOR_TIMEOUT_S)
        before = self._passes()
        wait_until(
            lambda: all(self._passes().get(line, 0) >= number + 2 for line, number in before.items()),
            "two more passes",
            timeout=OPERATOR_TIMEOUT_S,
        )

    def figures(self, name: str) -> list[str]:
        """Return the lines of a metric."""
        return [line for line in self.operator.http_get("/metrics")[1].splitlines() if line.startswith(name)]

    def _passes(self) -> dict[str, float]:
        found = (line.rpartition(" ") for line in self.figures(PASSES) if 'result="success"' in line)
        return {line: float(number) for line, _, number in found}


def release(stage: FaultFixture, name: str, *words: str) -> Release:
    """Start a release."""
    scene = stage.make_fixture(name)
    return Release(scene, stage.start_operator(name, *words, everywhere=True))


def declared(scene: OperatorFixture, name: str, **spec: Any) -> None:
    """Declare a Topic in the namespace of a fixture."""
    body = topic(name, **{**DEFAULT_SIZE, **spec})
    body["metadata"]["labels"] = {"unjudged": ""}
    scene.apply(body)


def version(scene: OperatorFixture, name: str) -> str:
    """Return the resource version of a Topic, which increases with every write."""
    return str(scene.get_topic(name)["metadata"]["resourceVersion"])


def test_two_releases_leave_each_others_topics_alone(stage: FaultFixture, namespace: str) -> None:
    """Two releases with their own Clusters, both watching all namespaces, do not overwrite each other's statuses.

    Neither reports a Topic of the other as ``UnknownCluster``.
    """
    one, two = (release(stage, f"{namespace}-{name}") for name in ("one", "two"))
    for each, name in ((one, "first"), (two, "second")):
        each.cluster(name)
        declared(each.scene, "orders", clusters=[name])
        each.scene.wait_until_ready("orders")
    for each in (one, two):
        assert each.scene.get_topic("orders")["status"]["operator"] == each.owner
    before = [version(each.scene, "orders") for each in (one, two)]
    for each in (one, two):
        each.pass_by()
    assert [version(each.scene, "orders") for each in (one, two)] == before
    late = topic("late", **DEFAULT_SIZE, clusters=["second"])
    one.scene.apply(late)
    one.scene.wait_until_ready("late")
    assert one.scene.get_topic("late")["status"]["operator"] == two.owner
    assert "UnknownCluster" not in one.scene.event_reasons("late")
    assert (one.scene.partition_count("late"), two.scene.partition_count("late")) == (0, 3)
    for each in (one, two):
        assert_healthy(each.operator)


def test_what_is_in_the_scope_of_two_is_served_by_the_first(stage: FaultFixture, namespace: str) -> None:
    """If both releases have a Cluster with the name in a Topic, the first release serves the Topic.

    The second release reports the first as holder and changes neither the Topic nor Kafka.
    """
    one = release(stage, f"{namespace}-one")
    one.cluster("same")
    declared(one.scene, "orders", clusters=["same"])
    one.scene.wait_until_ready("orders")
    before = version(one.scene, "orders")
    two = release(stage, f"{namespace}-two")
    two.cluster("same")
    held = f'topiarist_resources_held_by_others{{holder="{one.owner}",kind="Topic"}} 1.0'
    wait_until(
        lambda: held in two.figures("topiarist_resources_held"),
        held,
        timeout=OPERATOR_TIMEOUT_S,
        interval=POLL_INTERVAL_S,
    )
    two.pass_by()
    one.pass_by()
    assert version(one.scene, "orders") == before
    assert one.scene.get_topic("orders")["status"]["operator"] == one.owner
    assert two.scene.partition_count("orders") == 0
    said = [json.loads(line) for line in two.operator.log.splitlines() if "another release serves this" in line]
    assert [(line["resource"], line["holder"]) for line in said] == [("orders", one.owner)]


def test_a_class_says_whose_a_resource_is(stage: FaultFixture, namespace: str) -> None:
    """In one namespace each release serves only the Clusters and Topics of its class."""
    blue = release(stage, namespace, "--release", "blue", "--class", "blue")
    blue.cluster("prod", **{"class": "blue"})
    declared(blue.scene, "theirs", clusters=["prod"])
    declared(blue.scene, "ours", clusters=["prod"], **{"class": "blue"})
    blue.scene.wait_until_ready("ours")
    blue.pass_by()
    assert "status" not in blue.scene.get_topic("theirs")
    assert blue.scene.partition_count("theirs") == 0
    declared(blue.scene, "theirs", clusters=["prod"], **{"class": "blue"})
    blue.scene.wait_until_ready("theirs")
