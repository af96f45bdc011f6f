"""Credentials: references in manifests, values from files and variables, and secrets that no error shows."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from support.network.certificates import Authority
from support.secret_scanner import register_secret
from topiarist.adapters import tls as secrets
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
    body = {"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "a"}, "spec": {}}
    body["spec"] = {"zookeeper": zookeeper}
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
    assert secrets.read_secret(in_file(path).password) == f" {SECRET} "


def test_a_password_is_read_anew_each_time(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password is read again at each use, from a variable or a file behind a link, as Kubernetes mounts secrets."""
    vault = tmp_path_factory.mktemp("vault")
    (vault / "one").write_text(SECRET + "1")
    (vault / "two").write_text(SECRET + "2")
    (vault / "password").symlink_to("one")
    assert secrets.read_secret(in_file(vault / "password").password) == SECRET + "1"
    (vault / "password").unlink()
    (vault / "password").symlink_to("two")
    assert secrets.read_secret(in_file(vault / "password").password) == SECRET + "2"
    for value in (SECRET, SECRET + "ü"):
        monkeypatch.setenv("TOPIARIST_PASSWORD", value)
        assert secrets.read_secret(SecretReference("", "TOPIARIST_PASSWORD", HERE)) == value


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Only regular files are read, because a pipe may have no writer."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TopiaristError, match="is not a regular file") as caught:
        secrets.read_secret(in_file(tmp_path / "pipe").password)
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
        secrets.read_secret(in_file(Path("/run/secret")).password)
    assert str(caught.value) == f"clusters.yaml:7:9: the file /run/secret {words}"


def test_tls_checks_what_it_has_to(tmp_path_factory: pytest.TempPathFactory) -> None:
    """TLS is 1.2 or later and verifies certificate and host name; a given ``ca`` is the only trusted one."""
    authority = Authority(tmp_path_factory.mktemp("vault") / "authority")
    authority.ca.write_text("# ausführlich\n" + authority.ca.read_text(), encoding="utf-8")
    for tls in (Tls(), Tls(ca=SecretReference(str(authority.ca), "", HERE))):
        made = secrets.build_ssl_context(tls)
        assert made.minimum_version == ssl.TLSVersion.TLSv1_2
        assert (made.check_hostname, made.verify_mode) == (True, ssl.CERT_REQUIRED)
        assert tls.ca is None or made.cert_store_stats()["x509_ca"] == 1


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
        assert secrets.read_secret(COMMAND) == "a  $HOME ; exit"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not set"),
        ("", "is empty"),
        ("echo 'open", "has no command: no closing quotation"),
        ("/nowhere/program", "has a command that cannot be run: no such file or directory"),
        ("false", "has a command that failed with exit code 1"),
        ("true", "is empty"),
        ("printf 'two\\nlines'", "is not one line of text"),
        ("sleep 60", "has a command that did not end in 0.1 s"),
    ],
)
def test_a_command_that_fails(monkeypatch: pytest.MonkeyPatch, text: str | None, words: str) -> None:
    """The error names the variable and the place of its name; neither command nor output are shown."""
    monkeypatch.setattr(secrets, "COMMAND_TIMEOUT_S", 0.1 if text == "sleep 60" else 30.0)
    monkeypatch.delenv(COMMAND.command, raising=False)
    if text is not None:
        monkeypatch.setenv(COMMAND.command, text)
    with pytest.raises(TopiaristError) as caught:
        secrets.read_secret(COMMAND)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    assert str(caught.value) == f"clusters.yaml:7:9: the environment variable TOPIARIST_TOKEN_COMMAND {words}"


def test_the_longest_secrets(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A secret may be as long as a message of a login; the password of a key as long as OpenSSL takes it."""
    path = tmp_path_factory.mktemp("vault") / "secret"
    reference = SecretReference(str(path), "", HERE)
    path.write_text("x" * (1 << 19))
    assert len(secrets.read_secret(reference)) == 1 << 19
    with pytest.raises(TopiaristError, match="is larger than 1,023 bytes"):
        secrets.read_secret(reference, secrets.MAX_KEY_PASSWORD_BYTES)
    path.write_text("x" * ((1 << 19) + 1))
    with pytest.raises(TopiaristError, match="is larger than 524,288 bytes"):
        secrets.read_secret(reference)
