"""Inference of a placement's start, shift and broker order from a topic's replica lists.

This is the inverse of ``placement``: Kafka stores replica lists only, not the parameters that gave them.
``inspection/describe.py`` uses it to report whether a topic still has Kafka's own placement.

Three facts make the search short. The leaders of consecutive partitions are consecutive brokers of the order, so the
leader of partition 0 gives the start. The second replica of a partition gives its shift. The shift grows by one with
each full turn of the order, so a placement is one line of (start, shift). Each expansion begins a new line, and Kafka
derives its start from the leader of partition 0::

    brokers 0 to 4            partition  0    1    2    3    4    5    6    7
    created with 6 from 3,    lists      3,0  4,1  0,2  1,3  2,4  3,1
    then expanded to 8        lists                                   4,3  0,4
                              shift      1    1    1    1    1    2    3    3

The brokers at the creation may differ from the present ones. The candidates are, in this order: all brokers; all
brokers except the excluded ones; the brokers in the lists; the cycle of leaders. The cycle has the brokers in the order
of the lists, since a broker that serves a create request does not sort them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from topiarist.kafka.placement import ReplicaPlacer, expansion_start, get_placer, prepare_brokers
from topiarist.kafka.types import Broker, Replicas

_MAX_LINES = 4
"""Candidate lines of a creation if no line matches all lists: the lines that match most lists."""

_EXPANSION_COST = 3
"""The cost of an expansion, in lists that differ from the placement (misses)."""

Assignment = Sequence[Replicas]


class InferredPlacement(Struct, frozen=True):
    """The placement that is closest to a topic's replica lists.

    ``brokers`` are an argument for ``assign_replicas``, with racks only if racks are used. With ``start`` and ``shift``
    that function returns the lists before the first expansion. ``expansion_starts`` are the first partitions of the
    expansions after the creation. ``differing_partitions`` are the partitions with other lists; there are none if the
    placement is exact.
    """

    brokers: tuple[Broker, ...]
    start: int
    shift: int
    expansion_starts: tuple[int, ...] = ()
    differing_partitions: tuple[int, ...] = ()

    @property
    def first_broker(self) -> int:
        """Return the id of the broker at which the placement starts."""
        return self.order[self.start]

    @property
    def order(self) -> Replicas:
        """Return the broker ids in placement order."""
        return get_placer(self.brokers).order

    @property
    def rack_aware(self) -> bool:
        """Return whether the placement uses racks."""
        return any(broker.rack is not None for broker in self.brokers)


class _Line(NamedTuple):
    """A placement of consecutive partitions; ``start`` and ``shift`` are the values for partition 0."""

    placer: ReplicaPlacer
    start: int
    shift: int

    def matches(self, partition: int, replicas: Replicas) -> bool:
        # Compare the leader first: it is cheap, and most lists that do not match differ in the leader.
        order = self.placer.order
        first = (self.start + partition) % len(order)
        if not replicas or order[first] != replicas[0]:
            return False
        # The shift grows at each partition id, not at each index in the order, that is a multiple of the broker count.
        return self.placer.replicas_for(first, self.shift + partition // len(order), len(replicas)) == replicas


class _Path(NamedTuple):
    """An explanation of all partitions so far.

    ``rank`` is the index of the candidate for the creation. ``misses`` counts the partitions with other lists.
    ``expansions`` has the line of each expansion with its first partition.
    """

    misses: int
    rank: int
    creation: _Line
    expansions: tuple[tuple[int, _Line], ...] = ()


def infer_placement(
    brokers: Iterable[Broker], lists: Assignment, *, excluded: Collection[int] = ()
) -> InferredPlacement | None:
    """Infer the exact placement of ``lists`` (partition 0 first); None if no placement gives all of them.

    ``brokers`` are the registered brokers; the ids in ``excluded`` get no new replicas. If several placements match,
    returns the one with the fewest expansions, then the first candidate, then the smallest start and shift. A placement
    over ``brokers`` is preferred to all others. Lists may differ in length: each is compared with the placement of the
    same length.
    """
    return _infer(tuple(brokers), lists, excluded, max_cost=0) if lists and all(lists) else None


def infer_nearest_placement(
    brokers: Iterable[Broker], lists: Assignment, *, excluded: Collection[int] = ()
) -> InferredPlacement | None:
    """Infer the placement that most of ``lists`` follow; None if every placement misses at least half of them.

    Tries ``infer_placement`` first.
    """
    known = tuple(brokers)
    found = infer_placement(known, lists, excluded=excluded)
    max_cost = (len(lists) - 1) // 2
    if found or max_cost < 1 or not any(lists):
        return found
    return _infer(known, lists, excluded, max_cost)


def _infer(
    brokers: Sequence[Broker], lists: Assignment, excluded: Collection[int], max_cost: int
) -> InferredPlacement | None:
    eligible = [broker for broker in brokers if broker.id not in excluded]
    registered = _placers([*_broker_orders(brokers), *_broker_orders(eligible)])
    found = _find_cheapest_path(registered, lists, max_cost)
    if found is None:
        found = _find_cheapest_path([*registered, *_other_candidates(registered, lists)], lists, max_cost)
    return found


def _placers(orders: Iterable[tuple[Broker, ...]]) -> list[ReplicaPlacer]:
    return [get_placer(order) for order in dict.fromkeys(orders) if order]


def _broker_orders(brokers: Sequence[Broker]) -> Iterator[tuple[Broker, ...]]:
    """Yield the brokers as Kafka sorts them: with racks if all brokers have one, and without racks."""
    if all(broker.rack is not None for broker in brokers):
        yield prepare_brokers(brokers, "enforced")
    yield prepare_brokers(brokers, "disabled")


def _other_candidates(registered: Sequence[ReplicaPlacer], lists: Assignment) -> Sequence[ReplicaPlacer]:
    """Return the placers over the brokers of the lists, and over the cycle of their leaders."""
    racks = {broker.id: broker for placer in registered for broker in placer.brokers if broker.rack is not None}
    leaders: dict[int, None] = {}
    for replicas in lists:
        if not replicas or replicas[0] in leaders:
            break
        leaders[replicas[0]] = None
    cycle = tuple(map(Broker, leaders))
    # The first broker of the original order is unknown, and every rotation gives the same placements.
    smallest = cycle.index(min(cycle, key=_id)) if cycle else 0
    sets = ({broker for replicas in lists for broker in replicas}, set(leaders))
    orders = [order for ids in sets for order in _broker_orders([racks.get(one, Broker(one)) for one in ids])]
    placers = _placers([*orders, cycle[smallest:] + cycle[:smallest]])
    return [placer for placer in placers if placer not in registered]


def _find_cheapest_path(
    candidates: Sequence[ReplicaPlacer], lists: Assignment, max_cost: int
) -> InferredPlacement | None:
    """Find the cheapest explanation, partition by partition; None if every explanation costs more than ``max_cost``.

    A path continues its line or begins an expansion. Paths on the same line differ only in earlier partitions, so only
    the cheapest of them is kept.
    """
    # Kafka sorts the brokers of an expansion by id.
    growing = [placer for placer in candidates if list(placer.brokers) == sorted(placer.brokers, key=_id)]
    paths: dict[_Line, _Path] = {}
    for rank, line in _creation_lines(candidates, lists, max_cost):
        path = _Path(int(not line.matches(0, lists[0])), rank, line)
        paths[line] = min(path, paths.get(line, path), key=_cost)
    for partition, replicas in enumerate(lists[1:], 1):
        if not paths:
            return None
        cheapest = min(paths.values(), key=_cost)
        continued = {
            line: path if line.matches(partition, replicas) else path._replace(misses=path.misses + 1)
            for line, path in paths.items()
        }
        for line in _expansion_lines(growing, lists, partition):
            path = cheapest._replace(expansions=(*cheapest.expansions, (partition, line)))
            continued[line] = min(path, continued.get(line, path), key=_cost)
        paths = {line: path for line, path in continued.items() if not path.misses or _cost(path)[0] <= max_cost}
    if not paths:
        return None
    best = min(paths.values(), key=_cost)
    lines, line, differing = dict(best.expansions), best.creation, []
    for partition, replicas in enumerate(lists):
        line = lines.get(partition, line)
        if not line.matches(partition, replicas):
            differing.append(partition)
    return InferredPlacement(
        best.creation.placer.brokers, best.creation.start, best.creation.shift, tuple(lines), tuple(differing)
    )


def _creation_lines(
    candidates: Sequence[ReplicaPlacer], lists: Assignment, max_cost: int
) -> Iterator[tuple[int, _Line]]:
    """Yield the possible lines of a creation with the rank of their candidate.

    These are the lines that match partition 0. If misses are allowed, they are the lines that match most partitions.
    """
    votes: Counter[tuple[int, int, int]] = Counter()
    for rank, placer in enumerate(candidates):
        size = len(placer.order)
        for partition, replicas in enumerate(lists if max_cost else lists[:1]):
            for first, shift in placer.find_positions(replicas):
                votes[rank, (first - partition) % size, (shift - partition // size) % placer.shift_count] += 1
    ordered = sorted(votes, key=lambda line: (-votes[line], line))
    for rank, start, shift in ordered[:_MAX_LINES] if max_cost else ordered:
        yield rank, _Line(candidates[rank], start, shift)


def _expansion_lines(growing: Sequence[ReplicaPlacer], lists: Assignment, partition: int) -> Iterator[_Line]:
    """Yield the lines of an expansion that begins at ``partition`` and gives this partition its replicas.

    The shift of an expansion begins at its start index and grows from there; it does not continue the shift of the
    creation.
    """
    for placer in growing if lists[0] else ():
        start = expansion_start(placer.brokers, lists[0][0])
        line = _Line(placer, start, (start - (partition - 1) // len(placer.order)) % placer.shift_count)
        if line.matches(partition, lists[partition]):
            yield line


def _cost(path: _Path) -> tuple[int, int, int, int]:
    """Return the sort key of a path: cost, rank, start and shift; a smaller key is better."""
    # An expansion costs as much as several misses. Otherwise an expansion after each miss would match nearly any lists.
    return path.misses + _EXPANSION_COST * len(path.expansions), path.rank, path.creation.start, path.creation.shift


def _id(broker: Broker) -> int:
    return broker.id
