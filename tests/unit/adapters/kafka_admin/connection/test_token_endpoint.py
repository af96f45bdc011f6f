"""The token endpoint: the request, how long a token is used, and the meaning of each answer."""

from __future__ import annotations

import base64
import email.message
import io
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest

from support.network.token_server import SigningKey
from topiarist.adapters import http_client as client_module
from topiarist.adapters.http_client import MAX_ANSWER_BYTES
from topiarist.adapters.kafka_admin.connection import connector as addresses_module
from topiarist.adapters.kafka_admin.connection import token_endpoint as endpoint_module
from topiarist.adapters.kafka_admin.connection.token_endpoint import TokenEndpoint
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import SaslOAuth, SecretReference
from unit.adapters.kafka_admin.scripted_session import FakeTime

URL = "http://localhost:1/token"
SECRET = "s&cret"


class Answers:
    """An opener with one answer for each request: bytes, or an error; ``sent`` has the requests and timeouts."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[Any, float]] = []

    def open(self, request: Any, timeout: float) -> io.BytesIO:
        """Return the next answer."""
        self.sent.append((request, timeout))
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return io.BytesIO(found)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time, and set the secret."""
    clock = FakeTime()
    for module in (endpoint_module, addresses_module, client_module):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    return clock


def login(url: str = URL, scope: str = "") -> SaslOAuth:
    """Return a login of the client ``a:b``."""
    return SaslOAuth(url, "a:b", SecretReference("", "CLIENT_SECRET", Location("clusters.yaml", 3, 5)), scope)


def answered(monkeypatch: pytest.MonkeyPatch, *answers: bytes | Exception) -> Answers:
    """Replace the opener."""
    opener = Answers(*answers)
    monkeypatch.setattr(urllib.request, "build_opener", lambda *handlers: opener)
    return opener


def token(text: object = "abc", **fields: object) -> bytes:
    """Return an answer with a token."""
    return json.dumps({"access_token": text, **fields}).encode()


def refused(status: int, body: bytes = b"") -> urllib.error.HTTPError:
    """Return an answer with an HTTP error."""
    return urllib.error.HTTPError(URL, status, "no", email.message.Message(), io.BytesIO(body))


