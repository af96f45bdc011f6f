"""Effective values of a topic from its overrides and its brokers, and conflicts between values.

The rules were compared with Kafka's own ``LogConfig``: 3.4.1 for values that make brokers throw, 3.9.2 for values that
brokers refuse.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from topiarist.kafka import config_rules
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import LONG_MAX, MAX_KAFKA_VERSION, ClusterMode, KafkaVersion, KnownConfig


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("retention.ms", {"log.retention.hours": "1", "log.retention.minutes": "2"}, "120000"),
        ("retention.ms", {"log.retention.ms": "7", "log.retention.minutes": "2"}, "7"),
        ("retention.ms", {"log.retention.hours": " -1 "}, "-1"),
        ("retention.ms", {"log.retention.hours": "many"}, None),
        ("segment.ms", {"log.roll.hours": "168"}, "604800000"),
        ("flush.ms", {"log.flush.scheduler.interval.ms": "5"}, "5"),
        ("max.message.bytes", {"message.max.bytes": "9"}, "9"),
        ("retention.ms", {"log.segment.bytes": "1"}, None),
        ("remote.storage.enable", {"remote.storage.enable": "true"}, None),
        ("no.such.config", {"no.such.config": "1"}, None),
    ],
)
def test_what_brokers_call_it(name: str, settings: dict[str, str], text: str | None) -> None:
    """The broker default comes from the property that counts, in the topic's unit, and may be unknown."""
    assert config_rules.server_default(name, settings) == text


def test_what_holds_for_a_topic() -> None:
    """The effective value is the override, then the broker setting, then Kafka's default.

    Local retention follows retention.
    """
    assert config_rules.effective_value("retention.ms", {"retention.ms": "5"}, {"log.retention.ms": "6"}) == 5
    assert config_rules.effective_value("retention.ms", {}, {"log.retention.ms": "6"}) == 6
    assert config_rules.effective_value("retention.ms", {}, {}) == 604800000
    assert config_rules.effective_value("retention.ms", {"retention.ms": "abc"}, {}) is None
    assert config_rules.effective_value("local.retention.ms", {"retention.ms": "5"}, {}) == 5
    assert config_rules.effective_value("local.retention.ms", {"retention.ms": "5", "local.retention.ms": "4"}, {}) == 4
    assert config_rules.effective_value("cleanup.policy", {"cleanup.policy": "delete,compact"}, {}) == frozenset(
        {"compact", "delete"}
    )


TIERED = {"remote.storage.enable": "true"}
ON = {"remote.log.storage.system.enable": "true"}


@pytest.mark.parametrize(
    ("config", "release", "settings", "keys"),
    [
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, (2, 4), {}, ["min.compaction.lag.ms"]),
        ({"min.compaction.lag.ms": "8", "max.compaction.lag.ms": "8"}, (2, 4), {}, []),
        ({"max.compaction.lag.ms": "8"}, (3, 9), {"log.cleaner.min.compaction.lag.ms": "9"}, ["max.compaction.lag.ms"]),
        ({"max.compaction.lag.ms": "8"}, (3, 5), {"log.cleaner.min.compaction.lag.ms": "9"}, []),
        ({"min.compaction.lag.ms": "abc", "max.compaction.lag.ms": "8"}, (3, 9), {}, []),
        (TIERED, (3, 9), {"remote.log.storage.system.enable": "false"}, ["remote.storage.enable"]),
        (TIERED, (3, 9), ON, []),
        (TIERED, (3, 9), {}, ["remote.storage.enable"]),
        (TIERED, (3, 6), {}, ["remote.storage.enable"]),
        (TIERED, (3, 5), {}, []),
        (TIERED | {"cleanup.policy": "compact,delete"}, (3, 9), ON, ["cleanup.policy"]),
        (TIERED, (3, 9), ON | {"log.cleanup.policy": "compact"}, ["remote.storage.enable"]),
        (TIERED | {"retention.ms": "5", "local.retention.ms": "6"}, (3, 9), ON, ["local.retention.ms"]),
        (TIERED | {"retention.ms": "5", "local.retention.ms": "-1"}, (3, 9), ON, ["local.retention.ms"]),
        (TIERED | {"retention.ms": "-1", "local.retention.ms": "6"}, (3, 9), ON, []),
        (TIERED | {"retention.ms": "5"}, (3, 9), ON | {"log.local.retention.ms": "6"}, ["retention.ms"]),
        (TIERED, (3, 9), ON | {"log.retention.ms": "5", "log.local.retention.ms": "6"}, ["remote.storage.enable"]),
        (TIERED | {"retention.bytes": "5", "local.retention.bytes": "6"}, (3, 9), ON, ["local.retention.bytes"]),
        ({"retention.ms": "5", "local.retention.ms": "6"}, (3, 9), ON, []),
        ({"retention.ms": "5", "local.retention.ms": "6"}, (3, 4), {}, ["local.retention.ms"]),
        ({"retention.ms": "-1", "local.retention.ms": "6"}, (3, 4), {}, ["local.retention.ms"]),
        ({"retention.ms": "-1", "local.retention.ms": "-1"}, (3, 4), {}, []),
        ({"remote.log.copy.disable": "true"}, (3, 9), {}, ["remote.log.copy.disable"]),
        ({"remote.log.delete.on.disable": "TRUE"}, (3, 9), {}, ["remote.log.delete.on.disable"]),
        ({"remote.log.copy.disable": "false", "vendor.key": "x"}, (3, 9), {}, []),
    ],
)
def test_what_does_not_fit_together(
    config: dict[str, str], release: KafkaVersion, settings: dict[str, str], keys: list[str]
) -> None:
    """Conflicts depend on the release and the known broker settings, and each is reported at a key of the topic."""
    assert [key for key, _ in config_rules.find_conflicts(config, release, settings)] == keys


