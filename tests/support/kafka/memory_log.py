"""The log of one partition in memory, with the checks that its leader makes of each batch and the markers in it."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatch

from support.kafka.requests import Epoch, build_batch
from topiarist.adapters.kafka_admin.protocol.batches import has_valid_checksum

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD = 0, 1, 2, 10, 87
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 47
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE = 74, 75, 78

_NO_PRODUCER = _NO_EPOCH = -1

_KEPT_BATCHES = 5
"""The last batches of a producer that the leader recognizes when they are sent again."""


class _Batch(NamedTuple):
    """A batch with its first and last offset."""

    first: int
    last: int
    data: bytes


class AbortedTransaction(NamedTuple):
    """The producer of an aborted transaction, its first offset, and that of its marker."""

    producer_id: int
    first: int
    last: int


class Fetched(NamedTuple):
    """An answer to a fetch."""

    code: int
    data: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()


@dataclass
class _Producer:
    """What the leader keeps of a producer. ``first_offset`` is that of its open transaction."""

    epoch: int
    next_sequence: int | None = None
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT_BATCHES))
    first_offset: int | None = None

    def renew(self, epoch: int) -> None:
        """Begin a newer epoch, with sequence numbers from 0."""
        if epoch > self.epoch:
            self.epoch, self.next_sequence = epoch, 0
            self.recent.clear()


class MemoryLog:
    """The log of one partition. ``end`` is the offset after the last record; all replicas have all records.

    ``known_end`` is what a leader that was just elected takes for the end (None: the right one).
    """

    def __init__(self) -> None:
        self.end = 0
        self.leader_epoch = 0
        self.known_end: int | None = None
        self._batches: list[_Batch] = []
        self._aborted: list[AbortedTransaction] = []
        self._producers: dict[int, _Producer] = {}

    @property
    def stable(self) -> int:
        """Return the first offset that an open transaction leaves undecided."""
        opened = [each.first_offset for each in self._producers.values() if each.first_offset is not None]
        return min([self.end, *opened])

    def check_epoch(self, epoch: int) -> int:
        """Return the code for a request to the leader of this epoch (-1: of any)."""
        if epoch in (_NO_EPOCH, self.leader_epoch):
            return NONE
        return FENCED_LEADER_EPOCH if epoch < self.leader_epoch else UNKNOWN_LEADER_EPOCH

    def elect(self, known_end: int | None = None) -> None:
        """Let another replica lead, which takes ``known_end`` for the end until it is asked for it."""
        self.leader_epoch += 1
        self.known_end = known_end

    def is_open(self, epoch: Epoch) -> bool:
        """Return whether this producer has written into an open transaction."""
        found = self._producers.get(epoch.id)
        return found is not None and found.first_offset is not None and found.epoch == epoch.number

    def append(self, data: bytes, *, max_bytes: int, needs_keys: bool) -> tuple[int, int]:
        """Append a batch; return the error code and its offset. That of a transaction is not appended twice."""
        if not has_valid_checksum(data):
            return CORRUPT_MESSAGE, -1
        batch = DefaultRecordBatch(data)
        if needs_keys and any(record.key is None for record in batch):
            return INVALID_RECORD, -1
        if len(data) > max_bytes:
            return MESSAGE_TOO_LARGE, -1
        sequence, count = batch.base_sequence, batch.last_offset_delta + 1
        if batch.producer_id == _NO_PRODUCER:
            return NONE, self._append(data, count)
        found = self._producers.setdefault(batch.producer_id, _Producer(batch.producer_epoch))
        if batch.producer_epoch < found.epoch:
            return INVALID_PRODUCER_EPOCH, -1
        if batch.producer_epoch == found.epoch:
            for first, length, offset in found.recent:
                if (first, length) == (sequence, count):
                    return NONE, offset
        wanted = 0 if batch.producer_epoch > found.epoch else found.next_sequence
        if wanted not in (None, sequence):
            return OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        found.renew(batch.producer_epoch)
        if found.first_offset is None:
            found.first_offset = self.end
        found.next_sequence = sequence + count
        found.recent.append((sequence, count, self.end))
        return NONE, self._append(data, count)

    def mark(self, epoch: Epoch, *, commit: bool) -> None:
        """Append the marker with which the coordinator ends a transaction."""
        found = self._producers.setdefault(epoch.id, _Producer(epoch.number))
        found.renew(epoch.number)
        if found.first_offset is not None and not commit:
            self._aborted.append(AbortedTransaction(epoch.id, found.first_offset, self.end))
        found.first_offset = None
        self._append(build_batch(epoch, -1, [(struct.pack(">hh", 0, int(commit)), b"\0" * 6)], control=True), 1)

    def fetch(self, position: int, max_bytes: int, *, is_committed: bool) -> Fetched:
        """Return whole batches from an offset on: at least one, and no more than ``max_bytes`` otherwise.

        With ``is_committed``, those before ``stable``, and the aborted transactions among them.
        """
        if not 0 <= position <= self.end:
            return Fetched(OFFSET_OUT_OF_RANGE)
        limit = self.end if self.known_end is None else self.known_end
        limit, data, last = min(limit, self.stable) if is_committed else limit, b"", position
        for batch in self._batches:
            if batch.last >= position and batch.first < limit:
                if data and len(data) + len(batch.data) > max_bytes:
                    break
                data, last = data + batch.data, batch.last
        overlapping = (each for each in self._aborted if each.last >= position and each.first <= last)
        return Fetched(NONE, data, tuple(overlapping) if is_committed else ())

    def committed_values(self, key: bytes) -> list[bytes]:
        """Return all values of a key in committed transactions, in their order, as far as they are not compacted."""
        values = []
        for each in self._batches:
            batch = DefaultRecordBatch(each.data)
            is_aborted = any(
                aborted.producer_id == batch.producer_id and aborted.first <= each.first < aborted.last
                for aborted in self._aborted
            )
            if each.first < self.stable and not batch.is_control_batch and not is_aborted:
                values += [record.value for record in batch if record.key == key]
        return values

    def compact(self) -> None:
        """Remove all batches with nothing but old values and tombstones, as Kafka does in time."""
        newest: dict[bytes, int] = {}
        for each in self._batches:
            batch = DefaultRecordBatch(each.data)
            if not batch.is_control_batch:
                newest.update({record.key: each.first for record in batch})
        self._batches = [
            each
            for each in self._batches
            if (batch := DefaultRecordBatch(each.data)).is_control_batch
            or any(record.value is not None and newest[record.key] == each.first for record in batch)
        ]

    def _append(self, data: bytes, count: int) -> int:
        first = self.end
        self._batches.append(_Batch(first, first + count - 1, struct.pack(">q", first) + data[8:]))
        self.end += count
        return first


def producer_of(data: bytes) -> Epoch:
    """Return the producer of a batch."""
    batch = DefaultRecordBatch(data)
    return Epoch(batch.producer_id, batch.producer_epoch)
