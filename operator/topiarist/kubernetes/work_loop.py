"""The passes of one cluster: one when something has changed, one when the period is over, with a pause after a failure.

Each cluster has a loop of its own, so that one which fails keeps no other waiting. What a pass sees and does in
ZooKeeper happens in a thread; everything about the store and the API server in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from enum import Enum

RESYNC_PERIOD_S = 60.0
"""Seconds after which a cluster is looked at although nothing has called for it."""

DEBOUNCE_S = 0.1
"""Seconds in which events that come together are gathered into one pass."""

MIN_BACKOFF_S, MAX_BACKOFF_S = 1.0, 60.0
"""Seconds after a failure, doubled with each further one."""

log = logging.getLogger(__name__)


class Requeue(Enum):
    """How a pass ended: ``SOON`` if there is more to see soon, since something was written or is under way."""

    AFTER_PERIOD = "well"
    SOON = "soon"
    AFTER_BACKOFF = "failed"


class WorkLoop:
    """One cluster's. ``work`` is a pass. ``alive`` is when one last ended (of ``time.monotonic``), ``marks`` how often
    somebody has called for one, ``retries`` how often one followed one that failed.
    """

    def __init__(self, reconcile: Callable[[], Awaitable[Requeue]], period: float = RESYNC_PERIOD_S) -> None:
        self._reconcile = reconcile
        self._period = period
        self._queued = asyncio.Event()
        self._stopped = asyncio.Event()
        self._soon_count = 0
        self._failures = 0
        self.enqueue_count = 0
        self.retries = 0
        self.last_completed_at = time.monotonic()

    @property
    def is_queued(self) -> bool:
        """Whether a pass has been called for that has not begun."""
        return self._queued.is_set()

    def enqueue(self) -> None:
        """There is something to look at."""
        self.enqueue_count += 1
        self._queued.set()

    def stop(self) -> None:
        """No further pass; the one under way is finished."""
        self._stopped.set()
        self._queued.set()

    async def run(self) -> None:
        """Pass after pass, until ``end``."""
        while not self._stopped.is_set():
            self._queued.clear()
            try:
                ending = await self._reconcile()
            except Exception:  # a mistake of ours must not end the loop of a cluster for good
                log.exception("a pass has failed: this is a mistake in topiarist, please report it")
                ending = Requeue.AFTER_BACKOFF
            self.last_completed_at = time.monotonic()
            self._failures = self._failures + 1 if ending is Requeue.AFTER_BACKOFF else 0
            self.retries += ending is Requeue.AFTER_BACKOFF
            self._soon_count = self._soon_count + 1 if ending is Requeue.SOON else 0
            await self._wait_for_next(ending)

    async def _wait_for_next(self, ending: Requeue) -> None:
        """Until the next pass: when something is marked, or time is up; after a failure only the latter."""
        called = self._queued
        if ending is Requeue.AFTER_BACKOFF:
            called = self._stopped
            longest = min(MIN_BACKOFF_S * 2.0 ** min(self._failures - 1, 10), MAX_BACKOFF_S) * random.uniform(0.5, 1.0)
        elif ending is Requeue.SOON:
            longest = min(DEBOUNCE_S * 1.25 ** min(self._soon_count - 1, 100), self._period)
        else:
            longest = self._period * random.uniform(0.9, 1.1)  # never all clusters at the same moment
        try:
            async with asyncio.timeout(longest):
                await called.wait()
        except TimeoutError:
            return
        if not self._stopped.is_set():
            await asyncio.sleep(DEBOUNCE_S)
