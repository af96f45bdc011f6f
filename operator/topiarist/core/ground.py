"""Whether replica lists that were reviewed can still be had, and whether they are such as a planner makes.

A file from a branch is not trusted: with lists of its own it could put a cluster's load, or all replicas of a
partition, where it likes. Used by ``review``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from topiarist.core.state import Broker, Replicas

_MOST_TIMES = 2
"""How many times as much as planned now a broker may get by reviewed lists: it was planned among fewer brokers."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The brokers as the review saw them, as they are, and those that get no new replicas."""

    seen: Mapping[int, Broker]
    there: Mapping[int, Broker]
    excluded: Collection[int]

    def objection(self, replicas: Iterable[Replicas]) -> str:
        """Why reviewed replica lists cannot be had any more; empty if they can."""
        for broker in sorted({broker for brokers in replicas for broker in brokers}):
            if broker in self.excluded:
                return f"its replica lists name broker {broker}, which gets no new replicas"
            if broker not in self.there:
                return f"its replica lists name broker {broker}, which is not registered"
            if self.seen.get(broker) != self.there[broker]:
                return f"its replica lists name broker {broker}, which was reviewed in another rack or not at all"
        return ""

    def oddity(self, planned: Sequence[Replicas], reviewed: Sequence[Replicas]) -> str:
        """Why reviewed replica lists are not such as a planner makes, seen from those it makes now; empty if they are.

        Neither has an empty list. Among fewer brokers each got more, but not a multiple of it.
        """
        if min(map(self._racks, reviewed)) < min(map(self._racks, planned)):
            return "its replica lists keep a partition in fewer racks than it would get now"
        for verb, first in (("leads", 1), ("holds", None)):
            (broker, number), (_, usual) = (_most(lists, first) for lists in (reviewed, planned))
            if number > _MOST_TIMES * usual:
                return (
                    f"with its replica lists broker {broker} {verb} {number:,} of its partitions, at most {usual:,} now"
                )
        return ""

    def _racks(self, replicas: Replicas) -> int:
        return len({self.there[broker].rack for broker in replicas})


def _most(lists: Sequence[Replicas], first: int | None) -> tuple[int, int]:
    """The broker that stands most often in the lists, or at their heads, and how often."""
    return Counter(broker for replicas in lists for broker in replicas[:first]).most_common(1)[0]