def test_a_conflict_says_both_values() -> None:
    """The message names both keys with their values."""
    config = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}
    assert config_rules.find_conflicts(config, (3, 9)) == [
        ("min.compaction.lag.ms", "min.compaction.lag.ms is 9, more than max.compaction.lag.ms, which is 8")
    ]


@pytest.mark.parametrize(
    ("name", "before", "after", "release", "forbidden"),
    [
        ("remote.storage.enable", "true", "false", (3, 9), True),
        ("remote.storage.enable", "TRUE", None, (3, 6), True),
        ("remote.storage.enable", "true", "True", (3, 9), False),
        ("remote.storage.enable", None, "true", (3, 9), False),
        ("remote.storage.enable", "true", "false", (3, 5), False),
        ("retention.ms", "1", None, (3, 9), False),
    ],
)
def test_remote_storage_cannot_be_switched_off(
    name: str, before: str | None, after: str | None, release: KafkaVersion, forbidden: bool
) -> None:
    """In ZooKeeper mode, Kafka forbids turning remote storage off since 3.6, and every other change is allowed."""
    assert bool(config_rules.forbidden_change_reason(name, before, after, release)) is forbidden


@pytest.mark.parametrize(
    ("name", "release", "text"),
    [
        ("max.message.bytes", (2, 4), "1000012"),
        ("max.message.bytes", (2, 5), "1048588"),
        ("message.format.version", (2, 4), "2.4-IV1"),
        ("message.format.version", (2, 7), "2.7-IV2"),
        ("message.format.version", (3, 9), "3.0-IV1"),
        ("flush.ms", (2, 4), str(LONG_MAX)),
    ],
)
def test_defaults_of_a_release(name: str, release: KafkaVersion, text: str) -> None:
    """Two defaults depend on the Kafka release."""
    assert config_rules.kafka_default(name, release) == text


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("retention.msec", "retention.ms"),
        ("Retention.MS", "retention.ms"),
        ("retention_ms", "retention.ms"),
        ("log.retention.hours", "retention.ms"),
        ("message.max.bytes", "max.message.bytes"),
        ("min.insync.replica", "min.insync.replicas"),
        ("quite.another.thing", None),
    ],
)
def test_did_you_mean(name: str, meant: str | None) -> None:
    """A typo, an underscore or the broker property suggests the topic config, and an unknown name suggests none."""
    assert config_rules.suggest_config_name(name) == meant


def test_deprecations_begin_with_a_release() -> None:
    """A deprecated name has a message from the release that deprecates it."""
    assert config_rules.deprecation_message("message.format.version", (2, 8)) == ""
    assert config_rules.deprecation_message("message.format.version", (3, 0)).startswith(
        "deprecated since Kafka 3.0: ignored where"
    )
    assert config_rules.deprecation_message("message.timestamp.difference.max.ms", (3, 6)).startswith(
        "deprecated since Kafka 3.6"
    )
    assert config_rules.deprecation_message("retention.ms", (3, 9)) == ""
    assert config_rules.deprecation_message("no.such.config", (3, 9)) == ""


KAFKA_4_4 = {name: KnownConfig() for name in TOPIC_CONFIGS if config_rules.is_supported(name, (4, 4))}
KAFKA_3_9 = {name: KnownConfig() for name in TOPIC_CONFIGS if config_rules.is_supported(name, (3, 9))}
KAFKA_4_1 = {name: KnownConfig() for name in TOPIC_CONFIGS if config_rules.is_supported(name, (4, 1))}
KRAFT = ClusterMode.KRAFT


