"""Types that all modules share, and the Kafka versions that topiarist supports.

They are in a module of their own, since the rules for configs, the placement and ``model`` all need them.

To support a new Kafka version, such as 4.5:

1. Add a row to ``METADATA_LEVELS``, with the first level of ``metadata.version`` that is for production in this
   version (``MetadataVersion`` in Kafka's source). Brokers of a version without a row count as the version before.
2. Add its topic configs, and those that it drops: the recipe is in ``kafka/config_table.py``. A version without any
   change of configs needs only its row in ``tests/unit/kafka/test_config_table.py``.
3. Run ``make generate``, which writes the version to ``schemas/cluster.json``, the resource definitions and the pages,
   then ``make check``. The help of the options follows by itself.
4. Set ``NEWEST`` in ``tests/support/kafka/releases.py``, and run ``make test-kafka``: it compares the brokers in memory
   and topiarist's rules with real ones.
5. Name it where pages name the newest version in prose: ``git grep "to 4\\.4"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
"""The largest numbers of Java's integer types."""

KafkaVersion = tuple[int, int]
"""A Kafka version as major and minor number: ``(3, 9)``."""

METADATA_LEVELS: Mapping[KafkaVersion, int | None] = {
    **dict.fromkeys(((2, 4), (2, 5), (2, 6), (2, 7), (2, 8))),
    **{(3, 0): 1, (3, 1): None, (3, 2): None, (3, 3): 7, (3, 4): 8, (3, 5): 9, (3, 6): 12, (3, 7): 15, (3, 8): 20},
    **{(3, 9): 21, (4, 0): 22, (4, 1): 26, (4, 2): 28, (4, 3): 30, (4, 4): 31},
}
"""All supported Kafka versions, ascending, each with the first level of ``metadata.version`` that tells it from others.

None: brokers of the version do not give a level of their own.
"""

KAFKA_VERSIONS = tuple(METADATA_LEVELS)
MIN_KAFKA_VERSION, MAX_KAFKA_VERSION = KAFKA_VERSIONS[0], KAFKA_VERSIONS[-1]
"""The oldest and the newest supported Kafka version."""

LAST_ZOOKEEPER_VERSION: KafkaVersion = (3, 9)
"""The newest Kafka version with ZooKeeper mode."""

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
