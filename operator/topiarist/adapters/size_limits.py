"""The size limits of both ways to a cluster, which its adapter and its snapshots share.

Through ZooKeeper brokers read lists of names and the entry of a topic, each in one reply. A reply larger than a
client's buffer looks like a network failure to the client, and a broker that cannot read its lists receives no more
changes. Therefore there is a warning at 70 % and a refusal at 90 %. Brokers remove notifications only after 15 minutes,
so there are never more than 10,000. Through the brokers only the size of one request counts.

A snapshot keeps the numbers of ``ListSizes``; the rest is the same for all clusters.
"""

from __future__ import annotations

from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.model.state import SizeLimit, SizeScope, SizeWeights

_LENGTH_BYTES = 4
"""The length of a list, and of each name in it, as ZooKeeper sends them."""

NOTIFICATION_BYTES = _LENGTH_BYTES + len("config_change_0000000000")
"""The size of one notification in the list: its name has a counter of ten digits."""

MAX_NOTIFICATIONS = 10_000
"""Maximum number of config notifications on a cluster at a time, those of all clients and runs."""

DEFAULT_REPLY_BYTES = 1_048_575
"""The largest reply that brokers and servers take unless ``jute.maxbuffer`` is set."""

MAX_REQUEST_RECORDS = 10_000
"""Maximum number of metadata records that a KRaft controller writes for one request."""

ENTRY_WEIGHTS = SizeWeights(partition=6, digit=1, separator=1)
"""The bytes of replica lists in JSON, ``"0":[1,2,3],`` each: quotes, colon, brackets, and a comma after the list."""

REQUEST_WEIGHTS = SizeWeights(new_topic=1, config=1, partition=1)
"""The metadata records of a request."""

_LIST_WARNING = "{used} of {maximum} bytes that a broker can read in one reply"
_LIST_REFUSAL = "would take {used} bytes; brokers can read {maximum} in one reply, and topiarist uses at most 90 %"
_HINT_RAISE_MAX_BUFFER = (
    "make fewer changes; or raise jute.maxbuffer on all servers and brokers, then zookeeper.maxBuffer in the Cluster"
)
_HINT_RETRY_LATER = "run again in 15 minutes: then the brokers have removed the present notifications"


class ListSizes(NamedTuple):
    """The sizes of the lists that brokers read from ZooKeeper, in bytes of a reply, and the limit of one reply."""

    topics_bytes: int = 0
    notifications_bytes: int = 0
    max_bytes: int = DEFAULT_REPLY_BYTES


def measure_topic_list(names_bytes: int, names: int) -> int:
    """Return the bytes of a list of ``names`` names that have ``names_bytes`` bytes."""
    return _LENGTH_BYTES * (1 + names) + names_bytes


def measure_notifications(notifications: int) -> int:
    """Return the bytes of the list of notifications."""
    return _LENGTH_BYTES + NOTIFICATION_BYTES * notifications


def build_list_limits(sizes: ListSizes) -> tuple[SizeLimit, ...]:
    """Return the limits through ZooKeeper."""
    topics, notifications = "the list of topics", "the list of config notifications"
    return (
        SizeLimit(
            topics,
            sizes.max_bytes,
            SizeWeights(new_topic=_LENGTH_BYTES, name_character=1),
            f"{topics} {_LIST_REFUSAL}",
            _HINT_RAISE_MAX_BUFFER,
            used=sizes.topics_bytes,
            refused_share=0.9,
            warned_share=0.7,
            warning=_LIST_WARNING,
        ),
        SizeLimit(
            "the topic's own entry",
            sizes.max_bytes,
            ENTRY_WEIGHTS,
            f"the topic's own entry {_LIST_REFUSAL}",
            _HINT_RAISE_MAX_BUFFER,
            SizeScope.TOPIC,
            refused_share=0.9,
        ),
        SizeLimit(
            notifications,
            sizes.max_bytes,
            SizeWeights(config_update=NOTIFICATION_BYTES),
            f"{notifications} {_LIST_REFUSAL}",
            _HINT_RAISE_MAX_BUFFER,
            used=sizes.notifications_bytes,
            refused_share=0.9,
            warned_share=0.7,
            warning=_LIST_WARNING,
        ),
        SizeLimit(
            "the number of config notifications",
            measure_notifications(MAX_NOTIFICATIONS),
            SizeWeights(config_update=NOTIFICATION_BYTES),
            f"the cluster has {MAX_NOTIFICATIONS:,} config notifications already, which is the limit",
            _HINT_RETRY_LATER,
            used=sizes.notifications_bytes,
            reason=Reason.BUDGET_EXCEEDED,
        ),
    )


def list_sizes_of(limits: tuple[SizeLimit, ...]) -> ListSizes | None:
    """Return the sizes that ``build_list_limits`` made ``limits`` from; None for the limits through brokers."""
    if len(limits) < len(build_list_limits(ListSizes())):
        return None
    topics, _, notifications, _ = limits
    return ListSizes(topics.used, notifications.used, topics.maximum)


REQUEST_LIMITS = (
    SizeLimit(
        "the request of one change",
        MAX_REQUEST_RECORDS,
        REQUEST_WEIGHTS,
        "its request needs {used} metadata records; a controller writes at most {maximum} for one request",
        "declare fewer partitions now, and raise the number in later runs",
        SizeScope.CHANGE,
    ),
)
"""The limits through the brokers."""
