"""What only a fleet shows: topics that are not the same on all clusters of one manifest, and brokers with too much.

A manifest may ask for differences by overrides; only what it does not ask for is uneven. Of each topic on each
cluster a small value is kept, and equal ones once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from topiarist.core.change import Load
from topiarist.core.differences import THROTTLES
from topiarist.core.sizes import widths
from topiarist.core.spec import TopicSpec
from topiarist.core.state import TopicState

MOST = 1000
"""Uneven topics that a summary shows."""

_TOO_MUCH = 0.2
"""Share of the mean that a broker may have more than it."""


class Shape(NamedTuple):
    """What of a topic may be compared between clusters; None where a spec does not say it."""

    partitions: str | None
    factor: str | None
    config: frozenset[tuple[str, str]]


class Uneven(NamedTuple):
    """One field of one topic that has several values: each with the clusters that have it, the most frequent first."""

    topic: str
    manifest: str
    field: str
    values: tuple[tuple[str | None, tuple[str, ...]], ...]


class Fleet:
    """The shapes of all topics of a report; clusters are added in order of name."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, Shape] = {}
        self._topics: defaultdict[tuple[str, str], list[tuple[str, Shape, Shape]]] = defaultdict(list)

    def add(self, cluster: str, spec: TopicSpec, topic: TopicState | None) -> None:
        """Remember a topic of a cluster, if it is declared and there."""
        if topic and not spec.absent:
            asked, there = self._once(_asked(spec)), self._once(_there(topic))
            self._topics[spec.topic, _name(spec)].append((cluster, asked, there))

    def uneven(self) -> Iterator[Uneven]:
        """Each field of each topic that is uneven, in order of topic, manifest and field."""
        for (topic, manifest), seen in sorted(self._topics.items()):
            seen.sort(key=lambda one: one[0])
            shapes = {there for _, _, there in seen}
            fields = set(chain.from_iterable(map(_fields, shapes))) if len(shapes) > 1 else set()
            for field in sorted(fields):
                if _unasked(field, seen):
                    yield Uneven(topic, manifest, field, _values(field, seen))

    def _once(self, shape: Shape) -> Shape:
        return self._shapes.setdefault(shape, shape)


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


def _asked(spec: TopicSpec) -> Shape:
    factor = None if spec.replication_factor is None else str(spec.replication_factor)
    return Shape(None if spec.partitions is None else str(spec.partitions), factor, frozenset(spec.config.items()))


def _there(topic: TopicState) -> Shape:
    config = frozenset(item for item in topic.config.items() if item[0] not in THROTTLES)
    return Shape(str(len(topic.replicas)), ", ".join(map(str, sorted(widths(topic)))), config)


def _name(spec: TopicSpec) -> str:
    manifest = spec.manifest
    return f"{manifest.namespace}/{manifest.name}" if manifest.namespace else manifest.name


def _fields(shape: Shape) -> Iterator[str]:
    yield from ("partitions", "replicationFactor")
    yield from (f"config.{key}" for key, _ in shape.config)


def _value(field: str, shape: Shape) -> str | None:
    if field == "partitions":
        return shape.partitions
    if field == "replicationFactor":
        return shape.factor
    return dict(shape.config).get(field.removeprefix("config."))


def _unasked(field: str, seen: Sequence[tuple[str, Shape, Shape]]) -> bool:
    """Whether clusters differ in a field for which the manifest asks them to be alike."""
    by_asked: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for _, asked, there in seen:
        by_asked[_value(field, asked)].add(_value(field, there))
    return any(len(values) > 1 for values in by_asked.values())


def _values(field: str, seen: Sequence[tuple[str, Shape, Shape]]) -> tuple[tuple[str | None, tuple[str, ...]], ...]:
    clusters: defaultdict[str | None, list[str]] = defaultdict(list)
    for cluster, _, there in seen:
        clusters[_value(field, there)].append(cluster)
    ordered = sorted(clusters.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple((value, tuple(names)) for value, names in ordered)
