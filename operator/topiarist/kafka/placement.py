"""Kafka's placement of replicas: assigns brokers to the partitions of a new or growing topic.

This is Kafka's own algorithm (``AdminUtils.assignReplicasToBrokers``, the same from 2.4 to 3.9), quirks included, so
that the result is the same as if Kafka had placed the topic. ``planning/builder.py`` calls it with the registered
brokers; a plan shows the lists, and the writer writes exactly those lists.

The replicas of a partition depend only on the first broker and on the shift modulo ``brokers - 1``. A ``ReplicaPlacer``
keeps them as rows, one for each shift, one entry for each first broker, and slices the rows for a topic::

    brokers 0 to 4, three replicas         first  0      1      2      3      4
    partitions 0 to 4 of a new topic:  shift 0   0,1,2  1,2,3  2,3,4  3,4,0  4,0,1
    partitions 5 to 9:                 shift 1   0,2,3  1,3,4  2,4,0  3,0,1  4,1,2
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import zip_longest
from math import gcd
from typing import Literal, NamedTuple

from msgspec import Struct

from topiarist.kafka.types import INT_MAX, Broker, Replicas
from topiarist.text import format_count

MAX_REPLICATION_FACTOR = 32767

AssignmentErrorKind = Literal[
    "admin_operation",
    "broker_not_available",
    "illegal_argument",
    "invalid_partitions",
    "invalid_replica_assignment",
    "invalid_replication_factor",
]
"""The kinds of errors with which Kafka refuses a placement."""


class AssignmentError(ValueError):
    """An error for a placement that Kafka refuses: ``kind`` is for programs, the message (with numbers) for people."""

    def __init__(self, kind: AssignmentErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: AssignmentErrorKind = kind


def prepare_brokers(brokers: Sequence[Broker], mode: str) -> tuple[Broker, ...]:
    """Return the brokers for a placement, sorted by id, with racks by ``mode``: ``enforced``, ``safe`` or ``disabled``.

    ``disabled`` drops all racks. ``safe`` drops all racks if some broker has none. ``enforced`` (Kafka's default, and
    its only mode for an expansion) raises ``AssignmentError`` if only some brokers have racks.
    """
    ordered = tuple(sorted(brokers, key=_id))
    bare = [broker.id for broker in ordered if broker.rack is None]
    if mode == "disabled" or (mode == "safe" and bare):
        return tuple(Broker(broker.id) for broker in ordered)
    _require_complete_racks(bare, len(ordered))
    return ordered


def derive_start_and_shift(topic: str, brokers: Sized) -> tuple[int, int]:
    """Return the start and the shift for the placement of a new topic: both below the number of brokers.

    Kafka chooses them at random; this function derives them from the topic's name, so that repeated plans are equal.
    Never change this function: a plan reviewed before the change would differ from the plan that is applied.
    """
    digest = sha256(topic.encode()).digest()
    size = max(1, len(brokers))
    return int.from_bytes(digest[:8], "big") % size, int.from_bytes(digest[8:16], "big") % size


def assign_replicas(
    brokers: Sequence[Broker], partitions: int, *, replication_factor: int, start: int, shift: int, first: int = 0
) -> tuple[Replicas, ...]:
    """Return replica lists for ``partitions`` partitions, from partition id ``first`` (below 0 counts as 0).

    Without racks the order of ``brokers`` matters: ``prepare_brokers`` returns the right order. ``start`` and ``shift``
    may exceed the number of brokers. Raises ``AssignmentError`` as Kafka does and in Kafka's order: partitions,
    replication factor, racks on some brokers only.
    """
    placer = get_placer(tuple(brokers))
    return placer.assign_replicas(
        partitions, replication_factor=replication_factor, start=start, shift=shift, first=first
    )


def expand_assignment(brokers: Sequence[Broker], existing: Mapping[int, Replicas], total: int) -> tuple[Replicas, ...]:
    """Return replica lists for the new partitions of a topic that grows from ``len(existing)`` to ``total``.

    Kafka's own expansion: placement starts at the first broker with an id of at least that of partition 0's first
    replica; that index is also the shift. The replication factor is that of partition 0, even if other partitions
    differ. Existing partitions are never moved: only new ones are returned, the first with id ``len(existing)``.

    Raises ``AssignmentError`` if ``total`` is not larger than now, partition 0 is missing, or only some brokers have
    racks.
    """
    ordered = prepare_brokers(brokers, "enforced")
    count = len(existing)
    if 0 not in existing:
        raise AssignmentError("admin_operation", f"partition 0 is missing; found {count} others")
    if total <= count:
        message = f"found {total} as the new number of partitions, wanted more than the present {count}"
        raise AssignmentError("invalid_partitions", message)
    first_replicas = existing[0]
    start = expansion_start(ordered, first_replicas[0]) if first_replicas else 0
    return assign_replicas(
        ordered, total - count, replication_factor=len(first_replicas), start=start, shift=start, first=count
    )


def expansion_start(brokers: Sequence[Broker], leader: int) -> int:
    """Return the index in the id-sorted ``brokers`` of the first id that is at least ``leader``; 0 if there is none."""
    index = bisect_left(brokers, leader, key=_id)
    return index if index < len(brokers) else 0


def alternate_racks(brokers: Sequence[Broker]) -> tuple[int, ...]:
    """Return broker ids, one of each rack in turn: racks by name, ids ascending, without the brokers that have no rack.

    Racks 1: 0,5; 2: 3,4; 3: 1,2 give 0,3,1,5,4,2. Names compare as Java compares them, by 16-bit units.
    """
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=_id):
        if broker.rack is not None:
            by_rack.setdefault(broker.rack, []).append(broker.id)
    racks = sorted(by_rack, key=lambda rack: rack.encode("utf-16-be", "surrogatepass"))
    turns = zip_longest(*(by_rack[rack] for rack in racks))
    return tuple(broker for turn in turns for broker in turn if broker is not None)


class ReplicaPlacer:
    """A placer of replicas on one list of brokers, fast enough for thousands of topics.

    Rows are computed on first use and cached; topics share the returned replica lists.
    """

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self.brokers = tuple(brokers)
        self._brokers_without_rack = [broker.id for broker in brokers if broker.rack is None]
        names = {} if self._brokers_without_rack else {broker.id: broker.rack for broker in brokers}
        self.order = alternate_racks(brokers) if names else tuple(broker.id for broker in brokers)
        """The broker ids in placement order."""
        # One bit for each rack, so that the set of used racks is a number. The list is doubled, so that an index may
        # run past the end of the order without a modulo.
        bits = {rack: 1 << index for index, rack in enumerate(dict.fromkeys(names.values()))}
        self._rack_bits = [bits[names[broker]] for broker in self.order * 2] if names else []
        self._rack_count = len(bits) or 1
        self._period = self._find_period()
        self._rows: dict[int, dict[int, tuple[Replicas, ...]]] = {}

    def assign_replicas(
        self, partitions: int, *, replication_factor: int, start: int, shift: int, first: int = 0
    ) -> tuple[Replicas, ...]:
        """Return replica lists as the module's function ``assign_replicas`` does, for the brokers of this placer."""
        first = max(0, first)
        self._check_arguments(partitions, replication_factor)
        self._check_int_range(start, shift, first + partitions - 1, replication_factor)
        rows = self._rows.setdefault(replication_factor, {})
        size = len(self.order)
        steps = max(1, size - 1)
        turn, skip = divmod(first, size)
        # Kafka adds one to the shift at each partition id that is a multiple of the broker count, except at id 0.
        met = turn - (first - 1) // size if first else 0
        term, begin = (shift + met) * self._rack_count % steps, start % size
        result: list[Replicas] = []
        left = skip + partitions
        while left > 0:
            row = rows.get(term)
            if row is None:
                row = rows[term] = self._build_row(replication_factor, term)
            result += row[begin + skip : begin + (left if left < size else size)]
            left, skip, term = left - size, 0, (term + self._rack_count) % steps
        return tuple(result)

    @property
    def shift_count(self) -> int:
        """Return the number of shifts that give different lists; larger shifts repeat the same lists."""
        steps = max(1, len(self.order) - 1)
        return steps // gcd(self._rack_count, steps)

    def replicas_for(self, first: int, shift: int, width: int) -> Replicas:
        """Return the list of ``width`` replicas that begins with the broker at index ``first`` of the order.

        The list is empty if there are fewer brokers than ``width``. ``shift`` is the shift of this list, not of the
        topic.
        """
        size = len(self.order)
        if not 1 <= width <= size:
            return ()
        term = shift * self._rack_count % max(1, size - 1)
        more = self._find_offsets(first, term, width - 1)
        return (self.order[first], *(self.order[(first + offset) % size] for offset in more))

    def find_positions(self, replicas: Replicas) -> Iterator[tuple[int, int]]:
        """Yield the index of the first broker in the order, with each shift that gives exactly these replicas."""
        size, at = len(self.order), self._index_by_broker
        first = at.get(replicas[0]) if replicas else None
        if first is None or (len(replicas) > 1 and replicas[1] not in at):
            return
        terms = self._candidate_terms(first, (at[replicas[1]] - first) % size - 1) if len(replicas) > 1 else (0,)
        for shift in sorted(self._shift_by_term[term] for term in terms if term in self._shift_by_term):
            if self.replicas_for(first, shift, len(replicas)) == replicas:
                yield first, shift

    def _candidate_terms(self, first: int, last: int) -> Iterator[int]:
        """Yield the terms for which the search for the second replica ends at ``last``.

        These are ``last`` itself and the terms directly before it that are in the rack of the first replica, since the
        search skips a used rack.
        """
        yield last
        for back in range(1, len(self.order) - 1):
            term = (last - back) % (len(self.order) - 1)
            if self._rack_count == 1 or self._rack_bits[first] != self._rack_bits[first + 1 + term]:
                return
            yield term

    @cached_property
    def _index_by_broker(self) -> Mapping[int, int]:
        return {broker: index for index, broker in enumerate(self.order)}

    @cached_property
    def _shift_by_term(self) -> Mapping[int, int]:
        """Return the smallest shift for each reachable term."""
        steps = max(1, len(self.order) - 1)
        return {shift * self._rack_count % steps: shift for shift in range(self.shift_count)}

    def _check_arguments(self, partitions: int, replication_factor: int) -> None:
        if partitions < 1:
            raise AssignmentError("invalid_partitions", f"found {partitions} partitions, wanted 1 or more")
        size = len(self.order)
        most = min(size, MAX_REPLICATION_FACTOR)
        if not 1 <= replication_factor <= most:
            wanted = f"1 to {most}" if most > 1 else "1" if most else "a broker"
            able = f"{format_count(size, 'broker')} can take replicas"
            message = f"found replication factor {replication_factor}, wanted {wanted}: {able}"
            raise AssignmentError("invalid_replication_factor", message)
        _require_complete_racks(self._brokers_without_rack, size)

    def _check_int_range(self, start: int, shift: int, last: int, replication_factor: int) -> None:
        """Raise ``AssignmentError`` for numbers beyond Kafka's 32-bit arithmetic, or below 0.

        Kafka takes negative numbers as a request for random ones, which topiarist never makes.
        """
        reach = (shift + last // len(self.order)) * self._rack_count + max(0, replication_factor - 2)
        if min(start, shift) < 0 or max(start + last, reach) > INT_MAX:
            message = f"found start {start} and shift {shift}, wanted 0 or more, small enough for 32-bit arithmetic"
            raise AssignmentError("illegal_argument", message)

    def _build_row(self, replication_factor: int, term: int) -> tuple[Replicas, ...]:
        """Return the replica lists of one shift, by index of the first broker; repeated once, so that slices may wrap.

        ``term`` is the shift times the number of racks, modulo ``brokers - 1``.
        """
        size, period = len(self.order), self._period
        twice = self.order * 2
        row: list[Replicas] = [()] * size
        for first in range(period):
            offsets = (0, *self._find_offsets(first, term, replication_factor - 1))
            if period == size:
                row[first] = tuple([twice[first + offset] for offset in offsets])
            else:
                row[first::period] = zip(*(twice[first + o : first + o + size : period] for o in offsets), strict=True)
        return tuple(row * 2)

    def _find_offsets(self, first: int, term: int, count: int) -> list[int]:
        """Return the distances of the other replicas from the first broker in the order; unused racks are preferred."""
        steps = len(self.order) - 1
        if not self._rack_bits:
            return [1 + (term + step) % steps for step in range(count)]
        racks, every = self._rack_bits, (1 << self._rack_count) - 1
        used = racks[first]
        offsets: list[int] = []
        while len(offsets) < count:
            offset = 1 + term % steps
            rack = racks[first + offset]
            if (used == every or not used & rack) and offset not in offsets:
                offsets.append(offset)
                used |= rack
            term += 1
        return offsets

    def _find_period(self) -> int:
        """Return the number of positions after which the racks repeat.

        Offsets are the same for first brokers that are a period apart, so that only one period has to be computed.
        """
        size, period = len(self.order), self._rack_count
        even = size % period == 0 and self._rack_bits[:size] == self._rack_bits[:period] * (size // period)
        return period if even or not self._rack_bits else size


get_placer = lru_cache(maxsize=256)(ReplicaPlacer)
"""Return the placer of a tuple of brokers, cached: a run uses few lists of brokers for many topics."""


def _id(broker: Broker) -> int:
    return broker.id


def _require_complete_racks(without_rack: Sequence[int], size: int) -> None:
    if 0 < len(without_rack) < size:
        shown = ", ".join(map(str, without_rack[:10])) + (", ..." if len(without_rack) > 10 else "")
        message = (
            f"found {len(without_rack)} of {size} brokers without a rack ({shown}), "
            "wanted a rack on all of them or on none"
        )
        raise AssignmentError("admin_operation", message)


# Inference of a placement's start, shift and broker order from a topic's replica lists.
#
# This is the inverse of the placement above: Kafka stores replica lists only, not the parameters that gave them.
# ``inspection/describe.py`` uses it to report whether a topic still has Kafka's own placement.
#
# Three facts make the search short. The leaders of consecutive partitions are consecutive brokers of the order, so the
# leader of partition 0 gives the start. The second replica of a partition gives its shift. The shift grows by one with
# each full turn of the order, so a placement is one line of (start, shift). Each expansion begins a new line, and Kafka
# derives its start from the leader of partition 0::
#
#     brokers 0 to 4            partition  0    1    2    3    4    5    6    7
#     created with 6 from 3,    lists      3,0  4,1  0,2  1,3  2,4  3,1
#     then expanded to 8        lists                                   4,3  0,4
#                               shift      1    1    1    1    1    2    3    3
#
# The brokers at the creation may differ from the present ones. The candidates are, in this order: all brokers; all
# brokers except the excluded ones; the brokers in the lists; the cycle of leaders. The cycle has the brokers in the
# order of the lists, since a broker that serves a create request does not sort them.

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
