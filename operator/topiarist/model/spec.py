"""The desired state as values: manifests, cluster specs, and one ``TopicSpec`` per topic and cluster.

``desired`` builds the specs and ``planning`` compares them with the state. A spec does not store the location of each
value in its file, since few values need it: ``find_origin`` finds a location on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from topiarist.errors import FieldPath, Location
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_values import java_trim, parse_integer
from topiarist.kafka.types import (
    INT_MAX,
    INTERNAL_TOPICS,
    PROTECTED_TOPIC_PATTERNS,
    ClusterMode,
    KafkaVersion,
    Replicas,
    matches_any,
)
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, Access, KafkaAccess, Placement, Via, ZooKeeperAccess
from topiarist.model.moves import NO_MOVES, MoveKind, MoveSettings
from topiarist.model.usage import DEFAULT_USAGE_SETTINGS, UsageSettings

# Permissions of a ``Cluster`` in Kubernetes: namespaces that may declare topics, operator actions.
#
# These are only the values; ``kubernetes/cache.py`` compares them with the namespaces and their labels. The
# command line reads these fields and ignores them: the options of a run give its permissions.


class NamespacesFrom(str, Enum):
    """The namespaces that a rule applies to; ``SAME`` is the namespace of the ``Cluster``."""

    SAME = "Same"
    ALL = "All"
    SELECTOR = "Selector"


class SelectorOperator(str, Enum):
    """The comparison of a label, as in any Kubernetes selector."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelSelectorRequirement(Struct, frozen=True):
    """A requirement of a selector's ``matchExpressions``; ``values`` is empty if only the key is compared."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; ``NOT_IN`` is met without the label, too."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(Struct, frozen=True):
    """A label selector: a namespace must meet all of its conditions. Never empty."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class AllowedTopics(Struct, frozen=True):
    """A rule: these namespaces may declare topics with names that match one of ``name_patterns`` (glob patterns).

    ``selector`` is set if and only if ``namespaces`` is ``SELECTOR``.
    """

    namespaces: NamespacesFrom = NamespacesFrom.SAME
    selector: LabelSelector | None = None
    name_patterns: tuple[str, ...] = ("*",)


class TopicSource(str, Enum):
    """A kind of resources that declare topics on a cluster: topiarist's own, or those of Strimzi."""

    TOPIC = "Topic"
    KAFKA_TOPIC = "KafkaTopic"


class DriftPolicy(str, Enum):
    """The operator's action for an external change: report it, or correct it."""

    REPORT = "Report"
    CORRECT = "Correct"


DEFAULT_ALLOWED_RISKS = frozenset({"Disruptive"})
"""The allowed risks if a ``Cluster`` gives none."""

DEFAULT_ALLOWED_TOPICS = (AllowedTopics(),)
"""The rules if a ``Cluster`` gives none: its own namespace, and any name."""


# Limits on what the topics of a label, a namespace or an owner may use together, as values.
#
# ``desired.parse`` builds them from a ``Policy`` or the budgets of a ``Cluster``, and ``filters.limits`` enforces them.


class LimitScope(str, Enum):
    """The property that the topics of one group of a limit have in common."""

    LABEL = "Label"
    NAMESPACE = "Namespace"
    OWNER = "Owner"


class LimitedResource(str, Enum):
    """The resource that a limit counts, by its field in a document.

    ``RETAINED_BYTES`` is ``retention.bytes`` times the partitions, for one copy of the data.
    """

    TOPICS = "topics"
    PARTITIONS = "partitions"
    RETAINED_BYTES = "retainedBytes"


class Limit(Struct, frozen=True):
    """The limit of each group of topics on each cluster.

    ``title`` names it in messages. ``label`` is the label with the names of the groups, empty for other scopes.
    ``allowed`` has the largest allowed total of each limited resource. If ``deny`` is false an excess is only reported.
    ``counts_all`` is false if the policy selects some of the topics. ``path`` leads to the limit in its document,
    ``source``.
    """

    title: str
    scope: LimitScope
    allowed: Mapping[LimitedResource, int]
    label: str = ""
    deny: bool = True
    counts_all: bool = True
    source: Source | None = None
    path: FieldPath = ()

    def locate(self) -> Location | None:
        """Return the place of the limit in its document."""
        return self.source.locate(self.path) if self.source else None


class TopicSize(NamedTuple):
    """The number of partitions of a topic, and its override of ``retention.bytes`` (None: the brokers' default)."""

    partitions: int
    retention_bytes: str | None = None


