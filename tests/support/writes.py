"""The writes of one process to ZooKeeper and to the API server, in their order, and its end at one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.kuberelay import Asked
from support.opcodes import WRITES


class Writes:
    """Hear of writes from the relays on both ways; ``seen`` are their kinds."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fired = threading.Event()
        self._lock = threading.Lock()
        self._target = ("", 0)
        self._kill: Callable[[], None] = lambda: None

    def strike(self, kind: str, at: int, kill: Callable[[], None]) -> None:
        """Call ``kill`` before the write of this kind and number, from 1, goes on; neither it nor any after it does.

        The order of writes to two servers differs from run to run. So a write is named by its number among those of its
        kind: the write of a number among all may be of another kind in every run, and some kind is never struck.
        """
        self._target, self._kill = (kind, at), kill

    def spare(self) -> None:
        """Count from the beginning, and strike no more."""
        self.seen, self._target = [], ("", 0)
        self.fired.clear()

    def zookeeper(self, kind: str) -> bool:
        """Whether a request of this kind may go on to ZooKeeper."""
        return kind not in WRITES or self._next(kind)

    def api(self, _number: int, asked: Asked) -> bool:
        """Whether a write may go on to the API server."""
        return self._next(asked.kind)

    def _next(self, kind: str) -> bool:
        with self._lock:
            if not self.fired.is_set():
                self.seen.append(kind)
                if (kind, self.seen.count(kind)) == self._target:
                    self._kill()
                    self.fired.set()
            return not self.fired.is_set()
