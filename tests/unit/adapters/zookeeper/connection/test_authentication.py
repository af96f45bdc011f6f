"""The login at the door, server by server: only one that knows the password too is gone in to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.exceptions import AuthFailedError

from support.secret_scanner import register_secret
from topiarist.adapters.zookeeper.connection import sasl
from topiarist.adapters.zookeeper.connection.authentication import Authenticator
from topiarist.errors import Location, Reason
from topiarist.model.credentials import Credentials, SecretReference, UserPassword

SECRET = register_secret("planted-Hedge1-door")
CHALLENGE = b'realm="zk-sasl-md5",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'

Server = Callable[[bytes], bytes | None]


@pytest.fixture
def login(tmp_path_factory: pytest.TempPathFactory) -> UserPassword:
    """A user with a password in a file."""
    path: Path = tmp_path_factory.mktemp("vault") / "password"
    path.write_text(SECRET)
    return UserPassword("kafka", SecretReference(str(path), "", Location("clusters.yaml", 7, 9)))


def knowing(token: bytes) -> bytes:
    """A server that knows the password."""
    if not token:
        return CHALLENGE
    nonce = sasl.parse_fields(token)[b"cnonce"].decode()
    return b"rspauth=" + sasl.build_response(CHALLENGE, "kafka", SECRET, nonce).server_proof


def refusing(token: bytes) -> bytes:
    """A server that refuses us in words, as those since 3.6 do."""
    if token:
        raise AuthFailedError
    return CHALLENGE


def test_a_server_that_knows_the_password_lets_us_in(login: UserPassword) -> None:
    """Nothing is held against anybody."""
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
    """Refused, silent, an impostor, of another kind: kazoo hears that it is over, and the reason is kept in words."""
    entry = Authenticator(Credentials(sasl=login))
    with pytest.raises(AuthFailedError):
        entry.log_in(login, server)
    assert entry.refusal is not None
    assert entry.refusal.reason is Reason.AUTHENTICATION_FAILED
    assert words in str(entry.refusal)