def rules_of(known: dict[str, KnownConfig] | None, version: KafkaVersion | None = None) -> ConfigRules:
    """Return the rules of a KRaft cluster with brokers that describe ``known``."""
    return ConfigRules(version).for_cluster(KRAFT, known)


@pytest.mark.parametrize(
    ("names", "versions"),
    [
        (KAFKA_4_4, ((4, 4),)),
        (KAFKA_3_9, ((3, 9),)),
        (KAFKA_4_1, ((4, 0), (4, 1), (4, 2), (4, 3))),
        ({*KAFKA_4_1, "max.decompressed.message.bytes"}, ((4, 2),)),
        ({*KAFKA_4_4, "a.name.of.kafka.4.5"}, ((4, 4),)),
        ({*KAFKA_4_4} - {"flush.ms"}, ()),
    ],
)
def test_the_names_of_the_brokers_say_which_versions_are_possible(
    names: set[str], versions: tuple[KafkaVersion, ...]
) -> None:
    """Names of newer versions do not count; names that no version has together give no version."""
    assert config_rules.find_possible_versions(names) == versions


def test_brokers_decide_over_a_declared_version() -> None:
    """A declared version counts if it has the configs that the brokers describe; else both values are in a warning."""
    assert rules_of(KAFKA_4_1, (4, 1)).versions_to_check((3, 9)) == ((4, 1),)
    assert rules_of(KAFKA_4_1, (3, 9)).versions_to_check((3, 9)) == ((4, 3), (4, 0))
    assert rules_of(KAFKA_4_1).versions_to_check((4, 2)) == ((4, 3), (4, 2))
    assert rules_of(KAFKA_4_4).versions_to_check((3, 9)) == ((4, 4),)
    assert rules_of(None).versions_to_check((3, 5)) == (MAX_KAFKA_VERSION, (3, 5))
    assert ConfigRules().versions_to_check((2, 8)) == ((3, 9), (2, 8))
    assert rules_of(KAFKA_4_1, (4, 2)).version_conflict() == rules_of(None, (4, 2)).version_conflict() == ""
    conflict = rules_of(KAFKA_4_1, (3, 9)).version_conflict()
    assert conflict.startswith("kafkaVersion is 3.9, but the brokers have the topic configs of Kafka 4.0 to 4.3:")
    assert "of Kafka 4.4:" in rules_of(KAFKA_4_4, (4, 0)).version_conflict()


def test_a_dropped_name_is_ignored_where_the_brokers_do_not_have_it() -> None:
    """Without an answer of the brokers the version decides; unknown names are never ignored."""
    assert rules_of(KAFKA_4_4).is_ignored("message.format.version", (3, 9))
    assert not rules_of(KAFKA_3_9, (4, 4)).is_ignored("message.format.version", (4, 4))
    assert not rules_of(KAFKA_4_1).is_ignored("remote.copy.lag.ms", (4, 0))
    assert rules_of(None, (4, 0)).is_ignored("message.format.version", (3, 9))
    assert not rules_of(None).is_ignored("message.format.version", (3, 9))
    assert rules_of(None).is_ignored("message.format.version", (4, 0))
    assert not rules_of(KAFKA_4_4).is_ignored("no.such.config", (4, 4))
    assert config_rules.dropped_message("message.format.version") == "Kafka has dropped it: ignored from 4.0"
    assert config_rules.dropped_message("flush.ms") == config_rules.dropped_message("no.such.config") == ""


def test_names_that_brokers_know_are_allowed() -> None:
    """A name outside the table is allowed if the brokers have it; its value is not checked."""
    rules = rules_of(KAFKA_4_4 | {"a.name.of.kafka.4.5": KnownConfig("INT", "7")})
    assert rules.is_known_key("a.name.of.kafka.4.5")
    assert rules.config_problem("a.name.of.kafka.4.5", "x") is None
    assert rules.find_errors({"a.name.of.kafka.4.5": "x"}, ((4, 4),), {}) == []
    assert rules_of(KAFKA_4_4).config_problem("a.name.of.kafka.4.5", "x") is not None
    # Kafka 4.2.2 has a config that other patch releases of 4.2 do not have.
    known = rules_of(KAFKA_4_1 | {"max.decompressed.message.bytes": KnownConfig()})
    assert known.find_errors({"max.decompressed.message.bytes": "5"}, ((4, 2),), {}) == []
    assert known.find_errors({"max.decompressed.message.bytes": "0"}, ((4, 2),), {}) != []
    assert known.is_certain("max.decompressed.message.bytes", (4, 0))
    assert not rules_of(None).is_certain("max.decompressed.message.bytes", (4, 2))


