"""Rules for topic configs: versions, defaults, conflicts between keys, errors of a whole config.

``config_values`` has the rules for one value; this module adds the rules that need a Kafka version, other keys or
broker settings. Values are always text, as clusters store them. ``desired/parse.py`` calls it for manifests, and
``planning`` and ``inspection`` for the configs of a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.kafka import config_values
from topiarist.kafka.config_table import (
    MAX_BY_TYPE,
    MESSAGE_FORMAT_VERSIONS,
    MIN_SEGMENT_BYTES,
    MS_BY_UNIT,
    TOPIC_CONFIGS,
)
from topiarist.kafka.config_values import (
    ConfigValue,
    describe_units,
    is_equivalent,
    java_trim,
    parse_integer,
    try_parse_value,
)
from topiarist.kafka.types import (
    KAFKA_VERSIONS,
    LAST_ZOOKEEPER_VERSION,
    MAX_KAFKA_VERSION,
    MIN_ISR_CAPPED_SINCE,
    MIN_KAFKA_VERSION,
    ClusterMode,
    KafkaVersion,
    KnownConfig,
    format_version,
    matches_any,
)
from topiarist.text import printable, template_reason

DEPRECATED_CONFIGS = frozenset(
    name for name, definition in TOPIC_CONFIGS.items() if definition.deprecated or definition.removed
)
"""Names that some Kafka version deprecates or drops; ``deprecation_message`` returns version and reason."""

REMOTE_STORAGE_SETTING = "remote.log.storage.system.enable"
"""The broker setting that is required before a topic may have remote storage."""

RELEVANT_BROKER_SETTINGS = frozenset(
    server for definition in TOPIC_CONFIGS.values() for server in definition.server_defaults
) | {REMOTE_STORAGE_SETTING}
"""The broker settings that affect topics, under broker names; no other broker setting is read."""


def is_supported(name: str, version: KafkaVersion) -> bool:
    """Return whether a Kafka version, in each of its patch releases, has this topic config.

    If a topic has an unsupported key, Kafka's API refuses every later change of its config (contract, 4.5).
    """
    definition = TOPIC_CONFIGS.get(name)
    return definition is not None and definition.since <= version and not is_dropped(name, version)


def is_dropped(name: str, version: KafkaVersion) -> bool:
    """Return whether a Kafka version no longer has a topic config that earlier versions have."""
    definition = TOPIC_CONFIGS.get(name)
    return definition is not None and definition.removed is not None and definition.removed <= version


def find_possible_versions(names: Collection[str]) -> tuple[KafkaVersion, ...]:
    """Return the Kafka versions with exactly these topic configs, ascending; names outside the table do not count.

    Returns nothing if no supported version has them.
    """
    return _find_possible_versions(frozenset(names))


@lru_cache(maxsize=64)
def _find_possible_versions(names: frozenset[str]) -> tuple[KafkaVersion, ...]:
    def is_possible(version: KafkaVersion) -> bool:
        return all(
            version in definition.partly_in or (name in names) == is_supported(name, version)
            for name, definition in TOPIC_CONFIGS.items()
        )

    return tuple(filter(is_possible, KAFKA_VERSIONS))


def suggest_config_name(name: str) -> str | None:
    """Return the topic config that resembles an unknown ``name``, such as a broker's name; None if there is none."""
    from difflib import get_close_matches

    plain = name.strip().lower().replace("_", ".")
    if plain in TOPIC_CONFIGS:
        return plain
    for definition in TOPIC_CONFIGS.values():
        if plain in definition.server_defaults:
            return definition.name
    return next(iter(get_close_matches(plain, TOPIC_CONFIGS, n=1, cutoff=0.75)), None)


_SIZE_NAMES = {
    "partitions": {
        *("partition", "partitions", "npartitions", "partitioncount", "partitionscount", "partitionnum"),
        *("partitionnumber", "partitionsnumber", "numberofpartitions", "defaultpartitions"),
        *("numpartition", "numpartitions", "defaultnumpartitions", "minpartitions"),
    },
    "replicationFactor": {
        *("replica", "replicas", "numreplicas", "numberofreplicas", "replicacount", "replicascount"),
        *("replication", "replicationfactor", "replicationfactors", "replicafactor", "replicasfactor", "repfactor"),
        *("rf", "defaultreplication", "defaultreplicationfactor"),
    },
    "topicName": {"name", "topicname"},
    "replicaAssignment": {"replicaassignment", "replicasassignments", "replicaassignments", "replicasassignment"},
}


