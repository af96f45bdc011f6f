"""Which topics are meant for which cluster: all manifests of a run in, specs per cluster out.

After ``schema`` has judged each document by itself, this module judges them together: topics find their clusters, no
two claim the same topic, no two names collide. Before ``reconcile`` connects to anything, every complaint is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from topiarist.desired.duplicates import duplicate_document_errors, topic_collision_errors
from topiarist.desired.merge import merge
from topiarist.desired.rules import cluster_errors, cluster_warnings, spec_errors, spec_warnings
from topiarist.desired.shared_specs import ClusterTopicSpecs, group_clusters, validate_group
from topiarist.errors import Diagnostic, FieldPath
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec, ValueOrigin, find_item_origin, selects_cluster
from topiarist.schema.messages import did_you_mean
from topiarist.text import format_count

SELECTED_BY_LABEL = "(by label)"
"""Stands for the clusters that a selector would find if there were any documents."""

_MAX_LISTED = 10
"""Clusters that a hint lists by name."""


@dataclass(frozen=True, slots=True)
class Desired:
    """What a run is about: for each cluster its specs, sorted by topic.

    ``complaints`` stop a run; ``warnings`` do not. ``judged`` counts the topics that were looked at, ``passed_over``
    those that are meant for other clusters only.
    """

    specs: Mapping[str, Sequence[TopicSpec]]
    clusters: Mapping[str, ClusterSpec]
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    validated_count: int = 0
    skipped_count: int = 0

    @property
    def targeted_clusters(self) -> Mapping[str, ClusterSpec]:
        """The clusters that topics are meant for: to the others there is no reason to connect."""
        return {name: spec for name, spec in self.clusters.items() if self.specs[name]}


class _Resolver:
    """One pass over all manifests; collects as it goes. ``alike`` are the clusters in play, by the first of a sort;
    ``selected`` those firsts that a selector has found.
    """

    def __init__(
        self,
        clusters: Mapping[str, ClusterSpec],
        only_cluster: str | None,
        *,
        require_cluster_documents: bool,
        invalid_clusters: Collection[str],
    ) -> None:
        self.clusters = clusters
        self.invalid_clusters = invalid_clusters
        self.active_clusters = {only_cluster: clusters[only_cluster]} if only_cluster is not None else clusters
        self.is_single_cluster = only_cluster is not None
        self.require_cluster_documents = require_cluster_documents
        self.groups: Mapping[str, list[str]] = {}
        self.specs: dict[str, list[TopicSpec]] = {}
        self.matches_by_selector: dict[Hashable, list[str]] = {}
        self.errors: list[Diagnostic] = []
        self.skipped_count = 0
        self.unknown_cluster_specs: dict[str, list[TopicSpec]] = defaultdict(list)

    def assign_topics(self, manifests: Sequence[Manifest]) -> None:
        """Give all topics to the first clusters of every sort."""
        self.groups = group_clusters(self.active_clusters, manifests)
        self.specs = {name: [] for name in self.groups}
        for manifest in manifests:
            self.assign_topic(manifest)
        for specs in self.specs.values():
            specs.sort(key=lambda spec: spec.topic)

    def expand_group(self, first: str) -> Iterator[ClusterTopicSpecs]:
        """The specs of every cluster that is like the first of its sort."""
        shared = tuple(self.specs[first])
        return (ClusterTopicSpecs(shared, self.active_clusters[name]) for name in self.groups[first])

    def assign_topic(self, manifest: Manifest) -> None:
        """Give a topic to the clusters that it is meant for, or complain."""
        targets = self._target_clusters(manifest)
        if targets is None:
            return
        if not targets and (self.require_cluster_documents or not self._unknown_cluster_names(manifest)):
            self.skipped_count += 1
        for cluster in targets:
            self.specs[cluster.name].append(merge(manifest, cluster))

    def _target_clusters(self, manifest: Manifest) -> list[ClusterSpec] | None:
        spec = manifest.spec
        if "clusters" in spec or "clusterSelector" in spec:
            if set(self.clusters) == {""}:
                return self._targets_without_documents(manifest)
            if self._report_unknown_clusters(manifest):
                return None
            return [self.active_clusters[name] for name in self._matching_cluster_names(spec)]
        if self.invalid_clusters and not self.is_single_cluster:
            # Which cluster is meant, and what its defaults are, is known once its document has been mended.
            self._defer_unknown(manifest, (SELECTED_BY_LABEL,))
            return None
        if len(self.active_clusters) == 1:
            return list(self.active_clusters.values())
        names = ", ".join(sorted(self.active_clusters))
        self._add_error(
            manifest,
            (),
            f"{manifest.name}: names no cluster, and there are {len(self.active_clusters)}: {names}",
            "add clusters: [...] or a clusterSelector, or run with --cluster",
        )
        return None

    def _matching_cluster_names(self, spec: Mapping[str, Any]) -> Sequence[str]:
        """Of the clusters in play, those that a topic names or selects: no more is asked, as topics and clusters are
        many, and selectors few.
        """
        named = spec.get("clusters", ())
        if "clusterSelector" not in spec:
            return [name for name in named if name in self.specs]
        selector = frozenset(named), frozenset(spec["clusterSelector"].get("matchLabels", {}).items())
        if selector not in self.matches_by_selector:
            self.matches_by_selector[selector] = [
                name for name in self.specs if selects_cluster(spec, self.active_clusters[name])
            ]
        return self.matches_by_selector[selector]

    def _targets_without_documents(self, manifest: Manifest) -> list[ClusterSpec] | None:
        named = manifest.spec.get("clusters", ())
        if self.require_cluster_documents and not self.invalid_clusters:
            what = f"cluster {named[0]}" if named else "a clusterSelector"
            self._add_error(
                manifest,
                ("spec", "clusters" if named else "clusterSelector"),
                f"{manifest.name}: names {what}, but the run has only the address of an unnamed cluster",
                "add the Cluster document to the paths, or give it with --clusters",
            )
            return None
        self._defer_unknown(manifest, named or (SELECTED_BY_LABEL,))
        return None

    def _report_unknown_clusters(self, manifest: Manifest) -> bool:
        strangers = self._unknown_cluster_names(manifest)
        if not self.require_cluster_documents:
            self._defer_unknown(manifest, strangers)
            return False
        if self.is_single_cluster:
            return False
        self._defer_unknown(manifest, [name for name in strangers if name in self.invalid_clusters])
        unknown = [name for name in strangers if name not in self.invalid_clusters]
        for name in unknown:
            index = manifest.spec["clusters"].index(name)
            self._add_error(
                manifest,
                ("spec", "clusters", index),
                f"{manifest.name}: there is no Cluster {name}",
                unknown_cluster_hint(name, self.clusters),
            )
        return bool(unknown)

    def _unknown_cluster_names(self, manifest: Manifest) -> list[str]:
        """The clusters that a topic names and that have no document."""
        return [name for name in manifest.spec.get("clusters", ()) if name not in self.clusters]

    def _defer_unknown(self, manifest: Manifest, names: Sequence[str]) -> None:
        """Keep what a topic is on clusters without a document: what does not depend on the document is still judged."""
        for name in names:
            self.unknown_cluster_specs[name].append(merge(manifest, ClusterSpec(name)))

    def unchecked_cluster_warnings(self, unchecked: str) -> Iterator[Diagnostic]:
        """Return a warning for each cluster without a document, at the first topic that names it."""
        for name, specs in self.unknown_cluster_specs.items():
            manifest = specs[0].manifest
            named = manifest.spec.get("clusters", ())
            path: FieldPath = ("spec", "clusters", named.index(name)) if name in named else ("spec", "clusterSelector")
            which = "clusters chosen by label" if name == SELECTED_BY_LABEL else f"cluster {name}"
            message = f"{which}: no document here, so {format_count(len(specs), 'topic')} checked without {unchecked}"
            yield Diagnostic(manifest.source.locate(path), message, unknown_cluster_hint(name, self.clusters))

    def _add_error(self, manifest: Manifest, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        self.errors.append(Diagnostic(manifest.source.locate(path or ("metadata", "name")), message, hint))


def resolve(
    topics: Sequence[Manifest],
    clusters: Mapping[str, ClusterSpec],
    *,
    only_cluster: str | None = None,
    require_cluster_documents: bool = True,
    invalid_clusters: Collection[str] = (),
    unchecked_parts: str = "defaults",
) -> Desired:
    """The specs of every cluster in play, with everything that is wrong about them.

    ``only_cluster`` narrows to one cluster (it must be in ``clusters``). ``require_cluster_documents`` is for runs that
    know all their clusters: a topic that names a cluster without a document is then a complaint. Otherwise each such
    cluster is a warning, which says what topics were not checked against (``unchecked_parts``). ``invalid_clusters``
    are clusters whose documents are there but wrong, which stops the run: what only follows from that is no complaint
    of its own.
    """
    resolution = _Resolver(
        clusters, only_cluster, require_cluster_documents=require_cluster_documents, invalid_clusters=invalid_clusters
    )
    resolution.assign_topics(topics)
    found = resolution.errors + duplicate_document_errors(topics)
    said: list[Diagnostic] = [
        warning
        for manifest in topics
        for warning in _unused_override_warnings(manifest, clusters, require_cluster_documents)
    ]
    said.extend(_unused_exclusion_warnings(chain.from_iterable(resolution.specs.values())))
    said.extend(resolution.unchecked_cluster_warnings(unchecked_parts))
    found.extend(chain.from_iterable(map(cluster_errors, resolution.active_clusters.values())))
    said.extend(chain.from_iterable(map(cluster_warnings, resolution.active_clusters.values())))
    specs = {each.cluster.name: each for first in resolution.groups for each in resolution.expand_group(first)}
    for first in resolution.groups:
        more, words = validate_group(resolution.expand_group(first))
        found.extend(more)
        said.extend(words)
    for name, strange in resolution.unknown_cluster_specs.items():
        found.extend(chain.from_iterable(spec_errors(spec, cluster_document_known=False) for spec in strange))
        found.extend(topic_collision_errors(strange) if name != SELECTED_BY_LABEL else ())
        said.extend(chain.from_iterable(map(spec_warnings, strange)))
    judged = chain(*resolution.specs.values(), *resolution.unknown_cluster_specs.values())
    return Desired(
        specs={name: specs[name] for name in resolution.active_clusters},
        clusters=resolution.active_clusters,
        errors=tuple(sorted(set(found))),
        warnings=tuple(sorted(set(said))),
        validated_count=len({spec.topic for spec in judged}),
        skipped_count=resolution.skipped_count,
    )


def unknown_cluster_hint(name: str, clusters: Collection[str]) -> str:
    """Return what to do about a cluster name that no document has: the likely name, and the known ones."""
    known = sorted(filter(None, clusters))
    if not known:
        return "add the Cluster document to the paths, or give it with --clusters or --platform"
    rest = f" and {len(known) - _MAX_LISTED:,} more" if len(known) > _MAX_LISTED else ""
    listed = f"the clusters of this run are: {', '.join(known[:_MAX_LISTED])}{rest}"
    meant = did_you_mean(name, known)
    return f"{meant} {listed[0].upper()}{listed[1:]}" if meant else listed


def _unused_override_warnings(
    manifest: Manifest, clusters: Mapping[str, ClusterSpec], require_cluster_documents: bool
) -> Iterator[Diagnostic]:
    """Overrides for clusters that a topic is never meant for: a slip of the pen would go unseen."""
    own = manifest.spec.get("clusters")
    nameless = require_cluster_documents and set(clusters) == {""}
    why = "the run has only the address of an unnamed cluster" if nameless else "the topic is not meant for it"
    for index, override in enumerate(manifest.spec.get("overrides", ())):
        for position, name in enumerate(override.get("clusters", ())):
            if nameless or (own is not None and name not in own):
                yield Diagnostic(
                    manifest.source.locate(("spec", "overrides", index, "clusters", position)),
                    f"{manifest.name}: the override for cluster {name} has no effect: {why}",
                    f"the topic's clusters are: {', '.join(own)}" if own else "",
                )


def _unused_exclusion_warnings(specs: Iterable[TopicSpec]) -> Iterator[Diagnostic]:
    """Keys in ``withoutConfig`` that none of a topic's clusters has among its defaults: nothing is left out by them."""
    idle: dict[tuple[int, FieldPath], tuple[ValueOrigin, str]] = {}
    useful = set()
    for spec in specs:
        for key in spec.excluded_default_keys if spec.cluster.source else ():
            where = find_item_origin(spec, "withoutConfig", key)
            written = (id(spec.manifest), where.path)  # two may have the same name: that is a complaint of its own
            idle[written] = (where, key)
            if key in spec.cluster.default_config:
                useful.add(written)
    for written, (where, key) in idle.items():
        if written not in useful and (place := where.locate()):
            yield Diagnostic(place, f"{key}: nothing is left out, since no cluster of the topic has it as a default")
