"""Checks the topics of a cluster before an upgrade of Kafka: what a newer version refuses, drops or changes.

A broker validates the stored overrides of each topic when it starts: one value that its version refuses keeps it from
starting. A config that the version has dropped stays stored, has no effect and is no longer shown. A default that
changes applies to each topic without an override of its own.

``check_state`` reads the overrides of a cluster (live or from a snapshot), ``check_specs`` those of manifests. Both are
pure. The command ``upgrade-check`` calls them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from topiarist.errors import Location
from topiarist.kafka.config_rules import (
    ConfigRules,
    effective_value,
    is_dropped,
    is_supported,
    kafka_default,
    server_default,
)
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.config_values import check_value, is_equivalent
from topiarist.kafka.types import LAST_ZOOKEEPER_VERSION, LONG_MAX, KafkaVersion, format_version
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin, find_origin
from topiarist.model.state import ClusterState, ReadError


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
    """

    cluster: ClusterSpec
    target: KafkaVersion
    cluster_id: str | None
    topic_count: int
    findings: tuple[UpgradeFinding, ...]
    unreadable: Mapping[str, ReadError]

    @property
    def stops_brokers(self) -> bool:
        """Return whether a broker of the target version would not start."""
        return any(finding.effect is UpgradeEffect.STOPS_BROKERS for finding in self.findings)


class _TopicConfig(NamedTuple):
    """The overrides of one topic: those that the cluster stores (None: not read), and its spec."""

    topic: str
    stored: Mapping[str, str] | None
    spec: TopicSpec | None


def _by_name(topic: _TopicConfig) -> str:
    return topic.topic


def check_state(
    state: ClusterState,
    cluster: ClusterSpec,
    target: KafkaVersion,
    specs: Iterable[TopicSpec] = (),
    equal_topics: Collection[str] = (),
) -> UpgradeReport:
    """Return the effects of an upgrade to ``target`` on the topics of a cluster, and of the manifests for it.

    ``equal_topics`` are topics of the cluster that ``state`` lacks, because their configs are those of their specs.
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
    version = rules.versions_to_check(state.min_version)[0]
    findings = _find_effects(sorted(topics, key=_by_name), rules, settings, version, target)
    return UpgradeReport(cluster, target, state.cluster_id, len(topics), findings, state.topic_errors)


def check_specs(cluster: ClusterSpec, target: KafkaVersion, specs: Iterable[TopicSpec]) -> UpgradeReport:
    """Return the effects of an upgrade to ``target`` on the topics that manifests declare for a cluster."""
    topics = [_TopicConfig(spec.topic, None, spec) for spec in specs if not spec.absent]
    rules = cluster.config_rules
    version = rules.version or LAST_ZOOKEEPER_VERSION
    findings = _find_effects(sorted(topics, key=_by_name), rules, cluster.broker_config, version, target)
    return UpgradeReport(cluster, target, None, len(topics), findings, {})


def _find_effects(
    topics: Sequence[_TopicConfig],
    rules: ConfigRules,
    settings: Mapping[str, str],
    version: KafkaVersion,
    target: KafkaVersion,
) -> tuple[UpgradeFinding, ...]:
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
    if not is_supported(key, target):
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
    elif is_dropped(key, target):
        since = format_version(definition.removed or target)
        message = f"dropped by Kafka {since}: the override has no effect any longer, and brokers do not show it"
        advice = definition.deprecated[1].partition(";")[0] if definition.deprecated else ""
        hint = f"{advice}; " if advice.startswith("use ") else ""
        hint += "a manifest may keep it: it is ignored where the brokers do not have it"
    else:
        message = f"Kafka {version} does not have it: the override has no effect, and brokers do not show it"
        hint = f"remove {key} from these topics before the change of version"
    return UpgradeFinding(effect, key, message, hint, topics)


def _find_changed_defaults(
    topics: Sequence[_TopicConfig],
    rules: ConfigRules,
    settings: Mapping[str, str],
    version: KafkaVersion,
    target: KafkaVersion,
) -> Iterator[UpgradeFinding]:
    for key in TOPIC_CONFIGS:
        before, after = kafka_default(key, version), kafka_default(key, target)
        own = server_default(key, settings)
        # Brokers that describe their configs give the effective default, which may be Kafka's own.
        is_own = own is not None and not (rules.known_configs is not None and is_equivalent(key, own, before))
        if before == after or is_own or not is_supported(key, target):
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
    return not is_limit or effective_value("message.timestamp.type", config, settings, version) != "LogAppendTime"


def _show(default: str) -> str:
    return "no limit" if default == str(LONG_MAX) else default
