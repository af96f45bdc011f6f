"""Puts moves into batches, or into a window, so that no broker copies too much at a time.

Through ZooKeeper a batch that has begun cannot be cancelled and nothing can join it, so a batch is small. What copies
nothing (a reordered or shortened list) is done at once and has batches of its own, which come first. Through Kafka's
own API moves join those in flight as soon as there is room: a window has the limits of a batch at any moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct, field

from topiarist.model.moves import BatchLimits, MoveType, ReplicaMove

_ORDER = {type_: index for index, type_ in enumerate(MoveType)}


class _Batch(Struct):
    moves: list[ReplicaMove] = field(default_factory=list)
    incoming: Counter[int] = field(default_factory=Counter)
    outgoing: Counter[int] = field(default_factory=Counter)


def make_batches(moves: Iterable[ReplicaMove], limits: BatchLimits) -> tuple[tuple[ReplicaMove, ...], ...]:
    """Return the moves in batches: reordered lists, shortened lists, then copies; each by topic and partition.

    Each move joins the first batch with room. ``limits.incoming`` counts the added replicas of a broker,
    ``limits.outgoing`` the copied partitions that it leads before.
    """
    ordered = sorted(moves, key=lambda move: (_ORDER[move.type], move.topic, move.partition))
    still = [move for move in ordered if not move.added]
    size = limits.partitions
    batches = [tuple(still[at : at + size]) for at in range(0, len(still), size)]
    return (*batches, *_batch_copies([move for move in ordered if move.added], limits))


def fill_window(
    waiting: Iterable[ReplicaMove],
    in_flight: Iterable[ReplicaMove],
    others: Iterable[ReplicaMove],
    limits: BatchLimits,
) -> tuple[ReplicaMove, ...]:
    """Return those of ``waiting`` that may join ``in_flight`` now, in the order of batches.

    ``others`` are moves of other clients. They count for the brokers that they copy from and to, and not as partitions.
    """
    window = _Batch(list(in_flight))
    for move in (*window.moves, *others):
        _count_copies(window, move)
    joining = []
    for move in sorted(waiting, key=lambda move: (_ORDER[move.type], move.topic, move.partition)):
        has_room = _has_room(window, move.before[0], move.added, limits) if move.added else True
        if has_room and len(window.moves) < limits.partitions:
            window.moves.append(move)
            _count_copies(window, move)
            joining.append(move)
    return tuple(joining)


def _count_copies(window: _Batch, move: ReplicaMove) -> None:
    if move.added:
        window.outgoing[move.before[0]] += 1
        window.incoming.update(move.added)


def _batch_copies(moves: Iterable[ReplicaMove], limits: BatchLimits) -> Iterable[tuple[ReplicaMove, ...]]:
    batches: list[_Batch] = []
    # The first batch that may have room, of all and for each broker: the search begins there, not at the first batch.
    first_open = 0
    first_in: defaultdict[int, int] = defaultdict(int)
    first_out: defaultdict[int, int] = defaultdict(int)
    for move in moves:
        source, added = move.before[0], move.added
        at = max(first_open, first_out[source], *[first_in[broker] for broker in added])
        while at < len(batches) and not _has_room(batches[at], source, added, limits):
            at += 1
        if at == len(batches):
            batches.append(_Batch())
        batch = batches[at]
        batch.moves.append(move)
        batch.outgoing[source] += 1
        batch.incoming.update(added)
        while first_open < len(batches) and len(batches[first_open].moves) >= limits.partitions:
            first_open += 1
        while first_out[source] < len(batches) and batches[first_out[source]].outgoing[source] >= limits.outgoing:
            first_out[source] += 1
        for broker in added:
            while first_in[broker] < len(batches) and batches[first_in[broker]].incoming[broker] >= limits.incoming:
                first_in[broker] += 1
    return (tuple(batch.moves) for batch in batches)


def _has_room(batch: _Batch, source: int, added: Iterable[int], limits: BatchLimits) -> bool:
    return (
        len(batch.moves) < limits.partitions
        and batch.outgoing[source] < limits.outgoing
        and all(batch.incoming[broker] < limits.incoming for broker in added)
    )
