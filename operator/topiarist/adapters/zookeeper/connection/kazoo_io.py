"""Buffered sockets and threads for kazoo, with a deadline for connections.

kazoo creates an epoll object for every ``select``, calls ``recv`` twice for every reply and ``send`` once for every
request, and wakes its thread by a byte for every request. Together these calls are most of the cost of a small request:
a transaction, or a read from a ZooKeeper before 3.6. The classes here use kazoo's hooks to send waiting requests
together.
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
    """A socket that reads ahead and buffers writes until ``flush``.

    ``pending`` tells kazoo, as for a TLS socket, that there are bytes to read. ``has_received`` is True once bytes were
    read, ``is_http`` is True if they were the reply of a web server. Only kazoo's thread uses the socket.
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
        """Return True if the write buffer has reached its limit and must be flushed."""
        return len(self._write_buffer) >= _BUFFER_BYTES

    def pending(self) -> int:
        """Return the number of bytes that ``recv`` returns without a system call, a TLS socket's own included."""
        return len(self._read_buffer) or (self._inner_pending() if self._inner_pending else 0)

    def recv(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none means that the server has closed the connection."""
        if not self._read_buffer:
            if size >= _BUFFER_BYTES:
                return self._socket.recv(size)  # type: ignore[no-any-return]
            self._read_buffer = memoryview(self._socket.recv(_BUFFER_BYTES))
            if self._read_buffer and not self.has_received:
                self.has_received, self.is_http = True, bytes(self._read_buffer[:5]) == b"HTTP/"
        data, self._read_buffer = self._read_buffer[:size], self._read_buffer[size:]
        return bytes(data)

    def send(self, data: bytes) -> int:
        """Buffer all of ``data``; the next ``flush`` sends it."""
        self._write_buffer += data
        return len(data)

    def flush(self, timeout: float | None) -> None:
        """Send the buffered bytes; raise ``TimeoutError`` if the server accepts none for ``timeout`` seconds."""
        if not self._write_buffer:
            return
        unsent, self._write_buffer = memoryview(bytes(self._write_buffer)), bytearray()
        while unsent:
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_ready(select.POLLOUT, timeout)
            except ssl.SSLWantReadError:
                self._wait_ready(select.POLLIN, timeout)

    def _wait_ready(self, event: int, timeout: float | None) -> None:
        poll = select.poll()
        poll.register(self.fileno(), event)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise TimeoutError("the server accepts no more requests")


class WakeupPipe:
    """The pipe that wakes kazoo's thread: kazoo writes one byte for each request and reads one after each.

    Only the first of several waiting requests needs a real byte. Every byte is a system call that hands the interpreter
    to the other thread and waits to get it back.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._pending_count = 0
        self._lock = threading.Lock()
        self.fileno = reader.fileno

    def pending(self) -> int:
        """Return the number of waiting requests."""
        return self._pending_count

    def send(self, data: bytes) -> int:
        """Count a request; write a byte if it is the only one."""
        with self._lock:
            if not self._pending_count:
                self._writer.send(b"\0")
            self._pending_count += len(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Count a request as taken; read the byte after the last one."""
        with self._lock:
            self._pending_count = max(self._pending_count - size, 0)
            if not self._pending_count:
                self._reader.recv(1)
        return b"\0" * size

    def close(self) -> None:
        """Close both ends; kazoo calls this twice, once for each end."""
        self._reader.close()
        self._writer.close()


class BufferedHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threading handler, with buffered sockets and a deadline.

    After ``connect_deadline`` (of the monotonic clock) no connection is made. ``connect_timeout`` is the longest, in
    seconds, that one server may take to accept, so that an offline server does not use up the time for all.
    ``authenticator`` makes the connections. ``has_given_up`` is True once the authenticator has tried every server,
    ``is_http`` is True if a web server has answered.
    """

    def __init__(self, authenticator: Authenticator, *, connect_deadline: float, connect_timeout: float) -> None:
        super().__init__()
        self.has_given_up = self.is_http = False
        self.connect_deadline = connect_deadline
        self.connect_timeout = connect_timeout
        self._authenticator = authenticator
        self._last_sockets: dict[Any, BufferedSocket] = {}
        self._polls: dict[tuple[int, ...], Any] = {}

    def create_socket_pair(self) -> tuple[WakeupPipe, WakeupPipe]:
        """Return the pipe that wakes kazoo's thread, as both ends."""
        pipe = WakeupPipe(*super().create_socket_pair())
        return pipe, pipe

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the readers and writers that are ready; flush buffered writes before a wait.

        While there are requests to send or bytes to read, no system call is made. Otherwise poll(2) is used, with one
        poll object for each set of descriptors. A socket is always ready for a write, because writes are buffered.
        """
        if writers:
            return [], list(writers), []
        ready = [reader for reader in readers if reader.pending()]
        sockets = [reader for reader in readers if isinstance(reader, BufferedSocket)]
        if ready and not any(reader.is_full for reader in sockets):
            return ready, [], []
        for reader in sockets:
            reader.flush(timeout)
        by_descriptor = {reader.fileno(): reader for reader in readers}
        # poll(2), unlike epoll, keeps no state in the kernel: a descriptor that was closed and reused needs no update.
        poll = self._polls.get(tuple(by_descriptor))
        if poll is None:
            poll = self._polls[tuple(by_descriptor)] = select.poll()
            for number in by_descriptor:
                poll.register(number, select.POLLIN)
        events = poll.poll(0 if ready else None if timeout is None else timeout * 1000)
        return ready + [by_descriptor[number] for number, _ in events if by_descriptor[number] not in ready], [], []

    def create_connection(self, address: Any, hostname: str, timeout: float, **_options: Any) -> BufferedSocket:
        """Return a socket to one server.

        Raises ``RetryFailedError`` after the deadline, or if every server has refused the credentials.
        """
        remaining_s = self.connect_deadline - time.monotonic()
        if remaining_s <= 0:
            raise RetryFailedError("the connect timeout is over")
        previous = self._last_sockets.pop(address, None)
        no_response = previous is not None and not previous.has_received
        self.is_http = self.is_http or (previous is not None and previous.is_http)
        try:
            connection = self._authenticator.connect(
                address, hostname, min(timeout, remaining_s, self.connect_timeout), no_response
            )
        except RetryFailedError:
            self.has_given_up = True
            raise
        self._last_sockets[address] = BufferedSocket(connection)
        return self._last_sockets[address]
