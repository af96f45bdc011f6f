"""Moves over several passes of the operator: one batch at a time, and what a pass reports of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.moves import ClusterMoves, MoveTracker, TopicMoves
from topiarist.kubernetes.reconciler import PlanCache, ReconcileResult, SyncState, TopicResult, reconcile_cluster
from topiarist.model.moves import BatchRecord, MoveProgress, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.model.state import ClusterState, PartitionState, TopicInspection, TopicState, WriteBlock
from topiarist.ports import MoveOptions
from unit.kubernetes.reconcile_requests import OWNER, make_request, owned_topic, refusal_reasons

THROTTLES = {"topics/orders": {"leader.replication.throttled.replicas": OwnValue(None, "0:1")}}
SENT_AT_MS = 1_769_860_800_000


class Batching(MemoryCluster):
    """A cluster that sends two moves at a time, and ends them when a test asks for it; its sessions may be lost."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self.is_lost = False
        self.options: MoveOptions | None = None

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the partitions of each topic, with every replica in sync."""
        return {topic.name: self._inspect(topic) for topic in topics}

    def _inspect(self, topic: TopicState) -> TopicInspection:
        lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
        led = {partition: PartitionState(replicas[0], replicas) for partition, replicas in lists.items()}
        return TopicInspection(topic.identity, lists, led)

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Send the next batch if there is no request."""
        if self.is_lost:
            raise TopiaristError(Reason.SESSION_LOST, "the session has ended")
        self.options = options
        topics = [*plan.actionable_topics()]
        moves = tuple(move for topic in topics for move in topic.moves())
        if self.state.requested_at_ms is None and moves:
            batch = moves[:2]
            self._request(batch, BatchRecord(OWNER, 1, (len(moves) + 1) // 2, batch, THROTTLES))
            options.on_progress(MoveProgress(0, 0, 0, len(moves)))
            options.on_progress(MoveProgress(1, (len(moves) + 1) // 2, 0, len(moves), copying=batch))
        for topic in topics:
            yield Outcome(topic.topic, Result.PENDING, Reason.MOVES_UNFINISHED)

    def _request(self, moves: tuple[ReplicaMove, ...], batch: BatchRecord | None) -> None:
        entries = tuple(RequestedReassignment(each.topic, each.partition, each.after) for each in moves)
        self.state = replace(
            self.state,
            batch=batch,
            batch_at_ms=SENT_AT_MS,
            requested_at_ms=SENT_AT_MS if moves else None,
            requested_reassignments=entries,
            reassigning_topics=frozenset(each.topic for each in moves),
        )

    def finish(self, count: int) -> None:
        """End the first moves of the request."""
        batch = self.state.batch
        assert batch
        entries = self.state.requested_reassignments
        topics = dict(self.state.topics)
        for name, partition, replicas in entries[:count]:
            lists = [*topics[name].replicas]
            lists[partition] = replicas
            topics[name] = replace(topics[name], replicas=tuple(lists))
        self.state = replace(self.state, topics=topics)
        left = {(entry.topic, entry.partition) for entry in entries[count:]}
        moves = tuple(move for move in batch.moves if (move.topic, move.partition) in left)
        self._request(moves, batch)


class Drain:
    """The passes of a worker that drains broker 6, which has three partitions of ``orders`` and none of ``pay``."""

    def __init__(self, **state: Any) -> None:
        found = states.cluster(owned_topic("orders", 6), owned_topic("pay", 2), **state)
        self.port = Batching(found)
        self.home = resource_bodies.cluster(drainBrokers=[6], moves={"allow": ["Drain"], "throttle": "Unlimited"})
        self.topics = [resource_bodies.topic("orders", partitions=6), resource_bodies.topic("pay", partitions=2)]
        self._kept: dict[str, Any] = {"move_tracker": MoveTracker(), "plan_cache": PlanCache()}

    def run(self) -> ReconcileResult:
        """Run a pass."""
        return reconcile_cluster(self.port, make_request(self.home, *self.topics, **self._kept), lambda: False)

    def moves(self) -> ClusterMoves:
        """Run a pass, and return the moves after it."""
        found = self.run().moves
        assert found is not None
        return found

    def orders(self) -> TopicResult:
        """Run a pass, and return the result of ``orders``."""
        return next(each for each in self.run().topic_results if each.candidate.spec.topic == "orders")


def figures(moves: ClusterMoves) -> tuple[int, int, int, int, bool, int]:
    """Return the waiting moves and those in flight, the batch of how many, if it was just sent, and the moved ones."""
    return len(moves.waiting), len(moves.in_flight), moves.batch, moves.batches, moves.is_sent, moves.moved


def test_a_drain_goes_on_from_pass_to_pass() -> None:
    """Each pass sends at most one batch, waits for none, and counts what ended since the last one."""
    drain = Drain()
    found = drain.moves()
    assert (figures(found), found.sent_at_ms, found.draining) == ((1, 2, 1, 2, True, 0), None, {6: 3})
    assert drain.port.options is not None
    assert not drain.port.options.wait
    found = drain.moves()
    assert (figures(found), found.sent_at_ms, found.waiting_for) == ((1, 2, 1, 2, False, 0), SENT_AT_MS, "")
    drain.port.finish(1)
    found = drain.moves()
    assert (figures(found), found.draining) == ((1, 1, 1, 2, False, 1), {6: 2})
    drain.port.finish(1)
    assert figures(drain.moves()) == (0, 1, 1, 1, True, 1)
    drain.port.finish(1)
    found = drain.moves()
    assert (figures(found), found.draining) == ((0, 0, 0, 0, False, 1), {6: 0})
    assert figures(drain.moves()) == (0, 0, 0, 0, False, 0)


def test_a_topic_with_moves_is_moving_until_they_have_ended() -> None:
    """It is neither deferred nor in progress, which would call for the next pass at once; another topic is as asked."""
    drain = Drain()
    for in_flight in (2, 1, 1):
        orders, pay = drain.run().topic_results
        assert (orders.state, pay.state, pay.moves) == (SyncState.MOVING, SyncState.SYNCED, None)
        assert (orders.is_applied, orders.is_deferred, orders.is_in_progress) == (True, False, False)
        assert orders.refusals == ()
        assert orders.moves is not None
        assert orders.moves.in_flight == in_flight
        drain.port.finish(1)
    assert (drain.orders().state, drain.orders().moves) == (SyncState.SYNCED, None)


def test_another_change_of_a_moving_topic_is_made() -> None:
    """Moves hold back no change of the config; a change that cannot be made beside them waits for their end."""
    drain = Drain()
    drain.topics[0] = resource_bodies.topic("orders", partitions=6, config={"flush.ms": 7})
    assert drain.orders().state is SyncState.MOVING
    assert drain.port.state.topics["orders"].config == {"flush.ms": "7"}
    drain.topics[0] = resource_bodies.topic("orders", partitions=8)
    orders = drain.orders()
    assert refusal_reasons(orders) == [Reason.AFTER_MOVES]
    assert (orders.state, orders.moves) == (SyncState.MOVING, TopicMoves(3, 2, 1, 2))


def test_a_refusal_of_a_moving_topic_comes_first() -> None:
    """The user has to act, which is told before the moves, which end by themselves."""
    drain = Drain()
    drain.run()
    drain.topics[0] = resource_bodies.topic("orders", partitions=3)
    orders = drain.orders()
    assert (orders.state, Reason.FEWER_PARTITIONS in refusal_reasons(orders)) == (SyncState.REFUSED, True)


def test_a_paused_cluster_sends_nothing() -> None:
    """A batch in flight cannot be stopped; no other one is sent, and nothing is put back."""
    drain = Drain()
    drain.run()
    drain.home = resource_bodies.updated_body(drain.home, annotations={"topiarist.dev/paused": "true"})
    drain.port.finish(2)
    drain.port.options = None
    found = drain.run()
    assert found.moves is not None
    assert (drain.port.options, found.moves.left, found.moves.throttle_left) == (None, 0, True)
    assert [each.state for each in found.topic_results] == [SyncState.PAUSED, SyncState.PAUSED]


def test_a_reassignment_by_another_client_is_waited_for() -> None:
    """Only one request can be there, so the text names the client; without planned moves there is no text."""
    entries = (RequestedReassignment("theirs", 0, (1, 2)),)
    theirs = {"requested_reassignments": entries, "requested_at_ms": 1}
    drain = Drain(**theirs)
    found = drain.moves()
    assert (len(found.waiting), found.waiting_for) == (3, "a reassignment of 1 partition by another client")
    drain.home = resource_bodies.cluster()
    assert drain.moves().waiting_for == ""


def test_a_lost_session_sends_nothing_more() -> None:
    """Moves that were not sent do not count as waiting for a batch: the error is reported, and the pass is repeated."""
    drain = Drain()
    drain.port.is_lost = True
    found = drain.run()
    assert found.error is not None
    assert found.error.reason is Reason.SESSION_LOST
    assert found.moves is not None
    assert found.moves.waiting == ()
    assert [each.state for each in found.topic_results] == [SyncState.WAITING, SyncState.SYNCED]
    drain.port.is_lost = False
    drain.run()
    drain.port.is_lost = True
    orders = drain.orders()
    assert refusal_reasons(orders) == [Reason.NOT_SENT]
    assert (orders.state, orders.is_deferred, orders.is_in_progress) == (SyncState.MOVING, False, False)


def ended(owner: str = OWNER, throttles: Any = THROTTLES, **fields: Any) -> dict[str, Any]:
    """Return the fields of a state with a batch that has ended, and throttles of it that are still set."""
    moves = (ReplicaMove("pay", 0, (6, 2, 3), (1, 2, 3)),)
    return {"batch": BatchRecord(owner, 1, 1, moves, throttles), "batch_at_ms": SENT_AT_MS, **fields}


@pytest.mark.parametrize(
    ("state", "is_lost", "left"),
    [
        (ended(), False, False),
        (ended(), True, True),
        (ended("default"), False, True),
        (ended(write_block=WriteBlock(Reason.FROZEN, "frozen")), False, True),
        (ended(throttles={}), True, False),
        (ended("default", requested_at_ms=1), False, False),
        ({}, False, False),
    ],
    ids=["put back", "lost session", "of another owner", "frozen", "no throttles", "in flight", "no batch"],
)
def test_throttles_that_stay_are_reported(state: dict[str, Any], is_lost: bool, left: bool) -> None:
    """A throttle that no batch needs any more slows down replication: the status has it until it is put back."""
    drain = Drain(**state)
    drain.home = resource_bodies.cluster()
    drain.port.is_lost = is_lost
    assert drain.moves().throttle_left is left


def test_a_stall_is_that_of_each_moving_topic() -> None:
    """The problem of the request is in the result of the topics that it holds, and in that of the cluster."""
    drain = Drain()
    drain.run()
    drain.port.state = replace(drain.port.state, requested_reassignments=())
    found = [drain.run(), drain.run()][-1]
    orders, pay = found.topic_results
    assert found.moves is not None
    assert found.moves.problem is not None
    assert found.moves.problem.reason is Reason.STUCK_REASSIGNMENT
    assert (orders.move_problem, pay.move_problem) == (found.moves.problem if orders.moves else None, None)
