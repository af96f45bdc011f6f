"""A token endpoint for client credentials (RFC 6749), over HTTP or HTTPS, with unsigned tokens for test brokers."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class TokenServer:
    """A server on the loopback interface until the ``with`` block ends; it accepts one client id with its secret.

    ``requests`` counts the requests. ``lifetime`` is the lifetime of the tokens in seconds. ``answer`` replaces the
    answer by a status and a body.
    """

    def __init__(self, client_id: str, secret: str, certificate: Path | None = None) -> None:
        self.client_id, self.secret = client_id, secret
        self.requests = 0
        self.lifetime = 3600.0
        self.answer: tuple[int, bytes] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.requests += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = server.answer or server.respond(self.headers.get("Authorization", ""))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", body.decode())
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The address of the endpoint."""
        return f"{self.scheme}://127.0.0.1:{self._server.server_address[1]}/token"

    def respond(self, authorization: str) -> tuple[int, bytes]:
        """Return the status and the body for a request with this login."""
        wanted = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
        if authorization != f"Basic {wanted}":
            return 401, json.dumps({"error": "invalid_client", "error_description": "no such client"}).encode()
        token = unsigned_token(self.client_id, self.lifetime)
        return 200, json.dumps({"access_token": token, "expires_in": self.lifetime}).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def unsigned_token(subject: str, lifetime: float) -> str:
    """Return an unsigned JSON web token."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