def field_of_size(name: str) -> str:
    """Return the field of a topic that a name in any spelling means: its size or name; empty if it means none."""
    folded = re.sub(r"[\s._-]+", "", name[:64]).lower()
    folded = folded.removeprefix("topic") if folded not in ("topic", "topicname") else folded
    return next((field for field, names in _SIZE_NAMES.items() if folded in names), "")


def deprecation_message(name: str, version: KafkaVersion) -> str:
    """Return the message for a config that a Kafka version deprecates; empty otherwise."""
    definition = TOPIC_CONFIGS.get(name)
    if is_dropped(name, version):
        return dropped_message(name)
    if definition is None or definition.deprecated is None or version < definition.deprecated[0]:
        return ""
    since, advice = definition.deprecated
    return f"deprecated since Kafka {format_version(since)}: {advice}"


def dropped_message(name: str) -> str:
    """Return the message for a config that a newer Kafka version has dropped; empty for every other config."""
    definition = TOPIC_CONFIGS.get(name)
    removed = definition.removed if definition else None
    return "" if removed is None else f"Kafka has dropped it: ignored from {format_version(removed)}"


def kafka_default(name: str, kafka_version: KafkaVersion = MAX_KAFKA_VERSION) -> str:
    """Return Kafka's own default of a topic config in a version, as text; a cluster's brokers may override it."""
    definition = TOPIC_CONFIGS[name]
    if definition.type == "version" and kafka_version < (3, 0):
        version = format_version(kafka_version)
        return f"{version}-IV{MESSAGE_FORMAT_VERSIONS[version]}"
    if definition.earlier_default is not None and kafka_version < definition.earlier_default[0]:
        return definition.earlier_default[1]
    return definition.default


def server_default(name: str, settings: Mapping[str, str]) -> str | None:
    """Return the value, as a topic's text, that brokers with ``settings`` use for a topic without an override.

    ``settings`` are under broker names. Returns None if they do not give the value: other settings, or Kafka's own
    default, apply then. Also returns None for a time in other units that is not a number.
    """
    definition = TOPIC_CONFIGS.get(name)
    server = next((name for name in definition.server_defaults if name in settings), None) if definition else None
    if server is None:
        return None
    factor = MS_BY_UNIT.get(server.rpartition(".")[2])
    if factor is None:
        return settings[server]
    try:
        return str(max(parse_integer(java_trim(settings[server]), limit=MAX_BY_TYPE["int"]) * factor, -1))
    except ValueError:
        return None


def effective_value(
    name: str, config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion = MAX_KAFKA_VERSION
) -> ConfigValue | None:
    """Return the effective value of a topic: its override, else the broker ``settings``, else Kafka's default.

    A value of -2 for ``local.retention.*`` resolves to ``retention.*``. Returns None if the effective text is invalid.
    """
    value = _lookup_value(name, config, settings, version)
    if value == -2 and name.startswith("local.retention."):
        return effective_value(name.removeprefix("local."), config, settings, version)
    return value


_COMPACTION_LAG_CONFIGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_KRAFT_ONLY_CONFIGS = ("remote.log.copy.disable", "remote.log.delete.on.disable")
_CONFLICT_TRIGGERS = {
    *_COMPACTION_LAG_CONFIGS,
    *_KRAFT_ONLY_CONFIGS,
    "local.retention.ms",
    "local.retention.bytes",
    "remote.storage.enable",
}
_CONFLICT_TRIGGER_SETTINGS = {"log.local.retention.ms", "log.local.retention.bytes"}


