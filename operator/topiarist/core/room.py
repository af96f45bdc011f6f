"""Limits of what brokers can read: lists of topics and notifications, and a topic's own entry.

A reply larger than a client's buffer looks like a network failure to it, and a broker that cannot read its lists stops
hearing of changes. So the sizes are computed before anything is written: a word at 70 %, a refusal at 90 %. Of
notifications, which brokers take away only when they are 15 minutes old, there are never more than 10,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from topiarist.core.change import AddPartitions, Change, CreateTopic, Finding, TopicPlan, UpdateConfig
from topiarist.core.holding import hold
from topiarist.core.state import Replicas, Room
from topiarist.errors import Reason

NOTIFICATION_BYTES = 28
MOST_NOTIFICATIONS = 10_000
"""That may be there at a time, whoever sent them and however many runs it took."""

_WARN, _REFUSE = 0.7, 0.9
_MEMORY = 1 << 14
"""Sizes kept: the topics of a cluster share few distinct replica lists."""

_LATER = "run again when brokers have taken them away: they do so when these are 15 minutes old"
_LARGER = "ask for less; or raise jute.maxbuffer on all servers and brokers, then zookeeper.maxBuffer in the Cluster"


def assignment_bytes(lists: Sequence[Replicas], first: int = 0) -> int:
    """Bytes of these replica lists as JSON, ``"0":[1,2,3],`` each; ``first`` is the id of the first partition."""
    return _ids_bytes(first, len(lists)) + sum(map(_list_bytes, lists))


@lru_cache(maxsize=_MEMORY)
def _ids_bytes(first: int, count: int) -> int:
    return sum(len(str(partition)) + 6 for partition in range(first, first + count))


@lru_cache(maxsize=_MEMORY)
def _list_bytes(replicas: Replicas) -> int:
    return sum(len(str(broker)) + 1 for broker in replicas) - (len(replicas) > 0)


def within_room(topics: Iterable[TopicPlan], room: Room) -> tuple[list[TopicPlan], list[str]]:
    """The same plans, without what would not fit (refused, with numbers), and warnings about what is nearly full."""
    kept = []
    for topic in topics:
        plan, room = _fit(topic, room) if topic.to_do else (topic, room)
        kept.append(plan)
    return kept, [
        f"{what}: {used:,} of {room.limit:,} bytes that a broker can read in one reply"
        for what, used in (
            ("the list of topics", room.topics),
            ("the list of config notifications", room.notifications),
        )
        if used > room.limit * _WARN
    ]


def _fit(topic: TopicPlan, room: Room) -> tuple[TopicPlan, Room]:
    """The topic with those of its changes for which there is room, and the room that is then taken."""
    for change in topic.changes:
        after, sizes = _taken(topic, change, room)
        over = [(what, used) for what, used in sizes if used > room.limit * _REFUSE]
        if not over and isinstance(change, UpdateConfig) and after.notifications > _notifications(MOST_NOTIFICATIONS):
            message = f"there are {MOST_NOTIFICATIONS:,} config notifications already, and more is too many"
            topic = hold(topic, (change,), Finding(Reason.BUDGET_EXCEEDED, message, instead=_LATER))
        elif over:
            what, used = over[0]
            message = (
                f"{what} would take {used:,} bytes; brokers can read {room.limit:,} in one reply, and 90 % is the most"
            )
            topic = hold(topic, (change,), Finding(Reason.TOO_LARGE, message, instead=_LARGER))
        else:
            room = after
    return topic, room


def _notifications(count: int) -> int:
    """Bytes of a list of so many."""
    return 4 + NOTIFICATION_BYTES * count


def _taken(topic: TopicPlan, change: Change, room: Room) -> tuple[Room, list[tuple[str, int]]]:
    """The room once ``change`` is done, and the size of everything that it makes larger."""
    if isinstance(change, CreateTopic):
        names = room.topics + 4 + len(topic.topic)
        sizes = [("the list of topics", names), ("the topic's own entry", assignment_bytes(change.replicas))]
        return replace(room, topics=names), sizes
    if isinstance(change, UpdateConfig):
        notifications = room.notifications + NOTIFICATION_BYTES
        return replace(room, notifications=notifications), [("the list of config notifications", notifications)]
    if isinstance(change, AddPartitions) and topic.before:
        entry = assignment_bytes(topic.before.replicas) + assignment_bytes(change.replicas, change.before)
        return room, [("the topic's own entry", entry)]
    return room, []
