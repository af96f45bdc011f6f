"""Limits the sizes that brokers can read: the lists of topics and notifications, and a topic's entry.

A reply larger than a client's buffer looks like a network failure to the client, and a broker that cannot read its
lists receives no more changes. Therefore sizes are computed before anything is written: a warning at 70 %, a refusal at
90 %. Brokers remove notifications only after 15 minutes, so there are never more than 10,000. ``planner`` calls
``enforce_size_limits``, and the writer calls it again before writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.plan import AddPartitions, Change, CreateTopic, Issue, TopicPlan, UpdateConfig, withhold
from topiarist.model.state import ListSizes

NOTIFICATION_BYTES = 28
"""Size of one name in the list: 24 characters, ``config_change_`` and ten digits, and a length of 4 bytes."""

MAX_NOTIFICATIONS = 10_000
"""Maximum number of config notifications on a cluster at a time, those of all clients and runs."""

_WARN_SHARE, _REFUSE_SHARE = 0.7, 0.9
_CACHE_SIZE = 1 << 14
"""Number of cached sizes; the topics of a cluster share few replica lists."""

_HINT_RETRY_LATER = "run again in 15 minutes: then the brokers have removed the present notifications"
_HINT_RAISE_MAX_BUFFER = (
    "make fewer changes; or raise jute.maxbuffer on all servers and brokers, then zookeeper.maxBuffer in the Cluster"
)


def assignment_bytes(lists: Sequence[Replicas], first_partition: int = 0) -> int:
    """Return the size in bytes of replica lists as JSON, ``"0":[1,2,3],`` each.

    ``first_partition`` is the id of the first partition.
    """
    return _partition_id_bytes(first_partition, len(lists)) + sum(map(_replica_list_bytes, lists))


@lru_cache(maxsize=_CACHE_SIZE)
def _partition_id_bytes(first_partition: int, count: int) -> int:
    # Two quotes, a colon, two brackets and a comma for each partition.
    return sum(len(str(partition)) + 6 for partition in range(first_partition, first_partition + count))


@lru_cache(maxsize=_CACHE_SIZE)
def _replica_list_bytes(replicas: Replicas) -> int:
    return sum(len(str(broker)) + 1 for broker in replicas) - (len(replicas) > 0)


def enforce_size_limits(topics: Iterable[TopicPlan], list_sizes: ListSizes) -> tuple[list[TopicPlan], list[str]]:
    """Return the plans without changes that would not fit, and warnings.

    A change that does not fit is refused, with numbers. A warning names a list that is more than 70 % full.
    """
    kept = []
    for topic in topics:
        plan, list_sizes = _fit_topic(topic, list_sizes) if topic.is_actionable else (topic, list_sizes)
        kept.append(plan)
    return kept, [
        f"{what}: {used:,} of {list_sizes.max_bytes:,} bytes that a broker can read in one reply"
        for what, used in (
            ("the list of topics", list_sizes.topics_bytes),
            ("the list of config notifications", list_sizes.notifications_bytes),
        )
        if used > list_sizes.max_bytes * _WARN_SHARE
    ]


def _fit_topic(topic: TopicPlan, list_sizes: ListSizes) -> tuple[TopicPlan, ListSizes]:
    """Return the topic with the changes that fit, and the sizes after them."""
    # ZooKeeper sends the number of names in a list as 4 bytes.
    max_notifications_bytes = 4 + NOTIFICATION_BYTES * MAX_NOTIFICATIONS
    for change in topic.changes:
        after, sizes = _sizes_after(topic, change, list_sizes)
        over = [(what, used) for what, used in sizes if used > list_sizes.max_bytes * _REFUSE_SHARE]
        if over:
            what, used = over[0]
            limit = f"brokers can read {list_sizes.max_bytes:,} in one reply, and topiarist uses at most 90 %"
            message = f"{what} would take {used:,} bytes; {limit}"
            issue = Issue(Reason.TOO_LARGE, message, hint=_HINT_RAISE_MAX_BUFFER)
        elif isinstance(change, UpdateConfig) and after.notifications_bytes > max_notifications_bytes:
            message = f"the cluster has {MAX_NOTIFICATIONS:,} config notifications already, which is the limit"
            issue = Issue(Reason.BUDGET_EXCEEDED, message, hint=_HINT_RETRY_LATER)
        else:
            list_sizes = after
            continue
        topic = withhold(topic, (change,), issue)
    return topic, list_sizes


def _sizes_after(topic: TopicPlan, change: Change, list_sizes: ListSizes) -> tuple[ListSizes, list[tuple[str, int]]]:
    """Return the list sizes after ``change``, and the sizes that it increases."""
    if isinstance(change, CreateTopic):
        # ZooKeeper sends each name of a list with a length of 4 bytes.
        names = list_sizes.topics_bytes + 4 + len(topic.topic)
        sizes = [("the list of topics", names), ("the topic's own entry", assignment_bytes(change.replicas))]
        return replace(list_sizes, topics_bytes=names), sizes
    if isinstance(change, UpdateConfig):
        notifications = list_sizes.notifications_bytes + NOTIFICATION_BYTES
        return replace(list_sizes, notifications_bytes=notifications), [
            ("the list of config notifications", notifications)
        ]
    if isinstance(change, AddPartitions) and topic.before:
        entry = assignment_bytes(topic.before.replicas) + assignment_bytes(change.replicas, change.before)
        return list_sizes, [("the topic's own entry", entry)]
    return list_sizes, []
