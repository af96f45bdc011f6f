"""Kafka's topic configs: which exist in a release, what their text means, when two texts are equal, what fits together.

Two strictnesses: ``check`` and ``equal`` read values exactly as Kafka does, since what others have stored must be
readable; ``stricter`` names what Kafka would take but no manifest should hold. Values are always text, as in ZooKeeper.
Before this module stands the text of a manifest or a znode; ``rules``, ``risk`` and ``plan`` use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from topiarist.kafka import config_values
from topiarist.kafka.config_table import MAX_BY_TYPE, MESSAGE_FORMAT_VERSIONS, TOPIC_CONFIGS
from topiarist.kafka.config_values import ConfigValue, is_equivalent, try_parse_value
from topiarist.kafka.java_numbers import java_trim, parse_integer
from topiarist.kafka.names import matches_any
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion, format_version
from topiarist.text import printable

DEPRECATED_CONFIGS = frozenset(name for name, definition in TOPIC_CONFIGS.items() if definition.deprecated)
"""Names that some release deprecates; ``deprecation`` says which and why."""

REMOTE_STORAGE_SETTING = "remote.log.storage.system.enable"
"""The brokers' setting without which no topic may have remote storage."""

RELEVANT_BROKER_SETTINGS = frozenset(
    server for definition in TOPIC_CONFIGS.values() for server, _ in definition.server_defaults
) | {REMOTE_STORAGE_SETTING}
"""The brokers' settings that bear on topics, under broker names: no other is ever looked at."""


def is_supported(name: str, version: KafkaVersion) -> bool:
    """Whether a Kafka release has this topic config. One that it has not would lock the topic's whole config."""
    definition = TOPIC_CONFIGS.get(name)
    return definition is not None and definition.since <= version


def suggest_config_name(name: str) -> str | None:
    """The topic config that was probably meant by a ``name`` that is none (a broker's name, say); None if unclear."""
    from difflib import get_close_matches

    plain = name.strip().lower().replace("_", ".")
    if plain in TOPIC_CONFIGS:
        return plain
    for definition in TOPIC_CONFIGS.values():
        if any(plain == server for server, _ in definition.server_defaults):
            return definition.name
    return next(iter(get_close_matches(plain, TOPIC_CONFIGS, n=1, cutoff=0.75)), None)


