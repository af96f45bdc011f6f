"""Groups of specs that the same clusters share.

A fleet has a thousand clusters, but a manifest has few different specs. ``resolve`` merges a manifest once for all
clusters with equal settings and the same overrides. A group has the specs of one set of clusters, and a cluster refers
to its groups: time and memory of a run grow with what differs, not with the number of clusters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, overload

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.desired.duplicates import topic_collision_errors
from topiarist.desired.merge import merge
from topiarist.desired.rules import spec_errors, spec_warnings
from topiarist.errors import Diagnostic
from topiarist.kafka.types import metric_name
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, selects_cluster, topic_name

_IGNORED_FIELDS = frozenset({"name", "labels", "zookeeper", "kafka", "via", "cluster_id", "source", "budgets"})
"""Cluster fields that no spec depends on.

Names and labels count only if a manifest refers to them, the records topic in ``kafka`` only if a manifest declares it.
"""

_SETTINGS = tuple(name for name in ClusterSpec.__struct_fields__ if name not in _IGNORED_FIELDS)

_by_topic = attrgetter("topic")


class SpecGroup(Struct, eq=False):
    """The specs that one set of clusters shares, in order of topic; the specs name the first cluster.

    ``is_exclusive`` is true if the manifests are for one cluster only: no other cluster has a spec of them.
    """

    clusters: tuple[str, ...]
    is_exclusive: bool
    specs: list[TopicSpec] = field(default_factory=list)


class ClusterTopicSpecs(Sequence[TopicSpec]):
    """The specs of one cluster, in order of topic: those of its groups.

    The specs of a topic that is declared twice, which is an error, are in no order.
    """

    __slots__ = ("cluster", "groups")

    def __init__(self, groups: tuple[SpecGroup, ...], cluster: ClusterSpec) -> None:
        self.groups = groups
        self.cluster = cluster

    @property
    def shared_specs(self) -> Sequence[TopicSpec]:
        """Return the specs as other clusters share them: a spec names the first cluster of its group."""
        if len(self.groups) == 1:
            return self.groups[0].specs
        return sorted(chain.from_iterable(group.specs for group in self.groups), key=_by_topic)

    def for_cluster(self, spec: TopicSpec) -> TopicSpec:
        """Return a shared spec with this cluster as its cluster."""
        return _on_cluster(spec, self.cluster)

    def __len__(self) -> int:
        return sum(len(group.specs) for group in self.groups)

    def __iter__(self) -> Iterator[TopicSpec]:
        return map(self.for_cluster, self.shared_specs)

    @overload
    def __getitem__(self, index: int) -> TopicSpec: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TopicSpec]: ...

    def __getitem__(self, index: int | slice) -> TopicSpec | Sequence[TopicSpec]:
        found = self.shared_specs[index]
        return self.for_cluster(found) if isinstance(found, TopicSpec) else [*map(self.for_cluster, found)]


class SpecGrouper:
    """A collector that merges manifests for the clusters that they are meant for, and groups the specs."""

    def __init__(self, clusters: Mapping[str, ClusterSpec]) -> None:
        self._clusters = clusters
        numbers: dict[Hashable, int] = {}
        self._settings = {
            name: numbers.setdefault(_settings_key(cluster), len(numbers)) for name, cluster in clusters.items()
        }
        self._records_topics = {cluster.kafka.records.name for cluster in clusters.values() if cluster.kafka}
        self._matches_by_selector: dict[Hashable, tuple[str, ...]] = {}
        self._partitions: dict[Hashable, list[SpecGroup]] = {}
        self._groups: dict[tuple[tuple[str, ...], bool], SpecGroup] = {}

    @property
    def groups(self) -> Iterable[SpecGroup]:
        """The groups of all manifests so far."""
        return self._groups.values()

    @property
    def specs(self) -> Iterator[TopicSpec]:
        """The specs of all groups."""
        return chain.from_iterable(group.specs for group in self.groups)

    def match_clusters(self, layer: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the clusters that a topic or override names or selects, in order of name.

        Matches are cached by selector, because there are many topics and clusters but few selectors.
        """
        named = layer.get("clusters", ())
        if "clusterSelector" not in layer:
            return tuple(sorted(self._clusters.keys() & set(named)))
        selector = frozenset(named), frozenset(layer["clusterSelector"].get("matchLabels", {}).items())
        if selector not in self._matches_by_selector:
            self._matches_by_selector[selector] = tuple(
                sorted(name for name, cluster in self._clusters.items() if selects_cluster(layer, cluster))
            )
        return self._matches_by_selector[selector]

    def add_topic(self, manifest: Manifest, names: tuple[str, ...]) -> None:
        """Add the specs of a manifest for the clusters with these names."""
        for group in self._find_groups(manifest, names):
            group.specs.append(merge(manifest, self._clusters[group.clusters[0]]))

    def _find_groups(self, manifest: Manifest, names: tuple[str, ...]) -> list[SpecGroup]:
        """Return the groups of a manifest: their clusters have equal settings and the same overrides."""
        overrides = tuple(map(self.match_clusters, manifest.spec.get("overrides", ())))
        topic = topic_name(manifest)
        records_topic = topic if topic in self._records_topics else ""
        key = names, overrides, records_topic
        if key not in self._partitions:
            overridden = [*map(frozenset, overrides)]
            parts: defaultdict[Hashable, list[str]] = defaultdict(list)
            for name in names:
                # Clusters may give different names to the topic of topiarist's records, which no manifest may change.
                owner = self._clusters[name].internal_owner(topic) if records_topic else ""
                parts[self._settings[name], owner, tuple(name in each for each in overridden)].append(name)
            self._partitions[key] = [self._group(tuple(part), len(names) == 1) for part in parts.values()]
        return self._partitions[key]

    def _group(self, clusters: tuple[str, ...], is_exclusive: bool) -> SpecGroup:
        return self._groups.setdefault((clusters, is_exclusive), SpecGroup(clusters, is_exclusive))

    def finish(self) -> dict[str, ClusterTopicSpecs]:
        """Sort the specs of all groups, and return the specs of each cluster."""
        groups_of: dict[str, list[SpecGroup]] = {name: [] for name in self._clusters}
        for group in self.groups:
            group.specs.sort(key=_by_topic)
            for name in group.clusters:
                groups_of[name].append(group)
        return {name: ClusterTopicSpecs(tuple(groups), self._clusters[name]) for name, groups in groups_of.items()}

    def validate(self, topics: Sequence[Manifest]) -> tuple[list[Diagnostic], list[Diagnostic]]:
        """Return the errors and the warnings of all specs; ``topics`` are all manifests in their order.

        A spec without errors on the first cluster of its group has none on the others. A spec with errors is validated
        for each cluster, because its messages and locations may differ.
        """
        errors, warnings = [*self._collision_errors(topics)], list[Diagnostic]()
        for group in self.groups:
            for spec in group.specs:
                for check, diagnostics in ((spec_errors, errors), (spec_warnings, warnings)):
                    if any(check(spec)):
                        for name in group.clusters:
                            diagnostics.extend(check(_on_cluster(spec, self._clusters[name])))
        return errors, warnings

    def _collision_errors(self, topics: Sequence[Manifest]) -> Iterator[Diagnostic]:
        """Yield the errors of topics that collide on a cluster, in any of its groups, in order of name and cluster.

        The specs of one manifest never collide, because each cluster has one of them.
        """
        first: dict[str, Manifest] = {}
        candidates: dict[str, list[tuple[TopicSpec, SpecGroup]]] = {}
        for spec in self.specs:
            name = metric_name(spec.topic)
            if first.setdefault(name, spec.manifest) is not spec.manifest:
                candidates[name] = []
        if not candidates:
            return
        for group in self.groups:
            for spec in group.specs:
                if (name := metric_name(spec.topic)) in candidates:
                    candidates[name].append((spec, group))
        positions = {id(manifest): position for position, manifest in enumerate(topics)}
        for _, members in sorted(candidates.items()):
            counts = Counter(chain.from_iterable(group.clusters for _, group in members))
            members.sort(key=lambda member: (member[0].topic, positions[id(member[0].manifest)]))
            for name in sorted(name for name, number in counts.items() if number > 1):
                specs = (spec for spec, group in members if name in group.clusters)
                yield from topic_collision_errors(_on_cluster(spec, self._clusters[name]) for spec in specs)


def _settings_key(cluster: ClusterSpec) -> Hashable:
    """Return a key that is equal for clusters on which a manifest has the same spec and the same errors."""
    settings = repr([getattr(cluster, name) for name in _SETTINGS])
    return settings, cluster.source is None, type(cluster.access)


def _on_cluster(spec: TopicSpec, cluster: ClusterSpec) -> TopicSpec:
    return spec if spec.cluster is cluster else replace(spec, cluster=cluster)
