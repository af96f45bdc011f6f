"""Infers the start, the shift and the broker order of a topic's placement from its replica lists.

The inverse of ``assignment``: Kafka stores replica lists only, not how it made them. Two callers need to know:
``describe`` says whether a topic lies as Kafka placed it, and a change of the replication factor continues the same
sequence.

Three facts make the search short. The leaders of consecutive partitions are consecutive brokers of the order, so the
leader of partition 0 gives the start. The second replica of a partition gives its shift. The shift grows by one with
each full turn of the order, so a placement is one line of (start, shift), and each expansion begins a new line whose
start Kafka derives from the leader of partition 0::

    brokers 0 to 4            partition  0    1    2    3    4    5    6    7
    created with 6 from 3,    lists      3,0  4,1  0,2  1,3  2,4  3,1
    then expanded to 8        lists                                   4,3  0,4
                              shift      1    1    1    1    1    2    3    3

The brokers of today need not be those of the creation. The candidates are, in this order: all brokers; all brokers
less those that get no new replicas; the brokers that the lists name; the cycle of brokers that lead. The cycle has the
brokers in the order of the lists: a broker that serves a create request does not sort them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from topiarist.core.assignment import Placement, expansion_start, placement_brokers
from topiarist.core.state import Broker, Replicas

_MAX_LINES = 4
"""Candidate lines of a creation that are followed where no line fits all lists: those that most lists vote for."""

_EXPANSION_COST = 3

Lists = Sequence[Replicas]


@dataclass(frozen=True, slots=True)
class Inferred:
    """The placement that comes closest to a topic's replica lists.

    ``brokers`` are what ``assign`` takes, with racks only if racks count: with ``start`` and ``shift`` it gives the
    lists up to the first partition of ``grown``, the first partitions of the expansions after the creation.
    ``differing`` are the partitions with other lists; there are none if the placement is exact.
    """

    brokers: tuple[Broker, ...]
    start: int
    shift: int
    grown: tuple[int, ...] = ()
    differing: tuple[int, ...] = ()

    @property
    def first(self) -> int:
        """The broker that the placement starts from."""
        return self.order[self.start]

    @property
    def order(self) -> Replicas:
        """The ids of the brokers, in the order of the placement."""
        return _placement(self.brokers).order

    @property
    def rack_aware(self) -> bool:
        """Whether racks count."""
        return any(broker.rack is not None for broker in self.brokers)


class _Line(NamedTuple):
    """Consecutive partitions of one placement: ``start`` and ``shift`` are those that partition 0 would have."""

    placement: Placement
    start: int
    shift: int

    def gives(self, partition: int, replicas: Replicas) -> bool:
        """Return whether the line has exactly these replicas for a partition. Most differ in the leader already."""
        order = self.placement.order
        first = (self.start + partition) % len(order)
        if not replicas or order[first] != replicas[0]:
            return False
        # The shift grows where the partition id, not the place in the order, is a multiple of the broker count.
        return self.placement.replicas(first, self.shift + partition // len(order), len(replicas)) == replicas


class _Link(NamedTuple):
    """A list that paths share: its last number, and the numbers before it."""

    number: int
    before: _Link | None


class _Path(NamedTuple):
    """A way to explain all partitions so far; ``rank`` is that of the candidate for the creation."""

    misses: int
    expansions: int
    rank: int
    creation: _Line
    missed: _Link | None = None
    grown: _Link | None = None


def infer(brokers: Iterable[Broker], lists: Lists, *, without: Collection[int] = ()) -> Inferred | None:
    """Infer the exact placement of ``lists`` (partition 0 first); None if no placement gives all of them.

    ``brokers`` are the registered ones, ``without`` those of them that get no new replicas. Of several placements that
    fit, returns the one with the fewest expansions, then the first candidate, then the smallest shift; one over
    ``brokers`` is preferred to all others. Lists may differ in width: each is compared with the placement at its own
    width.
    """
    if not lists or not all(lists):
        return None
    known = _known(tuple(brokers), frozenset(without))
    if found := _exact(known, lists):
        return found
    more = _others(known, lists)
    return _exact((*known, *more), lists) if more else None


def nearest(brokers: Iterable[Broker], lists: Lists, *, without: Collection[int] = ()) -> Inferred | None:
    """Infer the placement that most of ``lists`` follow; None if half of them or more differ from each.

    See ``infer``, which is tried first.
    """
    known = tuple(brokers)
    if found := infer(known, lists, without=without):
        return found
    most = (len(lists) - 1) // 2
    candidates = _known(known, frozenset(without))
    if not most or not any(lists):
        return None
    return _follow(candidates, lists, most) or _follow((*candidates, *_others(candidates, lists)), lists, most)


@lru_cache(maxsize=16)
def _known(brokers: tuple[Broker, ...], without: frozenset[int]) -> tuple[Placement, ...]:
    """Return the placements over all brokers, and over those that get new replicas."""
    sets = (brokers, tuple(broker for broker in brokers if broker.id not in without))
    found = [order for chosen in sets if chosen for order in _orders(chosen)]
    return tuple(_placement(order) for order in dict.fromkeys(found))


def _others(known: Sequence[Placement], lists: Lists) -> Sequence[Placement]:
    """Return the placements over the brokers of the lists, and over the cycle of their leaders."""
    racks = {broker.id: broker for placement in known for broker in placement.brokers if broker.rack is not None}
    cycle = _cycle(lists)
    sets = ({broker for replicas in lists for broker in replicas}, set(cycle))
    found = [order for ids in sets for order in _orders([racks.get(one, Broker(one)) for one in ids])]
    found.append(tuple(map(Broker, _from_smallest(cycle))))
    return [made for order in dict.fromkeys(found) if order and (made := _placement(order)) not in known]


def _exact(candidates: Sequence[Placement], lists: Lists) -> Inferred | None:
    created = (_created(placement, lists) for placement in candidates)
    return next(filter(None, created), None) or _follow(candidates, lists, most=0)


def _orders(brokers: Sequence[Broker]) -> Iterator[tuple[Broker, ...]]:
    """Yield the brokers as Kafka sorts them: with racks if all have one, and without."""
    if brokers and all(broker.rack is not None for broker in brokers):
        yield placement_brokers(brokers, "enforced")
    yield placement_brokers(brokers, "disabled")


def _cycle(lists: Lists) -> Replicas:
    """Return the leaders up to the first one that leads again."""
    leaders: dict[int, None] = {}
    for replicas in lists:
        if not replicas or replicas[0] in leaders:
            break
        leaders[replicas[0]] = None
    return tuple(leaders)


def _from_smallest(cycle: Replicas) -> Replicas:
    """Return the cycle from its smallest id on: where the order began is not known, and makes no difference."""
    at = cycle.index(min(cycle)) if cycle else 0
    return cycle[at:] + cycle[:at]


_placement = lru_cache(maxsize=256)(Placement)


def _created(placement: Placement, lists: Lists) -> Inferred | None:
    """Infer a placement without expansions; None if there is none, or if lists differ in width."""
    width = len(lists[0])
    for start, shift in _starts(placement, 0, lists[0]):
        if placement.assign(len(lists), replication_factor=width, start=start, shift=shift) == tuple(lists):
            return Inferred(placement.brokers, start, shift)
    return None


def _starts(placement: Placement, partition: int, replicas: Replicas) -> Iterator[tuple[int, int]]:
    """Yield each start and shift of a creation that gives this partition these replicas."""
    size = len(placement.order)
    for first, shift in placement.origins(replicas):
        yield (first - partition) % size, (shift - partition // size) % placement.shifts


def _follow(candidates: Sequence[Placement], lists: Lists, most: int) -> Inferred | None:
    """Find the cheapest explanation by lines, partition by partition; None if all cost more than ``most``.

    A path continues its line, or begins an expansion. Paths that are on the same line differ in the past only, so the
    cheapest of them is kept. See ``_plausible`` for ``most``.
    """
    paths: dict[_Line, _Path] = {}
    for rank, line in _creations(candidates, lists, most):
        miss = not line.gives(0, lists[0])
        path = _Path(int(miss), 0, rank, line, _Link(0, None) if miss else None)
        paths[line] = min(path, paths.get(line, path), key=_cost)
    growing = [made for made in candidates if lists[0] and made.brokers == tuple(sorted(made.brokers, key=_id))]
    for partition, replicas in enumerate(lists[1:], 1):
        if not paths:
            return None
        expansions = list(_expansions(growing, lists, partition, min(paths.values(), key=_cost)))
        paths = dict(_continued(paths, partition, replicas, most))
        for line, path in expansions:
            if _plausible(path, most):
                paths[line] = min(path, paths.get(line, path), key=_cost)
    return _inferred(min(paths.values(), key=_cost)) if paths else None


def _creations(candidates: Sequence[Placement], lists: Lists, most: int) -> Iterator[tuple[int, _Line]]:
    """Yield the lines that a creation may have: those of partition 0, or if it may differ, those with most votes."""
    votes: Counter[tuple[int, int, int]] = Counter()
    for rank, placement in enumerate(candidates):
        for partition, replicas in enumerate(lists if most else lists[:1]):
            votes.update((rank, *line) for line in _starts(placement, partition, replicas))
    ordered = sorted(votes, key=lambda line: (-votes[line], line))
    for rank, start, shift in ordered[:_MAX_LINES] if most else ordered:
        yield rank, _Line(candidates[rank], start, shift)


def _expansions(
    sorted_candidates: Sequence[Placement], lists: Lists, partition: int, base: _Path
) -> Iterator[tuple[_Line, _Path]]:
    """Yield the lines of an expansion that begins at ``partition`` and gives it its replicas.

    Kafka's shift is the start, and grows from there: not from where the creation stopped.
    """
    for placement in sorted_candidates:
        start = expansion_start(placement.brokers, lists[0][0])
        line = _Line(placement, start, (start - (partition - 1) // len(placement.order)) % placement.shifts)
        if line.gives(partition, lists[partition]):
            yield line, base._replace(expansions=base.expansions + 1, grown=_Link(partition, base.grown))


def _continued(
    paths: Mapping[_Line, _Path], partition: int, replicas: Replicas, most: int
) -> Iterator[tuple[_Line, _Path]]:
    """Yield the paths that stay on their lines at ``partition``, with the misses that this costs."""
    for line, path in paths.items():
        if line.gives(partition, replicas):
            yield line, path
        elif _plausible(missed := path._replace(misses=path.misses + 1, missed=_Link(partition, path.missed)), most):
            yield line, missed


def _id(broker: Broker) -> int:
    return broker.id


def _inferred(path: _Path) -> Inferred:
    line = path.creation
    return Inferred(line.placement.brokers, line.start, line.shift, _unlinked(path.grown), _unlinked(path.missed))


def _unlinked(link: _Link | None) -> tuple[int, ...]:
    """Return the numbers of a linked list, in ascending order."""
    numbers: list[int] = []
    while link:
        numbers.append(link.number)
        link = link.before
    return tuple(reversed(numbers))


def _plausible(path: _Path, most: int) -> bool:
    """Return whether a path explains enough: without misses, however often the topic was expanded, or at this cost."""
    return not path.misses or _cost(path)[0] <= most


def _cost(path: _Path) -> tuple[int, int, int, int]:
    """Return what to compare two paths by: the smaller one is better.

    An expansion counts as several misses. Otherwise nearly any lists would be explained by one after each miss.
    """
    return path.misses + _EXPANSION_COST * path.expansions, path.rank, path.creation.start, path.creation.shift
