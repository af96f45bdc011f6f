"""The actual state of one cluster as values: brokers, topics, ownership records, partition states.

An adapter (a cluster, a snapshot, memory) builds these values and ``planning`` reads them. An ``identity`` is opaque
text that distinguishes two topics of the same name: only equality has a meaning. Leaders, ISRs and reassignments of one
topic are in a ``TopicInspection``, which only ``describe`` and ``list`` need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import force_setattr

from topiarist.errors import Reason
from topiarist.kafka.types import (
    MIN_KAFKA_VERSION,
    Broker,
    ClusterMode,
    KafkaVersion,
    KnownConfig,
    Replicas,
    count_replicas,
)
from topiarist.model.moves import BatchRecord, RequestedReassignment
from topiarist.model.usage import Evidence, TopicUsage
from topiarist.text import format_count, printable, shorten_list

# The capabilities of a cluster as one value: an adapter finds them out once, and all other code asks it.
#
# Apache Kafka can do all of it. Services and other brokers answer a part of Kafka's protocol, or carry out a part of
# what they answer. A planner, a filter, a writer or a text never asks for the number of a request: it asks here.
# ``why`` is for people.


class Support(NamedTuple):
    """The support of one capability by a cluster; None: only a try shows it.

    ``why`` says how that is known, and what is missing; empty if nothing is. With ``lacks_right`` the cluster can do
    it, and denies it to the user of this run.
    """

    is_given: bool | None = True
    why: str = ""
    lacks_right: bool = False

    @property
    def is_denied(self) -> bool:
        """Return whether the cluster certainly does not do it."""
        return self.is_given is False

    @property
    def is_missing(self) -> bool:
        """Return whether the cluster can do it for no user."""
        return self.is_denied and not self.lacks_right


GIVEN = Support()
UNKNOWN = Support(None)


class AllowedOperations(NamedTuple):
    """The operations that the brokers allow the user of this run, by their names in Kafka; None: they do not say.

    ``on_topics`` is by name and has the topics that the user may see. ``on_group`` is for any group.
    """

    on_cluster: Collection[str] | None
    on_topics: Mapping[str, Collection[str] | None]
    on_group: Collection[str] | None


class Capabilities(Struct, frozen=True):
    """The capabilities of one cluster, in the order in which people read them.

    The defaults are those of Apache Kafka, and of a cluster that is reached through ZooKeeper.
    """

    topic_ids: Support = GIVEN
    """Each topic has an id, which no later topic of its name has."""
    freshness: Support = GIVEN
    """Something proves that what was read is not old."""
    config_sources: Support = GIVEN
    """Answers about configs say which values a topic sets itself."""
    creation: Support = GIVEN
    """Topics are created."""
    replica_lists: Support = GIVEN
    """The replica lists of a creation are carried out as they are."""
    growth: Support = GIVEN
    """Partitions are added to topics."""
    growth_lists: Support = GIVEN
    """The replica lists of new partitions are carried out as they are."""
    config_changes: Support = GIVEN
    """Single config keys are set and removed, without the others."""
    deletion: Support = GIVEN
    """Topics are deleted."""
    deletion_by_id: Support = GIVEN
    """A deletion names the id of its topic, so that it never deletes a later one."""
    transactions: Support = GIVEN
    """Records are written in transactions, which fence an earlier run."""
    compaction: Support = GIVEN
    """A topic can keep the last record of each key for ever."""
    listed_reassignments: Support = GIVEN
    """Reassignments in progress are listed."""
    moves: Support = GIVEN
    """Replicas can be moved to other brokers, and their number changed."""
    elections: Support = GIVEN
    """The preferred leader of a partition can be elected."""
    throttles: Support = GIVEN
    """The rate at which brokers copy replicas can be limited."""
    quotas: Support = GIVEN
    """The brokers tell when a quota accepts more changes."""

    def items(self) -> Iterator[tuple[str, Support]]:
        """Yield the name of each capability with its support, in their order."""
        return ((name, getattr(self, name)) for name in self.__struct_fields__)


APACHE_KAFKA = Capabilities()


# The limits on what a cluster takes, as values: an adapter counts, ``planning`` compares.
#
# How much a cluster takes depends on the way to it, and so does what a change adds. A ``SizeLimit`` therefore has both,
# and the texts of its warning and its refusal. It is a plain value, so that a plan from a snapshot is that of the
# cluster. ``adapters.size_limits`` has the limits of each way, ``planning.planner`` enforces them.


class SizeScope(Enum):
    """The changes that share a limit."""

    CLUSTER = auto()
    """All changes of a plan, and what the cluster has already: ``SizeLimit.used``."""
    TOPIC = auto()
    """One topic: its partitions before a change, and those that the change adds."""
    CHANGE = auto()
    """One change alone."""


class SizeWeights(Struct, frozen=True):
    """The size that each part of a change adds, in the unit of the limit; 0 for a part that does not count."""

    new_topic: int = 0
    """Each topic that is created."""
    name_character: int = 0
    """Each character of the name of such a topic."""
    config_update: int = 0
    """Each update of the config of a topic that exists."""
    config: int = 0
    """Each config of a creation or an update."""
    partition: int = 0
    """Each new partition."""
    digit: int = 0
    """Each digit of the ids of a new partition and of its brokers."""
    separator: int = 0
    """Each broker of a new partition but the first."""


class SizeLimit(Struct, frozen=True):
    """A limit on a size that changes increase.

    ``what`` names the size, and ``maximum`` is the largest one that the cluster takes, in a unit that the texts name.
    A change that would use more than ``refused_share`` of it is refused with ``reason``, ``refusal`` and ``hint``.
    There is a ``warning`` above ``warned_share``; None if there is none. ``{used}`` and ``{maximum}`` in the texts
    stand for the numbers.
    """

    what: str
    maximum: int
    weights: SizeWeights
    refusal: str
    hint: str
    scope: SizeScope = SizeScope.CLUSTER
    used: int = 0
    refused_share: float = 1.0
    warned_share: float | None = None
    warning: str = ""
    reason: Reason = Reason.TOO_LARGE


NO_LEADER, LEADER_DURING_DELETE = -1, -2
"""Values of a leader id that name no broker: there is no leader; the controller is deleting the topic."""


class PartitionState(NamedTuple):
    """The state of one partition, as the controller and the leader wrote it.

    ``leader`` is a broker id, ``NO_LEADER`` or ``LEADER_DURING_DELETE``; ``isr`` are the in-sync replicas.
    ``recovering`` is true if the leader was elected uncleanly and its recovery has not finished.
    """

    leader: int
    isr: Replicas
    leader_epoch: int = 0
    controller_epoch: int = 0
    recovering: bool = False


class Reassignment(NamedTuple):
    """The replicas that a reassignment adds to a partition and removes from it, in Kafka's order."""

    adding: Replicas = ()
    removing: Replicas = ()


