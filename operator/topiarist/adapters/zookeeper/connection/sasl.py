"""The client's side of SASL DIGEST-MD5 (RFC 2831): answer a challenge, check the server's proof.

kazoo leaves this mechanism to a library that is no longer maintained, and kazoo's loop around the library never ends
with a server that has no SASL. Pure: ``Authenticator`` has the connection and the password.
"""

from __future__ import annotations

import hmac
import re
from hashlib import md5

from msgspec import Struct

DIGEST_URI = b"zookeeper/zk-sasl-md5"
"""Service and host, which ZooKeeper has hard-coded for this mechanism."""

_FIELD = re.compile(rb'\s*,*\s*([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?=,|$)', re.DOTALL)


class DigestResponse(Struct, frozen=True):
    """The token to send, and the proof that a server returns if it knows the password."""

    token: bytes
    server_proof: bytes


def build_response(challenge: bytes, username: str, password: str, nonce: str) -> DigestResponse:
    """Return the response to a challenge.

    ``nonce`` is the client's, new for each login. Raises ``ValueError`` if the challenge is malformed or of another
    mechanism.
    """
    fields = parse_fields(challenge)
    qops = fields.get(b"qop", b"auth").replace(b" ", b"").split(b",")
    supported = fields.get(b"algorithm") == b"md5-sess" and fields.get(b"charset") == b"utf-8" and b"auth" in qops
    if b"nonce" not in fields or not supported:
        raise ValueError("the server's SASL challenge is not one of DIGEST-MD5 with qop auth")
    realm, server_nonce, client_nonce = fields.get(b"realm", b""), fields[b"nonce"], nonce.encode()
    text = f"{username}:{realm.decode()}:{password}"
    # RFC 2831 hashes Latin-1 if it has all characters, else UTF-8. The token itself is always UTF-8.
    charset = "latin-1" if all(character <= "\xff" for character in text) else "utf-8"
    secret = md5(text.encode(charset), usedforsecurity=False).digest()
    session = _md5_hex(b":".join((secret, server_nonce, client_nonce)))
    response, proof = (
        _md5_hex(b":".join((session, server_nonce, b"00000001", client_nonce, b"auth", _md5_hex(method + DIGEST_URI))))
        for method in (b"AUTHENTICATE:", b":")
    )
    names = {
        b"username": username.encode(),
        b"realm": realm,
        b"nonce": server_nonce,
        b"cnonce": client_nonce,
        b"digest-uri": DIGEST_URI,
    }
    parts = [name + b'="' + re.sub(rb'(["\\])', rb"\\\1", value) + b'"' for name, value in names.items()]
    parts += [b"charset=utf-8", b"nc=00000001", b"qop=auth", b"response=" + response]
    return DigestResponse(b",".join(parts), proof)


def is_server_proof_valid(reply: bytes, expected: DigestResponse) -> bool:
    """Return True if the server's reply proves that the server knows the password."""
    return hmac.compare_digest(parse_fields(reply).get(b"rspauth", b""), expected.server_proof)


def parse_fields(text: bytes) -> dict[bytes, bytes]:
    """Return the fields of a challenge, unquoted; of equal names the first counts.

    Raises ``ValueError`` if the challenge is malformed.
    """
    fields: dict[bytes, bytes] = {}
    end = 0
    while match := _FIELD.match(text, end):
        quoted, plain = match[2], match[3]
        fields.setdefault(match[1], plain if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL))
        end = match.end()
    if text[end:].strip(b", \t\r\n"):
        raise ValueError("the server's SASL challenge is malformed")
    return fields


def _md5_hex(text: bytes) -> bytes:
    return md5(text, usedforsecurity=False).hexdigest().encode()
