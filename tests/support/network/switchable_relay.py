"""A relay to a server that can break like a stopped server, or lose all packets like a lost route."""

from __future__ import annotations

import socket
import threading

from support.network.relay import Relay


class SwitchableRelay(Relay):
    """A relay that is open until ``shut`` or ``hush``, and again after ``open``."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(upstream)
        self._refusing = False
        self._flowing = threading.Event()
        self._flowing.set()

    def refuse_connections(self) -> None:
        """Break every connection and refuse new connections."""
        self._refusing = True
        self.drop()

    def blackhole(self) -> None:
        """Keep every connection, accept new connections, and forward nothing."""
        self._flowing.clear()

    def restore(self) -> None:
        """Accept all connections again; connections without traffic have ended on the other side."""
        if not self._flowing.is_set():
            self.drop()
        self._refusing = False
        self._flowing.set()

    def serve(self, client: socket.socket) -> None:
        """Forward bytes until one side closes."""
        if self._refusing:
            client.close()
            return
        super().serve(client)

    def wait_to_forward(self) -> None:
        """Wait while the relay forwards nothing."""
        self._flowing.wait()

    def __exit__(self, *_: object) -> None:
        self._flowing.set()
        super().__exit__()
