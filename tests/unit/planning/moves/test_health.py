"""The gate before a batch, and the standing of a move: tables of every case."""

from __future__ import annotations

import pytest

from topiarist.kafka.types import Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import LEADER_DURING_DELETE, NO_LEADER, PartitionState, Reassignment
from topiarist.planning.moves.execution.gate import MoveStanding, find_health_problem, find_standing

MOVE = ReplicaMove("orders", 4, (1, 2, 3), (1, 4, 3))
LOWER = ReplicaMove("orders", 4, (1, 2, 3), (1, 2))
RAISE = ReplicaMove("orders", 4, (1,), (1, 2, 3))
FEWER = ReplicaMove("orders", 4, (1, 2, 3), (1,))
DEAD = ReplicaMove("orders", 4, (1, 6), (1, 5))
SINGLE = ReplicaMove("orders", 4, (5,), (6,))


@pytest.mark.parametrize(
    ("move", "leader", "isr", "problem"),
    [
        (MOVE, 1, (1, 2, 3), ""),
        (MOVE, 1, (1, 3), ""),  # broker 2 leaves, so it may lag
        (MOVE, 1, (1, 2), "broker 3 keeps a replica of partition 4 that is not in sync"),
        (MOVE, 2, (2,), "broker 1 keeps a replica of partition 4 that is not in sync"),
        (MOVE, NO_LEADER, (1, 2, 3), "partition 4 has no leader"),
        (MOVE, LEADER_DURING_DELETE, (1, 2, 3), "partition 4 has no leader"),
        (MOVE, 9, (1, 2, 3), "broker 9, the leader of partition 4, is not registered"),
        (MOVE, 1, (1, 2, 3, 7), "broker 7 is in sync for partition 4, and is not in its replica list"),
        (LOWER, 1, (1, 2, 3), ""),
        (LOWER, 1, (1, 3), "broker 2 keeps a replica of partition 4 that is not in sync"),
        (SINGLE, 5, (5,), ""),
        (RAISE, 1, (1,), ""),
        (DEAD, 1, (1,), ""),
        (FEWER, 1, (1, 2, 3), "partition 4 would have 1 replica left of 3 in sync, and min.insync.replicas is 2"),
        (FEWER, 1, (1,), ""),
    ],
)
def test_only_replicas_that_leave_may_be_out_of_sync(
    move: ReplicaMove, leader: int, isr: Replicas, problem: str
) -> None:
    """The leader is online, the in-sync replicas are in the list, and every kept replica is in sync."""
    assert find_health_problem(move, PartitionState(leader, isr), {1, 2, 3, 4, 5, 6}, 2) == problem


def test_a_partition_without_a_state_is_not_moved() -> None:
    """Kafka would take the list over, fail, and leave the partition in flight."""
    assert find_health_problem(MOVE, None, {1, 2, 3, 4}, 1).endswith("the controller has not initialized it")


def test_a_move_leaves_no_fewer_replicas_than_min_isr() -> None:
    """Also if ``min.insync.replicas`` was raised since the plan."""
    state = PartitionState(1, (1, 2, 3))
    assert find_health_problem(LOWER, state, {1, 2, 3}, 2) == ""
    expected = "partition 4 would have 2 replicas left of 3 in sync, and min.insync.replicas is 3"
    assert find_health_problem(LOWER, state, {1, 2, 3}, 3) == expected
    assert find_health_problem(LOWER, PartitionState(1, (1, 2)), {1, 2, 3}, 3) == ""
    assert find_health_problem(SINGLE, PartitionState(5, (5,)), {5, 6}, 1) == ""


@pytest.mark.parametrize(
    ("replicas", "reassignment", "standing"),
    [
        ((1, 2, 3), None, MoveStanding.BEFORE),
        ((1, 4, 3), None, MoveStanding.AFTER),
        ((1, 4, 3, 2), Reassignment((4,), (2,)), MoveStanding.UNDERWAY),
        ((4, 1, 3, 2), Reassignment((4,), (2,)), MoveStanding.CONFLICT),  # the same brokers in another order
        ((1, 5, 3, 2), Reassignment((5,), (2,)), MoveStanding.CONFLICT),
        ((1, 2, 3), Reassignment((), ()), MoveStanding.CONFLICT),
        ((3, 2, 1), None, MoveStanding.CONFLICT),  # what Kafka's own cancel leaves
        (None, None, MoveStanding.CONFLICT),
    ],
)
def test_the_standing_of_a_move_is_found_by_value(
    replicas: Replicas | None, reassignment: Reassignment | None, standing: MoveStanding
) -> None:
    """Neither the request nor a version tells how far a move is, only the topic's znode does."""
    assert find_standing(MOVE, replicas, reassignment) is standing


def test_a_partition_that_does_not_exist_is_a_conflict() -> None:
    """Also if its reassignment is still in the topic's znode."""
    assert find_standing(MOVE, None, None) is MoveStanding.CONFLICT
    assert find_standing(MOVE, None, Reassignment((4,), (2,))) is MoveStanding.CONFLICT


def test_raises_lowers_and_reorders_are_found_under_way() -> None:
    """A raise removes nothing, a lower adds nothing."""
    raised = ReplicaMove("orders", 0, (1, 2), (1, 2, 3))
    assert find_standing(raised, (1, 2, 3), Reassignment((3,), ())) is MoveStanding.UNDERWAY
    assert find_standing(LOWER, (1, 2, 3), Reassignment((), (3,))) is MoveStanding.UNDERWAY
