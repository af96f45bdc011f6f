"""Types that all modules share: Kafka versions, brokers and replica lists.

They are in a module of their own, since the rules for configs, the placement and ``model`` all need them.
"""

from __future__ import annotations

from typing import NamedTuple


def format_version(kafka_version: KafkaVersion) -> str:
    """Return a Kafka version as text: ``3.9``."""
    return f"{kafka_version[0]}.{kafka_version[1]}"


MAX_KAFKA_VERSION: KafkaVersion = (3, 9)
"""The newest supported Kafka version."""

MIN_KAFKA_VERSION: KafkaVersion = (2, 4)
"""The oldest supported Kafka version."""

Replicas = tuple[int, ...]
"""The broker ids of one partition; the first is the preferred leader."""


KafkaVersion = tuple[int, int]
"""A Kafka version as major and minor number: ``(3, 9)``."""


class Broker(NamedTuple):
    """A registered broker. ``rack`` is None if it has no rack; the empty string is a rack."""

    id: int
    rack: str | None = None
