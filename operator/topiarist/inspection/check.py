"""Two checks of a cluster: what topiarist can do there, and what an upgrade of Kafka refuses, drops or changes.

``ClusterCheck`` has what works, what does not, and fields for the ``Cluster`` document. It is made from one read, or
from the capabilities alone if the cluster cannot be read. Each capability has a sentence for people, and the effect of
its absence. To add one, add its row to ``_TEXTS``: a test compares them.

Before an upgrade: a broker validates the stored overrides of each topic when it starts: one value that its version
refuses keeps it from starting. A config that the version has dropped stays stored, has no effect and is no longer
shown. A default that changes applies to each topic without an override of its own.

``check_upgrade`` reads the overrides of a cluster (live or from a snapshot), ``check_upgrade_of_specs`` those of
manifests. Both are pure. The command ``upgrade-check`` calls them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import Location, Reason, TopiaristError
from topiarist.kafka import config_rules
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import check_value, is_equivalent
from topiarist.kafka.types import (
    FIRST_KRAFT_VERSION,
    INTERNAL_TOPICS,
    LAST_ZOOKEEPER_VERSION,
    LONG_MAX,
    ClusterMode,
    KafkaVersion,
    format_version,
)
from topiarist.model.access import KafkaAccess
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin, find_origin
from topiarist.model.state import GIVEN, AllowedOperations, Capabilities, ClusterState, ReadError, Support
from topiarist.text import format_count, shorten_list


class Texts(NamedTuple):
    """The meaning of a capability, and the effect if a cluster does not have it."""

    meaning: str
    effect: str


_NO_RECORDS = "nothing is written with records in a topic"

_TEXTS: Mapping[str, Texts] = {
    "topic_ids": Texts("topics have ids", "nothing is written: a later topic of a name could not be recognized"),
    "freshness": Texts(
        "metadata is proved to be current", "a plan may be a few seconds old; apply compares again before it writes"
    ),
    "config_sources": Texts("configs are read, with their sources", "no cluster can be read"),
    "creation": Texts("topics are created", "creations are refused"),
    "replica_lists": Texts("replica lists of new topics are obeyed", "the cluster places the replicas of new topics"),
    "growth": Texts("partitions are added", "growth is refused"),
    "growth_lists": Texts(
        "replica lists of new partitions are obeyed", "the cluster places the replicas of new partitions"
    ),
    "config_changes": Texts("single configs are changed", "changes of configs are refused"),
    "deletion": Texts("topics are deleted", "deletions are refused"),
    "deletion_by_id": Texts(
        "deletions name the id of the topic", "deletions name the topic; its id is compared directly before"
    ),
    "transactions": Texts("records are written in transactions", _NO_RECORDS),
    "compaction": Texts("topics are compacted", _NO_RECORDS),
    "listed_reassignments": Texts(
        "reassignments in progress are listed", "nothing is moved, and growth may meet a reassignment"
    ),
    "moves": Texts("replicas are moved", "moves are refused"),
    "elections": Texts("preferred leaders are elected", "elections are refused"),
    "throttles": Texts(
        "copies of moves are throttled", "moves that copy are refused, unless spec.moves.throttle is Unlimited"
    ),
    "quotas": Texts("the brokers tell when a quota is exceeded", "a quota shows in late answers alone"),
}


_NO_MOVES = Support(False, "spec.kafka.records is None: moves in progress and their throttles are kept in records")
"""The support of moves on a cluster without records."""

_OF_BROKERS = ("quotas",)
"""The capabilities of a way through brokers alone: through ZooKeeper, no quota counts what topiarist writes."""


class Finding(NamedTuple):
    """A capability of a cluster by its name in ``Capabilities``, with its texts."""

    name: str
    support: Support
    texts: Texts


class Permission(NamedTuple):
    """A permission that topiarist may need: an operation of Kafka on a resource, its purpose, and if it is given."""

    operation: str
    resource: str
    purpose: str
    support: Support


_WRITES = "apply, freeze, unmanage, move-records"
_ON_CLUSTER = (
    ("Describe", "all runs: proof that metadata is current, and reassignments"),
    ("Create", "creating topics"),
    ("Alter", "moving replicas, electing leaders"),
    ("DescribeConfigs", "throttles of moves"),
    ("AlterConfigs", "throttles of moves"),
)
_ON_TOPICS = (
    ("DescribeConfigs", "all runs"),
    ("Alter", "adding partitions"),
    ("AlterConfigs", "changing configs"),
    ("Delete", "deleting topics"),
)
_ON_RECORDS = (("DescribeConfigs", "all runs"), ("Read", "all runs"), ("Write", _WRITES))

_MAX_NAMES = 3


class Advice(NamedTuple):
    """A value for a field of the ``Cluster`` document, with the reason; ``path`` is below ``spec``."""

    path: tuple[str, ...]
    value: str | int
    why: str


class ClusterCheck(Struct, frozen=True):
    """The result of the check of one cluster.

    ``state`` is None if the cluster cannot be read, with the ``error``; its capabilities are known all the same.
    ``allowed`` is None through ZooKeeper.
    """

    cluster: ClusterSpec
    cluster_id: str
    capabilities: Capabilities
    state: ClusterState | None = None
    error: TopiaristError | None = None
    allowed: AllowedOperations | None = None

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Return the permissions that can be asked for, in the order of docs/connections.md; none through ZooKeeper."""
        access, allowed = self.cluster.access, self.allowed
        if allowed is None or not isinstance(access, KafkaAccess):
            return ()
        records = access.records.name if access.records else ""
        topics = {name: found for name, found in allowed.on_topics.items() if name not in INTERNAL_TOPICS | {records}}
        found = [Permission(each, "Topic *", why, _find_on_topics(each, topics)) for each, why in _ON_TOPICS]
        found += [
            Permission(each, "Cluster", why, _find_permission(each, allowed.on_cluster)) for each, why in _ON_CLUSTER
        ]
        if access.records:
            on_records = allowed.on_topics.get(records)
            found += [
                Permission(each, f"Topic {records}", why, _find_permission(each, on_records))
                for each, why in _ON_RECORDS
            ]
            found.append(Permission("Write", f"TransactionalId {access.records.transactional_id}", _WRITES, _NOT_ASKED))
        usage = _find_permission("Describe", allowed.on_group)
        return (*found, Permission("Describe", "Group *", "usage of topics", usage))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the capabilities that the way to the cluster has, in the order in which people read them."""
        absent = () if isinstance(self.cluster.access, KafkaAccess) else _OF_BROKERS
        known = self.capabilities if self.cluster.keeps_records else replace(self.capabilities, moves=_NO_MOVES)
        return tuple(Finding(name, support, _TEXTS[name]) for name, support in known.items() if name not in absent)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Return what to write into the document of the cluster, sorted by path."""
        return tuple(sorted((*self._find_identity(), *self._find_ways())))

    def _find_identity(self) -> Iterator[Advice]:
        spec, state = self.cluster, self.state
        if not spec.cluster_id:
            yield Advice(("clusterId",), self.cluster_id, "another cluster at this address then ends the run")
        if state and spec.version is None and state.known_configs is None:
            why = "the release of the brokers, this or a later one: they were not asked for their configs"
            oldest = FIRST_KRAFT_VERSION if state.mode is ClusterMode.KRAFT else state.min_version
            yield Advice(("kafkaVersion",), format_version(max(state.min_version, oldest)), why)

    def _find_ways(self) -> Iterator[Advice]:
        access, found = self.cluster.access, self.capabilities
        if not isinstance(access, KafkaAccess):
            return
        if found.replica_lists.is_missing and access.placement is None:
            yield Advice(("kafka", "placement"), "Brokers", found.replica_lists.why)
        if access.records is None:
            return
        for records in (found.transactions, found.compaction):
            if records.is_missing:
                yield Advice(("kafka", "records"), "None", records.why)
                return
        brokers = len(self.state.brokers) if self.state else 0
        if 0 < brokers < access.records.replication_factor:
            why = f"the cluster has {brokers} of the {access.records.replication_factor} brokers for its records"
            yield Advice(("kafka", "records", "replicationFactor"), brokers, why)


