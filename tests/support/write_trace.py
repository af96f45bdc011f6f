"""The writes of one process to ZooKeeper and to the API server, in their order, and its end at one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.kubernetes.relay import WriteRequest
from support.zookeeper.opcodes import WRITES


class WriteTrace:
    """Hear of writes from the relays on both ways; ``seen`` are their kinds."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.triggered = threading.Event()
        self._lock = threading.Lock()
        self._target = ("", 0)
        self._kill: Callable[[], None] = lambda: None

    def kill_before_write(self, kind: str, at: int, kill: Callable[[], None]) -> None:
        """Call ``kill`` before the write of this kind and number, from 1, goes on; neither it nor any after it does.

        The order of writes to two servers differs from run to run. So a write is named by its number among those of its
        kind: the write of a number among all may be of another kind in every run, and some kind is never struck.
        """
        self._target, self._kill = (kind, at), kill

    def reset(self) -> None:
        """Count from the beginning, and strike no more."""
        self.kinds, self._target = [], ("", 0)
        self.triggered.clear()

    def allow_zookeeper_request(self, kind: str) -> bool:
        """Whether a request of this kind may go on to ZooKeeper."""
        return kind not in WRITES or self._record_and_check(kind)

    def allow_api_write(self, _number: int, asked: WriteRequest) -> bool:
        """Whether a write may go on to the API server."""
        return self._record_and_check(asked.kind)

    def _record_and_check(self, kind: str) -> bool:
        with self._lock:
            if not self.triggered.is_set():
                self.kinds.append(kind)
                if (kind, self.kinds.count(kind)) == self._target:
                    self._kill()
                    self.triggered.set()
            return not self.triggered.is_set()
