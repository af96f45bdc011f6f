"""SASL DIGEST-MD5 (RFC 2831), the client's half: the server's challenge in, our answer out, its proof checked.

kazoo leaves this to a library that is no longer maintained, and its loop around it never ends with a server that has no
SASL. Pure: ``entry`` has the connection and the password.
"""

from __future__ import annotations

import hmac
import re
from hashlib import md5
from typing import NamedTuple

DIGEST_URI = b"zookeeper/zk-sasl-md5"
"""Service and host, which ZooKeeper has hard-wired for this mechanism."""

_FIELD = re.compile(rb'\s*,*\s*([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?=,|$)', re.DOTALL)


class DigestResponse(NamedTuple):
    """What to send, and what a server sends back that knows the password."""

    token: bytes
    server_proof: bytes


def build_response(challenge: bytes, username: str, password: str, nonce: str) -> DigestResponse:
    """The answer to a challenge; ``nonce`` is ours, new each time. ``ValueError`` if it is no challenge for us."""
    told = parse_fields(challenge)
    qops = told.get(b"qop", b"auth").replace(b" ", b"").split(b",")
    known = told.get(b"algorithm") == b"md5-sess" and told.get(b"charset") == b"utf-8" and b"auth" in qops
    if b"nonce" not in told or not known:
        raise ValueError("the server's SASL challenge is not one of DIGEST-MD5 with qop auth")
    realm, theirs, ours = told.get(b"realm", b""), told[b"nonce"], nonce.encode()
    text = f"{username}:{realm.decode()}:{password}"
    secret = md5(text.encode(_charset(text)), usedforsecurity=False).digest()
    session = _md5_hex(b":".join((secret, theirs, ours)))
    response, proof = (
        _md5_hex(b":".join((session, theirs, b"00000001", ours, b"auth", _md5_hex(method + DIGEST_URI))))
        for method in (b"AUTHENTICATE:", b":")
    )
    names = {
        b"username": username.encode(),
        b"realm": realm,
        b"nonce": theirs,
        b"cnonce": ours,
        b"digest-uri": DIGEST_URI,
    }
    parts = [name + b"=" + _quote(value) for name, value in names.items()]
    parts += [b"charset=utf-8", b"nc=00000001", b"qop=auth", b"response=" + response]
    return DigestResponse(b",".join(parts), proof)


def is_server_proof_valid(reply: bytes, expected: DigestResponse) -> bool:
    """Whether the server's last word shows that it knows the password too."""
    return hmac.compare_digest(parse_fields(reply).get(b"rspauth", b""), expected.server_proof)


def parse_fields(text: bytes) -> dict[bytes, bytes]:
    """The fields of a challenge, unquoted; the first of a name counts. ``ValueError`` if it is malformed."""
    found: dict[bytes, bytes] = {}
    end = 0
    while match := _FIELD.match(text, end):
        quoted, plain = match[2], match[3]
        found.setdefault(match[1], plain if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL))
        end = match.end()
    if text[end:].strip(b", \t\r\n"):
        raise ValueError("the server's SASL challenge is malformed")
    return found


def _charset(text: str) -> str:
    """Hashed is Latin-1 where that has all characters, else UTF-8; on the wire it is always UTF-8."""
    return "latin-1" if all(character <= "\xff" for character in text) else "utf-8"


def _quote(text: bytes) -> bytes:
    return b'"' + re.sub(rb'(["\\])', rb"\\\1", text) + b'"'


def _md5_hex(text: bytes) -> bytes:
    return md5(text, usedforsecurity=False).hexdigest().encode()