_NOT_ASKED = Support(None, "no request shows it without a write")


def _find_permission(operation: str, allowed: Collection[str] | None) -> Support:
    if allowed is None:
        return Support(None, "the brokers do not say")
    if operation in allowed:
        return GIVEN
    if operation == "Create":
        return Support(None, "not on the cluster; a permission on names of topics does not show before they exist")
    return Support(False, "the user lacks it", lacks_right=True)


def _find_on_topics(operation: str, topics: Mapping[str, Collection[str] | None]) -> Support:
    """Return whether an operation is allowed on all topics that the user may see."""
    said = {name: operations for name, operations in topics.items() if operations is not None}
    if not said:
        return Support(None, "there is no topic that shows it" if not topics else "the brokers do not say")
    if lacking := sorted(name for name, operations in said.items() if operation not in operations):
        names = shorten_list(lacking, _MAX_NAMES)
        why = f"the user lacks it on {len(lacking):,} of {format_count(len(said), 'topic')}: {names}"
        return Support(False, why, lacks_right=True)
    return GIVEN


def check_state(cluster: ClusterSpec, state: ClusterState, allowed: AllowedOperations | None = None) -> ClusterCheck:
    """Return the check of a cluster that was read."""
    return ClusterCheck(cluster, state.cluster_id, state.capabilities, state, allowed=allowed)


