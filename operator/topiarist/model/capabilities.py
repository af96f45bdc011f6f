"""The capabilities of a cluster as one value: an adapter finds them out once, and all other code asks it.

Apache Kafka can do all of it. Services and other brokers answer a part of Kafka's protocol, or carry out a part of what
they answer. A planner, a filter, a writer or a text never asks for the number of a request: it asks here. ``why`` is
for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct


class Support(NamedTuple):
    """The support of one capability by a cluster; None: only a try shows it.

    ``why`` says how that is known, and what is missing; empty if nothing is. With ``lacks_right`` the cluster can do
    it, and denies it to the user of this run.
    """

    is_given: bool | None = True
    why: str = ""
    lacks_right: bool = False

    @property
    def is_denied(self) -> bool:
        """Return whether the cluster certainly does not do it."""
        return self.is_given is False

    @property
    def is_missing(self) -> bool:
        """Return whether the cluster can do it for no user."""
        return self.is_denied and not self.lacks_right


GIVEN = Support()
UNKNOWN = Support(None)


class Capabilities(Struct, frozen=True):
    """The capabilities of one cluster, in the order in which people read them.

    The defaults are those of Apache Kafka, and of a cluster that is reached through ZooKeeper.
    """

    topic_ids: Support = GIVEN
    """Each topic has an id, which no later topic of its name has."""
    freshness: Support = GIVEN
    """Something proves that what was read is not old."""
    config_sources: Support = GIVEN
    """Answers about configs say which values a topic sets itself."""
    creation: Support = GIVEN
    """Topics are created."""
    replica_lists: Support = GIVEN
    """The replica lists of a creation are carried out as they are."""
    growth: Support = GIVEN
    """Partitions are added to topics."""
    growth_lists: Support = GIVEN
    """The replica lists of new partitions are carried out as they are."""
    config_changes: Support = GIVEN
    """Single config keys are set and removed, without the others."""
    deletion: Support = GIVEN
    """Topics are deleted."""
    deletion_by_id: Support = GIVEN
    """A deletion names the id of its topic, so that it never deletes a later one."""
    transactions: Support = GIVEN
    """Records are written in transactions, which fence an earlier run."""
    compaction: Support = GIVEN
    """A topic can keep the last record of each key for ever."""
    listed_reassignments: Support = GIVEN
    """Reassignments in progress are listed."""
    moves: Support = GIVEN
    """Replicas can be moved to other brokers, and their number changed."""
    elections: Support = GIVEN
    """The preferred leader of a partition can be elected."""
    throttles: Support = GIVEN
    """The rate at which brokers copy replicas can be limited."""
    quotas: Support = GIVEN
    """The brokers tell when a quota accepts more changes."""

    def items(self) -> Iterator[tuple[str, Support]]:
        """Yield the name of each capability with its support, in their order."""
        return ((name, getattr(self, name)) for name in self.__struct_fields__)


APACHE_KAFKA = Capabilities()
