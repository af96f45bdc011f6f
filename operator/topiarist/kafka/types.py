"""Types that all modules share: versions of Kafka, names of topics, replica lists.

To support a new Kafka version, such as 4.5:

1. Add a row to ``METADATA_LEVELS``, with the first level of ``metadata.version`` that is for production in this
   version (class MetadataVersion in Kafka's source), and its levels to ``LEVELS`` in
   ``tests/unit/adapters/kafka_admin/read/test_sync.py``. Brokers of a version without a row count as the one before.
2. Add its topic configs, and those that it drops: the recipe is in ``kafka/config_table.py``. A version without any
   change of configs needs only its row in ``tests/unit/kafka/test_config_table.py``, and ``test_config_rules.py`` there
   shows it beside the version before.
3. Run ``make generate``, which writes the version to ``schemas/cluster.json``, the resource definitions and the pages,
   and ``make golden`` for the messages that list the versions, then ``make check``. The help of the options follows by
   itself.
4. Add a release of it to ``RELEASES`` in ``tests/support/kafka/jars.py``, and pin its jars (``tools/kafka_jars.py``).
   Set ``NEWEST`` and its row in ``releases.py`` there, and ``KRAFT_RELEASES`` in the Makefile. Run ``make test-kafka``:
   it compares the brokers in memory and topiarist's rules with real ones.
5. Name it where pages name the newest version in prose: ``git grep "to 4\\.4"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple

from topiarist.text import escape, quote, shorten_list

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

FIRST_KRAFT_VERSION: KafkaVersion = (3, 3)
"""The oldest supported Kafka version with KRaft mode."""

Replicas = tuple[int, ...]
"""The broker ids of one partition; the first is the preferred leader."""


UNPLACED = -1
"""The id in a planned replica list that leaves the choice of a broker to the cluster."""


MIN_ISR_CAPPED_SINCE: KafkaVersion = (3, 7)
"""The first Kafka version that asks for no more replicas in sync than a partition has."""


def count_replicas(replicas: Replicas) -> int:
    """Return the number of replicas of a partition; a broker that is listed twice has one."""
    return len(replicas) if UNPLACED in replicas else len(set(replicas))


def are_unplaced(lists: Iterable[Replicas]) -> bool:
    """Return whether the cluster chooses brokers of these planned lists."""
    return any(UNPLACED in replicas for replicas in lists)


def are_carried_out(planned: Sequence[Replicas], found: Sequence[Replicas]) -> bool:
    """Return whether partitions have their planned replicas.

    Of replicas that the cluster places, only the number is compared.
    """
    if not are_unplaced(planned):
        return tuple(planned) == tuple(found)
    return [*map(count_replicas, planned)] == [*map(count_replicas, found)]


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


# Rules for topic names: Kafka's syntax, collisions, and the topics of Kafka and other software.
#
# Kafka checks names only in its admin code: a controller accepts any name that it finds in ZooKeeper, so topiarist must
# check them: ``desired`` those of manifests, ``planning`` those of the topics of a cluster.

MAX_TOPIC_NAME_LENGTH = 249

TRANSACTIONS_TOPIC = "__transaction_state"
"""The topic that Kafka makes when the first client of a cluster begins a transaction."""

INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", TRANSACTIONS_TOPIC, "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)
"""Internal topics of Kafka; ``__remote_log_metadata`` is not in Kafka's own list but must be protected as well."""

PROTECTED_TOPIC_PATTERNS = (
    *("__*", "_schemas*", "_confluent*", "connect-*", "*-changelog", "*-repartition", "mm2-*"),
    # The names that the images of Kafka Connect, Debezium and MirrorMaker use unless they are told others.
    *("*connect-configs", "*connect-offsets", "*connect-status*", "*connect_configs", "*connect_offsets"),
    *("*connect_status*", "mirrormaker2-*", "heartbeats", "*.heartbeats", "*.checkpoints.internal"),
    *("schema-changes.*", "schemahistory.*"),
)
"""Topics that other software depends on: no growth, deletion or change of cleanup unless a ``Cluster`` allows it."""