class UpgradeEffect(str, Enum):
    """The effect of an upgrade on a config of a topic, the worst first."""

    STOPS_BROKERS = "stopsBrokers"
    DROPPED = "dropped"
    DEFAULT_CHANGES = "defaultChanges"


class AffectedTopic(NamedTuple):
    """A topic with a value that an upgrade affects.

    ``value`` is the override, None for a topic without one. ``origin`` is the manifest's, None without a manifest.
    ``in_manifest_only`` is true if the cluster was read and has no such value yet: an apply would write it.
    """

    topic: str
    value: str | None
    origin: ValueOrigin | None = None
    in_manifest_only: bool = False

    @property
    def location(self) -> Location | None:
        """Return the location in the manifest, for which its document is parsed again; None without a manifest."""
        return self.origin.locate() if self.origin else None


class UpgradeFinding(Struct, frozen=True):
    """One effect of an upgrade on one config, with the affected topics by name.

    ``before`` and ``after`` are the two defaults of a default that changes, None for other effects.
    """

    effect: UpgradeEffect
    key: str
    message: str
    hint: str
    topics: tuple[AffectedTopic, ...]
    before: str | None = None
    after: str | None = None


class UpgradeReport(Struct, frozen=True):
    """The findings of one cluster, the worst first.

    ``cluster_id`` is None if only manifests were checked. ``unreadable`` has the topics that could not be checked.
    ``is_current`` is true if the cluster certainly has the target version already.
    """

    cluster: ClusterSpec
    target: KafkaVersion
    cluster_id: str | None
    topic_count: int
    findings: tuple[UpgradeFinding, ...]
    unreadable: Mapping[str, ReadError]
    is_current: bool = False

    @property
    def stops_brokers(self) -> bool:
        """Return whether a broker of the target version would not start."""
        return any(finding.effect is UpgradeEffect.STOPS_BROKERS for finding in self.findings)


class _TopicConfig(NamedTuple):
    """The overrides of one topic: those that the cluster stores (None: not read), and its spec."""

    topic: str
    stored: Mapping[str, str] | None
    spec: TopicSpec | None