def find_conflicts(
    config: Mapping[str, str],
    version: KafkaVersion,
    settings: Mapping[str, str] | None = None,
    mode: ClusterMode | None = ClusterMode.ZOOKEEPER,
) -> list[tuple[str, str]]:
    """Return the conflicts between a topic's overrides: one of their keys and a message for each violated rule.

    ``settings`` are the known broker settings, under broker names (including ``REMOTE_STORAGE_SETTING``). Values that
    cannot be parsed are ignored here: ``check_value`` reports them. A conflict between broker settings alone, without
    an override, is not reported. If ``mode`` is not known (None), only rules of both modes apply.
    """
    settings = settings or {}
    if config.keys().isdisjoint(_CONFLICT_TRIGGERS) and settings.keys().isdisjoint(_CONFLICT_TRIGGER_SETTINGS):
        return []  # fast path for almost every topic: no rule can be violated
    found: list[tuple[str, str]] = []
    # Before 3.6 brokers compared the lags with Kafka's own defaults only.
    lag_settings = settings if version >= (3, 6) else {}
    least, most = (_lookup_value(name, config, lag_settings, version) for name in _COMPACTION_LAG_CONFIGS)
    lag_key = next((name for name in _COMPACTION_LAG_CONFIGS if name in config), None)
    if lag_key and isinstance(least, int) and isinstance(most, int) and least > most:
        found.append((lag_key, f"min.compaction.lag.ms is {least}, more than max.compaction.lag.ms, which is {most}"))
    has_remote_storage = _lookup_value("remote.storage.enable", config, settings, version) is True
    if has_remote_storage and version >= (3, 6):
        found += _find_remote_storage_conflicts(config, settings, version, mode)
    if has_remote_storage or (3, 0) <= version < (3, 6):
        found += _find_local_retention_conflicts(config, settings, version)
    for name in _KRAFT_ONLY_CONFIGS if version >= (3, 9) and mode is ClusterMode.ZOOKEEPER else ():
        if _lookup_value(name, config, settings, version) is True:
            found.append((name, f"{name}: found true, which Kafka refuses in ZooKeeper mode"))
    return found


def _find_remote_storage_conflicts(
    config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion, mode: ClusterMode | None
) -> Iterator[tuple[str, str]]:
    # A broker without remote storage that loads such a topic does not start again. ZooKeeper does not show whether a
    # broker has remote storage, so the user must declare it. In KRaft mode the controller refuses the config.
    has_setting = java_trim(settings.get(REMOTE_STORAGE_SETTING, "false")).lower() == "true"
    if mode is ClusterMode.ZOOKEEPER and not has_setting:
        yield (
            "remote.storage.enable",
            "remote.storage.enable is true, and brokers without remote storage would not start again: if these brokers "
            f'have it, set {REMOTE_STORAGE_SETTING}: "true" in the brokerConfig of their Cluster',
        )
    policy = _lookup_value("cleanup.policy", config, settings, version)
    if isinstance(policy, frozenset) and "compact" in policy:
        key = "cleanup.policy" if "cleanup.policy" in config else "remote.storage.enable"
        yield key, "remote.storage.enable is true, which a cleanup.policy with compact does not allow"


def _find_local_retention_conflicts(
    config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion
) -> Iterator[tuple[str, str]]:
    for whole in ("retention.ms", "retention.bytes"):
        local = f"local.{whole}"
        kept, here = (_lookup_value(name, config, settings, version) for name in (whole, local))
        key = next((name for name in (local, whole, "remote.storage.enable") if name in config), None)
        if key is None or not isinstance(kept, int) or not isinstance(here, int) or here == -2:
            continue
        # Before 3.6 Kafka compared -1 ("no limit") as a number: any local limit was larger, and brokers threw.
        if kept < 0 and (version >= (3, 6) or here == kept):
            continue
        if here == -1:
            yield key, f"{local} is -1 (no limit), but {whole} is {kept}"
        elif here > kept:
            yield key, f"{local} is {here}, more than {whole}, which is {kept}"


def forbidden_change_reason(
    name: str,
    before: str | None,
    after: str | None,
    version: KafkaVersion = MAX_KAFKA_VERSION,
    mode: ClusterMode | None = ClusterMode.ZOOKEEPER,
) -> str:
    """Return why an override may not change from ``before`` to ``after`` (None: no override); empty if it may.

    Only ``remote.storage.enable`` has such a rule: it cannot be switched off again in ZooKeeper mode, and in KRaft mode
    before Kafka 3.9.
    """
    can_disable = mode is not ClusterMode.ZOOKEEPER and version >= (3, 9)
    if name != "remote.storage.enable" or version < (3, 6) or can_disable:
        return ""
    on, still = (text is not None and is_equivalent(name, text, "true") for text in (before, after))
    where = "in ZooKeeper mode" if mode is ClusterMode.ZOOKEEPER else "before Kafka 3.9"
    return f"remote storage cannot be switched off again {where}" if on and not still else ""