STATE_TOPIC_ENDINGS = ("configs", "offsets", "status", "history")
"""How names of topics end in which Kafka Connect, Debezium and similar software keep their own state."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_ILLEGAL_CHARACTER = re.compile(r"[^a-zA-Z0-9._-]")
_LEGAL_CHARACTERS = 'a-z, A-Z, 0-9, ".", "_" and "-"'


def topic_name_problem(name: str) -> str:
    """Return why Kafka does not accept ``name`` as a topic name; empty if it does."""
    if not name:
        return f"found an empty topic name, wanted 1 to {MAX_TOPIC_NAME_LENGTH} characters of {_LEGAL_CHARACTERS}"
    if name in (".", ".."):
        return f"found topic name {quote(name)}, which Kafka reserves; wanted any other"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"found a topic name of {len(name)} characters, wanted at most {MAX_TOPIC_NAME_LENGTH}"
    if not _LEGAL_NAME.fullmatch(name):
        illegal = ", ".join(sorted({escape(character) for character in _ILLEGAL_CHARACTER.findall(name)}))
        return f"found {illegal} in topic name {quote(name)}, wanted only {_LEGAL_CHARACTERS}"
    return ""


def has_collision_chars(name: str) -> bool:
    """Return whether ``name`` has a character that Kafka's metrics do not distinguish: ``.`` or ``_``."""
    return "." in name or "_" in name


def metric_name(name: str) -> str:
    """Convert ``name`` as Kafka's metrics do; no two topics of a cluster may have the same result."""
    return name.replace(".", "_")


def index_by_metric_name(names: Iterable[str]) -> dict[str, str]:
    """Return the topic names with ``.`` or ``_`` by their metric names.

    If two topics collide already, the result has the first by name.
    """
    ambiguous = sorted(filter(has_collision_chars, names), reverse=True)
    return {metric_name(name): name for name in ambiguous}


def is_pattern(text: str) -> bool:
    """Return whether a text is a shell pattern; no name of a topic, config or document has such a character."""
    return any(character in text for character in "*?[")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether one of these shell patterns matches ``name``; case-sensitive."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# Checks of explicit replica lists, for manifests and saved plans.
#
# Kafka accepts some lists that no cluster should have: empty lists, a hole in the partition ids.
# ``find_assignment_errors`` refuses them. ``desired/parse.py`` and ``adapters/saved_plans/decode.py`` call it.


def find_assignment_errors(lists: Mapping[int, Replicas]) -> Iterator[tuple[int, str]]:
    """Yield all errors of explicit lists, as partition id and message.

    Wanted are lists of equal length, none empty, partition ids without a hole, and in each list different ids from 0 to
    2**31 - 1. Whether these brokers are registered is for the planner to find.
    """
    partition_by_length = {len(replicas): partition for partition, replicas in reversed([*lists.items()])}
    if len(partition_by_length) > 1:
        found = ", ".join(f"{length} in partition {first}" for length, first in sorted(partition_by_length.items()))
        yield min(lists), f"found different numbers of replicas ({found}), wanted one number for all partitions"
    if sorted(lists) != list(range(len(lists))):
        yield min(lists), f"found partitions {shorten_list(sorted(lists))}, wanted 0 to {len(lists) - 1} without a hole"
    for partition, replicas in lists.items():
        if not replicas:
            yield partition, "found an empty replica list, wanted one or more broker ids"
        if len(set(replicas)) < len(replicas):
            duplicate = next(broker for broker in replicas if replicas.count(broker) > 1)
            yield partition, f"found broker {duplicate} twice, wanted each broker once"
        if negative := [broker for broker in replicas if broker < 0]:
            yield partition, f"found broker id {negative[0]}, wanted 0 or more"
        elif large := [broker for broker in replicas if broker > INT_MAX]:
            yield partition, f"found broker id {large[0]}, wanted at most {INT_MAX}"