def check_upgrade(
    state: ClusterState,
    cluster: ClusterSpec,
    target: KafkaVersion,
    specs: Iterable[TopicSpec] = (),
    equal_topics: Collection[str] = (),
) -> UpgradeReport:
    """Return the effects of an upgrade to ``target`` on the topics of a cluster, and of the manifests for it.

    ``equal_topics`` are topics of the cluster that ``state`` lacks, because their configs are those of their specs.
    Raises ``TopiaristError`` if the cluster certainly has a newer version.
    """
    by_topic = {spec.topic: spec for spec in specs if not spec.absent}
    topics = [_TopicConfig(name, topic.config, by_topic.get(name)) for name, topic in state.topics.items()]
    topics += [
        _TopicConfig(name, spec.config if name in equal_topics else {}, spec)
        for name, spec in by_topic.items()
        if name not in state.topics
    ]
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    settings = rules.merge_dynamic_settings(state.broker_defaults)
    # The newest version that the cluster may have: only defaults that certainly change are reported.
    newest, *older = rules.versions_to_check(state.min_version)
    oldest = older[0] if older else newest
    _require_upgrade(oldest, target)
    findings = _find_effects(topics, rules, settings, newest, target)
    is_current = oldest == newest == target
    return UpgradeReport(cluster, target, state.cluster_id, len(topics), findings, state.topic_errors, is_current)


def check_upgrade_of_specs(cluster: ClusterSpec, target: KafkaVersion, specs: Iterable[TopicSpec]) -> UpgradeReport:
    """Return the effects of an upgrade to ``target`` on the topics that manifests declare for a cluster.

    Raises ``TopiaristError`` if the Cluster declares a newer version.
    """
    topics = [_TopicConfig(spec.topic, None, spec) for spec in specs if not spec.absent]
    rules = cluster.config_rules
    _require_upgrade(rules.version or target, target)
    version = rules.version or LAST_ZOOKEEPER_VERSION
    findings = _find_effects(topics, rules, cluster.broker_config, version, target)
    return UpgradeReport(cluster, target, None, len(topics), findings, {}, rules.version == target)


def _require_upgrade(oldest: KafkaVersion, target: KafkaVersion) -> None:
    if target < oldest:
        has, wanted = format_version(oldest), format_version(target)
        message = f"the cluster has Kafka {has} or later, found {wanted} as the version to upgrade to"
        raise TopiaristError(Reason.WRONG_USAGE, message, "give a version that is not older")


def _find_effects(
    topics: Iterable[_TopicConfig],
    rules: config_rules.ConfigRules,
    settings: Mapping[str, str],
    version: KafkaVersion,
    target: KafkaVersion,
) -> tuple[UpgradeFinding, ...]:
    topics = sorted(topics, key=lambda each: each.topic)
    affected: dict[tuple[UpgradeEffect, str], list[AffectedTopic]] = {}
    for topic in topics:
        for effect, key, item in _find_topic_effects(topic, target):
            affected.setdefault((effect, key), []).append(item)
    found = [_describe_override(effect, key, tuple(items), target) for (effect, key), items in affected.items()]
    found += _find_changed_defaults(topics, rules, settings, version, target)
    order = list(UpgradeEffect)
    return tuple(sorted(found, key=lambda finding: (order.index(finding.effect), finding.key)))


def _find_topic_effects(
    topic: _TopicConfig, target: KafkaVersion
) -> Iterator[tuple[UpgradeEffect, str, AffectedTopic]]:
    """Yield the affected overrides of a topic: those stored, then those that its manifest would write."""
    stored, declared = topic.stored or {}, topic.spec.config if topic.spec else {}
    for key, text in sorted(stored.items()):
        if effect := _find_effect(key, text, target):
            yield effect, key, AffectedTopic(topic.topic, text, _find_origin(topic, key, text))
    for key, text in sorted(declared.items()):
        is_stored = key in stored and (stored[key] == text or is_equivalent(key, stored[key], text))
        if not is_stored and (effect := _find_effect(key, text, target)):
            in_manifest_only = topic.stored is not None
            yield effect, key, AffectedTopic(topic.topic, text, _find_origin(topic, key, text), in_manifest_only)


