"""TLS connections to a server, the secrets that they need, explanations of failed handshakes, and work with a deadline.

With TLS 1.3 a server checks the client certificate only after the client has completed the handshake: its alert arrives
as an error of the first read. ``TlsSocket`` therefore reports alerts after the handshake too.
"""

from __future__ import annotations

import os
import shlex
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import SecretReference, Tls

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
    if len(data) > max_bytes:
        raise credentials_error(reference, f"is larger than {max_bytes:,} bytes")
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise credentials_error(reference, "is empty")
    text = line.decode("utf-8", "replace")  # a decoding exception would contain the bytes of the secret
    if "\ufffd" in text:
        raise credentials_error(reference, "is not UTF-8")
    if not text.isprintable():
        raise credentials_error(reference, "is not one line of text")
    return text


def _read_variable(reference: SecretReference, name: str) -> bytes:
    data = os.environb.get(name.encode())
    if data is None:
        raise credentials_error(reference, "is not set")
    return data


def check_command(reference: SecretReference) -> list[str]:
    """Return the words of the command in a variable, without running it. Raises ``CredentialsInvalid``."""
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
    from topiarist.adapters import keys

    assert tls.trust_store
    password = read_secret(tls.trust_store_password) if tls.trust_store_password else ""
    try:
        return keys.read_trust_store(read_file(tls.trust_store, MAX_CERTIFICATE_BYTES), password)
    except keys.KeyProblem as problem:
        raise credentials_error(tls.trust_store, str(problem)) from None


def _load_key_store(
    context: ssl.SSLContext, reference: SecretReference, password_reference: SecretReference | None
) -> None:
    """Load certificate and key of a store, through a file that has the key encrypted by a password of this moment."""
    from topiarist.adapters import keys

    password = read_secret(password_reference) if password_reference else ""
    try:
        store = keys.read_key_store(read_file(reference, MAX_CERTIFICATE_BYTES), password)
    except keys.KeyProblem as problem:
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
    if reference.secret:
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
