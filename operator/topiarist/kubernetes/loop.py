"""The passes of one cluster: one when something has changed, one when the period is over, with a pause after a failure.

Each cluster has a loop of its own, so that one which fails keeps no other waiting. What a pass sees and does in
ZooKeeper happens in a thread; everything about the store and the API server in the event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

PERIOD = 60.0
"""Seconds after which a cluster is looked at although nothing has called for it."""

GATHER = 0.1
"""Seconds in which events that come together are gathered into one pass."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds after a failure, doubled with each further one."""


class Loop:
    """One cluster's. ``work`` is a pass: whether it went well, and whether there is more to see soon."""

    def __init__(self, work: Callable[[], Awaitable[tuple[bool, bool]]], period: float = PERIOD) -> None:
        self._work = work
        self._period = period
        self._marked = asyncio.Event()
        self._failures = 0
        self.alive = time.monotonic()

    def mark(self) -> None:
        """There is something to look at."""
        self._marked.set()

    async def run(self) -> None:
        """Pass after pass, until cancelled."""
        while True:
            self._marked.clear()
            well, soon = await self._work()
            self.alive = time.monotonic()
            self._failures = 0 if well else self._failures + 1
            if not well:
                await asyncio.sleep(self._pause())
            elif soon:
                await asyncio.sleep(GATHER)
            else:
                await self._wait()

    async def _wait(self) -> None:
        """Until something is marked, or the period is over: never all clusters at the same moment."""
        try:
            async with asyncio.timeout(self._period * random.uniform(0.9, 1.1)):
                await self._marked.wait()
        except TimeoutError:
            return
        await asyncio.sleep(GATHER)

    def _pause(self) -> float:
        longest = min(FIRST_PAUSE * 2.0 ** (self._failures - 1), LONGEST_PAUSE)
        return longest * random.uniform(0.5, 1.0)
