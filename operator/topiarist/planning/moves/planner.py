"""Plans the moves of one topic after the other: which kinds apply, in which order, where replicas go, and the sum.

Each kind starts with the lists that the one before it leaves; a plan shows only the lists before and after the sum. ::

    explicit lists (Assignment)                     replace all others
    drain -> factor -> racks -> spread              otherwise

The factor precedes the racks: a replica that a list gets, or loses, brings a rack that it lacks without another copy.
``topic`` beside this module calls it for each topic with its allowed kinds. The counts of replicas on each broker
contain the topics planned so far, so brokers get new replicas evenly over the whole plan. No function reads a clock or
a random number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from topiarist.kafka import placement
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.plan import Load, compute_broker_load
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.text import format_count

# Chooses a broker for one more replica: of a rack that the list lacks, the broker with the fewest replicas.
#
# ``raise_factor``, ``drain`` and ``repair_racks`` use one ``ReplicaPicker`` for all topics of a plan in turn, so that
# its counts have the replicas that earlier topics got. An example with equal counts, where the order of the brokers
# alternates racks and the search goes forward from the replaced broker 5::
#
#     order     1 (a)  3 (b)  5 (c)  2 (a)  4 (b)  6 (c)
#     list      1, 3, 5 without 5: the racks a and b are there, so c is preferred, and 6 is chosen

_UNIT = 1 << 32
"""More than any count of replicas, so that two counts fit into one number that compares like a pair."""


class ReplicaPicker:
    """A picker over the registered brokers; those in ``without`` take no replicas.

    ``lists`` has the number of each replica list of the cluster. Without racks each broker counts as a rack of its own;
    so does a broker that is not registered.
    """

    def __init__(
        self, brokers: Sequence[Broker], without: Collection[int] = (), lists: Mapping[Replicas, int] | None = None
    ) -> None:
        self.takers = tuple(broker for broker in sorted(brokers) if broker.id not in without)
        """The brokers that may take replicas, by id."""
        racked = all(broker.rack is not None for broker in brokers)
        self._has_racks = any(broker.rack is not None for broker in brokers)
        self._order = placement.alternate_racks(brokers) if racked else tuple(sorted(broker.id for broker in brokers))
        self._rack_by_broker: dict[int, str | int] = {
            broker.id: broker.id if broker.rack is None else broker.rack for broker in brokers
        }
        taking = {broker.id for broker in self.takers}
        self._taker_racks = frozenset(self.rack_of(broker) for broker in taking)
        self._turns = {
            broker: tuple(id_ for id_ in (*self._order[at + 1 :], *self._order[: at + 1]) if id_ in taking)
            for at, broker in enumerate(self._order)
        }
        self._default_turn = tuple(broker for broker in self._order if broker in taking)
        load = compute_broker_load(lists or {}, self._order)
        self._held = {broker: load[broker].replicas for broker in self._order}
        self._led = {broker: load[broker].leaders for broker in self._order}
        self._score = dict(self._held)
        self._topic_led: Counter[int] = Counter()
        self._uncounted: Iterable[Replicas] | None = None
        self._lacks_rack: dict[Replicas, bool] = {}

    def rack_of(self, broker: int) -> str | int:
        """Return the rack of a broker; its id if it has none or is not registered."""
        return self._rack_by_broker.get(broker, broker)

    def count_racks(self, replicas: Iterable[int]) -> int:
        """Return the number of different racks of a list."""
        return len({self.rack_of(broker) for broker in replicas})

    def lacks_rack(self, replicas: Replicas) -> bool:
        """Return whether a list has fewer racks than it could have."""
        if not self._has_racks:  # each broker is a rack of its own
            racks = len(set(replicas))
            return racks < len(replicas) and racks < self.count_available_racks(replicas)
        lacks = self._lacks_rack.get(replicas)
        if lacks is None:  # few lists of a cluster are distinct
            lacks = self.count_racks(replicas) < self.count_available_racks(replicas)
            self._lacks_rack[replicas] = lacks
        return lacks

    def count_available_racks(self, replicas: Replicas) -> int:
        """Return the number of racks that a list of this length can have at most."""
        return min(len(replicas), len(self._taker_racks.union(map(self.rack_of, replicas))))

    def begin_topic(self, lists: Iterable[Replicas]) -> None:
        """Count the lists of the next topic, which the cluster's counts contain already."""
        self._uncounted = lists  # most topics need no other replica, so their lists are counted at the first change

    def _count_topic(self) -> None:
        if self._uncounted is None:
            return
        lists, self._uncounted = self._uncounted, None
        self._score = dict(self._held)
        self._topic_led = Counter()
        for replicas in lists:
            if replicas:
                self._topic_led[replicas[0]] += 1
            for broker in replicas:
                if broker in self._score:
                    self._score[broker] += _UNIT

    def require_takers(self, kept: Collection[int], width: int) -> None:
        """Raise ``AssignmentError`` if ``kept`` cannot become a list of this width; call it before the first ``pick``.

        A topic that is refused must not change the counts for the topics after it.
        """
        if len({*kept, *self._default_turn}) < width:
            raise too_few_brokers_error(width, len(self.takers))

    def pick(self, kept: Collection[int], origin: int, *, leads: bool = False) -> int:
        """Return the broker for one more replica beside ``kept``, and count it.

        The first broker after ``origin`` with the fewest replicas: of the topic, then of the cluster. If it ``leads``,
        led partitions count before replicas. Raises ``AssignmentError`` if every broker is in ``kept``.
        """
        self._count_topic()
        turn = self._turns.get(origin, self._default_turn)
        racks = {self.rack_of(broker) for broker in kept}
        candidates = [broker for broker in turn if self._rack_by_broker[broker] not in racks]
        candidates = candidates or [broker for broker in turn if broker not in kept]
        if not candidates:
            raise too_few_brokers_error(len(kept) + 1, len(turn))
        chosen = min(candidates, key=self._leader_key if leads else self._score.__getitem__)
        self.add(chosen, leads=leads)
        return chosen

    def remove(self, broker: int, *, leads: bool = False) -> None:
        """Subtract a replica that its list no longer has."""
        self._count_topic()
        if broker in self._held:
            self._held[broker] -= 1
            self._score[broker] -= _UNIT + 1
            self._led[broker] -= leads
            self._topic_led[broker] -= leads

    def add(self, broker: int, *, leads: bool = False) -> None:
        """Count a replica that was chosen without ``pick``."""
        self._count_topic()
        if broker in self._held:
            self._held[broker] += 1
            self._score[broker] += _UNIT + 1
            self._led[broker] += leads
            self._topic_led[broker] += leads

    def load(self) -> dict[int, Load]:
        """Return the counts of the registered brokers."""
        return {broker: Load(self._led[broker], self._held[broker]) for broker in sorted(self._order)}

    def _leader_key(self, broker: int) -> tuple[int, int, int, int]:
        topic_held, held = divmod(self._score[broker], _UNIT)
        return self._topic_led[broker], topic_held, self._led[broker], held


