"""TLS connections to a server, the secrets that they need, explanations of failed handshakes, and work with a deadline.

With TLS 1.3 a server checks the client certificate only after the client has completed the handshake: its alert arrives
as an error of the first read. ``TlsSocket`` therefore reports alerts after the handshake too.

Private keys and stores are here too: PKCS12 and JKS files as PEM, and the signature of an OAuth client. This is the
only place of the library ``cryptography``, which the extra ``keys`` installs. A private key leaves this module only
encrypted: OpenSSL takes keys from files, and no file may have a key in the clear.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.model.access import SecretReference, Tls

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
    parts = (base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    signed = ".".join(parts).encode()
    if isinstance(private, rsa.RSAPrivateKey):
        signature = private.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        r, s = utils.decode_dss_signature(private.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return f"{signed.decode()}.{base64url(signature)}"


def base64url(data: bytes) -> str:
    """Return bytes as text of tokens: base64 for addresses, without padding."""
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
    return Store("".join(map(ssl.DER_cert_to_PEM_cert, entries.chain)).encode(), encrypted, once)


def read_trust_store(data: bytes, password: str) -> str:
    """Return the authorities of a store in PEM form. Raises as ``read_key_store``."""
    entries = _read_entries(data, password, needs_key=False)
    if not entries.trusted:
        raise KeyProblem("has no trusted certificate: it is a key store, or empty")
    return "".join(map(ssl.DER_cert_to_PEM_cert, entries.trusted))


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
            given = "with its password" if password else "without a password"
            raise KeyProblem(f"cannot be opened {given}, or is damaged") from None
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
            if not self._password:
                raise KeyProblem("cannot be opened without a password, or is damaged")
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


# Read passwords, certificates and keys from the places that credentials refer to.
#
# The functions are called for each connection, so that a replaced secret takes effect. Secrets are returned and never
# kept, and no error message contains one.

MAX_CERTIFICATE_BYTES = 1 << 20
"""Maximum size of a file with certificates, in bytes."""

MAX_SECRET_BYTES = 1 << 19
"""Maximum size of a secret in bytes: brokers take no longer message of a login (sasl.server.max.receive.size)."""

MAX_KEY_PASSWORD_BYTES = 1023
"""Maximum size of the password of a key in bytes, which is OpenSSL's limit; no protocol has one."""

COMMAND_TIMEOUT_S = 30.0
"""Seconds for a command that prints a secret."""


class _MissingKeyPassword(Exception):
    """The key is encrypted and there is no password for it."""


def read_secret(reference: SecretReference, max_bytes: int = MAX_SECRET_BYTES) -> str:
    """Return one line of text from a file, a variable or a command, without a final line end.

    Raises ``CredentialsInvalid``.
    """
    if reference.command:
        data = _run_command(reference)
    elif reference.env:
        data = _read_variable(reference, reference.env)
    else:
        data = read_file(reference, max_bytes)
    owner = "has a command with output that " if reference.command else ""
    if len(data) > max_bytes:
        raise credentials_error(reference, f"{owner}is larger than {max_bytes:,} bytes")
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise credentials_error(reference, f"{owner}is empty")
    text = line.decode("utf-8", "replace")  # a decoding exception would contain the bytes of the secret
    if "\ufffd" in text:
        raise credentials_error(reference, f"{owner}is not UTF-8")
    if not text.isprintable():
        raise credentials_error(reference, f"{owner}is not one line of text")
    return text


def _read_variable(reference: SecretReference, name: str) -> bytes:
    data = os.environb.get(name.encode())
    if data is None:
        raise credentials_error(reference, "is not set")
    return data


def check_command(reference: SecretReference) -> list[str]:
    """Return the words of the command in a variable, without running it. Raises ``CredentialsInvalid``."""
    import shlex  # not above: most runs read no command

    text = _read_variable(reference, reference.command).decode("utf-8", "replace")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise credentials_error(reference, f"has no command: {error}".lower()) from None
    if not words:
        raise credentials_error(reference, "is empty")
    return words


def _run_command(reference: SecretReference) -> bytes:
    """Return what the command of a variable prints; its errors go where those of this process go.

    Neither the command nor its output is in a message: a variable may hold a secret by mistake.
    """
    import subprocess

    words = check_command(reference)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise credentials_error(reference, f"has a command that did not end in {COMMAND_TIMEOUT_S:g} s") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a command"
        raise credentials_error(reference, f"has a command that cannot be run: {why.lower()}") from None
    if done.returncode:
        raise credentials_error(reference, f"has a command that failed with exit code {done.returncode}")
    return done.stdout


