"""The work loop of one cluster: reconciles on events and periodically, with a backoff after a failure.

``manager`` runs one ``WorkLoop`` per cluster, so a failing cluster does not delay any other cluster. The loop runs in
the event loop, as does all access to the store and the API server; a reconciliation accesses the cluster in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from enum import Enum

RESYNC_PERIOD_S = 60.0
"""Seconds after which a cluster is reconciled although no event has requested it."""

DEBOUNCE_S = 0.1
"""Seconds in which several events are merged into one reconciliation."""

RARE_INTERVAL_S = 10.0
"""Minimum seconds between two reconciliations that ``enqueue_rarely`` causes."""

MIN_BACKOFF_S, MAX_BACKOFF_S = 1.0, 60.0
"""Seconds to wait after a failure: the first delay, doubled with each further failure, and the maximum."""

FIRST_MOVE_PAUSE_S, MAX_MOVE_PAUSE_S = 0.5, 15.0
"""Seconds between reconciliations while replicas are moved: the first pause after progress, and the maximum.

After the first one, a pause is about a quarter of the time since the last progress: the next batch follows soon.
"""

log = logging.getLogger(__name__)


class Requeue(Enum):
    """The time of the next reconciliation.

    ``SOON`` if something was written or is in progress. ``MOVING`` if replicas are moved, ``MOVED`` if their moves have
    also progressed since the last reconciliation.
    """

    AFTER_PERIOD = "well"
    SOON = "soon"
    MOVING = "moving"
    MOVED = "moved"
    AFTER_BACKOFF = "failed"


class WorkLoop:
    """A work loop that calls ``reconcile`` for one cluster.

    ``last_completed_at`` is the ``time.monotonic`` time of the last completed reconciliation. ``enqueue_count`` is the
    number of requested reconciliations, ``retries`` the number of those that failed and are retried.
    """

    def __init__(self, reconcile: Callable[[], Awaitable[Requeue]], period: float = RESYNC_PERIOD_S) -> None:
        self._reconcile = reconcile
        self._period = period
        self._queued = asyncio.Event()
        self._rare_after = float("-inf")
        self._rare_request: asyncio.TimerHandle | None = None
        self._stopped = asyncio.Event()
        self._repeat_count = 0
        self._failures = 0
        self.enqueue_count = 0
        self.retries = 0
        self.last_completed_at = time.monotonic()

    @property
    def is_queued(self) -> bool:
        """Return whether a reconciliation was requested and has not begun."""
        return self._queued.is_set()

    def enqueue(self) -> None:
        """Request a reconciliation."""
        self.enqueue_count += 1
        self._queued.set()

    def enqueue_rarely(self) -> None:
        """Request a reconciliation, at most one in ``RARE_INTERVAL_S``; any other reconciliation meets the request."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._rare_after:
            self._rare_after = loop.time() + RARE_INTERVAL_S
            self.enqueue()
        elif self._rare_request is None:
            self._rare_request = loop.call_at(self._rare_after, self._enqueue_rare_request)

    def _enqueue_rare_request(self) -> None:
        self._rare_request = None
        self.enqueue_rarely()

    def _drop_rare_request(self) -> None:
        if self._rare_request:
            self._rare_request.cancel()
            self._rare_request = None

    def stop(self) -> None:
        """Stop the loop after the current reconciliation."""
        self._drop_rare_request()
        self._stopped.set()
        self._queued.set()

    async def run(self) -> None:
        """Reconcile repeatedly until ``stop`` is called."""
        while not self._stopped.is_set():
            # Cleared before, not after: a request that comes during the pass asks for another one.
            self._queued.clear()
            self._drop_rare_request()
            try:
                ending = await self._reconcile()
            except Exception:  # a bug in topiarist must not end the loop of a cluster for good
                log.exception("a pass has failed: this is a defect of topiarist, please report it")
                ending = Requeue.AFTER_BACKOFF
            self.last_completed_at = time.monotonic()
            self._failures = self._failures + 1 if ending is Requeue.AFTER_BACKOFF else 0
            self.retries += ending is Requeue.AFTER_BACKOFF
            self._repeat_count = self._repeat_count + 1 if ending in (Requeue.SOON, Requeue.MOVING) else 0
            await self._wait_for_next(ending)

    async def _wait_for_next(self, ending: Requeue) -> None:
        """Wait until a reconciliation is requested or the delay is over.

        After a failure, requests do not shorten the delay.
        """
        called = self._queued
        if ending is Requeue.AFTER_BACKOFF:
            called = self._stopped
            # Otherwise every event would lead to another attempt at a cluster that does not answer.
            longest = min(MIN_BACKOFF_S * 2.0 ** min(self._failures - 1, 10), MAX_BACKOFF_S) * random.uniform(0.5, 1.0)
        elif ending is Requeue.SOON:
            longest = min(DEBOUNCE_S * 1.25 ** min(self._repeat_count - 1, 100), self._period)
        elif ending in (Requeue.MOVING, Requeue.MOVED):
            pause = FIRST_MOVE_PAUSE_S * 1.25 ** min(self._repeat_count, 100)
            longest = min(pause, MAX_MOVE_PAUSE_S, self._period)
        else:
            # Jitter: the clusters must not all reconcile at the same moment.
            longest = self._period * random.uniform(0.9, 1.1)
        try:
            async with asyncio.timeout(longest):
                await called.wait()
        except TimeoutError:
            return
        # A commit changes many Topics at once: the pause lets one pass plan them all.
        if not self._stopped.is_set():
            await asyncio.sleep(DEBOUNCE_S)