def _lookup_value(
    name: str, config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion
) -> ConfigValue | None:
    text = config.get(name)
    if text is None:
        text = server_default(name, settings)
    value, problem = try_parse_value(name, kafka_default(name, version) if text is None else text)
    return None if problem else value


_CACHE_SIZE = 1 << 12
"""Results in each cache: the topics of one cluster have few distinct values."""

_UNKNOWN_CONFIG_MESSAGE = "Kafka has no such topic config"


class ConfigError(NamedTuple):
    """A reason why Kafka would refuse a map of overrides: the key and the message."""

    key: str
    message: str


class ConfigRules(Struct, frozen=True, dict=True):
    """The rules for the topic configs of one cluster: Kafka version, mode, allowed vendor keys, broker settings.

    ``version`` is None if it is not declared. ``allow_unknown_configs`` are glob patterns; ``broker_config`` has the
    settings under broker names. ``mode`` is None if it is not known before the brokers are asked.

    ``known_configs`` are the topic configs that the brokers themselves describe, by name; None if they were not asked.
    They decide over ``version``: a name that the brokers know is allowed, and their defaults apply.
    """

    version: KafkaVersion | None = None
    allow_unknown_configs: tuple[str, ...] = ()
    broker_config: Mapping[str, str] = field(default_factory=dict)
    mode: ClusterMode | None = ClusterMode.ZOOKEEPER
    known_configs: Mapping[str, KnownConfig] | None = None

    def with_relevant_settings(self) -> ConfigRules:
        """Return these rules with only the broker settings that affect topics."""
        settings = {key: text for key, text in sorted(self.broker_config.items()) if key in RELEVANT_BROKER_SETTINGS}
        return replace(self, broker_config=settings)

    def for_cluster(self, mode: ClusterMode, known_configs: Mapping[str, KnownConfig] | None) -> ConfigRules:
        """Return these rules with the mode of a cluster, and with the configs that its brokers describe."""
        return replace(self, mode=mode, known_configs=known_configs)

    def merge_dynamic_settings(self, dynamic: Mapping[str, str]) -> Mapping[str, str]:
        """Return the known broker settings: ``broker_config``, overridden by known defaults and by ``dynamic`` ones.

        The dynamic ones may be newer than the known defaults, which are those of the plan.
        """
        return {**self.broker_config, **settings_of_known_defaults(self.known_configs or {}), **dynamic}

    def newest_version(self) -> KafkaVersion:
        """Return the declared version; the newest version that the cluster may have if it is not declared."""
        return self.version or (LAST_ZOOKEEPER_VERSION if self.mode is ClusterMode.ZOOKEEPER else MAX_KAFKA_VERSION)

    def versions_to_check(self, at_least: KafkaVersion) -> tuple[KafkaVersion, ...]:
        """Return the Kafka versions to check values by.

        Without a declared version these are both ends of the possible range: the newest version and ``at_least``. If
        the brokers describe their configs, the range is that of the versions with the same configs, and a declared
        version outside of it has no effect.
        """
        if self.known_configs is None:
            return (self.version,) if self.version else (self.newest_version(), at_least)
        possible = find_possible_versions(self.known_configs)
        if self.version in possible:
            return (self.version,)
        possible = tuple(version for version in possible if version >= at_least) or possible
        ends = (possible[-1], possible[0]) if possible else (MAX_KAFKA_VERSION, at_least)
        return ends[:1] if ends[0] == ends[1] else ends

    def oldest_version(self, at_least: KafkaVersion) -> KafkaVersion:
        """Return the oldest version that the brokers may have; ``at_least`` is what the cluster shows."""
        return self.versions_to_check(at_least)[-1]

    def version_conflict(self) -> str:
        """Return a message if the configs of the brokers are not those of the declared version; empty otherwise."""
        if self.version is None or self.known_configs is None:
            return ""
        possible = find_possible_versions(self.known_configs)
        if not possible or self.version in possible:
            return ""
        oldest, newest = format_version(possible[0]), format_version(possible[-1])
        actual = oldest if oldest == newest else f"{oldest} to {newest}"
        return (
            f"kafkaVersion is {format_version(self.version)}, but the brokers have the topic configs of Kafka "
            f"{actual}: the names, types and defaults of the brokers apply"
        )

    def is_known_key(self, key: str) -> bool:
        """Return whether a key exists in any Kafka version, on the brokers, or is allowed by a vendor pattern."""
        return key in TOPIC_CONFIGS or self._is_known_to_brokers(key) or matches_any(key, self.allow_unknown_configs)

    def _is_known_to_brokers(self, key: str) -> bool:
        return self.known_configs is not None and key in self.known_configs

    def is_ignored(self, key: str, at_least: KafkaVersion) -> bool:
        """Return whether the cluster's Kafka version has dropped a config, so that a manifest may still have it.

        ``at_least`` is the oldest version that the cluster may have.
        """
        if key not in DEPRECATED_CONFIGS:
            return False
        if self.known_configs is not None:
            return key not in self.known_configs and bool(dropped_message(key))
        return is_dropped(key, self.version or at_least)

    def is_certain(self, key: str, at_least: KafkaVersion) -> bool:
        """Return whether the cluster certainly has a topic config; ``at_least`` is the oldest version it may have."""
        if self.known_configs is not None:
            return key in self.known_configs
        return is_supported(key, self.version or at_least)

    def config_problem(self, key: str, text: str) -> tuple[str, str] | None:
        """Return the error of one config value, as message and advice; None if the value is valid.

        A key that Kafka does not know is valid if ``allow_unknown_configs`` has a pattern for it, or if the brokers
        know it; its value is not checked. Without a declared version, a value is valid if any version accepts it.
        Outside of ZooKeeper mode the brokers decide on names that are newer than the declared version.
        """
        if (key, text) in self._valid_values:
            return None
        problem = self._find_problem(key, text)
        if problem is None and len(self._valid_values) < _CACHE_SIZE:
            self._valid_values.add((key, text))
        return problem

    @cached_property
    def _accepted_values(self) -> set[tuple[KafkaVersion, str, str]]:
        """Return the values that ``find_errors`` has found valid in a version."""
        return set()

    @cached_property
    def _valid_values(self) -> set[tuple[str, str]]:
        """Return the values that were found valid already: those of most topics repeat."""
        return set()

    def _find_problem(self, key: str, text: str) -> tuple[str, str] | None:
        if self._is_known_to_brokers(key) and key not in TOPIC_CONFIGS:
            return None
        versions: tuple[KafkaVersion, ...] = (
            (self.version,) if self.version else (LAST_ZOOKEEPER_VERSION, self.newest_version())
        )
        if self.mode is not ClusterMode.ZOOKEEPER and key in TOPIC_CONFIGS:
            versions = tuple(max(version, TOPIC_CONFIGS[key].since) for version in versions)
        problem = None
        for version in versions:
            problem = config_problem(key, text, version, self.allow_unknown_configs)
            if problem is None:
                return None
        return problem

    def find_errors(
        self, config: Mapping[str, str], releases: tuple[KafkaVersion, ...], settings: Mapping[str, str]
    ) -> Sequence[ConfigError]:
        """Return the sorted reasons why Kafka would refuse a map of overrides in any of ``releases``.

        Keys that the cluster allows are not checked. If there are several versions (none is declared), each checks only
        the keys that it supports.
        """
        found = {
            ConfigError(key, f"{printable_key(key)}: {_UNKNOWN_CONFIG_MESSAGE}")
            for key in config
            if not self.is_known_key(key)
        }
        for release in releases:
            for key, text in config.items():
                if (release, key, text) in self._accepted_values:
                    continue
                if not (key in TOPIC_CONFIGS if len(releases) == 1 else is_supported(key, release)):
                    continue
                definition = TOPIC_CONFIGS[key]
                # A patch release may have a config before the version of the table.
                version = max(release, definition.since) if self._is_known_to_brokers(key) else release
                is_valid = config_values.is_number_within_bounds(definition, text, version)
                message = "" if is_valid else config_values.check_value(key, text, version)
                if message:
                    found.add(ConfigError(key, f"{printable_key(key)}: {message}"))
                elif len(self._accepted_values) < _CACHE_SIZE:
                    self._accepted_values.add((release, key, text))
            found.update(ConfigError(*conflict) for conflict in find_conflicts(config, release, settings, self.mode))
        return sorted(found)