def deprecation_message(name: str, version: KafkaVersion) -> str:
    """What to say of a name that a release has but wants to be rid of; empty otherwise."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None or definition.deprecated is None or version < definition.deprecated[0]:
        return ""
    (major, minor), words = definition.deprecated
    return f"deprecated since Kafka {major}.{minor}: {words}"


def kafka_default(name: str, kafka_version: KafkaVersion = MAX_KAFKA_VERSION) -> str:
    """Kafka's own default of a topic config in a release, as text; a cluster's brokers may have another."""
    definition = TOPIC_CONFIGS[name]
    if definition.type == "version" and kafka_version < (3, 0):
        version = f"{kafka_version[0]}.{kafka_version[1]}"
        return f"{version}-IV{MESSAGE_FORMAT_VERSIONS[version]}"
    if definition.earlier_default is not None and kafka_version < definition.earlier_default[0]:
        return definition.earlier_default[1]
    return definition.default


def server_default(name: str, settings: Mapping[str, str]) -> str | None:
    """What brokers with these ``settings`` (under broker names) use where a topic has no override, as a topic's text.

    None if the settings do not say it: other settings, or Kafka's own default, hold then.
    """
    definition = TOPIC_CONFIGS.get(name)
    for server, factor in definition.server_defaults if definition else ():
        if server not in settings:
            continue
        if factor == 1:
            return settings[server]
        try:
            scaled = parse_integer(java_trim(settings[server]), limit=MAX_BY_TYPE["int"]) * factor
        except ValueError:
            return None
        return str(max(scaled, -1))
    return None


def effective_value(
    name: str, config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion = MAX_KAFKA_VERSION
) -> ConfigValue | None:
    """The value that holds for a topic: its override, else what ``settings`` say of the brokers, else Kafka's default.

    ``local.retention.*`` of -2 follows ``retention.*``. None if the text that counts cannot be read.
    """
    value = _lookup_value(name, config, settings, version)
    if value == -2 and name.startswith("local.retention."):
        return effective_value(name.removeprefix("local."), config, settings, version)
    return value


def find_conflicts(
    config: Mapping[str, str], version: KafkaVersion, settings: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """What does not fit together in a topic's overrides: a key of them and what is wrong, for each rule that is broken.

    ``settings`` is what is known of the brokers' own settings, under broker names (``REMOTE_STORAGE`` among them).
    Values that cannot be read are left to ``check``; what the overrides have no part in is no conflict.
    """
    if config.keys().isdisjoint(_CONFLICT_TRIGGERS) and (
        not settings or settings.keys().isdisjoint(_CONFLICT_TRIGGER_SETTINGS)
    ):
        return []  # almost every topic: no rule can be broken
    values = {name: _lookup_value(name, config, settings or {}, version) for name in _CONFLICT_INPUTS}
    found: list[tuple[str, str]] = []
    if version < (3, 6):  # brokers counted only Kafka's own defaults then
        lags = {name: _lookup_value(name, config, {}, version) for name in _COMPACTION_LAG_CONFIGS}
        found += _find_lag_conflicts(lags, config)
    else:
        found += _find_lag_conflicts(values, config)
        found += _find_remote_storage_conflicts(values, config, settings or {})
    if values["remote.storage.enable"] is True or (3, 0) <= version < (3, 6):
        found += _find_local_retention_conflicts(values, config, version)
    if version >= (3, 9):
        refused = [name for name in _KRAFT_ONLY_CONFIGS if values[name] is True]
        found += [(name, f"{name}: found true, which Kafka refuses in ZooKeeper mode") for name in refused]
    return found


def forbidden_change_reason(
    name: str, before: str | None, after: str | None, version: KafkaVersion = MAX_KAFKA_VERSION
) -> str:
    """Say why an override may not go from ``before`` to ``after`` (None: no override); empty if it may.

    Only ``remote.storage.enable`` knows such a rule: in ZooKeeper mode it cannot be switched off again.
    """
    if name != "remote.storage.enable" or version < (3, 6):
        return ""
    on, still = (text is not None and is_equivalent(name, text, "true") for text in (before, after))
    return "remote storage cannot be switched off again in ZooKeeper mode" if on and not still else ""


_COMPACTION_LAG_CONFIGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_KRAFT_ONLY_CONFIGS = ("remote.log.copy.disable", "remote.log.delete.on.disable")
_RETENTION_CONFIGS = ("retention.ms", "local.retention.ms", "retention.bytes", "local.retention.bytes")
_CONFLICT_TRIGGERS = {
    *_COMPACTION_LAG_CONFIGS,
    *_KRAFT_ONLY_CONFIGS,
    "local.retention.ms",
    "local.retention.bytes",
    "remote.storage.enable",
}
_CONFLICT_TRIGGER_SETTINGS = {"log.local.retention.ms", "log.local.retention.bytes"}
_CONFLICT_INPUTS = (
    *_COMPACTION_LAG_CONFIGS,
    *_KRAFT_ONLY_CONFIGS,
    *_RETENTION_CONFIGS,
    "remote.storage.enable",
    "cleanup.policy",
)


def _find_lag_conflicts(
    values: Mapping[str, ConfigValue | None], config: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    least, most = (values[name] for name in _COMPACTION_LAG_CONFIGS)
    key = next((name for name in _COMPACTION_LAG_CONFIGS if name in config), None)
    if key and isinstance(least, int) and isinstance(most, int) and least > most:
        yield key, f"min.compaction.lag.ms is {least}, more than max.compaction.lag.ms, which is {most}"


def _find_remote_storage_conflicts(
    values: Mapping[str, ConfigValue | None], config: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if values["remote.storage.enable"] is not True:
        return
    # A broker without remote storage that loads such a topic does not start again, and ZooKeeper does not show whether
    # it has any: somebody has to say so.
    if java_trim(settings.get(REMOTE_STORAGE_SETTING, "false")).lower() != "true":
        yield (
            "remote.storage.enable",
            "remote.storage.enable is true, and brokers without remote storage would not start again: if these have "
            f'it, say {REMOTE_STORAGE_SETTING}: "true" in the brokerConfig of their Cluster',
        )
    policy = values["cleanup.policy"]
    if isinstance(policy, frozenset) and "compact" in policy:
        key = "cleanup.policy" if "cleanup.policy" in config else "remote.storage.enable"
        yield key, "remote.storage.enable is true, which a cleanup.policy with compact does not allow"


def _find_local_retention_conflicts(
    values: Mapping[str, ConfigValue | None], config: Mapping[str, str], version: KafkaVersion
) -> Iterator[tuple[str, str]]:
    for whole in ("retention.ms", "retention.bytes"):
        local = f"local.{whole}"
        kept, here = values[whole], values[local]
        key = next((name for name in (local, whole, "remote.storage.enable") if name in config), None)
        if key is None or not isinstance(kept, int) or not isinstance(here, int) or here == -2:
            continue
        # Before 3.6 Kafka took "no limit" for the number that it is: any local limit was more, and brokers threw.
        if kept < 0 and (version >= (3, 6) or here == kept):
            continue
        if here == -1:
            yield key, f"{local} is -1 (no limit), but {whole} is {kept}"
        elif here > kept:
            yield key, f"{local} is {here}, more than {whole}, which is {kept}"


def _lookup_value(
    name: str, config: Mapping[str, str], settings: Mapping[str, str], version: KafkaVersion
) -> ConfigValue | None:
    text = config.get(name)
    if text is None:
        text = server_default(name, settings)
    value, problem = try_parse_value(name, kafka_default(name, version) if text is None else text)
    return None if problem else value


_CACHE_SIZE = 1 << 10
"""Judgements kept: topics of one cluster share few distinct values."""


_UNKNOWN_CONFIG_MESSAGE = "Kafka has no such topic config"
HINT_VENDOR_CONFIG = "a vendor's own key needs a pattern in the Cluster's allowUnknownConfigs"
"""What to do about a key that Kafka does not know and that is meant all the same."""


class ConfigError(NamedTuple):
    """One reason why Kafka would refuse a map of overrides: the key that it is about, and what is wrong, in words."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """The configs that one cluster takes: its Kafka version, its vendors' own keys, its brokers' settings.

    ``release`` is None where it is not declared. ``allow_unknown_configs`` are glob patterns, ``broker_config`` has the
    settings under broker names.
    """

    version: KafkaVersion | None = None
    allow_unknown_configs: tuple[str, ...] = ()
    broker_config: Mapping[str, str] = field(default_factory=dict)

    def with_relevant_settings(self) -> ConfigRules:
        """Return these rules with only those of the brokers' settings that bear on topics."""
        settings = {key: text for key, text in sorted(self.broker_config.items()) if key in RELEVANT_BROKER_SETTINGS}
        return ConfigRules(self.version, self.allow_unknown_configs, settings)

    def merge_dynamic_settings(self, dynamic: Mapping[str, str]) -> Mapping[str, str]:
        """Return the known settings of the brokers: ``broker_config``, overridden by ``dynamic`` ones."""
        return {**self.broker_config, **dynamic}

    def versions_to_check(self, at_least: KafkaVersion) -> tuple[KafkaVersion, ...]:
        """Return the releases to check values by; if none is declared, both ends of what it may be."""
        return (self.version,) if self.version else (MAX_KAFKA_VERSION, at_least)

    def is_known_key(self, key: str) -> bool:
        """Return whether a config key is Kafka's, in whatever release, or one that the cluster allows beside them."""
        return key in TOPIC_CONFIGS or matches_any(key, self.allow_unknown_configs)

    def config_problem(self, key: str, text: str) -> tuple[str, str] | None:
        """Return what is wrong with one config value, and what to do; None if nothing.

        A key that Kafka does not know is fine if ``allow_unknown_configs`` has a pattern for it; its value is not
        checked.
        """
        return config_problem(key, text, self.version or MAX_KAFKA_VERSION, self.allow_unknown_configs)

    def find_errors(
        self, config: Mapping[str, str], releases: tuple[KafkaVersion, ...], settings: Mapping[str, str]
    ) -> Sequence[ConfigError]:
        """Return why Kafka would refuse a whole map of overrides, in any of ``releases``; keys that the cluster allows
        aside.

        Of several releases (none is declared) each checks only the keys that it knows.
        """
        found = {
            ConfigError(key, f"{printable_key(key)}: {_UNKNOWN_CONFIG_MESSAGE}")
            for key in config
            if not self.is_known_key(key)
        }
        for release in releases:
            for key, text in config.items():
                checked = key in TOPIC_CONFIGS if len(releases) == 1 else is_supported(key, release)
                if checked and (message := config_values.check_value(key, text, release)):
                    found.add(ConfigError(key, f"{printable_key(key)}: {message}"))
            found.update(ConfigError(*conflict) for conflict in find_conflicts(config, release, settings))
        return sorted(found)