def too_few_brokers_error(width: int, takers: int) -> placement.AssignmentError:
    """Return the error for a list that needs more brokers than there are."""
    able = f"{format_count(takers, 'broker')} can take replicas"
    return placement.AssignmentError(
        "invalid_replication_factor", f"found {format_count(width, 'replica')} for one partition, but {able}"
    )


# Drains brokers: another broker takes the position of each of their replicas, and nothing else changes.
#
# Brokers 1 to 5 without racks, broker 5 drained::
#
#     before   1,2,3   2,3,4   3,4,5   4,5,1   5,1,2
#     after    1,2,3   2,3,4   3,4,1   4,2,1   3,1,2


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


# Another replication factor: which replicas a list gets, or loses.
#
# A topic that lies as Kafka would place it continues Kafka's own sequence, and is then what Kafka would have made at
# the higher factor. Another topic gets brokers by racks and counts. Brokers 0 to 4, factor 3 to 4, by sequence::
#
#     partition   0          1          2          3          4          5
#     before      0,1,2      1,2,3      2,3,4      3,4,0      4,0,1      0,2,3
#     after       0,1,2,3    1,2,3,4    2,3,4,0    3,4,0,1    4,0,1,2    0,2,3,4
#
# A list keeps its replicas and their order when it is raised. A list that is lowered keeps its first replica, the
# preferred leader, and as many racks as it can.


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
        placer = placement.get_placer(placement.prepare_brokers(takers, rack_mode))
    except placement.AssignmentError:
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


