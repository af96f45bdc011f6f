"""The moves of a cluster after a pass: what is in flight, what waits, what is drained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from support import builders
from support.memory_cluster import MemoryCluster
from topiarist.errors import Reason
from topiarist.kubernetes import moves as module
from topiarist.kubernetes.moves import (
    ClusterMoves,
    MoveTracker,
    TopicMoves,
    count_drained_replicas,
    describe_other_request,
    find_moves_in_flight,
    find_moves_waiting,
    find_stuck_request,
    read_partitions_in_flight,
)
from topiarist.model.moves import BatchRecord, MoveSettings, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import SAFE_ASSESSMENT, MoveReplicas, TopicPlan
from topiarist.model.state import ClusterState, PartitionState, Reassignment, TopicInspection, TopicState
from topiarist.planning.moves.throttles import PartitionInFlight

MOVES = (ReplicaMove("orders", 0, (6, 1), (2, 1)), ReplicaMove("orders", 1, (2, 6), (2, 3)))
UNFINISHED = Outcome("orders", Result.PENDING, Reason.MOVES_UNFINISHED)


def _state(*lists: tuple[int, ...], requested: tuple[ReplicaMove, ...] = (), at_ms: int | None = 5) -> ClusterState:
    """Return a cluster with the record of a batch of ``MOVES``, and a request of the moves ``requested``."""
    entries = tuple(RequestedReassignment(move.topic, move.partition, move.after) for move in requested)
    return replace(
        builders.state(builders.topic("orders", lists)),
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
    assert find_moves_in_flight(builders.state()) == ()
    assert find_moves_in_flight(replace(_state((6, 1), (2, 6), requested=MOVES), topics={})) == ()


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
    assert found.by_topic() == {"orders": TopicMoves(2, 1, 2, 5), "payments": TopicMoves(1, 0, 0, 0)}
    assert (found.left, found.copies_left, found.copies_in_flight, found.copying_brokers) == (3, 3, 1, (2,))
    assert ClusterMoves().by_topic() == {}


def test_a_drained_broker_counts_until_its_last_replica_has_left() -> None:
    """The lists of all topics count, with those that leave; a broker that holds nothing has 0."""
    topics = [builders.topic("orders", [(6, 1), (2, 1, 6)]), builders.topic("other", [(6,)])]
    assert count_drained_replicas(topics, {6, 7}) == {6: 3, 7: 0}
    assert count_drained_replicas(topics, ()) == {}


def test_moved_partitions_are_counted_when_they_are_done() -> None:
    """A move of the last pass counts if the topic shows its list; a dropped or deleted one does not."""
    tracker = MoveTracker()
    assert tracker.count_moved(_state((2, 1), (2, 3))) == 0
    tracker.remember(MOVES)
    assert tracker.count_moved(_state((2, 1), (2, 6))) == 1
    assert tracker.count_moved(_state((2, 1), (2, 3))) == 2
    assert tracker.count_moved(builders.state()) == 0


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
        builders.state(builders.topic("orders", [(6, 1)])), requested_reassignments=entries, requested_at_ms=1
    )
    found = find_stuck_request(state)
    assert stuck in found
    assert bool(found) == bool(stuck)


def test_a_request_of_others_is_named() -> None:
    """The request of another client, and the batch of an earlier run of another owner, are distinguished."""
    assert describe_other_request(builders.state()) == ""
    assert (
        describe_other_request(_state((6, 1), (2, 6), requested=MOVES))
        == "batch 2 of 5 of owner default: 2 partitions left"
    )
    foreign = (ReplicaMove("theirs", 0, (1,), (2,)),)
    found = describe_other_request(_state((6, 1), (2, 6), requested=foreign))
    assert found == "a reassignment of 1 partition by another client"


class Inspected(MemoryCluster):
    """A cluster with these in-sync replicas by partition, which copies as ``MOVES`` ask; it records what it reads."""

    def __init__(self, state: ClusterState, *in_sync: tuple[int, ...]) -> None:
        super().__init__(state)
        self.in_sync = in_sync
        self.inspected: list[list[str]] = []

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the partitions of the topic ``orders``."""
        self.inspected.append([topic.name for topic in topics])
        found = {number: PartitionState(isr[0], isr) for number, isr in enumerate(self.in_sync)}
        adding = {number: Reassignment(MOVES[number].added) for number in found}
        return {"orders": TopicInspection("1", {}, states=found, reassignments=adding)}


