"""The throttled replicas of a batch, as Kafka's topic configs name them (KIP-73).

A throttle needs both: rates on the brokers, and the replicas in two configs of each topic. A move that copies nothing
is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topiarist.model.moves import ReplicaMove

Throttled = tuple[int, int]
"""A partition and a broker, which the config writes as ``0:1``."""


class ThrottledReplicas(NamedTuple):
    """The throttled replicas of one topic: those that are read from, and those that are written."""

    leader: tuple[Throttled, ...]
    follower: tuple[Throttled, ...]


def find_throttled_replicas(moves: Iterable[ReplicaMove]) -> Mapping[str, ThrottledReplicas]:
    """Return the throttled replicas of each topic, sorted: all replicas before, and the added ones."""
    leaders: dict[str, set[Throttled]] = {}
    followers: dict[str, set[Throttled]] = {}
    for move in moves:
        if move.added:
            leaders.setdefault(move.topic, set()).update((move.partition, broker) for broker in move.before)
            followers.setdefault(move.topic, set()).update((move.partition, broker) for broker in move.added)
    return {
        topic: ThrottledReplicas(tuple(sorted(leaders[topic])), tuple(sorted(followers[topic])))
        for topic in sorted(leaders)
    }


def find_throttled_brokers(replicas: Iterable[ThrottledReplicas]) -> tuple[int, ...]:
    """Return the brokers that need a rate, sorted."""
    return tuple(sorted({broker for found in replicas for listed in found for _, broker in listed}))


def format_throttled_replicas(replicas: Iterable[Throttled]) -> str:
    """Return the text of a config: ``0:1,0:2``."""
    return ",".join(f"{partition}:{broker}" for partition, broker in replicas)
