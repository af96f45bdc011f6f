"""TLS connections to a server, and explanations of failed handshakes.

With TLS 1.3 a server checks the client certificate only after the client has completed the handshake: its alert arrives
as an error of the first read. ``TlsSocket`` therefore reports alerts after the handshake too.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from topiarist.adapters import secrets
from topiarist.model.access import Tls

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
        context = secrets.build_ssl_context(tls)
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
        cause = "tls.ca does not have" if tls.ca else "the system does not trust: set tls.ca"
        return f"its certificate was issued by an authority that {cause} ({error.verify_message})"
    return f"its certificate is not accepted: {error.verify_message}"


def describe_alert(error: ssl.SSLError, tls: Tls, plaintext: PlaintextPort) -> str:
    """Return the meaning of the TLS alert that broke the connection."""
    reason = error.reason or "no reason given"
    alert_text = reason.lower().replace("_", " ")
    if reason == "WRONG_VERSION_NUMBER":
        return plaintext.message
    if any(alert in reason for alert in _CERTIFICATE_ALERTS):
        if tls.certificate:
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
