"""A listener for webhooks: keeps each request, and answers with a status and a text."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """A request: its path, its headers by name in small letters, and its body from JSON."""

    path: str
    headers: dict[str, str]
    body: Any


class Listener:
    """A server on a free port of this machine. ``answers`` are used up from the first; then each is 200."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[tuple[int, str]] = []
        self.answered = threading.Event()
        self.answered.set()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                listener.received.append(Received(self.path, headers, json.loads(body)))
                listener.answered.wait()
                status, text = listener.answers.pop(0) if listener.answers else (200, "ok")
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                with suppress(ConnectionError):  # who waited for a silent listener has gone
                    self.end_headers()
                    self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serve(self) -> Iterator[Listener]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.answered.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()
