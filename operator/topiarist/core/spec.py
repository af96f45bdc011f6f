"""What should be: a ``Topic`` manifest and its ``Cluster``, merged into one ``TopicSpec`` per topic and cluster.

Before this module stands ``schema`` (a document is valid, field by field); after it ``plan`` (the difference). Here
are the rules that no schema can see: which cluster a topic is meant for, what overrides and defaults make of it, and
whether the values fit together. A value's place in its file is not carried along: ``origin`` finds it again when
somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from topiarist.core.allowed import DISRUPTIVE_ONLY, OWN_NAMESPACE, AllowedTopics, DriftPolicy
from topiarist.core.budgets import Budgets
from topiarist.core.credentials import NOBODY, Credentials
from topiarist.core.javatext import INT_MAX, integer, trim
from topiarist.core.names import PROTECTED, fits
from topiarist.core.state import Release, Replicas
from topiarist.core.values import config_text
from topiarist.errors import Path, Place

NEWEST: Release = (3, 9)
BROKER_SIZES: Mapping[str, str] = {"partitions": "num.partitions", "replicationFactor": "default.replication.factor"}
"""The brokers' settings for the size of a new topic, by the field of a topic. Kafka reads them from files only."""

OLDEST: Release = (2, 4)


class Source(Protocol):
    """Where a document stands, and where in it a field does."""

    def place(self, path: Path = ()) -> Place:
        """The place of ``path``, of its nearest ancestor that has one, or of the document."""


class Manifest(NamedTuple):
    """A document of ours that its schema accepts; ``spec`` is its plain content, ``namespace`` empty if it has none."""

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    source: Source


class RackAwareness(str, Enum):
    """How racks count at creation; expansion always takes them as ``ENFORCED``."""

    ENFORCED = "Enforced"
    SAFE = "Safe"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A ``Cluster`` manifest, or the unnamed cluster of ``--zookeeper`` (name empty, everything at its default).

    ``release`` is None where the manifest does not say it. ``protected`` and ``adopt`` are glob patterns. What stands
    from ``allowed_topics`` on is for Kubernetes only; ``allow_risk`` has the words of ``Risk``.
    """

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    connect: str = ""
    max_buffer: int = 1_048_575
    cluster_id: str = ""
    release: Release | None = None
    rack_awareness: RackAwareness = RackAwareness.ENFORCED
    default_partitions: int | None = None
    default_replication_factor: int | None = None
    default_config: Mapping[str, str] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(default_factory=dict)
    allow_unknown_configs: tuple[str, ...] = ()
    exclude_brokers: frozenset[int] = frozenset()
    protected: tuple[str, ...] = PROTECTED
    credentials: Credentials = NOBODY
    budgets: Budgets = Budgets()
    source: Source | None = None
    allowed_topics: tuple[AllowedTopics, ...] = OWN_NAMESPACE
    adopt: tuple[str, ...] = ()
    allow_risk: frozenset[str] = DISRUPTIVE_ONLY
    allow_deletion: bool = False
    drift_policy: DriftPolicy = DriftPolicy.REPORT

    def defaults(self) -> Mapping[str, Any]:
        """The defaults that are set, under the names that a manifest uses."""
        sizes = {"partitions": self.default_partitions, "replicationFactor": self.default_replication_factor}
        return {key: size for key, size in sizes.items() if size} | {"config": self.default_config}

    def broker_size(self, field: str) -> int | None:
        """Return the size that ``brokerConfig`` gives a new topic; None if it gives none, or none that Kafka takes."""
        text = self.broker_config.get(BROKER_SIZES[field])
        try:
            return (text and max(integer(trim(text), limit=INT_MAX), 0)) or None
        except ValueError:
            return None

    def protects(self, topic: str) -> bool:
        """Whether a topic belongs to other software: no growth, deletion or change of cleanup."""
        return fits(topic, self.protected)

    def settings(self, dynamic: Mapping[str, str]) -> Mapping[str, str]:
        """What is known of the brokers' settings: the manifest's ``brokerConfig``, overridden by ``dynamic`` ones."""
        return {**self.broker_config, **dynamic}

    def releases(self, at_least: Release) -> tuple[Release, ...]:
        """The releases by which values are judged; where none is declared, both ends of what it may be."""
        return (self.release,) if self.release else (NEWEST, at_least)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """What one topic should be on one cluster, defaults and overrides merged in.

    ``partitions`` and ``replication_factor`` are what the topic itself asks for (None: nothing, an existing topic
    keeps what it has); ``create_partitions`` and ``create_replication_factor`` count at creation only and include the
    cluster's defaults, and what its ``brokerConfig`` says that the brokers take where these say nothing.
    ``assignment`` has explicit replica lists. ``config`` has Kafka's text; ``inherited`` are its keys that come from
    the cluster's defaults alone. ``ignore`` are fields (``config.KEY`` for a key) to report but never change,
    ``without`` the keys of the cluster's defaults that the topic does not want.
    """

    topic: str
    cluster: ClusterSpec
    manifest: Manifest
    partitions: int | None
    replication_factor: int | None
    create_partitions: int
    create_replication_factor: int
    assignment: tuple[Replicas, ...] | None
    config: Mapping[str, str]
    inherited: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    without: tuple[str, ...] = ()
    remove_unmanaged: bool = False
    absent: bool = False
    observe: bool = False


class Origin(NamedTuple):
    """Where a value of a spec was written: the document, and the path in it."""

    source: Source | None
    path: Path

    def place(self) -> Place | None:
        """The place in its file, or None if there is no document (the unnamed cluster)."""
        return self.source.place(self.path) if self.source else None


def topic_name(manifest: Manifest) -> str:
    """The topic's name in Kafka."""
    return str(manifest.spec.get("topicName", manifest.name))


