"""The moves of one cluster as the operator follows them: one batch a pass, and what is left after each pass.

A pass sends at most one batch and never waits for it. ``MoveTracker`` is the memory of the worker between passes: since
when the reassignment request has made no progress, and which moves were in flight. Everything else comes from the
cluster, so a restart of the operator loses only the time of a stall::

    pass 1    no request                   sends batch 1           12 partitions left, 5 in flight
    pass 2    a request, 3 entries         sends nothing           10 partitions left, 3 in flight
    pass 3    no request                   sends batch 2            7 partitions left, 5 in flight
    ...
    pass n    no request, no moves left    puts the throttles back
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.model.moves import MoveSettings, ReplicaMove
from topiarist.model.outcome import Outcome
from topiarist.model.plan import Issue, TopicPlan
from topiarist.model.state import ClusterState, TopicState
from topiarist.planning.moves import throttles
from topiarist.planning.moves.throttles import PartitionInFlight, explain_stall, find_blocker
from topiarist.planning.moves.topic import find_targets_in_flight
from topiarist.ports import PartitionInspector
from topiarist.text import format_count, printable

STATES_INTERVAL_S = 30.0
"""Seconds between two reads of the partition states that show what a batch waits for."""

STUCK_PASSES = 2
"""Passes in a row that must find only stuck entries: one read may fall between two writes of the controller."""

HINT_STALLED = "a batch that was sent cannot be cancelled; it continues when the cause is removed"


class TopicMoves(NamedTuple):
    """The moves of one topic after a pass: its partitions without their new lists, and those in flight among them.

    ``batch`` of ``batches`` is the batch in flight that has partitions of the topic; 0 if none has.
    """

    left: int
    in_flight: int = 0
    batch: int = 0
    batches: int = 0


class ClusterMoves(Struct, frozen=True):
    """The moves of one cluster after a pass.

    ``waiting`` are planned and not sent, ``in_flight`` are at the controller as ``batch`` of ``batches``.
    ``sent_at_ms`` is the time of that batch, None if this pass has just sent it (``is_sent``). ``moved`` counts the
    moves that ended since the last pass. ``waiting_for`` is what the moves wait for, if that is not the copies
    themselves; ``problem`` is a stall or a stuck request. ``throttle_left`` is true if throttles of a batch that is
    done could not be put back. ``draining`` has the replicas left on each broker that is to be drained.
    """

    waiting: tuple[ReplicaMove, ...] = ()
    in_flight: tuple[ReplicaMove, ...] = ()
    batch: int = 0
    batches: int = 0
    sent_at_ms: int | None = None
    is_sent: bool = False
    moved: int = 0
    waiting_for: str = ""
    problem: Issue | None = None
    throttle_left: bool = False
    draining: Mapping[int, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """Return the number of partitions without their new lists."""
        return len(self.waiting) + len(self.in_flight)

    @property
    def copies_in_flight(self) -> int:
        """Return the number of replicas that brokers copy now."""
        return sum(len(move.added) for move in self.in_flight)

    @property
    def copies_left(self) -> int:
        """Return the number of replicas to copy, also those in flight."""
        return self.copies_in_flight + sum(len(move.added) for move in self.waiting)

    @property
    def copying_brokers(self) -> tuple[int, ...]:
        """Return the brokers that copy replicas now."""
        return tuple(sorted({broker for move in self.in_flight for broker in move.added}))

    def by_topic(self) -> Mapping[str, TopicMoves]:
        """Return the moves of each topic that has any."""
        waiting, flying = Counter(move.topic for move in self.waiting), Counter(move.topic for move in self.in_flight)
        return {
            topic: TopicMoves(waiting[topic] + flying[topic], flying[topic], self.batch, self.batches)
            if topic in flying
            else TopicMoves(waiting[topic])
            for topic in waiting | flying
        }


def find_moves_in_flight(state: ClusterState) -> tuple[ReplicaMove, ...]:
    """Return the moves of the last batch that the controller has not finished."""
    if state.batch is None:
        return ()
    targets = {
        name: find_targets_in_flight(state, state.topics[name])[0]
        for name in {move.topic for move in state.batch.moves} & state.topics.keys()
    }
    return tuple(move for move in state.batch.moves if move.partition in targets.get(move.topic, ()))


def find_moves_waiting(
    plans: Iterable[TopicPlan], outcomes: Mapping[str, Outcome], in_flight: Collection[ReplicaMove]
) -> tuple[ReplicaMove, ...]:
    """Return the planned moves that a later batch makes; a topic that the adapter refused or finished has none."""
    flying = {(move.topic, move.partition) for move in in_flight}
    return tuple(
        move
        for plan in plans
        if plan.is_actionable and has_unfinished_moves(plan, outcomes.get(plan.topic))
        for move in plan.moves()
        if (move.topic, move.partition) not in flying
    )


def has_unfinished_moves(plan: TopicPlan, outcome: Outcome | None) -> bool:
    """Return whether the next passes continue the moves of a topic, which is no refusal.

    The topic waits for a batch, or some of its partitions were sent. Its other changes are made.
    """
    return outcome is not None and outcome.reason is Reason.MOVES_UNFINISHED and bool(plan.moves())


def count_drained_replicas(topics: Iterable[TopicState], brokers: Collection[int]) -> Mapping[int, int]:
    """Return the number of replicas on each of ``brokers``; a replica that leaves counts until it has left."""
    if not brokers:
        return {}
    held = Counter(
        broker for topic in topics for replicas in topic.replicas for broker in replicas if broker in brokers
    )
    return {broker: held[broker] for broker in sorted(brokers)}


class _RequestWait(Struct):
    """The wait for a reassignment request with the same entries of the same batch; times are monotonic."""

    awaited: object
    progress_at: float
    states_due: float
    lagging: int | None = None
    stuck_passes: int = 0
    blocker: str = ""
    stall: Issue | None = None

    def update(self, cluster: PartitionInspector, state: ClusterState, moves: MoveSettings) -> Issue | None:
        """Return the stall or the stuck request, None if the request may still advance."""
        stuck = find_stuck_request(state)
        self.stuck_passes = self.stuck_passes + 1 if stuck else 0
        if self.stuck_passes >= STUCK_PASSES:
            return Issue(Reason.STUCK_REASSIGNMENT, stuck)
        now, stalls_at = time.monotonic(), self.progress_at + moves.stall_after
        if now >= self.states_due or (self.stall is None and now >= stalls_at):
            self._read_states(cluster, state, moves, now)
        return self.stall

    def _read_states(self, cluster: PartitionInspector, state: ClusterState, moves: MoveSettings, now: float) -> None:
        self.states_due = now + STATES_INTERVAL_S
        partitions, registered = read_partitions_in_flight(cluster, state), {broker.id for broker in state.brokers}
        lagging = sum(len(each.lagging) for each in partitions)
        if self.lagging is not None and lagging < self.lagging:
            self.progress_at = now
        self.lagging, self.blocker, self.stall = lagging, find_blocker(partitions, registered), None
        if now >= self.progress_at + moves.stall_after:
            message = (
                f"no progress for {moves.stall_after:,} s: {explain_stall(partitions, registered, moves.throttle)}"
            )
            self.stall = Issue(Reason.MOVES_STALLED, message, hint=HINT_STALLED)


class MoveTracker:
    """The memory of a cluster's moves between passes: the moves in flight, and the wait for the request.

    Call ``observe`` once a pass, after the read and before a batch is sent, and ``remember`` at its end.
    """

    def __init__(self) -> None:
        self._in_flight: tuple[ReplicaMove, ...] = ()
        self._wait: _RequestWait | None = None

    def count_moved(self, state: ClusterState) -> int:
        """Return the number of moves that were in flight after the last pass and are done in ``state``."""
        return sum(_is_done(move, state.topics.get(move.topic)) for move in self._in_flight)

    def remember(self, in_flight: tuple[ReplicaMove, ...]) -> None:
        """Keep the moves that are in flight after a pass."""
        self._in_flight = in_flight

    def observe(
        self, cluster: PartitionInspector, state: ClusterState, moves: MoveSettings
    ) -> tuple[str, Issue | None]:
        """Return what the reassignment request waits for, and the stall or the stuck request.

        The text is empty and the issue None if the request advances, or if there is none. Partition states are read
        every ``STATES_INTERVAL_S`` seconds, and when the time without progress is over.
        """
        if state.requested_at_ms is None:
            self._wait = None
            return "", None
        # An entry leaves the request when its partition is done: each other list of entries is progress.
        awaited = state.requested_reassignments, state.batch_at_ms
        if self._wait is None or self._wait.awaited != awaited:
            now = time.monotonic()
            self._wait = _RequestWait(awaited, now, now + STATES_INTERVAL_S)
        problem = self._wait.update(cluster, state, moves)
        return self._wait.blocker, problem


def read_partitions_in_flight(cluster: PartitionInspector, state: ClusterState) -> list[PartitionInFlight]:
    """Return the partitions that the request names, with their in-sync replicas; those without a state are left out."""
    names = {entry.topic for entry in state.requested_reassignments}
    inspections = cluster.inspect_all([state.topics[name] for name in sorted(names & state.topics.keys())])
    found = []
    for topic, partition, target in state.requested_reassignments:
        inspection = inspections.get(topic)
        if inspection and (known := inspection.states.get(partition)):
            reassignment = inspection.reassignments.get(partition)
            adding = reassignment.adding if reassignment else ()
            found.append(PartitionInFlight(topic, partition, target, adding, known.isr))
    return found


def find_stuck_request(state: ClusterState) -> str:
    """Return why the controller can remove nothing of the reassignment request; empty if it can remove something."""
    if not state.requested_reassignments:
        return "the reassignment request cannot be read, and blocks every reassignment: see the warnings of a plan"
    existing = state.topics.keys() | state.topic_errors.keys()
    return throttles.find_stuck_request(
        (entry, entry.topic in existing, entry.topic in state.stale_reassignments)
        for entry in state.requested_reassignments
    )


def describe_other_request(state: ClusterState) -> str:
    """Return the source of a request that has no move of the operator's last batch; empty if there is no request."""
    if state.requested_at_ms is None:
        return ""
    count = format_count(len(state.requested_reassignments), "partition")
    partitions = {(entry.topic, entry.partition) for entry in state.requested_reassignments}
    batch = state.batch
    if batch and partitions <= {(move.topic, move.partition) for move in batch.moves}:
        return f"batch {batch.batch} of {batch.batches} of owner {printable(batch.owner)}: {count} left"
    return f"a reassignment of {count} by another client"


def _is_done(move: ReplicaMove, topic: TopicState | None) -> bool:
    if topic is None or move.partition in topic.reassigning_partitions:
        return False
    return dict(zip(topic.partition_ids, topic.replicas, strict=True)).get(move.partition) == move.after