def build_ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later that checks the server's certificate and name.

    Raises ``CredentialsInvalid``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authorities = tls.ca or tls.trust_store
    if authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        text = _read_pem(tls.ca, "CERTIFICATE") if tls.ca else _read_trust_store(tls)
        try:
            context.load_verify_locations(cadata=text)
        except ssl.SSLError as error:
            raise credentials_error(authorities, f"is not a certificate: {error.reason}") from None
    if tls.certificate:
        _load_client_certificate(context, tls, tls.certificate)
    elif tls.key_store:
        _load_key_store(context, tls.key_store, tls.key_store_password)
    return context


def _read_trust_store(tls: Tls) -> str:
    assert tls.trust_store
    password = read_secret(tls.trust_store_password) if tls.trust_store_password else ""
    try:
        return read_trust_store(read_file(tls.trust_store, MAX_CERTIFICATE_BYTES), password)
    except KeyProblem as problem:
        raise credentials_error(tls.trust_store, str(problem)) from None


def _load_key_store(
    context: ssl.SSLContext, reference: SecretReference, password_reference: SecretReference | None
) -> None:
    """Load certificate and key of a store, through a file that has the key encrypted by a password of this moment."""
    import tempfile  # not above: most runs have no store

    password = read_secret(password_reference) if password_reference else ""
    try:
        store = read_key_store(read_file(reference, MAX_CERTIFICATE_BYTES), password)
    except KeyProblem as problem:
        raise credentials_error(reference, str(problem)) from None
    with tempfile.NamedTemporaryFile(prefix="topiarist-", suffix=".pem") as file:
        file.write(store.certificates + store.key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=store.password)
        except ssl.SSLError as error:
            raise credentials_error(reference, f"cannot be used ({error.reason or 'malformed'})") from None


def _load_client_certificate(context: ssl.SSLContext, tls: Tls, certificate: SecretReference) -> None:
    key = tls.key or certificate
    _read_pem(certificate, "CERTIFICATE")
    _read_pem(key, "PRIVATE KEY")
    secret = read_secret(tls.key_password, MAX_KEY_PASSWORD_BYTES) if tls.key_password else None

    def give() -> str:
        # Without a callback, OpenSSL prompts for the password at the terminal.
        if secret is None:
            raise _MissingKeyPassword
        return secret

    try:
        context.load_cert_chain(certificate.file, key.file, give)
    except _MissingKeyPassword:
        raise credentials_error(key, "is encrypted, and there is no keyPassword") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "does not belong to the certificate"
        elif secret is not None:
            why = f"cannot be opened with its keyPassword ({error.reason or 'wrong password'})"
        else:
            why = f"is not a key that can be used ({error.reason or 'malformed'})"
        raise credentials_error(key, why) from None
    except OSError as error:
        raise credentials_error(key, f"cannot be read: {error.strerror}") from None


def _read_pem(reference: SecretReference, kind: str) -> str:
    """Return the text of a PEM file that contains a block of ``kind``."""
    text = read_file(reference, MAX_CERTIFICATE_BYTES).decode("ascii", "ignore")  # comments may be in any language
    if not text.strip():
        raise credentials_error(reference, "is empty")
    if f"{kind}-----" not in text:
        raise credentials_error(reference, f"holds no {kind.lower()} in PEM form (-----BEGIN ...)")
    return text


