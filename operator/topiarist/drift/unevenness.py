"""What only a fleet shows: topics that are not the same on all clusters of one manifest, and brokers with too much.

A manifest may ask for differences by overrides; only what it does not ask for is uneven. Of each topic what is seen of
it is kept once, with how many clusters have it and the names of the first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from topiarist.core.change import Load
from topiarist.core.differences import THROTTLES
from topiarist.core.sizes import widths
from topiarist.core.spec import TopicSpec
from topiarist.core.state import TopicState

MOST = 1000
"""Uneven topics that a summary shows."""

MOST_CLUSTERS = 100
"""Clusters of one value that it names."""

_TOO_MUCH = 0.2
"""Share of the mean that a broker may have more than it."""


class Shape(NamedTuple):
    """What of a topic may be compared between clusters; None where a spec does not say it."""

    partitions: str | None
    factor: str | None
    config: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """A topic of a manifest as it is on some clusters, and what is asked of it there."""

    topic: str
    manifest: str
    asked: Shape
    there: Shape


class Value(NamedTuple):
    """One value of an uneven field: how many clusters have it, and the first of these by name."""

    value: str | None
    number: int
    clusters: tuple[str, ...]


class Uneven(NamedTuple):
    """One field of one topic that has several values, the most frequent first."""

    topic: str
    manifest: str
    field: str
    values: tuple[Value, ...]


class Fleet:
    """All topics of a report as they are on their clusters, which come in order of name: how many there are of each
    sighting, and no more names than are shown, so that a fleet of many clusters takes no more memory.
    """

    def __init__(self) -> None:
        self._numbers: Counter[Sighting] = Counter()
        self._names: defaultdict[Sighting, list[str]] = defaultdict(list)

    def add(self, cluster: str, spec: TopicSpec, topic: TopicState | None) -> None:
        """Remember a topic of a cluster, if it is declared and there."""
        if one := sighting(spec, topic):
            self.note(cluster, [one])

    def note(self, cluster: str, sightings: Collection[Sighting]) -> None:
        """Remember what has been seen on a cluster; quickest where sightings are the same objects everywhere."""
        self._numbers.update(sightings)
        names = self._names
        for one in sightings:
            if len(first := names[one]) < MOST_CLUSTERS:
                first.append(cluster)

    def note_all(self, one: Sighting, clusters: Sequence[str]) -> None:
        """Remember what has been seen in the same way on many clusters, in order of name."""
        if clusters:  # a key without clusters would be a value that none has
            self._numbers[one] += len(clusters)
            self._names[one].extend(clusters[:MOST_CLUSTERS])

    def uneven(self) -> Iterator[Uneven]:
        """Each field of each topic that is uneven, in order of topic, manifest and field."""
        topics: defaultdict[tuple[str, str], list[Sighting]] = defaultdict(list)
        for one in self._numbers:
            topics[one.topic, one.manifest].append(one)
        for (topic, manifest), seen in sorted(topics.items()):
            shapes = {one.there for one in seen}
            fields = set(chain.from_iterable(map(_fields, shapes))) if len(shapes) > 1 else set()
            for field in sorted(fields):
                if _unasked(field, seen):
                    yield Uneven(topic, manifest, field, self._values(field, seen))

    def _values(self, field: str, seen: Sequence[Sighting]) -> tuple[Value, ...]:
        names: defaultdict[str | None, list[str]] = defaultdict(list)
        numbers: Counter[str | None] = Counter()
        for one in seen:
            value = _value(field, one.there)
            names[value].extend(self._names[one])
            numbers[value] += self._numbers[one]
        found = [Value(value, number, tuple(sorted(names[value])[:MOST_CLUSTERS])) for value, number in numbers.items()]
        return tuple(sorted(found, key=lambda one: (-one.number, one.clusters)))


def unbalanced(cluster: str, loads: Mapping[int, Load], registered: Collection[int]) -> Iterator[dict[str, Any]]:
    """The kinds of load on a cluster that one broker has far more of than the mean; only registered brokers count."""
    for kind in Load._fields:
        numbers = {broker: getattr(load, kind) for broker, load in loads.items() if broker in registered}
        if numbers and _leans(numbers):
            yield {
                "cluster": cluster,
                "load": kind,
                "mean": round(sum(numbers.values()) / len(numbers), 1),
                "most": _broker(numbers, max(numbers, key=lambda broker: (numbers[broker], -broker))),
                "least": _broker(numbers, min(numbers, key=lambda broker: (numbers[broker], broker))),
            }


def _leans(numbers: Mapping[int, int]) -> bool:
    """Whether the broker with most has more than a fifth more than the mean, and not for one partition only."""
    mean = sum(numbers.values()) / len(numbers)
    return max(numbers.values()) > mean * (1 + _TOO_MUCH) + 1


def _broker(numbers: Mapping[int, int], broker: int) -> dict[str, int]:
    return {"broker": broker, "partitions": numbers[broker]}


def asked(spec: TopicSpec) -> Shape:
    """What a spec asks for."""
    factor = None if spec.replication_factor is None else str(spec.replication_factor)
    return Shape(None if spec.partitions is None else str(spec.partitions), factor, frozenset(spec.config.items()))


def shape(partitions: int, factors: Collection[int], config: Mapping[str, str]) -> Shape:
    """A topic as it is there."""
    compared = frozenset(item for item in config.items() if item[0] not in THROTTLES)
    return Shape(str(partitions), ", ".join(map(str, sorted(factors))), compared)


def sighting(spec: TopicSpec, topic: TopicState | None) -> Sighting | None:
    """A topic of a cluster beside its spec; None if it is not there, or not to be there."""
    if topic is None or spec.absent:
        return None
    return Sighting(*named(spec), asked(spec), shape(len(topic.replicas), widths(topic), topic.config))


def as_asked(spec: TopicSpec) -> Sighting | None:
    """A topic that is what its spec says; None if that does not say how large."""
    if spec.absent or spec.partitions is None or spec.replication_factor is None:
        return None
    return sized(spec, spec.partitions, [spec.replication_factor])


def sized(spec: TopicSpec, partitions: int, factors: Collection[int]) -> Sighting:
    """A topic that has the overrides of its spec, and this size."""
    return Sighting(*named(spec), asked(spec), shape(partitions, factors, spec.config))


def named(spec: TopicSpec) -> tuple[str, str]:
    """The topic of a spec, and its manifest as a person would name it."""
    manifest = spec.manifest
    return spec.topic, f"{manifest.namespace}/{manifest.name}" if manifest.namespace else manifest.name


def _fields(shape: Shape) -> Iterator[str]:
    yield from ("partitions", "replicationFactor")
    yield from (f"config.{key}" for key, _ in shape.config)


def _value(field: str, shape: Shape) -> str | None:
    if field == "partitions":
        return shape.partitions
    if field == "replicationFactor":
        return shape.factor
    return dict(shape.config).get(field.removeprefix("config."))


def _unasked(field: str, seen: Iterable[Sighting]) -> bool:
    """Whether clusters differ in a field for which the manifest asks them to be alike."""
    by_asked: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for one in seen:
        by_asked[_value(field, one.asked)].add(_value(field, one.there))
    return any(len(values) > 1 for values in by_asked.values())
