"""The health of one topic: its partitions with leader, ISR and issues, and its phase in the life cycle on a cluster.

``under-replicated`` and ``offline`` mean the same as in Kafka's metrics and tools. The phase follows from the cluster
(``ClusterState``) and from the partition states, which the controller writes. Pending changes are part of the plan, not
of the phase. ::

    topic?      ownership record?   deletion request?   states     phase
    no          none                no                  -          Unknown; with a manifest: Declared, or Absent
    no          deletion record     no                  -          Deleted
    no          any other           no                  -          DeletedExternally
    any         any                 yes                 -          MarkedForDeletion
    unreadable  any                 no                  -          Unreadable
    yes         deletion record     no                  -          DeletionDisabled
    yes         any other           no                  none       NotInitialized
    yes         any other           no                  some       PartlyInitialized
    yes         any other           no                  all        Initialized
    yes         any other           no                  not known  Exists
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.kafka import config_rules
from topiarist.kafka.types import KafkaVersion, Replicas, cap_min_isr, count_replicas
from topiarist.model.outcome import DELETION_DISABLED_MESSAGE, blocking_reason, build_topic_progress
from topiarist.model.spec import TopicSpec
from topiarist.model.state import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    NO_REASSIGNMENT,
    ClusterState,
    OwnershipRecord,
    PartitionState,
    ReadError,
    Reassignment,
    TopicInspection,
)
from topiarist.text import format_count


class IssueType(str, Enum):
    """The types of issues of a partition, the worst first."""

    UNREADABLE = "Unreadable"
    NOT_LISTED = "NotListed"
    OFFLINE = "Offline"
    NOT_INITIALIZED = "NotInitialized"
    BEING_DELETED = "BeingDeleted"
    UNDER_MIN_ISR = "UnderMinIsr"
    UNDER_REPLICATED = "UnderReplicated"
    RECOVERING = "Recovering"
    REASSIGNING = "Reassigning"
    NOT_PREFERRED_LEADER = "NotPreferredLeader"

    @property
    def label(self) -> str:
        """Return the name of the issue in Kafka's terms."""
        return _LABELS.get(self.value, self.value.lower())


_LABELS = {
    "NotListed": "not listed by the topic",
    "NotInitialized": "not initialized",
    "BeingDeleted": "being deleted",
    "UnderMinIsr": "under min ISR",
    "UnderReplicated": "under-replicated",
    "Reassigning": "being reassigned",
    "NotPreferredLeader": "not led by its preferred leader",
}


class PartitionIssue(NamedTuple):
    """An issue of a partition with its details; ``message`` may be empty."""

    issue_type: IssueType
    message: str = ""

    def __str__(self) -> str:
        words = "preferred leader" if self.issue_type is IssueType.NOT_PREFERRED_LEADER else self.issue_type.label
        return f"{words}: {self.message}" if self.message else words


class Partition(Struct, frozen=True):
    """A partition of a topic.

    ``state`` is None if the controller has not initialized the partition, or if the state is unknown or unreadable.
    During a reassignment ``replicas`` includes the added replicas; ``requested_replicas`` are those of a reassignment
    request. ``listed`` is false if the topic has no such partition, or if its list of partitions cannot be read.
    """

    id: int
    replicas: Replicas
    state: PartitionState | None = None
    reassignment: Reassignment = NO_REASSIGNMENT
    requested_replicas: Replicas | None = None
    read_error: ReadError | None = None
    listed: bool = True
    issues: tuple[PartitionIssue, ...] = ()

    def has_issue(self, condition: IssueType) -> bool:
        """Return whether the partition has an issue of this type."""
        return any(issue.issue_type is condition for issue in self.issues)

    @property
    def replica_count(self) -> int:
        """Return the number of replicas as Kafka counts them.

        Replicas that a reassignment adds do not count.
        """
        return count_replicas(tuple(broker for broker in self.replicas if broker not in self.reassignment.adding))


def build_partitions(
    state: ClusterState, name: str, inspection: TopicInspection | None, oldest: KafkaVersion
) -> tuple[Partition, ...]:
    """Return the partitions of a topic, by id; ``oldest`` is the oldest version that the brokers may have.

    Partitions that have a state but are not listed by the topic come last. If the states are unknown, the partitions
    have no state and no issue about initialization.
    """
    topic = state.topics.get(name)
    if inspection is None:
        pairs = zip(topic.partition_ids, topic.replicas, strict=True) if topic else ()
        moving_ids = topic.reassigning_partitions if topic else ()
        reassigning = (PartitionIssue(IssueType.REASSIGNING),)
        return tuple(
            Partition(partition, replicas, issues=reassigning if partition in moving_ids else ())
            for partition, replicas in pairs
        )
    registered = frozenset(broker.id for broker in state.brokers)
    # As far as the cluster shows it; otherwise Kafka's own default, 1.
    rules = config_rules.ConfigRules().for_cluster(state.mode, state.known_configs)
    settings = rules.merge_dynamic_settings(state.broker_defaults)
    value = config_rules.effective_value("min.insync.replicas", topic.config if topic else {}, settings)
    min_isr = value if isinstance(value, int) else 1
    listed = (
        _make_partition(partition, replicas, inspection, registered, cap_min_isr(min_isr, replicas, oldest))
        for partition, replicas in sorted(inspection.assignment.items())
    )
    return (*listed, *_unlisted_partitions(inspection))


