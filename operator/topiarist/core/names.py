"""Topic names: what Kafka allows, which names collide, and which topics belong to Kafka or to other software.

Kafka checks names in its admin code only: a controller takes any name it finds in ZooKeeper, so we have to check.
Used by ``spec`` and ``rules`` (manifests) and by ``plan`` (what is already on a cluster).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from topiarist.core.quoting import escaped, quoted

MAX_LENGTH = 249

INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)
"""Topics that Kafka keeps for itself; ``__remote_log_metadata`` is not on Kafka's own list but as precious."""

PROTECTED = ("__*", "_schemas*", "_confluent*", "connect-*", "*-changelog", "*-repartition", "mm2-*")
"""Topics that other software depends on: no growth, deletion or change of cleanup unless a ``Cluster`` says so."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_LEGAL_WORDS = 'a-z, A-Z, 0-9, ".", "_" and "-"'


def name_problem(name: str) -> str:
    """Say why Kafka does not take ``name`` for a topic; empty if it does."""
    if not name:
        return f"found an empty topic name, wanted 1 to {MAX_LENGTH} characters of {_LEGAL_WORDS}"
    if name in (".", ".."):
        return f"found topic name {quoted(name)}, which Kafka reserves; wanted any other"
    if len(name) > MAX_LENGTH:
        return f"found a topic name of {len(name)} characters, wanted at most {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        illegal = ", ".join(sorted({escaped(character) for character in _ILLEGAL.findall(name)}))
        return f"found {illegal} in topic name {quoted(name)}, wanted only {_LEGAL_WORDS}"
    return ""


def has_collision_chars(name: str) -> bool:
    """Whether ``name`` holds a character that metrics cannot tell from another one: ``.`` or ``_``."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Fold ``name`` as Kafka's metrics do; two topics of one cluster must not share the result."""
    return name.replace(".", "_")


def unify(names: Iterable[str]) -> dict[str, str]:
    """Topics by what Kafka's metrics make of their names; of two that collide already, the first by name."""
    ambiguous = sorted(filter(has_collision_chars, names), reverse=True)
    return {collision_key(name): name for name in ambiguous}


def collide(one: str, other: str) -> bool:
    """Whether two names are the same to Kafka's metrics. A name collides with itself."""
    return collision_key(one) == collision_key(other)


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of these shell patterns means ``name``; case matters."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
