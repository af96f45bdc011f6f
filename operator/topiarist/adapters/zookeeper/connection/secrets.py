"""From references to what they refer to: passwords, and a TLS context with certificates and key.

Called for each connection, so that what has been replaced since the last one counts. What is read is handed on and
kept nowhere; no error of ours holds any of it. Above stands ``entry``.
"""

from __future__ import annotations

import os
import ssl
import stat

from topiarist.errors import Reason, TopiaristError
from topiarist.model.credentials import Credentials, SecretReference, Tls, UserPassword

MAX_CERTIFICATE_BYTES = 1 << 20
"""Bytes of a file with certificates."""

MAX_PASSWORD_BYTES = 1023
"""Bytes of a password: what OpenSSL takes for a key, and more than anybody types."""


class _MissingKeyPassword(Exception):
    """The key is encrypted and there is no password for it."""


def check_credentials(credentials: Credentials) -> None:
    """Read everything once, to say at once what is missing. Raises ``CredentialsInvalid``."""
    for login in (credentials.sasl, credentials.digest):
        if login:
            read_password(login)
    if credentials.tls:
        build_ssl_context(credentials.tls)


def read_password(login: UserPassword) -> str:
    """The password of a login, as of now. Raises ``CredentialsInvalid``."""
    return _read_secret(login.password)


def build_ssl_context(tls: Tls) -> ssl.SSLContext:
    """What TLS needs: 1.2 or later, the server's certificate and name checked. Raises ``CredentialsInvalid``."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.ca is None:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            made.load_verify_locations(cadata=_read_pem(tls.ca, "CERTIFICATE"))
        except ssl.SSLError as error:
            raise _credentials_error(tls.ca, f"is not a certificate: {error.reason}") from None
    if tls.certificate:
        _load_client_certificate(made, tls, tls.certificate)
    return made


def _load_client_certificate(context: ssl.SSLContext, tls: Tls, certificate: SecretReference) -> None:
    """Take our certificate and its key into a context."""
    key = tls.key or certificate
    _read_pem(certificate, "CERTIFICATE")
    _read_pem(key, "PRIVATE KEY")
    secret = _read_secret(tls.key_password) if tls.key_password else None

    def give() -> str:
        # Without this OpenSSL asks at the terminal.
        if secret is None:
            raise _MissingKeyPassword
        return secret

    try:
        context.load_cert_chain(certificate.file, key.file, give)
    except _MissingKeyPassword:
        raise _credentials_error(key, "is encrypted, and there is no keyPassword") from None
    except ssl.SSLError as error:
        raise _credentials_error(key, _describe_key_error(error, secret is not None)) from None
    except OSError as error:
        raise _credentials_error(key, f"cannot be read: {error.strerror}") from None


def _describe_key_error(error: ssl.SSLError, encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "does not belong to the certificate"
    if encrypted:
        return f"cannot be opened with its keyPassword ({error.reason or 'wrong password'})"
    return f"is not a key that can be used ({error.reason or 'malformed'})"


def _read_secret(reference: SecretReference) -> str:
    """One line of text from a file or a variable; a line end after it does not count."""
    data = os.environb.get(reference.env.encode()) if reference.env else _read_file(reference, MAX_PASSWORD_BYTES)
    if data is None:
        raise _credentials_error(reference, "is not set")
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise _credentials_error(reference, "is empty")
    text = line.decode("utf-8", "replace")  # an exception would have the bytes in it
    if "\ufffd" in text:
        raise _credentials_error(reference, "is not UTF-8")
    if not text.isprintable():
        raise _credentials_error(reference, "is not one line of text")
    return text


def _read_pem(reference: SecretReference, kind: str) -> str:
    """The text of a PEM file that holds something of ``kind``."""
    text = _read_file(reference, MAX_CERTIFICATE_BYTES).decode("ascii", "ignore")  # comments may be in any language
    if not text.strip():
        raise _credentials_error(reference, "is empty")
    if f"{kind}-----" not in text:
        raise _credentials_error(reference, f"holds no {kind.lower()} in PEM form (-----BEGIN ...)")
    return text


def _read_file(reference: SecretReference, max_bytes: int) -> bytes:
    """The bytes of a regular file; links are followed, since Kubernetes makes its secrets of them."""
    if reference.secret:
        raise _credentials_error(
            reference, "can be read in Kubernetes only, by the operator", "name a file or a variable here"
        )
    try:
        descriptor = os.open(reference.file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _credentials_error(reference, "is not a regular file")
            data = os.read(descriptor, max_bytes + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise _credentials_error(reference, "does not exist") from None
    except PermissionError:
        raise _credentials_error(reference, "may not be read by this user") from None
    except OSError as error:
        raise _credentials_error(reference, f"cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise _credentials_error(reference, f"is larger than {max_bytes:,} bytes")
    return data


def _credentials_error(reference: SecretReference, what: str, hint: str = "") -> TopiaristError:
    name = f"the file {reference.file}" if reference.file else f"the environment variable {reference.env}"
    if reference.secret:
        name = f"the key {reference.secret.key} of the Secret {reference.secret.name}"
    return TopiaristError(Reason.CREDENTIALS_INVALID, f"{reference.location}: {name} {what}", hint)
