"""The table of Kafka's topic configs: all names of each Kafka version, sorted, with units."""

from __future__ import annotations

import pytest

from topiarist.kafka import config_rules
from topiarist.kafka.config_table import TOPIC_CONFIGS


def test_all_names_of_kafka_are_there() -> None:
    """Kafka 3.9 has 36 topic configs, 2.4 had 26 of them, and every entry has a description."""
    assert len(TOPIC_CONFIGS) == 36
    assert sum(config_rules.is_supported(name, (2, 4)) for name in TOPIC_CONFIGS) == 26
    assert sum(config_rules.is_supported(name, (3, 5)) for name in TOPIC_CONFIGS) == 29
    assert sum(config_rules.is_supported(name, (3, 6)) for name in TOPIC_CONFIGS) == 31
    assert sum(config_rules.is_supported(name, (3, 8)) for name in TOPIC_CONFIGS) == 34
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert all(definition.description.endswith(".") for definition in TOPIC_CONFIGS.values())


@pytest.mark.parametrize(("name", "unit"), [("retention.ms", "ms"), ("segment.bytes", "bytes"), ("flush.messages", "")])
def test_units(name: str, unit: str) -> None:
    """The unit of a config is that of its times or sizes, for display."""
    assert TOPIC_CONFIGS[name].unit == unit
