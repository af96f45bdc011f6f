"""The table of Kafka's topic configs: all names of each Kafka version, sorted, with units."""

from __future__ import annotations

from topiarist.kafka import config_rules
from topiarist.kafka.config_table import TOPIC_CONFIGS


def test_all_names_of_kafka_are_there() -> None:
    """Each version has the number of names that its own ``LogConfig`` has, and every entry has a description."""
    counts = {
        (2, 4): 26,
        (3, 3): 29,
        (3, 5): 29,
        (3, 6): 31,
        (3, 8): 34,
        (3, 9): 36,
        (4, 0): 33,
        (4, 3): 33,
        (4, 4): 37,
    }
    for version, count in counts.items():
        assert sum(config_rules.is_supported(name, version) for name in TOPIC_CONFIGS) == count, version
    assert len(TOPIC_CONFIGS) == 40
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert all(definition.description.endswith(".") for definition in TOPIC_CONFIGS.values())
