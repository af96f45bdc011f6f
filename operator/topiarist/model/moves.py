"""Moves of existing replicas as values: one partition's list before and after, and what a cluster allows.

``planning.moves`` computes the moves. The order of replicas counts: the first is the preferred leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from topiarist.kafka.types import Replicas


class MoveKind(str, Enum):
    """A reason to move replicas, as ``spec.moves.allow`` names it; in the order in which a plan applies them."""

    ASSIGNMENT = "Assignment"
    DRAIN = "Drain"
    FACTOR = "Factor"
    RACKS = "Racks"
    SPREAD = "Spread"
    LEADERS = "Leaders"


class MoveType(str, Enum):
    """The effect of a move on the list of one partition, in the order in which batches take moves."""

    REORDER = "reorder"
    LOWER = "lower"
    RAISE = "raise"
    MOVE = "move"


class ReplicaMove(NamedTuple):
    """The move of one partition; ``before`` and ``after`` differ, and neither is empty.

    ``kinds`` are its reasons, in the order of ``MoveKind``.
    """

    topic: str
    partition: int
    before: Replicas
    after: Replicas
    kinds: tuple[MoveKind, ...] = ()

    @property
    def type(self) -> MoveType:
        """Return the effect of the move: the first type that describes all of it."""
        before, after = set(self.before), set(self.after)
        if after <= before:
            return MoveType.REORDER if before == after else MoveType.LOWER
        return MoveType.RAISE if before < after else MoveType.MOVE

    @property
    def added(self) -> Replicas:
        """Return the brokers that copy the partition, in the order of the list after."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> Replicas:
        """Return the brokers that delete their replica, in the order of the list before."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def in_flight(self) -> Replicas:
        """Return the list that the cluster shows while the controller moves the partition (contract 6.6)."""
        return (*self.after, *self.removed)


class LeaderChange(NamedTuple):
    """The election of the preferred leader of one partition: the leader before, and the first replica of its list."""

    partition: int
    before: int
    after: int


class BatchLimits(Struct, frozen=True):
    """The limits of one batch: its partitions, and for each broker the copies to it and from its leaders."""

    partitions: int = 50
    incoming: int = 5
    outgoing: int = 5


DEFAULT_BATCH_LIMITS = BatchLimits()

UNLIMITED = 0
"""The throttle of moves that are not throttled."""


class MoveSettings(Struct, frozen=True):
    """The moves that ``spec.moves`` of a cluster allows, and their pace.

    ``throttle`` is in bytes a second for each broker and direction, ``UNLIMITED``, or None if it is not declared: then
    nothing may be copied. ``stall_after`` is in seconds. ``protected`` allows to drain internal and protected topics,
    and to repair their racks.
    """

    allow: frozenset[MoveKind] = frozenset()
    throttle: int | None = None
    batch: BatchLimits = DEFAULT_BATCH_LIMITS
    stall_after: int = 900
    protected: bool = False


NO_MOVES = MoveSettings()
"""The settings of a cluster without ``spec.moves``: nothing is allowed."""


class RequestedReassignment(NamedTuple):
    """One entry of the cluster's reassignment request: a partition, and the replicas that it is to get."""

    topic: str
    partition: int
    replicas: Replicas


class MoveProgress(Struct, frozen=True):
    """The progress of the moves of one plan, after each poll of a batch.

    ``batch`` counts from 1 to ``batches``; the total may change while batches are sent. ``done`` of ``total``
    partitions of the plan have their new lists. ``copying`` are the moves in flight, ``finished`` those that were
    finished since the last report; with ``batch`` 0 an earlier run sent them. ``waiting_for`` is what a batch waits
    for, if that is not the copies themselves. ``remarks`` are facts about throttles of other clients, and about
    a batch of an earlier run that has ended, each in one report only.
    """

    batch: int
    batches: int
    done: int
    total: int
    copying: tuple[ReplicaMove, ...] = ()
    finished: tuple[ReplicaMove, ...] = ()
    waiting_for: str = ""
    remarks: tuple[str, ...] = ()


class OwnValue(NamedTuple):
    """A throttle config that topiarist wrote, and the value that it replaced; None if there was none."""

    before: str | None
    ours: str


OwnThrottles = Mapping[str, Mapping[str, OwnValue]]
"""The throttle configs that topiarist wrote, by entity (``topics/orders``, ``brokers/5``) and config."""


class BatchRecord(NamedTuple):
    """The record of the batch that was sent last, written before its moves begin and deleted with the last throttle.

    A run that finds it waits for ``moves``, and then sends the next batch or puts ``throttles`` back. ``batch`` counts
    from 1 to ``batches``. Through Kafka's own API the record is written before the throttles: until they are written,
    ``replaced`` has our values that ``throttles`` replaces.
    """

    owner: str
    batch: int
    batches: int
    moves: tuple[ReplicaMove, ...]
    throttles: OwnThrottles
    replaced: OwnThrottles = MappingProxyType({})


class ClearedMoves(Struct, frozen=True):
    """The record of a batch that was cleared, and facts about throttles that could not be put back by value."""

    record: BatchRecord
    remarks: tuple[str, ...] = ()
