"""What is: the brokers, topics and records that one cluster holds, as plain values.

Made by an adapter (ZooKeeper, a snapshot, memory), read by ``plan``. Nothing here knows where the values came from: an
``identity`` tells two topics of one name apart (for ZooKeeper it is the ``czxid``), and two flags say what the adapter
concluded from transaction ids (whether our record still counts, and whether the config was changed after it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from topiarist.core.quoting import shown
from topiarist.errors import Reason

Replicas = tuple[int, ...]
"""Broker ids of one partition; the first is the preferred leader."""

Release = tuple[int, int]
"""A Kafka release: ``(3, 9)``."""


class Broker(NamedTuple):
    """A registered broker. ``rack`` is None where it has none; the empty string is a rack."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What a spec asked for when its topic last was as asked: a record's witness of changes that others make later.

    ``config`` has keys and values, sorted, each value as ``witness.noted`` has it; ``partitions`` None: no number.
    """

    partitions: int | None = None
    config: tuple[tuple[str, str], ...] = ()
    remove_unmanaged: bool = False


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """Our own note beside a topic: who owns it, and which config keys we set (sorted).

    ``absent`` marks the tombstone that a deletion of ours leaves. ``applied`` is None if it is not known: its keys are
    among ``config``.
    """

    owner: str
    config: tuple[str, ...] = ()
    absent: bool = False
    applied: Applied | None = None


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic as a cluster holds it.

    ``replicas`` lists the partitions in ascending order of their ids, ``partition_ids`` has those ids (a ``range``
    from 0 unless there are holes). ``adding`` and ``removing`` are the ids of partitions under reassignment.
    ``config`` has the overrides only, raw. ``record`` is ours, or None; it counts only if ``record_valid`` (it may
    belong to an earlier topic of the same name). ``unknown_fields`` are top-level fields of the topic that no Kafka
    release writes.
    """

    name: str
    identity: int
    replicas: tuple[Replicas, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    partition_ids: Sequence[int] = ()
    topic_id: str | None = None
    reassigning: tuple[int, ...] = ()
    record: TopicRecord | None = None
    record_valid: bool = False
    changed_outside: bool = False
    unknown_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.partition_ids and self.replicas:
            object.__setattr__(self, "partition_ids", range(len(self.replicas)))

    @property
    def whole(self) -> bool:
        """Whether the partition ids are exactly 0 to n-1."""
        ids, expected = self.partition_ids, range(len(self.replicas))
        return ids == expected or (not isinstance(ids, range) and list(ids) == list(expected))

    @property
    def valid_record(self) -> TopicRecord | None:
        """The record, if there is one and it belongs to this very topic."""
        return self.record if self.record_valid else None


class Tombstone(NamedTuple):
    """Whose deletion of a topic left it, and when, in ms since the epoch by the cluster's own clock."""

    owner: str
    written: int


class Fault(NamedTuple):
    """Something on the cluster that could not be read as Kafka would: where it stands and why."""

    where: str
    why: str


class Freeze(NamedTuple):
    """That somebody has frozen a cluster: why, who, and since when; empty where that was not said."""

    reason: str
    by: str = ""
    since: str = ""

    def __str__(self) -> str:
        by, since = self.by and f" by {shown(self.by, 100)}", self.since and f" since {shown(self.since)}"
        return f"frozen{by}{since}: {shown(self.reason, 300) or 'no reason given'}"


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether anything may be written to this cluster, and if not, why (``reason`` None: open)."""

    reason: Reason | None = None
    message: str = ""

    @property
    def brief(self) -> str:
        """Return why nothing may be written, in a few words: ``frozen by NAME since TIME``."""
        if self.reason in _BRIEF:
            return _BRIEF[self.reason]
        return self.message.partition(": ")[0].removeprefix("the cluster is ") or ("closed" if self.reason else "")


_BRIEF = {
    Reason.KRAFT_MIGRATION: "a migration to KRaft has begun",
    Reason.NO_CONTROLLER: "there is no controller",
}


@dataclass(frozen=True, slots=True)
class Room:
    """How full the lists are that brokers must be able to read: bytes of a reply, out of ``limit`` bytes."""

    topics: int = 0
    notifications: int = 0
    limit: int = 1_048_575


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster, read once.

    ``brokers`` are sorted by id. ``deleting`` are the topics marked for deletion, ``reassigning`` those that a
    reassignment request names. ``records`` are records without a topic. ``faults`` has the topics that exist but
    could not be read; they are not in ``topics``. ``tombstones`` has those among all records that deletions left, with
    what no plan is made from; a snapshot has none.
    ``broker_defaults`` are the dynamic cluster-wide broker settings, under broker names. ``release_at_least`` is the
    oldest Kafka release that fits what was seen. ``gives_ids``: its controller gives topics ids, since one has an id.
    ``stale_requests`` are those of ``reassigning`` that no longer mean the topic of that name (``requested``).
    ``next_identity`` is for ``evolve`` alone: what a newly created topic
    gets.
    """

    cluster_id: str
    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    location: str = ""
    controller: int | None = None
    controller_epoch: int = 0
    gate: Gate = Gate()
    deleting: frozenset[str] = frozenset()
    reassigning: frozenset[str] = frozenset()
    records: Mapping[str, TopicRecord] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    broker_defaults: Mapping[str, str] = field(default_factory=dict)
    release_at_least: Release = (2, 4)
    room: Room = Room()
    warnings: tuple[str, ...] = ()
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict, compare=False)
    gives_ids: bool = False
    stale_requests: frozenset[str] = frozenset()
    next_identity: int = 1

    def record_of(self, topic: str) -> TopicRecord | None:
        """Return the ownership record of a topic, valid or not, whether the topic exists or not."""
        found = self.topics.get(topic)
        return found.record if found else self.records.get(topic)
