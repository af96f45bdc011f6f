"""kazoo's sockets and threads, made cheaper through the hooks that it offers, and with an end.

kazoo makes a fresh epoll object for every ``select``, calls ``recv`` twice for every reply and ``send`` once for every
request, and wakes its thread by a byte for every request. All together are most of the cost of a small request: a
transaction, or a read from a ZooKeeper before 3.6. Here requests that wait together leave together. Above stands
``session``.
"""

from __future__ import annotations

import select
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import RetryFailedError

from topiarist.adapters.zookeeper.connection.authentication import Authenticator

_BUFFER_BYTES = 65_536


class BufferedSocket:
    """A socket that reads ahead and holds back what is sent until ``flush``.

    ``pending`` tells kazoo, as it does for TLS, that there is something to read. ``heard`` is whether anything was
    read, ``http`` whether that was the answer of a web server. Only kazoo's thread uses it.
    """

    def __init__(self, socket: Any) -> None:
        self.has_received = self.is_http = False
        self._socket = socket
        self._read_buffer = memoryview(b"")
        self._write_buffer = bytearray()
        self._inner_pending = getattr(socket, "pending", None)
        self.fileno = socket.fileno

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    @property
    def is_full(self) -> bool:
        """Whether so much is held back that it has to leave."""
        return len(self._write_buffer) >= _BUFFER_BYTES

    def pending(self) -> int:
        """Bytes that ``recv`` has without asking the system; TLS has some of its own."""
        return len(self._read_buffer) or (self._inner_pending() if self._inner_pending else 0)

    def recv(self, size: int) -> bytes:
        """At most ``size`` bytes; none means that the other side has closed."""
        if not self._read_buffer:
            if size >= _BUFFER_BYTES:
                return self._socket.recv(size)  # type: ignore[no-any-return]
            self._read_buffer = memoryview(self._socket.recv(_BUFFER_BYTES))
            if self._read_buffer and not self.has_received:
                self.has_received, self.is_http = True, bytes(self._read_buffer[:5]) == b"HTTP/"
        found, self._read_buffer = self._read_buffer[:size], self._read_buffer[size:]
        return bytes(found)

    def send(self, data: bytes) -> int:
        """Take all of ``data``; it leaves with the next ``flush``."""
        self._write_buffer += data
        return len(data)

    def flush(self, timeout: float | None) -> None:
        """Let go what is held back; ``TimeoutError`` if the other side takes nothing for ``timeout`` seconds."""
        if not self._write_buffer:
            return
        rest, self._write_buffer = memoryview(bytes(self._write_buffer)), bytearray()
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_ready(select.POLLOUT, timeout)
            except ssl.SSLWantReadError:
                self._wait_ready(select.POLLIN, timeout)

    def _wait_ready(self, event: int, timeout: float | None) -> None:
        poll = select.poll()
        poll.register(self.fileno(), event)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise TimeoutError("the server takes no more requests")


class WakeupPipe:
    """What wakes kazoo's thread: it wants one byte for each request, and takes one after each.

    Only the first of several waiting requests needs a real byte. Every one is a system call that hands the interpreter
    to the other thread and waits to get it back.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._pending_count = 0
        self._lock = threading.Lock()
        self.fileno = reader.fileno

    def pending(self) -> int:
        """How many requests wait."""
        return self._pending_count

    def send(self, data: bytes) -> int:
        """Count a request; ring if it is the only one."""
        with self._lock:
            if not self._pending_count:
                self._writer.send(b"\0")
            self._pending_count += len(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Take a request off; be silent after the last one."""
        with self._lock:
            self._pending_count = max(self._pending_count - size, 0)
            if not self._pending_count:
                self._reader.recv(1)
        return b"\0" * size

    def close(self) -> None:
        """Close both ends; kazoo asks for it twice, once for each."""
        self._reader.close()
        self._writer.close()


class BufferedHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads; after ``deadline`` (of the monotonic clock) no connection is made any more.

    ``patience`` is the longest, in seconds, that one server may take to accept: one that is dead must not use up the
    time of all. ``entry`` makes the connections; ``given_up`` is whether it has said that there is no way in. ``http``
    is whether a web server has answered.
    """

    def __init__(self, authenticator: Authenticator, *, connect_deadline: float, connect_timeout: float) -> None:
        super().__init__()
        self.has_given_up = self.is_http = False
        self._authenticator = authenticator
        self._last_sockets: dict[Any, BufferedSocket] = {}
        self.connect_deadline = connect_deadline
        self.connect_timeout = connect_timeout
        self._polls: dict[tuple[int, ...], Any] = {}

    def create_socket_pair(self) -> tuple[WakeupPipe, WakeupPipe]:
        """The two ends of what wakes kazoo's thread."""
        bell = WakeupPipe(*super().create_socket_pair())
        return bell, bell

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """What is ready, without asking the system while there is work; before a wait, what is held back leaves.

        Asking is poll(2), with one poll object for each set of descriptors. A socket is always ready to be written: it
        holds back what it is given.
        """
        if writers:
            return [], list(writers), []
        ready = [one for one in readers if one.pending()]
        sockets = [one for one in readers if isinstance(one, BufferedSocket)]
        if ready and not any(one.is_full for one in sockets):
            return ready, [], []
        for one in sockets:
            one.flush(timeout)
        numbers = {one.fileno(): one for one in readers}
        events = self._poll(tuple(numbers)).poll(0 if ready else None if timeout is None else timeout * 1000)
        return ready + [numbers[number] for number, _ in events if numbers[number] not in ready], [], []

    def _poll(self, readers: tuple[int, ...]) -> Any:
        # poll(2) keeps nothing in the kernel, so a number that was closed and used again is no trouble.
        known = self._polls.get(readers)
        if known is None:
            known = self._polls[readers] = select.poll()
            for number in readers:
                known.register(number, select.POLLIN)
        return known

    def create_connection(self, address: Any, hostname: str, timeout: float, **_options: Any) -> BufferedSocket:
        """A socket to one server, unless it is too late."""
        left = self.connect_deadline - time.monotonic()
        if left <= 0:
            raise RetryFailedError("the time is over")
        last = self._last_sockets.pop(address, None)
        silent = last is not None and not last.has_received
        self.is_http = self.is_http or (last is not None and last.is_http)
        try:
            found = self._authenticator.connect(address, hostname, min(timeout, left, self.connect_timeout), silent)
        except RetryFailedError:
            self.has_given_up = True
            raise
        self._last_sockets[address] = BufferedSocket(found)
        return self._last_sockets[address]
