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

from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.model.plan import Load
from topiarist.model.spec import TopicSpec
from topiarist.model.state import TopicState, find_replication_factors

MAX_SHOWN_DIFFERENCES = 1000
"""Uneven topics that a summary shows."""

MAX_SHOWN_CLUSTERS = 100
"""Clusters of one value that it names."""

_IMBALANCE_THRESHOLD = 0.2
"""Share of the mean that a broker may have more than it."""


class TopicShape(NamedTuple):
    """What of a topic may be compared between clusters; None where a spec does not say it."""

    partitions: str | None
    replication_factor: str | None
    config: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class TopicVariant:
    """A topic of a manifest as it is on some clusters, and what is asked of it there."""

    topic: str
    manifest: str
    desired: TopicShape
    actual: TopicShape


class FieldValue(NamedTuple):
    """One value of an uneven field: how many clusters have it, and the first of these by name."""

    value: str | None
    number: int
    clusters: tuple[str, ...]


class CrossClusterDifference(NamedTuple):
    """One field of one topic that has several values, the most frequent first."""

    topic: str
    manifest: str
    field: str
    values: tuple[FieldValue, ...]


class CrossClusterIndex:
    """All topics of a report as they are on their clusters, which come in order of name: how many there are of each
    sighting, and no more names than are shown, so that a fleet of many clusters takes no more memory.
    """

    def __init__(self) -> None:
        self._counts: Counter[TopicVariant] = Counter()
        self._cluster_names: defaultdict[TopicVariant, list[str]] = defaultdict(list)

    def add_topic(self, cluster: str, spec: TopicSpec, topic: TopicState | None) -> None:
        """Remember a topic of a cluster, if it is declared and there."""
        if one := make_variant(spec, topic):
            self.add_variants(cluster, [one])

    def add_variants(self, cluster: str, sightings: Collection[TopicVariant]) -> None:
        """Remember what has been seen on a cluster; quickest where sightings are the same objects everywhere."""
        self._counts.update(sightings)
        names = self._cluster_names
        for one in sightings:
            if len(first := names[one]) < MAX_SHOWN_CLUSTERS:
                first.append(cluster)

    def add_shared_variant(self, one: TopicVariant, clusters: Sequence[str]) -> None:
        """Remember what has been seen in the same way on many clusters, in order of name."""
        if clusters:  # a key without clusters would be a value that none has
            self._counts[one] += len(clusters)
            self._cluster_names[one].extend(clusters[:MAX_SHOWN_CLUSTERS])

    def differences(self) -> Iterator[CrossClusterDifference]:
        """Each field of each topic that is uneven, in order of topic, manifest and field."""
        topics: defaultdict[tuple[str, str], list[TopicVariant]] = defaultdict(list)
        for one in self._counts:
            topics[one.topic, one.manifest].append(one)
        for (topic, manifest), seen in sorted(topics.items()):
            shapes = {one.actual for one in seen}
            fields = set(chain.from_iterable(map(_field_names, shapes))) if len(shapes) > 1 else set()
            for field in sorted(fields):
                if _has_undesired_difference(field, seen):
                    yield CrossClusterDifference(topic, manifest, field, self._field_values(field, seen))

    def _field_values(self, field: str, seen: Sequence[TopicVariant]) -> tuple[FieldValue, ...]:
        names: defaultdict[str | None, list[str]] = defaultdict(list)
        numbers: Counter[str | None] = Counter()
        for one in seen:
            value = _field_value(field, one.actual)
            names[value].extend(self._cluster_names[one])
            numbers[value] += self._counts[one]
        found = [
            FieldValue(value, number, tuple(sorted(names[value])[:MAX_SHOWN_CLUSTERS]))
            for value, number in numbers.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.number, one.clusters)))


def find_imbalances(cluster: str, loads: Mapping[int, Load], registered: Collection[int]) -> Iterator[dict[str, Any]]:
    """The kinds of load on a cluster that one broker has far more of than the mean; only registered brokers count."""
    for kind in Load._fields:
        numbers = {broker: getattr(load, kind) for broker, load in loads.items() if broker in registered}
        if numbers and _is_imbalanced(numbers):
            yield {
                "cluster": cluster,
                "load": kind,
                "mean": round(sum(numbers.values()) / len(numbers), 1),
                "most": _broker_document(numbers, max(numbers, key=lambda broker: (numbers[broker], -broker))),
                "least": _broker_document(numbers, min(numbers, key=lambda broker: (numbers[broker], broker))),
            }


def _is_imbalanced(numbers: Mapping[int, int]) -> bool:
    """Whether the broker with most has more than a fifth more than the mean, and not for one partition only."""
    mean = sum(numbers.values()) / len(numbers)
    return max(numbers.values()) > mean * (1 + _IMBALANCE_THRESHOLD) + 1


def _broker_document(numbers: Mapping[int, int], broker: int) -> dict[str, int]:
    return {"broker": broker, "partitions": numbers[broker]}


def desired_shape(spec: TopicSpec) -> TopicShape:
    """What a spec asks for."""
    factor = None if spec.replication_factor is None else str(spec.replication_factor)
    return TopicShape(None if spec.partitions is None else str(spec.partitions), factor, frozenset(spec.config.items()))


def actual_shape(partitions: int, factors: Collection[int], config: Mapping[str, str]) -> TopicShape:
    """A topic as it is there."""
    compared = frozenset(item for item in config.items() if item[0] not in THROTTLE_CONFIGS)
    return TopicShape(str(partitions), ", ".join(map(str, sorted(factors))), compared)


def make_variant(spec: TopicSpec, topic: TopicState | None) -> TopicVariant | None:
    """A topic of a cluster beside its spec; None if it is not there, or not to be there."""
    if topic is None or spec.absent:
        return None
    return TopicVariant(
        *topic_and_manifest(spec),
        desired_shape(spec),
        actual_shape(len(topic.replicas), find_replication_factors(topic), topic.config),
    )


def make_variant_equal_to_spec(spec: TopicSpec) -> TopicVariant | None:
    """A topic that is what its spec says; None if that does not say how large."""
    if spec.absent or spec.partitions is None or spec.replication_factor is None:
        return None
    return make_variant_of_size(spec, spec.partitions, [spec.replication_factor])


def make_variant_of_size(spec: TopicSpec, partitions: int, factors: Collection[int]) -> TopicVariant:
    """A topic that has the overrides of its spec, and this size."""
    return TopicVariant(*topic_and_manifest(spec), desired_shape(spec), actual_shape(partitions, factors, spec.config))


def topic_and_manifest(spec: TopicSpec) -> tuple[str, str]:
    """The topic of a spec, and its manifest as a person would name it."""
    manifest = spec.manifest
    return spec.topic, f"{manifest.namespace}/{manifest.name}" if manifest.namespace else manifest.name


def _field_names(shape: TopicShape) -> Iterator[str]:
    yield from ("partitions", "replicationFactor")
    yield from (f"config.{key}" for key, _ in shape.config)


def _field_value(field: str, shape: TopicShape) -> str | None:
    if field == "partitions":
        return shape.partitions
    if field == "replicationFactor":
        return shape.replication_factor
    return dict(shape.config).get(field.removeprefix("config."))


def _has_undesired_difference(field: str, variants: Iterable[TopicVariant]) -> bool:
    """Whether clusters differ in a field for which the manifest asks them to be alike."""
    by_asked: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for one in variants:
        by_asked[_field_value(field, one.desired)].add(_field_value(field, one.actual))
    return any(len(values) > 1 for values in by_asked.values())
