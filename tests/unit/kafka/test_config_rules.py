"""Effective values of a topic from its overrides and its brokers, and conflicts between values.

The rules were compared with Kafka's own ``LogConfig``: 3.4.1 for values that make brokers throw, 3.9.2 for values that
brokers refuse.
"""

from __future__ import annotations

import pytest

from topiarist.kafka import config_rules
from topiarist.kafka.java_numbers import LONG_MAX
from topiarist.kafka.types import KafkaVersion


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
