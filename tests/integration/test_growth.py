"""Growth on a real ZooKeeper: only of initialized topics, so that no partition is lost."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.write_fixtures import REPLICAS, connect_cluster, verify_changes
from support.spec_builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, add_topics, topic_bytes
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.errors import Reason
from topiarist.kafka.types import KafkaVersion
from topiarist.model.outcome import Result

GROWN = topic_spec("orders", partitions=4)
TOPIC, MARK = "/brokers/topics/orders", "/admin/delete_topics/orders"
ASSIGNMENT = {str(partition): list(replicas) for partition, replicas in enumerate(REPLICAS)}
LOCK_TAKEN = 1
"""The first write of a run on a cluster that has our root: everything of the topic is read after it."""


def size(client: KazooClient) -> int:
    """Return the partition count of the topic."""
    return len(topics.decode_topic(client.get(TOPIC)[0]).replicas)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_topic_of_which_a_partition_has_no_state_does_not_grow(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy, partition: int
) -> None:
    """A topic with any uninitialized partition does not grow: nothing is sent, with the same reason as for a
    deletion.
    """
    client.delete(paths.partition_state_path("orders", partition))
    with verify_changes(ours.connect), connect_cluster(proxy.through(ours.connect)) as port:
        found = apply_outcomes(port, plan_specs(port, GROWN))["orders"]
        assert proxy.requests["multi"] == 0
    assert (found.result, found.reason) == (Result.REFUSED, Reason.NOT_INITIALIZED)
    assert f"partition {partition}" in found.message


def test_a_topic_made_again_in_between_does_not_get_the_node_of_the_earlier(
    ours: SimulatedKafka, client: KazooClient, proxy: Proxy
) -> None:
    """A topic that is recreated between read and write, at equal versions and before its initialization, keeps its own
    replica lists and its own id.
    """
    before = client.get(TOPIC)[1].version
    with ExitStack() as stack, connect_cluster(proxy.through(ours.connect)) as port:

        def make_again() -> None:
            client.create(MARK)
            ours.wait_idle()
            stack.enter_context(ours.pause_controller())
            add_topics(client, [Topic("orders", REPLICAS[:1], {})], ours.version)

        plan = plan_specs(port, GROWN)
        proxy.hold(LOCK_TAKEN + 1, make_again)
        found = apply_outcomes(port, plan)["orders"]
        assert proxy.triggered.is_set()
        data, stat = client.get(TOPIC)
    assert (found.result, stat.version, before) == (Result.CONFLICT, 0, 0)
    assert topics.decode_topic(data).replicas == REPLICAS[:1]


def test_a_new_leader_in_between_is_no_reason_to_stop(ours: SimulatedKafka, client: KazooClient, proxy: Proxy) -> None:
    """A new version of partition 0's state is read and compared again: the topic is still the planned one."""
    state = paths.partition_state_path("orders", 0)
    with connect_cluster(proxy.through(ours.connect)) as port:
        plan = plan_specs(port, GROWN)
        proxy.hold(LOCK_TAKEN + 1, lambda: client.set(state, client.get(state)[0]))
        assert apply_results(port, plan) == {"orders": Result.DONE}
        assert (proxy.triggered.is_set(), proxy.requests["multi"]) == (True, 2)
    assert size(client) == 4


@pytest.mark.parametrize(("release", "refused"), [((3, 9), [Reason.NOT_INITIALIZED]), ((2, 7), [])])
def test_a_topic_without_the_id_that_others_have_does_not_grow(
    chroot: str, release: KafkaVersion, refused: list[Reason]
) -> None:
    """A topic without an id waits if other topics have ids, because its controller will set the node again. Without any
    topic id the run does not wait.
    """
    with SimulatedKafka(chroot, BROKERS, release) as cluster, connect_cluster(chroot) as port:
        cluster.add_topics(Topic("orders", REPLICAS, {}), Topic("users", REPLICAS, {}))
        cluster.client.set(TOPIC, topic_bytes(ASSIGNMENT, None))
        plan = plan_specs(port, GROWN)
        assert [finding.reason for finding in plan.topics[0].refusals] == refused
        apply_results(port, plan)
        assert size(cluster.client) == (2 if refused else 4)
    assert cluster.controller_errors == []


def test_an_id_that_goes_between_plan_and_write_is_a_conflict(ours: SimulatedKafka, client: KazooClient) -> None:
    """A topic that another tool writes without its id is a conflict."""
    with connect_cluster(ours.connect) as port:
        plan = plan_specs(port, GROWN)
        client.set(TOPIC, topic_bytes(ASSIGNMENT, None))
        found = apply_outcomes(port, plan)["orders"]
    assert found.result is Result.CONFLICT
    assert "topic id" in found.message
    assert size(client) == 2