class Waiting:
    """A request for ``MOVES``, observed at times that a test sets; moves stall after 100 s."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.tracker = MoveTracker()
        self.state = _state((6, 2, 1), (2, 6, 3), requested=MOVES)
        self.cluster = Inspected(self.state, (1,), (2,))

    def after(self, seconds: float) -> tuple[str, Reason | None]:
        """Return what the request waits for after some seconds, and its problem."""
        self.now += seconds
        blocker, problem = self.tracker.observe(self.cluster, self.state, MoveSettings(stall_after=100))
        self.problem = problem
        return blocker, problem.reason if problem else None

    @property
    def reads(self) -> int:
        """Return how often partition states were read."""
        return len(self.cluster.inspected)


STALLED = ("", Reason.MOVES_STALLED)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """A request that was observed for the first time, without a problem."""
    found = Waiting(monkeypatch)
    assert found.after(0) == ("", None)
    return found


def test_partition_states_are_read_now_and_then(waiting: Waiting) -> None:
    """Partition states are read every 30 seconds, and when the time without progress is over: not in each pass."""
    read = []
    for _ in range(20):
        waiting.after(5)
        read.append(waiting.reads)
    assert read == [0] * 5 + [1] * 6 + [2] * 6 + [3] * 2 + [4]
    assert waiting.cluster.inspected[0] == ["orders"]


def test_moves_without_progress_stall(waiting: Waiting) -> None:
    """Moves stall exactly when the time is over, and stay stalled until something of them ends."""
    assert [waiting.after(seconds) for seconds in (99.9, 0.1, 1, 30)] == [("", None), STALLED, STALLED, STALLED]
    assert waiting.problem is not None
    assert waiting.problem.message.startswith("no progress for 100 s: broker 2, 3 has not copied all of 2 partitions")
    assert waiting.problem.hint


def test_a_copy_that_ends_is_progress(waiting: Waiting) -> None:
    """A replica that is in sync now ends a stall, and begins the time anew; a replica that lags now does not."""
    waiting.after(99)
    assert waiting.after(1) == STALLED
    waiting.cluster.in_sync = ((1, 2), (2,))
    assert [waiting.after(30), waiting.after(99)] == [("", None), ("", None)]
    waiting.cluster.in_sync = ((1,), (2,))
    assert waiting.after(30) == STALLED


def test_another_request_is_progress(waiting: Waiting) -> None:
    """An entry that is done leaves the request; a request with other entries, or of another batch, has its own time."""
    done = _state((6, 1), (2, 6, 3), requested=MOVES[1:])
    waiting.cluster.in_sync = ((1, 2), (2,))
    for changed in (done, replace(done, batch_at_ms=7)):
        waiting.after(60)
        waiting.state = changed
        assert [waiting.after(39), waiting.after(99)] == [("", None), ("", None)]
    assert waiting.after(1) == STALLED


def test_a_request_that_ended_is_forgotten(waiting: Waiting) -> None:
    """Without a request nothing is waited for; the same request later has its own time."""
    state, waiting.state = waiting.state, _state((6, 1), (2, 6))
    assert [waiting.after(200), waiting.after(200)] == [("", None), ("", None)]
    waiting.state = state
    assert [waiting.after(0), waiting.after(99), waiting.after(1)] == [("", None), ("", None), STALLED]


def test_a_broker_that_blocks_is_named_before_the_stall(waiting: Waiting) -> None:
    """The text is that of the last read, until the next one."""
    state = waiting.state
    waiting.state = replace(state, brokers=tuple(broker for broker in state.brokers if broker.id != 3))
    blocked = waiting.after(30)
    assert blocked == ("broker 3 is not registered: partition orders 1 waits for it", None)
    waiting.state = state
    assert [waiting.after(1), waiting.after(29)] == [blocked, ("", None)]


def test_a_stuck_request_is_found_in_two_passes(waiting: Waiting) -> None:
    """One read may fall between two writes of the controller, so two passes in a row must find it stuck."""
    good, ghost = waiting.state, replace(waiting.state, topics={})
    found = []
    for state in (ghost, good, ghost, ghost, ghost, good):
        waiting.state = state
        found.append(waiting.after(1)[1])
    stuck = Reason.STUCK_REASSIGNMENT
    assert found == [None, None, None, stuck, stuck, None]


def test_partitions_in_flight_are_read_with_their_states() -> None:
    """A partition without a state and a topic that does not exist are left out; the added brokers are those of now."""
    entries = (*MOVES, ReplicaMove("orders", 7, (1,), (2,)), ReplicaMove("ghost", 0, (1,), (2,)))
    cluster = Inspected(_state((6, 1), (2, 6), requested=entries), (1, 6), (2,))
    assert read_partitions_in_flight(cluster, cluster.state) == [
        PartitionInFlight("orders", 0, (2, 1), (2,), (1, 6)),
        PartitionInFlight("orders", 1, (2, 3), (3,), (2,)),
    ]
    assert cluster.inspected == [["orders"]]
    cluster.inspect_all = lambda topics: {  # type: ignore[method-assign]
        "orders": TopicInspection("1", {}, states={0: PartitionState(1, (1,))})
    }
    assert read_partitions_in_flight(cluster, cluster.state) == [PartitionInFlight("orders", 0, (2, 1), (), (1,))]
