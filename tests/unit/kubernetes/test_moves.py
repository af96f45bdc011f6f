"""The moves of a cluster after a pass: what is in flight, what waits, what is drained."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support import states
from topiarist.errors import Reason
from topiarist.kubernetes.moves import (
    ClusterMoves,
    MoveTracker,
    TopicMoves,
    count_drained_replicas,
    describe_other_request,
    find_moves_in_flight,
    find_moves_waiting,
    find_stuck_request,
)
from topiarist.model.moves import BatchRecord, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import SAFE_ASSESSMENT, MoveReplicas, TopicPlan
from topiarist.model.state import ClusterState

MOVES = (ReplicaMove("orders", 0, (6, 1), (2, 1)), ReplicaMove("orders", 1, (2, 6), (2, 3)))
UNFINISHED = Outcome("orders", Result.PENDING, Reason.MOVES_UNFINISHED)


def _state(*lists: tuple[int, ...], requested: tuple[ReplicaMove, ...] = (), at_ms: int | None = 5) -> ClusterState:
    """Return a cluster with the record of a batch of ``MOVES``, and a request of the moves ``requested``."""
    entries = tuple(RequestedReassignment(move.topic, move.partition, move.after) for move in requested)
    return replace(
        states.cluster(states.topic("orders", lists)),
        batch=BatchRecord("default", 2, 5, MOVES, {}),
        requested_reassignments=entries,
        reassigning_topics=frozenset(entry.topic for entry in entries),
        requested_at_ms=at_ms if entries else None,
    )


def test_only_requested_moves_are_in_flight() -> None:
    """A move is in flight while the request names it, also before the controller has taken it over."""
    assert find_moves_in_flight(_state((6, 1), (2, 6), requested=MOVES)) == MOVES
    assert find_moves_in_flight(_state((2, 1), (2, 6), requested=MOVES[1:])) == MOVES[1:]
    assert find_moves_in_flight(_state((2, 1), (2, 3))) == ()
    assert find_moves_in_flight(states.cluster()) == ()


def test_moves_wait_unless_they_are_refused_or_in_flight() -> None:
    """Planned moves wait for a batch; those in flight, and those of a topic with another outcome, do not."""
    plan = TopicPlan("orders", changes=(MoveReplicas(MOVES, SAFE_ASSESSMENT),))
    assert find_moves_waiting([plan], {"orders": UNFINISHED}, MOVES[:1]) == MOVES[1:]
    assert find_moves_waiting([plan], {"orders": UNFINISHED}, ()) == MOVES
    refused = Outcome("orders", Result.REFUSED, Reason.NOT_IN_SYNC)
    assert find_moves_waiting([plan], {"orders": refused}, ()) == ()
    assert find_moves_waiting([replace(plan, observe_only=True)], {"orders": UNFINISHED}, ()) == ()
    assert find_moves_waiting([plan], {}, ()) == ()


def test_the_moves_of_a_topic_name_its_batch_while_it_is_in_flight() -> None:
    """Only a topic in the batch has the batch's number, so the other statuses do not change with each batch."""
    other = ReplicaMove("payments", 0, (6, 1), (2, 1))
    found = ClusterMoves((MOVES[1], other), MOVES[:1], 2, 5)
    assert found.by_topic() == {"orders": TopicMoves(2, 1, 2, 5), "payments": TopicMoves(1)}
    assert (found.left, found.copies_left, found.copies_in_flight, found.copying_brokers) == (3, 3, 1, (2,))
    assert ClusterMoves().by_topic() == {}


def test_a_drained_broker_counts_until_its_last_replica_has_left() -> None:
    """The lists of all topics count, with those that leave; a broker that holds nothing has 0."""
    topics = [states.topic("orders", [(6, 1), (2, 1, 6)]), states.topic("other", [(6,)])]
    assert count_drained_replicas(topics, {6, 7}) == {6: 3, 7: 0}
    assert count_drained_replicas(topics, ()) == {}


def test_moved_partitions_are_counted_when_they_are_done() -> None:
    """A move of the last pass counts if the topic shows its list; a dropped or deleted one does not."""
    tracker = MoveTracker()
    assert tracker.count_moved(_state((2, 1), (2, 3))) == 0
    tracker.remember(MOVES)
    assert tracker.count_moved(_state((2, 1), (2, 6))) == 1
    assert tracker.count_moved(_state((2, 1), (2, 3))) == 2
    assert tracker.count_moved(states.cluster()) == 0


@pytest.mark.parametrize(
    ("entries", "stuck"),
    [
        ((RequestedReassignment("orders", 0, (2, 1)),), ""),
        ((RequestedReassignment("ghost", 0, (2, 1)),), "ghost, partition 0"),
        ((RequestedReassignment("orders", 0, (2, 2)),), "a broker twice"),
        ((RequestedReassignment("ghost", 0, (2, 1)), RequestedReassignment("orders", 0, (2, 1))), ""),
        ((), "cannot be read"),
    ],
)
def test_a_request_is_stuck_if_nothing_of_it_can_end(entries: tuple[RequestedReassignment, ...], stuck: str) -> None:
    """Ghosts, duplicates and an unreadable request are stuck; one good entry means that the controller works."""
    state = replace(
        states.cluster(states.topic("orders", [(6, 1)])), requested_reassignments=entries, requested_at_ms=1
    )
    found = find_stuck_request(state)
    assert stuck in found
    assert bool(found) == bool(stuck)


def test_a_request_of_others_is_named() -> None:
    """The request of another client, and the batch of an earlier run of another owner, are distinguished."""
    assert describe_other_request(states.cluster()) == ""
    assert (
        describe_other_request(_state((6, 1), (2, 6), requested=MOVES))
        == "batch 2 of 5 of owner default: 2 partitions left"
    )
    foreign = (ReplicaMove("theirs", 0, (1,), (2,)),)
    found = describe_other_request(_state((6, 1), (2, 6), requested=foreign))
    assert found == "a reassignment of 1 partition by another client"
