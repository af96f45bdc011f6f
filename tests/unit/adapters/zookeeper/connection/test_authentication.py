"""SASL login: topiarist uses only a server that proves its knowledge of the password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.exceptions import AuthFailedError

from support.secret_scanner import register_secret
from topiarist.adapters.zookeeper.connection import authentication
from topiarist.adapters.zookeeper.connection.authentication import Authenticator
from topiarist.errors import Location, Reason
from topiarist.model.credentials import Credentials, SecretReference, UserPassword

SECRET = register_secret("planted-Hedge1-door")
CHALLENGE = b'realm="zk-sasl-md5",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'

Server = Callable[[bytes], bytes | None]


@pytest.fixture
def login(tmp_path_factory: pytest.TempPathFactory) -> UserPassword:
    """Return a user with a password in a file."""
    path: Path = tmp_path_factory.mktemp("vault") / "password"
    path.write_text(SECRET)
    return UserPassword("kafka", SecretReference(str(path), "", Location("clusters.yaml", 7, 9)))


def knowing(token: bytes) -> bytes:
    """A server that has the password."""
    if not token:
        return CHALLENGE
    nonce = authentication.parse_fields(token)[b"cnonce"].decode()
    return b"rspauth=" + authentication.build_response(CHALLENGE, "kafka", SECRET, nonce).server_proof


def refusing(token: bytes) -> bytes:
    """A server that refuses the login with an error, as ZooKeeper does since 3.6."""
    if token:
        raise AuthFailedError
    return CHALLENGE


def test_a_server_that_knows_the_password_lets_us_in(login: UserPassword) -> None:
    """A login to a server with the right password succeeds without a refusal."""
    entry = Authenticator(Credentials(sasl=login))
    entry.log_in(login, knowing)
    assert entry.refusal is None


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (refusing, "it refused the SASL user kafka or the password, without saying which"),
        (lambda token: None if token else CHALLENGE, "it refused the SASL user kafka or the password"),
        (lambda token: b"rspauth=0" if token else CHALLENGE, "it did not prove that it knows the password"),
        (lambda token: CHALLENGE, "it did not prove that it knows the password"),
        (lambda token: None, "it does not offer SASL: its JAAS configuration has no users"),
        (lambda token: b"hello", "the server's SASL challenge is malformed"),
        (lambda token: b"", "the server's SASL challenge is not one of DIGEST-MD5"),
    ],
)
def test_any_other_server_is_not_gone_in_to(login: UserPassword, server: Server, words: str) -> None:
    """A server that refuses, does not answer, has no proof or offers another mechanism ends the login. kazoo gets
    ``AuthFailedError``, and the authenticator keeps the reason.
    """
    entry = Authenticator(Credentials(sasl=login))
    with pytest.raises(AuthFailedError):
        entry.log_in(login, server)
    assert entry.refusal is not None
    assert entry.refusal.reason is Reason.AUTHENTICATION_FAILED
    assert words in str(entry.refusal)
