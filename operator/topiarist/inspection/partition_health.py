"""Builds the partitions of one topic, each with its leader, ISR and issues, in Kafka's own terms.

``under-replicated`` and ``offline`` mean the same as in Kafka's metrics and tools. ``describe`` and ``list`` call
``build_partitions``; ``topic_phase`` reads the issues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.kafka import config_rules
from topiarist.kafka.types import KafkaVersion, Replicas, cap_min_isr, count_replicas
from topiarist.model.state import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    NO_REASSIGNMENT,
    ClusterState,
    PartitionState,
    ReadError,
    Reassignment,
    TopicInspection,
)


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
