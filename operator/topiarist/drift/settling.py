"""The topics of a cluster that are equal to their specs as stored: counted while its snapshot is read, and dropped.

They are nearly all. What is found of one spec and one text of a snapshot is known on every cluster that shares the
spec, so that most topics cost a few look-ups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from topiarist.adapters.snapshot import Lists, Rest, Size
from topiarist.core.alike import Specs
from topiarist.core.spec import TopicSpec
from topiarist.core.state import Replicas
from topiarist.drift import stored
from topiarist.drift.unevenness import Sighting, sized


class _Wanted:
    """A spec that clusters share; what else is found of it is kept by the object, not by its value."""

    __slots__ = ("spec",)

    def __init__(self, spec: TopicSpec) -> None:
        self.spec = spec


class _Verdict:
    """What is known of a spec and all of a topic but its replicas; ``sizes`` has what is equal of those seen so far."""

    __slots__ = ("_least", "_spec", "differs", "recorded", "sizes")

    def __init__(self, spec: TopicSpec, rest: Rest, owner: str) -> None:
        self.differs = not stored.equal_but_for_replicas(spec, rest.row, owner)
        self.recorded = stored.recorded(spec, rest.row)
        self.sizes: dict[Size, Sighting | None] = {}
        self._spec, self._least = spec, stored.least_replicas(rest.row)

    def sized(self, size: Size) -> Sighting | None:
        """The topic as it is compared between clusters, if it is equal with this size; else None."""
        if size not in self.sizes:
            same = stored.equal_size(self._spec, size, self._least)
            self.sizes[size] = sized(self._spec, size.partitions, size.widths) if same else None
        return self.sizes[size]


class Settler:
    """Settles topics for the clusters of one fleet and one owner."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._wanted: dict[int, tuple[Sequence[TopicSpec], dict[str, _Wanted]]] = {}

    def cluster(self, specs: Sequence[TopicSpec]) -> Settled:
        """For one cluster, of which nothing is known yet."""
        shared = specs.shared if isinstance(specs, Specs) else tuple(specs)
        # Kept beside what is made of them, so that no others can have their number.
        known = self._wanted.setdefault(id(shared), (shared, {}))[1]
        if not known:
            known.update((spec.topic, _Wanted(spec)) for spec in shared)
        return Settled(self.owner, known)


class Settled:
    """The topics of one cluster that are equal as stored: their names, and what a report counts of them."""

    __slots__ = ("_owner", "_wanted", "lists", "names", "sightings", "unrecorded")

    def __init__(self, owner: str = "", wanted: Mapping[str, _Wanted] | None = None) -> None:
        self._owner = owner
        self._wanted = {} if wanted is None else wanted
        self.names: set[str] = set()
        self.lists: list[Lists] = []
        self.sightings: list[Sighting] = []
        self.unrecorded = 0

    def settle(self, topic: str, lists: Lists, rest: Rest) -> bool:
        """Whether a topic is equal to its spec as stored: it is counted then."""
        wanted = self._wanted.get(topic)
        if wanted is None:
            return False
        verdict: _Verdict | None = rest.known.get(wanted)
        if verdict is None:
            verdict = rest.known[wanted] = _Verdict(wanted.spec, rest, self._owner)
        if verdict.differs or not (found := verdict.sizes.get(lists.size) or verdict.sized(lists.size)):
            return False
        if wanted.spec.assignment is not None and not stored.equally_placed(wanted.spec, lists):
            return False
        self.names.add(topic)
        self.lists.append(lists)
        self.sightings.append(found)
        self.unrecorded += not verdict.recorded
        return True

    def left(self, specs: Sequence[TopicSpec]) -> Sequence[TopicSpec]:
        """Those of the specs whose topics are not settled, in their order."""
        if not self.names:
            return specs
        names = sorted(self._wanted.keys() - self.names)
        left = (self._wanted[name].spec for name in names)
        return [*map(specs.own, left)] if isinstance(specs, Specs) else [*left]

    def holders(self) -> frozenset[int]:
        """The brokers that hold any of these topics."""
        return frozenset(chain.from_iterable(each.brokers for each in set(self.lists)))

    def replicas(self) -> Counter[Replicas]:
        """How often each replica list occurs."""
        found: Counter[Replicas] = Counter()
        for lists, times in Counter(self.lists).items():
            for ids in lists.replicas:
                found[ids] += times
        return found
