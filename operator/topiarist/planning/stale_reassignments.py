"""Reassignment requests that outlived the topic they name, and what to do about them.

The controller keeps the entry of a topic that is deleted while it moves. The entry does nothing until another broker
becomes controller: then it moves whatever topic has the name. Found when a cluster is read, said by every plan,
``describe`` and ``drift``; a creation and a deletion of a topic that a request names are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from topiarist.model.state import TopicState
from topiarist.text import printable

_MAX_SHOWN = 8
"""Entries that a warning names each; more are counted."""

NAMED_BY_REQUEST = "a reassignment request names it"


class StaleEntry(NamedTuple):
    """An entry of a request that does not mean the topic it names, and the remedy."""

    message: str
    hint: str


def find_stale_names(
    names: Collection[str], request_identity: int | None, topics: Mapping[str, TopicState], unreadable: Collection[str]
) -> frozenset[str]:
    """Return the names of a request that mean no topic that is there: it is absent, or younger than the request.

    ``request_identity`` is the identity of the request, None if it cannot be read: then nothing is known of its
    entries. ``unreadable`` are the topics that cannot be read.
    """
    if request_identity is None:
        return frozenset()
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
    """Say what a stale entry does to the topic of its name, which is ``topic_exists`` again or not; None: not known."""
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
    """Name the stale entries of a cluster, each with its remedy."""
    found = sorted(names)
    for name in found[:_MAX_SHOWN]:
        said = explain_stale_entry(name in topics)
        yield f"{printable(name)}: {said.message}. {said.hint[0].upper()}{said.hint[1:]}"
    if len(found) > _MAX_SHOWN:
        yield f"the reassignment request has stale entries of {len(found) - _MAX_SHOWN:,} more topics"
