"""What a controller has made of one topic, as an adapter sees it: leaders, ISRs, replicas on the move.

A plan needs none of this; ``describe`` does. ``lifecycle`` says what it means.

What is: the brokers, topics and records that one cluster holds, as plain values.

Made by an adapter (ZooKeeper, a snapshot, memory), read by ``plan``. Nothing here knows where the values came from: an
``identity`` tells two topics of one name apart (for ZooKeeper it is the ``czxid``), and two flags say what the adapter
concluded from transaction ids (whether our record still counts, and whether the config was changed after it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.types import Broker, KafkaVersion, Replicas
from topiarist.text import printable, shorten_list

NO_LEADER, LEADER_DURING_DELETE = -1, -2
"""What stands in place of a leader's id: there is none; the controller is deleting the topic."""


class PartitionState(NamedTuple):
    """What the controller and the leader have written of one partition.

    ``leader`` is a broker's id, ``NO_LEADER`` or ``DURING_DELETION``; ``isr`` are the in-sync replicas. ``recovering``:
    the leader came by an unclean election and has not finished with it.
    """

    leader: int
    isr: Replicas
    leader_epoch: int = 0
    controller_epoch: int = 0
    recovering: bool = False


class Reassignment(NamedTuple):
    """The replicas that a reassignment adds to a partition and takes from it, in the order that Kafka gives them."""

    adding: Replicas = ()
    removing: Replicas = ()


NO_REASSIGNMENT = Reassignment()


@dataclass(frozen=True, slots=True)
class TopicInspection:
    """One topic at a moment.

    ``identity`` and ``assignment`` (replica lists by partition) are None and empty where the topic cannot be read.
    ``states`` has the partitions that the controller has taken over, also such as the assignment does not have;
    ``faults`` those whose state cannot be read, ``odd`` what else is not as Kafka would write it. ``requested`` are the
    replica lists that a reassignment request asks for. ``known`` is false if the states may not be read.
    """

    identity: int | None
    assignment: Mapping[int, Replicas]
    states: Mapping[int, PartitionState] = field(default_factory=dict)
    partition_errors: Mapping[int, ReadError] = field(default_factory=dict)
    other_errors: tuple[ReadError, ...] = ()
    reassignments: Mapping[int, Reassignment] = field(default_factory=dict)
    requested_replicas: Mapping[int, Replicas] = field(default_factory=dict)
    topic_id: str | None = None
    states_readable: bool = True


def is_same_topic(state: ClusterState, name: str, inspection: TopicInspection | None) -> bool:
    """Whether an inspection is of the topic that was read: many reads are no snapshot, and topics come and grow."""
    topic = state.topics.get(name)
    if inspection is None or name in state.topic_errors:
        return True
    if topic is None or topic.identity != inspection.identity:
        return topic is None and inspection.identity is None
    return dict(zip(topic.partition_ids, topic.replicas, strict=True)) == dict(inspection.assignment)


def find_replication_factors(topic: TopicState) -> set[int]:
    """The replication factors that a topic has, by which another one is found; empty if none can be told.

    A partition without replicas is a fault of its own, and one under reassignment has some for a while only.
    """
    if not topic.reassigning_partitions:
        return set(map(len, topic.replicas)) - {0}
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return {len(replicas) for partition, replicas in pairs if partition not in topic.reassigning_partitions} - {0}


@dataclass(frozen=True, slots=True)
class AppliedSpec:
    """What a spec asked for when its topic last was as asked: a record's witness of changes that others make later.

    ``config`` has keys and values, sorted, each value as ``witness.noted`` has it; ``partitions`` None: no number.
    """

    partitions: int | None = None
    config: tuple[tuple[str, str], ...] = ()
    remove_unmanaged: bool = False