def settings_of_known_defaults(known_configs: Mapping[str, KnownConfig]) -> Mapping[str, str]:
    """Return the brokers' own defaults of topic configs under the names of the broker settings."""
    return {
        definition.server_defaults[0]: known.default
        for name, known in known_configs.items()
        if (definition := TOPIC_CONFIGS.get(name)) and definition.server_defaults and known.default is not None
    }


def config_problem(
    key: str, text: str, kafka_version: KafkaVersion, vendor_patterns: tuple[str, ...]
) -> tuple[str, str] | None:
    """Return the error of one config value in a Kafka version, as message and advice; None if the value is valid.

    A config that the version has dropped is valid: it is ignored there.
    """
    if key not in TOPIC_CONFIGS:
        if matches_any(key, vendor_patterns):
            return None
        return describe_unknown_key(key)
    definition = TOPIC_CONFIGS[key]
    if kafka_version < definition.since and kafka_version not in definition.partly_in:
        since = format_version(definition.since)
        return (
            f"{key}: Kafka knows it since {since}, but kafkaVersion is {format_version(kafka_version)}",
            "leave the line out",
        )
    version = max(kafka_version, definition.since)
    if config_values.is_number_within_bounds(definition, text, version):
        return None  # almost all numbers
    wrong = config_values.check_value(key, text, version) or config_values.check_manifest_value(key, text)
    advice = template_reason(text) or ("" if text.lstrip("+-").isdigit() else describe_units(key))
    return (f"{key}: {wrong}", advice) if wrong else None


