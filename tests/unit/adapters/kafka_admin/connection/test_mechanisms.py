"""The messages of SASL mechanisms, by the examples of their RFCs and beside kafka-python."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from topiarist.adapters.kafka_admin.connection.authentication import OAuthBearer, Scram, make_plain

SERVER = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.fixture
def scram(monkeypatch: pytest.MonkeyPatch) -> Scram:
    """Return the exchange of the example of RFC 7677, with its nonce."""
    monkeypatch.setattr("secrets.token_hex", lambda _: "rOprNGfwEbeRWgbNEkqO")
    return Scram("user", "pencil", "SCRAM-SHA-256")


def test_scram_is_the_example_of_its_rfc(scram: Scram) -> None:
    """Both messages and the signature of the server are those of RFC 7677, section 3."""
    assert scram.auth_bytes() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    scram.receive(SERVER.encode())
    assert scram.auth_bytes().decode() == PROOF
    assert not scram.is_done()
    scram.receive(SIGNATURE.encode())
    assert scram.is_done()
    assert scram.is_authenticated()


@pytest.mark.parametrize(
    "answer",
    [
        "r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        SERVER.replace("i=4096", "i=1000001"),
        SERVER.replace("i=4096", "i=0"),
        SERVER.replace("i=4096", "i=many"),
        "r",
    ],
)
def test_an_answer_that_is_not_for_this_login_is_refused(scram: Scram, answer: str) -> None:
    """Another nonce, too many iterations and text that is no answer are errors before a proof is computed."""
    with pytest.raises(ValueError):  # noqa: PT011
        scram.receive(answer.encode())


def test_a_server_without_the_password_is_refused(scram: Scram) -> None:
    """A wrong signature, and none, are no login."""
    scram.receive(SERVER.encode())
    for answer in ("v=AAAA", "e=other-error"):
        with pytest.raises((ValueError, KeyError)):
            scram.receive(answer.encode())
        assert not scram.is_done()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@given(password=st.text(min_size=1, max_size=20), salt=st.binary(min_size=1, max_size=20))
def test_scram_proves_what_another_client_proves(mechanism: str, password: str, salt: bytes) -> None:
    """With the same nonce, the proof and the expected signature are those of kafka-python."""
    own, other = Scram("ada", password, mechanism), ScramClient("ada", password, mechanism)
    other.nonce = own._nonce.encode()
    assert own.auth_bytes() == other.first_message()
    answer = f"r={own._nonce}more,s={base64.b64encode(salt).decode()},i=5".encode()
    own.receive(answer)
    other.process_server_first_message(answer)
    assert own.auth_bytes() == other.final_message()
    own.receive(b"v=" + base64.b64encode(other.server_signature))
    assert own.is_authenticated()


def test_a_name_with_the_signs_of_the_protocol_is_escaped() -> None:
    """A comma would end the name, and an equals sign begins an escape (RFC 5802, section 5.1)."""
    assert Scram("a,b=c", "secret", "SCRAM-SHA-512").auth_bytes().startswith(b"n,,n=a=2Cb=3Dc,r=")


def test_the_proof_has_no_password() -> None:
    """What is sent is the key of the client, hidden by a signature that the server can compute."""
    exchange = Scram("ada", "pencil", "SCRAM-SHA-512")
    exchange.receive(f"r={exchange._nonce}x,s={base64.b64encode(b'salt').decode()},i=4096".encode())
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 4096)
    key = hmac.digest(salted, b"Client Key", "sha512")
    assert base64.b64encode(key) not in exchange.auth_bytes()
    assert b"pencil" not in exchange.auth_bytes()


def test_plain_is_one_message() -> None:
    """Identity, user and password are separated by zeros; the right answer is empty."""
    exchange = make_plain("ada", "se cret")
    assert exchange.auth_bytes() == b"ada\0ada\0se cret"
    assert not exchange.is_done()
    exchange.receive(b"")
    assert (exchange.is_done(), exchange.is_authenticated()) == (True, True)
    exchange.receive(b"what")
    assert (exchange.is_done(), exchange.is_authenticated()) == (True, False)


def test_a_token_is_sent_with_its_extensions() -> None:
    """The message is that of RFC 7628, section 3.1; each extension is a field of its own."""
    assert OAuthBearer("t0k").auth_bytes() == b"n,,\x01auth=Bearer t0k\x01\x01"
    exchange = OAuthBearer("t0k", {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"})
    assert exchange.auth_bytes() == (b"n,,\x01auth=Bearer t0k\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01")
    exchange.receive(b"")
    assert exchange.is_authenticated()


def test_a_refused_token_is_confirmed() -> None:
    """The answer to an error is one byte (RFC 7628, section 3.2.3), after which the server ends the login."""
    exchange = OAuthBearer("t0k")
    exchange.receive(b'{"status":"invalid_token"}')
    assert not exchange.is_done()
    assert exchange.auth_bytes() == b"\x01"
