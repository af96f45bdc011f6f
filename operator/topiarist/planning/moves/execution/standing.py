"""Compares a move with what a cluster shows, by value: not begun, under way, done, or something else.

The adapter that applies moves asks it before each batch and while a batch runs. A second run, or a saved plan that was
interrupted, therefore never sends a partition twice::

    what the cluster shows                         standing
    [1,2]        nothing in flight                 BEFORE     of [1,2] -> [3,2]
    [3,2,1]      adding 3, removing 1              UNDERWAY
    [3,2]        nothing in flight                 AFTER
    anything else, or no such partition            CONFLICT
"""

from __future__ import annotations

from enum import Enum

from topiarist.kafka.types import Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import Reassignment


class MoveStanding(Enum):
    """How far a move is."""

    BEFORE = "before"
    UNDERWAY = "underway"
    AFTER = "after"
    CONFLICT = "conflict"


def find_standing(move: ReplicaMove, replicas: Replicas | None, reassignment: Reassignment | None) -> MoveStanding:
    """Return the standing of ``move``, given the partition's list and its reassignment.

    ``replicas`` is None if the partition does not exist, ``reassignment`` if nothing of it is in flight.
    """
    if replicas is None:
        return MoveStanding.CONFLICT
    if reassignment is None:
        known = {move.before: MoveStanding.BEFORE, move.after: MoveStanding.AFTER}
        return known.get(replicas, MoveStanding.CONFLICT)
    # In flight the list is the target, then the brokers that leave (contract 6.6).
    target = tuple(broker for broker in replicas if broker not in reassignment.removing)
    return MoveStanding.UNDERWAY if target == move.after else MoveStanding.CONFLICT
