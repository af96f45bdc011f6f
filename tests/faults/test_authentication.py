"""F26: each way to fail a login at a real ZooKeeper is one line with the cause. Every case is a whole run of the
command line with a connect timeout of 5 s.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from integration.protected_cluster import run_verbose, write_manifests
from support.network.certificates import EXPIRED, NOT_YET_VALID, Authority
from support.network.relay import Impostor
from support.secret_scanner import register_secret
from support.zookeeper.secured_server import KAFKA, KEY_PASSWORD, SecuredZooKeeper
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

WRONG = register_secret("planted-Hedge5-wrong")
IN_ENVIRONMENT = register_secret("planted-Hedge4-environment")

Fields = dict[str, Any]
Vault = tuple[SecuredZooKeeper, Path]


def _file(vault: Vault, content: str, name: str = "wrong") -> Fields:
    path = vault[1] / name
    path.write_text(content)
    return {"file": str(path)}


def _sasl(user: str, password: Fields) -> Fields:
    return {"sasl": {"username": user, "password": password}}


def _tls(at: Vault, **more: Fields) -> Fields:
    return {"tls": {"ca": {"file": str(at[0].authority.ca)}, **more}}


def _certificate(at: Vault, subject: str, **options: Any) -> Fields:
    return {"file": str(at[0].authority.issue(subject, **options))}


def _plain(at: Vault) -> Fields:
    return {"connect": at[0].connect}


def _secure(at: Vault) -> Fields:
    return {"connect": at[0].secure}


def _by_address(at: Vault) -> Fields:
    return {"connect": f"127.0.0.1:{at[0].secure_port}"}


def _stranger(at: Vault) -> Path:
    folder = at[1] / "stranger"
    return Authority(folder).ca if not folder.exists() else folder / "ca.pem"


@pytest.fixture
def vault(secured: SecuredZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """Return the server, and a folder for secrets outside the folder of a test."""
    return secured, tmp_path_factory.mktemp("vault")


@pytest.fixture
def locked(strict: SecuredZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """Return the same for the server that requires a certificate and a login."""
    return strict, tmp_path_factory.mktemp("vault")


def said(fields: Fields, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of a run that fails before it reads anything; it must be an error of one line."""
    assert run_verbose("plan", write_manifests(folder, fields, "orders")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    (line,) = err.splitlines()
    return str(line)


REFUSED: dict[str, tuple[Callable[[Vault], Fields], str]] = {
    "wrong password": (
        lambda at: {**_plain(at), **_sasl(KAFKA, _file(at, WRONG))},
        "it refused the SASL user kafka or the password, without saying which",
    ),
    "unknown user": (
        lambda at: {**_plain(at), **_sasl("nobody", _file(at, WRONG))},
        "it refused the SASL user nobody or the password, without saying which",
    ),
    "wrong password by tls": (
        lambda at: {**_secure(at), **_tls(at), **_sasl(KAFKA, _file(at, WRONG))},
        "it refused the SASL user kafka or the password, without saying which",
    ),
    "unknown authority": (
        lambda at: {**_secure(at), "tls": {"ca": {"file": str(_stranger(at))}}},
        "its certificate was issued by an authority that tls.ca does not have (unable to get local issuer certificate)",
    ),
    "nobody's authority": (
        lambda at: {**_secure(at), "tls": {}},
        "its certificate was issued by an authority that the system does not trust: set tls.ca",
    ),
    "wrong host name": (
        lambda at: {**_by_address(at), **_tls(at)},
        "its certificate is not for 127.0.0.1; if the server is the right one, set tls.serverName to a name in it",
    ),
    "expired client certificate": (
        lambda at: {**_secure(at), **_tls(at, certificate=_certificate(at, "old", valid=EXPIRED))},
        "it refused the client certificate (sslv3 alert certificate unknown), perhaps expired, or of an",
    ),
    "tls to a plain port": (
        lambda at: {**_plain(at), **_tls(at)},
        "this port does not accept TLS: use the servers' secureClientPort, or remove tls",
    ),
    "plain to a tls port": (_secure, "this port accepts TLS only: add tls, or use the servers' clientPort"),
    "login in plain text to a tls port": (
        lambda at: {**_secure(at), **_sasl(KAFKA, _file(at, WRONG))},
        "this port accepts TLS only",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_f26_who_is_not_let_in_is_told_why(
    vault: Vault, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The error has the cause, on the server's or on topiarist's side, long before the connect timeout."""
    make, words = REFUSED[case]
    fields = make(vault)
    with caplog.at_level(logging.DEBUG):
        line = said(fields, tmp_path, capsys)
    assert line.startswith(f"error: cluster prod: cannot log in to ZooKeeper at {fields['connect']}: {words}")


LOCKED_OUT: dict[str, tuple[Callable[[Vault], Fields], str]] = {
    "no certificate": (
        lambda at: {**_secure(at), **_tls(at)},
        "it requires a client certificate",
    ),
    "no login": (_plain, "it requires another login than world:anyone (no Cluster document names credentials)"),
    "no login but a certificate": (
        lambda at: {**_secure(at), **_tls(at, certificate=_certificate(at, "ours"))},
        "it requires another login than the subject of topiarist's TLS certificate",
    ),
    "digest in place of sasl": (
        lambda at: {**_plain(at), "digest": {"username": KAFKA, "password": _file(at, WRONG)}},
        "it does not accept digest logins",
    ),
    "wrong password": (
        lambda at: {**_plain(at), **_sasl(KAFKA, _file(at, WRONG))},
        "it refused the SASL user kafka or the password",
    ),
}


@pytest.mark.parametrize("case", LOCKED_OUT)
def test_f26_what_a_server_insists_on_is_named(
    locked: Vault, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that requires a certificate and a login is named to a client that has only one of them, or none."""
    make, words = LOCKED_OUT[case]
    fields = make(locked)
    line = said(fields, tmp_path, capsys)
    assert line.startswith(f"error: cluster prod: cannot log in to ZooKeeper at {fields['connect']}: {words}")


def test_f26_all_that_it_insists_on_lets_us_in(
    locked: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A certificate with an encrypted key and a login succeed: only Kafka is missing then."""
    given = {
        "certificate": _certificate(locked, "ours", password=KEY_PASSWORD),
        "keyPassword": _file(locked, KEY_PASSWORD + "\r\n", "key-password"),
    }
    login = _sasl(KAFKA, {"file": str(locked[0].password(KAFKA))})
    assert (
        run_verbose("plan", write_manifests(tmp_path, {**_secure(locked), **_tls(locked, **given), **login}, "orders"))
        == 1
    )
    assert "this is not a Kafka cluster" in capsys.readouterr().err


UNUSABLE: dict[str, tuple[Callable[[Vault], Fields], str]] = {
    "missing": (lambda at: _sasl(KAFKA, {"file": "nowhere/file"}), "/nowhere/file does not exist"),
    "a folder": (lambda at: _sasl(KAFKA, {"file": str(at[1])}), "is not a regular file"),
    "empty": (lambda at: _sasl(KAFKA, _file(at, "\n")), "is empty"),
    "two lines": (lambda at: _sasl(KAFKA, _file(at, f"{WRONG}\n{WRONG}")), "is not one line of text"),
    "not UTF-8": (lambda at: _sasl(KAFKA, _latin(at)), "is not UTF-8"),
    "too long": (lambda at: _sasl(KAFKA, _file(at, WRONG * 30_000)), "is larger than 524,288 bytes"),
    "unset": (
        lambda at: {"digest": {"username": KAFKA, "password": {"env": "TOPIARIST_NOT_SET"}}},
        "the environment variable TOPIARIST_NOT_SET is not set",
    ),
    "no certificate": (lambda at: {"tls": {"ca": _file(at, WRONG)}}, "holds no certificate in PEM form"),
    "torn certificate": (
        lambda at: {"tls": {"ca": _file(at, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")}},
        "is not a certificate",
    ),
    "no key": (lambda at: _tls(at, certificate={"file": str(at[0].authority.ca)}), "holds no private key in PEM form"),
    "another's key": (
        lambda at: _tls(at, certificate=_certificate(at, "ours"), key=_certificate(at, "theirs")),
        "theirs.pem does not belong to the certificate",
    ),
    "encrypted key": (
        lambda at: _tls(at, certificate=_certificate(at, "ours", password=KEY_PASSWORD)),
        "is encrypted, and there is no keyPassword",
    ),
    "wrong key password": (
        lambda at: _tls(
            at, certificate=_certificate(at, "ours", password=KEY_PASSWORD), keyPassword=_file(at, WRONG, "password")
        ),
        "cannot be opened with its keyPassword",
    ),
}


def _latin(at: Vault) -> Fields:
    path = at[1] / "latin"
    path.write_bytes(WRONG.encode() + b"\xfc")
    return {"file": str(path)}


@pytest.mark.parametrize("case", UNUSABLE)
def test_f26_a_secret_that_cannot_be_used_is_named_with_the_line_that_names_it(
    vault: Vault, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unusable secret is named with its line of the manifest; nothing is sent, and no content is shown."""
    make, words = UNUSABLE[case]
    line = said({"connect": vault[0].secure, **make(vault)}, tmp_path, capsys)
    assert line.startswith(f"error: cluster prod: {tmp_path}/all.yaml:")
    assert words in line


@pytest.mark.parametrize(
    ("valid", "words"), [(EXPIRED, "its certificate has expired"), (NOT_YET_VALID, "its certificate is not valid yet")]
)
def test_f26_a_server_whose_certificate_is_out_of_date_is_not_trusted(
    vault: Vault, tmp_path: Path, valid: tuple[timedelta, timedelta], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A certificate that has expired or is not valid yet is rejected, with the cause."""
    certificate = vault[0].authority.issue("late", "localhost", valid=valid)
    with Impostor(certificate) as impostor:
        connect = f"localhost:{impostor.port}"
        line = said({"connect": connect, **_tls(vault)}, tmp_path, capsys)
    assert line == f"error: cluster prod: cannot log in to ZooKeeper at {connect}: {words}"


def test_f26_a_server_that_hangs_in_the_handshake_is_given_up(
    vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that accepts and never answers is no rejection: topiarist tries until the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connect = f"localhost:{silent.getsockname()[1]}"
        folder = write_manifests(tmp_path, {"connect": connect, **_tls(vault)}, "orders")
        assert run_verbose("plan", folder, "--connect-timeout", "0.3") == 1
    said = capsys.readouterr().err
    # Whether the last try or the whole time is over first is a matter of microseconds.
    ends = ("no answer in time", "no answer within 0.3 s")
    first = f"error: cluster prod: cannot reach ZooKeeper at {connect}: "
    assert said.splitlines()[0] in [first + end for end in ends]


def test_f26_a_server_without_sasl_is_not_asked_again(
    zookeeper: EmbeddedZooKeeper, vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the server does not accept the configured login, the run ends: it never continues under another identity."""
    line = said({"connect": zookeeper.connect, **_sasl(KAFKA, _file(vault, WRONG))}, tmp_path, capsys)
    assert line.endswith("it does not offer SASL: its JAAS configuration has no users")


def test_f26_a_server_that_refuses_us_does_not_hide_one_that_does_not(
    vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of three servers has an expired certificate, one is down: the login succeeds at the third."""
    server, _ = vault
    certificate = server.authority.issue("late", "localhost", valid=EXPIRED)
    with Impostor(certificate) as impostor:
        connect = f"localhost:{impostor.port},localhost:1,{server.secure}"
        assert run_verbose("plan", write_manifests(tmp_path, {"connect": connect, **_tls(vault)}, "orders")) == 1
    assert "this is not a Kafka cluster" in capsys.readouterr().err


def test_f26_a_password_from_the_environment_is_as_good(
    vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable is read when the run connects; a wrong one is rejected like one from a file."""
    fields = {**_plain(vault), **_sasl(KAFKA, {"env": "TOPIARIST_ZOOKEEPER_PASSWORD"})}
    monkeypatch.setenv("TOPIARIST_ZOOKEEPER_PASSWORD", IN_ENVIRONMENT)
    assert "it refused the SASL user kafka" in said(fields, tmp_path, capsys)
    monkeypatch.setenv("TOPIARIST_ZOOKEEPER_PASSWORD", vault[0].password(KAFKA).read_text())
    assert run_verbose("plan", write_manifests(tmp_path, fields, "orders")) == 1
    assert "this is not a Kafka cluster" in capsys.readouterr().err
