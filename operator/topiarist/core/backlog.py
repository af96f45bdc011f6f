"""The controller's backlog: what was written to a cluster and is not finished, and how much more may be written.

A controller that is handed thousands of topics at once answers nobody else meanwhile, and its brokers make log folders
far more slowly than it takes partitions over. So whoever waits also holds back: never more than so many replicas per
broker are ahead of what the controller has taken over (seen by the partitions' states, ``waiting``). Config changes,
records and deletions are no such load. Time is the caller's: this is told what was sent and what was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from topiarist.core.change import TopicPlan
from topiarist.core.state import Replicas
from topiarist.core.waiting import Sight, Stage, awaited, brings, stage, under_way

AHEAD = 250
"""Replicas per broker that may be ahead of the controller."""


class Seen(NamedTuple):
    """What a look has brought: whether anything moved on, and the topics for which the waiting is over."""

    progress: bool
    finished: tuple[str, ...] = ()


@dataclass(slots=True)
class _Entry:
    """A topic that has been sent: its new partitions, ``left`` until they are ``seen`` taken over; is it written?"""

    plan: TopicPlan
    left: dict[int, Replicas]
    seen: set[int] = field(default_factory=set)
    written: bool = False


class Backlog:
    """The account of one cluster: ``most`` replicas per broker may be ahead.

    ``stages`` is how far each topic was when it was last looked at. One topic that is larger by itself is let through
    when nothing else is ahead on its brokers.
    """

    def __init__(self, most: int = AHEAD) -> None:
        self._most = most
        self._ahead: Counter[int] = Counter()
        self._entries: dict[str, _Entry] = {}
        self.stages: dict[str, Stage] = {}

    def take(self, plan: TopicPlan) -> bool:
        """Whether this topic may be sent now; if so it is ahead from here on."""
        load = _load(brings(plan).values())
        if any(self._ahead[broker] and self._ahead[broker] + more > self._most for broker, more in load.items()):
            return False
        self._enter(plan)
        return True

    def settle(self, plan: TopicPlan, *, written: bool) -> None:
        """What became of a topic, whether or not it was ``take``n: it is waited for if it is ``written``, or marked
        for deletion from before; else forgotten.
        """
        if written and (awaited(plan) or under_way(plan)):
            self._enter(plan).written = True
        else:
            self._forget(plan.topic)

    def asked(self) -> Mapping[str, Collection[int]]:
        """The topics to look at, each with the partitions that have not been seen taken over."""
        return {name: tuple(entry.left) for name, entry in self._entries.items() if entry.written}

    def see(self, sights: Mapping[str, Sight]) -> Seen:
        """Take in a look at all that was ``asked``."""
        progress, finished = False, []
        for name, now in sights.items():
            entry = self._entries[name]
            found = stage(entry.plan, now, entry.seen)
            for number in now.taken & entry.left.keys():
                self._ahead.subtract(entry.left.pop(number))
                entry.seen.add(number)
                progress = True
            self.stages[name] = found
            if found.final:
                self._forget(name)
                finished.append(name)
        return Seen(progress or bool(finished), tuple(finished))

    def _enter(self, plan: TopicPlan) -> _Entry:
        self._forget(plan.topic)
        entry = self._entries[plan.topic] = _Entry(plan, dict(brings(plan)))
        self._ahead.update(_load(entry.left.values()))
        return entry

    def _forget(self, name: str) -> None:
        if entry := self._entries.pop(name, None):
            self._ahead.subtract(_load(entry.left.values()))


def _load(lists: Iterable[Replicas]) -> Counter[int]:
    """How many replicas each broker gets."""
    return Counter(chain.from_iterable(lists))
