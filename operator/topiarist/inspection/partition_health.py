"""One topic's partitions, each with its leader, its ISR and whatever is not well about it, in Kafka's own words.

``under-replicated`` and ``offline`` mean what Kafka's metrics and tools mean by them. Used by ``lifecycle``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from topiarist.kafka import config_rules
from topiarist.kafka.types import Replicas
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
    """What may be said of a partition that is not simply well; the worst first."""

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
        """As Kafka's people say it."""
        return _LABELS.get(self.value, self.value.lower())


_LABELS = {
    "NotListed": "not listed by the topic",
    "NotInitialized": "not taken over",
    "BeingDeleted": "being deleted",
    "UnderMinIsr": "under min ISR",
    "UnderReplicated": "under-replicated",
    "Reassigning": "being reassigned",
    "NotPreferredLeader": "not led by its preferred leader",
}


class PartitionIssue(NamedTuple):
    """A condition, and what it rests on; empty where the condition says it all."""

    issue_type: IssueType
    message: str = ""

    def __str__(self) -> str:
        words = "preferred leader" if self.issue_type is IssueType.NOT_PREFERRED_LEADER else self.issue_type.label
        return f"{words}: {self.message}" if self.message else words


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. ``state`` is None if the controller has not taken it over, or if that is not known or odd.

    ``replicas`` has during a reassignment also those that are added; ``requested`` is what a request asks for.
    ``listed`` is false if the topic has no such partition, or if its list cannot be read.
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
        """Whether the partition is in this condition."""
        return any(ailment.issue_type is condition for ailment in self.issues)

    @property
    def replica_count(self) -> int:
        """Its replicas as Kafka counts them: without those that a reassignment adds."""
        return len([broker for broker in self.replicas if broker not in self.reassignment.adding])


def build_partitions(state: ClusterState, name: str, inspection: TopicInspection | None) -> tuple[Partition, ...]:
    """The partitions of a topic, by id; those too that have a state and that the topic does not list any more.

    Where states are not known they have none, and it is not said of any that it has not been taken over.
    """
    topic = state.topics.get(name)
    if inspection is None:
        pairs = zip(topic.partition_ids, topic.replicas, strict=True) if topic else ()
        moving = topic.reassigning_partitions if topic else ()
        told = (PartitionIssue(IssueType.REASSIGNING),)
        return tuple(Partition(one, replicas, issues=told if one in moving else ()) for one, replicas in pairs)
    registered = frozenset(broker.id for broker in state.brokers)
    least = _min_isr(topic.config if topic else {}, state.broker_defaults)
    listed = (_make_partition(one, replicas, inspection) for one, replicas in sorted(inspection.assignment.items()))
    judged = (_add_issues(one, registered, least) for one in listed)
    return (*(judged if inspection.states_readable else listed), *_unlisted_partitions(inspection))


def _make_partition(partition: int, replicas: Replicas, inspection: TopicInspection) -> Partition:
    """A partition as it was found, with nothing said of it but that it is being moved."""
    one = Partition(
        partition,
        replicas,
        inspection.states.get(partition),
        inspection.reassignments.get(partition, NO_REASSIGNMENT),
        inspection.requested_replicas.get(partition),
        inspection.partition_errors.get(partition),
    )
    moves = any(one.reassignment) or one.requested_replicas is not None
    return replace(one, issues=(PartitionIssue(IssueType.REASSIGNING, _describe_reassignment(one)),)) if moves else one


def _unlisted_partitions(inspection: TopicInspection) -> Iterator[Partition]:
    """Partitions that have a state and are in no list; where the topic's list cannot be read, nobody knows."""
    told = (PartitionIssue(IssueType.NOT_LISTED),) if inspection.assignment else ()
    for one in sorted((inspection.states.keys() | inspection.partition_errors.keys()) - inspection.assignment.keys()):
        fault = inspection.partition_errors.get(one)
        why = (PartitionIssue(IssueType.UNREADABLE),) if fault else ()
        yield Partition(one, (), inspection.states.get(one), read_error=fault, listed=False, issues=(*why, *told))


def _add_issues(partition: Partition, registered: Collection[int], min_isr: int) -> Partition:
    ailments = (*partition.issues, *_find_issues(partition, registered, min_isr))
    if not ailments:
        return partition  # nearly all
    order = list(IssueType)
    return replace(partition, issues=tuple(sorted(ailments, key=lambda ailment: order.index(ailment.issue_type))))


def _min_isr(config: Mapping[str, str], settings: Mapping[str, str]) -> int:
    """How many in-sync replicas a write with acks=all takes, as far as ZooKeeper shows it; Kafka's own default: 1."""
    value = config_rules.effective_value("min.insync.replicas", config, settings)
    return value if isinstance(value, int) else 1


def _find_issues(partition: Partition, registered: Collection[int], min_isr: int) -> Iterator[PartitionIssue]:
    """What is not well about a partition by its state."""
    if partition.read_error:
        yield PartitionIssue(IssueType.UNREADABLE)
    elif partition.state is None:
        yield PartitionIssue(IssueType.NOT_INITIALIZED, _explain_uninitialized(partition, registered))
    elif partition.state.leader == LEADER_DURING_DELETE:
        yield PartitionIssue(IssueType.BEING_DELETED)
    else:
        yield from _find_state_issues(partition, partition.state, registered, min_isr)


def _find_state_issues(
    partition: Partition, state: PartitionState, registered: Collection[int], min_isr: int
) -> Iterator[PartitionIssue]:
    offline = state.leader == NO_LEADER or state.leader not in registered
    if offline:
        yield PartitionIssue(IssueType.OFFLINE, _explain_offline(state, registered))
    elif len(state.isr) < min_isr:
        yield PartitionIssue(IssueType.UNDER_MIN_ISR, f"needs {min_isr}")
    # As Kafka counts: replicas that a reassignment only adds are not missed.
    if len(state.isr) < partition.replica_count:
        missing = [
            broker for broker in partition.replicas if broker not in (*state.isr, *partition.reassignment.adding)
        ]
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
    """Why a partition has no leader that could lead."""
    if state.leader != NO_LEADER:
        return f"leader {state.leader} is not registered"
    if not state.isr or any(broker in registered for broker in state.isr):
        return ""
    return f"waits for {' or '.join(map(str, state.isr))}, the last in sync"


def _describe_reassignment(partition: Partition) -> str:
    parts = [("adding", partition.reassignment.adding), ("removing", partition.reassignment.removing)]
    words = [f"{word} {_join_ids(brokers)}" for word, brokers in parts if brokers]
    if partition.requested_replicas is not None:
        words.append(f"to [{','.join(map(str, partition.requested_replicas))}] is asked for")
    return ", ".join(words)


def _join_ids(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
