"""Types that all modules share, and the Kafka versions that topiarist supports.

They are in a module of their own, since the rules for configs, the placement and ``model`` all need them.
"""

from __future__ import annotations

from typing import NamedTuple

KafkaVersion = tuple[int, int]
"""A Kafka version as major and minor number: ``(3, 9)``."""

MIN_KAFKA_VERSION: KafkaVersion = (2, 4)
"""The oldest supported Kafka version."""

MAX_KAFKA_VERSION: KafkaVersion = (3, 9)
"""The newest supported Kafka version."""

Replicas = tuple[int, ...]
"""The broker ids of one partition; the first is the preferred leader."""


class Broker(NamedTuple):
    """A registered broker. ``rack`` is None if it has no rack; the empty string is a rack."""

    id: int
    rack: str | None = None


def format_version(kafka_version: KafkaVersion) -> str:
    """Return a Kafka version as text: ``3.9``."""
    return f"{kafka_version[0]}.{kafka_version[1]}"


def parse_version(text: str) -> KafkaVersion:
    """Parse a Kafka version such as ``3.9``; raise ``ValueError`` for other text."""
    major, minor = map(int, text.split("."))
    return major, minor
