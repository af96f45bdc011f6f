"""A token endpoint for client credentials (RFC 6749), over HTTP or HTTPS, with tokens for test brokers.

Tokens are unsigned, or signed by an issuer's key. A client proves itself by its secret, or by a statement that its key
has signed.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from support.secret_scanner import register_secret


class SigningKey:
    """A key that signs and verifies JSON web tokens: ``RS256`` or ``ES256``."""

    def __init__(self, key_id: str, kind: str = "RS256") -> None:
        self.key_id, self.kind = key_id, kind
        self._private: Any = (
            rsa.generate_private_key(65_537, 2048) if kind == "RS256" else ec.generate_private_key(ec.SECP256R1())
        )

    def private_pem(self) -> str:
        """Return the private key in PEM form; its text is planted."""
        text: bytes = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        register_secret(text.decode().splitlines()[2])
        return text.decode()

    def published(self) -> dict[str, Any]:
        """Return the public part as a set of JSON web keys (RFC 7517); for RSA keys only."""
        numbers = self._private.public_key().public_numbers()
        sizes = {"n": 256, "e": 3}
        fields = {name: _base64url(getattr(numbers, name).to_bytes(size, "big")) for name, size in sizes.items()}
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.key_id, **fields}]}

    def sign(self, subject: str, *, lifetime: float, audience: str = "kafka", is_planted: bool = True) -> str:
        """Return a token of the issuer ``https://issuer.test``; it is planted, unless a process is to print it."""
        now = time.time()
        claims = {"iss": "https://issuer.test", "aud": audience, "sub": subject, "scope": "kafka"}
        parts = ({"alg": self.kind, "kid": self.key_id}, {**claims, "iat": int(now), "exp": int(now + lifetime)})
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        signature = self._private.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_base64url(signature)}"
        return register_secret(token) if is_planted else token

    def claims_of(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that this key has signed; raise ``InvalidSignature``."""
        signed, _, signature = token.rpartition(".")
        header, claims = (json.loads(_decode(part)) for part in signed.split("."))
        assert (header["alg"], header["kid"]) == (self.kind, self.key_id)
        found, public = _decode(signature), self._private.public_key()
        if self.kind == "RS256":
            public.verify(found, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        else:
            numbers = (int.from_bytes(part, "big") for part in (found[:32], found[32:]))
            public.verify(utils.encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(hashes.SHA256()))
        return dict(claims)


class TokenServer:
    """A server on the loopback interface until the ``with`` block ends; it accepts one client id with its secret.

    ``requests`` counts the requests. ``lifetime`` is the lifetime of the tokens in seconds. ``answer`` replaces the
    answer by a status and a body. With ``issuer`` the tokens are signed, with ``client_key`` that key replaces the
    secret.
    """

    def __init__(
        self,
        client_id: str,
        secret: str,
        certificate: Path | None = None,
        *,
        issuer: SigningKey | None = None,
        client_key: SigningKey | None = None,
    ) -> None:
        self.client_id, self.secret = client_id, secret
        self.issuer, self.client_key = issuer, client_key
        self.requests = 0
        self.lifetime = 3600.0
        self.answer: tuple[int, bytes] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.requests += 1
                given = self.rfile.read(int(self.headers["Content-Length"])).decode()
                fields = dict(urllib.parse.parse_qsl(given))
                status, body = server.answer or server.respond(self.headers.get("Authorization", ""), fields)
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

    def respond(self, authorization: str, fields: dict[str, str]) -> tuple[int, bytes]:
        """Return the status and the body for a request with this login."""
        if refusal := self._refuse(authorization, fields):
            return 401, json.dumps({"error": "invalid_client", "error_description": refusal}).encode()
        token = unsigned_token(self.client_id, self.lifetime)
        if self.issuer:
            audience = fields.get("audience", "none")
            token = self.issuer.sign(self.client_id, lifetime=self.lifetime, audience=audience)
        return 200, json.dumps({"access_token": token, "expires_in": self.lifetime}).encode()

    def _refuse(self, authorization: str, fields: dict[str, str]) -> str:
        """Return why a client is refused; empty if it has proved itself."""
        if self.client_key is None:
            wanted = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
            return "" if authorization == f"Basic {wanted}" else "no such client"
        try:
            claims = self.client_key.claims_of(fields["client_assertion"])
        except InvalidSignature:
            return "wrong signature"
        wanted_claims = {"iss": self.client_id, "sub": self.client_id, "aud": self.url}
        is_valid = claims.items() >= wanted_claims.items() and claims["iat"] <= time.time() < claims["exp"]
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        return "" if is_valid and fields["client_assertion_type"] == kind and not authorization else "wrong statement"

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
    return ".".join(_base64url(json.dumps(part).encode()) for part in parts) + "."


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
