"""Transactions of one transactional id on the topic of records, in the old protocol that all releases serve.

A request is repeated only if repeating it cannot do anything twice: the brokers answered that nothing was done, or the
producer epoch and the sequence numbers make the repetition the same. Every other unclear answer ends the transaction
with ``OutcomeUnknown``.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.session import AnswerCache
from topiarist.adapters.kafka_admin.protocol.batches import BatchProducer, build_batch
from topiarist.adapters.kafka_admin.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from topiarist.errors import Reason, TopiaristError

# The times of the protocol of the records, with the clock that tests replace.

LEASE_S = 30.0
"""Seconds that the lock of a chunk holds; a chunk of 500 topics takes 1 to 3 s, a failover of the controller 3 s."""

MARGIN_S = 10.0
"""Seconds before the end of the lease after which nothing is sent."""

PATIENCE_S = 60.0
"""Seconds to repeat a request that the brokers answer with "again"; 15 were measured after a loss of brokers."""

BLOCKED_PATIENCE_S = 30.0
"""Seconds to wait for the open transaction of another client on the topic."""

LATE_WRITE_S = 70.0
"""Seconds until no Admin request of a dead run can be carried out: 60 in the forwarding broker, and a sync."""

MAX_CONTROLLER_ANSWER_S = 1.0
"""Seconds within which a controller answers that has no requests of dead runs waiting."""

FREEZE_COMMIT_S = 1.0
"""Seconds that a fenced run waits for the freeze that may have fenced it, to name the cause."""

TRANSACTION_TIMEOUT_MS = 10_000
PRODUCE_TIMEOUT_MS = 10_000
MAX_PRODUCE_S = 7.0
"""Seconds in a transaction until its records are written; after its timeout the coordinator would fence the run."""

LOCK_POLL_INTERVAL_S = 0.25
MAX_LOCK_PAUSE_S = 0.6
FENCED_PAUSE_S = 0.5
MAX_FENCED_PAUSE_S = 4.0
RETRY_INTERVAL_S = 0.05

FETCH_BYTES = 4 << 20
MAX_BATCH_BYTES = 512 << 10
"""Maximum size of one batch; the default of ``max.message.bytes`` is 1 MiB."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(NamedTuple):
    """Time in seconds that also counts while the machine sleeps, pauses, and random numbers from 0 to 1."""

    now: Callable[[], float] = lambda: time.clock_gettime(_CLOCK)
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


SYSTEM_CLOCK = Clock()


FENCED_CODES = frozenset({90, 47, 49})
"""Another run has taken over, or the coordinator has lost its state: 90, 47, and 49."""

AGAIN_CODES = frozenset({51, 14, 15, 16, 6, 3, 5})
"""Nothing was done, and the same request may succeed later."""

_REPEATABLE_PRODUCE_CODES = AGAIN_CODES | {7, 19, 20}  # the sequence number makes a second append the same
_TOO_FEW = ": fewer replicas are in sync than min.insync.replicas demands"
_CAUSES = {19: _TOO_FEW, 20: _TOO_FEW}
_DUPLICATE_SEQUENCE = 46
_CONCURRENT_TRANSACTIONS = 51  # the coordinator itself says that it still writes the end of the last one
_LAST_EPOCH = 32_766  # the coordinator gives another producer id after it
_INIT_VERSION, _ADD_VERSION, _PRODUCE_VERSION, _END_VERSION = 4, 3, 11, 4


class Fenced(Exception):
    """Another run has taken over: this one can write no record any more."""


class OutcomeUnknown(Exception):
    """An answer that does not say whether the request was carried out."""


class RecordsSession(Protocol):
    """The connections that the records need, and the answers that earlier runs over the same session have decoded."""

    @property
    def answers(self) -> AnswerCache | None: ...

    def any_broker(self) -> Connection: ...

    def controller(self) -> Connection: ...

    def leader(self, topic: str) -> Connection: ...

    def coordinator(self, transactional_id: str) -> Connection: ...

    def forget_lookups(self) -> None: ...

    def read_metadata(self, names: Any = None) -> Message: ...

    def error_of(self, code: int, what: str, right: str, message: str | None = None) -> TopiaristError: ...


