"""Connections to brokers that answer late, wrong or not at all: deadlines, lookups, and what is never sent twice."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kafka.scripted_broker import (
    API_VERSIONS,
    FIND_COORDINATOR,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SERVED,
    Answer,
    ScriptedBroker,
    answer_with,
    close,
    coordinator_response,
    handshake_response,
    login_response,
    metadata_response,
    say_nothing,
    send_bytes,
    send_raw,
    topic_metadata,
    versions_response,
)
from support.network.listener import Listener
from support.network.token_server import TokenServer
from support.secret_scanner import register_secret
from topiarist.adapters.kafka_admin.connection.connection import (
    UPDATE_METADATA_KEY,
    Connection,
    Disconnected,
    UnsupportedRequest,
)
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.connection.token_endpoint import TokenEndpoint
from topiarist.adapters.kafka_admin.protocol.messages import CreateTopicsRequest, MetadataRequest
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import KafkaAccess, SaslMechanism, SaslOAuth, SaslPassword, SecretReference

HERE = Location("clusters.yaml", 2, 3)
PASSWORD = register_secret("planted-Hedge15-scripted")
TIMEOUT_S = 0.5


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Start a broker that answers as a broker of Kafka does, until a test scripts it."""
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for secrets; that of the test itself is searched for them."""
    return tmp_path_factory.mktemp("vault")


def connect(broker: ScriptedBroker) -> Connection:
    """Return a connection to the broker, without the checks of a session."""
    return Connection(socket.create_connection(("127.0.0.1", broker.port)), timeout=TIMEOUT_S)


def open_session(servers: str, sasl: SaslPassword | SaslOAuth | None = None) -> Session:
    """Return a session with short timeouts."""
    return Session(KafkaAccess(servers, sasl, request_timeout=TIMEOUT_S), 2.0)


def secret(folder: Path, text: str = PASSWORD) -> SecretReference:
    """Return a reference to a file with this text."""
    (folder / "secret").write_text(text)
    return SecretReference(str(folder / "secret"), "", HERE)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (say_nothing, "no answer to Metadata within 0.5 s"),
        (send_bytes(b"\0\0"), "no answer to Metadata within 0.5 s"),
        (close, "the broker closed the connection"),
        (send_bytes(struct.pack(">i", 300 << 20)), "it announced an answer of 314,572,800 bytes"),
        (send_bytes(struct.pack(">i", -5)), "it announced an answer of -5 bytes"),
        (send_bytes(struct.pack(">i", 3) + b"abc"), "it announced an answer of 3 bytes"),
        (send_bytes(struct.pack(">ii", 8, 99) + b"late"), "it answered request 99, wanted 2"),
        (send_bytes(b"HTTP/1.1 400 Bad Request\r\n"), "a web server answered"),
        (send_raw(b"\0" + b"\xff" * 30), "an answer to MetadataRequest cannot be decoded"),
        (send_raw(b""), "an answer to MetadataRequest cannot be decoded"),
    ],
)
def test_a_wrong_answer_ends_the_connection(broker: ScriptedBroker, answer: Answer, words: str) -> None:
    """A request with a wrong answer has an unknown outcome; the connection sends nothing after it."""
    connection = connect(broker)
    connection.read_versions()
    broker.answers[METADATA] = [answer]
    started = time.monotonic()
    with pytest.raises(Disconnected, match=words) as caught:
        connection.call(MetadataRequest(topics=[]))
    assert caught.value.was_sent
    assert time.monotonic() - started < TIMEOUT_S + 1.0
    assert not connection.is_open
    with pytest.raises(Disconnected) as again:
        connection.call(MetadataRequest(topics=[]))
    assert not again.value.was_sent
    assert broker.requests[METADATA] == 1


def test_an_answer_that_trickles_is_late(broker: ScriptedBroker) -> None:
    """The deadline is for the whole answer, not for each byte."""

    def trickle(broker: ScriptedBroker, peer: socket.socket, _request: object) -> None:
        peer.sendall(struct.pack(">i", 1000))
        while not broker.ended.wait(0.05):
            peer.sendall(b"\0")

    connection = connect(broker)
    connection.read_versions()
    broker.answers[METADATA] = [trickle]
    started = time.monotonic()
    with pytest.raises(Disconnected, match="no answer"):
        connection.call(MetadataRequest(topics=[]))
    assert time.monotonic() - started < TIMEOUT_S + 0.5


def test_a_request_that_the_broker_does_not_serve_is_not_sent(broker: ScriptedBroker) -> None:
    """An unsupported request leaves the connection open."""
    connection = connect(broker)
    connection.read_versions()
    with pytest.raises(UnsupportedRequest, match="CreateTopics"):
        connection.call(CreateTopicsRequest(topics=[]))
    assert connection.call(MetadataRequest(topics=[])).cluster_id == "scripted"
    connection.close()


def test_a_read_is_repeated_once(broker: ScriptedBroker) -> None:
    """A read goes on over another connection, and fails if that breaks, too; a plain call is never repeated."""
    session = open_session(broker.address)
    connection = session.any_broker()
    healthy = broker.answers[METADATA][0]
    broker.answers[METADATA] = [close, healthy]
    assert session.read_metadata([]).cluster_id == "scripted"
    assert session.any_broker() is not connection
    asked = broker.requests[METADATA]
    broker.answers[METADATA] = [close, healthy]
    with pytest.raises(Disconnected):
        session.any_broker().call(MetadataRequest(topics=[]))
    assert broker.requests[METADATA] == asked + 1
    session.close()


def test_every_bootstrap_server_is_tried(broker: ScriptedBroker) -> None:
    """Servers without a name, without a listener, and of another kind are passed; the error names each of them."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    others = f"absent.invalid:9092,{gone}"
    session = open_session(f"{others},{broker.address}")
    assert session.read_metadata([]).cluster_id == "scripted"
    session.close()
    with pytest.raises(TopiaristError, match=r"absent.invalid has no address.*Connection refused") as caught:
        open_session(others).any_broker()
    assert caught.value.reason is Reason.UNREACHABLE


