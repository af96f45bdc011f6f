"""Where one topic is in its life, and how well each of its partitions is, in Kafka's own words.

Made of what a cluster holds (``state``) and of what its controller has made of it (``inspection``). What is to be done
about it is the business of ``plan``; here is only what is. ::

    topic?  record?             mark?   states     phase
    no      none                no      -          Unknown; with a manifest: Declared, or Absent
    no      ours, a tombstone   no      -          Deleted
    no      any other           no      -          DeletedOutside
    any     any                 yes     -          MarkedForDeletion
    odd     any                 no      -          Unreadable
    yes     ours, a tombstone   no      -          DeletionDisabled
    yes     any                 no      none       NotTakenOver
    yes     any                 no      some       PartlyTakenOver
    yes     any                 no      all        TakenOver
    yes     any                 no      not known  Exists
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from topiarist.core.partitions import Condition, Partition
from topiarist.core.spec import TopicSpec
from topiarist.core.state import ClusterState, TopicRecord
from topiarist.core.units import count
from topiarist.core.waiting import DISABLED, sight, waits_for


class Phase(str, Enum):
    """Where a topic is in its life on one cluster."""

    UNKNOWN = "Unknown"
    DECLARED = "Declared"
    ABSENT = "Absent"
    DELETED = "Deleted"
    DELETED_OUTSIDE = "DeletedOutside"
    MARKED = "MarkedForDeletion"
    UNREADABLE = "Unreadable"
    DELETION_DISABLED = "DeletionDisabled"
    NOT_TAKEN_OVER = "NotTakenOver"
    PARTLY_TAKEN_OVER = "PartlyTakenOver"
    TAKEN_OVER = "TakenOver"
    EXISTS = "Exists"


class Life(NamedTuple):
    """A topic's phase in words, and what its next one waits for; empty if it waits for nothing."""

    phase: Phase
    message: str
    waits: str = ""


def life(state: ClusterState, name: str, spec: TopicSpec | None, partitions: Sequence[Partition], known: bool) -> Life:
    """Where the topic ``name`` is in its life; ``known`` is whether the states of its partitions are."""
    topic = state.topics.get(name)
    record = topic.valid_record if topic else state.records.get(name)
    if name in state.deleting:
        return _marked(state, name, record)
    if name in state.faults:
        return Life(Phase.UNREADABLE, "cannot be read as Kafka would")
    if topic is None:
        return _missing(record, spec)
    if record and record.absent:
        return Life(Phase.DELETION_DISABLED, f"marked for deletion by us; {DISABLED}")
    if not known:
        return Life(Phase.EXISTS, "exists; what the controller has made of it is not known")
    listed = [one for one in partitions if one.listed]
    left = [one for one in listed if one.has(Condition.NOT_TAKEN_OVER)]
    if not left:
        return Life(Phase.TAKEN_OVER, "taken over by the controller")
    waits = _creation_waits(state, left)
    if len(left) == len(listed):
        return Life(Phase.NOT_TAKEN_OVER, "not taken over by the controller", waits)
    message = f"{len(listed) - len(left):,} of {count(len(listed), 'partition')} taken over by the controller"
    return Life(Phase.PARTLY_TAKEN_OVER, message, waits)


def _missing(record: TopicRecord | None, spec: TopicSpec | None) -> Life:
    if record is None and spec:
        if spec.absent:
            return Life(Phase.ABSENT, "not on the cluster, as its manifest asks")
        return Life(Phase.DECLARED, "not on the cluster yet, in manifests only")
    if record is None:
        return Life(Phase.UNKNOWN, "there is no topic of this name, and no record of one")
    if record.absent:
        return Life(Phase.DELETED, f"deleted by owner {record.owner}, as was asked for")
    return Life(Phase.DELETED_OUTSIDE, f"was of owner {record.owner} and has been deleted by others")


def _marked(state: ClusterState, name: str, record: TopicRecord | None) -> Life:
    by = f"by owner {record.owner}" if record and record.absent else "by others"
    if name not in state.topics and name not in state.faults:
        message = "marked for deletion, and the topic has gone: the mark goes next"
        return Life(Phase.MARKED, message, "" if state.controller is not None else _NO_CONTROLLER)
    waits = _NO_CONTROLLER if state.controller is None else waits_for(sight(state, name))
    return Life(Phase.MARKED, f"marked for deletion {by}", waits)


_NO_CONTROLLER = "there is no controller"

AT_IT = "the controller is at it"
"""What a topic waits for that the controller has not taken over, and could."""


def _creation_waits(state: ClusterState, left: Sequence[Partition]) -> str:
    """What keeps the controller from taking partitions over, as far as that can be seen."""
    if state.controller is None:
        return _NO_CONTROLLER
    registered = {broker.id for broker in state.brokers}
    stuck = [one for one in left if registered.isdisjoint(one.replicas)]
    if not stuck:
        return AT_IT
    bare = sum(not one.replicas for one in stuck)
    parts = [f"replicas for {count(bare, 'partition')}"] if bare else []
    if brokers := sorted({broker for one in stuck for broker in one.replicas}):
        ids = f"one of brokers {', '.join(map(str, brokers))}" if len(brokers) > 1 else f"broker {brokers[0]}"
        several = len(stuck) - bare
        parts.insert(0, f"{ids}, not registered" + (f", for each of {several:,} partitions" if several > 1 else ""))
    return "; ".join(parts)


def counted(partitions: Sequence[Partition]) -> Mapping[Condition, int]:
    """How many partitions are in each condition, the worst condition first."""
    found = Counter(condition for one in partitions for condition in {ailment.condition for ailment in one.ailments})
    return {condition: found[condition] for condition in Condition if condition in found} if found else {}
