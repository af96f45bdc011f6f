"""The queue of topics that a run has still to send, with the number of attempts.

``Writer`` fills the queue from a plan, takes topics from it, and returns topics that must be sent again. Topics that
get new partitions wait until the ``Throttle`` accepts them; all other topics are sent first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS
from topiarist.model.outcome import partitions_to_initialize
from topiarist.model.plan import TopicPlan
from topiarist.ports import Throttle

MAX_ATTEMPTS = 3
"""Attempts to read, compare and send a topic before its outcome is a conflict."""


class TopicWrite(NamedTuple):
    """A topic to write.

    ``attempts`` counts conflicts with other clients, ``disconnects`` counts connections that dropped during its write.
    """

    plan: TopicPlan
    attempts: int = 0
    disconnects: int = 0


class WriteQueue:
    """The topics of one run that are neither in flight nor finished. After ``close`` no topic is sent."""

    def __init__(self, throttle: Throttle | None, stop: Callable[[], bool]) -> None:
        self._throttle = throttle
        self._stop = stop
        self._ready: deque[TopicWrite] = deque()
        self._throttled: deque[TopicWrite] = deque()
        self.closed = False

    def __len__(self) -> int:
        """Return the number of topics that can be sent now."""
        return len(self._ready)

    def add(self, plan: TopicPlan) -> None:
        """Add a topic that was not sent before."""
        # Only new partitions are work for the controller: a config change never waits behind them.
        throttled = self._throttle is not None and partitions_to_initialize(plan)
        (self._throttled if throttled else self._ready).append(TopicWrite(plan))

    def wait(self) -> bool:
        """Wait until a topic can be sent, the queue is empty, or ``stop()`` is true.

        Returns True if the throttle made the run wait, which means that time has passed since the last read of the
        context.
        """
        waited = False
        while self._throttled and not self._stop():
            assert self._throttle is not None
            while self._throttled and self._throttle.try_acquire(self._throttled[0].plan):
                self._ready.append(self._throttled.popleft())
            if self._ready:
                break
            self._throttle.wait()
            waited = True
        return waited

    def peek(self, count: int) -> list[TopicPlan]:
        """Return the next topics, at most ``count``, in the order in which ``pop`` returns them."""
        return [job.plan for job in islice(self._ready, count)]

    def pop(self) -> TopicWrite:
        """Remove and return the next topic."""
        return self._ready.popleft()

    def requeue(self, job: TopicWrite) -> None:
        """Return a topic to the queue without counting an attempt."""
        self._ready.append(job)

    def retry_conflict(self, job: TopicWrite) -> bool:
        """Count a conflict with another client; return True if the topic is tried again."""
        return self._retry(job._replace(attempts=job.attempts + 1))

    def retry_disconnect(self, job: TopicWrite) -> bool:
        """Count a dropped connection; return True if the topic is tried again."""
        return self._retry(job._replace(disconnects=job.disconnects + 1))

    def close(self) -> None:
        """Close the queue: topics that are returned now stay in it, however often they were tried."""
        self.closed = True

    def remaining(self) -> Iterator[TopicPlan]:
        """Yield all topics that were not sent."""
        yield from (job.plan for job in (*self._ready, *self._throttled))

    def _retry(self, job: TopicWrite) -> bool:
        retry = self.closed or (job.attempts < MAX_ATTEMPTS and job.disconnects < MAX_DISCONNECTS)
        if retry:
            self._ready.append(job)
        return retry