# Repairs racks: a list gets as many different racks as it can have, by the fewest copies.
#
# Kafka's own placement guarantees that many and no more, so nothing stricter is asked. Racks a: 1, 4; b: 2, 5; c: 3,
# 6::
#
#     before   1,2,4   (a, b, a)      the last replica of a rack that the list has twice is replaced, never the first
#     after    1,2,6   (a, b, c)


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


# Spreads the replicas of one topic evenly over the brokers, by the fewest copies.
#
# The fullest broker gives a replica to one that holds two fewer. If their lists or racks do not allow it directly, the
# replica goes along the shortest chain of brokers. Leaders are then spread by swaps within a list, which copy nothing.
# Four lists on brokers 1 to 3, and a broker 4 that has just joined::
#
#     before   1,2   2,3   3,1   1,2      held  1: 3   2: 3   3: 2   4: 0
#     after    4,2   4,3   3,1   1,2      held  1: 2   2: 2   3: 2   4: 2   (leaders are spread next)


class SpreadBounds(NamedTuple):
    """The numbers of replicas between which Kafka's own placement leaves every broker."""

    least: int
    most: int

    def contain(self, held: Sequence[int]) -> bool:
        """Return whether all counts are within the bounds."""
        return all(self.least <= count <= self.most for count in held)


def kafka_bounds(lists: Sequence[Replicas], brokers: int) -> SpreadBounds:
    """Return the bounds for these lists on so many brokers."""
    widths = [len(replicas) for replicas in lists] or [0]
    fewest, extra = divmod(len(lists), max(brokers, 1))
    return SpreadBounds(min(widths) * fewest, max(widths) * (fewest + bool(extra)))


def spread(lists: Sequence[Replicas], picker: ReplicaPicker, *, within_one: bool = False) -> tuple[Replicas, ...]:
    """Return the lists, spread to Kafka's bounds; ``within_one`` goes on until no two brokers differ by two.

    Only brokers that may take replicas give any. No list loses a rack, and none gets a broker twice. ``picker`` has
    begun the topic.
    """
    after = _TopicSpread(lists, picker).run(within_one)
    for old, new in zip(lists, after, strict=True):
        if old != new:
            _count_change(old, new, picker)
    return after


def _count_change(old: Replicas, new: Replicas, picker: ReplicaPicker) -> None:
    """Give the picker the counts of a changed list, for the topics that are planned next."""
    for at, broker in enumerate(old):
        picker.remove(broker, leads=at == 0)
    for at, broker in enumerate(new):
        picker.add(broker, leads=at == 0)


def can_spread_replicas(lists: Sequence[Replicas], picker: ReplicaPicker) -> bool:
    """Return whether a chain of replacements leads from a broker to one that holds two replicas fewer."""
    return _TopicSpread(lists, picker).has_replacements()


def can_spread_leaders(lists: Sequence[Replicas], picker: ReplicaPicker) -> bool:
    """Return whether a chain of swaps leads from a broker to one that leads two partitions fewer."""
    return _TopicSpread(lists, picker).has_swaps()


class _SpreadStep(NamedTuple):
    partition: int
    giver: int
    taker: int


_FindSteps = Callable[[int, Sequence[int]], Iterator[_SpreadStep]]
"""Yields the steps from a giver to takers, the preferred step first; takers with the fewest replicas come first."""


