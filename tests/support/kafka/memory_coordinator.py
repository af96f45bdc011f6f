"""The coordinator of transactional ids in memory: producer epochs, the state of each transaction, its timeout."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum, auto

from support.kafka.requests import Epoch

NONE, INVALID_REQUEST, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE = 0, 42, 47, 48
INVALID_PRODUCER_ID_MAPPING, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS = 49, 50, 51
PRODUCER_FENCED, TRANSACTION_ABORTABLE = 90, 120

MAX_TIMEOUT_MS = 900_000
"""The brokers' default of ``transaction.max.timeout.ms``."""

EXPIRY_INTERVAL_S = 10.0
"""Seconds between two searches for transactions that are over their timeout: Kafka's default."""

_NO_EPOCH = Epoch()
_FIRST_ID, _IDS_OF_A_BLOCK = 1000, 1000


class _State(Enum):
    EMPTY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()
    COMMITTED = auto()
    ABORTED = auto()


_ENDING = {_State.COMMITTING: _State.COMMITTED, _State.ABORTING: _State.ABORTED}


@dataclass
class _Transaction:
    """One transactional id. ``last_epoch`` is the epoch that a repeated request for the current one names."""

    epoch: Epoch
    timeout_s: float
    last_epoch: int = -1
    state: _State = _State.EMPTY
    topics: set[str] = field(default_factory=set)
    began_at: float = 0.0
    marked_at: float = math.inf


class MemoryCoordinator:
    """The coordinator. ``write_marker`` ends a transaction in a topic, and returns False as long as the topic takes
    no batch; every method takes the time as ``now``.

    Markers are written ``marker_delay`` seconds after a transaction has ended. With ``keeps_last_epoch``, a
    producer gets the new epoch for its old one after an abort by the coordinator, as from Kafka 4.0 on.
    """

    def __init__(self, write_marker: Callable[[str, Epoch, bool], bool], *, keeps_last_epoch: bool) -> None:
        self.marker_delay = 0.0
        self._mark = write_marker
        self._keeps_last_epoch = keeps_last_epoch
        self._transactions: dict[str, _Transaction] = {}
        self._next_id = _FIRST_ID
        self._expired_at = 0.0

    def init(self, key: str, asked: Epoch, timeout_ms: int, now: float) -> tuple[int, Epoch]:
        """Return the code and the epoch of a producer that begins, or goes on with the epoch that it has."""
        if not key:
            return INVALID_REQUEST, _NO_EPOCH
        if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            return INVALID_TRANSACTION_TIMEOUT, _NO_EPOCH
        found = self._transactions.get(key)
        if found is None:  # also for a producer with an epoch that is not known any more
            found = self._transactions[key] = _Transaction(Epoch(self._next_id, 0), timeout_ms / 1000)
            self._next_id += 1
            return NONE, found.epoch
        if asked.id not in (-1, found.epoch.id):
            return PRODUCER_FENCED, _NO_EPOCH
        if found.state in _ENDING:
            return CONCURRENT_TRANSACTIONS, _NO_EPOCH
        if found.state is _State.OPEN:  # whatever the epoch that was asked with
            self._fence(found, now)
            return CONCURRENT_TRANSACTIONS, _NO_EPOCH
        if asked.id >= 0 and asked.number == found.last_epoch != found.epoch.number:
            return NONE, found.epoch
        if asked.id >= 0 and asked.number != found.epoch.number:
            return PRODUCER_FENCED, _NO_EPOCH
        found.last_epoch, found.state, found.timeout_s = asked.number, _State.EMPTY, timeout_ms / 1000
        found.epoch = Epoch(found.epoch.id, found.epoch.number + 1)
        return NONE, found.epoch

    def add(self, key: str, epoch: Epoch, topics: Collection[str], now: float) -> int:
        """Add topics to the transaction of a producer, and begin it if it has not begun; return the code."""
        found = self._transactions.get(key)
        if code := _check(found, epoch):
            return code
        assert found
        if found.state in _ENDING:
            return CONCURRENT_TRANSACTIONS
        if found.state is not _State.OPEN:
            found.state, found.topics, found.began_at = _State.OPEN, set(), now
        found.topics |= {*topics}
        return NONE

    def end(self, key: str, epoch: Epoch, now: float, *, commit: bool) -> int:
        """End the transaction of a producer; return the code. The same request once more gets the same answer."""
        found = self._transactions.get(key)
        if code := _check(found, epoch):
            return code
        assert found
        if found.state in _ENDING:
            return CONCURRENT_TRANSACTIONS
        if found.state is not _State.OPEN:
            return NONE if found.state is (_State.COMMITTED if commit else _State.ABORTED) else INVALID_TXN_STATE
        found.state, found.marked_at = _State.COMMITTING if commit else _State.ABORTING, now + self.marker_delay
        self.advance(now)
        return NONE

    def verify(self, key: str, epoch: Epoch, topic: str) -> int:
        """Return the code for the first batch of a transaction in a topic."""
        found = self._transactions.get(key)
        code = _check(found, epoch)
        if code == PRODUCER_FENCED:
            return INVALID_PRODUCER_EPOCH
        if not code and (found is None or found.state is not _State.OPEN or topic not in found.topics):
            return TRANSACTION_ABORTABLE
        return code

    def advance(self, now: float) -> None:
        """Write the markers that are due, and abort transactions that are over their timeout."""
        if now >= self._expired_at + EXPIRY_INTERVAL_S:
            self._expired_at = now // EXPIRY_INTERVAL_S * EXPIRY_INTERVAL_S
            for each in self._transactions.values():
                if each.state is _State.OPEN and each.began_at + each.timeout_s <= self._expired_at:
                    self._fence(each, now)
        for each in self._transactions.values():
            if each.state in _ENDING and each.marked_at <= now:
                is_commit = each.state is _State.COMMITTING
                each.topics = {topic for topic in sorted(each.topics) if not self._mark(topic, each.epoch, is_commit)}
                if not each.topics:
                    each.state = _ENDING[each.state]

    def forget(self) -> None:
        """Forget all transactional ids, as after a loss of ``__transaction_state``."""
        self._transactions.clear()
        self._next_id += _IDS_OF_A_BLOCK

    def _fence(self, transaction: _Transaction, now: float) -> None:
        """Abort an open transaction with an epoch that no producer has."""
        epoch = transaction.epoch
        transaction.last_epoch = epoch.number if self._keeps_last_epoch else -1
        transaction.epoch = Epoch(epoch.id, epoch.number + 1)
        transaction.state, transaction.marked_at = _State.ABORTING, now + self.marker_delay
        self.advance(now)


def _check(found: _Transaction | None, epoch: Epoch) -> int:
    if found is None or found.epoch.id != epoch.id:
        return INVALID_PRODUCER_ID_MAPPING
    return NONE if found.epoch.number == epoch.number else PRODUCER_FENCED
