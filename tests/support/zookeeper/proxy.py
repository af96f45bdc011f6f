"""A TCP proxy that parses ZooKeeper frames: it counts requests by kind, and breaks, delays or holds them.

It runs between clients and a real ZooKeeper. Tests use it to prove which requests were sent ("no write", "at most 140
requests") and to cause network faults at exactly the k-th write. Each direction of a connection has a thread that reads
frames and a thread that sends them, so that a delay affects only the time.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from queue import SimpleQueue
from typing import NamedTuple

from support.network.listener import Listener
from support.zookeeper.opcodes import OPERATIONS, WRITES

_BREAK = None
"""Queued behind the frames that still have to go out: then the connection breaks."""


class CutTiming(Enum):
    """The time of a cut: before the server receives a write, or after the server has answered it."""

    BEFORE = "before"
    AFTER = "after"


class _Cut(NamedTuple):
    write: int
    timing: CutTiming
    refuse: bool
    action: Callable[[], None] | None


class Connection:
    """The connection of one client: ``requests`` and ``replies`` count its frames by kind, replies by their request's
    kind.
    """

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.requests: Counter[str] = Counter()
        self.replies: Counter[str] = Counter()
        self.request_names: dict[int, str] = {}
        self.cut_at: int | None = None
        self.client = client
        self.server = server

    @property
    def writes(self) -> int:
        """Return the number of sent write requests."""
        return sum(self.requests[name] for name in WRITES)

    def close(self) -> None:
        """Break both directions at once."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy(Listener):
    """A proxy before ``upstream`` (``host:port``): ``with Proxy(server.connect) as proxy: connect_to(proxy.connect)``.

    ``delay`` (seconds) delays each frame in each direction: 0.01 makes round trips of 20 ms; ``rate`` (bytes per
    second, 0 for no limit) limits each direction of a connection. ``fired`` is set once a cut or a hold has happened,
    ``struck`` is the body of the affected write. Writes are numbered from 1, over all connections, since the start or
    ``reset``.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__()
        host, _, port = upstream.partition(":")
        self.delay = 0.0
        self.rate = 0.0
        self.faulted_write = b""
        self.is_refusing = False
        self.connections: list[Connection] = []
        self.triggered = threading.Event()
        self._upstream = (host, int(port))
        self._lock = threading.Lock()
        self._writes = 0
        self._cut: _Cut | None = None
        self._hold: tuple[int, Callable[[], None]] | None = None
        self._failures: list[Exception] = []
        self.connect = f"127.0.0.1:{self.port}"

    @property
    def requests(self) -> Counter[str]:
        """Return all requests since the last reset, by kind."""
        with self._lock:
            return sum((connection.requests for connection in self.connections), Counter())

    @property
    def writes(self) -> int:
        """Return all write requests since the last reset."""
        return sum(self.requests[name] for name in WRITES)

    def through(self, connect: str) -> str:
        """Return the connect string of the chroot of ``connect`` through this proxy."""
        _, slash, chroot = connect.partition("/")
        return self.connect + slash + chroot

    def reset(self) -> None:
        """Reset all counts and requested faults; accept connections again."""
        with self._lock:
            self._writes, self._cut, self._hold, self.delay, self.is_refusing = 0, None, None, 0.0, False
            self.rate, self.faulted_write = 0.0, b""
            self.triggered.clear()
            for connection in self.connections:
                connection.requests.clear()
                connection.replies.clear()

    def cut(
        self, write: int, timing: CutTiming, *, refuse: bool = False, action: Callable[[], None] | None = None
    ) -> None:
        """Break the connection of the given write; with ``refuse`` also refuse new connections until ``reset``.

        ``action`` runs at that moment, before the client can detect the cut. Its exception is raised again as for
        ``hold``.
        """
        self._cut = _Cut(write, timing, refuse, action)

    def hold(self, write: int, action: Callable[[], None]) -> None:
        """Run ``action`` before the proxy forwards the given write; later requests of the client wait too.

        An exception of the action is raised again when the proxy ends.
        """
        self._hold = (write, action)

    def drop(self) -> None:
        """Break every open connection."""
        for connection in list(self.connections):
            connection.close()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._failures:
            raise self._failures[0]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.is_refusing:
                    raise ConnectionRefusedError
                server = socket.create_connection(self._upstream)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._serve_connection(Connection(client, server))

    def _serve_connection(self, connection: Connection) -> None:
        with self._lock:
            self.connections.append(connection)
        ways = (
            (connection.client, connection.server, self._request),
            (connection.server, connection.client, self._reply),
        )
        for source, target, inspect in ways:
            frames: SimpleQueue[tuple[float, bytes] | None] = SimpleQueue()
            self._start(self._read, connection, source, frames, inspect)
            self._start(self._send, connection, target, frames)

    def _read(
        self,
        connection: Connection,
        source: socket.socket,
        frames: SimpleQueue[tuple[float, bytes] | None],
        inspect: Callable[[Connection, bytes, bool], bool],
    ) -> None:
        """Read frames from one end until it closes or ``inspect`` requests a break of the connection."""
        first = True
        with suppress(OSError), source.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                body = stream.read(struct.unpack("!i", head)[0])
                if not inspect(connection, body, first):
                    break
                frames.put((time.monotonic() + self.delay, head + body))
                first = False
        frames.put(_BREAK)

    def _send(
        self, connection: Connection, target: socket.socket, frames: SimpleQueue[tuple[float, bytes] | None]
    ) -> None:
        """Send frames when they are due; the end of the queue ends the connection."""
        with suppress(OSError):
            while (entry := frames.get()) is not _BREAK:
                due, frame = entry
                time.sleep(max(0.0, due - time.monotonic()))
                target.sendall(frame)
                if self.rate:
                    time.sleep(len(frame) / self.rate)
        connection.close()

    def _request(self, connection: Connection, body: bytes, first: bool) -> bool:
        if first:
            with self._lock:
                connection.requests["connect"] += 1
            return True
        xid, opcode = struct.unpack_from("!ii", body)
        name = OPERATIONS.get(opcode, f"opcode {opcode}")
        with self._lock:
            connection.requests[name] += 1
            connection.request_names[xid] = name
        return name not in WRITES or self._write(connection, xid, body)

    def _write(self, connection: Connection, xid: int, body: bytes) -> bool:
        """Number a write and inject its requested fault; return False if the connection breaks before the write."""
        with self._lock:
            self._writes += 1
            held = self._hold and self._hold[0] == self._writes and self._hold[1]
            cut = self._cut if self._cut and self._cut.write == self._writes else None
            if held or cut:
                self.faulted_write = body
        if held:
            self._run_action(held)
        if cut and cut.timing is CutTiming.AFTER:
            connection.cut_at = xid
        elif cut:
            self._trigger(cut)
            return False
        return True

    def _reply(self, connection: Connection, body: bytes, first: bool) -> bool:
        xid = struct.unpack_from("!i", body)[0]
        with self._lock:
            name = "connect" if first else connection.request_names.pop(xid, "event")
            connection.replies[name] += 1
        if self._cut and not first and xid == connection.cut_at:
            self._trigger(self._cut)
            return False
        return True

    def _run_action(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._failures.append(error)
        self.triggered.set()

    def _trigger(self, cut: _Cut) -> None:
        self.is_refusing = self.is_refusing or cut.refuse
        if cut.action:
            self._run_action(cut.action)
        self.triggered.set()