class Producer:
    """The producer of one run: ``init`` fences all earlier ones of its transactional id."""

    def __init__(self, session: RecordsSession, topic: str, transactional_id: str, clock: Clock) -> None:
        self._session = session
        self._topic = topic
        self._transactional_id = transactional_id
        self._clock = clock
        self._repeater = Repeater(session, clock, self._right)
        self._producer_id = self._epoch = -1
        self._sequence = 0

    def init(self, check: Callable[[], None] = lambda: None) -> None:
        """Fence all earlier producers, and end their transaction. Raises ``OutcomeUnknown`` and ``TopiaristError``.

        ``check`` is called directly before each attempt, and may raise.
        """

        def find() -> Connection:
            coordinator = self._find_coordinator()
            check()
            return coordinator

        self._init(-1, -1, find)

    def require_fence(self) -> None:
        """Return if no other producer has taken over; the coordinator writes that to its quorum.

        Raises ``Fenced``, ``OutcomeUnknown`` and ``TopiaristError``.
        """
        producer_id, epoch = self._producer_id, self._epoch
        self._init(producer_id, epoch, self._find_coordinator)
        if self._producer_id != producer_id and epoch < _LAST_EPOCH:
            # A coordinator that has lost its state accepts any epoch, that of a fenced run too.
            raise Fenced("the coordinator has lost the state of the transactional id")

    def commit(self, values: Mapping[bytes, bytes | None]) -> float:
        """Write all values in one transaction, and return a time before it began.

        Raises ``Fenced``, ``OutcomeUnknown`` and ``TopiaristError``.

        A transaction with records that the leader does not take in time is aborted, and begun again: its timeout would
        fence this run, as if another one had taken over.
        """
        first = began = self._clock.now()
        while (error := self._write_all(values, first)) is not None:
            if self._clock.now() >= first + PATIENCE_S:
                raise error
            began = self._clock.now()
        self._end(is_commit=True)
        return began

    def _write_all(self, values: Mapping[bytes, bytes | None], first: float) -> TopiaristError | None:
        """Write all values in a transaction that is left open; return an error after it was aborted."""
        until = min(self._clock.now() + MAX_PRODUCE_S, first + PATIENCE_S)
        self._add_partition()
        try:
            for batch, count in self._batches(values):
                self._produce(batch, times=(first, until))
                self._sequence += count
        except TopiaristError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise
            try:
                self._end(is_commit=False)
                self.require_fence()  # the records may be there: another epoch has other sequence numbers
            except (OutcomeUnknown, TopiaristError):
                raise error from None
            return error
        return None

    def write(self, key: bytes, value: bytes | None) -> int | None:
        """Append one record without a transaction (None: delete its key); after a lost answer it may be there twice.

        Returns the offset after it, which the high watermark has reached. Raises ``TopiaristError``.
        """
        try:
            answer = self._produce(build_batch([(key, value)], int(time.time() * 1000)), is_transactional=False)
        except OutcomeUnknown as error:
            raise TopiaristError(Reason.UNREACHABLE, str(error), "run again") from error
        offset = int(answer.responses[0].partition_responses[0].base_offset)
        return offset + 1 if offset >= 0 else None

    def _init(self, producer_id: int, epoch: int, find: Callable[[], Connection]) -> None:
        def send(connection: Connection) -> tuple[int, Message]:
            request = InitProducerIdRequest(
                transactional_id=self._transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            answer = connection.call(request, version=connection.version_of(request, _INIT_VERSION))
            return answer.error_code, answer

        answer = self._repeat("cannot begin to write records", find, send, AGAIN_CODES)
        self._producer_id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    def _add_partition(self) -> None:
        def send(connection: Connection) -> tuple[int, Message]:
            topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[topic(name=self._topic, partitions=[0])],
            )
            answer = connection.call(request, version=connection.version_of(request, _ADD_VERSION))
            codes = [
                each.partition_error_code
                for result in answer.results_by_topic_v3_and_below
                for each in result.results_by_partition
            ]
            return (codes[0] if len(codes) == 1 else error_codes.UNKNOWN_SERVER_ERROR), answer

        self._repeat("cannot begin a transaction", self._find_coordinator, send, AGAIN_CODES)

    def _produce(
        self, batch: bytes, *, is_transactional: bool = True, times: tuple[float, float] | None = None
    ) -> Message:
        def send(connection: Connection) -> tuple[int, Message]:
            topic = ProduceRequest.TopicProduceData
            partition = topic.PartitionProduceData(records=batch)
            request = ProduceRequest(
                transactional_id=self._transactional_id if is_transactional else None,
                acks=-1,
                timeout_ms=PRODUCE_TIMEOUT_MS,
                topic_data=[topic(name=self._topic, partition_data=[partition])],
            )
            answer = connection.call(request, version=connection.version_of(request, _PRODUCE_VERSION))
            codes = [each.error_code for result in answer.responses for each in result.partition_responses]
            code = codes[0] if len(codes) == 1 else error_codes.UNKNOWN_SERVER_ERROR
            return (0 if code == _DUPLICATE_SEQUENCE else code), answer

        what = f"cannot write records to {self._topic}"
        return self._repeat(what, lambda: self._session.leader(self._topic), send, _REPEATABLE_PRODUCE_CODES, times)

    def _end(self, *, is_commit: bool) -> None:
        def send(connection: Connection) -> tuple[int, Message]:
            request = EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                committed=is_commit,
            )
            answer = connection.call(request, version=connection.version_of(request, _END_VERSION))
            return answer.error_code, answer

        try:
            self._repeat(
                "cannot commit records" if is_commit else "cannot abort a transaction",
                self._find_coordinator,
                send,
                AGAIN_CODES,
            )
        except TopiaristError as error:
            if error.reason is not Reason.UNREACHABLE:
                raise  # refused: nothing was done
            raise OutcomeUnknown(str(error)) from error

    def _batches(self, values: Mapping[bytes, bytes | None]) -> Iterator[tuple[bytes, int]]:
        """Yield batches with the number of their records, each below the brokers' limit of a message."""
        items, now = list(values.items()), int(time.time() * 1000)
        while items:
            producer = BatchProducer(self._producer_id, self._epoch, self._sequence)
            count = size = 0
            while count < len(items):
                key, value = items[count]
                size += len(key) + len(value or b"") + 32
                if count and size > MAX_BATCH_BYTES:
                    break
                count += 1
            yield build_batch(items[:count], now, producer, is_transactional=True), count
            items = items[count:]

    def _find_coordinator(self) -> Connection:
        return self._session.coordinator(self._transactional_id)

    def _repeat(
        self,
        what: str,
        find: Callable[[], Connection],
        send: Callable[[Connection], tuple[int, Message]],
        again: frozenset[int],
        times: tuple[float, float] | None = None,
    ) -> Message:
        """Send a request until it is answered; a lost answer is asked for again with the same epoch and sequence."""
        try:
            return self._repeater.send(what, find, send, again, times)
        except TopiaristError as error:
            raise as_refused_write(error) from error.__cause__

    def _right(self, code: int) -> str:
        if code == error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return f"Write on the transactional id {self._transactional_id}"
        return f"Write on the topic {self._topic}"


