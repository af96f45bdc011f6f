"""What a writing run has still to send: which topics, in which order, how often each of them.

``writing`` fills this from a plan, takes the next topics from it, and puts back what has to be sent again. Topics that
get new partitions are held back for as long as a ``Pace`` says so; all others go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from topiarist.adapters.zookeeper.session import MOST_DROPS
from topiarist.core.change import TopicPlan
from topiarist.core.waiting import brings
from topiarist.reconcile import Pace

TRIES = 3
"""How often a topic is read, compared and sent before it counts as moved."""


class Job(NamedTuple):
    """A topic that is to be written: how often somebody was faster, and how often the connection dropped under it."""

    plan: TopicPlan
    tries: int = 0
    drops: int = 0


class Jobs:
    """The topics of one run that are neither under way nor settled. After ``close`` nothing more will be sent."""

    def __init__(self, pace: Pace | None, stop: Callable[[], bool]) -> None:
        self._pace = pace
        self._stop = stop
        self._ready: deque[Job] = deque()
        self._held: deque[Job] = deque()
        self.closed = False

    def __len__(self) -> int:
        """How many may be sent now."""
        return len(self._ready)

    def add(self, plan: TopicPlan) -> None:
        """A topic that was not sent before."""
        held = self._pace is not None and brings(plan)
        (self._held if held else self._ready).append(Job(plan))

    def wait(self) -> bool:
        """Return when something may be sent, or nothing is left, or ``stop()`` is true; whether that took a rest."""
        rested = False
        while self._held and not self._stop():
            assert self._pace is not None
            while self._held and self._pace.take(self._held[0].plan):
                self._ready.append(self._held.popleft())
            if self._ready:
                break
            self._pace.rest()
            rested = True
        return rested

    def next(self, count: int) -> list[TopicPlan]:
        """The next topics, at most ``count``, in the order in which ``take`` gives them."""
        return [job.plan for job in islice(self._ready, count)]

    def take(self) -> Job:
        """The next topic."""
        return self._ready.popleft()

    def put(self, job: Job) -> None:
        """A topic that was taken and has not been sent, or not so that it would count."""
        self._ready.append(job)

    def beaten(self, job: Job) -> bool:
        """A topic that somebody else was faster with: whether it is tried again."""
        return self._again(job._replace(tries=job.tries + 1))

    def dropped(self, job: Job) -> bool:
        """A topic under which the connection dropped: whether it is tried again."""
        return self._again(job._replace(drops=job.drops + 1))

    def close(self) -> None:
        """Nothing more will be sent: what comes back now stays here, however often it was tried."""
        self.closed = True

    def left(self) -> Iterator[TopicPlan]:
        """All topics that were not sent."""
        yield from (job.plan for job in (*self._ready, *self._held))

    def _again(self, job: Job) -> bool:
        again = self.closed or (job.tries < TRIES and job.drops < MOST_DROPS)
        if again:
            self._ready.append(job)
        return again
