"""What a controller has made of one topic, as an adapter sees it: leaders, ISRs, replicas on the move.

A plan needs none of this; ``describe`` does. ``lifecycle`` says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topiarist.core.state import ClusterState, Fault, Replicas

NO_LEADER, DURING_DELETION = -1, -2
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


class Moving(NamedTuple):
    """The replicas that a reassignment adds to a partition and takes from it, in the order that Kafka gives them."""

    adding: Replicas = ()
    removing: Replicas = ()


UNMOVED = Moving()


@dataclass(frozen=True, slots=True)
class Inspection:
    """One topic at a moment.

    ``identity`` and ``assignment`` (replica lists by partition) are None and empty where the topic cannot be read.
    ``states`` has the partitions that the controller has taken over, also such as the assignment does not have;
    ``faults`` those whose state cannot be read, ``odd`` what else is not as Kafka would write it. ``requested`` are the
    replica lists that a reassignment request asks for. ``known`` is false if the states may not be read.
    """

    identity: int | None
    assignment: Mapping[int, Replicas]
    states: Mapping[int, PartitionState] = field(default_factory=dict)
    faults: Mapping[int, Fault] = field(default_factory=dict)
    odd: tuple[Fault, ...] = ()
    moving: Mapping[int, Moving] = field(default_factory=dict)
    requested: Mapping[int, Replicas] = field(default_factory=dict)
    topic_id: str | None = None
    known: bool = True


def agree(state: ClusterState, name: str, found: Inspection | None) -> bool:
    """Whether an inspection is of the topic that was read: many reads are no snapshot, and topics come and grow."""
    topic = state.topics.get(name)
    if found is None or name in state.faults:
        return True
    if topic is None or topic.identity != found.identity:
        return topic is None and found.identity is None
    return dict(zip(topic.partition_ids, topic.replicas, strict=True)) == dict(found.assignment)
