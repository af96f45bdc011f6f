"""A restore of etcd, in virtual time: the API server has old objects and versions again, and the operator follows."""

from __future__ import annotations

import pytest

from campaigns.workloads import create_cluster, create_topic, delete, update_cluster, update_topic
from campaigns.world import PERIOD_S, World, run_world
from support.examples import slow_but


@pytest.mark.parametrize("bump", slow_but([0], [0, 3, 10**9]))
def test_a_list_replaces_the_store_after_a_restore(bump: int) -> None:
    """Resources of the lost history vanish, and those that are back count with their specs and statuses.

    The restore sets versions back, sets them back a little, or raises them.
    """

    async def work(world: World) -> None:
        server = world.server
        await world.start_operator()
        await world.perform(create_cluster(), create_topic("stays"), create_topic("back"), create_topic("changed"))
        restore = server.snapshot()
        await world.perform(
            update_cluster(driftPolicy="Report"),
            update_topic("changed", config={"flush.ms": 1}),
            delete("topics", "back"),
            create_topic("lost", config={"flush.ms": 1}),
            create_cluster("lost"),
        )
        for number in range(2, 12):  # versions that the new history does not reach soon
            await world.perform(update_topic("stays", config={"flush.ms": number}))
        await world.advance(100)
        world.set_view(None, connected=False)
        await world.advance(10)
        restore(bump)
        server.update("topics", "changed", {"partitions": 3, "replicationFactor": 2, "config": {"flush.ms": 7}})
        server.create("topics", "new", {"partitions": 3, "replicationFactor": 2})
        world.set_view(None)
        await world.advance(30)
        world.kafka.change_topic("lost", config={"flush.ms": "5"})
        await world.advance(100)
        topics = world.kafka.states["zk:2181/prod"].topics
        assert topics["lost"].config == {"flush.ms": "5"}
        assert topics["changed"].config == {"flush.ms": "7"}
        assert topics["stays"].config == {}
        assert "new" in topics
        for name in ("stays", "back", "changed", "new"):
            body = server.find("topics", name)
            assert body is not None
            assert body["status"]["conditions"][0]["reason"] == "Synced"
            assert body["status"]["observedGeneration"] == body["metadata"]["generation"]
        await world.perform(create_cluster("later"))
        await world.advance(PERIOD_S)  # kopf's watch waits for the versions of the lost history: a list has the Cluster
        later = server.find("clusters", "later")
        assert later is not None
        assert later["status"]["conditions"][0]["reason"] == "ClusterConflict"

    run_world(work)
