"""How much one run may do to a cluster, as its manifest says: the numbers. ``spending`` counts a plan against them.

What should be: a ``Topic`` manifest and its ``Cluster``, merged into one ``TopicSpec`` per topic and cluster.

Before this module stands ``schema`` (a document is valid, field by field); after it ``plan`` (the difference). Here
are the rules that no schema can see: which cluster a topic is meant for, what overrides and defaults make of it, and
whether the values fit together. A value's place in its file is not carried along: ``origin`` finds it again when
somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from topiarist.errors import FieldPath, Location
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.java_numbers import INT_MAX, java_trim, parse_integer
from topiarist.kafka.names import PROTECTED_TOPIC_PATTERNS, matches_any
from topiarist.kafka.types import KafkaVersion, Replicas
from topiarist.model.credentials import ANONYMOUS, Credentials
from topiarist.model.tenancy import DEFAULT_ALLOWED_RISKS, DEFAULT_ALLOWED_TOPICS, AllowedTopics, DriftPolicy


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that one run may do to one cluster; None is no limit.

    ``topics`` that change, ``new_partitions`` of creations and growth together, ``partitions_per_topic`` that a topic
    may then have, ``deletions``, ``changed_share`` in per cent of the existing topics, config ``notifications``.
    """

    topics: int | None = None
    new_partitions: int | None = None
    partitions_per_topic: int = 1000
    deletions: int = 5
    changed_share: int | None = None
    notifications: int = 1000


BROKER_SIZE_SETTINGS: Mapping[str, str] = {
    "partitions": "num.partitions",
    "replicationFactor": "default.replication.factor",
}
"""The brokers' settings for the size of a new topic, by the field of a topic. Kafka reads them from files only."""


class Source(Protocol):
    """Where a document stands, and where in it a field does."""

    def locate(self, path: FieldPath = ()) -> Location:
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
    jute_max_buffer: int = 1_048_575
    cluster_id: str = ""
    version: KafkaVersion | None = None
    rack_awareness: RackAwareness = RackAwareness.ENFORCED
    default_partitions: int | None = None
    default_replication_factor: int | None = None
    default_config: Mapping[str, str] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(default_factory=dict)
    allow_unknown_configs: tuple[str, ...] = ()
    exclude_brokers: frozenset[int] = frozenset()
    protected: tuple[str, ...] = PROTECTED_TOPIC_PATTERNS
    credentials: Credentials = ANONYMOUS
    budgets: Budgets = Budgets()
    source: Source | None = None
    allowed_topics: tuple[AllowedTopics, ...] = DEFAULT_ALLOWED_TOPICS
    adopt: tuple[str, ...] = ()
    allow_risk: frozenset[str] = DEFAULT_ALLOWED_RISKS
    allow_deletion: bool = False
    drift_policy: DriftPolicy = DriftPolicy.REPORT
    config_rules: ConfigRules = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = ConfigRules(self.version, self.allow_unknown_configs, self.broker_config)
        object.__setattr__(self, "config_rules", rules)

    def defaults(self) -> Mapping[str, Any]:
        """The defaults that are set, under the names that a manifest uses."""
        sizes = {"partitions": self.default_partitions, "replicationFactor": self.default_replication_factor}
        return {key: size for key, size in sizes.items() if size} | {"config": self.default_config}

    def broker_size(self, field: str) -> int | None:
        """Return the size that ``brokerConfig`` gives a new topic; None if it gives none, or none that Kafka takes."""
        text = self.broker_config.get(BROKER_SIZE_SETTINGS[field])
        try:
            return (text and max(parse_integer(java_trim(text), limit=INT_MAX), 0)) or None
        except ValueError:
            return None

    def is_protected(self, topic: str) -> bool:
        """Whether a topic belongs to other software: no growth, deletion or change of cleanup."""
        return matches_any(topic, self.protected)


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
    inherited_keys: frozenset[str] = frozenset()
    ignored_fields: frozenset[str] = frozenset()
    excluded_default_keys: tuple[str, ...] = ()
    remove_unmanaged: bool = False
    absent: bool = False
    observe_only: bool = False


class ValueOrigin(NamedTuple):
    """Where a value of a spec was written: the document, and the path in it."""

    source: Source | None
    path: FieldPath

    def locate(self) -> Location | None:
        """The place in its file, or None if there is no document (the unnamed cluster)."""
        return self.source.locate(self.path) if self.source else None


def topic_name(manifest: Manifest) -> str:
    """The topic's name in Kafka."""
    return str(manifest.spec.get("topicName", manifest.name))


