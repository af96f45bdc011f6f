"""Contract of elections, in memory and on a real ZooKeeper: the result is that of the first replicas, by value."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contract.cluster_fixtures import ClusterFixture
from support.builders import apply_results, plan_specs, topic_spec
from topiarist.errors import Reason
from topiarist.model.moves import LeaderChange
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import ElectLeaders, Plan, TopicPlan
from topiarist.planning.risk import assess_elections
from topiarist.ports import NO_MOVE_OPTIONS
from topiarist.reconcile import apply_plan

REPLICAS = ((1, 2, 3), (2, 3, 4))


def _electing(world: ClusterFixture, *partitions: LeaderChange) -> Plan:
    """Return the plan of an election in an owned topic with the lists ``REPLICAS``, led by their first replicas."""
    world.create_topic("orders", REPLICAS, {})
    cluster = world.open()
    adopted = plan_specs(cluster, topic_spec("orders"))
    assert apply_results(cluster, adopted) == {"orders": Result.DONE}
    world.wait_until_idle()
    state = cluster.read()
    topic = state.topics["orders"]
    change = ElectLeaders(partitions, assess_elections(partitions))
    return replace(adopted, topics=(TopicPlan("orders", topic, topic.record, topic.record, (change,)),))


def test_a_leader_that_leads_already_is_not_elected(world: ClusterFixture) -> None:
    """The outcome is unchanged, and nothing is written."""
    plan = _electing(world, LeaderChange(0, 2, 1), LeaderChange(1, 3, 2))
    cluster = world.open()
    before = cluster.read()
    assert apply_plan(cluster, plan, stop=lambda: False).outcomes == (Outcome("orders", Result.UNCHANGED),)
    assert cluster.read() == before


@pytest.mark.parametrize(
    ("election", "message"),
    [
        (LeaderChange(1, 2, 3), "broker 3 was the first replica of partition 1, which is on [2, 3, 4] now"),
        (LeaderChange(2, 2, 3), "partition 2 existed, and does not exist now"),
    ],
)
def test_another_first_replica_is_a_conflict(world: ClusterFixture, election: LeaderChange, message: str) -> None:
    """No leader of the topic is elected, and the message has what was planned and what is there."""
    plan = _electing(world, election)
    assert apply_plan(world.open(), plan, stop=lambda: False).outcomes == (
        Outcome("orders", Result.CONFLICT, Reason.STATE_CONFLICT, message),
    )


def test_another_topic_of_the_name_is_a_conflict(world: ClusterFixture) -> None:
    """A topic that was deleted and recreated since the plan is not the planned one."""
    plan = _electing(world, LeaderChange(0, 2, 1))
    world.delete_topic("orders")
    world.create_topic("orders", REPLICAS, {})
    (outcome,) = apply_plan(world.open(), plan, stop=lambda: False).outcomes
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)


def test_a_stopped_election_is_skipped(world: ClusterFixture) -> None:
    """Nothing is sent after the run was stopped."""
    plan = _electing(world, LeaderChange(0, 2, 1))
    outcomes = world.open().move(plan, NO_MOVE_OPTIONS, lambda: True)
    assert [*outcomes] == [Outcome("orders", Result.SKIPPED)]