def test_every_address_of_a_name_is_tried(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with several addresses is reached at the one that answers."""
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.77", broker.port)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", broker.port)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    session = open_session(f"kafka.example:{broker.port}")
    assert session.any_broker().is_open
    session.close()


def test_a_silent_server_costs_no_more_than_its_deadline(broker: ScriptedBroker) -> None:
    """A server that accepts connections and answers nothing is unreachable in time."""
    broker.answers[API_VERSIONS] = [say_nothing]
    started = time.monotonic()
    with pytest.raises(TopiaristError, match="no answer") as caught:
        Session(KafkaAccess(broker.address), 1.0).any_broker()
    assert caught.value.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 6.0


@pytest.mark.parametrize(
    "answer",
    [
        answer_with(versions_response({**SERVED, METADATA: (0, 9), UPDATE_METADATA_KEY: (0, 6)})),
        answer_with(versions_response({}, 35)),
    ],
)
def test_an_old_broker_is_refused(broker: ScriptedBroker, answer: Answer) -> None:
    """Brokers of ZooKeeper mode without topic ids are refused, with the other way to their cluster."""
    broker.answers[API_VERSIONS] = [answer]
    with pytest.raises(TopiaristError, match=r"older than Kafka 2.8.*\n.*via: ZooKeeper") as caught:
        open_session(broker.address).any_broker()
    assert caught.value.reason is Reason.PREREQUISITE_MISSING


class Other(Listener):
    """A server that waits for one line, answers with some bytes, and closes the connection."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer

    def serve(self, client: socket.socket) -> None:
        """Answer one connection."""
        with client:
            data = client.recv(4096)
            if data.startswith(b"srvr"):
                client.sendall(self._answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a web server answered"),
        (b"Zookeeper version: 3.8.4", "a ZooKeeper answered"),
        (b"srvr is not executed because it is not in the whitelist.\n", "a ZooKeeper answered"),
    ],
)
def test_other_servers_are_named(answer: bytes, words: str) -> None:
    """A web server and a ZooKeeper at the port are named in the error."""
    with Other(answer) as server, pytest.raises(TopiaristError, match=words) as caught:
        open_session(f"127.0.0.1:{server.port}").any_broker()
    assert caught.value.reason is Reason.UNREACHABLE


def test_the_controller_is_waited_for(broker: ScriptedBroker) -> None:
    """While the brokers name no controller, the lookup is repeated. Then it is kept until it is forgotten."""
    without = answer_with(metadata_response(broker.port, controller_id=-1))
    broker.answers[METADATA] = [without, without, answer_with(metadata_response(broker.port))]
    session = open_session(broker.address)
    connection = session.controller()
    asked = broker.requests[METADATA]
    assert session.controller() is connection
    assert broker.requests[METADATA] == asked
    session.forget_controller()
    assert session.controller() is connection
    assert broker.requests[METADATA] == asked + 1
    session.close()


