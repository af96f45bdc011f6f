"""Drains brokers: another broker takes the position of each of their replicas, and nothing else changes.

Brokers 1 to 5 without racks, broker 5 drained::

    before   1,2,3   2,3,4   3,4,5   4,5,1   5,1,2
    after    1,2,3   2,3,4   3,4,1   4,2,1   3,1,2
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from topiarist.kafka.types import Replicas
from topiarist.planning.moves.lists.replica_picker import ReplicaPicker


def drain(lists: Sequence[Replicas], drained: Collection[int], picker: ReplicaPicker) -> tuple[Replicas, ...]:
    """Return the lists without ``drained`` brokers. ``picker`` has begun the topic, and picks none of them.

    Copies exactly the replicas on drained brokers. Raises ``AssignmentError`` if a list cannot be made.
    """
    for replicas in lists:
        if not set(drained).isdisjoint(replicas):
            picker.require_takers(set(replicas).difference(drained), len(replicas))
    return tuple(
        replicas if set(drained).isdisjoint(replicas) else _replace(replicas, drained, picker) for replicas in lists
    )


def _replace(replicas: Replicas, drained: Collection[int], picker: ReplicaPicker) -> Replicas:
    after = list(replicas)
    kept = {broker for broker in replicas if broker not in drained}
    for at, broker in enumerate(replicas):
        if broker in drained:
            picker.remove(broker, leads=at == 0)
            after[at] = picker.pick(kept, broker, leads=at == 0)
            kept.add(after[at])
    return tuple(after)
