"""Comparison across clusters: topics that differ between the clusters of a manifest, and imbalanced brokers.

``drift.summary`` and ``drift.spark.engine`` fill the index. Overrides in a manifest may ask for differences; only a
difference that the manifest does not ask for is reported. Each distinct variant of a topic is stored once, with the
number of its clusters and the names of the first clusters, so that memory does not grow with the fleet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.model.plan import Load
from topiarist.model.spec import TopicSpec
from topiarist.model.state import TopicState, find_replication_factors

MAX_SHOWN_DIFFERENCES = 1000
"""Number of cross-cluster differences in a summary."""

MAX_SHOWN_CLUSTERS = 100
"""Number of cluster names in a summary for one value of a field."""

_IMBALANCE_THRESHOLD = 0.2
"""Allowed excess of a broker over the mean, as a share of the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class TopicVariant:
    """A topic of a manifest with the desired and the actual values that some clusters share.

    Values are text by field: ``partitions``, ``replicationFactor`` and ``config.KEY``. A field without a value is left
    out.
    """

    topic: str
    manifest: str
    desired: Mapping[str, str]
    actual: Mapping[str, str]


class CrossClusterIndex:
    """The topic variants of a report, with the number of clusters of each variant.

    Clusters must be added in order of name. At most ``MAX_SHOWN_CLUSTERS`` names are stored per variant and call, so
    that a fleet of many clusters needs no more memory.
    """

    def __init__(self) -> None:
        self._counts: Counter[TopicVariant] = Counter()
        self._cluster_names: defaultdict[TopicVariant, list[str]] = defaultdict(list)

    def add_variants(self, cluster: str, variants: Collection[TopicVariant]) -> None:
        """Add the topic variants of a cluster; fastest if clusters share the variant objects."""
        self._counts.update(variants)
        names = self._cluster_names
        for variant in variants:
            if len(first := names[variant]) < MAX_SHOWN_CLUSTERS:
                first.append(cluster)

    def add_shared_variant(self, variant: TopicVariant, clusters: Sequence[str]) -> None:
        """Add a topic variant that many clusters share; ``clusters`` is in order of name."""
        if clusters:  # an entry without clusters would be reported as a value that no cluster has
            self._counts[variant] += len(clusters)
            self._cluster_names[variant].extend(clusters[:MAX_SHOWN_CLUSTERS])

    def differences(self) -> Iterator[dict[str, Any]]:
        """Yield each field of each topic that differs undesirably, as in ``summary.json``.

        They are in order of topic, manifest and field, and the most frequent value of a field comes first.
        """
        topics: defaultdict[tuple[str, str], list[TopicVariant]] = defaultdict(list)
        for variant in self._counts:
            topics[variant.topic, variant.manifest].append(variant)
        for (topic, manifest), (first, *others) in sorted(topics.items()):
            if all(other.actual == first.actual for other in others):
                continue
            variants = (first, *others)
            for field in sorted(set(chain.from_iterable(variant.actual for variant in variants))):
                # Only clusters with the same desired value should have the same actual value.
                values: defaultdict[str | None, set[str | None]] = defaultdict(set)
                for variant in variants:
                    values[variant.desired.get(field)].add(variant.actual.get(field))
                if any(len(actual) > 1 for actual in values.values()):
                    found = self._field_values(field, variants)
                    yield {"topic": topic, "manifest": manifest, "field": field, "values": found}

    def _field_values(self, field: str, variants: Sequence[TopicVariant]) -> list[dict[str, Any]]:
        names: defaultdict[str | None, list[str]] = defaultdict(list)
        numbers: Counter[str | None] = Counter()
        for variant in variants:
            value = variant.actual.get(field)
            names[value].extend(self._cluster_names[variant])
            numbers[value] += self._counts[variant]
        values = [
            {"value": value, "number": number, "clusters": sorted(names[value])[:MAX_SHOWN_CLUSTERS]}
            for value, number in numbers.items()
        ]
        return sorted(values, key=lambda one: (-one["number"], one["clusters"]))


def find_imbalances(cluster: str, loads: Mapping[int, Load], registered: Collection[int]) -> Iterator[dict[str, Any]]:
    """Yield the kinds of load on a cluster that are imbalanced; only registered brokers count.

    A kind is imbalanced if one broker is more than a fifth above the mean of the cluster, by more than one partition.
    """
    for kind in Load._fields:
        numbers = {broker: getattr(load, kind) for broker, load in loads.items() if broker in registered}
        if not numbers:
            continue
        mean = sum(numbers.values()) / len(numbers)
        if max(numbers.values()) > mean * (1 + _IMBALANCE_THRESHOLD) + 1:
            most = max(numbers, key=lambda broker: (numbers[broker], -broker))
            least = min(numbers, key=lambda broker: (numbers[broker], broker))
            yield {
                "cluster": cluster,
                "load": kind,
                "mean": round(mean, 1),
                "most": {"broker": most, "partitions": numbers[most]},
                "least": {"broker": least, "partitions": numbers[least]},
            }


def make_variant(spec: TopicSpec, topic: TopicState | None) -> TopicVariant | None:
    """Return the variant of a topic with its spec; None if the topic does not exist or is declared absent."""
    if topic is None or spec.absent:
        return None
    return make_variant_of_size(spec, len(topic.replicas), find_replication_factors(topic), topic.config)


def make_variant_equal_to_spec(spec: TopicSpec) -> TopicVariant | None:
    """Return the variant of a topic equal to its spec; None if the spec is absent or leaves the size open."""
    if spec.absent or spec.partitions is None or spec.replication_factor is None:
        return None
    return make_variant_of_size(spec, spec.partitions, [spec.replication_factor])


def make_variant_of_size(
    spec: TopicSpec, partitions: int, factors: Collection[int], config: Mapping[str, str] | None = None
) -> TopicVariant:
    """Return the variant of a topic with this size and config; without ``config``, that of the spec.

    Throttle configs are left out, because a reassignment sets them for a short time.
    """
    manifest = spec.manifest
    name = f"{manifest.namespace}/{manifest.name}" if manifest.namespace else manifest.name
    desired = _shape(spec.partitions, spec.replication_factor, spec.config)
    config = spec.config if config is None else config
    compared = {key: text for key, text in config.items() if key not in THROTTLE_CONFIGS}
    actual = _shape(partitions, ", ".join(map(str, sorted(factors))), compared)
    return TopicVariant(spec.topic, name, desired, actual)


def _shape(partitions: int | None, factor: int | str | None, config: Mapping[str, str]) -> dict[str, str]:
    shape = {_config_field(key): text for key, text in config.items()}
    if partitions is not None:
        shape["partitions"] = str(partitions)
    if factor is not None:
        shape["replicationFactor"] = str(factor)
    return shape


@lru_cache(maxsize=1024)
def _config_field(key: str) -> str:
    return f"config.{key}"  # cached, so that the variants of a fleet share the text
