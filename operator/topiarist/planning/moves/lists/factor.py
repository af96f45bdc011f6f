"""Another replication factor: which replicas a list gets, or loses.

A topic that lies as Kafka would place it continues Kafka's own sequence, and is then what Kafka would have made at the
higher factor. Another topic gets brokers by racks and counts. Brokers 0 to 4, factor 3 to 4, by sequence::

    partition   0          1          2          3          4          5
    before      0,1,2      1,2,3      2,3,4      3,4,0      4,0,1      0,2,3
    after       0,1,2,3    1,2,3,4    2,3,4,0    3,4,0,1    4,0,1,2    0,2,3,4

A list keeps its replicas and their order when it is raised. A list that is lowered keeps its first replica, the
preferred leader, and as many racks as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from topiarist.kafka.placement import AssignmentError, get_placer, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.planning.moves.lists.replica_picker import ReplicaPicker


class RaiseMethod(str, Enum):
    """How ``raise_factor`` found the new replicas."""

    SEQUENCE = "sequence"
    COUNT = "count"


def raise_factor(
    lists: Sequence[Replicas],
    factor: int,
    picker: ReplicaPicker,
    *,
    rack_mode: str = "enforced",
    start_and_shift: tuple[int, int] | None = None,
) -> tuple[tuple[Replicas, ...], RaiseMethod]:
    """Return the lists with at least ``factor`` replicas each, and the method.

    ``picker`` has begun the topic. ``rack_mode`` is that of ``prepare_brokers``; ``start_and_shift`` are those of the
    topic's name, if topiarist may have placed it. Raises ``AssignmentError`` if a list cannot be made.
    """
    if factor > len(picker.takers):
        for replicas in lists:
            picker.require_takers(replicas, factor)
    placed = _continue_sequence(lists, factor, picker.takers, rack_mode, start_and_shift)
    if placed is not None:
        for before, after in zip(lists, placed, strict=True):
            for broker in after[len(before) :]:
                picker.add(broker)
        return placed, RaiseMethod.SEQUENCE
    raised = []
    for replicas in lists:
        after = replicas
        while len(after) < factor:
            after = (*after, picker.pick(after, after[-1]))
        raised.append(after)
    return tuple(raised), RaiseMethod.COUNT


def lower_factor(lists: Sequence[Replicas], factor: int, picker: ReplicaPicker) -> tuple[Replicas, ...]:
    """Return the lists with at most ``factor`` replicas each; ``picker`` has begun the topic.

    While a list is too long it loses the last replica of a rack that it has twice, else the last one; never the first.
    """
    return tuple(_shorten(replicas, factor, picker) if len(replicas) > factor else replicas for replicas in lists)


def _shorten(replicas: Replicas, factor: int, picker: ReplicaPicker) -> Replicas:
    while len(replicas) > max(factor, 1):
        racks = [picker.rack_of(broker) for broker in replicas]
        doubled = [at for at in range(1, len(replicas)) if racks.count(racks[at]) > 1]
        at = doubled[-1] if doubled else len(replicas) - 1
        picker.remove(replicas[at])
        replicas = (*replicas[:at], *replicas[at + 1 :])
    return replicas


def _continue_sequence(
    lists: Sequence[Replicas],
    factor: int,
    takers: tuple[Broker, ...],
    rack_mode: str,
    start_and_shift: tuple[int, int] | None,
) -> tuple[Replicas, ...] | None:
    """Return Kafka's lists at the higher factor; None if Kafka's placement does not give the present lists."""
    try:
        placer = get_placer(prepare_brokers(takers, rack_mode))
    except AssignmentError:
        return None
    # A raise that was interrupted has left lists of two lengths, so the shortest one is inferred from.
    width = min(map(len, lists), default=0)
    if not 0 < width < factor <= len(placer.order):
        return None
    candidates = [start_and_shift] if start_and_shift else []
    if width > 1:
        candidates += placer.find_positions(lists[0][:width])
    for start, shift in candidates:
        after = placer.assign_replicas(len(lists), replication_factor=factor, start=start, shift=shift)
        if all(wanted[: len(found)] == found[: len(wanted)] for found, wanted in zip(lists, after, strict=True)):
            return tuple(max(found, wanted, key=len) for found, wanted in zip(lists, after, strict=True))
    return None
