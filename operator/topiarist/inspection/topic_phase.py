"""Determines the phase of one topic in its life cycle on a cluster.

The phase follows from the cluster (``ClusterState``) and from the partition states, which the controller writes.
Pending changes are part of the plan, not of the phase. ``describe`` calls ``determine_phase``; ``list`` calls
``count_issues``. ::

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
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from topiarist.inspection.partition_health import IssueType, Partition
from topiarist.model.outcome import DELETION_DISABLED_MESSAGE, blocking_reason, build_topic_progress
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord
from topiarist.text import format_count


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
        return TopicPhase(Phase.UNREADABLE, "it cannot be read as Kafka reads it")
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
