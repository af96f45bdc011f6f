"""The parts of the session and of the records that moves use, so that tests can replace them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from topiarist.adapters.kafka_admin.connection.connection import Connection, Message
from topiarist.adapters.kafka_admin.records.values import TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord


class MoveSession(Protocol):
    """The connections that moves need."""

    def any_broker(self) -> Connection:
        """Return the connection for reading."""

    def broker(self, broker_id: int) -> Connection:
        """Return the connection to one broker, which alone takes its own configs. Raises ``Disconnected``."""

    def controller(self) -> Connection:
        """Return the connection to the broker that takes Admin requests."""

    def forget_controller(self) -> None:
        """Find the controller anew with the next call of ``controller``."""

    def read_metadata(self, names: Iterable[str] | None = None, ids: Iterable[uuid.UUID] = ()) -> Message:
        """Return the metadata of these topics."""


class MoveRecords(NamedTuple):
    """The records that moves depend on: those of topics by name, and that of the moves in flight."""

    topics: Mapping[str, TopicRecord]
    batch: BatchRecord | None


class MoveRecordsRun(Protocol):
    """A run over the records of topiarist, taken for each write and given up while brokers copy."""

    def read(self) -> MoveRecords:
        """Return the records without the lock; they may be old by some 50 ms."""

    def acquire(self, stop: Callable[[], bool]) -> MoveRecords | None:
        """Wait for the lock and read the records; None if ``stop()`` became true before."""

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Write the record of the moves in flight (None: delete it), and keep the lock or give it up."""

    def require_fence(self) -> None:
        """Raise ``TopiaristError`` if this run may send nothing any more. Called directly before each request."""

    def release(self) -> None:
        """Give up the lock, if it is held."""


class _AllRecords(Protocol):
    @property
    def topics(self) -> Mapping[str, TopicRecord]: ...

    @property
    def moves(self) -> BatchRecord | None: ...


class _RecordsRun(Protocol):
    def read(self) -> _AllRecords: ...

    def acquire(self, stop: Callable[[], bool]) -> _AllRecords: ...

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None: ...

    def require_fence(self) -> None: ...

    def release(self) -> None: ...


class RunForMoves:
    """A run over all records, as moves use it: a stop while it waits for the lock is no error."""

    def __init__(self, run: _RecordsRun) -> None:
        self._run = run
        self.commit_batch = run.commit_batch
        self.require_fence = run.require_fence
        self.release = run.release

    def read(self) -> MoveRecords:
        """Return the records without the lock."""
        found = self._run.read()
        return MoveRecords(found.topics, found.moves)

    def acquire(self, stop: Callable[[], bool]) -> MoveRecords | None:
        """Wait for the lock and read the records; None if ``stop()`` became true before."""
        if stop():
            return None
        try:
            found = self._run.acquire(stop)
        except TopiaristError as error:
            if error.reason is Reason.LOCKED and stop():
                return None
            raise
        return MoveRecords(found.topics, found.moves)
