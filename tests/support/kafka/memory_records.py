"""The records topic and its transaction coordinator in memory, at the level of requests, with faults on demand.

    broker = MemoryBroker()
    broker.faults["EndTxn", 1] = Fault(code=-1, is_done=True)  # the first EndTxn is carried out, and answered with -1

Time is virtual: it advances only by the pauses of the code under test.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.records.constants import Clock
from topiarist.errors import TopiaristError

TRANSACTION_TIMEOUT_S = 10.0
PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, UNKNOWN_TOPIC, INVALID_PRODUCER_ID_MAPPING = 90, 51, 3, 49
_ATTRIBUTES, _CRC = 21, 17


class Killed(BaseException):
    """The end of the process under test."""


class Fault(NamedTuple):
    """A fault of one request: its code (None: the connection breaks), after it was carried out or not.

    ``kill`` ends the process under test instead.
    """

    code: int | None = None
    is_done: bool = False
    kill: bool = False


@dataclass
class _Transaction:
    producer_id: int
    epoch: int
    last_epoch: int = -1
    first_offset: int | None = None
    is_committed: bool = False
    ends_at: float = math.inf


@dataclass
class MemoryBroker:
    """One broker. ``faults`` are by name and number of a request; ``calls`` has the names in their order.

    A commit is answered, and its records can be read ``marker_delay`` seconds later.
    """

    faults: dict[tuple[str, int], Fault] = field(default_factory=dict)
    always: Callable[[str, float], int | None] = lambda name, now: None
    before: Callable[[str, int], None] = lambda name, number: None
    now: float = 0.0
    topic_id: uuid.UUID | None = None
    cluster_id: str = "cluster"
    policy: str = "compact"
    fetch_bytes: int = 1 << 20
    marker_delay: float = 0.0
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock(lambda: self.now, self._advance, lambda: 0.5)
        self._log: list[tuple[int, bytes]] = []
        self._end = 0
        self._aborted: list[tuple[int, int]] = []
        self._transactions: dict[str, _Transaction] = {}
        self._next_id = 1000
        self._counts: Counter[str] = Counter()
        self.versions: dict[int, tuple[int, int]] = {}

    # The session.
    def any_broker(self) -> Any:
        return self

    def controller(self) -> Any:
        return self

    def leader(self, topic: str, partition: int = 0, patience: float = 0) -> Any:
        return self

    def coordinator(self, transactional_id: str, patience: float = 0) -> Any:
        return self

    def read_metadata(self, names: Any = None, ids: Any = ()) -> Any:
        topic_id = self.topic_id
        topic = SimpleNamespace(
            name=next(iter(names)),
            error_code=0 if topic_id else UNKNOWN_TOPIC,
            topic_id=topic_id,
            partitions=[SimpleNamespace()] if topic_id else [],
        )
        brokers = [SimpleNamespace(node_id=number, rack=rack) for number, rack in ((1, "a"), (2, "b"), (3, "c"))]
        return SimpleNamespace(topics=[topic], brokers=brokers, cluster_id=self.cluster_id)

    def error_of(self, code: int, what: str, right: str, message: str | None = None) -> TopiaristError:
        return error_codes.error_of(code, what, right=right, principal="me", message=message)

    # The connection.
    def version_of(self, request: Any, at_most: int | None = None) -> int:
        return at_most or 0

    def call(self, request: Any, *, version: int | None = None, timeout: float | None = None) -> Any:
        name = type(request).__name__.removesuffix("Request")
        self._counts[name] += 1
        self.calls.append(name)
        self.before(name, self._counts[name])
        fault = self.faults.get((name, self._counts[name]))
        code = self.always(name, self.now)
        handler = getattr(self, "_on_" + name)
        if code is not None:
            return handler(request, code)
        if fault is None:
            return handler(request, 0)
        answer = handler(request, 0) if fault.is_done else None
        if fault.kill:
            raise Killed
        if fault.code is None:
            raise Disconnected("cut", was_sent=True)
        return handler(request, fault.code) if answer is None or fault.code else answer

    def abandon(self, transactional_id: str = "another") -> None:
        """Leave the transaction of another client open."""
        self._transactions[transactional_id] = _Transaction(1, 0, first_offset=self._end)
        self._append(_build(1, 0, 0, [(b"topic/foreign", b"{}")]))

    def end(self, transactional_id: str = "another", *, commit: bool = False) -> None:
        """End an open transaction."""
        self._mark(self._transactions[transactional_id], commit=commit)

    def committed_values(self, key: bytes) -> list[bytes]:
        """Return all values of a key in committed transactions, in their order, also those that compaction removes."""
        aborted = sorted(self._aborted)
        aborting: set[int] = set()
        values = []
        for base, data in self._log:
            if base >= self._stable():
                break
            batch = DefaultRecordBatch(data)
            while aborted and aborted[0][0] <= base:
                aborting.add(aborted.pop(0)[1])
            if batch.is_control_batch:
                aborting.discard(batch.producer_id)
            elif batch.producer_id not in aborting:
                values += [record.value for record in batch if record.key == key]
        return values

    def compact(self) -> None:
        """Remove all batches with nothing but old values and tombstones, as Kafka does in time."""
        newest: dict[bytes, int] = {}
        for base, data in self._log:
            batch = DefaultRecordBatch(data)
            if not batch.is_control_batch:
                newest.update({record.key: base for record in batch})
        self._log = [
            (base, data)
            for base, data in self._log
            if (batch := DefaultRecordBatch(data)).is_control_batch
            or any(record.value is not None and newest[record.key] == base for record in batch)
        ]

    def lose_transactions(self) -> None:
        """Forget all transactional ids, as after a loss of ``__transaction_state``."""
        self._transactions.clear()
        self._next_id += 1000

    def delete_topic(self) -> None:
        """Delete the topic with all its records, and create it anew."""
        self.topic_id, self._log, self._end = uuid.uuid4(), [], 0

    def _advance(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)
        for transaction in self._transactions.values():
            if transaction.first_offset is not None and transaction.ends_at <= self.now:
                self._mark(transaction, commit=transaction.is_committed)
                transaction.epoch += not transaction.is_committed

    def _append(self, batch: bytes) -> None:
        head = DefaultRecordBatch(batch)
        self._log.append((self._end, struct.pack(">q", self._end) + batch[8:]))
        self._end += head.last_offset_delta + 1

    def _mark(self, transaction: _Transaction, *, commit: bool) -> None:
        if transaction.first_offset is None:
            return
        if not commit:
            self._aborted.append((transaction.first_offset, transaction.producer_id))
        marker = bytearray(
            _build(transaction.producer_id, transaction.epoch, -1, [(struct.pack(">hh", 0, int(commit)), b"\0" * 6)])
        )
        marker[_ATTRIBUTES + 1] |= 0x20
        marker[_CRC : _CRC + 4] = struct.pack(">I", calc_crc32c(bytes(marker[_ATTRIBUTES:])))
        self._append(bytes(marker))
        transaction.first_offset = None

    def _stable(self) -> int:
        opened = [each.first_offset for each in self._transactions.values() if each.first_offset is not None]
        return min([self._end, *opened])

    def _of(self, request: Any, producer_id: int, epoch: int) -> _Transaction | None:
        found = self._transactions.get(request)
        return found if found and (found.producer_id, found.epoch) == (producer_id, epoch) else None

    def _unknown_code(self, transactional_id: str) -> int:
        return PRODUCER_FENCED if transactional_id in self._transactions else INVALID_PRODUCER_ID_MAPPING

    def _on_CreateTopics(self, request: Any, code: int) -> Any:  # noqa: N802
        if not code:
            self.topic_id = uuid.uuid4()
        return SimpleNamespace(topics=[SimpleNamespace(error_code=code, error_message=None)])

    def _on_DescribeConfigs(self, request: Any, code: int) -> Any:  # noqa: N802
        config = SimpleNamespace(name="cleanup.policy", value=self.policy)
        return SimpleNamespace(results=[SimpleNamespace(error_code=code, configs=[config])])

    def _on_InitProducerId(self, request: Any, code: int) -> Any:  # noqa: N802
        key = request.transactional_id
        old = self._transactions.get(key)
        if code:
            return SimpleNamespace(error_code=code)
        if old and old.is_committed and old.first_offset is not None:
            return SimpleNamespace(error_code=CONCURRENT_TRANSACTIONS)
        if request.producer_id >= 0:
            if old is None:
                return SimpleNamespace(error_code=INVALID_PRODUCER_ID_MAPPING)
            if old.producer_id != request.producer_id:
                return SimpleNamespace(error_code=PRODUCER_FENCED)
            if old.last_epoch == request.producer_epoch:  # asked again
                return SimpleNamespace(error_code=0, producer_id=old.producer_id, producer_epoch=old.epoch)
            if old.epoch != request.producer_epoch:
                return SimpleNamespace(error_code=PRODUCER_FENCED)
        if old:
            self._mark(old, commit=False)
        else:
            self._next_id += 1
        last = request.producer_epoch if request.producer_id >= 0 else -1
        new = _Transaction(old.producer_id if old else self._next_id, old.epoch + 1 if old else 0, last)
        self._transactions[key] = new
        return SimpleNamespace(error_code=0, producer_id=new.producer_id, producer_epoch=new.epoch)

    def _on_AddPartitionsToTxn(self, request: Any, code: int) -> Any:  # noqa: N802
        found = self._of(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        code = code or (0 if found else self._unknown_code(request.v3_and_below_transactional_id))
        if found and found.is_committed and found.first_offset is not None:
            code, found = CONCURRENT_TRANSACTIONS, None
        if found and not code:
            found.is_committed = False
        partition = SimpleNamespace(partition_error_code=code)
        return SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=[partition])])

    def _on_Produce(self, request: Any, code: int) -> Any:  # noqa: N802
        batch = bytes(request.topic_data[0].partition_data[0].records)
        head = DefaultRecordBatch(batch)
        found = self._of(request.transactional_id, head.producer_id, head.producer_epoch)
        code = code or (0 if found else 47)
        same = any(data[8:] == batch[8:] for _, data in self._log)
        if found and not code and not same:
            if found.first_offset is None:
                found.first_offset, found.ends_at = self._end, self.now + TRANSACTION_TIMEOUT_S
            self._append(batch)
        partition = SimpleNamespace(error_code=code)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[partition])])

    def _on_EndTxn(self, request: Any, code: int) -> Any:  # noqa: N802
        found = self._of(request.transactional_id, request.producer_id, request.producer_epoch)
        code = code or (0 if found else self._unknown_code(request.transactional_id))
        if found and not code and not found.is_committed:
            found.is_committed, found.ends_at = True, self.now + self.marker_delay
            if not self.marker_delay:
                self._mark(found, commit=True)
        return SimpleNamespace(error_code=code)

    def _on_ListOffsets(self, request: Any, code: int) -> Any:  # noqa: N802
        offset = self._stable() if request.isolation_level else self._end
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=code, offset=offset)])])

    def _on_Fetch(self, request: Any, code: int) -> Any:  # noqa: N802
        position, data = request.topics[0].partitions[0].fetch_offset, b""
        for base, batch in self._log:
            if base + DefaultRecordBatch(batch).last_offset_delta >= position and base < self._stable():
                if data and len(data) + len(batch) > self.fetch_bytes:
                    break
                data += batch
        aborted = [SimpleNamespace(first_offset=first, producer_id=producer) for first, producer in self._aborted]
        partition = SimpleNamespace(
            error_code=code, records=data, aborted_transactions=aborted, last_stable_offset=self._stable()
        )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[partition])])


def _build(producer_id: int, epoch: int, sequence: int, records: list[tuple[bytes, bytes]]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, True, producer_id, epoch, sequence, 1 << 30)
    for number, (key, value) in enumerate(records):
        builder.append(number, 0, key, value, [])
    return bytes(builder.build())