NO_REASSIGNMENT = Reassignment()


class TopicInspection(Struct, frozen=True):
    """The partitions of one topic at one moment.

    ``identity`` is None and ``assignment`` (replica lists by partition) is empty if the topic cannot be read.
    ``states`` has the partitions that the controller has initialized, including partitions that are not in the
    assignment. ``partition_errors`` has the partitions with an unreadable state, and ``other_errors`` everything else
    that Kafka would have written differently. ``reassignments`` are in progress; ``requested_replicas`` are the replica
    lists of a reassignment request. ``states_readable`` is false if topiarist may not read the states.
    """

    identity: str | None
    assignment: Mapping[int, Replicas]
    states: Mapping[int, PartitionState] = field(default_factory=dict)
    partition_errors: Mapping[int, ReadError] = field(default_factory=dict)
    other_errors: tuple[ReadError, ...] = ()
    reassignments: Mapping[int, Reassignment] = field(default_factory=dict)
    requested_replicas: Mapping[int, Replicas] = field(default_factory=dict)
    topic_id: str | None = None
    states_readable: bool = True


def is_same_topic(state: ClusterState, name: str, inspection: TopicInspection | None) -> bool:
    """Return whether an inspection, which is a separate read, belongs to the topic in ``state``.

    Returns True if there is no inspection, or if the topic cannot be read.
    """
    topic = state.topics.get(name)
    if inspection is None or name in state.topic_errors:
        return True
    if topic is None or topic.identity != inspection.identity:
        return topic is None and inspection.identity is None
    return dict(zip(topic.partition_ids, topic.replicas, strict=True)) == dict(inspection.assignment)


