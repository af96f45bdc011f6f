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

PERIOD = 60.0
"""Seconds after which a cluster is looked at although nothing has called for it."""

GATHER = 0.1
"""Seconds in which events that come together are gathered into one pass."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds after a failure, doubled with each further one."""

log = logging.getLogger(__name__)


class Ending(Enum):
    """How a pass ended: ``SOON`` if there is more to see soon, since something was written or is under way."""

    WELL = "well"
    SOON = "soon"
    FAILED = "failed"


class Loop:
    """One cluster's. ``work`` is a pass. ``alive`` is when one last ended (of ``time.monotonic``), ``marks`` how often
    somebody has called for one, ``retries`` how often one followed one that failed.
    """

    def __init__(self, work: Callable[[], Awaitable[Ending]], period: float = PERIOD) -> None:
        self._work = work
        self._period = period
        self._marked = asyncio.Event()
        self._ended = asyncio.Event()
        self._looks = 0
        self._failures = 0
        self.marks = 0
        self.retries = 0
        self.alive = time.monotonic()

    @property
    def marked(self) -> bool:
        """Whether a pass has been called for that has not begun."""
        return self._marked.is_set()

    def mark(self) -> None:
        """There is something to look at."""
        self.marks += 1
        self._marked.set()

    def end(self) -> None:
        """No further pass; the one under way is finished."""
        self._ended.set()
        self._marked.set()

    async def run(self) -> None:
        """Pass after pass, until ``end``."""
        while not self._ended.is_set():
            self._marked.clear()
            try:
                ending = await self._work()
            except Exception:  # a mistake of ours must not end the loop of a cluster for good
                log.exception("a pass has failed: this is a mistake in topiarist, please report it")
                ending = Ending.FAILED
            self.alive = time.monotonic()
            self._failures = self._failures + 1 if ending is Ending.FAILED else 0
            self.retries += ending is Ending.FAILED
            self._looks = self._looks + 1 if ending is Ending.SOON else 0
            await self._rest(ending)

    async def _rest(self, ending: Ending) -> None:
        """Until the next pass: when something is marked, or time is up; after a failure only the latter."""
        called = self._marked
        if ending is Ending.FAILED:
            called = self._ended
            longest = min(FIRST_PAUSE * 2.0 ** min(self._failures - 1, 10), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
        elif ending is Ending.SOON:
            longest = min(GATHER * 1.25 ** min(self._looks - 1, 100), self._period)
        else:
            longest = self._period * random.uniform(0.9, 1.1)  # never all clusters at the same moment
        try:
            async with asyncio.timeout(longest):
                await called.wait()
        except TimeoutError:
            return
        if not self._ended.is_set():
            await asyncio.sleep(GATHER)