def require_error(answer: bytes | Exception, clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> TopiaristError:
    """Return the error for an answer; it names endpoint and client, and never has the secret."""
    answered(monkeypatch, answer)
    with pytest.raises(TopiaristError) as caught:
        TokenEndpoint(login()).token(clock.current + 9, "kafka")
    message = caught.value.message
    assert message.startswith(f"cannot get a token from {URL} for a:b: ")
    assert SECRET not in message
    assert urllib.parse.quote_plus(SECRET) not in message
    return caught.value


@pytest.mark.parametrize("scope", ["", "kafka read"])
def test_the_request(scope: str, clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a POST with the grant, the scope if there is one, and the encoded client; it has the rest of the time."""
    opener = answered(monkeypatch, token())
    assert TokenEndpoint(login(scope=scope)).token(clock.current + 9, "kafka") == "abc"
    ((request, timeout),) = opener.sent
    assert (request.full_url, request.method, timeout) == (URL, "POST", 9.0)
    fields = {"grant_type": ["client_credentials"], **({"scope": [scope]} if scope else {})}
    assert urllib.parse.parse_qs(request.data.decode()) == fields
    kind, _, identity = request.get_header("Authorization").partition(" ")
    assert (kind, base64.b64decode(identity)) == ("Basic", b"a%3Ab:s%26cret")
    assert request.get_header("Content-type") == "application/x-www-form-urlencoded"
    assert request.get_header("Accept") == "application/json"


def test_the_request_of_a_key(clock: FakeTime, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    """A new signed statement replaces the secret each time; it is of the client, for the endpoint, and short-lived."""
    key = SigningKey("7")
    path = tmp_path_factory.mktemp("vault") / "key.pem"
    path.write_text(key.private_pem())
    reference = SecretReference(str(path), "", Location("clusters.yaml", 3, 5))
    endpoint = TokenEndpoint(SaslOAuth(URL, "a:b", client_key=reference, client_key_id="7", audience="kafka"))
    opener = answered(monkeypatch, token(), token())
    for _ in range(2):
        endpoint.token(clock.current + 9, "kafka")
    statements = []
    for request, _ in opener.sent:
        fields = dict(urllib.parse.parse_qsl(request.data.decode()))
        statements.append(key.claims_of(fields.pop("client_assertion")))
        assert request.get_header("Authorization") is None
        assert fields == {
            "grant_type": "client_credentials",
            "audience": "kafka",
            "client_id": "a:b",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
    first, second = statements
    assert (first["iss"], first["sub"], first["aud"], first["exp"] - first["iat"]) == ("a:b", "a:b", URL, 300)
    assert first["jti"] != second["jti"]
    path.write_text("no key")
    with pytest.raises(TopiaristError, match="is not a private key in PEM form") as caught:
        endpoint.check()
    assert caught.value.reason is Reason.CREDENTIALS_INVALID


def test_a_token_is_used_for_four_fifths_of_its_life(clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then another one is asked for, as after a refusal of the brokers; one without a lifetime is used once."""
    opener = answered(monkeypatch, token("a", expires_in=100), token("b", expires_in="100"), token("c"), token("d"))
    endpoint = TokenEndpoint(login())

    def ask() -> str:
        return endpoint.token(clock.current + 9, "kafka")

    assert ask() == "a"
    clock.current += 79.5
    assert ask() == "a"
    clock.current += 0.5
    assert ask() == "b"
    endpoint.forget_token()
    assert [ask(), ask()] == ["c", "d"]
    assert len(opener.sent) == 4


def test_each_status(clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer about the request is a refused login; no such page, a late or busy server may answer later."""
    refusals = {400, 401, 403, 405, 409, 499}
    for status in (*refusals, 302, 399, 404, 408, 429, 500, 503):
        error = require_error(refused(status), clock, monkeypatch)
        assert error.reason is (Reason.AUTHENTICATION_FAILED if status in refusals else Reason.UNREACHABLE), status
        assert error.message.endswith(f"it answered with HTTP status {status}")


def test_the_words_of_a_refusal(clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are shown if the answer has the two fields, and left out if they contain the secret."""
    table: dict[bytes, str] = {
        b'{"error":"invalid_client","error_description":"unknown"}': " (invalid_client: unknown)",
        b'{"error":"invalid_client"}': " (invalid_client)",
        b'{"error_description":"unknown"}': " (unknown)",
        b'{"error":"bad s&cret"}': "",
        b'{"error":"bad s%26cret"}': "",
        b'["error"]': "",
        b"{}": "",
        b"no json": "",
    }
    for body, words in table.items():
        error = require_error(refused(401, body), clock, monkeypatch)
        assert error.message.endswith(f"HTTP status 401{words}"), body


def test_answers_without_a_usable_token(clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no object, has no token or a token that would break the SASL message is a failed login."""
    missing, odd = "its answer has no access_token", "its access_token is not a token"
    table = {
        b"no json": missing,
        b"[]": missing,
        b"{}": missing,
        token(expires_in="soon"): missing,
        token(expires_in=[1]): missing,
        token("x" * MAX_ANSWER_BYTES): missing,
        token(7): odd,
        token(""): odd,
        token("a b"): odd,
        token("a\x01b"): odd,
        token("ä"): odd,
    }
    for body, words in table.items():
        error = require_error(body, clock, monkeypatch)
        assert error.reason is Reason.AUTHENTICATION_FAILED
        assert error.message.endswith(words), body[:40]


def test_the_largest_answer_is_read(clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of exactly the maximum size has its token."""
    answered(monkeypatch, token().ljust(MAX_ANSWER_BYTES))
    assert TokenEndpoint(login()).token(clock.current + 9, "kafka") == "abc"


def test_an_endpoint_that_cannot_be_reached(clock: FakeTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause is named without the names of classes, with a hint about the endpoint and not about the brokers."""
    table: dict[Exception, str] = {
        urllib.error.URLError(OSError(111, "refused")): "refused",
        OSError(111, "refused"): "refused",
        ValueError("odd"): "odd",
        ValueError("odd s&cret"): "it did not answer",
        RuntimeError("secret words"): "it does not answer with HTTP (RuntimeError)",
    }
    for failure, words in table.items():
        error = require_error(failure, clock, monkeypatch)
        assert (error.reason, error.hint) == (Reason.UNREACHABLE, "check tokenEndpoint and the network")
        assert error.message == f"cannot get a token from {URL} for a:b: {words}"


def test_addresses() -> None:
    """Only HTTPS, or HTTP to the same machine, without a user; the message has the place in the manifest."""
    unencrypted = "would send the client secret without encryption"
    table = {
        "https://login.example.com/token": "",
        "https://login.example.com:8443/token": "",
        "http://localhost/token": "",
        "http://127.0.0.1:80/token": "",
        "http://[::1]/token": "",
        "http://login.example.com/token": unencrypted,
        "http://login.example.com:80/token": unencrypted,
        "ftp://login.example.com/token": "is not an HTTPS address",
        "https:///token": "is not an HTTPS address",
        "https://login.example.com:0/token": "is not an HTTPS address",
        "https://login.example.com:x/token": "is not an HTTPS address",
        URL.replace("//", "//user@"): "contains a user",
    }
    for url, words in table.items():
        if not words:
            TokenEndpoint(login(url)).check()
            continue
        with pytest.raises(TopiaristError, match=words) as caught:
            TokenEndpoint(login(url)).check()
        assert caught.value.reason is Reason.CREDENTIALS_INVALID
        assert caught.value.message.startswith("clusters.yaml:3:5: tokenEndpoint "), url
        assert caught.value.hint == "write https://login.example.com/token"


def test_a_check_reads_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing secret is found before any request."""
    monkeypatch.delenv("CLIENT_SECRET")
    with pytest.raises(TopiaristError) as caught:
        TokenEndpoint(login()).check()
    assert caught.value.reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("url", [URL, "https://login.example.com/token"])
def test_no_redirect_is_followed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret goes to the endpoint alone: no redirect, and no proxy before an endpoint of the same machine."""
    handlers: list[Any] = []
    monkeypatch.setattr(urllib.request, "build_opener", lambda *found: handlers.extend(found))
    TokenEndpoint(login(url)).check()
    redirect, other = handlers
    assert redirect().redirect_request() is None
    if url == URL:
        assert isinstance(other, urllib.request.ProxyHandler)
        assert vars(other)["proxies"] == {}
    else:
        assert isinstance(other, urllib.request.HTTPSHandler)