def read_file(reference: SecretReference, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; symbolic links are followed, since Kubernetes mounts secrets as links.

    Raises ``CredentialsInvalid``.
    """
    if reference.secret and not reference.file:
        raise credentials_error(
            reference, "can be read by the operator in Kubernetes only", "use a file or an environment variable"
        )
    try:
        descriptor = os.open(reference.file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise credentials_error(reference, "is not a regular file")
            data = os.read(descriptor, max_bytes + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise credentials_error(reference, "does not exist") from None
    except PermissionError:
        raise credentials_error(reference, "cannot be read by this user: permission denied") from None
    except OSError as error:
        raise credentials_error(reference, f"cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise credentials_error(reference, f"is larger than {max_bytes:,} bytes")
    return data


def credentials_error(reference: SecretReference, what: str, hint: str = "") -> TopiaristError:
    """Return the error about the source of a secret, with its location in the manifest."""
    variable = reference.env or reference.command
    name = f"the file {reference.file}" if reference.file else f"the environment variable {variable}"
    if reference.secret:
        name = f"the key {reference.secret.key} of the Secret {reference.secret.name}"
    return TopiaristError(Reason.CREDENTIALS_INVALID, f"{reference.location}: {name} {what}", hint)


Address = tuple[str, int]

PROBE_TIMEOUT_S = 2.0
"""Seconds for a second connection that finds out why the first one failed."""

# OpenSSL's error codes for certificates (X509_V_ERR_...).
_NOT_YET_VALID, _EXPIRED = 9, 10
_UNTRUSTED_CODES = (18, 19, 20, 21)
_NAME_MISMATCH_CODES = (62, 64)
_CERTIFICATE_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")


class AuthRejected(Exception):
    """A refusal that a retry does not resolve; the text says why."""


class PlaintextPort(Struct, frozen=True):
    """The test whether a port of this kind of server answers without TLS, and the message if it does."""

    accepts: Callable[[Address], bool]
    message: str


def _ignore(_error: ssl.SSLError) -> None:
    pass


class TlsSocket(ssl.SSLSocket):
    """A TLS socket that calls ``on_alert`` with the alert of a server that breaks the connection."""

    on_alert: Callable[[ssl.SSLError], None] = staticmethod(_ignore)

    def recv(self, *args: Any) -> bytes:
        """Return received bytes; report an alert before raising it."""
        try:
            return super().recv(*args)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.on_alert(error)
            raise

    def send(self, *args: Any) -> int:
        """Send bytes; if the server has closed the connection, read its last alert first."""
        try:
            return super().send(*args)
        except ConnectionError:
            self.recv(1)
            raise


def wrap_socket(plain: socket.socket, address: Address, hostname: str, tls: Tls, plaintext: PlaintextPort) -> TlsSocket:
    """Return an encrypted connection over ``plain``, to a server with a valid certificate and name.

    ``plain`` is closed in every case. Raises ``AuthRejected`` for a refusal, ``CredentialsInvalid`` for a problem on
    the client's side, ``OSError`` for a failure that may be temporary.
    """
    name = tls.server_name or hostname
    try:
        context = build_ssl_context(tls)
        context.sslsocket_class = TlsSocket
        wrapped = context.wrap_socket(plain, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        raise AuthRejected(_describe_certificate_error(error, name, tls)) from None
    except (ssl.SSLEOFError, ConnectionResetError):
        if plaintext.accepts(address):
            raise AuthRejected(plaintext.message) from None
        raise OSError(0, "it closed the connection in the TLS handshake") from None
    except ssl.SSLError as error:
        raise AuthRejected(describe_alert(error, tls, plaintext)) from None
    finally:
        plain.close()  # the wrapped socket owns the descriptor now
    assert isinstance(wrapped, TlsSocket)
    return wrapped


def _describe_certificate_error(error: ssl.SSLCertVerificationError, name: str, tls: Tls) -> str:
    if error.verify_code in _NAME_MISMATCH_CODES:
        return f"its certificate is not for {name}; if the server is the right one, set tls.serverName to a name in it"
    if error.verify_code == _EXPIRED:
        return "its certificate has expired"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet"
    if error.verify_code in _UNTRUSTED_CODES:
        field = "tls.ca" if tls.ca else "tls.trustStore" if tls.trust_store else ""
        cause = f"{field} does not have" if field else "the system does not trust: set tls.ca"
        return f"its certificate was issued by an authority that {cause} ({error.verify_message})"
    return f"its certificate is not accepted: {error.verify_message}"


def describe_alert(error: ssl.SSLError, tls: Tls, plaintext: PlaintextPort) -> str:
    """Return the meaning of the TLS alert that broke the connection."""
    reason = error.reason or "no reason given"
    alert_text = reason.lower().replace("_", " ")
    if reason == "WRONG_VERSION_NUMBER":
        return plaintext.message
    if any(alert in reason for alert in _CERTIFICATE_ALERTS):
        if tls.has_certificate:
            return f"it refused the client certificate ({alert_text}), perhaps expired, or of an unknown authority"
        return f"it requires a client certificate ({alert_text}): set tls.certificate and tls.key"
    if "PROTOCOL" in reason or "VERSION" in reason:
        return f"it supports no TLS version that topiarist accepts, 1.2 or later ({alert_text})"
    return f"TLS failed: {alert_text}"


def accepts_tls(address: Address) -> bool:
    """Return True if the port answers a TLS handshake; no certificate is checked and no data is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, PROBE_TIMEOUT_S) as probe, context.wrap_socket(probe):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


_Value = TypeVar("_Value")


def run_with_deadline(work: Callable[[], _Value], deadline: float, late: str) -> _Value:
    """Return what ``work`` returns, or raise what it raises; raise ``TimeoutError`` after the deadline.

    Late work goes on in its thread: a name lookup, for example, cannot be stopped.
    """
    results: list[_Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised in the thread of the caller
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="topiarist-deadline")
    thread.start()
    thread.join(max(deadline - time.monotonic(), 0))
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise TimeoutError(late)