def _make_partition(
    partition: int, replicas: Replicas, inspection: TopicInspection, registered: Collection[int], min_isr: int
) -> Partition:
    reassignment = inspection.reassignments.get(partition, NO_REASSIGNMENT)
    requested = inspection.requested_replicas.get(partition)
    read_error = inspection.partition_errors.get(partition)
    result = Partition(
        partition, replicas, inspection.states.get(partition), reassignment, requested, read_error=read_error
    )
    issues = list(_find_issues(result, registered, min_isr)) if inspection.states_readable else []
    if any(reassignment) or requested is not None:
        verbs = (("adding", reassignment.adding), ("removing", reassignment.removing))
        words = [f"{verb} {_join_ids(brokers)}" for verb, brokers in verbs if brokers]
        if words and (target := [broker for broker in replicas if broker not in reassignment.removing]):
            words.insert(0, f"to [{','.join(map(str, target))}]")
        if requested is not None:
            words.append(f"[{','.join(map(str, requested))}] requested")
        issues.append(PartitionIssue(IssueType.REASSIGNING, ", ".join(words)))
    if not issues:
        return result  # nearly all partitions of a cluster, so avoid the copy
    order = list(IssueType)
    return replace(result, issues=tuple(sorted(issues, key=lambda issue: order.index(issue.issue_type))))


def _unlisted_partitions(inspection: TopicInspection) -> Iterator[Partition]:
    # If the assignment cannot be read, it is unknown whether the topic lists them.
    not_listed = (PartitionIssue(IssueType.NOT_LISTED),) if inspection.assignment else ()
    with_state = inspection.states.keys() | inspection.partition_errors.keys()
    for partition in sorted(with_state - inspection.assignment.keys()):
        read_error = inspection.partition_errors.get(partition)
        unreadable = (PartitionIssue(IssueType.UNREADABLE),) if read_error else ()
        yield Partition(
            partition,
            (),
            inspection.states.get(partition),
            read_error=read_error,
            listed=False,
            issues=(*unreadable, *not_listed),
        )


def _find_issues(partition: Partition, registered: Collection[int], min_isr: int) -> Iterator[PartitionIssue]:
    state = partition.state
    if partition.read_error:
        yield PartitionIssue(IssueType.UNREADABLE)
    elif state is None:
        yield PartitionIssue(IssueType.NOT_INITIALIZED, _explain_uninitialized(partition, registered))
    elif state.leader == LEADER_DURING_DELETE:
        yield PartitionIssue(IssueType.BEING_DELETED)
    else:
        offline = state.leader == NO_LEADER or state.leader not in registered
        if offline:
            yield PartitionIssue(IssueType.OFFLINE, _explain_offline(state, registered))
        elif len(state.isr) < min_isr:
            yield PartitionIssue(IssueType.UNDER_MIN_ISR, f"needs {min_isr}")
        # As Kafka counts: replicas that a reassignment adds are not missing yet.
        if len(state.isr) < partition.replica_count:
            in_sync = (*state.isr, *partition.reassignment.adding)
            missing = [broker for broker in partition.replicas if broker not in in_sync]
            yield PartitionIssue(IssueType.UNDER_REPLICATED, f"ISR lacks {_join_ids(missing)}")
        if state.recovering:
            yield PartitionIssue(IssueType.RECOVERING, "unclean election")
        if not offline and partition.replicas and state.leader != partition.replicas[0]:
            yield PartitionIssue(IssueType.NOT_PREFERRED_LEADER, str(partition.replicas[0]))


def _explain_uninitialized(partition: Partition, registered: Collection[int]) -> str:
    if not partition.replicas:
        return "it has no replicas"
    if any(broker in registered for broker in partition.replicas):
        return ""
    return f"waits for {' or '.join(map(str, partition.replicas))}"


def _explain_offline(state: PartitionState, registered: Collection[int]) -> str:
    """Return why a partition has no usable leader; may be empty."""
    if state.leader != NO_LEADER:
        return f"leader {state.leader} is not registered"
    if not state.isr or any(broker in registered for broker in state.isr):
        return ""
    return f"waits for {' or '.join(map(str, state.isr))}, the last in sync"


def _join_ids(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))


class Phase(str, Enum):
    """A phase in the life cycle of a topic on one cluster."""

    UNKNOWN = "Unknown"
    DECLARED = "Declared"
    ABSENT = "Absent"
    DELETED = "Deleted"
    DELETED_EXTERNALLY = "DeletedExternally"
    MARKED_FOR_DELETION = "MarkedForDeletion"
    UNREADABLE = "Unreadable"
    DELETION_DISABLED = "DeletionDisabled"
    NOT_INITIALIZED = "NotInitialized"
    PARTLY_INITIALIZED = "PartlyInitialized"
    INITIALIZED = "Initialized"
    EXISTS = "Exists"


