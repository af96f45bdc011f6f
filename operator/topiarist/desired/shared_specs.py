"""Clusters to which all manifests of a run say the same, and specs that they share.

A fleet has a thousand clusters and a few sorts of them. What a manifest comes to is found once for each sort, and a
cluster's own spec is made when somebody asks for it: the work and the memory of a run do not grow with its clusters.
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
"""Fields of a cluster that no spec takes anything from; names and labels count as far as manifests ask for them."""

_GROUPING_FIELDS = tuple(each.name for each in fields(ClusterSpec) if each.name not in _IGNORED_FIELDS)


class ClusterTopicSpecs(Sequence[TopicSpec]):
    """The specs of one cluster in order of topic. ``shared`` are those of the first cluster of its sort."""

    __slots__ = ("cluster", "shared_specs")

    def __init__(self, shared: tuple[TopicSpec, ...], cluster: ClusterSpec) -> None:
        self.shared_specs = shared
        self.cluster = cluster

    def for_cluster(self, spec: TopicSpec) -> TopicSpec:
        """One of the shared specs as this cluster's."""
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
    """The clusters by the first of their sort: no manifest tells two of one sort apart."""
    keys, mentions = _collect_cluster_references(topics)
    sorts: dict[Any, list[str]] = {}
    for name, cluster in clusters.items():
        labels = tuple((key, cluster.labels[key]) for key in keys if key in cluster.labels)
        settings = repr([getattr(cluster, field) for field in _GROUPING_FIELDS])
        sort = (labels, tuple(mentions.get(name, ())), settings, cluster.source is None)
        sorts.setdefault(sort, []).append(name)
    return {names[0]: names for names in sorts.values()}


def validate_group(group: Iterable[ClusterTopicSpecs]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """What is wrong with the specs of clusters of one sort, and what is only worth a word.

    What the first has nothing of, none of the others has; else each is asked, since words and places may be its own.
    """
    first, *others = group
    wrong = [spec for spec in first if any(spec_errors(spec))]
    noted = [spec for spec in first if any(spec_warnings(spec))]
    claimed = bool(topic_collision_errors(first))
    found, said = list[Diagnostic](), list[Diagnostic]()
    for specs in (first, *others):
        found.extend(complaint for spec in wrong for complaint in spec_errors(specs.for_cluster(spec)))
        found.extend(topic_collision_errors(specs) if claimed else ())
        said.extend(word for spec in noted for word in spec_warnings(specs.for_cluster(spec)))
    return found, said


def _collect_cluster_references(topics: Iterable[Manifest]) -> tuple[list[str], Mapping[str, list[int]]]:
    """The labels that manifests ask for, and for each cluster the places at which it is named, by number."""
    keys, mentions, place = set[str](), defaultdict[str, list[int]](list), 0
    for manifest in topics:
        for layer in (manifest.spec, *manifest.spec.get("overrides", ())):
            place += 1
            keys.update(layer.get("clusterSelector", {}).get("matchLabels", ()))
            for name in layer.get("clusters", ()):
                mentions[name].append(place)
    return sorted(keys), mentions
