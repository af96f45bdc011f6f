"""Rules for topic names: Kafka's syntax, collisions, and the topics of Kafka and other software.

Kafka checks names only in its admin code: a controller accepts any name that it finds in ZooKeeper, so topiarist must
check them. ``model/spec.py`` and ``desired`` call this module for manifests, ``planning`` for the topics of a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from topiarist.text import escape, quote

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


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether one of these shell patterns matches ``name``; case-sensitive."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
