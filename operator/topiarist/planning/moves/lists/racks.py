"""Repairs racks: a list gets as many different racks as it can have, by the fewest copies.

Kafka's own placement guarantees that many and no more, so nothing stricter is asked. Racks a: 1, 4; b: 2, 5; c: 3, 6::

    before   1,2,4   (a, b, a)      the last replica of a rack that the list has twice is replaced, never the first
    after    1,2,6   (a, b, c)
"""

from __future__ import annotations

from collections.abc import Sequence

from topiarist.kafka.types import Replicas
from topiarist.planning.moves.lists.replica_picker import ReplicaPicker


def repair_racks(lists: Sequence[Replicas], picker: ReplicaPicker) -> tuple[Replicas, ...]:
    """Return the lists with right racks; ``picker`` has begun the topic."""
    return tuple(_repair(replicas, picker) if picker.lacks_rack(replicas) else replicas for replicas in lists)


def _repair(replicas: Replicas, picker: ReplicaPicker) -> Replicas:
    while picker.lacks_rack(replicas):
        racks = [picker.rack_of(broker) for broker in replicas]
        at = max(at for at in range(1, len(replicas)) if racks.count(racks[at]) > 1)
        picker.remove(replicas[at])
        kept = (*replicas[:at], *replicas[at + 1 :])
        replicas = (*replicas[:at], picker.pick(kept, replicas[at]), *replicas[at + 1 :])
    return replicas