def test_a_controller_that_has_ended_is_looked_up_again(broker: ScriptedBroker) -> None:
    """A broker names its last controller, which has ended, until it learns about the next; a kept one may end later."""
    gone, here = (answer_with(metadata_response(broker.port, controller_id=node)) for node in (2, 1))
    broker.answers[METADATA] = [gone, gone, gone, here]
    session = open_session(broker.address)
    assert session.controller() is session.any_broker()
    broker.drop()  # the controller ends and starts again
    assert session.controller().is_open
    session.close()


def test_leaders_and_coordinators_are_waited_for(broker: ScriptedBroker) -> None:
    """Codes of an election are waited for; a missing right ends the lookup, and so does the end of patience."""
    session = open_session(broker.address)
    session.any_broker()
    topics = [topic_metadata("t", 3), topic_metadata("t", 5), topic_metadata("t", leader_id=-1), topic_metadata("t")]
    broker.answers[METADATA] = [answer_with(metadata_response(broker.port, [topic])) for topic in topics]
    assert session.leader("t") is session.any_broker()
    found = [coordinator_response(broker.port, "x", code) for code in (14, 15, 16, 0)]
    broker.answers[FIND_COORDINATOR] = [answer_with(each) for each in found]
    assert session.coordinator("x") is session.any_broker()
    broker.answers[FIND_COORDINATOR] = [answer_with(coordinator_response(broker.port, "y", 53))]
    with pytest.raises(TopiaristError, match=r"ANONYMOUS.* lacks Describe on the transactional id y") as caught:
        session.coordinator("y")
    assert caught.value.reason is Reason.NO_PERMISSION
    broker.answers[FIND_COORDINATOR] = [answer_with(coordinator_response(broker.port, "y", 15))]
    with pytest.raises(TopiaristError, match=r"within 0.3 s: COORDINATOR_NOT_AVAILABLE \(15\)") as caught:
        session.coordinator("y", patience=0.3)
    assert caught.value.reason is Reason.UNREACHABLE
    session.close()


def test_a_renewal_that_fails_sends_nothing(broker: ScriptedBroker, vault: Path) -> None:
    """A connection that breaks while its login is renewed has not sent the request of the caller."""
    broker.answers[SASL_HANDSHAKE] = [answer_with(handshake_response())]
    broker.answers[SASL_AUTHENTICATE] = [answer_with(login_response(lifetime_ms=100)), close]
    login = SaslPassword(SaslMechanism.PLAIN, "alice", secret(vault))
    connection = open_session(broker.address, login).any_broker()
    time.sleep(0.1)
    asked = broker.requests[METADATA]
    with pytest.raises(Disconnected, match="the login could not be renewed") as caught:
        connection.call(MetadataRequest(topics=[]))
    assert not caught.value.was_sent
    assert broker.requests[METADATA] == asked


@pytest.mark.parametrize(
    ("mechanism", "data", "words"),
    [
        (SaslMechanism.SCRAM_SHA_256, b"r=x,s=c2FsdA==,i=100", "it wants 100 iterations for SCRAM, fewer than 4096"),
        (SaslMechanism.SCRAM_SHA_256, b"r=x,s=c2FsdA==,i=4096", "its answer to the login is malformed"),
        (SaslMechanism.SCRAM_SHA_512, b"", "its answer to the login is malformed"),
        (SaslMechanism.SCRAM_SHA_512, b"\xff", "its answer to the login is malformed"),
        (SaslMechanism.PLAIN, b"more", "data that the mechanism does not have"),
    ],
)
def test_a_malformed_login_is_refused(
    broker: ScriptedBroker, vault: Path, mechanism: SaslMechanism, data: bytes, words: str
) -> None:
    """A server that does not follow the mechanism gets no proof of the password."""
    broker.answers[SASL_HANDSHAKE] = [answer_with(handshake_response())]
    broker.answers[SASL_AUTHENTICATE] = [answer_with(login_response(data))]
    with pytest.raises(TopiaristError, match=words) as caught:
        open_session(broker.address, SaslPassword(mechanism, "alice", secret(vault))).any_broker()
    assert caught.value.reason is Reason.AUTHENTICATION_FAILED
    assert broker.requests[SASL_AUTHENTICATE] == 1


