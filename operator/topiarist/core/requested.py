"""Reassignment requests that outlived the topic they name, and what to do about them.

The controller keeps the entry of a topic that is deleted while it moves. The entry does nothing until another broker
becomes controller: then it moves whatever topic has the name. Found when a cluster is read, said by every plan,
``describe`` and ``drift``; a creation and a deletion of a topic that a request names are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from topiarist.core.quoting import shown
from topiarist.core.state import TopicState

_SHOWN = 8
"""Entries that a warning names each; more are counted."""

NAMED = "a reassignment request names it"


class Stale(NamedTuple):
    """An entry of a request that does not mean the topic it names, and the remedy."""

    message: str
    instead: str


def stale_names(
    names: Collection[str], since: int | None, topics: Mapping[str, TopicState], others: Collection[str]
) -> frozenset[str]:
    """Return the names of a request that mean no topic that is there: it is absent, or younger than the request.

    ``since`` is the identity of the request, None if it cannot be read: then nothing is known of its entries.
    ``others`` are the topics that cannot be read.
    """
    if since is None:
        return frozenset()
    absent = {name for name in names if name not in topics and name not in others}
    return frozenset(absent.union(name for name in names if name in topics and topics[name].identity > since))


_ABSENT = (
    "let another broker become controller before the topic is made again, which drops the entry; or ask for a"
    " reassignment of that partition through Kafka's Admin API"
)
_THERE = "before that, ask for the replicas that the topic has, with kafka-reassign-partitions --bootstrap-server"


def explain(there: bool | None = None) -> Stale:
    """Say what a stale entry does to the topic of its name, which is ``there`` again or not; None: not known."""
    if there is None:
        message, instead = (
            f"{NAMED}, from an earlier topic of this name",
            f"if the topic is there, {_THERE}; if not, {_ABSENT}",
        )
        return Stale(
            f"{message}: the one of now, or a later one, is moved by it when another broker becomes controller", instead
        )
    if there:
        return Stale(
            f"{NAMED}, and is older than the topic: the topic is moved by it when another broker becomes controller",
            _THERE,
        )
    return Stale(
        f"{NAMED}, from an earlier topic of this name: a new one is moved by it when another broker becomes controller",
        _ABSENT,
    )


def warnings(names: Collection[str], topics: Collection[str]) -> Iterator[str]:
    """Name the stale entries of a cluster, each with its remedy."""
    found = sorted(names)
    for name in found[:_SHOWN]:
        said = explain(name in topics)
        yield f"{shown(name)}: {said.message}. {said.instead[0].upper()}{said.instead[1:]}"
    if len(found) > _SHOWN:
        yield f"the reassignment request has stale entries of {len(found) - _SHOWN:,} more topics"
