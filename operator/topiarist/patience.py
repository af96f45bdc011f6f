"""When to look again at what a controller does by itself, and when to give up.

Used by whoever waits for one: ``apply --wait`` and the operator's passes. The longer nothing has come, the longer are
the pauses between two looks; time is up when nothing has moved on for so long, however much there is to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SLICE, _FIRST, _LONGEST = 0.1, 0.02, 2.0
_LONGER = 1.25
"""So many times as long as the last is a pause: an end is noticed at most a quarter later than it came."""
_SHARE = 4
"""So many times as long as a look takes nobody looks again: ZooKeeper has others to answer."""


class Patience:
    """``timeout`` seconds from the last thing that moved on; ``stop`` cuts every pause short."""

    def __init__(self, timeout: float, stop: Callable[[], bool]) -> None:
        self._timeout = timeout
        self._stop = stop
        self._pause = _FIRST
        self.renew()

    def renew(self) -> None:
        """Something has moved on."""
        self._end = time.monotonic() + self._timeout

    def worn(self, look: Callable[[], bool]) -> bool:
        """Pause and look once, and say whether to give up; ``look`` gives whether anything has moved on. Nobody looks
        if somebody wants to stop.
        """
        self.pause()
        if self._stop():
            return False
        since = time.monotonic()
        progress = look()
        self.looked(progress=progress, since=since)
        return self.over and not progress

    def looked(self, *, progress: bool, since: float) -> None:
        """A look that began at ``since`` is over."""
        pause, took = _LONGER * self._pause, time.monotonic() - since
        if progress:
            self.renew()
            pause = _FIRST
        self._pause = min(max(pause, _SHARE * took), _LONGEST)

    @property
    def over(self) -> bool:
        """Whether to give up."""
        return time.monotonic() >= self._end

    def pause(self) -> None:
        """Until it is worth looking again: longer each time, not beyond the end, and not if somebody wants to stop."""
        until = min(time.monotonic() + self._pause, self._end)
        while not self._stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE))
