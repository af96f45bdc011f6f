"""Groups of clusters that share specs, because all manifests of a run treat them alike.

A fleet has a thousand clusters but few groups. ``resolve`` merges a manifest once per group, and a cluster's own spec
is made on access: time and memory of a run do not grow with the number of clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, overload

from topiarist.desired.duplicates import topic_collision_errors
from topiarist.desired.rules import spec_errors, spec_warnings
from topiarist.errors import Diagnostic
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec

_IGNORED_FIELDS = frozenset({"name", "labels", "connect", "cluster_id", "credentials", "source", "config_rules"})
"""Cluster fields that no spec depends on.

Names and labels count only if a manifest refers to them.
"""

_GROUPING_FIELDS = tuple(each.name for each in fields(ClusterSpec) if each.name not in _IGNORED_FIELDS)


class ClusterTopicSpecs(Sequence[TopicSpec]):
    """The specs of one cluster, in order of topic.

    ``shared_specs`` are the specs of the first cluster of the group.
    """

    __slots__ = ("cluster", "shared_specs")

    def __init__(self, shared: tuple[TopicSpec, ...], cluster: ClusterSpec) -> None:
        self.shared_specs = shared
        self.cluster = cluster

    def for_cluster(self, spec: TopicSpec) -> TopicSpec:
        """Return a shared spec with this cluster as its cluster."""
        return spec if spec.cluster is self.cluster else replace(spec, cluster=self.cluster)

    def __len__(self) -> int:
        return len(self.shared_specs)

    def __iter__(self) -> Iterator[TopicSpec]:
        return map(self.for_cluster, self.shared_specs)

    @overload
    def __getitem__(self, index: int) -> TopicSpec: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TopicSpec]: ...

    def __getitem__(self, index: int | slice) -> TopicSpec | Sequence[TopicSpec]:
        found = self.shared_specs[index]
        return ClusterTopicSpecs(found, self.cluster) if isinstance(found, tuple) else self.for_cluster(found)


def group_clusters(clusters: Mapping[str, ClusterSpec], topics: Iterable[Manifest]) -> dict[str, list[str]]:
    """Group the clusters that no manifest distinguishes; keys are the first of each group."""
    label_keys = set[str]()
    # The positions that name a cluster, as a running number over all specs and overrides: clusters that are named at
    # the same positions are alike.
    mentions, position = defaultdict[str, list[int]](list), 0
    for manifest in topics:
        for layer in (manifest.spec, *manifest.spec.get("overrides", ())):
            position += 1
            label_keys.update(layer.get("clusterSelector", {}).get("matchLabels", ()))
            for name in layer.get("clusters", ()):
                mentions[name].append(position)
    groups: dict[Any, list[str]] = {}
    for name, cluster in clusters.items():
        labels = tuple((key, cluster.labels[key]) for key in sorted(label_keys) if key in cluster.labels)
        settings = repr([getattr(cluster, field) for field in _GROUPING_FIELDS])
        group_key = (labels, tuple(mentions.get(name, ())), settings, cluster.source is None)
        groups.setdefault(group_key, []).append(name)
    return {names[0]: names for names in groups.values()}


def validate_group(group: Iterable[ClusterTopicSpecs]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return the errors and the warnings of all specs in a group of clusters.

    A spec without errors on the first cluster has none on the other clusters. A spec with errors is validated for each
    cluster, because its messages and locations may differ.
    """
    first, *others = group
    invalid = [spec for spec in first if any(spec_errors(spec))]
    with_warnings = [spec for spec in first if any(spec_warnings(spec))]
    has_collisions = bool(topic_collision_errors(first))
    errors, warnings = list[Diagnostic](), list[Diagnostic]()
    for specs in (first, *others):
        errors.extend(diagnostic for spec in invalid for diagnostic in spec_errors(specs.for_cluster(spec)))
        errors.extend(topic_collision_errors(specs) if has_collisions else ())
        warnings.extend(warning for spec in with_warnings for warning in spec_warnings(specs.for_cluster(spec)))
    return errors, warnings
