"""What a writing run has still to send: which topics, in which order, how often each of them.

``writing`` fills this from a plan, takes the next topics from it, and puts back what has to be sent again. Topics that
get new partitions are held back for as long as a ``Pace`` says so; all others go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS
from topiarist.model.plan import TopicPlan
from topiarist.model.progress import partitions_to_initialize
from topiarist.ports import Throttle

MAX_ATTEMPTS = 3
"""How often a topic is read, compared and sent before it counts as moved."""


class TopicWrite(NamedTuple):
    """A topic that is to be written: how often somebody was faster, and how often the connection dropped under it."""

    plan: TopicPlan
    attempts: int = 0
    disconnects: int = 0


class WriteQueue:
    """The topics of one run that are neither under way nor settled. After ``close`` nothing more will be sent."""

    def __init__(self, throttle: Throttle | None, stop: Callable[[], bool]) -> None:
        self._throttle = throttle
        self._stop = stop
        self._ready: deque[TopicWrite] = deque()
        self._throttled: deque[TopicWrite] = deque()
        self.closed = False

    def __len__(self) -> int:
        """How many may be sent now."""
        return len(self._ready)

    def add(self, plan: TopicPlan) -> None:
        """A topic that was not sent before."""
        held = self._throttle is not None and partitions_to_initialize(plan)
        (self._throttled if held else self._ready).append(TopicWrite(plan))

    def wait(self) -> bool:
        """Return when something may be sent, or nothing is left, or ``stop()`` is true; whether that took a rest."""
        rested = False
        while self._throttled and not self._stop():
            assert self._throttle is not None
            while self._throttled and self._throttle.try_acquire(self._throttled[0].plan):
                self._ready.append(self._throttled.popleft())
            if self._ready:
                break
            self._throttle.wait()
            rested = True
        return rested

    def peek(self, count: int) -> list[TopicPlan]:
        """The next topics, at most ``count``, in the order in which ``take`` gives them."""
        return [job.plan for job in islice(self._ready, count)]

    def pop(self) -> TopicWrite:
        """The next topic."""
        return self._ready.popleft()

    def requeue(self, job: TopicWrite) -> None:
        """A topic that was taken and has not been sent, or not so that it would count."""
        self._ready.append(job)

    def retry_conflict(self, job: TopicWrite) -> bool:
        """A topic that somebody else was faster with: whether it is tried again."""
        return self._retry(job._replace(attempts=job.attempts + 1))

    def retry_disconnect(self, job: TopicWrite) -> bool:
        """A topic under which the connection dropped: whether it is tried again."""
        return self._retry(job._replace(disconnects=job.disconnects + 1))

    def close(self) -> None:
        """Nothing more will be sent: what comes back now stays here, however often it was tried."""
        self.closed = True

    def remaining(self) -> Iterator[TopicPlan]:
        """All topics that were not sent."""
        yield from (job.plan for job in (*self._ready, *self._throttled))

    def _retry(self, job: TopicWrite) -> bool:
        again = self.closed or (job.attempts < MAX_ATTEMPTS and job.disconnects < MAX_DISCONNECTS)
        if again:
            self._ready.append(job)
        return again
