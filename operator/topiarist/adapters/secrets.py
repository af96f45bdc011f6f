"""Read passwords, certificates and keys from the places that credentials refer to.

The functions are called for each connection, so that a replaced secret takes effect. Secrets are returned and never
kept, and no error message contains one.
"""

from __future__ import annotations

import os
import ssl
import stat

from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import SecretReference, Tls

MAX_CERTIFICATE_BYTES = 1 << 20
"""Maximum size of a file with certificates, in bytes."""

MAX_PASSWORD_BYTES = 1023
"""Maximum size of a password, in bytes: OpenSSL's limit for the password of a key."""


class _MissingKeyPassword(Exception):
    """The key is encrypted and there is no password for it."""


def read_secret(reference: SecretReference) -> str:
    """Return one line of text from a file or an environment variable, without a final line end.

    Raises ``CredentialsInvalid``.
    """
    data = os.environb.get(reference.env.encode()) if reference.env else _read_file(reference, MAX_PASSWORD_BYTES)
    if data is None:
        raise _credentials_error(reference, "is not set")
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise _credentials_error(reference, "is empty")
    text = line.decode("utf-8", "replace")  # a decoding exception would contain the bytes of the secret
    if "\ufffd" in text:
        raise _credentials_error(reference, "is not UTF-8")
    if not text.isprintable():
        raise _credentials_error(reference, "is not one line of text")
    return text


def build_ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later that checks the server's certificate and name.

    Raises ``CredentialsInvalid``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            context.load_verify_locations(cadata=_read_pem(tls.ca, "CERTIFICATE"))
        except ssl.SSLError as error:
            raise _credentials_error(tls.ca, f"is not a certificate: {error.reason}") from None
    if tls.certificate:
        _load_client_certificate(context, tls, tls.certificate)
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: Tls, certificate: SecretReference) -> None:
    key = tls.key or certificate
    _read_pem(certificate, "CERTIFICATE")
    _read_pem(key, "PRIVATE KEY")
    secret = read_secret(tls.key_password) if tls.key_password else None

    def give() -> str:
        # Without a callback, OpenSSL prompts for the password at the terminal.
        if secret is None:
            raise _MissingKeyPassword
        return secret

    try:
        context.load_cert_chain(certificate.file, key.file, give)
    except _MissingKeyPassword:
        raise _credentials_error(key, "is encrypted, and there is no keyPassword") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "does not belong to the certificate"
        elif secret is not None:
            why = f"cannot be opened with its keyPassword ({error.reason or 'wrong password'})"
        else:
            why = f"is not a key that can be used ({error.reason or 'malformed'})"
        raise _credentials_error(key, why) from None
    except OSError as error:
        raise _credentials_error(key, f"cannot be read: {error.strerror}") from None


def _read_pem(reference: SecretReference, kind: str) -> str:
    """Return the text of a PEM file that contains a block of ``kind``."""
    text = _read_file(reference, MAX_CERTIFICATE_BYTES).decode("ascii", "ignore")  # comments may be in any language
    if not text.strip():
        raise _credentials_error(reference, "is empty")
    if f"{kind}-----" not in text:
        raise _credentials_error(reference, f"holds no {kind.lower()} in PEM form (-----BEGIN ...)")
    return text


def _read_file(reference: SecretReference, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; symbolic links are followed, since Kubernetes mounts secrets as links."""
    if reference.secret:
        raise _credentials_error(
            reference, "can be read by the operator in Kubernetes only", "use a file or an environment variable"
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
        raise _credentials_error(reference, "cannot be read by this user: permission denied") from None
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