def find_replication_factors(topic: TopicState) -> set[int]:
    """Return the replication factors of a topic's partitions; empty if none can be determined.

    Skips partitions without replicas, which are a separate error, and partitions under reassignment, which have more
    replicas for a time.
    """
    if not topic.reassigning_partitions:
        return set(map(count_replicas, topic.replicas)) - {0}
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return {
        count_replicas(replicas) for partition, replicas in pairs if partition not in topic.reassigning_partitions
    } - {0}


class AppliedSpec(Struct, frozen=True):
    """The spec that a topic last matched, kept in its ownership record to detect external changes later.

    ``config`` has sorted pairs of key and value, each value as ``encode_value`` returns it. ``partitions`` is None if
    the spec gave no number.
    """

    partitions: int | None = None
    config: tuple[tuple[str, str], ...] = ()
    remove_unmanaged: bool = False


class OperatorMemory(NamedTuple):
    """The facts about past changes of a topic that the operator needs later.

    ``consent`` is the digest of the consents of the topic's owner that are used up, empty if none was used. ``step_ms``
    is the time of the last step of a cut of retention that has further steps, in ms since the epoch. ``deletions_ms``
    are the times of the deletions that may still count against a budget, also those of earlier topics of the name.
    """

    consent: str = ""
    step_ms: int | None = None
    deletions_ms: tuple[int, ...] = ()


NO_MEMORY = OperatorMemory()


class OwnershipRecord(Struct, frozen=True):
    """The record that topiarist stores beside a topic: its owner and the config keys that topiarist set (sorted).

    ``deleted`` is true for the deletion record that a deletion by topiarist leaves. ``applied`` is None if it is not
    known; its keys are a subset of ``config_keys``. ``memory`` is written in the transaction of the change that it is
    about.
    """

    owner: str
    config_keys: tuple[str, ...] = ()
    deleted: bool = False
    applied: AppliedSpec | None = None
    memory: OperatorMemory = NO_MEMORY


class TopicState(Struct, frozen=True):
    """One topic as a cluster stores it.

    ``replicas`` lists the partitions in ascending order of their ids; ``partition_ids`` has those ids (a ``range``
    from 0 unless there are holes). ``reassigning_partitions`` are the ids of partitions under reassignment. ``config``
    has the overrides only, as raw text.

    ``record`` is the ownership record or None. It is used only if ``record_valid`` is true, since it may belong to an
    earlier topic of the same name. ``modified_externally`` is true if the config was changed after the record was
    written. ``unknown_fields`` are top-level fields of the topic that no Kafka version writes.
    """

    name: str
    identity: str
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
            force_setattr(self, "partition_ids", range(len(self.replicas)))

    @property
    def has_contiguous_partitions(self) -> bool:
        """Return whether the partition ids are exactly 0 to n-1."""
        ids, expected = self.partition_ids, range(len(self.replicas))
        return ids == expected or (not isinstance(ids, range) and list(ids) == list(expected))

    @property
    def valid_record(self) -> OwnershipRecord | None:
        """Return the ownership record; None if it belongs to an earlier topic of the same name."""
        return self.record if self.record_valid else None


class DeletionRecord(NamedTuple):
    """The owner that deleted a topic, and the time in ms since the epoch by the cluster's own clock."""

    owner: str
    written_at_ms: int


class ReadError(NamedTuple):
    """An error for a part of the metadata that cannot be read; ``path`` names the part."""

    path: str
    message: str


class Freeze(NamedTuple):
    """A freeze of a cluster: its reason, the user and the time; each is empty if it was not given."""

    reason: str
    by: str = ""
    since: str = ""

    def __str__(self) -> str:
        by, since = self.by and f" by {printable(self.by, 100)}", self.since and f" since {printable(self.since)}"
        return f"frozen{by}{since}: {printable(self.reason, 300) or 'no reason given'}"


class WriteBlock(Struct, frozen=True):
    """A reason why nothing may be written to a cluster; ``reason`` is None if writes are allowed."""

    reason: Reason | None = None
    message: str = ""

    @property
    def summary(self) -> str:
        """Return a short reason why nothing may be written, such as ``frozen by NAME since TIME``; else empty."""
        if self.reason in _SUMMARIES:
            return _SUMMARIES[self.reason]
        return self.message.partition(": ")[0].removeprefix("the cluster is ") or ("closed" if self.reason else "")


