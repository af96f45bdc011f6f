"""kazoo's sockets and threads, made cheaper through the hooks that it offers, and with an end.

kazoo makes a fresh epoll object for every ``select``, calls ``recv`` twice for every reply, and wakes its thread by a
byte for every request. All together are more than half the cost of a small read, which is all that a ZooKeeper before
3.6 can do. Above stands ``session``.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import RetryFailedError

_CHUNK = 65_536


class BufferedSocket:
    """A socket that reads ahead. ``pending`` tells kazoo, as it does for TLS, that there is something to read."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ahead = memoryview(b"")
        self.fileno = socket.fileno
        self.send = socket.send

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def pending(self) -> int:
        """Bytes that ``recv`` has without asking the system; TLS has some of its own."""
        below = getattr(self._socket, "pending", None)
        return len(self._ahead) or (below() if below else 0)

    def recv(self, size: int) -> bytes:
        """At most ``size`` bytes; none means that the other side has closed."""
        if not self._ahead:
            if size >= _CHUNK:
                return self._socket.recv(size)  # type: ignore[no-any-return]
            self._ahead = memoryview(self._socket.recv(_CHUNK))
        found, self._ahead = self._ahead[:size], self._ahead[size:]
        return bytes(found)


class Bell:
    """What wakes kazoo's thread: it wants one byte for each request, and takes one after each.

    Only the first of several waiting requests needs a real byte. Every one is a system call that hands the interpreter
    to the other thread and waits to get it back.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting = 0
        self._lock = threading.Lock()
        self.fileno = reader.fileno

    def send(self, data: bytes) -> int:
        """Count a request; ring if it is the only one."""
        with self._lock:
            if not self._waiting:
                self._writer.send(b"\0")
            self._waiting += len(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Take a request off; be silent after the last one."""
        with self._lock:
            self._waiting = max(self._waiting - size, 0)
            if not self._waiting:
                self._reader.recv(1)
        return b"\0" * size

    def close(self) -> None:
        """Close both ends; kazoo asks for it twice, once for each."""
        self._reader.close()
        self._writer.close()


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads; after ``deadline`` (of the monotonic clock) no connection is made any more.

    ``patience`` is the longest, in seconds, that one server may take to accept: one that is dead must not use up the
    time of all.
    """

    def __init__(self, *, deadline: float, patience: float) -> None:
        super().__init__()
        self.deadline = deadline
        self.patience = patience
        self._polls: dict[tuple[int, ...], Any] = {}

    def create_socket_pair(self) -> tuple[Bell, Bell]:
        """The two ends of what wakes kazoo's thread."""
        bell = Bell(*super().create_socket_pair())
        return bell, bell

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """poll(2), with one poll object for each set of descriptors; what is read ahead counts as ready."""
        ahead = [ready for ready in readers if isinstance(ready, BufferedSocket) and ready.pending()]
        if ahead:
            timeout = 0
        numbers = {ready.fileno(): ready for ready in readers}
        targets = {ready.fileno(): ready for ready in writers}
        events = self._poll(tuple(numbers), tuple(targets)).poll(None if timeout is None else timeout * 1000)
        found = [numbers[number] for number, _ in events if number in numbers]
        return (
            found + [ready for ready in ahead if ready not in found],
            [targets[number] for number, _ in events if number in targets],
            [],
        )

    def _poll(self, readers: tuple[int, ...], writers: tuple[int, ...]) -> Any:
        # poll(2) keeps nothing in the kernel, so a number that was closed and used again is no trouble.
        key = (*readers, -1, *writers)
        known = self._polls.get(key)
        if known is None:
            known = self._polls[key] = select.poll()
            for number in readers:
                known.register(number, select.POLLIN)
            for number in writers:
                known.register(number, select.POLLOUT)
        return known

    def create_connection(self, *args: Any, **options: Any) -> BufferedSocket:
        """A socket to one server, unless it is too late."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise RetryFailedError("the time is over")
        options["timeout"] = min(options.get("timeout", left), left, self.patience)
        return BufferedSocket(super().create_connection(*args, **options))
