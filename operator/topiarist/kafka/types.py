"""Types that all modules share, and the Kafka versions that topiarist supports.

They are in a module of their own, since the rules for configs, the placement and ``model`` all need them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

KafkaVersion = tuple[int, int]
"""A Kafka version as major and minor number: ``(3, 9)``."""

MIN_KAFKA_VERSION: KafkaVersion = (2, 4)
"""The oldest supported Kafka version."""

MAX_KAFKA_VERSION: KafkaVersion = (4, 4)
"""The newest supported Kafka version."""

LAST_ZOOKEEPER_VERSION: KafkaVersion = (3, 9)
"""The newest Kafka version with ZooKeeper mode."""

KAFKA_VERSIONS: tuple[KafkaVersion, ...] = (
    *((2, minor) for minor in range(4, 9)),
    *((3, minor) for minor in range(10)),
    *((4, minor) for minor in range(5)),
)
"""All supported Kafka versions, ascending."""

Replicas = tuple[int, ...]
"""The broker ids of one partition; the first is the preferred leader."""


MIN_ISR_CAPPED_SINCE: KafkaVersion = (3, 7)
"""The first Kafka version that asks for no more replicas in sync than a partition has."""


def count_replicas(replicas: Replicas) -> int:
    """Return the number of replicas of a partition; a broker that is listed twice has one."""
    return len(set(replicas))


def cap_min_isr(min_isr: int, replicas: Replicas, oldest: KafkaVersion) -> int:
    """Return how many replicas of a partition must be in sync for writes with ``acks=all``.

    ``oldest`` is the oldest version that the brokers may have.
    """
    return min(min_isr, count_replicas(replicas)) if oldest >= MIN_ISR_CAPPED_SINCE else min_isr


class ClusterMode(str, Enum):
    """The place of a cluster's metadata."""

    ZOOKEEPER = "ZooKeeper"
    KRAFT = "KRaft"


class KnownConfig(NamedTuple):
    """A topic config as the brokers of a cluster describe it.

    ``type`` is the name of the type in Kafka's protocol, such as ``INT``; empty if a broker does not give it.
    ``default`` is the effective value for a topic without an override; None if it is not known.
    """

    type: str = ""
    default: str | None = None


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
