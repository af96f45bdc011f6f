"""From references to what they refer to: passwords, and a TLS context with certificates and key.

Called for each connection, so that what has been replaced since the last one counts. What is read is handed on and
kept nowhere; no error of ours holds any of it. Above stands ``entry``.
"""

from __future__ import annotations

import os
import ssl
import stat

from topiarist.core.credentials import Credentials, Login, Reference, Tls
from topiarist.errors import Reason, TopiaristError

LARGEST = 1 << 20
"""Bytes of a file with certificates."""

LONGEST = 1023
"""Bytes of a password: what OpenSSL takes for a key, and more than anybody types."""


class _NoPassword(Exception):
    """The key is encrypted and there is no password for it."""


def check(credentials: Credentials) -> None:
    """Read everything once, to say at once what is missing. Raises ``CredentialsInvalid``."""
    for login in (credentials.sasl, credentials.digest):
        if login:
            password(login)
    if credentials.tls:
        context(credentials.tls)


def password(login: Login) -> str:
    """The password of a login, as of now. Raises ``CredentialsInvalid``."""
    return _secret(login.password)


def context(tls: Tls) -> ssl.SSLContext:
    """What TLS needs: 1.2 or later, the server's certificate and name checked. Raises ``CredentialsInvalid``."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.ca is None:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            made.load_verify_locations(cadata=_pem(tls.ca, "CERTIFICATE"))
        except ssl.SSLError as error:
            raise _invalid(tls.ca, f"is not a certificate: {error.reason}") from None
    if tls.certificate:
        _load_ours(made, tls, tls.certificate)
    return made


def _load_ours(made: ssl.SSLContext, tls: Tls, certificate: Reference) -> None:
    """Take our certificate and its key into a context."""
    key = tls.key or certificate
    _pem(certificate, "CERTIFICATE")
    _pem(key, "PRIVATE KEY")
    secret = _secret(tls.key_password) if tls.key_password else None

    def give() -> str:
        # Without this OpenSSL asks at the terminal.
        if secret is None:
            raise _NoPassword
        return secret

    try:
        made.load_cert_chain(certificate.file, key.file, give)
    except _NoPassword:
        raise _invalid(key, "is encrypted, and there is no keyPassword") from None
    except ssl.SSLError as error:
        raise _invalid(key, _why(error, secret is not None)) from None
    except OSError as error:
        raise _invalid(key, f"cannot be read: {error.strerror}") from None


def _why(error: ssl.SSLError, encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "does not belong to the certificate"
    if encrypted:
        return f"cannot be opened with its keyPassword ({error.reason or 'wrong password'})"
    return f"is not a key that can be used ({error.reason or 'malformed'})"


def _secret(reference: Reference) -> str:
    """One line of text from a file or a variable; a line end after it does not count."""
    data = os.environb.get(reference.env.encode()) if reference.env else _file(reference, LONGEST)
    if data is None:
        raise _invalid(reference, "is not set")
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise _invalid(reference, "is empty")
    text = line.decode("utf-8", "replace")  # an exception would have the bytes in it
    if "\ufffd" in text:
        raise _invalid(reference, "is not UTF-8")
    if not text.isprintable():
        raise _invalid(reference, "is not one line of text")
    return text


def _pem(reference: Reference, kind: str) -> str:
    """The text of a PEM file that holds something of ``kind``."""
    text = _file(reference, LARGEST).decode("ascii", "ignore")  # comments may be in any language
    if not text.strip():
        raise _invalid(reference, "is empty")
    if f"{kind}-----" not in text:
        raise _invalid(reference, f"holds no {kind.lower()} in PEM form (-----BEGIN ...)")
    return text


def _file(reference: Reference, most: int) -> bytes:
    """The bytes of a regular file; links are followed, since Kubernetes makes its secrets of them."""
    if reference.secret:
        raise _invalid(reference, "can be read in Kubernetes only, by the operator", "name a file or a variable here")
    try:
        descriptor = os.open(reference.file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _invalid(reference, "is not a regular file")
            data = os.read(descriptor, most + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise _invalid(reference, "does not exist") from None
    except PermissionError:
        raise _invalid(reference, "may not be read by this user") from None
    except OSError as error:
        raise _invalid(reference, f"cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise _invalid(reference, f"is larger than {most:,} bytes")
    return data


def _invalid(reference: Reference, what: str, hint: str = "") -> TopiaristError:
    name = f"the file {reference.file}" if reference.file else f"the environment variable {reference.env}"
    if reference.secret:
        name = f"the key {reference.secret.key} of the Secret {reference.secret.name}"
    return TopiaristError(Reason.CREDENTIALS_INVALID, f"{reference.place}: {name} {what}", hint)
