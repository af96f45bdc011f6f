"""Carry out the moves of a plan: batch after batch, each in one checked transaction, until all are done.

The mover holds the lock for each transaction, and not while brokers copy. Before a batch it compares the topics of the
batch by value (``planning/moves/gate.py``); after it, only a topic's znode shows whether a move was carried
out. The mover never sets or deletes the reassignment request: the controller removes it with its last entry.

The cluster is the only memory: the topics' lists, the request, and the record of the last batch. A run that ends at any
moment leaves a batch that the controller finishes, and the next run continues::

    a request is there, of topiarist or another client     wait until the controller removes it
    no request, moves are left                             send the next batch, with its throttles and its record
    no request, no moves are left, a record is there       put the throttles back, and delete the record

``RequestWait`` waits for the controller, ``batch_writer`` reads, and writes under the lock, and the ``MoveLedger`` of
``planning`` keeps what is known of each move.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.paths import is_znode_name
from topiarist.adapters.zookeeper.connection.session import Session, translate_errors
from topiarist.adapters.zookeeper.moves import batch_writer
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    REQUEST_AND_WRITE_BLOCK,
    ReassignmentRequest,
    TopicZnodes,
    decode_request_and_write_block,
)
from topiarist.adapters.zookeeper.write.write_context import KRAFT_REASONS
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.planning.moves import throttles
from topiarist.planning.moves.gate import Judgement, MovedTopic
from topiarist.planning.moves.ledger import MoveLedger, OpenTopic, Partition, make_batches
from topiarist.ports import MoveOptions
from topiarist.text import format_count
from topiarist.throttle import sleep_unless_stopped

# Wait until the controller has removed the reassignment request, and notice when it never will.
#
# Each poll reads the request and the topics that it names: an entry leaves the request when its partition is done. The
# wait ends with an error if nothing changes for a long time, or if only entries are left that the controller never
# removes. Nothing is undone then: a partition in flight continues.

_FAST_POLLS = 20
_FIRST_POLL_S, _FAST_POLL_S, _SLOW_POLL_S, _STATES_S = 0.1, 1.0, 5.0, 30.0
_STUCK_POLLS = 2
"""Polls in a row that must find only stuck entries: one read may fall between two writes of the controller."""


class Poll(NamedTuple):
    """The result of one poll: the partitions that the request still names, and what blocks them, if that is known.

    ``partition_ids`` has the partitions of each topic that the request names.
    """

    left: frozenset[tuple[str, int]]
    blocker: str
    partition_ids: Mapping[str, Collection[int]]


class RequestWait:
    """A wait for the reassignment request; ``rate`` is the throttle of its copies, None if that is not known.

    ``stall_after`` is in seconds.
    """

    def __init__(self, session: Session, rate: int | None, stall_after: float, stop: Callable[[], bool]) -> None:
        self._session = session
        self._rate = rate
        self._stall_after = stall_after
        self._stop = stop

    def polls(self) -> Iterator[Poll]:
        """Yield each poll until the request is removed or ``stop()`` is true.

        Raises ``TopiaristError``: MovesStalled after ``stall_after`` seconds without progress, StuckReassignment if the
        controller never removes what is left, the reason of the write block if KRaft takes the cluster over.
        """
        watch, states_due = throttles.StallWatch(self._stall_after, self._rate), 0.0
        blocker, count, stuck_polls = "", 0, 0
        in_flight: tuple[throttles.PartitionInFlight, ...] = ()
        topics: Mapping[str, TopicZnodes] = {}
        while True:
            request, topics = self._read_request(topics.keys())
            if request.version is None:
                return
            stuck = _find_stuck(request, topics)
            stuck_polls = stuck_polls + 1 if stuck else 0
            if stuck_polls >= _STUCK_POLLS:
                raise TopiaristError(Reason.STUCK_REASSIGNMENT, f"{paths.REASSIGNMENT_REQUEST}: {stuck}")
            now = time.monotonic()
            if now >= min(states_due, watch.deadline):
                in_flight = self._read_in_flight(request, topics)
                blocker, states_due = throttles.find_blocker(in_flight, self._registered_brokers()), now + _STATES_S
            if watch.is_stalled(len(request.entries), in_flight, now):
                raise watch.error(in_flight, self._registered_brokers())
            partition_ids = {name: batch_writer.decode_lists(nodes) for name, nodes in topics.items()}
            yield Poll(frozenset((entry.topic, entry.partition) for entry in request.entries), blocker, partition_ids)
            if self._stop():
                return
            count += 1
            pause = _FIRST_POLL_S if count == 1 or stuck else _FAST_POLL_S if count < _FAST_POLLS else _SLOW_POLL_S
            sleep_unless_stopped(min(pause, self._stall_after), self._stop)

    def _read_request(self, names: Collection[str]) -> tuple[ReassignmentRequest, Mapping[str, TopicZnodes]]:
        """Return the request and the topics that it names.

        ``names`` are the topics of the poll before: they are read with the request, so that a poll is one read.
        """
        sync(self._session)
        known = sorted(names)
        nodes = [*read_znodes(self._session, [*map(paths.topic_path, known), *REQUEST_AND_WRITE_BLOCK])]
        request, block = decode_request_and_write_block(self._session, nodes[len(known) :])
        if block.reason in KRAFT_REASONS and request.version is not None:
            count = format_count(len(request.entries), "partition")
            message = f"{block.message}; {count} of the reassignment request in flight"
            raise TopiaristError(block.reason, message, "compare the replica lists with Kafka's own tools")
        topics = dict(zip(known, nodes, strict=False))
        unread = sorted(filter(is_znode_name, request.topics - topics.keys()))
        topics |= zip(unread, read_znodes(self._session, map(paths.topic_path, unread)), strict=True)
        return request, {
            # The other znodes of a topic do not matter here.
            name: TopicZnodes(name, node, ReadFailure.MISSING, ReadFailure.MISSING, marked_for_deletion=False)
            for name, node in topics.items()
            if name in request.topics
        }

    def _registered_brokers(self) -> frozenset[int]:
        (names,) = read_children(self._session, [paths.BROKER_IDS])
        return frozenset() if isinstance(names, ReadFailure) else frozenset(map(int, filter(str.isdecimal, names)))

    def _read_in_flight(
        self, request: ReassignmentRequest, topics: Mapping[str, TopicZnodes]
    ) -> tuple[throttles.PartitionInFlight, ...]:
        states = batch_writer.read_partition_states(self._session, topics.values())
        decoded = {name: batch_writer.decode_states(name, states) for name in topics}
        reassignments = {name: batch_writer.decode_reassignments(nodes) for name, nodes in topics.items()}
        lists = {name: batch_writer.decode_lists(nodes) for name, nodes in topics.items()}
        found = []
        for topic, partition, target in request.entries:
            if state := decoded.get(topic, {}).get(partition):
                present = lists[topic].get(partition, ())
                adding = throttles.find_added(target, present, reassignments[topic].get(partition))
                found.append(throttles.PartitionInFlight(topic, partition, target, adding, state.isr))
        return tuple(found)


def _find_stuck(request: ReassignmentRequest, topics: Mapping[str, TopicZnodes]) -> str:
    """Return why nothing of the request can be removed by the controller; empty if something can."""
    if request.error:
        return f"cannot be read, and blocks every reassignment: {request.error}"
    entries = []
    for entry in request.entries:
        node = topics[entry.topic].topic if entry.topic in topics else ReadFailure.MISSING
        is_younger = isinstance(node, Znode) and request.czxid is not None and node.czxid > request.czxid
        entries.append((entry, node is not ReadFailure.MISSING, is_younger))
    return throttles.find_stuck_request(entries)


_HEALTH_POLL_S = 2.0

Batch = tuple[ReplicaMove, ...]


class Mover:
    """A run that carries out the moves of one plan; ``execute`` may be called once."""

    def __init__(self, access: batch_writer.MoveAccess, plan: Plan, options: MoveOptions) -> None:
        self._session, self._writer_settings, self._stop = access
        self._plan = plan
        self._options = options
        self._settings = options.settings
        self._assumptions = plan.assumptions()
        self._ledger = MoveLedger(plan, options)
        self._queue: deque[Batch] = deque()
        self._seen: dict[str, set[int]] = {}  # the partitions that topics had while they were moved

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each topic with moves; raise the error that ended the run after the last one."""
        yield from self._ledger.execute(self._steps(), self._report, batch_writer.HINT_CONTINUE)

    def _steps(self) -> Iterator[None]:
        with translate_errors(self._session):
            self._find_finished_moves()
            while self._step():
                yield

    def _step(self) -> bool:
        """Do the next thing that is to be done; return whether there is more to do."""
        sync(self._session)
        request, record = read_znodes(self._session, [paths.REASSIGNMENT_REQUEST, paths.MOVES])
        if request is not ReadFailure.MISSING:
            if self._stop():
                return False
            self._adjust_throttle(batch_writer.decode_record(record))
            if self._options.wait:
                self._await_request(batch_writer.decode_record(record))
                return True
            self._ledger.blocked_by = "a reassignment request is in progress"
            return False
        self._judge_finished_batch()
        if not self._queue and self._ledger.held and not self._stop():
            self._requeue_held()
        if self._queue and not self._stop():
            return self._send_next()
        return self._end_batches(batch_writer.decode_record(record))

    def _find_finished_moves(self) -> None:
        """Read all topics once: the moves of an interrupted run that are done, or in flight, need no batch."""
        sync(self._session)
        nodes = batch_writer.read_moved_topics(self._session, sorted(self._ledger.open))
        for topic, judgement in self._judge(self._ledger.open, nodes):
            self._ledger.close_finished(topic, judgement)
            for move in judgement.under_way:
                self._ledger.in_flight[move.topic, move.partition] = move
                topic.was_moved = True
        left = (move for topic in self._ledger.open.values() for move in topic.left.values())
        moves = [move for move in left if (move.topic, move.partition) not in self._ledger.in_flight]
        self._queue = deque(make_batches(moves, self._settings.batch))

    def _adjust_throttle(self, record: BatchRecord | None) -> None:
        """Give the batch in flight the declared rate; that of another owner keeps its rate."""
        rate = self._settings.throttle
        is_own = record is not None and record.owner == self._writer_settings.owner
        if record and is_own and rate is not None and throttles.has_other_rate(record, rate):
            self._write(lambda writer: writer.replace_throttle(rate), self._stop)

    def _await_request(self, record: BatchRecord | None) -> None:
        """Wait until the controller has removed the request, or the run is stopped."""
        rate, stall_after = self._settings.throttle, self._settings.stall_after
        for poll in RequestWait(self._session, rate, stall_after, self._stop).polls():
            for name in self._ledger.open.keys() & poll.partition_ids.keys():
                self._seen.setdefault(name, set()).update(poll.partition_ids[name])
            copying = [move for key, move in self._ledger.in_flight.items() if key in poll.left]
            waiting_for = poll.blocker
            if not copying and not waiting_for:
                waiting_for = _describe_request(poll.left, record)
            self._report(copying, waiting_for, len(self._ledger.in_flight) - len(copying))

    def _judge_finished_batch(self) -> None:
        """Compare the topics of a batch, after the controller has removed the request, with their lists of after."""
        in_flight, self._ledger.in_flight = self._ledger.in_flight, {}
        names = sorted({move.topic for move in in_flight.values()} & self._ledger.open.keys())
        for topic, judgement in self._judge(names, batch_writer.read_moved_topics(self._session, names)):
            self._ledger.close_finished(topic, judgement)
            waiting = [*judgement.ready, *(move for move, _ in judgement.held)]
            dropped = [move for move in waiting if (move.topic, move.partition) in in_flight]
            under_way = [move for move in judgement.under_way if (move.topic, move.partition) in in_flight]
            if under_way:
                partition = under_way[0].partition
                message = f"partition {partition} is being reassigned, and no reassignment request names it"
                name, reason = topic.plan.topic, Reason.REASSIGNMENT_IN_PROGRESS
                self._ledger.close(topic, Outcome(name, Result.FAILED, reason, message))
            elif dropped:
                self._ledger.close_dropped(topic, dropped)
        if in_flight:
            self._report()

    def _requeue_held(self) -> None:
        """Queue the held moves again after a pause, or refuse their topics if they were held for too long."""
        if self._ledger.refuse_held_for_too_long(time.monotonic()):
            return
        self._report(waiting_for=next(iter(self._ledger.held.values()))[1])
        sleep_unless_stopped(_HEALTH_POLL_S, self._stop)
        moves = [move for move, _ in self._ledger.held.values()]
        self._queue = deque(make_batches(moves, self._settings.batch))

    def _send_next(self) -> bool:
        """Send the next batch; return whether there is more to do."""
        batch = self._queue.popleft()

        def send(writer: batch_writer.BatchWriter) -> bool:
            nonlocal batch
            if writer.has_request:
                self._queue.appendleft(batch)
                return True
            ready, judged = self._select(batch, writer)
            if not ready:
                return True
            try:
                sent = self._send(ready, judged, writer)
            except batch_writer.TooLarge as error:
                if len(ready) == 1:
                    name = ready[0].topic
                    outcome = Outcome(name, Result.REFUSED, Reason.TOO_LARGE, error.message)
                    self._ledger.close(self._ledger.open[name], outcome)
                else:
                    self._queue.extendleft((ready[len(ready) // 2 :], ready[: len(ready) // 2]))
                return True
            batch = ready
            return sent

        before = self._ledger.batches_sent
        if not self._write(send, self._stop):
            self._queue.appendleft(batch)  # stopped: the next step puts the throttles back
            return True
        return self._options.wait or self._ledger.batches_sent == before

    def _select(self, batch: Batch, writer: batch_writer.BatchWriter) -> tuple[Batch, batch_writer.JudgedZnodes]:
        """Return the ready moves of a batch; hold the others, or close their topics."""
        wanted = {
            (move.topic, move.partition): move
            for move in batch
            if move.topic in self._ledger.open and move.partition in self._ledger.open[move.topic].left
        }
        names = sorted({name for name, _ in wanted})
        judged = batch_writer.read_judged(self._session, names)
        ready: set[Partition] = set()
        for topic, judgement in self._judge(names, judged.topics, writer, judged):
            self._ledger.close_finished(topic, judgement)
            ready.update((move.topic, move.partition) for move in judgement.ready)
            held = [*judgement.held, *((move, "it is being reassigned already") for move in judgement.under_way)]
            for move, cause in held:
                if (move.topic, move.partition) in wanted:
                    self._ledger.hold(move, cause)
        return tuple(move for key, move in wanted.items() if key in ready), judged

    def _send(self, batch: Batch, judged: batch_writer.JudgedZnodes, writer: batch_writer.BatchWriter) -> bool:
        rate = throttles.require_rate(self._settings.throttle, batch)
        keys = {(each.topic, each.partition) for each in batch}
        waiting = (move for key, (move, _) in self._ledger.held.items() if key not in keys)
        if not self._options.wait and writer.record and writer.record.owner == self._writer_settings.owner:
            # Each run that does not wait sends one batch: the record has the number of the one before.
            self._ledger.batches_before = writer.record.batch
        number = self._ledger.number + 1
        batches = number + len(self._queue) + len(make_batches(waiting, self._settings.batch))
        try:
            if not writer.send(batch, judged, rate, (number, batches)):
                return False
        except TopiaristError as error:
            for move in batch:
                self._ledger.open[move.topic].is_unknown = error.reason is Reason.SESSION_LOST
            raise
        self._ledger.batches_sent += 1
        self._ledger.add_sent(batch)
        self._report(batch)
        return True

    def _end_batches(self, record: BatchRecord | None) -> bool:
        """Put the throttles of the last batch back; return whether a new request must be awaited first."""
        has_request = False

        def end(writer: batch_writer.BatchWriter) -> bool:
            nonlocal has_request
            has_request = writer.has_request
            if record and not has_request:
                self._ledger.remark_end(record)
            return has_request or writer.end()

        if record and (record.owner == self._writer_settings.owner or self._ledger.batches_sent):
            # Also after ``stop()``: it is one transaction, and it leaves no throttle behind.
            self._write(end, lambda: False)
        return has_request

    def _write(self, write: Callable[[batch_writer.BatchWriter], bool], stop: Callable[[], bool]) -> bool:
        """Call ``write`` under the lock until it returns True; return False if ``stop()`` became true before."""
        for _ in range(batch_writer.MAX_ATTEMPTS):
            with batch_writer.lock_for_batch(self._session, self._writer_settings, stop, self._ledger.remark) as writer:
                if writer is None:
                    return False
                written = write(writer)
            if self._ledger.new_remarks:
                self._report(self._ledger.in_flight.values())
            if written:
                return True
        message = f"the znodes of a batch changed {batch_writer.MAX_ATTEMPTS} times in a row while it was written"
        raise TopiaristError(Reason.STATE_CONFLICT, message, batch_writer.HINT_CONTINUE)

    def _judge(
        self,
        names: Collection[str],
        nodes: Mapping[str, TopicZnodes],
        writer: batch_writer.BatchWriter | None = None,
        judged: batch_writer.JudgedZnodes | None = None,
    ) -> Iterator[tuple[OpenTopic, Judgement]]:
        """Yield each open topic with its judgement; close topics that have a conflict.

        Brokers and partition states are judged only with ``writer`` and ``judged``, directly before a batch.
        """
        brokers = {each.id: each for each in writer.metadata.brokers} if writer else self._assumptions.brokers
        defaults = writer.metadata.broker_defaults if writer else {}
        settings = self._plan.config_rules.merge_dynamic_settings(defaults)
        states = judged.states if judged else None
        return self._ledger.judge(
            names,
            lambda name: batch_writer.decode_moved_topic(nodes[name], brokers, settings, states),
            lambda name, current: _find_lost_partition(self._seen.get(name, ()), current),
        )

    def _report(self, copying: Iterable[ReplicaMove] = (), waiting_for: str = "", done_more: int = 0) -> None:
        batches = self._ledger.number + len(self._queue) + bool(self._ledger.held)
        self._ledger.report((self._ledger.number, batches), copying, waiting_for, done_more)


def _describe_request(left: Collection[Partition], record: BatchRecord | None) -> str:
    """Return the source of a request without a move of the plan."""
    count = format_count(len(left), "partition")
    if record and {(move.topic, move.partition) for move in record.moves}.issuperset(left):
        return f"batch {record.batch} of {record.batches} of an earlier run: {count} left"
    return f"a reassignment of {count} by another client"


def _find_lost_partition(seen: Collection[int], current: MovedTopic) -> str:
    """Return the message for a partition that the topic had while it was moved, and has no more; empty if none."""
    lost = set(seen) - set(current.topic.partition_ids if current.topic else seen)
    if not lost:
        return ""
    return (
        f"partition {min(lost)} was added by another client while the topic was moved, and is lost: the controller did"
        " not know it yet, and wrote the topic from its memory; add it again"
    )
