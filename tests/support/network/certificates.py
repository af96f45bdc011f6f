"""Certificates for tests: an authority, its signed certificates, and every kind of invalid certificate.

Every generated private key is planted: its text is a secret that must not appear anywhere (``planted``).
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from support import secret_scanner

DAY = timedelta(days=1)
VALID = (-DAY, DAY)
EXPIRED = (-2 * DAY, -DAY)
NOT_YET_VALID = (DAY, 2 * DAY)


class Authority:
    """A certificate authority with its own certificate in ``ca``; all its files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"authority {folder.name}")
        builder = _builder(self._name, self._name, self._key.public_key(), (-9 * DAY, 9 * DAY))
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(self._key, SHA256())
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, subject: str, *names: str, valid: tuple[timedelta, timedelta] = VALID, password: str = "") -> Path:
        """Return the path of a PEM file with a certificate and its key, which is encrypted if there is a password.

        ``names`` are the host names and addresses of the certificate.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(subject), self._name, key.public_key(), valid)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(name) for name in names]), critical=False
            )
        certificate = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        encryption: KeySerializationEncryption = (
            BestAvailableEncryption(password.encode()) if password else NoEncryption()
        )
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        for line in secret.decode().splitlines()[1:-1]:
            secret_scanner.register_secret(line)
        path = self._folder / f"{subject}.pem"
        path.write_bytes(certificate + secret)
        return path


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: tuple[timedelta, timedelta]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return builder.not_valid_before(now + valid[0]).not_valid_after(now + valid[1])
