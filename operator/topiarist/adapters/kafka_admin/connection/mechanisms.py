"""The messages of SASL mechanisms: PLAIN (RFC 4616), SCRAM (RFC 5802 and 7677) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

MAX_ITERATIONS = 1_000_000
"""Most iterations of a SCRAM password: more would keep this process busy for a server that is not the right one."""


class Exchange(Protocol):
    """The messages of one login. ``receive`` raises ``ValueError`` or ``KeyError`` for an answer that is not right."""

    def auth_bytes(self) -> bytes:
        """Return the next message to send."""

    def receive(self, data: bytes) -> None:
        """Take the answer to the last message."""

    def is_done(self) -> bool:
        """Return whether the exchange has ended."""

    def is_authenticated(self) -> bool:
        """Return whether it ended as the mechanism says."""


class OneMessage:
    """A mechanism with one message, to which the right answer is empty."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._answer: bytes | None = None

    def auth_bytes(self) -> bytes:
        """Return the message."""
        return self._message

    def receive(self, data: bytes) -> None:
        """Take the answer."""
        self._answer = data

    def is_done(self) -> bool:
        """Return whether there was an answer."""
        return self._answer is not None

    def is_authenticated(self) -> bool:
        """Return whether the answer was empty."""
        return self._answer == b""


def make_plain(username: str, password: str) -> OneMessage:
    """Return the exchange of PLAIN, in which the user acts for itself."""
    return OneMessage(f"{username}\0{username}\0{password}".encode())


class OAuthBearer:
    """The exchange of OAUTHBEARER. An answer that is not empty is an error, which a message of its own confirms."""

    def __init__(self, token: str, extensions: Mapping[str, str] = MappingProxyType({})) -> None:
        fields = "".join(f"\x01{key}={value}" for key, value in extensions.items())
        self._message = f"n,,\x01auth=Bearer {token}{fields}\x01\x01".encode()
        self._is_done = False

    def auth_bytes(self) -> bytes:
        """Return the token, or the confirmation of an error."""
        return self._message

    def receive(self, data: bytes) -> None:
        """Take the answer: empty, or an error."""
        if data:
            data.decode()
            self._message = b"\x01"
        else:
            self._is_done = True

    def is_done(self) -> bool:
        """Return whether the token was accepted."""
        return self._is_done

    is_authenticated = is_done


class Scram:
    """The exchange of SCRAM without channel binding; ``mechanism`` is SCRAM-SHA-256 or SCRAM-SHA-512.

    Both sides prove by a signature that they know the password: no message has it.
    """

    def __init__(self, username: str, password: str, mechanism: str) -> None:
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._password = password.encode()
        self._nonce = secrets.token_hex(16)
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={escaped},r={self._nonce}"
        self._message = f"n,,{self._first}"
        self._signature: bytes | None = None
        self._is_done = False

    def auth_bytes(self) -> bytes:
        """Return the name of the user, and then the proof."""
        return self._message.encode()

    def receive(self, data: bytes) -> None:
        """Take the nonce and the salt of the server, and then its signature."""
        fields = dict(pair.split("=", 1) for pair in data.decode().split(","))
        if self._signature is None:
            self._prove(data.decode(), fields["r"], base64.b64decode(fields["s"]), int(fields["i"]))
        elif hmac.compare_digest(self._signature, base64.b64decode(fields["v"])):
            self._is_done = True
        else:
            raise ValueError("the signature is not that of the password")

    def is_done(self) -> bool:
        """Return whether the server has proved that it knows the password."""
        return self._is_done

    is_authenticated = is_done

    def _prove(self, answer: str, nonce: str, salt: bytes, iterations: int) -> None:
        if not nonce.startswith(self._nonce) or not 0 < iterations <= MAX_ITERATIONS:
            raise ValueError("the answer is not for this login")
        final = f"c=biws,r={nonce}"
        exchanged = f"{self._first},{answer},{final}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key, server_key = self._sign(salted, b"Client Key"), self._sign(salted, b"Server Key")
        signature = self._sign(hashlib.new(self._hash, client_key).digest(), exchanged)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._message = f"{final},p={base64.b64encode(proof).decode()}"
        self._signature = self._sign(server_key, exchanged)

    def _sign(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)