class LimitUsage(NamedTuple):
    """The use of a limited resource by a group of topics, before and after a plan; None is without bound."""

    limit: str
    group: str
    resource: LimitedResource
    before: int | None
    after: int | None
    allowed: int


class Budgets(Struct, frozen=True):
    """The limits of one run on one cluster; None is no limit. ``filters/chain.py`` enforces them.

    ``topics`` counts changed topics, ``new_partitions`` the partitions of creations and growth together, and
    ``partitions_per_topic`` the partitions of a topic after the run. ``deletions`` counts deleted topics,
    ``changed_share`` is in per cent of the existing topics, and ``notifications`` counts config notifications.
    ``moved_replicas`` counts the replicas that moves copy, ``moved_partitions`` the partitions with another list.
    ``limits`` are totals for groups of topics, which ``filters/limits.py`` enforces.
    """

    topics: int | None = None
    new_partitions: int | None = None
    partitions_per_topic: int = 1000
    deletions: int = 5
    changed_share: int | None = None
    notifications: int = 1000
    moved_replicas: int = 1000
    moved_partitions: int | None = None
    limits: tuple[Limit, ...] = ()


class RetentionStep(Struct, frozen=True):
    """The largest cut of a retention in one run, in per cent of its value, and the time in ms between two steps."""

    share: int
    interval_ms: int


CONNECT: FieldPath = ("spec", "zookeeper", "connect")
BOOTSTRAP_SERVERS: FieldPath = ("spec", "kafka", "bootstrapServers")
"""The paths of the two addresses in a ``Cluster`` document."""

BROKER_SIZE_SETTINGS: Mapping[str, str] = {
    "partitions": "num.partitions",
    "replicationFactor": "default.replication.factor",
}
"""Broker settings for the size of a new topic, by the field of a topic. Kafka reads them from files only."""


class Source(Protocol):
    """A document that knows the location of each of its fields."""

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of ``path``, of its nearest ancestor with a location, or of the document."""


class Manifest(NamedTuple):
    """A document that its schema accepts: ``spec`` as plain values; ``namespace`` is empty if it has none."""

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    source: Source

    @property
    def full_name(self) -> str:
        """Return NAMESPACE/NAME, or NAME without a namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class RackAwareness(str, Enum):
    """The use of racks when a topic is created; an expansion always uses ``ENFORCED``, which is the default."""

    ENFORCED = "Enforced"
    SAFE = "Safe"
    DISABLED = "Disabled"


