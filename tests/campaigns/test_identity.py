"""Clusters and the Kafka clusters behind them, in virtual time: one Cluster for each, and always the same one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from campaigns.api_server import Body
from campaigns.kafka_clusters import ADDRESS, OTHER_ADDRESS, OTHER_ID
from campaigns.workloads import annotate, create_cluster, create_topic, delete, update_cluster
from campaigns.world import OWNER, World, run_world
from support.builders import CLUSTER_ID
from topiarist.model.state import TopicState
from topiarist.schema import load

PIN = f"{load.API_GROUP}/cluster-id"
OTHER: Mapping[str, Any] = {"zookeeper": {"connect": OTHER_ADDRESS}}


def play(work: Callable[[World], Awaitable[None]]) -> World:
    """Run a story with an operator and return its world."""
    found: list[World] = []

    async def whole(world: World) -> None:
        found.append(world)
        await world.start_operator()
        await work(world)

    run_world(whole)
    assert found[0].failures == []
    return found[0]


def find(world: World, plural: str, name: str) -> Body:
    """Return a resource that exists."""
    body = world.server.find(plural, name)
    assert body is not None
    return body


def ready(world: World, plural: str, name: str) -> tuple[str, str]:
    """Return the status and the reason of ``Ready``."""
    condition = find(world, plural, name)["status"]["conditions"][0]
    return condition["status"], condition["reason"]


def topics(world: World, address: str = ADDRESS) -> Mapping[str, TopicState]:
    """Return the topics of a Kafka cluster."""
    return world.kafka.states[address].topics


async def declare_twins(world: World) -> None:
    """Create two Clusters with one Kafka cluster, and a Topic of each that declares the topic ``orders``."""
    await world.perform(
        create_cluster("old"),
        create_topic("one", clusters=["old"], topicName="orders", config={"flush.ms": 1}, deletionPolicy="Delete"),
    )
    await world.perform(
        create_cluster("new"),
        create_topic("two", clusters=["new"], topicName="orders", config={"flush.ms": 2}, deletionPolicy="Delete"),
        create_topic("three", clusters=["new"]),
    )
    await world.advance(100)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_of_the_other_cluster_holds_a_deletion(restarts: bool) -> None:
    """Neither Cluster deletes a topic that the other one declares; the deletion is released when that Topic goes."""

    async def work(world: World) -> None:
        await declare_twins(world)
        if restarts:
            await world.kill_operator()
            await world.perform(delete("topics", "one"))
            await world.start_operator()
            await world.advance(30)
        else:
            await world.perform(delete("topics", "one"))
        assert ready(world, "topics", "one") == ("False", "DeletionHeld")
        assert "Topic shop/two of Cluster new" in find(world, "topics", "one")["status"]["conditions"][0]["message"]
        assert "orders" in topics(world)
        await world.perform(delete("topics", "two"))
        assert world.server.find("topics", "two") is None
        await world.advance(100)
        assert world.server.find("topics", "one") is None
        assert topics(world) == {}

    play(work)


def test_an_older_cluster_that_arrives_later_takes_its_place() -> None:
    """A Cluster that gets the Kafka cluster of a younger one on purpose is served, and the younger one is refused."""

    async def work(world: World) -> None:
        await world.perform(create_cluster("prod", **OTHER), create_cluster("young"))
        assert [ready(world, "clusters", name)[1] for name in ("prod", "young")] == ["Reachable", "Reachable"]
        await world.perform(update_cluster(clusterId=CLUSTER_ID))
        await world.advance(100)
        assert [ready(world, "clusters", name)[1] for name in ("prod", "young")] == ["Reachable", "ClusterConflict"]

    play(work)


@pytest.mark.parametrize(("owner", "reason"), [(OWNER, "ClusterConflict"), ("k8s/test/other/topiarist", "Reachable")])
def test_a_cluster_of_another_release_with_the_same_owner_comes_first(owner: str, reason: str) -> None:
    """Two releases with one owner in two namespaces do not share a Kafka cluster, because ownership records do not keep
    them apart as they do with two owners.
    """

    async def work(world: World) -> None:
        await world.kill_operator()
        spec = {"zookeeper": {"connect": ADDRESS}}
        world.server.create("clusters", "prod", spec, namespace="other", annotations={PIN: CLUSTER_ID})
        world.server.objects["clusters", "other", "prod"]["status"] = {"operator": owner}
        await world.start_operator()
        await world.perform(create_cluster("prod"))
        await world.advance(100)
        assert ready(world, "clusters", "prod")[1] == reason

    play(work)


@pytest.mark.parametrize("loses_status", [False, True])
def test_a_cluster_stays_with_the_kafka_cluster_of_its_first_use(loses_status: bool) -> None:
    """Another Kafka cluster at a changed address gets nothing until the Cluster names its id, also without a status."""

    async def work(world: World) -> None:
        await world.perform(create_cluster(), create_topic("orders"))
        assert find(world, "clusters", "prod")["metadata"]["annotations"] == {PIN: CLUSTER_ID}
        if loses_status:
            del world.server.objects["clusters", "shop", "prod"]["status"]
            await world.kill_operator()
            await world.start_operator()
        await world.perform(update_cluster(**OTHER))
        await world.advance(100)
        assert ready(world, "clusters", "prod") == ("False", "WrongCluster")
        assert OTHER_ID in find(world, "clusters", "prod")["status"]["conditions"][0]["message"]
        assert (ready(world, "topics", "orders"), topics(world, OTHER_ADDRESS)) == (("False", "WrongCluster"), {})
        await world.perform(update_cluster(**OTHER, clusterId=OTHER_ID))
        await world.advance(100)
        assert ready(world, "clusters", "prod") == ("True", "Reachable")
        assert topics(world, OTHER_ADDRESS).keys() == {"orders"}
        assert find(world, "clusters", "prod")["metadata"]["annotations"] == {PIN: OTHER_ID}
        await world.perform(update_cluster())
        await world.advance(100)
        assert ready(world, "clusters", "prod") == ("False", "WrongCluster")

    world = play(work)
    assert world.events.count("Cluster/prod WrongCluster") == 2


def test_annotations_of_users_are_kept() -> None:
    """The annotation with the id is added to those of users, and is no unknown annotation."""

    async def work(world: World) -> None:
        await world.perform(create_cluster(), annotate("clusters", "prod", paused="false"))
        await world.advance(100)
        assert find(world, "clusters", "prod")["metadata"]["annotations"] == {
            f"{load.API_GROUP}/paused": "false",
            PIN: CLUSTER_ID,
        }
        assert "annotations" not in find(world, "clusters", "prod")["status"]

    play(work)
