"""Which topics are meant for which cluster: all manifests of a run in, specs per cluster out.

After ``schema`` has judged each document by itself, this module judges them together: topics find their clusters, no
two claim the same topic, no two names collide. Before ``reconcile`` connects to anything, every complaint is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from topiarist.core.alike import Specs, alike, said_of
from topiarist.core.change import Plan
from topiarist.core.claims import claims, duplicates
from topiarist.core.rules import cluster_complaints, cluster_warnings, complaints, warnings
from topiarist.core.spec import (
    ClusterSpec,
    Manifest,
    Origin,
    TopicSpec,
    item_origin,
    merge,
    selects,
)
from topiarist.core.units import count
from topiarist.errors import Complaint, Path
from topiarist.schema.words import guess

BY_LABEL = "(by label)"
"""Stands for the clusters that a selector would find if there were any documents."""

_MAX_LISTED = 10
"""Clusters that a hint lists by name."""


@dataclass(frozen=True, slots=True)
class Desired:
    """What a run is about: for each cluster its specs, sorted by topic.

    ``complaints`` stop a run; ``warnings`` do not. ``judged`` counts the topics that were looked at, ``passed_over``
    those that are meant for other clusters only. ``guard`` is what the policies of the run leave of a plan.
    """

    specs: Mapping[str, Sequence[TopicSpec]]
    clusters: Mapping[str, ClusterSpec]
    complaints: tuple[Complaint, ...] = ()
    warnings: tuple[Complaint, ...] = ()
    judged: int = 0
    passed_over: int = 0
    guard: Callable[[Plan], Plan] = field(default=lambda plan: plan)

    @property
    def wanted(self) -> Mapping[str, ClusterSpec]:
        """The clusters that topics are meant for: to the others there is no reason to connect."""
        return {name: spec for name, spec in self.clusters.items() if self.specs[name]}


class _Resolution:
    """One pass over all manifests; collects as it goes. ``alike`` are the clusters in play, by the first of a sort;
    ``selected`` those firsts that a selector has found.
    """

    def __init__(
        self, clusters: Mapping[str, ClusterSpec], only: str | None, *, strict: bool, broken: Collection[str]
    ) -> None:
        self.clusters = clusters
        self.broken = broken
        self.in_play = {only: clusters[only]} if only is not None else clusters
        self.narrowed = only is not None
        self.strict = strict
        self.alike: Mapping[str, list[str]] = {}
        self.specs: dict[str, list[TopicSpec]] = {}
        self.selected: dict[Hashable, list[str]] = {}
        self.complaints: list[Complaint] = []
        self.passed_over = 0
        self.strangers: dict[str, list[TopicSpec]] = defaultdict(list)

    def topics(self, manifests: Sequence[Manifest]) -> None:
        """Give all topics to the first clusters of every sort."""
        self.alike = alike(self.in_play, manifests)
        self.specs = {name: [] for name in self.alike}
        for manifest in manifests:
            self.topic(manifest)
        for specs in self.specs.values():
            specs.sort(key=lambda spec: spec.topic)

    def each(self, first: str) -> Iterator[Specs]:
        """The specs of every cluster that is like the first of its sort."""
        shared = tuple(self.specs[first])
        return (Specs(shared, self.in_play[name]) for name in self.alike[first])

    def topic(self, manifest: Manifest) -> None:
        """Give a topic to the clusters that it is meant for, or complain."""
        targets = self._targets(manifest)
        if targets is None:
            return
        if not targets and (self.strict or not self._strangers_of(manifest)):
            self.passed_over += 1
        for cluster in targets:
            self.specs[cluster.name].append(merge(manifest, cluster))

    def _targets(self, manifest: Manifest) -> list[ClusterSpec] | None:
        spec = manifest.spec
        if "clusters" in spec or "clusterSelector" in spec:
            if set(self.clusters) == {""}:
                return self._named_without_document(manifest)
            if self._unknown(manifest):
                return None
            return [self.in_play[name] for name in self._meant(spec)]
        if self.broken and not self.narrowed:
            # Which cluster is meant, and what its defaults are, is known once its document has been mended.
            self._strange(manifest, (BY_LABEL,))
            return None
        if len(self.in_play) == 1:
            return list(self.in_play.values())
        names = ", ".join(sorted(self.in_play))
        self._complain(
            manifest,
            (),
            f"{manifest.name}: names no cluster, and there are {len(self.in_play)}: {names}",
            "add clusters: [...] or a clusterSelector, or run with --cluster",
        )
        return None

    def _meant(self, spec: Mapping[str, Any]) -> Sequence[str]:
        """Of the clusters in play, those that a topic names or selects: no more is asked, as topics and clusters are
        many, and selectors few.
        """
        named = spec.get("clusters", ())
        if "clusterSelector" not in spec:
            return [name for name in named if name in self.specs]
        selector = frozenset(named), frozenset(spec["clusterSelector"].get("matchLabels", {}).items())
        if selector not in self.selected:
            self.selected[selector] = [name for name in self.specs if selects(spec, self.in_play[name])]
        return self.selected[selector]

    def _named_without_document(self, manifest: Manifest) -> list[ClusterSpec] | None:
        named = manifest.spec.get("clusters", ())
        if self.strict and not self.broken:
            what = f"cluster {named[0]}" if named else "a clusterSelector"
            self._complain(
                manifest,
                ("spec", "clusters" if named else "clusterSelector"),
                f"{manifest.name}: names {what}, but the run has only the address of an unnamed cluster",
                "add the Cluster document to the paths, or give it with --clusters",
            )
            return None
        self._strange(manifest, named or (BY_LABEL,))
        return None

    def _unknown(self, manifest: Manifest) -> bool:
        strangers = self._strangers_of(manifest)
        if not self.strict:
            self._strange(manifest, strangers)
            return False
        if self.narrowed:
            return False
        self._strange(manifest, [name for name in strangers if name in self.broken])
        unknown = [name for name in strangers if name not in self.broken]
        for name in unknown:
            index = manifest.spec["clusters"].index(name)
            self._complain(
                manifest,
                ("spec", "clusters", index),
                f"{manifest.name}: there is no Cluster {name}",
                hint_for(name, self.clusters),
            )
        return bool(unknown)

    def _strangers_of(self, manifest: Manifest) -> list[str]:
        """The clusters that a topic names and that have no document."""
        return [name for name in manifest.spec.get("clusters", ()) if name not in self.clusters]

    def _strange(self, manifest: Manifest, names: Sequence[str]) -> None:
        """Keep what a topic is on clusters without a document: what does not depend on the document is still judged."""
        for name in names:
            self.strangers[name].append(merge(manifest, ClusterSpec(name)))

    def unjudged(self, unchecked: str) -> Iterator[Complaint]:
        """Return a warning for each cluster without a document, at the first topic that names it."""
        for name, specs in self.strangers.items():
            manifest = specs[0].manifest
            named = manifest.spec.get("clusters", ())
            path: Path = ("spec", "clusters", named.index(name)) if name in named else ("spec", "clusterSelector")
            which = "clusters chosen by label" if name == BY_LABEL else f"cluster {name}"
            message = f"{which}: no document here, so {count(len(specs), 'topic')} checked without {unchecked}"
            yield Complaint(manifest.source.place(path), message, hint_for(name, self.clusters))

    def _complain(self, manifest: Manifest, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        self.complaints.append(Complaint(manifest.source.place(path or ("metadata", "name")), message, hint))


def resolve(
    topics: Sequence[Manifest],
    clusters: Mapping[str, ClusterSpec],
    *,
    only: str | None = None,
    strict: bool = True,
    broken: Collection[str] = (),
    unchecked: str = "defaults",
) -> Desired:
    """The specs of every cluster in play, with everything that is wrong about them.

    ``only`` narrows to one cluster (it must be in ``clusters``). ``strict`` is for runs that know all their clusters: a
    topic that names a cluster without a document is then a complaint. Otherwise each such cluster is a warning, which
    says what topics were not checked against (``unchecked``).
    ``broken`` are clusters whose documents are there but wrong, which stops the run: what only follows from that is no
    complaint of its own.
    """
    resolution = _Resolution(clusters, only, strict=strict, broken=broken)
    resolution.topics(topics)
    found = resolution.complaints + duplicates(topics)
    said: list[Complaint] = [warning for manifest in topics for warning in _idle_overrides(manifest, clusters, strict)]
    said.extend(_idle_exclusions(chain.from_iterable(resolution.specs.values())))
    said.extend(resolution.unjudged(unchecked))
    found.extend(chain.from_iterable(map(cluster_complaints, resolution.in_play.values())))
    said.extend(chain.from_iterable(map(cluster_warnings, resolution.in_play.values())))
    specs = {each.cluster.name: each for first in resolution.alike for each in resolution.each(first)}
    for first in resolution.alike:
        more, words = said_of(resolution.each(first))
        found.extend(more)
        said.extend(words)
    for name, strange in resolution.strangers.items():
        found.extend(chain.from_iterable(complaints(spec, known=False) for spec in strange))
        found.extend(claims(strange) if name != BY_LABEL else ())
        said.extend(chain.from_iterable(map(warnings, strange)))
    judged = chain(*resolution.specs.values(), *resolution.strangers.values())
    return Desired(
        specs={name: specs[name] for name in resolution.in_play},
        clusters=resolution.in_play,
        complaints=tuple(sorted(set(found))),
        warnings=tuple(sorted(set(said))),
        judged=len({spec.topic for spec in judged}),
        passed_over=resolution.passed_over,
    )


def hint_for(name: str, clusters: Collection[str]) -> str:
    """Return what to do about a cluster name that no document has: the likely name, and the known ones."""
    known = sorted(filter(None, clusters))
    if not known:
        return "add the Cluster document to the paths, or give it with --clusters or --platform"
    rest = f" and {len(known) - _MAX_LISTED:,} more" if len(known) > _MAX_LISTED else ""
    listed = f"the clusters of this run are: {', '.join(known[:_MAX_LISTED])}{rest}"
    meant = guess(name, known)
    return f"{meant} {listed[0].upper()}{listed[1:]}" if meant else listed


def _idle_overrides(manifest: Manifest, clusters: Mapping[str, ClusterSpec], strict: bool) -> Iterator[Complaint]:
    """Overrides for clusters that a topic is never meant for: a slip of the pen would go unseen."""
    own = manifest.spec.get("clusters")
    nameless = strict and set(clusters) == {""}
    why = "the run has only the address of an unnamed cluster" if nameless else "the topic is not meant for it"
    for index, override in enumerate(manifest.spec.get("overrides", ())):
        for position, name in enumerate(override.get("clusters", ())):
            if nameless or (own is not None and name not in own):
                yield Complaint(
                    manifest.source.place(("spec", "overrides", index, "clusters", position)),
                    f"{manifest.name}: the override for cluster {name} has no effect: {why}",
                    f"the topic's clusters are: {', '.join(own)}" if own else "",
                )


def _idle_exclusions(specs: Iterable[TopicSpec]) -> Iterator[Complaint]:
    """Keys in ``withoutConfig`` that none of a topic's clusters has among its defaults: nothing is left out by them."""
    idle: dict[tuple[int, Path], tuple[Origin, str]] = {}
    useful = set()
    for spec in specs:
        for key in spec.without if spec.cluster.source else ():
            where = item_origin(spec, "withoutConfig", key)
            written = (id(spec.manifest), where.path)  # two may have the same name: that is a complaint of its own
            idle[written] = (where, key)
            if key in spec.cluster.default_config:
                useful.add(written)
    for written, (where, key) in idle.items():
        if written not in useful and (place := where.place()):
            yield Complaint(place, f"{key}: nothing is left out, since no cluster of the topic has it as a default")