class TopicPhase(NamedTuple):
    """A topic's phase as text, and what its next phase waits for.

    ``blocked_by`` is empty if the topic waits for nothing.
    """

    phase: Phase
    message: str
    blocked_by: str = ""


def determine_phase(
    state: ClusterState, name: str, spec: TopicSpec | None, partitions: Sequence[Partition], states_known: bool
) -> TopicPhase:
    """Return the phase of the topic ``name``.

    ``states_known`` is true if the states of its partitions are known.
    """
    topic = state.topics.get(name)
    record = topic.valid_record if topic else state.dangling_records.get(name)
    if name in state.pending_deletions:
        return _phase_of_deletion(state, name, record)
    if name in state.topic_errors:
        return TopicPhase(Phase.UNREADABLE, "it cannot be read completely")
    if topic is None:
        return _phase_without_topic(record, spec)
    # A deletion record without a request: the controller discarded the request and kept the topic.
    if record and record.deleted:
        return TopicPhase(Phase.DELETION_DISABLED, f"marked for deletion by topiarist; {DELETION_DISABLED_MESSAGE}")
    if not states_known:
        return TopicPhase(Phase.EXISTS, "exists; its partition states are not known")
    listed = [partition for partition in partitions if partition.listed]
    if not listed:
        return TopicPhase(Phase.INITIALIZED, "has no partitions")
    uninitialized = [partition for partition in listed if partition.has_issue(IssueType.NOT_INITIALIZED)]
    if not uninitialized:
        return TopicPhase(Phase.INITIALIZED, "initialized by the controller")
    blocker = _creation_blocker(state, uninitialized)
    if len(uninitialized) == len(listed):
        return TopicPhase(Phase.NOT_INITIALIZED, "not initialized by the controller", blocker)
    initialized = f"{len(listed) - len(uninitialized):,} of {format_count(len(listed), 'partition')}"
    return TopicPhase(Phase.PARTLY_INITIALIZED, f"{initialized} initialized by the controller", blocker)


def _phase_without_topic(record: OwnershipRecord | None, spec: TopicSpec | None) -> TopicPhase:
    if record and record.deleted:
        return TopicPhase(Phase.DELETED, f"deleted by owner {record.owner}, as requested")
    if record:
        message = f"belonged to owner {record.owner} and was deleted by another client"
        return TopicPhase(Phase.DELETED_EXTERNALLY, message)
    if spec is None:
        return TopicPhase(Phase.UNKNOWN, "no topic and no ownership record of this name")
    if spec.absent:
        return TopicPhase(Phase.ABSENT, "not on the cluster, as its manifest requests")
    return TopicPhase(Phase.DECLARED, "not on the cluster yet, only in a manifest")


def _phase_of_deletion(state: ClusterState, name: str, record: OwnershipRecord | None) -> TopicPhase:
    if name not in state.topics and name not in state.topic_errors:
        message = "marked for deletion and deleted: the controller removes the request next"
        return TopicPhase(Phase.MARKED_FOR_DELETION, message, "" if state.controller is not None else _NO_CONTROLLER)
    client = f"owner {record.owner}" if record and record.deleted else "another client"
    blocker = _NO_CONTROLLER if state.controller is None else blocking_reason(build_topic_progress(state, name))
    return TopicPhase(Phase.MARKED_FOR_DELETION, f"marked for deletion by {client}", blocker)


_NO_CONTROLLER = "there is no controller"

IN_PROGRESS = "the controller, which is initializing it"
"""The blocker of a topic that only the controller itself delays."""


def _creation_blocker(state: ClusterState, uninitialized: Sequence[Partition]) -> str:
    """Return what prevents the controller from initializing the partitions, if known."""
    if state.controller is None:
        return _NO_CONTROLLER
    registered = {broker.id for broker in state.brokers}
    stuck = [partition for partition in uninitialized if registered.isdisjoint(partition.replicas)]
    if not stuck:
        return IN_PROGRESS
    parts = []
    without_replicas = sum(not partition.replicas for partition in stuck)
    if brokers := sorted({broker for partition in stuck for broker in partition.replicas}):
        ids = f"one of brokers {', '.join(map(str, brokers))}" if len(brokers) > 1 else f"broker {brokers[0]}"
        with_replicas = len(stuck) - without_replicas
        parts.append(
            f"{ids}, not registered" + (f", for each of {with_replicas:,} partitions" if with_replicas > 1 else "")
        )
    if without_replicas:
        parts.append(f"replicas for {format_count(without_replicas, 'partition')}")
    return "; ".join(parts)


def count_issues(partitions: Sequence[Partition]) -> Mapping[IssueType, int]:
    """Count the partitions with each issue, the worst issue first."""
    counts = Counter(
        issue_type for partition in partitions for issue_type in {issue.issue_type for issue in partition.issues}
    )
    return {issue_type: counts[issue_type] for issue_type in IssueType if issue_type in counts} if counts else {}
