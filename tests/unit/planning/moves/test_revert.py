"""Plans that move replicas back: merged moves of a report, and what is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, state, topic
from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.moves import MoveKind, MoveSettings, ReplicaMove, RequestedReassignment
from topiarist.model.plan import Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError
from topiarist.planning.preconditions import simulate
from topiarist.planning.without_specs import MovedTopic, merge_moves, plan_revert

MOVING = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), 1000))
LISTS = ((4, 2), (2, 3), (3, 4, 1))
MOVES = (
    ReplicaMove("orders", 0, (1, 2), (4, 2), (MoveKind.DRAIN,)),
    ReplicaMove("orders", 2, (3, 4), (3, 4, 1), (MoveKind.FACTOR,)),
)


def _plan(seen: ClusterState, *moves: ReplicaMove, on: ClusterSpec = MOVING, topic_id: str | None = None) -> Plan:
    return plan_revert(seen, on, {"orders": MovedTopic(topic_id, moves or MOVES)}, RunOptions())


def _only(plan: Plan) -> TopicPlan:
    (found,) = plan.topics
    return found


def _lists(seen: ClusterState) -> tuple[Replicas, ...]:
    return seen.topics["orders"].replicas


def test_each_partition_gets_its_list_of_before() -> None:
    """Lists and reasons are those of the report, reversed; carried out and planned again, nothing is left."""
    seen = state(topic("orders", LISTS))
    plan = _plan(seen)
    assert [(move.before, move.after, move.kinds) for move in _only(plan).moves()] == [
        ((4, 2), (1, 2), (MoveKind.DRAIN,)),
        ((3, 4, 1), (3, 4), (MoveKind.FACTOR,)),
    ]
    after = simulate(seen, plan.topics)
    assert _lists(after) == ((1, 2), (2, 3), (3, 4))
    again = _plan(after)
    assert (again.topics, again.unchanged) == ((), 1)


def test_the_plan_shows_its_effect_on_brokers() -> None:
    """The load of brokers and the present record of the topic are part of the plan."""
    plan = _plan(state(topic("orders", LISTS)))
    assert plan.load[4].replicas == 2
    assert _only(plan).record_after == _only(plan).record_before == OwnershipRecord("default")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (((5, 2), (2, 3), (3, 4, 1)), "partition 0 was to be on [4, 2], and is on [5, 2] now"),
        (((2, 4), (2, 3), (3, 4, 1)), "partition 0 was to be on [4, 2], and is on [2, 4] now"),
    ],
)
def test_another_list_is_refused(lists: tuple[Replicas, ...], message: str) -> None:
    """A partition that moved elsewhere, or has another order, stays; the others are moved back."""
    found = _only(_plan(state(topic("orders", lists))))
    assert [move.partition for move in found.moves()] == [2]
    assert [(issue.reason, issue.message) for issue in found.refusals] == [(Reason.STATE_CONFLICT, message)]


def test_a_partition_that_does_not_exist_is_refused() -> None:
    """A report may name a partition of a topic that was recreated smaller, without ids."""
    found = _only(_plan(state(topic("orders", LISTS[:2]))))
    assert found.refusals[0].message == "partition 2 was to be on [3, 4, 1], and does not exist now"


def test_a_partition_in_flight_is_refused() -> None:
    """A partition that a request names, or that is reassigned, is not moved back meanwhile."""
    seen = state(
        topic("orders", LISTS),
        requested_reassignments=(RequestedReassignment("orders", 0, (4, 2)),),
        reassigning_topics=frozenset({"orders"}),
    )
    found = _only(_plan(seen))
    assert not found.moves()
    assert "partition 0 is being reassigned now" in [issue.message for issue in found.refusals]


NO_DRAIN = MoveSettings(frozenset({MoveKind.FACTOR}), 1000)
NO_THROTTLE = MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR}))


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        (replace(MOVING, moves=NO_DRAIN), Reason.MOVE_NOT_ALLOWED),
        (replace(MOVING, moves=NO_THROTTLE), Reason.THROTTLE_MISSING),
        (replace(MOVING, drain_brokers=frozenset({1})), Reason.EXCLUDED_BROKERS),
        (replace(MOVING, protected=("orders",)), Reason.PROTECTED_TOPIC),
    ],
    ids=["kind", "throttle", "drained", "protected"],
)
def test_the_cluster_must_allow_the_reverse(on: ClusterSpec, reason: Reason) -> None:
    """The refusal holds the moves that it withholds, and no field of a manifest."""
    found = _only(_plan(state(topic("orders", LISTS)), on=on))
    (issue,) = found.refusals
    assert (issue.reason, issue.field, len(issue.withheld), found.changes) == (reason, (), 1, ())


def test_a_lower_factor_obeys_min_insync_replicas() -> None:
    """A raise is not undone where too few replicas would be left for producers."""
    seen = state(topic("orders", LISTS, config={"min.insync.replicas": "3"}))
    assert [issue.reason for issue in _only(_plan(seen, MOVES[1])).refusals] == [Reason.MIN_ISR_ABOVE_REPLICAS]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (state(), Reason.STATE_CONFLICT),
        (state(topic("orders", LISTS, topic_id="B" * 22)), Reason.STATE_CONFLICT),
        (state(topic("orders", LISTS, record=None)), Reason.NOT_ADOPTED),
        (state(topic("orders", LISTS, record=OwnershipRecord("another"))), Reason.NOT_OWNED),
        (state(topic("orders", LISTS), pending_deletions=frozenset({"orders"})), Reason.DELETION_IN_PROGRESS),
        (state(topic_errors={"orders": ReadError("/brokers/topics/orders", "bad")}), Reason.TOPIC_UNREADABLE),
    ],
    ids=["deleted", "recreated", "unmanaged", "of another owner", "marked", "unreadable"],
)
def test_a_topic_that_is_not_that_of_the_report_is_refused(seen: ClusterState, reason: Reason) -> None:
    """Nothing of a topic moves back that was deleted or recreated, or that is not of the run."""
    found = _only(_plan(seen, topic_id="A" * 22))
    assert [issue.reason for issue in found.refusals] == [reason]
    assert not found.changes


def _move(before: Replicas, after: Replicas, kind: MoveKind = MoveKind.DRAIN) -> ReplicaMove:
    return ReplicaMove("orders", 0, before, after, (kind,))


def test_moves_that_follow_on_each_other_are_one() -> None:
    """Two runs moved a partition: the list of before the first one is restored, for both reasons."""
    merged = merge_moves([_move((1, 2), (3, 2), MoveKind.RACKS), _move((3, 2), (4, 2))])
    assert merged == (ReplicaMove("orders", 0, (1, 2), (4, 2), (MoveKind.DRAIN, MoveKind.RACKS)),)


def test_a_move_that_is_reported_twice_counts_once() -> None:
    """A finished move is also in the line of a topic that is not finished; the run before it is not lost."""
    second = _move((3, 2), (4, 2))
    assert merge_moves([_move((1, 2), (3, 2)), second, second])[0].before == (1, 2)


def test_the_last_of_unrelated_moves_counts() -> None:
    """If another client moved the partition between two runs, only the last move can be reversed."""
    assert merge_moves([_move((1, 2), (3, 2)), _move((5, 2), (6, 2))]) == (_move((5, 2), (6, 2)),)


def test_a_partition_that_came_back_is_left_out() -> None:
    """A move and its reverse in one report leave nothing to do."""
    assert merge_moves([_move((1, 2), (3, 2)), _move((3, 2), (1, 2))]) == ()