def as_refused_write(error: TopiaristError) -> TopiaristError:
    """Return the error of a write of records; a code that only ends a read gets the reason of a refused write."""
    if error.reason is not Reason.UNREADABLE:
        return error
    return TopiaristError(Reason.RECORDS_REFUSED, error.message, error.hint)


class Repeater(NamedTuple):
    """Sends requests until they are answered; ``right_of`` returns the right that one without permission lacks."""

    session: RecordsSession
    clock: Clock
    right_of: Callable[[int], str]

    def send(
        self,
        what: str,
        find: Callable[[], Connection],
        send: Callable[[Connection], tuple[int, Message]],
        again: frozenset[int],
        times: tuple[float, float] | None = None,
    ) -> Message:
        """Return the first answer without an error; a request with a code of ``again``, or without answer, is repeated.

        A request without answer is sent again as it was, with the same epoch and sequence. ``times`` are those of the
        first and the last attempt: from now on for the patience if it is None. Raises ``Fenced``, ``OutcomeUnknown``
        for a server error, and ``TopiaristError``: ``Unreachable`` after the last attempt.
        """
        session, clock = self.session, self.clock
        began, deadline = times or (clock.now(), clock.now() + PATIENCE_S)
        while True:
            try:
                code, answer = send(find())
            except Disconnected as error:
                code, last = error_codes.NONE, str(error)
            else:
                if code == error_codes.NONE:
                    return answer
                last = error_codes.describe_error(code) + _CAUSES.get(code, "")
                if code in FENCED_CODES:
                    raise Fenced(last)
                if code not in again:
                    if code in error_codes.AUTHORIZATION_CODES | error_codes.PERMANENT_CODES:
                        raise session.error_of(code, what, self.right_of(code))
                    raise OutcomeUnknown(f"{what}: {last}")
            if code != _CONCURRENT_TRANSACTIONS:
                session.forget_lookups()  # the leader, or the coordinator, may be another broker by now
            if clock.now() >= deadline:
                message = f"{what}: the brokers do not take it for {deadline - began:.0f} s ({last})"
                raise TopiaristError(Reason.UNREACHABLE, message, "run again when all brokers are back")
            clock.sleep(RETRY_INTERVAL_S)
