"""The usage of topics as values: what brokers say about writers, readers and bytes, and what follows from it over time.

``adapters.kafka_admin.usage`` reads an ``Evidence`` with one ``TopicSample`` a topic. ``usage`` combines it with
that of an earlier snapshot into a ``TopicUsage``, which a snapshot stores. Filters, policies and drift reports read it.
No answer of a broker shows a reader without a consumer group: so a side is ``NOT_SEEN`` at best, never unused. Times
are in whole seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct, field

DAY_S = 24 * 3600


class UsageState(str, Enum):
    """The usage of one side of a topic: written, or read."""

    USED = "Used"
    NOT_SEEN = "NotSeen"
    UNKNOWN = "Unknown"


class GroupType(str, Enum):
    """The type of a group; a ``SIMPLE`` group commits offsets and has no members that a broker knows."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"
    SIMPLE = "Simple"


class DeletionCheck(str, Enum):
    """The requirement of a deletion: no sign of use, proof of a whole window without use, or nothing."""

    REFUSE_USED = "RefuseUsed"
    REQUIRE_NOT_SEEN = "RequireNotSeen"
    IGNORE = "Ignore"


class GroupNames(str, Enum):
    """The content of a snapshot about groups: their ids, or only their number."""

    NAMED = "Named"
    COUNTED = "Counted"


class UsageSettings(Struct, frozen=True):
    """``spec.evidence`` of a ``Cluster``. Times are in seconds.

    ``window`` is the time without use after which a topic is dormant; ``quiet_for`` the time after a write or a commit
    in which a topic is in use. Topics from ``min_partitions`` on should have ``min_bytes_per_day`` for each partition.
    """

    deletion: DeletionCheck = DeletionCheck.REFUSE_USED
    window: int = 35 * DAY_S
    quiet_for: int = DAY_S
    groups: GroupNames = GroupNames.NAMED
    min_partitions: int = 12
    min_bytes_per_day: int = 1 << 20


DEFAULT_USAGE_SETTINGS = UsageSettings()


class GroupUsage(NamedTuple):
    """The use of one topic by one group.

    ``members`` counts the members that are subscribed to it or have partitions of it. ``partitions`` is the number of
    partitions with a committed offset (or the start offset of a share group), ``committed`` the sum of these offsets,
    ``lag`` the sum of what is left to read; None if an end offset is not known.
    """

    group: str
    type: GroupType
    members: int = 0
    partitions: int = 0
    committed: int = 0
    lag: int | None = None


class TopicSample(Struct, frozen=True):
    """The answers of the brokers about one topic in one read. ``topic_id`` is None before Kafka 2.8.

    The sequences have one value for each partition; None: not known. ``ends`` and ``begins`` are offsets, ``sizes`` the
    bytes of the leader's replica, ``all_bytes`` those of all replicas. ``oldest`` and ``newest`` are times in ms that
    producers claim. ``groups`` are the first ones by members and id, ``more_groups`` counts the others, and
    ``groups_digest`` is a digest of all groups with their offsets.
    """

    topic_id: str | None = None
    ends: tuple[int | None, ...] = ()
    begins: tuple[int | None, ...] = ()
    sizes: tuple[int | None, ...] = ()
    all_bytes: int | None = None
    oldest: tuple[int | None, ...] = ()
    newest: tuple[int | None, ...] = ()
    groups: tuple[GroupUsage, ...] = ()
    more_groups: int = 0
    groups_digest: str = ""

    @property
    def size(self) -> int | None:
        """The bytes of all partitions, of one replica each; None if one is not known."""
        return add_known(self.sizes)

    @property
    def member_count(self) -> int:
        """The number of members of all groups that read the topic now."""
        return sum(group.members for group in self.groups)

    @property
    def committing_groups(self) -> int:
        """The number of groups with an offset of the topic or a member; groups beyond the first ones count too."""
        return len(self.groups) + self.more_groups


class Side(NamedTuple):
    """The usage of one side of a topic.

    The last use that was found was between ``after`` and ``before``; None: none was found. ``observed_since`` is the
    begin of the observation without gaps, None if the last sample is not complete. ``why`` has words that say what the
    state rests on.
    """

    state: UsageState = UsageState.UNKNOWN
    after: int | None = None
    before: int | None = None
    observed_since: int | None = None
    why: tuple[str, ...] = ()

    @property
    def unseen_since(self) -> int | None:
        """The time since when no use was seen; None if the topic is not observed."""
        return None if self.observed_since is None else max(self.observed_since, self.before or 0)


UNKNOWN_SIDE = Side()


class CurvePoint(NamedTuple):
    """The sums of begins, ends and bytes of all partitions at one time."""

    taken_at: int
    begins: int
    ends: int
    size: int


class TopicUsage(Struct, frozen=True):
    """The last sample of a topic, and what it and all samples before it say. ``bytes_per_day`` is None below a day."""

    sample: TopicSample
    written: Side = UNKNOWN_SIDE
    read: Side = UNKNOWN_SIDE
    curve: tuple[CurvePoint, ...] = ()
    bytes_per_day: int | None = None


class UsageProblem(NamedTuple):
    """A request that a broker did not answer as wanted; ``broker`` is None if it is not one broker's."""

    what: str
    broker: int | None
    error: int


class Evidence(Struct, frozen=True):
    """The completeness of one read of a whole cluster.

    ``groups`` counts the groups that were listed, ``groups_unread`` those that could not be described, and
    ``groups_opaque`` those with members that do not say what they read. ``groups_complete`` is true if no group can be
    missing. ``retention_minutes`` is ``offsets.retention.minutes``, None if it could not be read.
    """

    read_at: int
    brokers_asked: int = 0
    brokers_answered: int = 0
    groups: int = 0
    groups_unread: int = 0
    groups_opaque: int = 0
    groups_complete: bool = False
    retention_minutes: int | None = None
    problems: tuple[UsageProblem, ...] = ()
    more_problems: int = 0

    @property
    def knows_readers(self) -> bool:
        """True if the readers of every topic are known, as far as brokers know them."""
        return self.groups_complete and not self.groups_unread and not self.groups_opaque


class UsageRead(Struct, frozen=True):
    """The evidence of one read, and its samples by topic."""

    evidence: Evidence
    topics: Mapping[str, TopicSample] = field(default_factory=dict)


def add_known(values: tuple[int | None, ...]) -> int | None:
    """Return the sum of values; None if one is not known, or if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
