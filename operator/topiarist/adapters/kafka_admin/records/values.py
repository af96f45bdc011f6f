"""The values that the topic of records holds, decoded."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord
from topiarist.model.state import Freeze, OwnershipRecord, ReadError


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


class Lock(NamedTuple):
    """The lock: ``run`` empty means free. ``number`` rises by one with every commit of any run.

    ``lease`` is in seconds; ``leader_epoch`` is that of the controller at the intents, None if it is not known.
    """

    run: str = ""
    owner: str = ""
    host: str = ""
    lease: float = 0
    number: int = 0
    leader_epoch: int | None = None


class Claim(NamedTuple):
    """The claim of a run that is about to take the lock, written ``attempt`` times. ``lease`` is in seconds."""

    run: str
    owner: str
    host: str
    lease: float
    attempt: int


class Meta(NamedTuple):
    """The cluster and the topic that the records were written in."""

    cluster_id: str
    topic_id: str


class Moved(NamedTuple):
    """The origin of records that came from ZooKeeper; ``skipped`` are topics with a record that was not valid."""

    chroot: str
    total: int
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
