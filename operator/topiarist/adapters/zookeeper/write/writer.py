"""Apply a plan: one checked transaction per topic, pipelined.

For each batch of topics ``Writer`` reads their znodes, compares them by value with the plan, sends what is still valid
at the versions just read, and handles the replies in order. A topic that conflicts with a write of another client is
read and compared again. After a lost reply the ownership record decides: only this transaction can have written its
version and bytes. When a run ends early, the replies to transactions in flight are still read.

``WriteQueue`` orders the topics, ``write_context`` holds the fence and the cluster metadata, ``transaction`` builds
the operations and interprets their results.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Exists

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.values import ZnodeError
from topiarist.adapters.zookeeper.connection.session import (
    MAX_DISCONNECTS,
    ConnectionInterrupted,
    PendingReply,
    Session,
    translate_errors,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import TopicZnodes
from topiarist.adapters.zookeeper.read.state import measure_size_limits, read_topics
from topiarist.adapters.zookeeper.write import transaction
from topiarist.adapters.zookeeper.write.write_context import WriteContext
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result, partitions_to_initialize
from topiarist.model.plan import Plan, TopicPlan
from topiarist.planning.planner import enforce_size_limits
from topiarist.planning.preconditions import Validity, check_preconditions, is_nudge
from topiarist.ports import NO_CONTROL, Throttle, WriteControl

# The queue of topics that a run has still to send, with the number of attempts.
#
# ``Writer`` fills the queue from a plan, takes topics from it, and returns topics that must be sent again. Topics that
# get new partitions wait until the ``Throttle`` accepts them; all other topics are sent first.

MAX_ATTEMPTS = 3
"""Attempts to read, compare and send a topic before its outcome is a conflict."""


class TopicWrite(NamedTuple):
    """A topic to write.

    ``attempts`` counts conflicts with other clients, ``disconnects`` counts connections that dropped during its write.
    """

    plan: TopicPlan
    attempts: int = 0
    disconnects: int = 0


class WriteQueue:
    """The topics of one run that are neither in flight nor finished. After ``close`` no topic is sent."""

    def __init__(self, throttle: Throttle | None, stop: Callable[[], bool]) -> None:
        self._throttle = throttle
        self._stop = stop
        self._ready: deque[TopicWrite] = deque()
        self._throttled: deque[TopicWrite] = deque()
        self.closed = False

    def __len__(self) -> int:
        """Return the number of topics that can be sent now."""
        return len(self._ready)

    def add(self, plan: TopicPlan) -> None:
        """Add a topic that was not sent before."""
        # Only new partitions are work for the controller: a config change never waits behind them.
        throttled = self._throttle is not None and partitions_to_initialize(plan)
        (self._throttled if throttled else self._ready).append(TopicWrite(plan))

    def wait(self) -> bool:
        """Wait until a topic can be sent, the queue is empty, or ``stop()`` is true.

        Returns True if the throttle made the run wait, which means that time has passed since the last read of the
        context.
        """
        waited = False
        while self._throttled and not self._stop():
            assert self._throttle is not None
            while self._throttled and self._throttle.try_acquire(self._throttled[0].plan):
                self._ready.append(self._throttled.popleft())
            if self._ready:
                break
            self._throttle.wait()
            waited = True
        return waited

    def peek(self, count: int) -> list[TopicPlan]:
        """Return the next topics, at most ``count``, in the order in which ``pop`` returns them."""
        return [job.plan for job in islice(self._ready, count)]

    def pop(self) -> TopicWrite:
        """Remove and return the next topic."""
        return self._ready.popleft()

    def requeue(self, job: TopicWrite) -> None:
        """Return a topic to the queue without counting an attempt."""
        self._ready.append(job)

    def retry_conflict(self, job: TopicWrite) -> bool:
        """Count a conflict with another client; return True if the topic is tried again."""
        return self._retry(job._replace(attempts=job.attempts + 1))

    def retry_disconnect(self, job: TopicWrite) -> bool:
        """Count a dropped connection; return True if the topic is tried again."""
        return self._retry(job._replace(disconnects=job.disconnects + 1))

    def close(self) -> None:
        """Close the queue: topics that are returned now stay in it, however often they were tried."""
        self.closed = True

    def remaining(self) -> Iterator[TopicPlan]:
        """Yield all topics that were not sent."""
        yield from (job.plan for job in (*self._ready, *self._throttled))

    def _retry(self, job: TopicWrite) -> bool:
        retry = self.closed or (job.attempts < MAX_ATTEMPTS and job.disconnects < MAX_DISCONNECTS)
        if retry:
            self._ready.append(job)
        return retry


BATCH_SIZE = 200
"""Topics that are read together, directly before they are written."""

MAX_IN_FLIGHT = 64
"""Maximum number of transactions in flight.

