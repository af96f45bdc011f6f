"""Topic names: what Kafka allows, which names collide, and which topics belong to Kafka or to other software.

Kafka checks names in its admin code only: a controller takes any name it finds in ZooKeeper, so we have to check.
Used by ``spec`` and ``rules`` (manifests) and by ``plan`` (what is already on a cluster).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from topiarist.text import escape, quote

MAX_TOPIC_NAME_LENGTH = 249

INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)
"""Topics that Kafka keeps for itself; ``__remote_log_metadata`` is not on Kafka's own list but as precious."""

PROTECTED_TOPIC_PATTERNS = ("__*", "_schemas*", "_confluent*", "connect-*", "*-changelog", "*-repartition", "mm2-*")
"""Topics that other software depends on: no growth, deletion or change of cleanup unless a ``Cluster`` says so."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_ILLEGAL_CHARACTER = re.compile(r"[^a-zA-Z0-9._-]")
_LEGAL_CHARACTERS = 'a-z, A-Z, 0-9, ".", "_" and "-"'


def topic_name_problem(name: str) -> str:
    """Say why Kafka does not take ``name`` for a topic; empty if it does."""
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
    """Whether ``name`` holds a character that metrics cannot tell from another one: ``.`` or ``_``."""
    return "." in name or "_" in name


def metric_name(name: str) -> str:
    """Fold ``name`` as Kafka's metrics do; two topics of one cluster must not share the result."""
    return name.replace(".", "_")


def index_by_metric_name(names: Iterable[str]) -> dict[str, str]:
    """Topics by what Kafka's metrics make of their names; of two that collide already, the first by name."""
    ambiguous = sorted(filter(has_collision_chars, names), reverse=True)
    return {metric_name(name): name for name in ambiguous}


def has_collision(one: str, other: str) -> bool:
    """Whether two names are the same to Kafka's metrics. A name collides with itself."""
    return metric_name(one) == metric_name(other)


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of these shell patterns means ``name``; case matters."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