def test_defaults_of_the_brokers_apply() -> None:
    """A default that brokers describe counts before the settings of the Cluster document."""
    rules = ConfigRules(None, (), {"log.retention.ms": "5", "log.segment.bytes": "6"}).for_cluster(
        KRAFT, {"retention.ms": KnownConfig("LONG", "7"), "flush.ms": KnownConfig(), "odd": KnownConfig("INT", "1")}
    )
    settings = rules.merge_dynamic_settings({"log.segment.bytes": "8"})
    assert settings == {"log.retention.ms": "7", "log.segment.bytes": "8"}


def test_values_are_checked_without_a_declared_version_by_all_possible_ones() -> None:
    """A manifest may have a value that any version accepts; an existing config is checked by each possible version."""
    small = {"segment.bytes": "1000"}
    assert ConfigRules().config_problem("segment.bytes", "1000") is None
    assert ConfigRules(mode=None).config_problem("segment.bytes", "1000") is None
    assert ConfigRules((4, 1), mode=None).config_problem("segment.bytes", "1000") is not None
    assert ConfigRules((4, 0), mode=None).config_problem("segment.bytes", "1000") is None
    assert ConfigRules().config_problem("segment.bytes", "13") is not None
    assert ConfigRules(mode=None).config_problem("remote.copy.lag.ms", "5") is None
    assert ConfigRules((4, 2), mode=None).config_problem("remote.copy.lag.ms", "5") is None
    assert ConfigRules((3, 9)).config_problem("remote.copy.lag.ms", "5") is not None
    assert ConfigRules((4, 4), mode=None).config_problem("message.format.version", "2.8") is None
    assert ConfigRules((4, 4), mode=None).config_problem("message.format.version", "x") is not None
    assert rules_of(KAFKA_4_1).find_errors(small, ((4, 3), (4, 0)), {}) != []
    assert ConfigRules().find_errors(small, ((3, 9), (2, 4)), {}) == []


def test_rules_of_zookeeper_mode_hold_there_only() -> None:
    """In KRaft mode the brokers refuse remote storage without tiered storage, and it can be switched off from 3.9."""
    copy = {"remote.log.copy.disable": "true"}
    assert config_rules.find_conflicts(copy, (3, 9), ON) != []
    assert config_rules.find_conflicts(copy, (3, 9), ON, KRAFT) == config_rules.find_conflicts(copy, (3, 9), ON, None)
    assert config_rules.find_conflicts(copy, (3, 9), ON, KRAFT) == []
    assert config_rules.find_conflicts(TIERED, (4, 4), {}, KRAFT) == []
    compacted = TIERED | {"cleanup.policy": "compact"}
    assert [key for key, _ in config_rules.find_conflicts(compacted, (4, 4), {}, KRAFT)] == ["cleanup.policy"]
    change = ("remote.storage.enable", "true", None)
    assert config_rules.forbidden_change_reason(*change, (3, 9)).endswith("in ZooKeeper mode")
    assert config_rules.forbidden_change_reason(*change, (3, 9), KRAFT) == ""
    assert config_rules.forbidden_change_reason(*change, (3, 8), KRAFT).endswith("before Kafka 3.9")


@pytest.mark.parametrize(
    ("config", "found"),
    [({"segment.bytes": "1048575"}, True), ({"segment.bytes": "1048576"}, False), ({}, False)]
    + [({"segment.bytes": text}, False) for text in ("x", "", "99999999999")],
)
def test_segments_that_stop_newer_brokers(config: dict[str, str], found: bool) -> None:
    """Kafka 4.1 and later do not start with less than 1 MiB; an invalid value is another error."""
    assert bool(config_rules.small_segment_message(config)) == found


def test_rules_for_another_version_check_values_anew() -> None:
    """Values that were found valid belong to the rules that found them, and to no copy of these."""
    newer, key = ConfigRules((3, 9)), "local.retention.ms"
    assert newer.config_problem(key, "1000") is None
    assert newer.find_errors({key: "1000"}, ((3, 9),), {}) == []
    older = replace(newer, version=(2, 8))
    assert older.config_problem(key, "1000") is not None
    assert [error.key for error in older.find_errors({key: "1000"}, ((2, 8),), {})] == [key]
    assert [error.key for error in newer.find_errors({key: "1000"}, ((2, 8),), {})] == [key]
    assert newer.find_errors({key: "1000"}, ((3, 9),), {}) == []
