"""Credentials, keys and stores: references in manifests, values from files, secrets that no error shows."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import struct
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from support.builders import document
from support.network.certificates import Authority
from support.network.token_server import SigningKey
from support.secret_scanner import register_secret
from topiarist.adapters import tls
from topiarist.adapters.tls import KeyProblem, build_ssl_context
from topiarist.adapters.zookeeper.connection.authentication import check_credentials
from topiarist.desired import parse
from topiarist.errors import FieldPath as DocumentPath
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model import spec
from topiarist.model.access import ANONYMOUS, Credentials, SecretReference, Tls, UserPassword
from topiarist.schema import check

SECRET = register_secret("planted-Hedge2-unit")
HERE = Location("clusters.yaml", 7, 9)


class Somewhere:
    """A document in a file, with the length of the requested path as line number."""

    def __init__(self, file: str) -> None:
        self.file = file

    def locate(self, path: DocumentPath = ()) -> Location:
        """Return the location of a path."""
        return Location(self.file, len(path), 1)


def of(zookeeper: dict[str, Any], file: str = "prod/clusters.yaml") -> Credentials:
    """Return the credentials of a manifest."""
    body = document("Cluster", "a", zookeeper=zookeeper)
    assert check.check(body) == []
    access = parse.parse_cluster_spec(spec.make_manifest(body, Somewhere(file))).zookeeper
    assert access is not None
    return access.credentials


def in_file(path: Path) -> UserPassword:
    """Return a login with the password in a file."""
    return UserPassword("kafka", SecretReference(str(path), "", HERE))


def test_a_manifest_names_what_it_wants() -> None:
    """Every field is parsed with its location; file names are relative to the folder of the manifest."""
    found = of(
        {
            "sasl": {"mechanism": "DIGEST-MD5", "username": "kafka", "password": {"file": "../secret"}},
            "digest": {"username": "super", "password": {"env": "TOPIARIST_PASSWORD"}},
            "tls": {
                "ca": {"file": "ca.pem"},
                "certificate": {"file": "/run/tls.crt"},
                "key": {"file": "/run/tls.key"},
                "keyPassword": {"env": "TOPIARIST_KEY"},
                "serverName": "zk.example.com",
            },
        }
    )
    at = Location("prod/clusters.yaml", 5, 1)
    assert found == Credentials(
        sasl=UserPassword("kafka", SecretReference("prod/../secret", "", at)),
        digest=UserPassword("super", SecretReference("", "TOPIARIST_PASSWORD", at)),
        tls=Tls(
            ca=SecretReference("prod/ca.pem", "", at),
            certificate=SecretReference("/run/tls.crt", "", at),
            key=SecretReference("/run/tls.key", "", at),
            key_password=SecretReference("", "TOPIARIST_KEY", at),
            server_name="zk.example.com",
        ),
    )


def test_nothing_is_asked_for_by_default() -> None:
    """Login and TLS are off by default; an empty ``tls`` enables TLS."""
    assert of({}) == ANONYMOUS == Credentials()
    assert of({"tls": {}}).tls == Tls()
    assert of({"tls": {"ca": {"file": "ca.pem"}}}, "<stdin>").tls == Tls(
        ca=SecretReference("ca.pem", "", Location("<stdin>", 5, 1))
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ANONYMOUS, "world:anyone (no Cluster document names credentials)"),
        (Credentials(tls=Tls()), "world:anyone (no Cluster document names credentials)"),
        (
            Credentials(
                sasl=in_file(Path("a")), digest=in_file(Path("b")), tls=Tls(certificate=SecretReference("c", "", HERE))
            ),
            "SASL user kafka and digest user kafka and the subject of topiarist's TLS certificate",
        ),
    ],
)
def test_who_we_are_can_be_said(given: Credentials, words: str) -> None:
    """The principal in an error about a missing permission names all credentials."""
    assert given.principal == words


@pytest.mark.parametrize(("ending", "end"), [("none", ""), ("Unix", "\n"), ("Windows", "\r\n")])
def test_a_line_end_is_no_part_of_a_password(tmp_path_factory: pytest.TempPathFactory, ending: str, end: str) -> None:
    """One line end after a password, as editors and ``echo`` write it, is removed; blanks are kept."""
    path = tmp_path_factory.mktemp("vault") / ending
    path.write_bytes(f" {SECRET} {end}".encode())
    assert tls.read_secret(in_file(path).password) == f" {SECRET} "


def test_a_password_is_read_anew_each_time(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password is read again at each use, from a variable or a file behind a link, as Kubernetes mounts tls."""
    vault = tmp_path_factory.mktemp("vault")
    (vault / "one").write_text(SECRET + "1")
    (vault / "two").write_text(SECRET + "2")
    (vault / "password").symlink_to("one")
    assert tls.read_secret(in_file(vault / "password").password) == SECRET + "1"
    (vault / "password").unlink()
    (vault / "password").symlink_to("two")
    assert tls.read_secret(in_file(vault / "password").password) == SECRET + "2"
    for value in (SECRET, SECRET + "ü"):
        monkeypatch.setenv("TOPIARIST_PASSWORD", value)
        assert tls.read_secret(SecretReference("", "TOPIARIST_PASSWORD", HERE)) == value


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Only regular files are read, because a pipe may have no writer."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TopiaristError, match="is not a regular file") as caught:
        tls.read_secret(in_file(tmp_path / "pipe").password)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "cannot be read by this user: permission denied"),
        (OSError(5, "Input/output error"), "cannot be read: Input/output error"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, error: OSError, words: str) -> None:
    """The error about an unreadable file has the location of the reference and the cause."""

    def fail(*_: Any) -> int:
        raise error

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(TopiaristError, match=words) as caught:
        tls.read_secret(in_file(Path("/run/secret")).password)
    assert str(caught.value) == f"clusters.yaml:7:9: the file /run/secret {words}"


