"""Assignment of topics to clusters: all manifests of a run in, sorted specs per cluster out.

``schema.check`` validates each document alone. This module validates the documents together: every topic selects
existing clusters, no two documents declare one topic, and no two names collide. ``reconcile`` connects to a cluster
only after this module has returned every error. ``shared_specs`` calls ``merge`` and ``rules`` once for all clusters on
which a topic has the same spec.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from topiarist.desired import shared_specs
from topiarist.desired.parse import cluster_errors, cluster_warnings, spec_errors, spec_warnings
from topiarist.errors import Diagnostic, FieldPath
from topiarist.kafka.types import matches_any
from topiarist.model.spec import (
    ClusterSpec,
    LabelSelectorRequirement,
    Manifest,
    SelectorOperator,
    TopicSpec,
    ValueOrigin,
    find_item_origin,
    find_origin,
)
from topiarist.schema.check import did_you_mean
from topiarist.text import format_count, list_first, quote

# Errors of topics in one ``coPartitionGroup``: they must ask for equal numbers of partitions on each cluster.
#
# The topics of a group may be in different files, so ``resolve`` checks the specs of all manifests.
# ``filters.chain`` keeps the numbers equal when a run may not make the growth of every topic.


def co_partition_errors(
    groups: Iterable[shared_specs.SpecGroup], clusters: Mapping[str, ClusterSpec]
) -> Iterator[Diagnostic]:
    """Yield an error for each topic with another number of partitions than the first topic of its group, by name.

    Topics to be absent, and topics without partitions (an error of their own), do not count.
    """
    members: defaultdict[str, list[tuple[TopicSpec, shared_specs.SpecGroup]]] = defaultdict(list)
    for group in groups:
        for spec in group.specs:
            if spec.co_partition_group and not spec.absent and spec.partitions is not None:
                members[spec.co_partition_group].append((spec, group))
    for name, found in members.items():
        if len({spec.partitions for spec, _ in found}) > 1:
            for cluster in clusters:
                specs = (spec for spec, group in found if cluster in group.clusters)
                yield from _find_differences(name, cluster, sorted(specs, key=lambda spec: spec.topic))


def _find_differences(group: str, cluster: str, specs: list[TopicSpec]) -> Iterator[Diagnostic]:
    for spec in specs[1:]:
        if spec.partitions == specs[0].partitions:
            continue
        place, first_place = (find_origin(each, _size_field(each)).locate() for each in (spec, specs[0]))
        where = f" on cluster {cluster}" if cluster else ""
        found = f"found {format_count(spec.partitions or 0, 'partition')}{where}, wanted {specs[0].partitions}"
        message = f"{spec.topic}: {found} as for {specs[0].topic} at {first_place}"
        message += f": both are in coPartitionGroup {group}"
        if place:
            yield Diagnostic(place, message, "give all topics of the group the same number, or take this one out of it")


def _size_field(spec: TopicSpec) -> str:
    return "replicaAssignment" if spec.assignment is not None else "partitions"


# Selection of some topics of a run: by patterns of their names, and by labels of their manifests.
#
# ``runs.inputs`` selects after all manifests are validated together, so that a selection hides no error. The planner is
# told that a selection is in effect: a topic that was not selected is neither compared nor missing from the manifests.

_KEY = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
_COMPARISON = re.compile(rf"(?P<key>{_KEY})(?P<operator>==|=|!=)(?P<value>{_VALUE})")
_EXISTENCE = re.compile(rf"(?P<not>!?)(?P<key>{_KEY})")


class TopicSelection(Struct, frozen=True):
    """The selected topics: those that match one of the patterns, if any, and all requirements of their labels.

    ``text`` is the selection as the user wrote it.
    """

    patterns: tuple[str, ...] = ()
    requirements: tuple[LabelSelectorRequirement, ...] = ()
    text: str = ""

    def matches(self, spec: TopicSpec) -> bool:
        """Return whether a topic is selected."""
        if self.patterns and not matches_any(spec.topic, self.patterns):
            return False
        return all(requirement.is_met_by(spec.labels) for requirement in self.requirements)


NO_SELECTION = TopicSelection()
"""The selection of all topics."""


def select_with_groups(selection: TopicSelection, specs: Iterable[TopicSpec]) -> list[TopicSpec]:
    """Return the selected specs of one cluster, and all others of their co-partition groups.

    The topics of a group grow together or not at all, so that a run needs all of them.
    """
    every = [*specs]
    groups = {spec.co_partition_group for spec in every if spec.co_partition_group and selection.matches(spec)}
    return [spec for spec in every if spec.co_partition_group in groups or selection.matches(spec)]


def parse_label_selector(text: str) -> tuple[LabelSelectorRequirement, ...]:
    """Parse a label selector as ``kubectl get --selector`` has it: ``team=shop,tier!=test,owner,!legacy``.

    Empty text has no requirements. Raises ``ValueError`` with the found and the wanted text.
    """
    return tuple(_parse_requirement(part.strip()) for part in text.split(",")) if text else ()


def _parse_requirement(text: str) -> LabelSelectorRequirement:
    if found := _COMPARISON.fullmatch(text):
        operator = SelectorOperator.NOT_IN if found["operator"] == "!=" else SelectorOperator.IN
        return LabelSelectorRequirement(found["key"], operator, (found["value"],))
    if found := _EXISTENCE.fullmatch(text):
        return LabelSelectorRequirement(
            found["key"], SelectorOperator.DOES_NOT_EXIST if found["not"] else SelectorOperator.EXISTS
        )
    raise ValueError(f"found {quote(text)}, wanted KEY=VALUE, KEY!=VALUE, KEY or !KEY, with commas between")


SELECTED_BY_LABEL = "(by label)"
"""Placeholder name for the clusters that a selector would match if their documents were known."""


class Desired(Struct, frozen=True):
    """The specs of a run for each cluster, sorted by topic, and the ``unselected`` topics that have manifests.

    ``errors`` stop a run; ``warnings`` do not. ``validated_count`` counts the topics that were validated,
    ``skipped_count`` the topics that are meant only for clusters outside this run.
    """

    specs: Mapping[str, Sequence[TopicSpec]]
    clusters: Mapping[str, ClusterSpec]
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    validated_count: int = 0
    skipped_count: int = 0
    unselected: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def topics(self) -> Iterator[str]:
        """The name of each spec; a topic on several clusters is there as often."""
        return (spec.topic for specs in self.specs.values() for spec in specs)

    @property
    def targeted_clusters(self) -> Mapping[str, ClusterSpec]:
        """The clusters that have topics: a run connects to no other cluster."""
        return {name: spec for name, spec in self.clusters.items() if self.specs[name]}


class _Resolver(Struct, eq=False):
    """A collector that assigns all manifests to clusters.

    ``active_clusters`` are the clusters of the run, ``is_single_cluster`` is true if the run is restricted to one.
    ``grouper`` has the specs of the active clusters, ``unknown_cluster_specs`` those of clusters without a valid
    document.
    """

    clusters: Mapping[str, ClusterSpec]
    active_clusters: Mapping[str, ClusterSpec]
    is_single_cluster: bool
    require_cluster_documents: bool
    invalid_clusters: Collection[str]
    grouper: shared_specs.SpecGrouper
    errors: list[Diagnostic] = field(default_factory=list)
    skipped_count: int = 0
    unknown_cluster_specs: dict[str, list[TopicSpec]] = field(default_factory=lambda: defaultdict(list))

    def assign_topic(self, manifest: Manifest) -> None:
        """Assign a topic to its clusters, or record an error."""
        targets = self._target_clusters(manifest)
        if targets is None:
            return
        if not targets and (self.require_cluster_documents or not self._unknown_cluster_names(manifest)):
            self.skipped_count += 1
        self.grouper.add_topic(manifest, targets)

    def _target_clusters(self, manifest: Manifest) -> tuple[str, ...] | None:
        """Return the names of the clusters of a topic; None if they are unknown, which is recorded."""
        spec = manifest.spec
        if "clusters" in spec or "clusterSelector" in spec:
            if self.clusters.keys() == {""}:
                self._record_target_of_unnamed_cluster(manifest)
                return None
            if self._record_unknown_clusters(manifest):
                return None
            return self.grouper.match_clusters(spec)
        if self.invalid_clusters and not self.is_single_cluster:
            # The target cluster and its defaults are unknown until its document is valid.
            self._defer_unknown(manifest, (SELECTED_BY_LABEL,))
            return None
        if len(self.active_clusters) == 1:
            return tuple(self.active_clusters)
        names = list_first(sorted(self.active_clusters))
        self._add_error(
            manifest,
            (),
            f"{manifest.name}: names no cluster, and the run has {len(self.active_clusters)}: {names}",
            "add clusters: [...] or a clusterSelector, or run with --cluster",
        )
        return None

    def _record_target_of_unnamed_cluster(self, manifest: Manifest) -> None:
        named = manifest.spec.get("clusters", ())
        if not self.require_cluster_documents or self.invalid_clusters:
            self._defer_unknown(manifest, named or (SELECTED_BY_LABEL,))
            return
        target = f"cluster {named[0]}" if named else "a clusterSelector"
        self._add_error(
            manifest,
            ("spec", "clusters" if named else "clusterSelector"),
            f"{manifest.name}: names {target}, but the run has only the address of an unnamed cluster",
            "add the Cluster document to the paths, or give it with --clusters",
        )

    def _record_unknown_clusters(self, manifest: Manifest) -> bool:
        """Record the clusters of a topic that have no document; return whether any of them is an error."""
        unknown = self._unknown_cluster_names(manifest)
        if self.is_single_cluster and self.require_cluster_documents:
            return False
        is_error = self.require_cluster_documents
        self._defer_unknown(manifest, [name for name in unknown if not is_error or name in self.invalid_clusters])
        missing = [name for name in unknown if is_error and name not in self.invalid_clusters]
        for name in missing:
            path = ("spec", "clusters", manifest.spec["clusters"].index(name))
            hint = unknown_cluster_hint(name, self.clusters)
            self._add_error(manifest, path, f"{manifest.name}: there is no Cluster {name}", hint)
        return bool(missing)

    def _unknown_cluster_names(self, manifest: Manifest) -> list[str]:
        return [name for name in manifest.spec.get("clusters", ()) if name not in self.clusters]

    def _defer_unknown(self, manifest: Manifest, names: Sequence[str]) -> None:
        """Merge a topic for clusters without a document, for the checks that do not depend on the document."""
        for name in names:
            self.unknown_cluster_specs[name].append(shared_specs.merge(manifest, ClusterSpec(name)))

    def unchecked_cluster_warnings(self, unchecked: str) -> Iterator[Diagnostic]:
        """Yield a warning for each cluster without a document, at the first topic that names it."""
        for name, specs in self.unknown_cluster_specs.items():
            manifest = specs[0].manifest
            named = manifest.spec.get("clusters", ())
            path: FieldPath = ("spec", "clusters", named.index(name)) if name in named else ("spec", "clusterSelector")
            which = "clusters chosen by label" if name == SELECTED_BY_LABEL else f"cluster {name}"
            message = f"{which}: no document here, so {format_count(len(specs), 'topic')} checked without {unchecked}"
            yield Diagnostic(manifest.source.locate(path), message, unknown_cluster_hint(name, self.clusters))

    def _add_error(self, manifest: Manifest, path: FieldPath, message: str, hint: str) -> None:
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
    which stops the run: errors and warnings that may only follow from the invalid document are not reported.
    """
    active = {only_cluster: clusters[only_cluster]} if only_cluster is not None else clusters
    grouper = shared_specs.SpecGrouper(active)
    resolver = _Resolver(
        clusters,
        active,
        is_single_cluster=only_cluster is not None,
        require_cluster_documents=require_cluster_documents,
        invalid_clusters=invalid_clusters,
        grouper=grouper,
    )
    for manifest in topics:
        resolver.assign_topic(manifest)
    specs = grouper.finish()
    errors, warnings = grouper.validate(topics)
    errors += resolver.errors + shared_specs.duplicate_document_errors(topics)
    errors.extend(co_partition_errors(grouper.groups, active))
    for manifest in topics:
        warnings.extend(_unused_override_warnings(manifest, clusters, require_cluster_documents))
    if not invalid_clusters:
        warnings.extend(_unused_exclusion_warnings(grouper.specs))
        warnings.extend(resolver.unchecked_cluster_warnings(unchecked_parts))
    for cluster in active.values():
        errors.extend(cluster_errors(cluster))
        warnings.extend(cluster_warnings(cluster))
    for name, deferred in resolver.unknown_cluster_specs.items():
        errors.extend(chain.from_iterable(spec_errors(spec, cluster_document_known=False) for spec in deferred))
        errors.extend(shared_specs.topic_collision_errors(deferred) if name != SELECTED_BY_LABEL else ())
        warnings.extend(chain.from_iterable(map(spec_warnings, deferred)))
    validated = chain(grouper.specs, *resolver.unknown_cluster_specs.values())
    return Desired(
        specs=specs,
        clusters=active,
        errors=tuple(sorted(set(errors))),
        warnings=tuple(sorted(set(warnings))),
        validated_count=len({spec.topic for spec in validated}),
        skipped_count=resolver.skipped_count,
    )


def unknown_cluster_hint(name: str, clusters: Collection[str]) -> str:
    """Return a hint for an unknown cluster name: the closest name and the known clusters."""
    known = sorted(filter(None, clusters))
    if not known:
        return "add the Cluster document to the paths, or give it with --clusters or --platform"
    listed = f"the clusters of this run are: {list_first(known)}"
    suggestion = did_you_mean(name, known)
    return f"{suggestion} {listed[0].upper()}{listed[1:]}" if suggestion else listed


def _unused_override_warnings(
    manifest: Manifest, clusters: Mapping[str, ClusterSpec], require_cluster_documents: bool
) -> Iterator[Diagnostic]:
    """Yield a warning for each override of a cluster that the topic is not meant for."""
    own = manifest.spec.get("clusters")
    is_unnamed = require_cluster_documents and clusters.keys() == {""}
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
            message = f"{key}: withoutConfig has no effect, since no cluster of the topic has this default"
            yield Diagnostic(place, message)
