"""Comparison across clusters: topics that differ between the clusters of a manifest, and imbalanced brokers.

``drift.summary`` and ``drift.spark.report`` fill the index. Overrides in a manifest may ask for differences; only a
difference that the manifest does not ask for is reported. Each distinct variant of a topic is stored once, with the
number of its clusters and the names of the first clusters, so that memory does not grow with the fleet.
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
"""Number of cross-cluster differences in a summary."""

MAX_SHOWN_CLUSTERS = 100
"""Number of cluster names in a summary for one value of a field."""

_IMBALANCE_THRESHOLD = 0.2
"""Share of the mean by which a broker may exceed the mean."""


class TopicShape(NamedTuple):
    """The properties of a topic that are compared between clusters; None where a spec leaves a value open."""

    partitions: str | None
    replication_factor: str | None
    config: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class TopicVariant:
    """A topic of a manifest with the desired and the actual shape that some clusters share."""

    topic: str
    manifest: str
    desired: TopicShape
    actual: TopicShape


class FieldValue(NamedTuple):
    """One value of a differing field: the number of clusters that have it, and the first of them by name."""

    value: str | None
    number: int
    clusters: tuple[str, ...]


class CrossClusterDifference(NamedTuple):
    """One field of one topic with several values, the most frequent value first."""

    topic: str
    manifest: str
    field: str
    values: tuple[FieldValue, ...]


class CrossClusterIndex:
    """The topic variants of a report, with the number of clusters of each variant.

    Clusters must be added in order of name. At most ``MAX_SHOWN_CLUSTERS`` names are stored per variant and call, so
    that a fleet of many clusters needs no more memory.
    """

    def __init__(self) -> None:
        self._counts: Counter[TopicVariant] = Counter()
        self._cluster_names: defaultdict[TopicVariant, list[str]] = defaultdict(list)

    def add_topic(self, cluster: str, spec: TopicSpec, topic: TopicState | None) -> None:
        """Add a topic of a cluster, if the topic is declared and exists."""
        if variant := make_variant(spec, topic):
            self.add_variants(cluster, [variant])

    def add_variants(self, cluster: str, sightings: Collection[TopicVariant]) -> None:
        """Add the topic variants of a cluster; fastest if clusters share the variant objects."""
        self._counts.update(sightings)
        names = self._cluster_names
        for variant in sightings:
            if len(first := names[variant]) < MAX_SHOWN_CLUSTERS:
                first.append(cluster)

    def add_shared_variant(self, one: TopicVariant, clusters: Sequence[str]) -> None:
        """Add a topic variant that many clusters share; ``clusters`` is in order of name."""
        if clusters:  # an entry without clusters would be reported as a value that no cluster has
            self._counts[one] += len(clusters)
            self._cluster_names[one].extend(clusters[:MAX_SHOWN_CLUSTERS])

    def differences(self) -> Iterator[CrossClusterDifference]:
        """Yield each field of each topic that differs undesirably, in order of topic, manifest and field."""
        topics: defaultdict[tuple[str, str], list[TopicVariant]] = defaultdict(list)
        for variant in self._counts:
            topics[variant.topic, variant.manifest].append(variant)
        for (topic, manifest), variants in sorted(topics.items()):
            shapes = {variant.actual for variant in variants}
            fields = set(chain.from_iterable(map(_field_names, shapes))) if len(shapes) > 1 else set()
            for field in sorted(fields):
                if _has_undesired_difference(field, variants):
                    yield CrossClusterDifference(topic, manifest, field, self._field_values(field, variants))

    def _field_values(self, field: str, seen: Sequence[TopicVariant]) -> tuple[FieldValue, ...]:
        names: defaultdict[str | None, list[str]] = defaultdict(list)
        numbers: Counter[str | None] = Counter()
        for one in seen:
            value = _field_value(field, one.actual)
            names[value].extend(self._cluster_names[one])
            numbers[value] += self._counts[one]
        values = [
            FieldValue(value, number, tuple(sorted(names[value])[:MAX_SHOWN_CLUSTERS]))
            for value, number in numbers.items()
        ]
        return tuple(sorted(values, key=lambda one: (-one.number, one.clusters)))


def find_imbalances(cluster: str, loads: Mapping[int, Load], registered: Collection[int]) -> Iterator[dict[str, Any]]:
    """Yield the kinds of load on a cluster that are imbalanced; only registered brokers count.

    A kind is imbalanced if one broker has far more than the mean of the cluster.
    """
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
    """Return whether the largest number is more than a fifth above the mean, by more than one partition."""
    mean = sum(numbers.values()) / len(numbers)
    return max(numbers.values()) > mean * (1 + _IMBALANCE_THRESHOLD) + 1


def _broker_document(numbers: Mapping[int, int], broker: int) -> dict[str, int]:
    return {"broker": broker, "partitions": numbers[broker]}


def desired_shape(spec: TopicSpec) -> TopicShape:
    """Return the shape that a spec asks for."""
    factor = None if spec.replication_factor is None else str(spec.replication_factor)
    return TopicShape(None if spec.partitions is None else str(spec.partitions), factor, frozenset(spec.config.items()))


def actual_shape(partitions: int, factors: Collection[int], config: Mapping[str, str]) -> TopicShape:
    """Return the actual shape of a topic, without its throttle configs."""
    compared = frozenset(item for item in config.items() if item[0] not in THROTTLE_CONFIGS)
    return TopicShape(str(partitions), ", ".join(map(str, sorted(factors))), compared)


def make_variant(spec: TopicSpec, topic: TopicState | None) -> TopicVariant | None:
    """Return the variant of a topic with its spec; None if the topic does not exist or is declared absent."""
    if topic is None or spec.absent:
        return None
    return TopicVariant(
        *topic_and_manifest(spec),
        desired_shape(spec),
        actual_shape(len(topic.replicas), find_replication_factors(topic), topic.config),
    )


def make_variant_equal_to_spec(spec: TopicSpec) -> TopicVariant | None:
    """Return the variant of a topic equal to its spec; None if the spec is absent or leaves the size open."""
    if spec.absent or spec.partitions is None or spec.replication_factor is None:
        return None
    return make_variant_of_size(spec, spec.partitions, [spec.replication_factor])


def make_variant_of_size(spec: TopicSpec, partitions: int, factors: Collection[int]) -> TopicVariant:
    """Return the variant of a topic with the configs of its spec and this size."""
    return TopicVariant(*topic_and_manifest(spec), desired_shape(spec), actual_shape(partitions, factors, spec.config))


def topic_and_manifest(spec: TopicSpec) -> tuple[str, str]:
    """Return the topic of a spec, and its manifest as "namespace/name" or "name"."""
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
    """Return whether clusters with the same desired value of a field have different actual values."""
    actual_by_desired: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for variant in variants:
        actual_by_desired[_field_value(field, variant.desired)].add(_field_value(field, variant.actual))
    return any(len(values) > 1 for values in actual_by_desired.values())
