"""Private keys and stores: PKCS12 and JKS files as PEM, and the signature of an OAuth client.

The only place of the library ``cryptography``, which the extra ``keys`` installs. A private key leaves this module only
encrypted: OpenSSL takes keys from files, and no file may have a key in the clear.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any, NamedTuple

from topiarist.errors import missing_packages_error

# The statement of a client to a token endpoint: a JSON web token that the client's key signs (RFC 7523).

ASSERTION_LIFETIME_S = 300
"""Seconds for which a signed statement of a client is valid."""


class KeyProblem(ValueError):
    """A file that cannot be used; the text says why and what to do, and has nothing of a secret."""


def sign_assertion(key: bytes, claims: dict[str, Any], key_id: str) -> str:
    """Return claims as a JSON web token, signed by a private key in PEM form: RS256, or ES256 by a P-256 key.

    Raises ``KeyProblem``, and ``PrerequisiteMissing`` without the extra.
    """
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
    except ImportError:
        raise missing_packages_error("keys", "a login with clientKey") from None
    try:
        private = serialization.load_pem_private_key(key, None)
    except TypeError:
        raise KeyProblem("is encrypted: write it without a password, as openssl pkey -in FILE does") from None
    except ValueError:
        raise KeyProblem("is not a private key in PEM form") from None
    header = {"alg": "RS256", "typ": "JWT", **({"kid": key_id} if key_id else {})}
    if isinstance(private, ec.EllipticCurvePrivateKey) and isinstance(private.curve, ec.SECP256R1):
        header["alg"] = "ES256"
    elif not isinstance(private, rsa.RSAPrivateKey):
        raise KeyProblem("is neither an RSA key nor a P-256 key, which are for RS256 and ES256")
    parts = (_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    signed = ".".join(parts).encode()
    if isinstance(private, rsa.RSAPrivateKey):
        signature = private.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        r, s = utils.decode_dss_signature(private.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return f"{signed.decode()}.{_base64url(signature)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# Stores of Java: PKCS12 as cryptography reads it, and JKS (version 2), which Java wrote until version 8.
#
# JKS is read here: the one library for it has had no release since 2020 and brings four packages along. The format is
# that of OpenJDK's ``JavaKeyStore`` and ``KeyProtector``.

_JKS_MAGIC, _JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_JKS_PHRASE = b"Mighty Aphrodite"
_JKS_KEY, _JKS_CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
_MAX_ENTRIES = 10_000
_CONVERT = "convert it: keytool -importkeystore -srckeystore FILE -destkeystore NEW -deststoretype pkcs12"


class Store(NamedTuple):
    """The content of a key store: the certificates in PEM form, and the private key, encrypted by ``password``."""

    certificates: bytes
    key: bytes
    password: str


class _Entries(NamedTuple):
    """The certificates of a store in DER form, that of the key first, and the private key (PKCS8), if there is one."""

    chain: list[bytes]
    trusted: list[bytes]
    key: bytes = b""


def read_key_store(data: bytes, password: str) -> Store:
    """Return the certificate with its chain and the private key of a store.

    The key is encrypted by a new password. Raises ``KeyProblem``, and ``PrerequisiteMissing`` without the extra.
    """
    entries = _read_entries(data, password, needs_key=True)
    from cryptography.hazmat.primitives import serialization

    if not entries.key:
        raise KeyProblem("has no private key: it is a trust store, or its keys have other passwords")
    once = secrets.token_urlsafe(32)
    try:
        private: Any = serialization.load_der_private_key(entries.key, None)
    except (ValueError, TypeError):
        raise KeyProblem("has a private key of an unknown kind") from None
    encrypted: bytes = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(once.encode()),
    )
    return Store(_to_pem(entries.chain), encrypted, once)


def read_trust_store(data: bytes, password: str) -> str:
    """Return the authorities of a store in PEM form. Raises as ``read_key_store``."""
    entries = _read_entries(data, password, needs_key=False)
    if not entries.trusted:
        raise KeyProblem("has no trusted certificate: it is a key store, or empty")
    return _to_pem(entries.trusted).decode()


def _to_pem(certificates: list[bytes]) -> bytes:
    lines = []
    for each in certificates:
        lines += [b"-----BEGIN CERTIFICATE-----\n", base64.encodebytes(each), b"-----END CERTIFICATE-----\n"]
    return b"".join(lines)


def _read_entries(data: bytes, password: str, *, needs_key: bool) -> _Entries:
    try:
        import cryptography  # noqa: F401 - the readers below need it
    except ImportError:
        raise missing_packages_error("keys", "a keyStore or trustStore") from None
    if data.startswith(_JKS_MAGIC):
        return _JksReader(data, password).read(needs_key=needs_key)
    if data.startswith(_JCEKS_MAGIC):
        raise KeyProblem(f"is a JCEKS store; {_CONVERT}")
    if data.lstrip().startswith(b"-----BEGIN"):
        raise KeyProblem("is in PEM form: use certificate, key and ca in place of keyStore and trustStore")
    return _read_pkcs12(data, password)


def _read_pkcs12(data: bytes, password: str) -> _Entries:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    encoding = serialization.Encoding.DER
    if not data.startswith(b"\x30"):
        raise KeyProblem(f"is neither a PKCS12 nor a JKS store; {_CONVERT}")
    try:
        found = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError as error:
        if "password" in str(error).lower():
            raise KeyProblem("cannot be opened with its password, or is damaged") from None
        raise KeyProblem(f"is not a PKCS12 store that can be read; {_CONVERT}") from None
    others = [each.certificate.public_bytes(encoding) for each in found.additional_certs]
    if found.key is None or found.cert is None:
        return _Entries([], [*([found.cert.certificate.public_bytes(encoding)] if found.cert else []), *others])
    key = found.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return _Entries([found.cert.certificate.public_bytes(encoding), *others], [], key)


class _JksReader:
    """A reader of one JKS store; ``read`` returns its entries. A length that is too large raises ``KeyProblem``."""

    def __init__(self, data: bytes, password: str) -> None:
        self._data, self._end = data, len(data) - _DIGEST_BYTES
        self._password = password.encode("utf-16-be")
        self._place = len(_JKS_MAGIC)

    def read(self, *, needs_key: bool) -> _Entries:
        """Return the entries; the first private key is that of the store, and is left out unless it is needed."""
        # Without a password the checksum cannot be compared: Java, too, then reads the certificates as they are.
        digest = hashlib.sha1(self._password + _JKS_PHRASE + self._data[: self._end], usedforsecurity=False).digest()
        if self._password and not hmac.compare_digest(digest, self._data[self._end :]):
            raise KeyProblem("cannot be opened with its password, or is damaged")
        version, count = self._number(), self._number()
        if version != 2 or count > _MAX_ENTRIES:
            raise KeyProblem(f"is a JKS store of an unknown form; {_CONVERT}")
        entries = _Entries([], [])
        for _ in range(count):
            kind, _alias, _date = self._number(), self._take(self._number(2)), self._take(8)
            if kind == _JKS_KEY:
                key = self._take(self._number())
                chain = [self._certificate() for _ in range(min(self._number(), _MAX_ENTRIES))]
                if needs_key and not entries.key:
                    entries = entries._replace(key=self._decrypt(key), chain=chain)
            elif kind == _JKS_CERTIFICATE:
                entries.trusted.append(self._certificate())
            else:
                raise KeyProblem(f"is a JKS store with an entry of an unknown kind; {_CONVERT}")
        return entries

    def _take(self, size: int) -> bytes:
        start, self._place = self._place, self._place + size
        if self._place > self._end:
            raise KeyProblem("is a damaged JKS store")
        return self._data[start : self._place]

    def _number(self, size: int = 4) -> int:
        return int.from_bytes(self._take(size), "big")

    def _certificate(self) -> bytes:
        self._take(self._number(2))  # the kind, X.509
        return self._take(self._number())

    def _decrypt(self, protected: bytes) -> bytes:
        """Return a private key, which a chain of SHA-1 over password and salt hides."""
        hidden = _read_octets(protected)
        salt, body, check = hidden[:_DIGEST_BYTES], hidden[_DIGEST_BYTES:-_DIGEST_BYTES], hidden[-_DIGEST_BYTES:]
        stream, last = bytearray(), salt
        while len(stream) < len(body):
            last = hashlib.sha1(self._password + last, usedforsecurity=False).digest()
            stream += last
        key = bytes(one ^ other for one, other in zip(body, stream, strict=False))
        if not hmac.compare_digest(hashlib.sha1(self._password + key, usedforsecurity=False).digest(), check):
            raise KeyProblem(f"has a private key with another password than the store; {_CONVERT}")
        return key


def _read_octets(info: bytes) -> bytes:
    """Return the encrypted bytes of an EncryptedPrivateKeyInfo: a sequence of an algorithm and octets (DER)."""

    def take(place: int, tag: int) -> tuple[int, int]:
        size, start = info[place + 1], place + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(info[place + 2 : start], "big")
        if info[place] != tag or start + size > len(info):
            raise KeyProblem("is a damaged JKS store")
        return start, start + size

    try:
        algorithm_end = take(take(0, 0x30)[0], 0x30)[1]
        start, end = take(algorithm_end, 0x04)
    except IndexError:
        raise KeyProblem("is a damaged JKS store") from None
    return info[start:end]