_SUMMARIES = {
    Reason.KRAFT_MIGRATION: "a migration to KRaft has begun",
    Reason.MOVED_BACK: "its records were moved to Kafka, and ZooKeeper is open again",
    Reason.RECORDS_NOT_MOVED: "its records are still in ZooKeeper",
    Reason.NO_CONTROLLER: "there is no controller",
}


class ClusterState(Struct, frozen=True):
    """The state of one cluster from one read.

    ``brokers`` are sorted by id. ``pending_deletions`` are the topics with a deletion request, ``reassigning_topics``
    the topics that a reassignment request names. ``stale_reassignments`` are the subset of ``reassigning_topics`` that
    are absent or were created after the request (``planning/builder.py``).

    ``topic_errors`` has the topics that exist but could not be read; they are not in ``topics``. ``dangling_records``
    are ownership records without a topic. ``deletion_records`` has owner and time of each record that a deletion left;
    no plan depends on them, and a snapshot has none.

    ``broker_defaults`` are the dynamic cluster-wide broker settings, under broker names. ``min_version`` is the oldest
    Kafka version that is consistent with the data read. ``assigns_topic_ids`` is true if any topic has an id: the
    controller then gives ids to new topics. ``next_identity`` is the number in the identity of the next topic that
    a cluster in memory creates, such as the one of the tests; nothing else uses it.

    ``requested_reassignments`` are the entries of the reassignment request as far as it can be decoded, and
    ``requested_at_ms`` is the time of its last change (an entry leaves it when its partition is done). ``batch`` is
    topiarist's record of the last batch of moves, written at ``batch_at_ms``; None if no batch and no throttle is left.
    Times are in ms since the epoch by the cluster's own clock; None if there is no request or record.

    ``bypasses_brokers`` is true if topiarist writes the metadata itself, so that no broker checks a change or answers
    for itself, and brokers learn of each config by a notification. ``size_limits`` are those of this way.

    ``known_configs`` are the topic configs that the brokers describe, by name; None if the brokers were not asked.
    ``fenced_brokers`` are registered brokers that take no part for now, with their racks; they are not in ``brokers``.
    ``records_topic_id`` is the id of the topic that holds the ownership records; empty if znodes hold them, or if there
    are none. ``records_error`` is set if the records exist and cannot be read: then no topic counts as owned.

    ``evidence`` says how complete ``usage`` is, which has the usage of topics by name; None if it was not asked for.
    ``capabilities`` are those of the cluster by the way to it.
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
    min_version: KafkaVersion = MIN_KAFKA_VERSION
    size_limits: tuple[SizeLimit, ...] = ()
    warnings: tuple[str, ...] = ()
    deletion_records: Mapping[str, DeletionRecord] = field(default_factory=dict)
    assigns_topic_ids: bool = False
    stale_reassignments: frozenset[str] = frozenset()
    next_identity: int = 1
    requested_reassignments: tuple[RequestedReassignment, ...] = ()
    requested_at_ms: int | None = None
    batch: BatchRecord | None = None
    batch_at_ms: int | None = None
    mode: ClusterMode = ClusterMode.ZOOKEEPER
    bypasses_brokers: bool = True
    known_configs: Mapping[str, KnownConfig] | None = None
    fenced_brokers: Mapping[int, str | None] = field(default_factory=dict)
    records_topic_id: str = ""
    records_error: WriteBlock = WriteBlock()
    evidence: Evidence | None = None
    usage: Mapping[str, TopicUsage] = field(default_factory=dict)
    capabilities: Capabilities = APACHE_KAFKA

    def record_of(self, topic: str) -> OwnershipRecord | None:
        """Return the ownership record of a topic, valid or not, whether the topic exists or not."""
        topic_state = self.topics.get(topic)
        return topic_state.record if topic_state else self.dangling_records.get(topic)


def describe_malformed_partitions(topic: TopicState) -> str:
    """Return a message if a topic has no partitions, or not exactly the partitions 0 to n-1; empty otherwise."""
    if topic.replicas and topic.has_contiguous_partitions:
        return ""
    return f"found partition ids {shorten_list(topic.partition_ids) or 'none'}, wanted 0 to n-1"


def describe_unequal_replication_factors(topic: TopicState) -> str:
    """Return a message if a topic's partitions have different numbers of replicas; empty otherwise.

    Skips the same partitions as ``find_replication_factors``.
    """
    partitions_by_factor: dict[int, list[int]] = {}
    for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True):
        if replicas and partition not in topic.reassigning_partitions:
            partitions_by_factor.setdefault(count_replicas(replicas), []).append(partition)
    if len(partitions_by_factor) < 2:
        return ""
    *fewer, (usual, others) = sorted(partitions_by_factor.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [f"{width} in partition{'s' if len(ids) > 1 else ''} {shorten_list(ids)}" for width, ids in fewer]
    rest = f"the {len(others):,} others" if len(others) > 1 else f"partition {others[0]}"
    return f"partitions have different numbers of replicas: {', '.join(parts)}, and {usual} in {rest}"


# The move of topiarist's records from ZooKeeper to the topic of records, as values of both adapters.
#
# ``adapters.zookeeper`` closes the records and hands them over, ``adapters.kafka_admin`` takes them, and
# ``adapters.open_cluster`` connects the two.

MOVING, MOVED = "moving to Kafka: topiarist move-records has begun", "moved to Kafka"
"""The reasons of the freeze in ZooKeeper during and after the move. Every release shows and obeys them."""

HINT_MOVE_RECORDS = "run topiarist move-records"
HINT_USE_KAFKA = "reach the cluster through its brokers (spec.kafka, via: Kafka)"


class IdentifiedRecord(NamedTuple):
    """An ownership record and the id of its topic; None if there is no topic: another client, or a run, deleted it."""

    record: OwnershipRecord
    topic_id: str | None


class ClosedRecords(Struct, frozen=True):
    """The records of a cluster that are closed in ZooKeeper: no run writes them there any more.

    ``stale`` are the topics with a record of an earlier topic of their name, which is left behind. ``freeze`` is the
    freeze that a user had set before; it holds after the move too.
    """

    cluster_id: str
    chroot: str
    records: Mapping[str, IdentifiedRecord] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    freeze: Freeze | None = None


class MovedRecords(NamedTuple):
    """The result of a move: the chroot that the records come from, their number, and the topics left behind.

    ``kept`` are the topics that had a record of the same owner in the topic of records: that one stays. If an earlier
    run has moved the records, ``repeated`` is true and nothing is written; ``unmatched`` are then the topics with a
    record in ZooKeeper and none in the topic of records.
    """

    chroot: str
    records: int
    stale: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    repeated: bool = False
    unmatched: tuple[str, ...] = ()


class LeftRecords(NamedTuple):
    """The records that ZooKeeper holds, as runs through the brokers see them.

    ``is_begun`` is true once a move has closed them. ``freeze`` is the present one, None if ZooKeeper is not frozen.
    """

    cluster_id: str
    records: int
    is_begun: bool = False
    freeze: Freeze | None = None


def is_closed_by_move(freeze: Freeze | None) -> bool:
    """Return whether the freeze in ZooKeeper is the one of a move."""
    return freeze is not None and freeze.reason in (MOVING, MOVED)


def find_records_block(left: LeftRecords, *, are_taken: bool) -> WriteBlock:
    """Return the write block of runs through the brokers, if any, by what ZooKeeper holds.

    ``are_taken`` is true if the topic of records has the note of a move.
    """
    closed = is_closed_by_move(left.freeze)
    if are_taken:
        if closed or not (left.is_begun or left.records):
            return WriteBlock()
        now = str(left.freeze) if left.freeze else "open"
        return WriteBlock(
            Reason.MOVED_BACK,
            f"the records were moved to Kafka, but ZooKeeper is {now} now, so runs through ZooKeeper may write again;"
            f" stop those runs, then {HINT_MOVE_RECORDS}",
        )
    if not left.records and not left.is_begun:
        return WriteBlock()
    if left.freeze and left.freeze.reason == MOVED:
        message = (
            "the records were moved from ZooKeeper to Kafka, but the topic of records does not have them: restore it,"
            f" or take the records of that time again: {HINT_MOVE_RECORDS}"
        )
    elif closed:
        message = f"a move of the records from ZooKeeper has begun and not ended; {HINT_MOVE_RECORDS} again"
    else:
        count = format_count(left.records, "ownership record")
        message = f"ZooKeeper has {count}, not moved to Kafka; {HINT_MOVE_RECORDS}"
    return WriteBlock(Reason.RECORDS_NOT_MOVED, message)