@dataclass(frozen=True, slots=True)
class OwnershipRecord:
    """Our own note beside a topic: who owns it, and which config keys we set (sorted).

    ``absent`` marks the tombstone that a deletion of ours leaves. ``applied`` is None if it is not known: its keys are
    among ``config``.
    """

    owner: str
    config_keys: tuple[str, ...] = ()
    deleted: bool = False
    applied: AppliedSpec | None = None


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
    reassigning_partitions: tuple[int, ...] = ()
    record: OwnershipRecord | None = None
    record_valid: bool = False
    modified_externally: bool = False
    unknown_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.partition_ids and self.replicas:
            object.__setattr__(self, "partition_ids", range(len(self.replicas)))

    @property
    def has_contiguous_partitions(self) -> bool:
        """Whether the partition ids are exactly 0 to n-1."""
        ids, expected = self.partition_ids, range(len(self.replicas))
        return ids == expected or (not isinstance(ids, range) and list(ids) == list(expected))

    @property
    def valid_record(self) -> OwnershipRecord | None:
        """The record, if there is one and it belongs to this very topic."""
        return self.record if self.record_valid else None


class DeletionRecord(NamedTuple):
    """Whose deletion of a topic left it, and when, in ms since the epoch by the cluster's own clock."""

    owner: str
    written_at_ms: int


class ReadError(NamedTuple):
    """Something on the cluster that could not be read as Kafka would: where it stands and why."""

    path: str
    message: str


class Freeze(NamedTuple):
    """That somebody has frozen a cluster: why, who, and since when; empty where that was not said."""

    reason: str
    by: str = ""
    since: str = ""

    def __str__(self) -> str:
        by, since = self.by and f" by {printable(self.by, 100)}", self.since and f" since {printable(self.since)}"
        return f"frozen{by}{since}: {printable(self.reason, 300) or 'no reason given'}"


@dataclass(frozen=True, slots=True)
class WriteBlock:
    """Whether anything may be written to this cluster, and if not, why (``reason`` None: open)."""

    reason: Reason | None = None
    message: str = ""

    @property
    def summary(self) -> str:
        """Return why nothing may be written, in a few words: ``frozen by NAME since TIME``."""
        if self.reason in _SUMMARIES:
            return _SUMMARIES[self.reason]
        return self.message.partition(": ")[0].removeprefix("the cluster is ") or ("closed" if self.reason else "")


_SUMMARIES = {
    Reason.KRAFT_MIGRATION: "a migration to KRaft has begun",
    Reason.NO_CONTROLLER: "there is no controller",
}


@dataclass(frozen=True, slots=True)
class ListSizes:
    """How full the lists are that brokers must be able to read: bytes of a reply, out of ``limit`` bytes."""

    topics_bytes: int = 0
    notifications_bytes: int = 0
    max_bytes: int = 1_048_575


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
    chroot: str = ""
    controller: int | None = None
    controller_epoch: int = 0
    write_block: WriteBlock = WriteBlock()
    pending_deletions: frozenset[str] = frozenset()
    reassigning_topics: frozenset[str] = frozenset()
    dangling_records: Mapping[str, OwnershipRecord] = field(default_factory=dict)
    topic_errors: Mapping[str, ReadError] = field(default_factory=dict)
    broker_defaults: Mapping[str, str] = field(default_factory=dict)
    min_version: KafkaVersion = (2, 4)
    list_sizes: ListSizes = ListSizes()
    warnings: tuple[str, ...] = ()
    deletion_records: Mapping[str, DeletionRecord] = field(default_factory=dict, compare=False)
    assigns_topic_ids: bool = False
    stale_reassignments: frozenset[str] = frozenset()
    next_identity: int = 1

    def record_of(self, topic: str) -> OwnershipRecord | None:
        """Return the ownership record of a topic, valid or not, whether the topic exists or not."""
        found = self.topics.get(topic)
        return found.record if found else self.dangling_records.get(topic)


def describe_unequal_replication_factors(topic: TopicState) -> str:
    """Return the words for a topic whose partitions have different numbers of replicas; empty if they have one number.

    Counts as ``widths`` does.
    """
    found: dict[int, list[int]] = {}
    for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True):
        if replicas and partition not in topic.reassigning_partitions:
            found.setdefault(len(replicas), []).append(partition)
    if len(found) < 2:
        return ""
    *fewer, (usual, others) = sorted(found.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [f"{width} in partition{'s' if len(ids) > 1 else ''} {shorten_list(ids)}" for width, ids in fewer]
    rest = f"the {len(others):,} others" if len(others) > 1 else f"partition {others[0]}"
    return f"partitions have different numbers of replicas: {', '.join(parts)}, and {usual} in {rest}"
