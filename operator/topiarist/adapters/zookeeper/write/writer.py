"""Carrying out a plan: one checked transaction a topic, pipelined, every result looked at, every doubt resolved by
reading.

For each window of topics: read their nodes, compare by value with what the plan was made from, send what still is true
at the versions just read, and settle the answers in order. What the server refused because something moved is read and
compared again; what a lost connection left open is decided by our record, whose version and bytes nobody else can
have made. When the run ends before its time, what was under way is still heard out. ``jobs`` says what is next,
``footing`` what the run stands on, ``transaction`` what is sent, ``verdict`` what an answer means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Exists

from topiarist.adapters.zookeeper.codec import paths as paths_
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.connection.session import (
    MAX_DISCONNECTS,
    ConnectionInterrupted,
    PendingReply,
    Session,
    translate_errors,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.state import measure_list_sizes, read_topics
from topiarist.adapters.zookeeper.read.topic import TopicZnodes
from topiarist.adapters.zookeeper.write import transaction
from topiarist.adapters.zookeeper.write.multi_request import MultiRequest
from topiarist.adapters.zookeeper.write.transaction import Operation, TransactionTemplate, build_operations
from topiarist.adapters.zookeeper.write.write_context import WriteContext
from topiarist.adapters.zookeeper.write.write_queue import MAX_ATTEMPTS, TopicWrite, WriteQueue
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, TopicPlan
from topiarist.planning.preconditions import Validity, check_preconditions
from topiarist.planning.size_limits import enforce_size_limits
from topiarist.ports import Throttle

BATCH_SIZE = 200
"""Topics that are read together, directly before they are written."""

MAX_IN_FLIGHT = 64
"""Transactions under way at any time, however far away the server is."""

MIN_IN_FLIGHT = 16
"""As many keep a server busy that answers at once."""

SERVER_TX_PER_SECOND = 3_000
"""Transactions that a server gets through in a second: as many are on their way to one that is a second away."""


class _InFlightWrite(NamedTuple):
    """A transaction under way: what it was made of, its answer, and the look at the topic that follows it."""

    write: TopicWrite
    operations: Sequence[Operation]
    nodes: TopicZnodes
    template: TransactionTemplate
    reply: PendingReply
    stat_reply: PendingReply | None


class Writer:
    """Carries out one plan under one lock. ``outcomes`` may be called once."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        lock_path: str,
        *,
        jute_max_buffer: int,
        stop: Callable[[], bool],
        throttle: Throttle | None = None,
    ) -> None:
        self._session = session
        self._plan = plan
        self._lock_path = lock_path
        self._jute_max_buffer = jute_max_buffer
        self._stop = stop
        self._assumptions = plan.assumptions()
        # All others who ask this server wait behind what is under way: no more than it takes to keep it busy.
        self._max_in_flight = int(min(MAX_IN_FLIGHT, MIN_IN_FLIGHT + SERVER_TX_PER_SECOND * session.round_trip_s))
        self._queue = WriteQueue(throttle, stop)
        self._in_flight_writes: deque[_InFlightWrite] = deque()
        self._unknown_writes: list[_InFlightWrite] = []
        self._context = WriteContext(session, lock_path, stop)

    def execute(self) -> Iterator[Outcome]:
        """One outcome for each topic to do, as they become known; raises what ended the run, after the last one."""
        yield from self._enforce_size_limits()
        try:
            with translate_errors(self._session):
                while self._wait_for_work() and not self._stop():
                    yield from self._write_batch()
                    yield from self._resolve_unknown()
        except TopiaristError as error:
            yield from self._abort(error)
            raise
        yield from self._skipped_outcomes()

    def _enforce_size_limits(self) -> Iterator[Outcome]:
        """Queue what brokers will still be able to read; others may have filled their lists since the plan was made."""
        head = self._context.metadata
        there = frozenset(head.topic_names)
        longer = [plan for plan in self._plan.actionable_topics() if plan.before or plan.topic not in there]
        fitting = {
            fits.topic: fits for fits in enforce_size_limits(longer, measure_list_sizes(head, self._jute_max_buffer))[0]
        }
        for plan in self._plan.actionable_topics():
            fits = fitting.get(plan.topic, plan)
            if fits.changes == plan.changes:
                self._queue.add(plan)
            else:
                refused = fits.refusals[-1]
                yield Outcome(plan.topic, Result.REFUSED, refused.reason, refused.message)

    def _wait_for_work(self) -> bool:
        """Whether there is something to send; waits until something may be, if only the pace keeps it back."""
        if self._queue.wait() and self._queue:
            self._context.refresh_if_stale()
        return bool(self._queue)

    def _skipped_outcomes(self) -> Iterator[Outcome]:
        """The outcomes of what is left when the run ends."""
        for plan in self._queue.remaining():
            yield Outcome(plan.topic, Result.SKIPPED)

    def _write_batch(self) -> Iterator[Outcome]:
        """Read, compare and send the next topics, and settle all that was sent."""
        plans = self._queue.peek(BATCH_SIZE)
        states = self._read_partition_states(plans)
        self._context.refresh_metadata(plans)
        nodes, request = read_topics(self._session, [plan.topic for plan in plans])
        self._context.update_reassignment_request(request, nodes)
        interruptions = self._session.disconnects
        for plan in plans:
            if self._stop() or self._session.disconnects != interruptions:
                break  # nothing more is wanted, or would arrive
            outcome = self._send(self._queue.pop(), nodes[plan.topic], states[plan.topic])
            if outcome:
                yield outcome
            if len(self._in_flight_writes) >= self._max_in_flight:
                yield from self._handle_oldest_replies(self._max_in_flight // 2)
        yield from self._handle_oldest_replies(len(self._in_flight_writes))

    def _handle_oldest_replies(self, count: int) -> Iterator[Outcome]:
        """Settle the first ``count`` of what is under way."""
        if count:
            # Answers come in order: to wait for the last of them first is to be woken up once, not for each.
            with suppress(ConnectionInterrupted, TopiaristError, KazooException):
                self._session.result(self._in_flight_writes[count - 1].reply)
        for _ in range(count):
            yield from self._handle_reply(self._in_flight_writes.popleft())

    def _read_partition_states(self, plans: Sequence[TopicPlan]) -> Mapping[str, Sequence[Znode | ReadFailure]]:
        """Read the state nodes of the partitions on which the plans rest, by topic.

        Read before the topics: a state read after them might be that of another topic, made again in between, for which
        its check would vouch.
        """
        wanted = {plan.topic: transaction.partitions_to_read(plan) for plan in plans}
        paths = [paths_.partition_state_path(name, each) for name, numbers in wanted.items() for each in numbers]
        states = read_znodes(self._session, paths)
        return {name: list(islice(states, len(numbers))) for name, numbers in wanted.items()}

    def _send(self, job: TopicWrite, nodes: TopicZnodes, states: Sequence[Znode | ReadFailure]) -> Outcome | None:
        """Send the topic's transaction, or say why there is none to send."""
        topic = job.plan.topic
        for node, path in zip(nodes[1:4], (paths_.topic_path, paths_.config_path, paths_.record_path), strict=True):
            if node is ReadFailure.DENIED:
                return transaction.permission_denied_outcome(topic, "read", path(topic))
        now = self._context.decode_current_topic(nodes)
        if isinstance(now, str):
            return Outcome(topic, Result.CONFLICT, Reason.ZNODE_UNREADABLE, now)
        stands = check_preconditions(job.plan, self._assumptions, now)
        if stands.validity is Validity.ALREADY_APPLIED:
            return Outcome(topic, Result.UNCHANGED)
        if stands.validity is Validity.CONFLICT:
            return Outcome(topic, Result.CONFLICT, Reason.STATE_CONFLICT, stands.message)
        if settled := transaction.unneeded_nudge_outcome(job.plan, states) or transaction.uninitialized_outcome(
            job.plan, nodes.topic, states
        ):
            return settled
        site = self._context.template
        try:
            state, request = next(iter(states), ReadFailure.MISSING), self._context.reassignment_request.version
            steps = build_operations(job.plan, nodes, site, state, request)
        except ZnodeError as error:
            return Outcome(topic, Result.FAILED, Reason.ZNODE_UNREADABLE, str(error))
        multi, most = MultiRequest(self._session.chroot, steps), self._jute_max_buffer * 9 // 10
        if multi.size > most:
            limit = f"the servers read {self._jute_max_buffer:,}, and 90 % is the most"
            message = f"its transaction takes {multi.size:,} bytes; {limit}"
            return Outcome(topic, Result.REFUSED, Reason.TOO_LARGE, message)
        answer, look = self._session.send(multi), None
        if isinstance(nodes.topic, Znode):
            # The same name may have become another topic in the very moment of writing: seen by its identity.
            look = self._session.send(Exists(self._session.chroot + paths_.topic_path(topic), None))
        self._in_flight_writes.append(_InFlightWrite(job, steps, nodes, site, answer, look))
        return None

    def _handle_reply(self, sent: _InFlightWrite) -> Iterator[Outcome]:
        try:
            results = self._session.result(sent.reply)
            looked = self._session.result(sent.stat_reply) if sent.stat_reply else None
        except ConnectionInterrupted:
            self._unknown_writes.append(sent)
            return
        except TopiaristError:
            self._unknown_writes.append(sent)
            raise
        except KazooException as error:
            yield transaction.write_failed_outcome(sent.write.plan.topic, error)
            return
        if len(results) != len(sent.operations):
            self._unknown_writes.append(sent)  # not an answer that can be understood: our record has to say
            return
        failure = transaction.find_first_failure(sent.template, sent.operations, results)
        if failure is None:
            yield transaction.committed_outcome(sent.write.plan, sent.nodes, looked)
        elif failure.context_changed:
            yield from self._handle_context_change(sent, failure)
        elif failure.is_conflict:
            yield from self._retry_conflict(sent.write, failure.message)
        else:
            yield failure.to_outcome(sent.write.plan.topic)

    def _handle_context_change(self, sent: _InFlightWrite, failure: transaction.FailedOperation) -> Iterator[Outcome]:
        """The lock, the controller, the gate or a broker is not what it was: find out once, and end the run or go on
        from there.
        """
        if failure.operation.path == self._lock_path:
            self._queue.requeue(sent.write)
            message = f"our lock {failure.operation.path} has gone: another run may have begun"
            raise TopiaristError(
                Reason.SESSION_LOST, message, "run the same command again: what was done is found done"
            )
        yield from self._retry_conflict(sent.write, failure.message)
        if sent.template is self._context.template and not self._queue.closed:
            self._context.refresh()

    def _retry_conflict(self, job: TopicWrite, message: str) -> Iterator[Outcome]:
        if not self._queue.retry_conflict(job):
            yield Outcome(
                job.plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, f"{message}, {MAX_ATTEMPTS} times in a row"
            )

    def _retry_disconnect(self, sent: _InFlightWrite) -> Iterator[Outcome]:
        if not self._queue.retry_disconnect(sent.write):
            yield transaction.disconnected_outcome(
                sent.write.plan.topic, MAX_DISCONNECTS, MultiRequest(self._session.chroot, sent.operations).size
            )

    def _resolve_unknown(self) -> Iterator[Outcome]:
        """Decide, by our records, what became of transactions whose answer was lost."""
        if not self._unknown_writes:
            return
        sync(self._session)
        names = [paths_.record_path(sent.write.plan.topic) for sent in self._unknown_writes]
        records = list(read_znodes(self._session, names))
        doubtful, self._unknown_writes = self._unknown_writes, []
        suspected = False
        for sent, record in zip(doubtful, records, strict=True):
            if transaction.record_proves_commit(record, sent.nodes.record, sent.operations[-1]):
                yield Outcome(sent.write.plan.topic, Result.DONE)
            elif suspected:
                self._queue.requeue(sent.write)
            else:
                # A request that a server will not read breaks the connection. If it was one, it was this: the first
                # that was not done. Those behind it never got that far.
                suspected = True
                yield from self._retry_disconnect(sent)

    def _abort(self, error: TopiaristError) -> Iterator[Outcome]:
        """Outcomes for what was under way, and for what was never sent, when the run ends before its time."""
        self._queue.close()
        while self._in_flight_writes:
            with suppress(TopiaristError):
                yield from self._handle_reply(self._in_flight_writes.popleft())
        if error.reason is not Reason.SESSION_LOST:
            with suppress(TopiaristError, KazooException):
                yield from self._resolve_unknown()  # a record is a witness only as long as the lock is ours
        for sent in self._unknown_writes:
            message = "the session ended before its answer came: done or not; the next run sees which"
            yield Outcome(sent.write.plan.topic, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        yield from self._skipped_outcomes()