class _TopicSpread:
    """The lists of one topic while they are spread."""

    def __init__(self, lists: Sequence[Replicas], picker: ReplicaPicker) -> None:
        self._before = tuple(lists)
        self._lists = list(lists)
        self._picker = picker
        self._brokers = [broker.id for broker in picker.takers]
        self._bounds = kafka_bounds(lists, len(self._brokers))

    def run(self, within_one: bool) -> tuple[Replicas, ...]:
        """Return the lists after both parts: replicas, then leaders."""
        held = self._count_held()
        while within_one or not self._bounds.contain([*held.values()]):
            if not self._apply(held, self._replacements):
                break
        led = self._count_led()
        while self._apply(led, self._swaps):
            pass
        return tuple(self._lists)

    def has_replacements(self) -> bool:
        """Return whether replicas can be spread more evenly; it carries out one chain if so."""
        return self._apply(self._count_held(), self._replacements)

    def has_swaps(self) -> bool:
        """Return whether leaders can be spread more evenly; it carries out one chain if so."""
        return self._apply(self._count_led(), self._swaps)

    def _count_held(self) -> dict[int, int]:
        return self._count(broker for replicas in self._lists for broker in replicas)

    def _count_led(self) -> dict[int, int]:
        return self._count(replicas[0] for replicas in self._lists if replicas)

    def _count(self, brokers: Iterable[int]) -> dict[int, int]:
        counts = Counter(brokers)
        return {broker: counts[broker] for broker in self._brokers}

    def _apply(self, counts: dict[int, int], find_steps: _FindSteps) -> bool:
        """Carry out one chain from the fullest broker that has one; return whether there is any."""
        fewest = min(counts.values(), default=0)
        for source in sorted(counts, key=lambda broker: (-counts[broker], broker)):
            if counts[source] < fewest + 2:
                break
            if chain := _find_chain(source, counts, find_steps):
                for partition, giver, taker in chain:
                    swapped = {giver: taker, taker: giver}
                    self._lists[partition] = tuple(swapped.get(id_, id_) for id_ in self._lists[partition])
                counts[source] -= 1
                counts[chain[-1].taker] += 1
                return True
        return False

    def _replacements(self, giver: int, takers: Sequence[int]) -> Iterator[_SpreadStep]:
        """Yield the legal replacements of a broker, for each taker in the partition that has changed least."""
        rack_of = self._picker.rack_of
        places = []
        for partition, replicas in enumerate(self._lists):
            if giver in replicas:
                kept = {rack_of(broker) for broker in replicas if broker != giver}
                changes = len(set(replicas).difference(self._before[partition]))
                places.append((changes, partition, replicas, kept if rack_of(giver) not in kept else ()))
        places.sort(key=lambda place: place[:2])
        for taker in takers:
            for _, partition, replicas, racks in places:
                if taker not in replicas and rack_of(taker) not in racks:
                    yield _SpreadStep(partition, giver, taker)
                    break

    def _swaps(self, giver: int, takers: Sequence[int]) -> Iterator[_SpreadStep]:
        """Yield the swaps of a leader with another broker of the same list."""
        for partition, replicas in enumerate(self._lists):
            if replicas and replicas[0] == giver:
                yield from (_SpreadStep(partition, giver, taker) for taker in replicas[1:] if taker in takers)


def _find_chain(source: int, counts: Mapping[int, int], find_steps: _FindSteps) -> tuple[_SpreadStep, ...]:
    """Return the shortest chain of steps to a broker that has two fewer; empty if there is none."""
    chains: dict[int, tuple[_SpreadStep, ...]] = {source: ()}
    queue = [source]
    takers = sorted(counts, key=lambda broker: (counts[broker], broker))
    for giver in queue:
        used = {step.partition for step in chains[giver]}
        for step in find_steps(giver, takers):
            # Each step was found in the present lists, so a chain changes no partition twice.
            if step.taker in chains or step.partition in used:
                continue
            chains[step.taker] = (*chains[giver], step)
            if counts[step.taker] <= counts[source] - 2:
                return chains[step.taker]
            queue.append(step.taker)
    return ()


_Step = Callable[[tuple[Replicas, ...]], tuple[Replicas, ...]]


