"""Where one topic is in its life, and how well each of its partitions is, in Kafka's own words.

Made of what a cluster holds (``state``) and of what its controller has made of it (``inspection``). What is to be done
about it is the business of ``plan``; here is only what is. ::

    topic?  record?             mark?   states     phase
    no      none                no      -          Unknown; with a manifest: Declared, or Absent
    no      ours, a tombstone   no      -          Deleted
    no      any other           no      -          DeletedExternally
    any     any                 yes     -          MarkedForDeletion
    odd     any                 no      -          Unreadable
    yes     ours, a tombstone   no      -          DeletionDisabled
    yes     any                 no      none       NotInitialized
    yes     any                 no      some       PartlyTakenOver
    yes     any                 no      all        TakenOver
    yes     any                 no      not known  Exists
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from topiarist.inspection.partition_health import IssueType, Partition
from topiarist.model.progress import DELETION_DISABLED_MESSAGE, blocking_reason, build_topic_progress
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord
from topiarist.text import format_count


class Phase(str, Enum):
    """Where a topic is in its life on one cluster."""

    UNKNOWN = "Unknown"
    DECLARED = "Declared"
    ABSENT = "Absent"
    DELETED = "Deleted"
    DELETED_EXTERNALLY = "DeletedExternally"
    MARKED_FOR_DELETION = "MarkedForDeletion"
    UNREADABLE = "Unreadable"
    DELETION_DISABLED = "DeletionDisabled"
    NOT_INITIALIZED = "NotInitialized"
    PARTLY_INITIALIZED = "PartlyTakenOver"
    INITIALIZED = "TakenOver"
    EXISTS = "Exists"


class TopicPhase(NamedTuple):
    """A topic's phase in words, and what its next one waits for; empty if it waits for nothing."""

    phase: Phase
    message: str
    blocked_by: str = ""


def determine_phase(
    state: ClusterState, name: str, spec: TopicSpec | None, partitions: Sequence[Partition], states_known: bool
) -> TopicPhase:
    """Where the topic ``name`` is in its life; ``states_known`` is whether the states of its partitions are."""
    topic = state.topics.get(name)
    record = topic.valid_record if topic else state.dangling_records.get(name)
    if name in state.pending_deletions:
        return _phase_of_deletion(state, name, record)
    if name in state.topic_errors:
        return TopicPhase(Phase.UNREADABLE, "cannot be read as Kafka would")
    if topic is None:
        return _phase_without_topic(record, spec)
    if record and record.deleted:
        return TopicPhase(Phase.DELETION_DISABLED, f"marked for deletion by us; {DELETION_DISABLED_MESSAGE}")
    if not states_known:
        return TopicPhase(Phase.EXISTS, "exists; what the controller has made of it is not known")
    listed = [one for one in partitions if one.listed]
    left = [one for one in listed if one.has_issue(IssueType.NOT_INITIALIZED)]
    if not left:
        return TopicPhase(Phase.INITIALIZED, "taken over by the controller")
    waits = _creation_blocker(state, left)
    if len(left) == len(listed):
        return TopicPhase(Phase.NOT_INITIALIZED, "not taken over by the controller", waits)
    message = f"{len(listed) - len(left):,} of {format_count(len(listed), 'partition')} taken over by the controller"
    return TopicPhase(Phase.PARTLY_INITIALIZED, message, waits)


def _phase_without_topic(record: OwnershipRecord | None, spec: TopicSpec | None) -> TopicPhase:
    if record is None and spec:
        if spec.absent:
            return TopicPhase(Phase.ABSENT, "not on the cluster, as its manifest asks")
        return TopicPhase(Phase.DECLARED, "not on the cluster yet, in manifests only")
    if record is None:
        return TopicPhase(Phase.UNKNOWN, "there is no topic of this name, and no record of one")
    if record.deleted:
        return TopicPhase(Phase.DELETED, f"deleted by owner {record.owner}, as was asked for")
    return TopicPhase(Phase.DELETED_EXTERNALLY, f"was of owner {record.owner} and has been deleted by others")


def _phase_of_deletion(state: ClusterState, name: str, record: OwnershipRecord | None) -> TopicPhase:
    by = f"by owner {record.owner}" if record and record.deleted else "by others"
    if name not in state.topics and name not in state.topic_errors:
        message = "marked for deletion, and the topic has gone: the mark goes next"
        return TopicPhase(Phase.MARKED_FOR_DELETION, message, "" if state.controller is not None else _NO_CONTROLLER)
    waits = _NO_CONTROLLER if state.controller is None else blocking_reason(build_topic_progress(state, name))
    return TopicPhase(Phase.MARKED_FOR_DELETION, f"marked for deletion {by}", waits)


_NO_CONTROLLER = "there is no controller"

IN_PROGRESS = "the controller is at it"
"""What a topic waits for that the controller has not taken over, and could."""


def _creation_blocker(state: ClusterState, uninitialized: Sequence[Partition]) -> str:
    """What keeps the controller from taking partitions over, as far as that can be seen."""
    if state.controller is None:
        return _NO_CONTROLLER
    registered = {broker.id for broker in state.brokers}
    stuck = [one for one in uninitialized if registered.isdisjoint(one.replicas)]
    if not stuck:
        return IN_PROGRESS
    bare = sum(not one.replicas for one in stuck)
    parts = [f"replicas for {format_count(bare, 'partition')}"] if bare else []
    if brokers := sorted({broker for one in stuck for broker in one.replicas}):
        ids = f"one of brokers {', '.join(map(str, brokers))}" if len(brokers) > 1 else f"broker {brokers[0]}"
        several = len(stuck) - bare
        parts.insert(0, f"{ids}, not registered" + (f", for each of {several:,} partitions" if several > 1 else ""))
    return "; ".join(parts)


def count_issues(partitions: Sequence[Partition]) -> Mapping[IssueType, int]:
    """How many partitions are in each condition, the worst condition first."""
    found = Counter(condition for one in partitions for condition in {ailment.issue_type for ailment in one.issues})
    return {condition: found[condition] for condition in IssueType if condition in found} if found else {}