def _find_effect(key: str, text: str, target: KafkaVersion) -> UpgradeEffect | None:
    definition = TOPIC_CONFIGS.get(key)
    if definition is None or target in definition.partly_in:
        return None
    if not config_rules.is_supported(key, target):
        return UpgradeEffect.DROPPED
    return UpgradeEffect.STOPS_BROKERS if check_value(key, text, target) else None


def _find_origin(topic: _TopicConfig, key: str, text: str) -> ValueOrigin | None:
    """Return the origin of the manifest's value; of the topic if the manifest has another value or none."""
    if topic.spec is None:
        return None
    declares = key in topic.spec.config and is_equivalent(key, topic.spec.config[key], text)
    return find_origin(topic.spec, "config", key) if declares else find_origin(topic.spec)


def _describe_override(
    effect: UpgradeEffect, key: str, topics: tuple[AffectedTopic, ...], target: KafkaVersion
) -> UpgradeFinding:
    version, definition = format_version(target), TOPIC_CONFIGS[key]
    if effect is UpgradeEffect.STOPS_BROKERS:
        wanted = check_value(key, topics[0].value or "", target).partition(", wanted ")[2]
        message = f"brokers of Kafka {version} do not start while a topic has such a value: wanted {wanted}"
        hint = f"change {key} of these topics before the upgrade"
    elif config_rules.is_dropped(key, target):
        since = format_version(definition.removed or target)
        message = f"dropped by Kafka {since}: the override has no effect any longer, and brokers do not show it"
        advice = definition.deprecated[1].partition(";")[0] if definition.deprecated else ""
        hint = f"{advice}; " if advice.startswith("use ") else ""
        hint += "a manifest may keep it: topiarist ignores it on brokers that do not support it"
    else:
        message = f"Kafka {version} does not have it: the override has no effect, and brokers do not show it"
        hint = f"remove {key} from these topics before the change of version"
    return UpgradeFinding(effect, key, message, hint, topics)


def _find_changed_defaults(
    topics: Sequence[_TopicConfig],
    rules: config_rules.ConfigRules,
    settings: Mapping[str, str],
    version: KafkaVersion,
    target: KafkaVersion,
) -> Iterator[UpgradeFinding]:
    for key in TOPIC_CONFIGS:
        before, after = config_rules.kafka_default(key, version), config_rules.kafka_default(key, target)
        own = config_rules.server_default(key, settings)
        # Brokers that describe their configs give the effective default, which may be Kafka's own.
        is_own = own is not None and not (rules.known_configs is not None and is_equivalent(key, own, before))
        if before == after or is_own or not config_rules.is_supported(key, target):
            continue
        items = tuple(
            AffectedTopic(topic.topic, None, find_origin(topic.spec) if topic.spec else None)
            for topic in topics
            if key not in _config_of(topic) and _uses_default(key, _config_of(topic), settings, version)
        )
        if items:
            message = f"Kafka's default changes from {_show(before)} to {_show(after)} for topics without an override"
            server = TOPIC_CONFIGS[key].server_defaults[0]
            hint = f"to keep the value, set {key} on these topics, or {server} on the brokers"
            yield UpgradeFinding(UpgradeEffect.DEFAULT_CHANGES, key, message, hint, items, before, after)


def _config_of(topic: _TopicConfig) -> Mapping[str, str]:
    return topic.stored or (topic.spec.config if topic.spec else {})


def _uses_default(key: str, config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion) -> bool:
    # Brokers check the timestamps of messages only if the producers give them.
    is_limit = key in ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
    return (
        not is_limit
        or config_rules.effective_value("message.timestamp.type", config, settings, version) != "LogAppendTime"
    )


def _show(default: str) -> str:
    return "no limit" if default == str(LONG_MAX) else default
