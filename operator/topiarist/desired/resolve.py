"""Assignment of topics to clusters: all manifests of a run in, sorted specs per cluster out.

``schema.check`` validates each document alone. This module validates the documents together: every topic selects
existing clusters, no two documents declare one topic, and no two names collide. ``reconcile`` connects to a cluster
only after this module has returned every error. It calls ``merge`` for each topic and cluster, and ``rules`` for each
spec.
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
"""Placeholder name for the clusters that a selector would match if their documents were known."""

_MAX_LISTED = 10
"""Clusters that a hint lists by name."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The specs of a run for each cluster, sorted by topic.

    ``errors`` stop a run; ``warnings`` do not. ``validated_count`` counts the topics that were validated,
    ``skipped_count`` the topics that are meant only for clusters outside this run.
    """

    specs: Mapping[str, Sequence[TopicSpec]]
    clusters: Mapping[str, ClusterSpec]
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    validated_count: int = 0
    skipped_count: int = 0

    @property
    def targeted_clusters(self) -> Mapping[str, ClusterSpec]:
        """The clusters that have topics: a run connects to no other cluster."""
        return {name: spec for name, spec in self.clusters.items() if self.specs[name]}


class _Resolver:
    """A collector that assigns all manifests to clusters.

    ``active_clusters`` are the clusters of the run. ``groups`` has, by the first cluster of each group, the clusters
    that share specs. ``matches_by_selector`` caches the first clusters that a selector matches.
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
        """Assign every topic to the first cluster of each group."""
        self.groups = group_clusters(self.active_clusters, manifests)
        self.specs = {name: [] for name in self.groups}
        for manifest in manifests:
            self.assign_topic(manifest)
        for specs in self.specs.values():
            specs.sort(key=lambda spec: spec.topic)

    def expand_group(self, first: str) -> Iterator[ClusterTopicSpecs]:
        """Return the specs of every cluster in the group of ``first``."""
        shared = tuple(self.specs[first])
        return (ClusterTopicSpecs(shared, self.active_clusters[name]) for name in self.groups[first])

    def assign_topic(self, manifest: Manifest) -> None:
        """Assign a topic to its target clusters, or record an error."""
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
            # The target cluster and its defaults are unknown until its document is valid.
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
        """Return the active clusters that a topic names or selects.

        Matches are cached by selector, because there are many topics and clusters but few selectors.
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
            target = f"cluster {named[0]}" if named else "a clusterSelector"
            self._add_error(
                manifest,
                ("spec", "clusters" if named else "clusterSelector"),
                f"{manifest.name}: names {target}, but the run has only the address of an unnamed cluster",
                "add the Cluster document to the paths, or give it with --clusters",
            )
            return None
        self._defer_unknown(manifest, named or (SELECTED_BY_LABEL,))
        return None

    def _report_unknown_clusters(self, manifest: Manifest) -> bool:
        unknown_names = self._unknown_cluster_names(manifest)
        if not self.require_cluster_documents:
            self._defer_unknown(manifest, unknown_names)
            return False
        if self.is_single_cluster:
            return False
        self._defer_unknown(manifest, [name for name in unknown_names if name in self.invalid_clusters])
        unknown = [name for name in unknown_names if name not in self.invalid_clusters]
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
        """Return the clusters that a topic names and that have no document."""
        return [name for name in manifest.spec.get("clusters", ()) if name not in self.clusters]

    def _defer_unknown(self, manifest: Manifest, names: Sequence[str]) -> None:
        """Merge a topic for clusters without a document.

        Such specs get the checks that do not depend on the document.
        """
        for name in names:
            self.unknown_cluster_specs[name].append(merge(manifest, ClusterSpec(name)))

    def unchecked_cluster_warnings(self, unchecked: str) -> Iterator[Diagnostic]:
        """Yield a warning for each cluster without a document, at the first topic that names it."""
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
    """Return the specs of every active cluster, with all errors and warnings.

    ``only_cluster`` restricts the run to one cluster, which must be in ``clusters``. With ``require_cluster_documents``
    a topic that names a cluster without a document is an error. Without it, each such cluster is a warning that names
    the checks that were left out (``unchecked_parts``). ``invalid_clusters`` are clusters with an invalid document,
    which stops the run: errors that only follow from the invalid document are not reported.
    """
    resolution = _Resolver(
        clusters, only_cluster, require_cluster_documents=require_cluster_documents, invalid_clusters=invalid_clusters
    )
    resolution.assign_topics(topics)
    errors = resolution.errors + duplicate_document_errors(topics)
    warnings: list[Diagnostic] = [
        warning
        for manifest in topics
        for warning in _unused_override_warnings(manifest, clusters, require_cluster_documents)
    ]
    warnings.extend(_unused_exclusion_warnings(chain.from_iterable(resolution.specs.values())))
    warnings.extend(resolution.unchecked_cluster_warnings(unchecked_parts))
    errors.extend(chain.from_iterable(map(cluster_errors, resolution.active_clusters.values())))
    warnings.extend(chain.from_iterable(map(cluster_warnings, resolution.active_clusters.values())))
    specs = {each.cluster.name: each for first in resolution.groups for each in resolution.expand_group(first)}
    for first in resolution.groups:
        group_errors, group_warnings = validate_group(resolution.expand_group(first))
        errors.extend(group_errors)
        warnings.extend(group_warnings)
    for name, deferred in resolution.unknown_cluster_specs.items():
        errors.extend(chain.from_iterable(spec_errors(spec, cluster_document_known=False) for spec in deferred))
        errors.extend(topic_collision_errors(deferred) if name != SELECTED_BY_LABEL else ())
        warnings.extend(chain.from_iterable(map(spec_warnings, deferred)))
    validated = chain(*resolution.specs.values(), *resolution.unknown_cluster_specs.values())
    return Desired(
        specs={name: specs[name] for name in resolution.active_clusters},
        clusters=resolution.active_clusters,
        errors=tuple(sorted(set(errors))),
        warnings=tuple(sorted(set(warnings))),
        validated_count=len({spec.topic for spec in validated}),
        skipped_count=resolution.skipped_count,
    )


def unknown_cluster_hint(name: str, clusters: Collection[str]) -> str:
    """Return a hint for an unknown cluster name: the closest name and the known clusters."""
    known = sorted(filter(None, clusters))
    if not known:
        return "add the Cluster document to the paths, or give it with --clusters or --platform"
    rest = f" and {len(known) - _MAX_LISTED:,} more" if len(known) > _MAX_LISTED else ""
    listed = f"the clusters of this run are: {', '.join(known[:_MAX_LISTED])}{rest}"
    suggestion = did_you_mean(name, known)
    return f"{suggestion} {listed[0].upper()}{listed[1:]}" if suggestion else listed


def _unused_override_warnings(
    manifest: Manifest, clusters: Mapping[str, ClusterSpec], require_cluster_documents: bool
) -> Iterator[Diagnostic]:
    """Yield a warning for each override of a cluster that the topic is not meant for."""
    own = manifest.spec.get("clusters")
    is_unnamed = require_cluster_documents and set(clusters) == {""}
    reason = "the run has only the address of an unnamed cluster" if is_unnamed else "the topic is not meant for it"
    for index, override in enumerate(manifest.spec.get("overrides", ())):
        for position, name in enumerate(override.get("clusters", ())):
            if is_unnamed or (own is not None and name not in own):
                yield Diagnostic(
                    manifest.source.locate(("spec", "overrides", index, "clusters", position)),
                    f"{manifest.name}: the override for cluster {name} has no effect: {reason}",
                    f"the topic's clusters are: {', '.join(own)}" if own else "",
                )


def _unused_exclusion_warnings(specs: Iterable[TopicSpec]) -> Iterator[Diagnostic]:
    """Yield a warning for each key in ``withoutConfig`` that is a default of none of the topic's clusters."""
    candidates: dict[tuple[int, FieldPath], tuple[ValueOrigin, str]] = {}
    used = set()
    for spec in specs:
        for key in spec.excluded_default_keys if spec.cluster.source else ():
            where = find_item_origin(spec, "withoutConfig", key)
            # By identity: two manifests may have the same name, which is a separate error.
            written = (id(spec.manifest), where.path)
            candidates[written] = (where, key)
            if key in spec.cluster.default_config:
                used.add(written)
    for written, (where, key) in candidates.items():
        if written not in used and (place := where.locate()):
            yield Diagnostic(place, f"{key}: nothing is left out, since no cluster of the topic has it as a default")