class ClusterSpec(Struct, frozen=True, dict=True):
    """A ``Cluster`` manifest, or the unnamed cluster of an address option (name empty, everything else at its default).

    ``zookeeper`` and ``kafka`` are the ways to the cluster; ``via`` chooses one of them if both are there.
    ``version`` and ``rack_awareness`` are None if the manifest does not declare them. ``protected`` and ``adopt`` are
    glob patterns. The fields from ``allowed_topics`` to ``drift_policy`` apply in Kubernetes only; ``allow_risk`` has
    labels of ``Risk``.
    ``profiles`` are parts of a topic's spec by name, with Kafka's texts as configs, and may have ``labels``.
    ``config_rules`` is built from ``version``, ``allow_unknown_configs`` and ``broker_config``. ``drain_brokers`` must
    hold no replicas, registered or not.
    """

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    zookeeper: ZooKeeperAccess | None = None
    kafka: KafkaAccess | None = None
    via: Via | None = None
    cluster_id: str = ""
    version: KafkaVersion | None = None
    rack_awareness: RackAwareness | None = None
    default_partitions: int | None = None
    default_replication_factor: int | None = None
    default_config: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    broker_config: Mapping[str, str] = field(default_factory=dict)
    allow_unknown_configs: tuple[str, ...] = ()
    exclude_brokers: frozenset[int] = frozenset()
    drain_brokers: frozenset[int] = frozenset()
    moves: MoveSettings = NO_MOVES
    protected: tuple[str, ...] = PROTECTED_TOPIC_PATTERNS
    budgets: Budgets = Budgets()
    retention_step: RetentionStep | None = None
    evidence: UsageSettings = DEFAULT_USAGE_SETTINGS
    source: Source | None = None
    allowed_topics: tuple[AllowedTopics, ...] = DEFAULT_ALLOWED_TOPICS
    sources: frozenset[TopicSource] = frozenset({TopicSource.TOPIC})
    adopt: tuple[str, ...] = ()
    allow_risk: frozenset[str] = DEFAULT_ALLOWED_RISKS
    allow_deletion: bool = False
    drift_policy: DriftPolicy = DriftPolicy.REPORT

    @cached_property
    def config_rules(self) -> ConfigRules:
        """Return the rules of the cluster's configs."""
        # Brokers say which mode they are in. Without a document and an address every mode is possible.
        is_open = isinstance(self.access, KafkaAccess) or (self.access is None and not self.name)
        mode = None if is_open else ClusterMode.ZOOKEEPER
        return ConfigRules(self.version, self.allow_unknown_configs, self.broker_config, mode)

    @property
    def access(self) -> Access | None:
        """Return the way to the cluster that is used; None if the manifest has none (a check, a snapshot)."""
        if self.via is None:
            return self.kafka or self.zookeeper
        return self.kafka if self.via is Via.KAFKA else self.zookeeper

    @property
    def keeps_records(self) -> bool:
        """Return whether topiarist keeps records on the cluster: owners, the lock, a freeze, moves in flight."""
        return not isinstance(self.access, KafkaAccess) or self.access.records is not None

    @property
    def placement(self) -> Placement | None:
        """Return who chooses the brokers of new replicas; None if the manifest does not say it."""
        return self.access.placement if isinstance(self.access, KafkaAccess) else None

    @property
    def rack_mode(self) -> str:
        """Return the use of racks when a topic is created, as ``kafka.placement`` names it."""
        return (self.rack_awareness or RackAwareness.ENFORCED).value.lower()

    def defaults(self) -> Mapping[str, Any]:
        """Return the defaults that are set, under the field names of a manifest."""
        sizes = {"partitions": self.default_partitions, "replicationFactor": self.default_replication_factor}
        return {key: size for key, size in sizes.items() if size} | {"config": self.default_config}

    def broker_size(self, field: str) -> int | None:
        """Return the size that ``brokerConfig`` gives a new topic; None if it is absent or Kafka does not accept it."""
        text = self.broker_config.get(BROKER_SIZE_SETTINGS[field])
        try:
            return (text and max(parse_integer(java_trim(text), limit=INT_MAX), 0)) or None
        except ValueError:
            return None

    def is_protected(self, topic: str) -> bool:
        """Return whether a topic belongs to other software: no growth, deletion or change of cleanup is allowed."""
        return matches_any(topic, self.protected)

    def internal_owner(self, topic: str) -> str:
        """Return the software that keeps its own data in a topic, ``Kafka`` or ``topiarist``; empty if none does."""
        if topic in INTERNAL_TOPICS:
            return "Kafka"
        records = self.kafka.records if self.kafka else None
        return "topiarist" if topic in (DEFAULT_RECORDS_TOPIC.name, records and records.name) else ""

    def internal_hint(self, topic: str) -> str:
        """Return what to do with the manifest of an internal topic; empty for other topics."""
        return f"leave it to {owner}: remove it from the manifests" if (owner := self.internal_owner(topic)) else ""


class TopicSpec(Struct, frozen=True):
    """The desired state of one topic on one cluster, with defaults and overrides merged in.

    ``partitions`` and ``replication_factor`` are the values that the topic itself asks for (None: no value, and an
    existing topic keeps its own). ``create_partitions`` and ``create_replication_factor`` apply at creation only. They
    include the cluster's defaults, and the sizes of its ``brokerConfig`` where the defaults give none. ``assignment``
    has explicit replica lists.

    ``config`` has values as Kafka's text; ``inherited_keys`` are its keys that come from the cluster's defaults alone.
    ``ignored_fields`` are fields (``config.KEY`` for a key) that are reported but never changed.
    ``excluded_default_keys`` are keys of the cluster's defaults that do not apply to the topic.

    ``allowed_moves`` are the kinds of moves that both the cluster and the topic allow. ``spread_within_one`` asks for
    more than Kafka's own placement guarantees. ``profile_labels`` are those of the topic's profiles.

    Topics of one ``co_partition_group`` have equal numbers of partitions (empty: no group). ``keyed`` is false if no
    message of the topic has a key.
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
    allowed_moves: frozenset[MoveKind] = frozenset()
    spread_within_one: bool = False
    profile_labels: Mapping[str, str] = field(default_factory=dict)
    co_partition_group: str = ""
    keyed: bool = True

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of the document, and those of its profiles for other names."""
        return {**self.profile_labels, **self.manifest.labels} if self.profile_labels else self.manifest.labels


