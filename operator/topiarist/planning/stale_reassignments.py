"""Finds reassignment requests that outlived their topic, and explains what to do about them.

If a topic is deleted during a reassignment, the controller keeps the topic's entry in the request. The entry has no
effect until another broker becomes controller; then it moves any topic of that name. The reader of cluster states calls
``find_stale_names``. Every plan, ``describe`` and ``drift`` report the entries, and a creation or deletion of such a
topic is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from topiarist.model.state import TopicState
from topiarist.text import printable

_MAX_SHOWN = 8
"""Maximum number of entries in a warning; further entries are counted."""

NAMED_BY_REQUEST = "a reassignment request names it"


class StaleEntry(NamedTuple):
    """The effect of a stale entry, and the hint how to remove it."""

    message: str
    hint: str


def find_stale_names(
    names: Collection[str], request_identity: int | None, topics: Mapping[str, TopicState], unreadable: Collection[str]
) -> frozenset[str]:
    """Return the topic names with a stale entry in the request.

    The topic does not exist, or it is younger than the request. ``request_identity`` is the identity of the request,
    None if it cannot be read: then no entry is known to be stale. ``unreadable`` are the topics that cannot be read.
    """
    if request_identity is None:
        return frozenset()
    # Identities increase over time: a topic with a higher identity is younger than the request.
    absent = {name for name in names if name not in topics and name not in unreadable}
    return frozenset(
        absent.union(name for name in names if name in topics and topics[name].identity > request_identity)
    )


_HINT_IF_ABSENT = (
    "let another broker become controller before the topic is made again, which drops the entry; or ask for a"
    " reassignment of that partition through Kafka's Admin API"
)
_HINT_IF_PRESENT = (
    "before that, ask for the replicas that the topic has, with kafka-reassign-partitions --bootstrap-server"
)


def explain_stale_entry(topic_exists: bool | None = None) -> StaleEntry:
    """Return the effect of a stale entry and a hint.

    ``topic_exists`` is whether a topic of that name exists now; None if that is not known.
    """
    if topic_exists is None:
        message, instead = (
            f"{NAMED_BY_REQUEST}, from an earlier topic of this name",
            f"if the topic is there, {_HINT_IF_PRESENT}; if not, {_HINT_IF_ABSENT}",
        )
        return StaleEntry(
            f"{message}: the one of now, or a later one, is moved by it when another broker becomes controller", instead
        )
    if topic_exists:
        return StaleEntry(
            f"{NAMED_BY_REQUEST}, and is older than the topic: "
            "the topic is moved by it when another broker becomes controller",
            _HINT_IF_PRESENT,
        )
    return StaleEntry(
        f"{NAMED_BY_REQUEST}, from an earlier topic of this name: "
        "a new one is moved by it when another broker becomes controller",
        _HINT_IF_ABSENT,
    )


def stale_entry_warnings(names: Collection[str], topics: Collection[str]) -> Iterator[str]:
    """Yield a warning for each stale entry of a cluster, with its hint."""
    sorted_names = sorted(names)
    for name in sorted_names[:_MAX_SHOWN]:
        stale_entry = explain_stale_entry(name in topics)
        yield f"{printable(name)}: {stale_entry.message}. {stale_entry.hint[0].upper()}{stale_entry.hint[1:]}"
    if len(sorted_names) > _MAX_SHOWN:
        yield f"the reassignment request has stale entries of {len(sorted_names) - _MAX_SHOWN:,} more topics"
