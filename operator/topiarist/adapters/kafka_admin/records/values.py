"""The values that the topic of records holds, decoded, and the port of the runs that read and write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta as Limit
from msgspec import Struct

from topiarist.adapters.own_values import NonEmptyText, Number
from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord
from topiarist.model.state import Freeze, OwnershipRecord, ReadError

Lease = Annotated[int, Limit(ge=0, le=24 * 3600 * 1000)]
"""A lease in ms: a day at most, so that no value of another client makes a run wait for ever."""


class IntentKind(str, Enum):
    """The kind of a change that is under way. GONE is a creation that was given up and may still be carried out."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    GONE = "gone"


class Intent(NamedTuple):
    """A change of a topic that a chunk is about to make, as another run needs it to find out what was made.

    ``after`` is the ownership record after the change. ``replicas`` are the lists of the new partitions: all of a
    creation, those from partition ``first_partition`` on of a growth. ``config`` has the keys that are set, and with
    None those that are removed.
    """

    kind: IntentKind
    after: OwnershipRecord | None
    replicas: tuple[Replicas, ...] = ()
    first_partition: int = 0
    config: Mapping[str, str | None] = {}


class TopicRecord(NamedTuple):
    """The record of one topic: its ownership record, valid if ``topic_id`` is the id of the topic.

    While a chunk is under way, ``record`` and ``topic_id`` are those before the chunk (None: there was no record, or no
    topic), and ``intent`` is its change.
    """

    record: OwnershipRecord | None
    topic_id: str | None = None
    intent: Intent | None = None


class StoredValue(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A value that is stored as it is, all its fields in their order; ``own_values`` encodes and decodes it."""


class Lock(StoredValue, frozen=True, rename={"number": "n", "lease_ms": "leaseMs", "leader_epoch": "leaderEpoch"}):
    """The lock: ``run`` None means free. ``number`` rises by one with every commit of any run.

    ``leader_epoch`` is that of the controller at the intents, None if it is not known.
    """

    run: str | None = None
    owner: str = ""
    host: str = ""
    lease_ms: Lease = 0
    number: Number = 0
    leader_epoch: Number | None = None


class Claim(StoredValue, frozen=True):
    """The claim of a run that is about to take the lock, written ``attempt`` times."""

    run: NonEmptyText
    owner: str
    host: str
    lease_ms: Lease
    attempt: Number


class Meta(StoredValue, frozen=True):
    """The cluster and the topic that the records were written in."""

    cluster_id: str
    topic_id: str


class Moved(StoredValue, frozen=True, rename={"total": "count"}):
    """The origin of records that came from ZooKeeper; ``skipped`` are topics with a record that was not valid."""

    chroot: str
    total: Number
    skipped: tuple[str, ...] = ()


class Records(NamedTuple):
    """All records. ``errors`` has the topics with a record that cannot be read; such a record is never overwritten.

    ``claims`` are in the order in which they were written.
    """

    topics: Mapping[str, TopicRecord] = {}
    lock: Lock = Lock()
    gate: Freeze | None = None
    meta: Meta | None = None
    moved: Moved | None = None
    moves: BatchRecord | None = None
    errors: Mapping[str, ReadError] = {}
    claims: tuple[Claim, ...] = ()

    @property
    def number(self) -> int:
        """Return the number of the last commit; 0 before the first."""
        return self.lock.number


class RecordsStore(Protocol):
    """The port of a run to the records: what writes topics and moves may use of them.

    Each method raises ``TopiaristError``, retryable if another run took over. After such an error every further call
    raises it too. After a commit that does not hold the lock, the run has to acquire the records again.
    """

    def read(self) -> Records:
        """Return the records without the lock; they may be old by some 50 ms."""

    def acquire(self, stop: Callable[[], bool]) -> Records:
        """Wait for other runs, fence the one before, read all records, check the freeze, resolve intents."""

    def commit(self, changes: Mapping[str, TopicRecord | None], *, hold: bool) -> None:
        """Write records in one transaction (None: delete); the lock is held afterwards if ``hold`` is true."""

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Write the record of the moves in flight (None: delete it), and keep the lock or give it up."""

    def keep(self) -> None:
        """Renew the time for which other runs wait, if a third of it is over."""

    def require_fence(self) -> None:
        """Return if this run holds the lock, its lease has time left, and no other run has taken over.

        Called directly before each request.
        """

    def release(self) -> None:
        """Let other runs begin, if this one has acquired the records."""