def name_path(manifest: Manifest) -> FieldPath:
    """Where the topic's name in Kafka stands in its document."""
    return ("spec", "topicName") if "topicName" in manifest.spec else ("metadata", "name")


def selects_cluster(layer: Mapping[str, Any], cluster: ClusterSpec) -> bool:
    """Whether ``clusters`` or ``clusterSelector`` of a spec or override means this cluster; an empty selector: none."""
    if cluster.name in layer.get("clusters", ()):
        return True
    wanted = layer.get("clusterSelector", {}).get("matchLabels", {})
    return bool(wanted) and has_labels(cluster.labels, wanted)


def has_labels(labels: Mapping[str, str], required: Mapping[str, str]) -> bool:
    """Whether all of ``required`` are among ``labels``, with their values."""
    return all(labels.get(key) == value for key, value in required.items())


def _layers(manifest: Manifest, cluster: ClusterSpec) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The parts of a manifest that count on a cluster, in order; later ones win."""
    yield ("spec",), manifest.spec
    for index, override in enumerate(manifest.spec.get("overrides", ())):
        if selects_cluster(override, cluster):
            yield ("spec", "overrides", index), override


def parse_replica_assignment(assignment: str | Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    """Return the lists of a ``replicaAssignment`` that its schema accepts: lists, or ``1:2:3,2:3:1``.

    That brokers stand twice or lists differ in width is not judged here: ``rules`` does.
    """
    lists = [map(int, part.split(":")) for part in assignment.split(",")] if isinstance(assignment, str) else assignment
    return tuple(map(tuple, lists))


class RedundantCount(NamedTuple):
    """A count that stands beside a ``replicaAssignment``, and the one that the lists give; both with their paths."""

    field: str
    given_count: int
    listed_count: int
    path: FieldPath
    lists_path: FieldPath


def find_redundant_counts(spec: TopicSpec) -> Iterator[RedundantCount]:
    """Yield the counts that stand beside lists in one part of a manifest."""
    for base, layer in _layers(spec.manifest, spec.cluster):
        if "replicaAssignment" in layer:
            lists = parse_replica_assignment(layer["replicaAssignment"])
            for field, listed in (("partitions", len(lists)), ("replicationFactor", len(lists[0]))):
                if field in layer:
                    yield RedundantCount(field, layer[field], listed, (*base, field), (*base, "replicaAssignment"))


def find_origin(spec: TopicSpec, *path: str | int) -> ValueOrigin:
    """Where the value at ``path`` below the spec (``"config", "retention.ms"``) was written.

    The last override that names it, else the topic's spec, else the cluster's defaults, else its ``brokerConfig`` for a
    size, else the spec as a whole; for an empty path the topic's name. A path that begins with ``metadata`` is one from
    the top of the document.
    """
    if path[:1] == ("metadata",):
        return ValueOrigin(spec.manifest.source, path)
    for base, layer in reversed(list(_layers(spec.manifest, spec.cluster))):
        if _has_path(layer, path):
            return ValueOrigin(spec.manifest.source, (*base, *path))
        if path and isinstance(layer.get(str(path[0])), str):
            return ValueOrigin(spec.manifest.source, (*base, path[0]))  # text has no places within
    if path and _has_path(spec.cluster.defaults(), path):
        return ValueOrigin(spec.cluster.source, ("spec", "defaults", *path))
    if path and path[0] in BROKER_SIZE_SETTINGS and spec.cluster.broker_size(str(path[0])):
        return ValueOrigin(spec.cluster.source, ("spec", "brokerConfig", BROKER_SIZE_SETTINGS[str(path[0])]))
    if path:
        return ValueOrigin(spec.manifest.source, ("spec",))
    return ValueOrigin(spec.manifest.source, name_path(spec.manifest))


def find_item_origin(spec: TopicSpec, name: str, item: str) -> ValueOrigin:
    """Where ``item`` was written in the list that is the field ``name``, which has it."""
    found = next(layer[name] for _, layer in reversed(list(_layers(spec.manifest, spec.cluster))) if name in layer)
    return find_origin(spec, name, found.index(item))


def _has_path(value: Any, path: FieldPath) -> bool:
    for step in path:
        known = value if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else ()
        if step not in known:
            return False
        value = value[step]
    return bool(path)


def make_manifest(body: Mapping[str, Any], source: Source) -> Manifest:
    """A document that ``check`` finds nothing wrong with, as a manifest."""
    metadata = body["metadata"]
    return Manifest(
        kind=body["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        labels=_intern_labels(tuple(metadata.get("labels", {}).items())),
        spec=body["spec"],
        source=source,
    )


@lru_cache(maxsize=1024)
def _intern_labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The labels, once for all manifests of a team that have the same."""
    return dict(items)