class MovePlanner:
    """The moves of one plan.

    ``without`` are the brokers that take no replicas, drained ones included; ``count_lists`` returns the number of each
    replica list of the cluster; None if not all topics are known: each topic is then planned by itself.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        brokers: Sequence[Broker],
        without: Collection[int],
        count_lists: Callable[[], Counter[Replicas]] | None,
    ) -> None:
        self.drained = cluster.drain_brokers
        self._rack_mode = cluster.rack_mode
        self._brokers = brokers
        self._without = without
        self._count_lists = count_lists

    @cached_property
    def _shared_picker(self) -> ReplicaPicker | None:
        return ReplicaPicker(self._brokers, self._without, self._count_lists()) if self._count_lists else None

    def plan_moves(
        self, spec: TopicSpec, partitions: Sequence[int], lists: tuple[Replicas, ...], kinds: Collection[MoveKind]
    ) -> tuple[ReplicaMove, ...]:
        """Return the moves of a topic, sorted by partition; empty if its lists are as they should be.

        ``lists`` are the present replicas of ``partitions``. Raises ``AssignmentError`` if a list cannot be made.
        """
        after, reasons = lists, dict[int, tuple[MoveKind, ...]]()
        for kind, step in self._steps(spec, partitions, lists, kinds):
            before, after = after, step(after)
            if after is before or after == before:
                continue
            for at, (old, new) in enumerate(zip(before, after, strict=True)):
                if old != new:
                    reasons[at] = (*reasons.get(at, ()), kind)
        return tuple(
            ReplicaMove(spec.topic, partitions[at], lists[at], after[at], reasons[at])
            for at in sorted(reasons)
            if lists[at] != after[at]
        )

    def _steps(
        self, spec: TopicSpec, partitions: Sequence[int], lists: tuple[Replicas, ...], kinds: Collection[MoveKind]
    ) -> Sequence[tuple[MoveKind, _Step]]:
        if spec.assignment is not None:
            wanted = spec.assignment
            return [
                (kind, lambda lists: tuple(map(_listed(wanted), partitions, lists)))
                for kind in kinds
                if kind is MoveKind.ASSIGNMENT
            ]
        picker = self._shared_picker or ReplicaPicker(self._brokers, self._without, Counter(lists))
        factor = spec.replication_factor
        picker.begin_topic(lists)
        steps: dict[MoveKind, _Step] = {
            MoveKind.DRAIN: lambda lists: drain(lists, self.drained, picker),
            MoveKind.RACKS: lambda lists: repair_racks(lists, picker),
            MoveKind.SPREAD: lambda lists: spread(lists, picker, within_one=spec.spread_within_one),
        }
        if factor is not None:
            steps[MoveKind.FACTOR] = lambda lists: self._change_factor(spec, lists, factor, picker)
        if not self.drained:
            del steps[MoveKind.DRAIN]
        return [(kind, steps[kind]) for kind in MoveKind if kind in kinds and kind in steps]

    def _change_factor(
        self, spec: TopicSpec, lists: tuple[Replicas, ...], factor: int, picker: ReplicaPicker
    ) -> tuple[Replicas, ...]:
        if any(len(replicas) < factor for replicas in lists):
            start_and_shift = self._derive_start_and_shift(spec.topic, picker)
            lists, _ = raise_factor(lists, factor, picker, rack_mode=self._rack_mode, start_and_shift=start_and_shift)
        return lower_factor(lists, factor, picker)

    def _derive_start_and_shift(self, topic: str, picker: ReplicaPicker) -> tuple[int, int] | None:
        try:
            return placement.derive_start_and_shift(topic, placement.prepare_brokers(picker.takers, self._rack_mode))
        except placement.AssignmentError:
            return None


def _listed(wanted: Sequence[Replicas]) -> Callable[[int, Replicas], Replicas]:
    """Return the function from a partition and its present replicas to the list of the manifest, if it has one."""
    return lambda partition, present: wanted[partition] if partition < len(wanted) else present
