"""Specs: a manifest merged with its cluster, in groups of specs that the same clusters share.

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

from topiarist.desired.parse import spec_errors, spec_warnings
from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka.config_values import to_config_text
from topiarist.kafka.types import Replicas, metric_name
from topiarist.model.moves import MoveKind
from topiarist.model.spec import (
    ClusterSpec,
    Manifest,
    Source,
    TopicSpec,
    layers,
    name_path,
    parse_replica_assignment,
    selects_cluster,
    topic_name,
)

# Merge of a ``Topic`` manifest and its ``Cluster`` into one ``TopicSpec``: applies overrides and defaults.


def merge(manifest: Manifest, cluster: ClusterSpec) -> TopicSpec:
    """Return the spec of ``manifest`` on ``cluster``.

    Layers: the topic's profiles, its own spec, then each override that selects the cluster. The two forms of size
    (counts, or ``replicaAssignment``) replace each other as a whole; counts beside lists are redundant. A size that no
    layer, default or broker setting names is 0 in ``create_partitions`` and ``create_replication_factor``. ``rules``
    reports both.
    """
    partitions: int | None = None
    factor: int | None = None
    assignment: tuple[Replicas, ...] | None = None
    own: dict[str, str] = {}
    labels: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for _, layer in layers(manifest, cluster):
        fields.update(layer)
        if "replicaAssignment" in layer:
            assignment = parse_replica_assignment(layer["replicaAssignment"])
            partitions = factor = None
        elif "partitions" in layer or "replicationFactor" in layer:
            assignment = None
            partitions = layer.get("partitions", partitions)
            factor = layer.get("replicationFactor", factor)
        if "config" in layer:
            own |= {key: to_config_text(key, value) for key, value in layer["config"].items()}
        if "labels" in layer:
            labels |= layer["labels"]
    if assignment:
        partitions, factor = len(assignment), len(assignment[0])
    moves = fields.get("moves", {})
    unwanted = fields.get("withoutConfig", ())
    defaults = {key: text for key, text in cluster.default_config.items() if key not in own and key not in unwanted}
    return TopicSpec(
        topic=topic_name(manifest),
        cluster=cluster,
        manifest=manifest,
        partitions=partitions,
        replication_factor=factor,
        create_partitions=partitions or cluster.default_partitions or cluster.broker_size("partitions") or 0,
        create_replication_factor=(
            factor or cluster.default_replication_factor or cluster.broker_size("replicationFactor") or 0
        ),
        assignment=assignment,
        config=defaults | own if defaults else own,
        inherited_keys=frozenset(defaults),
        ignored_fields=frozenset(fields.get("ignore", ())),
        excluded_default_keys=tuple(unwanted),
        remove_unmanaged=fields.get("unmanagedConfig") == "Remove",
        absent=fields.get("ensure") == "Absent",
        observe_only=fields.get("mode") == "Observe",
        allowed_moves=cluster.moves.allow.intersection(map(MoveKind, moves["allow"]))
        if "allow" in moves
        else cluster.moves.allow,
        spread_within_one=moves.get("spread") == "One",
        profile_labels=labels,
        co_partition_group=fields.get("coPartitionGroup", ""),
        keyed=fields.get("keyed", True),
    )


# Duplicate names: documents with one name, and topics or metric names that collide on one cluster.
#
# ``runs/inputs.py`` checks the clusters and ``resolve`` the topics, when all manifests of a run are loaded.


def index_clusters(specs: Iterable[ClusterSpec]) -> tuple[dict[str, ClusterSpec], list[Diagnostic]]:
    """Return clusters by name, and an error with both locations for each duplicate name."""
    clusters: dict[str, ClusterSpec] = {}
    errors = []
    for spec in specs:
        first = clusters.setdefault(spec.name, spec)
        if first is not spec and spec.source and first.source:
            errors.append(_duplicate_error("Cluster", spec.name, spec.source, first.source))
    return clusters, errors


def duplicate_document_errors(manifests: Sequence[Manifest]) -> list[Diagnostic]:
    """Return an error for each document with the kind, namespace and name of an earlier one."""
    first: dict[tuple[str, str, str], Manifest] = {}
    return [
        _duplicate_error(manifest.kind, manifest.name, manifest.source, earlier.source)
        for manifest in manifests
        if (earlier := first.setdefault((manifest.kind, manifest.namespace, manifest.name), manifest)) is not manifest
    ]


def _duplicate_error(kind: str, name: str, source: Source, first: Source) -> Diagnostic:
    path = ("metadata", "name")
    message = f"{kind} {name}: another {kind} has the same name, at {first.locate(path)}"
    return _collision(source.locate(path), message, "rename one of them, or remove it")


def topic_collision_errors(specs: Iterable[TopicSpec]) -> list[Diagnostic]:
    """Return the errors of topics that collide on one cluster.

    Two documents declare the same topic, or two topic names have the same metric name in Kafka.
    """
    first: dict[str, TopicSpec] = {}
    errors = []
    for spec in specs:
        earlier = first.setdefault(metric_name(spec.topic), spec)
        if _document_name(earlier) == _document_name(spec):
            continue  # the spec itself, or a duplicate document name, which is a separate error
        place, first_place = (each.manifest.source.locate(name_path(each.manifest)) for each in (spec, earlier))
        cluster = f"on cluster {spec.cluster.name}" if spec.cluster.name else "on the cluster"
        if earlier.topic == spec.topic:
            message, hint = f"{spec.topic}: also declared {cluster} at {first_place}", "keep one of the two documents"
        else:
            message = f"{spec.topic}: collides {cluster} with {earlier.topic} at {first_place}"
            hint = "rename one: Kafka does not distinguish . and _ in metric names, and refuses the second topic"
        errors.append(_collision(place, message, hint))
    return errors


def _document_name(spec: TopicSpec) -> tuple[str, str]:
    return spec.manifest.namespace, spec.manifest.name


def _collision(place: Location, message: str, hint: str) -> Diagnostic:
    return Diagnostic(place, message, hint, Reason.NAME_COLLISION.value)


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
        accesses = (cluster.kafka for cluster in clusters.values())
        self._records_topics = {each.records.name for each in accesses if each and each.records}
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