@lru_cache(maxsize=_CACHE_SIZE)
def config_problem(
    key: str, text: str, kafka_version: KafkaVersion, vendor_patterns: tuple[str, ...]
) -> tuple[str, str] | None:
    """Return what is wrong with one config value in a release, and what to do; None if nothing."""
    if key not in TOPIC_CONFIGS:
        if matches_any(key, vendor_patterns):
            return None
        return describe_unknown_key(key)
    if not is_supported(key, kafka_version):
        since = format_version(TOPIC_CONFIGS[key].since)
        return (
            f"{key}: Kafka knows it since {since}, but kafkaVersion is {format_version(kafka_version)}",
            "leave the line out",
        )
    wrong = config_values.check_value(key, text, kafka_version) or config_values.check_manifest_value(key, text)
    return (f"{key}: {wrong}", "") if wrong else None


def printable_key(key: str) -> str:
    """A config key as a message begins with it: it may be any text."""
    return printable(key, 255)


def describe_unknown_key(key: str, prefix: str = "") -> tuple[str, str]:
    """What to say of a key that neither Kafka nor the cluster knows; ``prefix`` stands before it where it was found."""
    guess = suggest_config_name(key)
    hint = f"did you mean {prefix}{guess}?" if guess else HINT_VENDOR_CONFIG
    return f"{prefix}{printable_key(key)}: {_UNKNOWN_CONFIG_MESSAGE}", hint


def is_min_isr_above(config: Mapping[str, str], replication_factor: int) -> bool:
    """Whether ``min.insync.replicas`` wants more replicas than ``replication_factor``: every write with ``acks=all``
    would fail.
    """
    text = config.get("min.insync.replicas")
    return text is not None and _parse_min_isr(text) > replication_factor


@lru_cache(maxsize=_CACHE_SIZE)
def _parse_min_isr(text: str) -> int:
    """The number in a value of ``min.insync.replicas``; 0 if it cannot be read, which is another complaint."""
    wrong = config_values.check_value("min.insync.replicas", text)
    return 0 if wrong else int(str(config_values.parse_value("min.insync.replicas", text)))