def test_tls_checks_what_it_has_to(tmp_path_factory: pytest.TempPathFactory) -> None:
    """TLS is 1.2 or later and verifies certificate and host name; a given ``ca`` is the only trusted one."""
    authority = Authority(tmp_path_factory.mktemp("vault") / "authority")
    authority.ca.write_text("# ausführlich\n" + authority.ca.read_text(), encoding="utf-8")
    for settings in (Tls(), Tls(ca=SecretReference(str(authority.ca), "", HERE))):
        made = tls.build_ssl_context(settings)
        assert made.minimum_version == ssl.TLSVersion.TLSv1_2
        assert (made.check_hostname, made.verify_mode) == (True, ssl.CERT_REQUIRED)
        assert settings.ca is None or made.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize("content", [SECRET + "\n" + SECRET, SECRET + "\0", SECRET + "\xfc", SECRET * 30_000])
def test_no_error_holds_what_was_read(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    """No error contains the secret in its message, its cause, its context or any repr."""
    path = tmp_path_factory.mktemp("vault") / "secret"
    path.write_text(content, encoding="latin-1")
    reference = SecretReference(str(path), "", HERE)
    tls = Tls(ca=reference, certificate=reference, key=reference, key_password=reference)
    for given in (Credentials(sasl=UserPassword("kafka", reference)), Credentials(tls=tls)):
        with pytest.raises(TopiaristError, match="the file") as caught:
            check_credentials(given)
        error = caught.value
        assert SECRET not in repr((given, str(error), error.args, vars(error), error.__cause__, error.__context__))


COMMAND = SecretReference("", "", HERE, command="TOPIARIST_TOKEN_COMMAND")


def test_a_command_prints_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command in the variable runs without a shell at each use; its words may be quoted."""
    monkeypatch.setenv(COMMAND.command, "echo 'a  $HOME' ';' exit")
    for _ in range(2):
        assert tls.read_secret(COMMAND) == "a  $HOME ; exit"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not set"),
        ("", "is empty"),
        ("echo 'open", "has no command: no closing quotation"),
        ("/nowhere/program", "has a command that cannot be run: no such file or directory"),
        ("false", "has a command that failed with exit code 1"),
        ("true", "has a command with output that is empty"),
        ("printf '\\377'", "has a command with output that is not UTF-8"),
        ("printf 'two\\nlines'", "has a command with output that is not one line of text"),
        ("head -c 524289 /dev/zero", "has a command with output that is larger than 524,288 bytes"),
        ("sleep 60", "has a command that did not end in 0.1 s"),
    ],
)
def test_a_command_that_fails(monkeypatch: pytest.MonkeyPatch, text: str | None, words: str) -> None:
    """The error names the variable and the place of its name; neither command nor output are shown."""
    monkeypatch.setattr(tls, "COMMAND_TIMEOUT_S", 0.1 if text == "sleep 60" else 30.0)
    monkeypatch.delenv(COMMAND.command, raising=False)
    if text is not None:
        monkeypatch.setenv(COMMAND.command, text)
    with pytest.raises(TopiaristError) as caught:
        tls.read_secret(COMMAND)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    assert str(caught.value) == f"clusters.yaml:7:9: the environment variable TOPIARIST_TOKEN_COMMAND {words}"


def test_the_longest_secrets(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A secret may be as long as a message of a login; the password of a key as long as OpenSSL takes it."""
    path = tmp_path_factory.mktemp("vault") / "secret"
    reference = SecretReference(str(path), "", HERE)
    path.write_text("x" * (1 << 19))
    assert len(tls.read_secret(reference)) == 1 << 19
    with pytest.raises(TopiaristError, match="is larger than 1,023 bytes"):
        tls.read_secret(reference, tls.MAX_KEY_PASSWORD_BYTES)
    path.write_text("x" * ((1 << 19) + 1))
    with pytest.raises(TopiaristError, match="is larger than 524,288 bytes"):
        tls.read_secret(reference)


PASSWORD = register_secret("planted-Hedge24-stores-ü")
DER = serialization.Encoding.DER
KEY = ec.generate_private_key(ec.SECP256R1())
PKCS8 = KEY.private_bytes(DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def certificate() -> x509.Certificate:
    """Return a certificate of the key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "topiarist")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(7).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    return builder.sign(KEY, SHA256())


CERTIFICATE = certificate()


def pkcs12_store(password: str = PASSWORD, *, key: Any = KEY) -> bytes:
    """Return a PKCS12 store with this key, or with a trusted certificate only."""
    protection = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    if key is None:
        return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(CERTIFICATE, b"ca")], protection)
    return pkcs12.serialize_key_and_certificates(b"own", key, CERTIFICATE, None, protection)


def sequence(tag: int, content: bytes) -> bytes:
    """Return DER of a tag and its content."""
    size = len(content)
    return bytes([tag]) + (bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")) + content


def protect(key: bytes, password: str) -> bytes:
    """Hide a private key as Java's KeyProtector does."""
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, last = b"", salt
    while len(stream) < len(key):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    body = salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + hashlib.sha1(secret + key).digest()
    algorithm = sequence(0x30, bytes.fromhex("060a2b060104012a02110101") + b"\x05\x00")
    return sequence(0x30, algorithm + sequence(0x04, body))


def jks_store(*kinds: int, password: str = PASSWORD, key_password: str = PASSWORD, version: int = 2) -> bytes:
    """Return a JKS store with an entry of each of these kinds."""
    der = CERTIFICATE.public_bytes(DER)
    written = b"\x00\x05X.509" + struct.pack(">I", len(der)) + der
    data = b"\xfe\xed\xfe\xed" + struct.pack(">II", version, len(kinds))
    for kind in kinds:
        data += struct.pack(">I", kind) + b"\x00\x03own" + bytes(8)
        hidden = protect(PKCS8, key_password)
        data += (struct.pack(">I", len(hidden)) + hidden + struct.pack(">I", 1) if kind == 1 else b"") + written
    return data + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()


@pytest.mark.parametrize("data", [pkcs12_store(), jks_store(2, 1, 1)], ids=["PKCS12", "JKS"])
def test_a_key_store(data: bytes) -> None:
    """It has the certificate, and the key encrypted by a password that is another one each time."""
    first, second = tls.read_key_store(data, PASSWORD), tls.read_key_store(data, PASSWORD)
    assert x509.load_pem_x509_certificates(first.certificates) == [CERTIFICATE]
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in first.key
    assert base64.b64encode(PKCS8)[:40] not in first.key
    found: Any = serialization.load_pem_private_key(first.key, first.password.encode())
    assert found.private_numbers() == KEY.private_numbers()
    assert first.password != second.password


@pytest.mark.parametrize(
    ("data", "password"),
    [
        (pkcs12_store(key=None), PASSWORD),
        (jks_store(2), PASSWORD),
        (jks_store(1, 2), ""),
        (pkcs12_store("", key=None), ""),
    ],
    ids=["PKCS12", "JKS", "JKS without password", "PKCS12 without password"],
)
def test_a_trust_store(data: bytes, password: str) -> None:
    """It has the trusted certificates; JKS and unprotected PKCS12 need no password."""
    assert x509.load_pem_x509_certificate(tls.read_trust_store(data, password).encode()) == CERTIFICATE


@pytest.mark.parametrize(
    ("data", "password", "words"),
    [
        (pkcs12_store(), "other", "cannot be opened with its password"),
        (pkcs12_store(), "", "cannot be opened without a password"),
        (jks_store(1), "other", "cannot be opened with its password"),
        (jks_store(1), "", "cannot be opened without a password"),
        (jks_store(1, key_password="other"), PASSWORD, "has a private key with another password than the store"),
        (pkcs12_store(key=None), PASSWORD, "has no private key"),
        (jks_store(2), PASSWORD, "has no private key"),
        (jks_store(3), PASSWORD, "with an entry of an unknown kind"),
        (jks_store(1, version=1), PASSWORD, "a JKS store of an unknown form; convert it: keytool -importkeystore"),
        (jks_store(1)[:60], "", "damaged JKS store"),
        (b"\xce\xce\xce\xce1", PASSWORD, "is a JCEKS store; convert it: keytool -importkeystore"),
        (b"-----BEGIN CERTIFICATE-----", PASSWORD, "is in PEM form: use certificate, key and ca"),
        (b"hello", PASSWORD, "is neither a PKCS12 nor a JKS store"),
        (b"\x30hello", PASSWORD, "PKCS12 store that can be read|cannot be opened with its password"),
        (b"", PASSWORD, "is neither a PKCS12 nor a JKS store"),
    ],
    ids=[
        *("PKCS12, password", "PKCS12, no password", "JKS, password", "JKS, no password"),
        *("JKS, password of the key", "PKCS12, no key", "JKS, no key"),
        *("JKS, kind", "JKS, version", "JKS, short", "JCEKS", "PEM", "text", "text like PKCS12", "nothing"),
    ],
)
def test_a_store_that_cannot_be_used(data: bytes, password: str, words: str) -> None:
    """The error says what the file is, and what to do; it has nothing of the password."""
    with pytest.raises(KeyProblem, match=words) as caught:
        tls.read_key_store(data, password)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("data", [pkcs12_store(), jks_store(1)], ids=["PKCS12", "JKS"])
def test_a_store_without_authorities(data: bytes) -> None:
    """A key store is no trust store."""
    with pytest.raises(KeyProblem, match="has no trusted certificate"):
        tls.read_trust_store(data, PASSWORD)


def test_a_torn_jks_store_is_an_error() -> None:
    """Every prefix of a store, and every store with one other byte, is a store or an error, and nothing else."""
    data = jks_store(1, 2)
    torn = [data[:size] for size in range(4, len(data), 7)]
    torn += [data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :] for place in range(4, len(data), 11)]
    for each in torn:
        for password in ("", PASSWORD):
            try:
                tls.read_trust_store(each, password)
            except KeyProblem:
                continue
            assert password == "", "the checksum finds every change"


def test_stores_make_a_context(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context is made of both stores, with no file left behind; a wrong password is an error at its file."""
    vault: Path = tmp_path_factory.mktemp("vault")
    for name, data in {"own": pkcs12_store(), "ca": pkcs12_store(key=None), "password": PASSWORD.encode()}.items():
        (vault / name).write_bytes(data)
    own, ca, password = (SecretReference(str(vault / name), "", HERE) for name in ("own", "ca", "password"))
    tls = Tls(key_store=own, key_store_password=password, trust_store=ca, trust_store_password=password)
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert build_ssl_context(tls).cert_store_stats()["x509"] == 1
    assert not list(temporary.iterdir())
    assert tls.has_certificate
    for wrong in (Tls(key_store=own), Tls(trust_store=ca)):
        with pytest.raises(TopiaristError, match=r"clusters.yaml:7:9: the file .* cannot be opened") as caught:
            build_ssl_context(wrong)
        assert caught.value.reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
def test_a_statement(kind: str) -> None:
    """It has the claims, the algorithm of the key and its id, and a signature that the public key verifies."""
    key = SigningKey("first", kind)
    claims = {"iss": "topiarist", "exp": 7}
    assert key.claims_of(tls.sign_assertion(key.private_pem().encode(), claims, "first")) == claims


def pem(key: Any, password: str = "") -> bytes:
    """Return a private key in PEM form."""
    protection = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    found: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
    return found


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"hello", "is not a private key in PEM form"),
        (pem(KEY, PASSWORD), "is encrypted: write it without a password"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "is neither an RSA key nor a P-256 key"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "is neither an RSA key nor a P-256 key"),
    ],
    ids=["text", "encrypted", "P-384", "Ed25519"],
)
def test_a_key_that_cannot_sign(key: bytes, words: str) -> None:
    """Keys of other kinds have no algorithm that token endpoints must know."""
    with pytest.raises(KeyProblem, match=words):
        tls.sign_assertion(key, {}, "")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra and the package."""
    for name in ("cryptography", "cryptography.hazmat.primitives"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    for work in (
        lambda: tls.read_trust_store(b"", ""),
        lambda: tls.read_key_store(b"", ""),
        lambda: tls.sign_assertion(b"", {}, ""),
    ):
        with pytest.raises(TopiaristError, match=r"needs packages that are not installed: .*extra keys") as caught:
            work()
        assert caught.value.reason is Reason.PREREQUISITE_MISSING
