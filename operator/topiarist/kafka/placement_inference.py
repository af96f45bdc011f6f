"""Inference of a placement's start, shift and broker order from a topic's replica lists.

This is the inverse of ``placement``: Kafka stores replica lists only, not the parameters that gave them. There are two
uses: ``describe`` reports whether a topic still has Kafka's own placement, and a change of the replication factor
continues the same sequence.

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from topiarist.kafka.placement import ReplicaPlacer, expansion_start, prepare_brokers
from topiarist.kafka.types import Broker, Replicas

_MAX_LINES = 4
"""Candidate lines of a creation if no line matches all lists: the lines that match most lists."""

_EXPANSION_COST = 3
"""The cost of an expansion, in lists that differ from the placement (misses)."""

Assignment = Sequence[Replicas]


@dataclass(frozen=True, slots=True)
class InferredPlacement:
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
        return _get_placer(self.brokers).order

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
        """Return whether the line gives exactly these replicas for a partition."""
        # Compare the leader first: it is cheap, and most lists that do not match differ in the leader.
        order = self.placer.order
        first = (self.start + partition) % len(order)
        if not replicas or order[first] != replicas[0]:
            return False
        # The shift grows at each partition id, not at each index in the order, that is a multiple of the broker count.
        return self.placer.replicas_for(first, self.shift + partition // len(order), len(replicas)) == replicas


class _Link(NamedTuple):
    """A linked list with shared tails: the last number and the link to the numbers before it."""

    number: int
    previous: _Link | None


class _Path(NamedTuple):
    """An explanation of all partitions so far.

    ``rank`` is the index of the candidate for the creation. ``miss_links`` and ``expansion_links`` list the partitions
    that ``misses`` and ``expansions`` count.
    """

    misses: int
    expansions: int
    rank: int
    creation: _Line
    miss_links: _Link | None = None
    expansion_links: _Link | None = None


def infer_placement(
    brokers: Iterable[Broker], lists: Assignment, *, excluded: Collection[int] = ()
) -> InferredPlacement | None:
    """Infer the exact placement of ``lists`` (partition 0 first); None if no placement gives all of them.

    ``brokers`` are the registered brokers; the ids in ``excluded`` get no new replicas. If several placements match,
    returns the one with the fewest expansions, then the first candidate, then the smallest start and shift. A placement
    over ``brokers`` is preferred to all others. Lists may differ in length: each is compared with the placement of the
    same length.
    """
    if not lists or not all(lists):
        return None
    known = _registered_candidates(tuple(brokers), frozenset(excluded))
    if found := _find_exact(known, lists):
        return found
    more = _other_candidates(known, lists)
    return _find_exact((*known, *more), lists) if more else None


def infer_nearest_placement(
    brokers: Iterable[Broker], lists: Assignment, *, excluded: Collection[int] = ()
) -> InferredPlacement | None:
    """Infer the placement that most of ``lists`` follow; None if every placement misses at least half of them.

    Tries ``infer_placement`` first.
    """
    known = tuple(brokers)
    if found := infer_placement(known, lists, excluded=excluded):
        return found
    most = (len(lists) - 1) // 2
    candidates = _registered_candidates(known, frozenset(excluded))
    if not most or not any(lists):
        return None
    return _find_cheapest_path(candidates, lists, most) or _find_cheapest_path(
        (*candidates, *_other_candidates(candidates, lists)), lists, most
    )


@lru_cache(maxsize=16)
def _registered_candidates(brokers: tuple[Broker, ...], excluded: frozenset[int]) -> tuple[ReplicaPlacer, ...]:
    """Return the placers over all brokers, and over the brokers that are not excluded."""
    sets = (brokers, tuple(broker for broker in brokers if broker.id not in excluded))
    found = [order for chosen in sets if chosen for order in _broker_orders(chosen)]
    return tuple(_get_placer(order) for order in dict.fromkeys(found))


def _other_candidates(registered: Sequence[ReplicaPlacer], lists: Assignment) -> Sequence[ReplicaPlacer]:
    """Return the placers over the brokers of the lists, and over the cycle of their leaders."""
    racks = {broker.id: broker for placement in registered for broker in placement.brokers if broker.rack is not None}
    cycle = _leader_cycle(lists)
    sets = ({broker for replicas in lists for broker in replicas}, set(cycle))
    found = [order for ids in sets for order in _broker_orders([racks.get(one, Broker(one)) for one in ids])]
    found.append(tuple(map(Broker, _rotate_to_smallest(cycle))))
    return [made for order in dict.fromkeys(found) if order and (made := _get_placer(order)) not in registered]


def _find_exact(candidates: Sequence[ReplicaPlacer], lists: Assignment) -> InferredPlacement | None:
    created = (_infer_creation(placement, lists) for placement in candidates)
    return next(filter(None, created), None) or _find_cheapest_path(candidates, lists, max_cost=0)


def _broker_orders(brokers: Sequence[Broker]) -> Iterator[tuple[Broker, ...]]:
    """Yield the brokers as Kafka sorts them: with racks if all brokers have one, and without racks."""
    if brokers and all(broker.rack is not None for broker in brokers):
        yield prepare_brokers(brokers, "enforced")
    yield prepare_brokers(brokers, "disabled")


def _leader_cycle(lists: Assignment) -> Replicas:
    """Return the leaders of the first partitions, up to the first repeated leader or empty list."""
    leaders: dict[int, None] = {}
    for replicas in lists:
        if not replicas or replicas[0] in leaders:
            break
        leaders[replicas[0]] = None
    return tuple(leaders)


def _rotate_to_smallest(cycle: Replicas) -> Replicas:
    """Return the cycle rotated to begin with its smallest id.

    The first broker of the original order is unknown, and every rotation gives the same placements.
    """
    at = cycle.index(min(cycle)) if cycle else 0
    return cycle[at:] + cycle[:at]


_get_placer = lru_cache(maxsize=256)(ReplicaPlacer)


def _infer_creation(placer: ReplicaPlacer, lists: Assignment) -> InferredPlacement | None:
    """Infer a placement without expansions; None if there is none, or if lists differ in length."""
    width = len(lists[0])
    for start, shift in _creation_starts(placer, 0, lists[0]):
        if placer.assign_replicas(len(lists), replication_factor=width, start=start, shift=shift) == tuple(lists):
            return InferredPlacement(placer.brokers, start, shift)
    return None


def _creation_starts(placer: ReplicaPlacer, partition: int, replicas: Replicas) -> Iterator[tuple[int, int]]:
    """Yield each start and shift of a creation that gives this partition these replicas."""
    size = len(placer.order)
    for first, shift in placer.find_positions(replicas):
        yield (first - partition) % size, (shift - partition // size) % placer.shift_count


def _find_cheapest_path(
    candidates: Sequence[ReplicaPlacer], lists: Assignment, max_cost: int
) -> InferredPlacement | None:
    """Find the cheapest explanation, partition by partition; None if every explanation costs more than ``max_cost``.

    A path continues its line or begins an expansion. Paths on the same line differ only in earlier partitions, so only
    the cheapest of them is kept. See ``_is_plausible`` for ``max_cost``.
    """
    paths: dict[_Line, _Path] = {}
    for rank, line in _creation_lines(candidates, lists, max_cost):
        miss = not line.matches(0, lists[0])
        path = _Path(int(miss), 0, rank, line, _Link(0, None) if miss else None)
        paths[line] = min(path, paths.get(line, path), key=_cost)
    growing = [made for made in candidates if lists[0] and made.brokers == tuple(sorted(made.brokers, key=_id))]
    for partition, replicas in enumerate(lists[1:], 1):
        if not paths:
            return None
        expansions = list(_expansion_lines(growing, lists, partition, min(paths.values(), key=_cost)))
        paths = dict(_continue_paths(paths, partition, replicas, max_cost))
        for line, path in expansions:
            if _is_plausible(path, max_cost):
                paths[line] = min(path, paths.get(line, path), key=_cost)
    return _to_inferred_placement(min(paths.values(), key=_cost)) if paths else None


def _creation_lines(
    candidates: Sequence[ReplicaPlacer], lists: Assignment, max_cost: int
) -> Iterator[tuple[int, _Line]]:
    """Yield the possible lines of a creation with the rank of their candidate.

    These are the lines that match partition 0. If misses are allowed, they are the lines that match most partitions.
    """
    votes: Counter[tuple[int, int, int]] = Counter()
    for rank, placement in enumerate(candidates):
        for partition, replicas in enumerate(lists if max_cost else lists[:1]):
            votes.update((rank, *line) for line in _creation_starts(placement, partition, replicas))
    ordered = sorted(votes, key=lambda line: (-votes[line], line))
    for rank, start, shift in ordered[:_MAX_LINES] if max_cost else ordered:
        yield rank, _Line(candidates[rank], start, shift)


def _expansion_lines(
    sorted_candidates: Sequence[ReplicaPlacer], lists: Assignment, partition: int, base: _Path
) -> Iterator[tuple[_Line, _Path]]:
    """Yield the lines of an expansion that begins at ``partition`` and gives this partition its replicas.

    The shift of an expansion begins at its start index and grows from there; it does not continue the shift of the
    creation.
    """
    for placement in sorted_candidates:
        start = expansion_start(placement.brokers, lists[0][0])
        line = _Line(placement, start, (start - (partition - 1) // len(placement.order)) % placement.shift_count)
        if line.matches(partition, lists[partition]):
            yield (
                line,
                base._replace(expansions=base.expansions + 1, expansion_links=_Link(partition, base.expansion_links)),
            )


def _continue_paths(
    paths: Mapping[_Line, _Path], partition: int, replicas: Replicas, max_cost: int
) -> Iterator[tuple[_Line, _Path]]:
    """Yield the paths that stay on their lines at ``partition``, with a miss added if the line does not match."""
    for line, path in paths.items():
        if line.matches(partition, replicas):
            yield line, path
        elif _is_plausible(
            missed := path._replace(misses=path.misses + 1, miss_links=_Link(partition, path.miss_links)), max_cost
        ):
            yield line, missed


def _id(broker: Broker) -> int:
    return broker.id


def _to_inferred_placement(path: _Path) -> InferredPlacement:
    line = path.creation
    return InferredPlacement(
        line.placer.brokers, line.start, line.shift, _to_tuple(path.expansion_links), _to_tuple(path.miss_links)
    )


def _to_tuple(link: _Link | None) -> tuple[int, ...]:
    """Return the numbers of a linked list, in ascending order."""
    numbers: list[int] = []
    while link:
        numbers.append(link.number)
        link = link.previous
    return tuple(reversed(numbers))


def _is_plausible(path: _Path, max_cost: int) -> bool:
    """Return whether a path has no misses (with any number of expansions) or costs at most ``max_cost``."""
    return not path.misses or _cost(path)[0] <= max_cost


def _cost(path: _Path) -> tuple[int, int, int, int]:
    """Return the sort key of a path: cost, rank, start and shift; a smaller key is better.

    An expansion costs as much as several misses. Otherwise an expansion after each miss would match nearly any lists.
    """
    return path.misses + _EXPANSION_COST * path.expansions, path.rank, path.creation.start, path.creation.shift