Requests of other clients wait behind them, and the controller begins with the first topics while the last ones are
sent. With 16 instead, another client's writes are as quick, and 1,000 creations beside busy brokers take half as long
again (docs/internals/performance.md).
"""

SEND_SIZE = 8
"""Transactions that are built before the thread that sends them gets its turn."""


class _InFlightWrite(NamedTuple):
    write: TopicWrite
    operations: Sequence[transaction.Operation]
    nodes: TopicZnodes
    template: transaction.TransactionTemplate
    reply: PendingReply
    stat_reply: PendingReply | None  # the topic's stat after the write; None if the topic did not exist before


class Writer:
    """A writer that applies one plan under one lock. ``execute`` may be called once."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        lock_path: str,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
        *,
        jute_max_buffer: int,
    ) -> None:
        self._session = session
        self._plan = plan
        self._lock_path = lock_path
        self._jute_max_buffer = jute_max_buffer
        self._stop = stop
        self._guard = control.guard
        self._assumptions = plan.assumptions()
        self._queue = WriteQueue(control.throttle, stop)
        self._in_flight_writes: deque[_InFlightWrite] = deque()
        self._unknown_writes: list[_InFlightWrite] = []
        self._context = WriteContext(session, lock_path, stop)

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each actionable topic, in the order in which they become known.

        Raises the error that ended the run, after the last outcome.
        """
        yield from self._enforce_size_limits()
        try:
            with translate_errors(self._session):
                while self._wait_for_work() and not self._stop():
                    yield from self._write_batch()
                    yield from self._resolve_unknown()
        except TopiaristError as error:
            yield from self._abort(error)
            raise
        yield from (Outcome(plan.topic, Result.SKIPPED) for plan in self._queue.remaining())

    def _enforce_size_limits(self) -> Iterator[Outcome]:
        """Queue the topics that keep the lists of brokers within their size limits; yield the outcomes of the others.

        The limits are checked again here, because another client may have created topics since the plan was made.
        """
        metadata = self._context.metadata
        existing_names = frozenset(metadata.topic_names)
        candidates = [
            plan for plan in self._plan.actionable_topics() if plan.before or plan.topic not in existing_names
        ]
        limited_plans = {
            limited.topic: limited
            for limited in enforce_size_limits(candidates, measure_size_limits(metadata, self._jute_max_buffer))[0]
        }
        for plan in self._plan.actionable_topics():
            limited = limited_plans.get(plan.topic, plan)
            if limited.changes == plan.changes:
                self._queue.add(plan)
            else:
                refused = limited.refusals[-1]
                yield Outcome(plan.topic, Result.REFUSED, refused.reason, refused.message)

    def _wait_for_work(self) -> bool:
        if self._queue.wait() and self._queue:
            self._context.refresh_if_stale()
        return bool(self._queue)

    def _write_batch(self) -> Iterator[Outcome]:
        plans = self._queue.peek(BATCH_SIZE)
        # The partition states are read before the topics. A state read after its topic could belong to a topic that
        # was recreated in between, and the check of that state would then pass.
        partitions = {plan.topic: transaction.partitions_to_read(plan) for plan in plans}
        answers = read_znodes(
            self._session, [paths.partition_state_path(name, each) for name in partitions for each in partitions[name]]
        )
        states = {name: list(islice(answers, len(numbers))) for name, numbers in partitions.items()}
        self._context.refresh_metadata(plans)
        nodes, request = read_topics(self._session, [plan.topic for plan in plans])
        self._context.update_reassignment_request(request, nodes)
        interruptions = self._session.disconnects
        for plan in plans:
            if self._stop() or self._session.disconnects != interruptions:
                break  # the run was stopped, or the connection dropped and requests would be lost
            if outcome := self._send(self._queue.pop(), nodes[plan.topic], states[plan.topic]):
                yield outcome
            if len(self._in_flight_writes) % SEND_SIZE == 0:
                time.sleep(0)  # the thread that sends needs the interpreter: otherwise it gets it after 5 ms
            if len(self._in_flight_writes) >= MAX_IN_FLIGHT:
                yield from self._handle_oldest_replies(MAX_IN_FLIGHT // 2)
        yield from self._handle_oldest_replies(len(self._in_flight_writes))

    def _handle_oldest_replies(self, count: int) -> Iterator[Outcome]:
        if count:
            # Replies arrive in order: waiting for the last one first wakes this thread once instead of ``count`` times.
            with suppress(ConnectionInterrupted, TopiaristError, KazooException):
                self._session.result(self._in_flight_writes[count - 1].reply)
        for _ in range(count):
            yield from self._handle_reply(self._in_flight_writes.popleft())

    def _send(self, job: TopicWrite, nodes: TopicZnodes, states: Sequence[Znode | ReadFailure]) -> Outcome | None:
        """Send the topic's transaction and return None, or return the outcome of a topic that is not sent."""
        topic = job.plan.topic
        for node, path in zip(nodes[1:4], (paths.topic_path, paths.config_path, paths.record_path), strict=True):
            if node is ReadFailure.DENIED:
                return transaction.permission_denied_outcome(topic, "read", path(topic))
        current = self._context.decode_current_topic(nodes)
        if isinstance(current, str):
            return Outcome(topic, Result.CONFLICT, Reason.TOPIC_UNREADABLE, current)
        check = check_preconditions(job.plan, self._assumptions, current)
        if check.validity is Validity.ALREADY_APPLIED:
            return Outcome(topic, Result.UNCHANGED)
        if check.validity is Validity.CONFLICT:
            return Outcome(topic, Result.CONFLICT, Reason.STATE_CONFLICT, check.message)
        if is_nudge(job.plan) and all(isinstance(state, Znode) for state in states):
            return Outcome(topic, Result.UNCHANGED)  # the controller has initialized all partitions meanwhile
        if outcome := transaction.uninitialized_outcome(job.plan, nodes.topic, states) or self._guard(job.plan):
            return outcome
        template = self._context.template
        try:
            state, request = next(iter(states), ReadFailure.MISSING), self._context.reassignment_request.version
            steps = transaction.build_operations(job.plan, nodes, template, state, request)
        except ZnodeError as error:
            return Outcome(topic, Result.FAILED, Reason.TOPIC_UNREADABLE, str(error))
        multi, max_bytes = transaction.MultiRequest(self._session.chroot, steps), self._jute_max_buffer * 9 // 10
        if multi.size > max_bytes:
            limit = f"the maximum is 90 % of the {self._jute_max_buffer:,} that the servers accept"
            message = f"its transaction has {multi.size:,} bytes; {limit}"
            return Outcome(topic, Result.REFUSED, Reason.TOO_LARGE, message)
        reply, stat_reply = self._session.send(multi), None
        if isinstance(nodes.topic, Znode):
            # Another client may recreate the topic between read and write: its czxid after the write shows that.
            stat_reply = self._session.send(Exists(self._session.chroot + paths.topic_path(topic), None))
        self._in_flight_writes.append(_InFlightWrite(job, steps, nodes, template, reply, stat_reply))
        return None

    def _handle_reply(self, sent: _InFlightWrite) -> Iterator[Outcome]:
        try:
            results = self._session.result(sent.reply)
            stat = self._session.result(sent.stat_reply) if sent.stat_reply else None
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
            self._unknown_writes.append(sent)  # the reply is not usable: the ownership record decides
            return
        failure = transaction.find_first_failure(sent.template, sent.operations, results)
        if failure is None:
            yield transaction.committed_outcome(sent.write.plan, sent.nodes, stat)
        elif failure.context_changed:
            yield from self._handle_context_change(sent, failure)
        elif failure.is_conflict:
            yield from self._retry_conflict(sent.write, failure.message)
        else:
            yield failure.to_outcome(sent.write.plan.topic)

    def _handle_context_change(self, sent: _InFlightWrite, failure: transaction.FailedOperation) -> Iterator[Outcome]:
        if failure.operation.path == self._lock_path:
            self._queue.requeue(sent.write)
            raise self._lock_lost_error()
        yield from self._retry_conflict(sent.write, failure.message)
        # Several transactions in flight report the same change: only the first of them refreshes the context.
        if sent.template is self._context.template and not self._queue.closed:
            self._context.refresh()

    def _lock_lost_error(self) -> TopiaristError:
        return TopiaristError(
            Reason.SESSION_LOST,
            f"the lock znode {self._lock_path} was deleted: another run may have started",
            "run the same command again: finished changes are recognized",
        )

    def _retry_conflict(self, job: TopicWrite, message: str) -> Iterator[Outcome]:
        if not self._queue.retry_conflict(job):
            message = f"{message}, {MAX_ATTEMPTS} times in a row"
            yield Outcome(job.plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, message)

    def _resolve_unknown(self) -> Iterator[Outcome]:
        """Determine from the ownership records which transactions with a lost reply were committed."""
        if not self._unknown_writes:
            return
        sync(self._session)
        names = [paths.record_path(sent.write.plan.topic) for sent in self._unknown_writes]
        # The lock is read last: if it still exists, no other run wrote a record while these were read.
        *records, lock = read_znodes(self._session, [*names, self._lock_path])
        if lock is ReadFailure.MISSING:
            raise self._lock_lost_error()
        unknown_writes, self._unknown_writes = self._unknown_writes, []
        suspect_found = False
        for sent, record in zip(unknown_writes, records, strict=True):
            if transaction.record_proves_commit(record, sent.nodes.record, sent.operations[-1]):
                yield Outcome(sent.write.plan.topic, Result.DONE)
            elif suspect_found:
                self._queue.requeue(sent.write)
            else:
                # A server closes the connection on a request that it cannot read. If that happened here, the cause is
                # the first transaction that was not committed: the server did not read the later ones.
                suspect_found = True
                if not self._queue.retry_disconnect(sent.write):
                    size = transaction.MultiRequest(self._session.chroot, sent.operations).size
                    message = (
                        f"the connection dropped {MAX_DISCONNECTS} times while it was written, and it was not applied;"
                        f" its transaction has {size:,} bytes. If this repeats, check that zookeeper.maxBuffer is not"
                        " larger than the servers' jute.maxbuffer"
                    )
                    yield Outcome(sent.write.plan.topic, Result.FAILED, Reason.WRITE_FAILED, message)

    def _abort(self, error: TopiaristError) -> Iterator[Outcome]:
        """Yield outcomes for transactions in flight and for topics that were never sent, when the run ends early."""
        # Conflicts in the replies below cannot be retried: a closed queue keeps these topics, which end as skipped.
        self._queue.close()
        while self._in_flight_writes:
            with suppress(TopiaristError):
                yield from self._handle_reply(self._in_flight_writes.popleft())
        if error.reason is not Reason.SESSION_LOST:
            with suppress(TopiaristError, KazooException):
                yield from self._resolve_unknown()  # a record proves a commit only while this run holds the lock
        for sent in self._unknown_writes:
            message = "the session or lock ended before the reply: the next run detects whether the change was applied"
            yield Outcome(sent.write.plan.topic, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        yield from (Outcome(plan.topic, Result.SKIPPED) for plan in self._queue.remaining())
