"""Spreads the replicas of one topic evenly over the brokers, by the fewest copies.

The fullest broker gives a replica to one that holds two fewer. If their lists or racks do not allow it directly, the
replica goes along the shortest chain of brokers. Leaders are then spread by swaps within a list, which copy nothing.
Four lists on brokers 1 to 3, and a broker 4 that has just joined::

    before   1,2   2,3   3,1   1,2      held  1: 3   2: 3   3: 2   4: 0
    after    4,2   4,3   3,1   1,2      held  1: 2   2: 2   3: 2   4: 2   (leaders are spread next)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from topiarist.kafka.types import Replicas
from topiarist.planning.moves.lists.replica_picker import ReplicaPicker


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


def is_uneven(lists: Sequence[Replicas], picker: ReplicaPicker) -> bool:
    """Return whether a broker holds more or less of a topic than Kafka's placement would leave it."""
    counts = Counter(broker for replicas in lists for broker in replicas)
    held = [counts[broker.id] for broker in picker.takers]
    return not kafka_bounds(lists, len(held)).contain(held)


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


class _Step(NamedTuple):
    partition: int
    giver: int
    taker: int


_FindSteps = Callable[[int, Sequence[int]], Iterator[_Step]]
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

    def _replacements(self, giver: int, takers: Sequence[int]) -> Iterator[_Step]:
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
                    yield _Step(partition, giver, taker)
                    break

    def _swaps(self, giver: int, takers: Sequence[int]) -> Iterator[_Step]:
        """Yield the swaps of a leader with another broker of the same list."""
        for partition, replicas in enumerate(self._lists):
            if replicas and replicas[0] == giver:
                yield from (_Step(partition, giver, taker) for taker in replicas[1:] if taker in takers)


def _find_chain(source: int, counts: Mapping[int, int], find_steps: _FindSteps) -> tuple[_Step, ...]:
    """Return the shortest chain of steps to a broker that has two fewer; empty if there is none."""
    chains: dict[int, tuple[_Step, ...]] = {source: ()}
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
