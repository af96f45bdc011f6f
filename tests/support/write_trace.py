"""The ordered writes of one process to ZooKeeper and to the API server, and a kill at one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.kubernetes.relay import WriteRequest
from support.zookeeper.opcodes import WRITES


class WriteTrace:
    """A listener of both relays that records writes; ``seen`` are their kinds."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.triggered = threading.Event()
        self._lock = threading.Lock()
        self._target = ("", 0)
        self._kill: Callable[[], None] = lambda: None

    def kill_before_write(self, kind: str, at: int, kill: Callable[[], None]) -> None:
        """Call ``kill`` before the relay forwards the write of this kind and number, from 1.

        The relay forwards neither this write nor any later write. The order of writes to two servers differs between
        runs. So a test names a write by its number within its kind: the number among all writes can be of another kind
        in every run, and then some kinds are never killed.
        """
        self._target, self._kill = (kind, at), kill

    def reset(self) -> None:
        """Reset the counts and stop killing."""
        self.kinds, self._target = [], ("", 0)
        self.triggered.clear()

    def allow_zookeeper_request(self, kind: str) -> bool:
        """Return True if a request of this kind may be forwarded to ZooKeeper."""
        return kind not in WRITES or self._record_and_check(kind)

    def allow_api_write(self, _number: int, asked: WriteRequest) -> bool:
        """Return True if a write may be forwarded to the API server."""
        return self._record_and_check(asked.kind)

    def _record_and_check(self, kind: str) -> bool:
        with self._lock:
            if not self.triggered.is_set():
                self.kinds.append(kind)
                if (kind, self.kinds.count(kind)) == self._target:
                    self._kill()
                    self.triggered.set()
            return not self.triggered.is_set()