def name_path(manifest: Manifest) -> Path:
    """Where the topic's name in Kafka stands in its document."""
    return ("spec", "topicName") if "topicName" in manifest.spec else ("metadata", "name")


def selects(layer: Mapping[str, Any], cluster: ClusterSpec) -> bool:
    """Whether ``clusters`` or ``clusterSelector`` of a spec or override means this cluster; an empty selector: none."""
    if cluster.name in layer.get("clusters", ()):
        return True
    wanted = layer.get("clusterSelector", {}).get("matchLabels", {})
    return bool(wanted) and has_labels(cluster.labels, wanted)


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether all of ``wanted`` are among ``labels``, with their values."""
    return all(labels.get(key) == value for key, value in wanted.items())


def _layers(manifest: Manifest, cluster: ClusterSpec) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The parts of a manifest that count on a cluster, in order; later ones win."""
    yield ("spec",), manifest.spec
    for index, override in enumerate(manifest.spec.get("overrides", ())):
        if selects(override, cluster):
            yield ("spec", "overrides", index), override


def replica_lists(given: str | Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    """Return the lists of a ``replicaAssignment`` that its schema accepts: lists, or ``1:2:3,2:3:1``.

    That brokers stand twice or lists differ in width is not judged here: ``rules`` does.
    """
    lists = [map(int, part.split(":")) for part in given.split(",")] if isinstance(given, str) else given
    return tuple(map(tuple, lists))


class Restated(NamedTuple):
    """A count that stands beside a ``replicaAssignment``, and the one that the lists give; both with their paths."""

    field: str
    given: int
    listed: int
    path: Path
    lists: Path


def restated(spec: TopicSpec) -> Iterator[Restated]:
    """Yield the counts that stand beside lists in one part of a manifest."""
    for base, layer in _layers(spec.manifest, spec.cluster):
        if "replicaAssignment" in layer:
            lists = replica_lists(layer["replicaAssignment"])
            for field, listed in (("partitions", len(lists)), ("replicationFactor", len(lists[0]))):
                if field in layer:
                    yield Restated(field, layer[field], listed, (*base, field), (*base, "replicaAssignment"))


def merge(manifest: Manifest, cluster: ClusterSpec) -> TopicSpec:
    """What ``manifest`` asks for on ``cluster``: its own spec, then each override that selects the cluster.

    The two forms of size (counts, or ``replicaAssignment``) replace each other whole; counts beside lists say the same
    again, see ``restated``. A size that nobody names is 0 in
    ``create_partitions`` and ``create_replication_factor``; ``rules.problems`` complains about it.
    """
    partitions: int | None = None
    factor: int | None = None
    assignment: tuple[Replicas, ...] | None = None
    own: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for _, layer in _layers(manifest, cluster):
        fields.update(layer)
        if "replicaAssignment" in layer:
            assignment = replica_lists(layer["replicaAssignment"])
            partitions = factor = None
        elif "partitions" in layer or "replicationFactor" in layer:
            assignment = None
            partitions = layer.get("partitions", partitions)
            factor = layer.get("replicationFactor", factor)
        if "config" in layer:
            own |= {key: config_text(value) for key, value in layer["config"].items()}
    unwanted = fields.get("withoutConfig", ())
    defaults = {key: text for key, text in cluster.default_config.items() if key not in own and key not in unwanted}
    return TopicSpec(
        topic=topic_name(manifest),
        cluster=cluster,
        manifest=manifest,
        partitions=len(assignment) if assignment else partitions,
        replication_factor=len(assignment[0]) if assignment else factor,
        create_partitions=len(assignment)
        if assignment
        else partitions or cluster.default_partitions or cluster.broker_size("partitions") or 0,
        create_replication_factor=len(assignment[0])
        if assignment
        else factor or cluster.default_replication_factor or cluster.broker_size("replicationFactor") or 0,
        assignment=assignment,
        config=defaults | own if defaults else own,
        inherited=frozenset(defaults),
        ignore=frozenset(fields.get("ignore", ())),
        without=tuple(unwanted),
        remove_unmanaged=fields.get("unmanagedConfig") == "Remove",
        absent=fields.get("ensure") == "Absent",
        observe=fields.get("mode") == "Observe",
    )


def origin(spec: TopicSpec, *path: str | int) -> Origin:
    """Where the value at ``path`` below the spec (``"config", "retention.ms"``) was written.

    The last override that names it, else the topic's spec, else the cluster's defaults, else its ``brokerConfig`` for a
    size, else the spec as a whole; for an empty path the topic's name. A path that begins with ``metadata`` is one from
    the top of the document.
    """
    if path[:1] == ("metadata",):
        return Origin(spec.manifest.source, path)
    for base, layer in reversed(list(_layers(spec.manifest, spec.cluster))):
        if _holds(layer, path):
            return Origin(spec.manifest.source, (*base, *path))
        if path and isinstance(layer.get(str(path[0])), str):
            return Origin(spec.manifest.source, (*base, path[0]))  # text has no places within
    if path and _holds(spec.cluster.defaults(), path):
        return Origin(spec.cluster.source, ("spec", "defaults", *path))
    if path and path[0] in BROKER_SIZES and spec.cluster.broker_size(str(path[0])):
        return Origin(spec.cluster.source, ("spec", "brokerConfig", BROKER_SIZES[str(path[0])]))
    if path:
        return Origin(spec.manifest.source, ("spec",))
    return Origin(spec.manifest.source, name_path(spec.manifest))


def item_origin(spec: TopicSpec, name: str, item: str) -> Origin:
    """Where ``item`` was written in the list that is the field ``name``, which has it."""
    found = next(layer[name] for _, layer in reversed(list(_layers(spec.manifest, spec.cluster))) if name in layer)
    return origin(spec, name, found.index(item))


def _holds(value: Any, path: Path) -> bool:
    for step in path:
        known = value if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else ()
        if step not in known:
            return False
        value = value[step]
    return bool(path)
