"""Contract of moves, in memory and on a real ZooKeeper: carried out as planned, once, and compared by value."""

from __future__ import annotations

import pytest

from contract.cluster_fixtures import ClusterFixture
from support.builders import spec
from topiarist.errors import Reason
from topiarist.model.moves import MoveKind, MoveProgress, MoveSettings
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.ports import MoveOptions
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
