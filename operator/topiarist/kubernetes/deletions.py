"""The deletions of the last day, which share one budget: what the Cluster's status has kept, and what ZooKeeper shows.

Every deletion leaves a tombstone in its own transaction: one behind which the operator is killed counts all the same,
also where the Cluster was declared anew. The status keeps those whose tombstone has gone, since the topic was made
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from topiarist.core.state import ClusterState
from topiarist.kubernetes import clock
from topiarist.kubernetes.resources import Resource


class Deletion(NamedTuple):
    """When a topic was deleted, as an RFC 3339 time, and its name; in this order they sort as they happened."""

    time: str
    topic: str

    @property
    def fields(self) -> Mapping[str, str]:
        """As the status says it."""
        return {"topic": self.topic, "time": self.time}


def recent(home: Resource, state: ClusterState | None, owner: str, now: datetime) -> Sequence[Deletion]:
    """The deletions by ``owner`` less than a day before ``now``, the oldest first: of the status of ``home``, its
    Cluster, and of what was read, if anything was.
    """
    known = {Deletion(each["time"], each["topic"]) for each in home.status.get("deletions", ())}
    since = (now - clock.DAY).timestamp() * 1000
    for topic, (by, written) in (state.tombstones if state else {}).items():
        if by == owner and written > since:
            known.add(Deletion(clock.seconds(clock.moment(written)), topic))
    return sorted(deletion for deletion in known if clock.within_a_day(deletion.time, now))