class ValueOrigin(Struct, frozen=True):
    """The document of a value of a spec, and the path in it."""

    source: Source | None
    path: FieldPath

    def locate(self) -> Location | None:
        """Return the location; None if there is no document (the unnamed cluster)."""
        return self.source.locate(self.path) if self.source else None

    def below(self, *path: str | int) -> ValueOrigin:
        """Return the origin of the value at ``path`` below this one."""
        return ValueOrigin(self.source, (*self.path, *path))


def topic_name(manifest: Manifest) -> str:
    """Return the name in Kafka."""
    return str(manifest.spec.get("topicName", manifest.name))


def name_path(manifest: Manifest) -> FieldPath:
    """Return the path of the topic's Kafka name in its document."""
    return ("spec", "topicName") if "topicName" in manifest.spec else ("metadata", "name")


def selects_cluster(layer: Mapping[str, Any], cluster: ClusterSpec) -> bool:
    """Return whether ``clusters`` or ``clusterSelector`` of a spec or override selects this cluster.

    An empty selector selects no cluster.
    """
    if cluster.name in layer.get("clusters", ()):
        return True
    wanted = layer.get("clusterSelector", {}).get("matchLabels", {})
    return bool(wanted) and has_labels(cluster.labels, wanted)


def has_labels(labels: Mapping[str, str], required: Mapping[str, str]) -> bool:
    """Return whether ``labels`` has all of ``required`` with the same values."""
    return all(labels.get(key) == value for key, value in required.items())


def layers(manifest: Manifest, cluster: ClusterSpec) -> Iterator[tuple[ValueOrigin, Mapping[str, Any]]]:
    """Yield the parts that a topic's spec on a cluster is merged from; a later part overrides earlier ones.

    These are the topic's profiles, its own spec, and the overrides that select the cluster. A profile that the cluster
    does not have is left out.
    """
    for name in manifest.spec.get("profiles", ()):
        if name in cluster.profiles:
            yield ValueOrigin(cluster.source, ("spec", "profiles", name)), cluster.profiles[name]
    yield ValueOrigin(manifest.source, ("spec",)), manifest.spec
    for index, override in enumerate(manifest.spec.get("overrides", ())):
        if selects_cluster(override, cluster):
            yield ValueOrigin(manifest.source, ("spec", "overrides", index)), override


def parse_replica_assignment(assignment: str | Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    """Return the replica lists of a valid ``replicaAssignment``: lists, or text such as ``1:2:3,2:3:1``."""
    lists = [map(int, part.split(":")) for part in assignment.split(",")] if isinstance(assignment, str) else assignment
    return tuple(map(tuple, lists))


def find_origin(spec: TopicSpec, *path: str | int) -> ValueOrigin:
    """Return the origin of the value at ``path`` below the spec (``"config", "retention.ms"``).

    Looks in the last override that names the value, the topic's spec, its profiles, the cluster's defaults, and (for a
    size) its ``brokerConfig``, in this order. Returns the spec as a whole if none has it, and the topic's name for an
    empty path. A path that begins with ``metadata`` starts at the top of the document.
    """
    if path[:1] == ("metadata",):
        return ValueOrigin(spec.manifest.source, path)
    for base, layer in [*layers(spec.manifest, spec.cluster)][::-1]:
        if _has_path(layer, path):
            return base.below(*path)
        if path and isinstance(layer.get(str(path[0])), str):
            return base.below(path[0])  # a list given as text has one location
    if path and _has_path(spec.cluster.defaults(), path):
        return ValueOrigin(spec.cluster.source, ("spec", "defaults", *path))
    if path and path[0] in BROKER_SIZE_SETTINGS and spec.cluster.broker_size(str(path[0])):
        return ValueOrigin(spec.cluster.source, ("spec", "brokerConfig", BROKER_SIZE_SETTINGS[str(path[0])]))
    if path:
        return ValueOrigin(spec.manifest.source, ("spec",))
    return ValueOrigin(spec.manifest.source, name_path(spec.manifest))


def find_item_origin(spec: TopicSpec, name: str, item: str) -> ValueOrigin:
    """Return the origin of ``item`` in the list field ``name``, which must contain it."""
    items = next(layer[name] for _, layer in [*layers(spec.manifest, spec.cluster)][::-1] if name in layer)
    return find_origin(spec, name, items.index(item))


def _has_path(value: Any, path: FieldPath) -> bool:
    for step in path:
        known = value if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else ()
        if step not in known:
            return False
        value = value[step]
    return bool(path)


def make_manifest(body: Mapping[str, Any], source: Source) -> Manifest:
    """Convert a document that passed ``schema/check.py`` to a ``Manifest``."""
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
    """Return one shared dict for all manifests with the same labels, to save memory."""
    return dict(items)
