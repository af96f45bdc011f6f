"""The contract of moves and of elections of leaders, over each implementation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contract.cluster_fixtures import ClusterFixture
from support.builders import apply_results, plan_specs, spec, topic_spec
from topiarist.errors import Reason
from topiarist.model.moves import LeaderChange, MoveKind, MoveProgress, MoveSettings
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import ElectLeaders, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.planning.risk import assess_elections
from topiarist.ports import NO_MOVE_OPTIONS, MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

SETTINGS = MoveSettings(frozenset(MoveKind), 1_000_000, stall_after=20)
DRAINING = ClusterSpec("prod", version=(3, 9), moves=SETTINGS, drain_brokers=frozenset({6}))
LISTS = ((6, 1), (1, 2), (2, 6))
SPEC = spec("orders", DRAINING, partitions=3, replicationFactor=2)
OPTIONS = MoveOptions(SETTINGS)


@pytest.fixture
def drained(world: ClusterFixture) -> ClusterFixture:
    """Return a cluster with the topic ``orders`` on broker 6, and a controller that moves replicas."""
    world.create_topic("orders", LISTS, {"retention.ms": "1"})
    world.enable_moves()
    return world


def _plan(world: ClusterFixture) -> Plan:
    return read_and_plan(world.open(), DRAINING, (SPEC,), RunOptions(adopt=("*",)))


def _apply(world: ClusterFixture, plan: Plan, options: MoveOptions = OPTIONS) -> tuple[Outcome, ...]:
    report = apply_plan(world.open(), plan, stop=lambda: False, move_options=options)
    assert report.error is None
    return report.outcomes


def test_moves_what_the_plan_shows(drained: ClusterFixture) -> None:
    """The lists are those of the plan, the config is as before, and a second plan has no changes."""
    plan = _plan(drained)
    assert _apply(drained, plan) == (Outcome("orders", Result.DONE),)
    topic = drained.open().read().topics["orders"]
    after = {move.partition: move.after for move in plan.topics[0].moves()}
    assert topic.replicas == tuple(after.get(partition, replicas) for partition, replicas in enumerate(LISTS))
    assert (dict(topic.config), topic.reassigning_partitions) == ({"retention.ms": "1"}, ())
    assert not topic.modified_externally
    assert not _plan(drained).has_changes


def test_moves_that_were_made_are_not_made_again(drained: ClusterFixture) -> None:
    """The second run of the same plan reports the topic as unchanged."""
    plan = _plan(drained)
    _apply(drained, plan)
    before = drained.open().read()
    assert _apply(drained, plan) == (Outcome("orders", Result.UNCHANGED),)
    assert drained.open().read() == before


def test_progress_has_every_finished_move_once(drained: ClusterFixture) -> None:
    """The last report has all partitions of the plan as done."""
    plan, seen = _plan(drained), list[MoveProgress]()
    _apply(drained, plan, MoveOptions(SETTINGS, on_progress=seen.append))
    finished = [move.partition for progress in seen for move in progress.finished]
    assert sorted(finished) == [move.partition for move in plan.topics[0].moves()]
    assert (seen[-1].done, seen[-1].total) == (2, 2)


def test_a_topic_that_was_recreated_is_a_conflict(drained: ClusterFixture) -> None:
    """Nothing of the new topic is moved."""
    plan = _plan(drained)
    drained.delete_topic("orders")
    drained.create_topic("orders", LISTS, {})
    (outcome,) = _apply(drained, plan)
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert drained.open().read().topics["orders"].replicas == LISTS


def test_a_topic_that_was_deleted_is_a_conflict(drained: ClusterFixture) -> None:
    """Nothing is created."""
    plan = _plan(drained)
    drained.delete_topic("orders")
    (outcome,) = _apply(drained, plan)
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)
    assert "orders" not in drained.open().read().topics


def test_stopped_moves_are_skipped(drained: ClusterFixture) -> None:
    """Nothing is sent after the run was stopped."""
    cluster = drained.open()
    adopting = read_and_plan(
        cluster, ClusterSpec("prod"), (spec("orders", partitions=3, replicationFactor=2),), RunOptions(adopt=("*",))
    )
    assert [each.result for each in cluster.apply(adopting, lambda: False)] == [Result.DONE]
    plan = _plan(drained)
    before = drained.open().read()
    assert [*drained.open().move(plan, OPTIONS, lambda: True)] == [Outcome("orders", Result.SKIPPED)]
    assert drained.open().read() == before


def test_a_plan_without_moves_has_no_outcomes(drained: ClusterFixture) -> None:
    """It only puts back throttles of an earlier run, and there are none."""
    _apply(drained, _plan(drained))
    before = drained.open().read()
    assert [*drained.open().move(_plan(drained), OPTIONS, lambda: False)] == []
    assert drained.open().read() == before


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
