"""SASL login: topiarist uses only a server that proves its knowledge of the password."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import AuthFailedError

from support.secret_scanner import register_secret
from topiarist.adapters.zookeeper.connection import authentication
from topiarist.adapters.zookeeper.connection.authentication import Authenticator
from topiarist.errors import Location, Reason
from topiarist.model.access import Credentials, SecretReference, UserPassword

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


DIGEST_CHALLENGE = b'realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",qop="auth",charset=utf-8,algorithm=md5-sess'


def test_the_example_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of section 4 (chris, secret, an IMAP server) gives the printed answer and proof."""
    monkeypatch.setattr(authentication, "DIGEST_URI", b"imap/elwood.innosoft.com")
    challenge = DIGEST_CHALLENGE.replace(b"zk-sasl-md5", b"elwood.innosoft.com")
    found = authentication.build_response(challenge, "chris", "secret", "OA6MHXh6VqTrRk")
    assert authentication.parse_fields(found.token) == {
        b"username": b"chris",
        b"realm": b"elwood.innosoft.com",
        b"nonce": b"OA6MG9tEQGm2hh",
        b"cnonce": b"OA6MHXh6VqTrRk",
        b"nc": b"00000001",
        b"digest-uri": b"imap/elwood.innosoft.com",
        b"response": b"d388dad90d4bbd760a152321f2143af7",
        b"charset": b"utf-8",
        b"qop": b"auth",
    }
    assert authentication.is_server_proof_valid(b"rspauth=ea40f60335c427b5527b84dbabcdfffd", found)


@pytest.mark.parametrize(
    "reply", [b"rspauth=ea40f60335c427b5527b84dbabcdfffe", b"", b'rspauth=""', b"auth=ea40f60335c427b5527b84dbabcdfffd"]
)
def test_a_server_that_does_not_know_the_password_proves_nothing(reply: bytes) -> None:
    """Any reply except the exact proof is refused."""
    response = authentication.build_response(DIGEST_CHALLENGE, "chris", "secret", "OA6MHXh6VqTrRk")
    assert not authentication.is_server_proof_valid(reply, response)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b'realm="x"',
        DIGEST_CHALLENGE.replace(b"nonce", b"nounce"),
        DIGEST_CHALLENGE.replace(b"md5-sess", b"sha"),
        DIGEST_CHALLENGE.replace(b'"auth"', b'"auth-conf"'),
        DIGEST_CHALLENGE.replace(b"utf-8", b"latin-1"),
    ],
)
def test_a_challenge_of_another_kind_is_not_answered(challenge: bytes) -> None:
    """A challenge of another mechanism gets no answer, so nothing about the password is sent."""
    with pytest.raises(ValueError, match="not one of DIGEST-MD5 with qop auth"):
        authentication.build_response(challenge, "chris", "secret", "0")


def test_a_torn_challenge_is_not_answered() -> None:
    """A challenge that is no list of fields is refused, also after a valid start."""
    with pytest.raises(ValueError, match="malformed"):
        authentication.build_response(DIGEST_CHALLENGE + b',x="y', "chris", "secret", "0")


def test_one_of_several_qops_is_enough() -> None:
    """One supported qop of several is enough; blanks around fields and empty fields are allowed."""
    challenge = DIGEST_CHALLENGE.replace(b'"auth"', b'"auth-conf, auth"').replace(b",", b" ,, ")
    assert authentication.build_response(challenge, "chris", "secret", "0") == authentication.build_response(
        DIGEST_CHALLENGE, "chris", "secret", "0"
    )


@given(st.text(max_size=9), st.text(max_size=9))
def test_names_come_through_whatever_is_in_them(username: str, password: str) -> None:
    """Quotes and backslashes of the user name are escaped, and the password is sent only as part of a hash."""
    found = authentication.build_response(DIGEST_CHALLENGE, username, password, "0")
    assert authentication.parse_fields(found.token)[b"username"] == username.encode()
    charset = "latin-1" if max(map(ord, username + password), default=0) < 256 else "utf-8"
    secret = hashlib.md5(f"{username}:zk-sasl-md5:{password}".encode(charset)).digest()
    session = hashlib.md5(secret + b":OA6MG9tEQGm2hh:0").hexdigest()
    target = hashlib.md5(b"AUTHENTICATE:zookeeper/zk-sasl-md5").hexdigest()
    response = hashlib.md5(f"{session}:OA6MG9tEQGm2hh:00000001:0:auth:{target}".encode()).hexdigest()
    assert authentication.parse_fields(found.token)[b"response"] == response.encode()


@given(st.binary(max_size=200))
def test_no_challenge_breaks_the_reader(challenge: bytes) -> None:
    """Any challenge gives an answer or a ValueError."""
    try:
        authentication.build_response(challenge, "chris", "secret", "0")
    except ValueError:
        return
    assert b"md5-sess" in challenge
