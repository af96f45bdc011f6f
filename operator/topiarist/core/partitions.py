"""One topic's partitions, each with its leader, its ISR and whatever is not well about it, in Kafka's own words.

``under-replicated`` and ``offline`` mean what Kafka's metrics and tools mean by them. Used by ``lifecycle``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from topiarist.core import configs
from topiarist.core.inspection import DURING_DELETION, NO_LEADER, UNMOVED, Inspection, Moving, PartitionState
from topiarist.core.state import ClusterState, Fault, Replicas


class Condition(str, Enum):
    """What may be said of a partition that is not simply well; the worst first."""

    UNREADABLE = "Unreadable"
    NOT_LISTED = "NotListed"
    OFFLINE = "Offline"
    NOT_TAKEN_OVER = "NotTakenOver"
    BEING_DELETED = "BeingDeleted"
    UNDER_MIN_ISR = "UnderMinIsr"
    UNDER_REPLICATED = "UnderReplicated"
    RECOVERING = "Recovering"
    REASSIGNING = "Reassigning"
    NOT_PREFERRED = "NotPreferredLeader"

    @property
    def words(self) -> str:
        """As Kafka's people say it."""
        return _WORDS.get(self.value, self.value.lower())


_WORDS = {
    "NotListed": "not listed by the topic",
    "NotTakenOver": "not taken over",
    "BeingDeleted": "being deleted",
    "UnderMinIsr": "under min ISR",
    "UnderReplicated": "under-replicated",
    "Reassigning": "being reassigned",
    "NotPreferredLeader": "not led by its preferred leader",
}


class Ailment(NamedTuple):
    """A condition, and what it rests on; empty where the condition says it all."""

    condition: Condition
    message: str = ""

    def __str__(self) -> str:
        words = "preferred leader" if self.condition is Condition.NOT_PREFERRED else self.condition.words
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
    moving: Moving = UNMOVED
    requested: Replicas | None = None
    fault: Fault | None = None
    listed: bool = True
    ailments: tuple[Ailment, ...] = ()

    def has(self, condition: Condition) -> bool:
        """Whether the partition is in this condition."""
        return any(ailment.condition is condition for ailment in self.ailments)

    @property
    def width(self) -> int:
        """Its replicas as Kafka counts them: without those that a reassignment adds."""
        return len([broker for broker in self.replicas if broker not in self.moving.adding])


def partitions(state: ClusterState, name: str, found: Inspection | None) -> tuple[Partition, ...]:
    """The partitions of a topic, by id; those too that have a state and that the topic does not list any more.

    Where states are not known they have none, and it is not said of any that it has not been taken over.
    """
    topic = state.topics.get(name)
    if found is None:
        pairs = zip(topic.partition_ids, topic.replicas, strict=True) if topic else ()
        moving = topic.reassigning if topic else ()
        told = (Ailment(Condition.REASSIGNING),)
        return tuple(Partition(one, replicas, ailments=told if one in moving else ()) for one, replicas in pairs)
    registered = frozenset(broker.id for broker in state.brokers)
    least = _min_isr(topic.config if topic else {}, state.broker_defaults)
    listed = (_listed(one, replicas, found) for one, replicas in sorted(found.assignment.items()))
    judged = (_judged(one, registered, least) for one in listed)
    return (*(judged if found.known else listed), *_strays(found))


def _listed(partition: int, replicas: Replicas, found: Inspection) -> Partition:
    """A partition as it was found, with nothing said of it but that it is being moved."""
    one = Partition(
        partition,
        replicas,
        found.states.get(partition),
        found.moving.get(partition, UNMOVED),
        found.requested.get(partition),
        found.faults.get(partition),
    )
    moves = any(one.moving) or one.requested is not None
    return replace(one, ailments=(Ailment(Condition.REASSIGNING, _move(one)),)) if moves else one


def _strays(found: Inspection) -> Iterator[Partition]:
    """Partitions that have a state and are in no list; where the topic's list cannot be read, nobody knows."""
    told = (Ailment(Condition.NOT_LISTED),) if found.assignment else ()
    for one in sorted((found.states.keys() | found.faults.keys()) - found.assignment.keys()):
        fault = found.faults.get(one)
        why = (Ailment(Condition.UNREADABLE),) if fault else ()
        yield Partition(one, (), found.states.get(one), fault=fault, listed=False, ailments=(*why, *told))


def _judged(one: Partition, registered: Collection[int], least: int) -> Partition:
    ailments = (*one.ailments, *_ailments(one, registered, least))
    if not ailments:
        return one  # nearly all
    order = list(Condition)
    return replace(one, ailments=tuple(sorted(ailments, key=lambda ailment: order.index(ailment.condition))))


def _min_isr(config: Mapping[str, str], settings: Mapping[str, str]) -> int:
    """How many in-sync replicas a write with acks=all takes, as far as ZooKeeper shows it; Kafka's own default: 1."""
    value = configs.effective("min.insync.replicas", config, settings)
    return value if isinstance(value, int) else 1


def _ailments(one: Partition, registered: Collection[int], least: int) -> Iterator[Ailment]:
    """What is not well about a partition by its state."""
    if one.fault:
        yield Ailment(Condition.UNREADABLE)
    elif one.state is None:
        yield Ailment(Condition.NOT_TAKEN_OVER, _not_taken_over(one, registered))
    elif one.state.leader == DURING_DELETION:
        yield Ailment(Condition.BEING_DELETED)
    else:
        yield from _of_state(one, one.state, registered, least)


def _of_state(one: Partition, now: PartitionState, registered: Collection[int], least: int) -> Iterator[Ailment]:
    offline = now.leader == NO_LEADER or now.leader not in registered
    if offline:
        yield Ailment(Condition.OFFLINE, _offline(now, registered))
    elif len(now.isr) < least:
        yield Ailment(Condition.UNDER_MIN_ISR, f"needs {least}")
    # As Kafka counts: replicas that a reassignment only adds are not missed.
    if len(now.isr) < one.width:
        missing = [broker for broker in one.replicas if broker not in (*now.isr, *one.moving.adding)]
        yield Ailment(Condition.UNDER_REPLICATED, f"ISR lacks {_list(missing)}")
    if now.recovering:
        yield Ailment(Condition.RECOVERING, "unclean election")
    if not offline and one.replicas and now.leader != one.replicas[0]:
        yield Ailment(Condition.NOT_PREFERRED, str(one.replicas[0]))


def _not_taken_over(one: Partition, registered: Collection[int]) -> str:
    if not one.replicas:
        return "it has no replicas"
    if any(broker in registered for broker in one.replicas):
        return ""
    return f"waits for {' or '.join(map(str, one.replicas))}"


def _offline(now: PartitionState, registered: Collection[int]) -> str:
    """Why a partition has no leader that could lead."""
    if now.leader != NO_LEADER:
        return f"leader {now.leader} is not registered"
    if not now.isr or any(broker in registered for broker in now.isr):
        return ""
    return f"waits for {' or '.join(map(str, now.isr))}, the last in sync"


def _move(one: Partition) -> str:
    parts = [("adding", one.moving.adding), ("removing", one.moving.removing)]
    words = [f"{word} {_list(brokers)}" for word, brokers in parts if brokers]
    if one.requested is not None:
        words.append(f"to [{','.join(map(str, one.requested))}] is asked for")
    return ", ".join(words)


def _list(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
