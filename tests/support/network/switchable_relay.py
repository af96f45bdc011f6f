"""A way to a server that can be shut: with a bang, as by a server that has gone, or in silence, as by a lost route."""

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
        """Break every connection, and let nobody in."""
        self._refusing = True
        self.drop()

    def blackhole(self) -> None:
        """Keep every connection and take new ones, and hand on nothing."""
        self._flowing.clear()

    def restore(self) -> None:
        """Let everybody in; connections that nothing came through have ended on the other side."""
        if not self._flowing.is_set():
            self.drop()
        self._refusing = False
        self._flowing.set()

    def serve(self, client: socket.socket) -> None:
        """Hand on until one side closes."""
        if self._refusing:
            client.close()
            return
        super().serve(client)

    def wait_to_forward(self) -> None:
        """Wait while there is silence."""
        self._flowing.wait()

    def __exit__(self, *_: object) -> None:
        self._flowing.set()
        super().__exit__()