def printable_key(key: str) -> str:
    """Return a config key for the start of a message: the key may be any text, so it is escaped and shortened."""
    return printable(key, 255)


def describe_unknown_key(key: str, prefix: str = "") -> tuple[str, str]:
    """Return message and advice for a key that neither Kafka nor the cluster knows.

    ``prefix`` is the path before the key in its document.
    """
    if size := field_of_size(key):
        place = f"did you mean {size}?" if prefix else f"it is no config: write spec.{size}, beside config"
        return f"{prefix}{printable_key(key)}: {_UNKNOWN_CONFIG_MESSAGE}", place
    guess = suggest_config_name(key)
    vendor_hint = "to allow a vendor's own key, add a pattern to allowUnknownConfigs of the Cluster"
    hint = f"did you mean {prefix}{guess}?" if guess else vendor_hint
    return f"{prefix}{printable_key(key)}: {_UNKNOWN_CONFIG_MESSAGE}", hint


def small_segment_message(config: Mapping[str, str]) -> str:
    """Return a message if ``segment.bytes`` keeps brokers of newer Kafka versions from starting; empty otherwise.

    An invalid value is a separate error.
    """
    text = config.get("segment.bytes")
    value, problem = ("", "") if text is None else try_parse_value("segment.bytes", text)
    if problem or not isinstance(value, int) or value >= MIN_SEGMENT_BYTES:
        return ""
    return f"segment.bytes is {value}: brokers of Kafka 4.1 and later do not start with less than {MIN_SEGMENT_BYTES}"


def is_min_isr_above(
    config: Mapping[str, str], replication_factor: int, oldest: KafkaVersion = MIN_KAFKA_VERSION
) -> bool:
    """Return whether ``min.insync.replicas`` is larger than ``replication_factor``.

    If it is, every write with ``acks=all`` fails: not in ``MIN_ISR_CAPPED_SINCE`` and later; ``oldest`` is the oldest
    version that the brokers may have. Returns False for an invalid value, which is a separate error.
    """
    text = config.get("min.insync.replicas")
    if text is None or oldest >= MIN_ISR_CAPPED_SINCE:
        return False
    value, problem = try_parse_value("min.insync.replicas", text)
    return not problem and isinstance(value, int) and value > replication_factor