def test_a_wrong_password_is_tried_at_one_server(vault: Path) -> None:
    """Brokers share their users: a second try would only count as another failed login."""
    with ScriptedBroker() as one, ScriptedBroker() as two:
        for broker in (one, two):
            broker.answers[SASL_HANDSHAKE] = [answer_with(handshake_response())]
            broker.answers[SASL_AUTHENTICATE] = [answer_with(login_response(error_code=58, message="no\x1b[31m"))]
        login = SaslPassword(SaslMechanism.PLAIN, "alice", secret(vault))
        with pytest.raises(TopiaristError, match=r"refused the user alice: no\\x1b\[31m$"):
            open_session(f"{one.address},{two.address}", login).any_broker()
        assert (one.requests[SASL_AUTHENTICATE], two.requests[SASL_AUTHENTICATE]) == (1, 0)


def test_a_missing_password_is_reported_before_connecting(broker: ScriptedBroker, vault: Path) -> None:
    """A secret that is not there is an error before any connection."""
    login = SaslPassword(SaslMechanism.PLAIN, "alice", SecretReference(str(vault / "none"), "", HERE))
    with pytest.raises(TopiaristError, match="does not exist") as caught:
        open_session(broker.address, login)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    assert not broker.requests


@pytest.mark.parametrize(
    ("status", "body", "reason", "words"),
    [
        (200, b"{}", Reason.AUTHENTICATION_FAILED, "its answer has no access_token"),
        (200, b"[" * 100_000, Reason.AUTHENTICATION_FAILED, "its answer has no access_token"),
        (200, b'{"access_token":"a b"}', Reason.AUTHENTICATION_FAILED, "its access_token is not a token"),
        (200, b'{"access_token":"a\\u0001b"}', Reason.AUTHENTICATION_FAILED, "its access_token is not a token"),
        (200, b'{"access_token":"t","expires_in":"x"}', Reason.AUTHENTICATION_FAILED, "no access_token"),
        (200, b" " * ((1 << 20) + 1), Reason.AUTHENTICATION_FAILED, "its answer has no access_token"),
        (302, b"http://127.0.0.1:1/", Reason.UNREACHABLE, "HTTP status 302$"),
        (401, f'{{"error":"{PASSWORD}"}}'.encode(), Reason.AUTHENTICATION_FAILED, "HTTP status 401$"),
        (503, b"busy", Reason.UNREACHABLE, "HTTP status 503$"),
    ],
)
def test_answers_of_a_token_endpoint(vault: Path, status: int, body: bytes, reason: Reason, words: str) -> None:
    """An answer without a token is an error with its cause, and never with the client secret."""
    with TokenServer("topiarist", PASSWORD) as server:
        server.answer = status, body
        endpoint = TokenEndpoint(SaslOAuth(server.url, "topiarist", secret(vault)))
        with pytest.raises(TopiaristError, match=words) as caught:
            endpoint.token(time.monotonic() + 5.0)
    assert caught.value.reason is reason
    assert PASSWORD not in repr((str(caught.value), caught.value.__cause__))


def test_tokens_are_used_again(vault: Path) -> None:
    """A token is asked for again when most of its lifetime is over, and when it was refused."""
    with TokenServer("topiarist", PASSWORD) as server:
        endpoint = TokenEndpoint(SaslOAuth(server.url, "topiarist", secret(vault)))
        deadline = time.monotonic() + 5.0
        assert endpoint.token(deadline) == endpoint.token(deadline)
        assert server.requests == 1
        endpoint.forget_token()
        endpoint.token(deadline)
        server.lifetime = 0.0
        endpoint.forget_token()
        endpoint.token(deadline)
        endpoint.token(deadline)
        assert server.requests == 4


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://login.example.com/token", "would send the client secret without encryption"),
        ("ftp://login.example.com/token", "is not an HTTPS address"),
        ("https:///token", "is not an HTTPS address"),
        ("https://" + "user:x@login.example.com/token", "contains a user"),
        ("https://[::1/token", "is not an address"),
        ("https://login.example.com:99999/", "is not an address"),
    ],
)
def test_a_token_endpoint_needs_https(vault: Path, address: str, words: str) -> None:
    """The address is checked before anything is sent; HTTP is for the loopback interface only."""
    with pytest.raises(TopiaristError, match=words) as caught:
        open_session("127.0.0.1:1", SaslOAuth(address, "topiarist", secret(vault)))
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
