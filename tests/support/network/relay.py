"""Two substitutes for a server: a relay with breakable connections, and an impostor with any certificate."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from support.network.listener import Listener


class Relay(Listener):
    """A relay that forwards all bytes to ``upstream``; ``served`` counts connections."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__()
        self.connection_count = 0
        self._upstream = upstream
        self._ends: list[socket.socket] = []

    def drop(self) -> None:
        """Break every open connection."""
        for end in list(self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve(self, client: socket.socket) -> None:
        """Forward bytes until one side closes."""
        with client, socket.create_connection(self._upstream) as server:
            self.connection_count += 1
            self._ends += [client, server]
            back = threading.Thread(target=forward, args=(server, client, self.wait_to_forward), daemon=True)
            back.start()
            forward(client, server, self.wait_to_forward)
            back.join()

    def wait_to_forward(self) -> None:
        """Return when the next bytes may be forwarded."""


def forward(source: socket.socket, target: socket.socket, wait_to_forward: Callable[[], object] = lambda: None) -> None:
    """Forward bytes between both ends until one closes; ``wait_to_forward`` returns when the next may be forwarded."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            wait_to_forward()
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Impostor(Listener):
    """A server that presents a certificate (a PEM file with its key) to every client and then sends nothing."""

    def __init__(self, certificate: Path) -> None:
        super().__init__()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)

    def serve(self, client: socket.socket) -> None:
        """Perform the handshake."""
        with client, suppress(OSError), self._context.wrap_socket(client, server_side=True) as wrapped:
            wrapped.recv(1)
