"""The opening of a connection: which addresses are tried, what a broker must offer, and why a server refuses."""

from __future__ import annotations

import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from topiarist.adapters import tls
from topiarist.adapters.kafka_admin.connection import connector as connector_module
from topiarist.adapters.kafka_admin.connection.authentication import LoginRefused, RefusedByCluster
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.connector import (
    Connector,
    format_address,
    open_sockets,
    parse_bootstrap_servers,
    share,
)
from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest, SaslHandshakeRequest
from topiarist.adapters.tls import run_with_deadline
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess, SaslMechanism, SaslPassword, Tls
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, reply

ADDRESS = ("kafka", 9092)


class Plain:
    """A connected socket."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_closed = False
        self.timeouts: list[float] = []

    def getpeername(self) -> tuple[str, int, int]:
        return (self.host, 9092, 0)

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)

    def close(self) -> None:
        self.is_closed = True


class Peers:
    """The servers at the IP addresses of a host; ``script`` has their answers, or errors, by request."""

    def __init__(self) -> None:
        self.clock = FakeTime()
        self.errors: list[Exception | None] = [None]
        self.script: dict[str, Any] = {"ApiVersions": versions(), "Metadata": reply()}
        self.sockets: list[Plain] = []
        self.connections: list[Connected] = []
        self.other = ""
        self.accepts_tls = False
        self.looked_up: list[tuple[Any, float]] = []
        self.wrapped: list[tuple[Any, ...]] = []

    def open_sockets(self, address: Any, deadline: float) -> list[Callable[[], Plain]]:
        self.looked_up.append((address, deadline - self.clock.current))
        return [self._opener(number, error) for number, error in enumerate(self.errors)]

    def _opener(self, number: int, error: Exception | None) -> Callable[[], Plain]:
        def opener() -> Plain:
            if error:
                raise error
            self.sockets.append(Plain(f"10.0.0.{number}"))
            return self.sockets[-1]

        return opener


class Connected:
    """A connection over a socket."""

    def __init__(self, opened: Plain, *, timeout: float, requests: Any = None) -> None:
        self.opened = opened
        self.timeout = timeout
        self.requests = requests
        self.versions: dict[int, tuple[int, int]] = {}
        self.is_open = True
        self.sent: list[tuple[str, float | None]] = []
        self.called: list[tuple[Any, int | None]] = []
        self.log_in_again_at: float | None = None
        self.log_in_again: Any = None
        PEERS[0].connections.append(self)

    def _answer(self, name: str, timeout: float | None) -> Any:
        self.sent.append((name, timeout))
        found = PEERS[0].script[name]
        found = found.pop(0) if isinstance(found, list) and len(found) > 1 else found
        found = found[0] if isinstance(found, list) else found
        if isinstance(found, Exception):
            raise found
        return found

    def read_versions(self, timeout: float | None = None) -> Any:
        answer = self._answer("ApiVersions", timeout)
        self.versions = answer.offered
        return answer

    def call(self, request: Any, *, version: int | None = None, timeout: float | None = None) -> Any:
        self.called.append((request, version))
        return self._answer(request.name.removesuffix("Request"), timeout)

    def close(self) -> None:
        self.is_open = False


PEERS: list[Peers] = []
UPDATE_METADATA = 6


def versions(newest: int | None = 12, code: int = 0, *more: int) -> Any:
    """Return an answer to ApiVersions with the newest version of Metadata, and with more requests by API key."""
    return reply(error_code=code, offered={} if newest is None else {3: (0, newest), **dict.fromkeys(more, (0, 6))})


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Peers:
    """Replace sockets, connections, probes and time."""
    peers = Peers()
    PEERS[:] = [peers]
    monkeypatch.setattr(connector_module, "time", peers.clock)
    monkeypatch.setattr("topiarist.adapters.kafka_admin.connection.connector.time", peers.clock)
    monkeypatch.setattr(connector_module, "open_sockets", peers.open_sockets)
    monkeypatch.setattr(connector_module, "Connection", Connected)
    monkeypatch.setattr(connector_module, "_identify", lambda address: peers.other)
    monkeypatch.setattr(tls, "accepts_tls", lambda address: peers.accepts_tls)
    return peers


def connect(*, accepts_old_brokers: bool = False, sasl: Any = None) -> Any:
    """Open a connection within ten seconds."""
    access, requests = KafkaAccess("kafka:9092", sasl=sasl, request_timeout=7.0), Counter[tuple[str, str]]()
    opened: Any = Connector(access, 10.0, requests, accepts_old_brokers=accepts_old_brokers).open(ADDRESS)
    assert opened.requests is requests
    return opened


def test_a_connection(peers: Peers) -> None:
    """The versions are asked for, and a request proves that no login is needed; all within the time."""
    opened = connect()
    assert opened is peers.connections[0]
    assert opened.sent == [("ApiVersions", 10.0), ("Metadata", 10.0)]
    assert opened.called == [(MetadataRequest(topics=[], allow_auto_topic_creation=False), None)]
    assert peers.looked_up == [(ADDRESS, 10.0)]
    assert (opened.timeout, opened.is_open, opened.opened.timeouts) == (7.0, True, [10.0])
    assert opened.log_in_again_at is None


def test_a_socket_sends_small_requests_at_once() -> None:
    """Each IP address of a host has one attempt, with its share of the time; the kernel holds no small request back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        (opener,) = open_sockets(("127.0.0.1", server.getsockname()[1]), time.monotonic() + 10)
        with opener() as opened:
            assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            assert 0 < (opened.gettimeout() or 0) <= 10
            assert opened.getpeername() == server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        opener()


def test_a_name_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the reason of the resolver, or that the name is no host name."""
    with pytest.raises(OSError, match=r"a\.\.b has no address \(not a host name\)"):
        open_sockets(("a..b", 9092), time.monotonic() + 10)
    reason = "kafka has no address (name or service not known)"

    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(OSError, match="kafka has no address") as caught:
        open_sockets(("kafka", 9092), time.monotonic() + 10)
    assert (caught.value.errno, caught.value.strerror) == (0, reason)


def test_each_ip_address_has_its_share_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of three has all the rest; an address that is found twice is tried once."""
    found = [(socket.AF_INET, kind, 0, "", (f"10.0.0.{each}", 9092)) for each in (1, 2, 3) for kind in (1, 2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    opened: list[tuple[Any, ...]] = []
    monkeypatch.setattr(connector_module, "_open_socket", lambda *arguments: opened.append(arguments))
    for opener in open_sockets(("kafka", 9092), time.monotonic() + 600):
        opener()
    assert [(family, target, round(timeout, -1)) for family, target, timeout in opened] == [
        (socket.AF_INET, ("10.0.0.1", 9092), 200),
        (socket.AF_INET, ("10.0.0.2", 9092), 300),
        (socket.AF_INET, ("10.0.0.3", 9092), 600),
    ]


def test_each_ip_address_is_tried(peers: Peers) -> None:
    """A failure leaves the rest of the time to the next address; the last failure is that of the host."""
    peers.errors = [OSError(111, "refused"), None]
    assert connect().opened.host == "10.0.0.1"
    peers.errors = [OSError(111, "first"), OSError(111, "last")]
    with pytest.raises(OSError, match="last"):
        connect()
    peers.errors = []
    with pytest.raises(OSError, match="kafka has no address") as caught:
        connect()
    assert (caught.value.errno, caught.value.strerror) == (0, "kafka has no address")


def test_the_time_is_shared(peers: Peers) -> None:
    """The first of two addresses has half of the time."""
    peers.errors = [None, None]
    assert connect().sent[0] == ("ApiVersions", 5.0)
    assert share(peers.clock.current + 9, 3) == 3
    with pytest.raises(TimeoutError, match="no answer in time"):
        share(peers.clock.current, 1)


@pytest.mark.parametrize(
    ("answer", "accepts_old", "is_opened"),
    [
        (versions(10, 0, UPDATE_METADATA), False, True),
        (versions(9, 0, UPDATE_METADATA), False, False),
        (versions(9, 0, UPDATE_METADATA), True, True),
        (versions(0, 0, UPDATE_METADATA), True, True),
        (versions(8), False, True),
    ],
)
def test_old_brokers(peers: Peers, answer: Any, accepts_old: bool, is_opened: bool) -> None:
    """Brokers in ZooKeeper mode without topic ids are refused for the whole cluster, unless they are accepted.

    A service without topic ids is no old broker, which the requests of ZooKeeper mode would show.
    """
    peers.script["ApiVersions"] = answer
    if is_opened:
        assert connect(accepts_old_brokers=accepts_old).is_open
        return
    with pytest.raises(RefusedByCluster, match=r"older than Kafka 2\.8") as caught:
        connect(accepts_old_brokers=accepts_old)
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
    assert caught.value.hint == "reach Apache Kafka before 2.8 with via: ZooKeeper"
    assert not peers.connections[0].is_open


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            versions(code=35),
            RefusedByCluster,
            "the brokers are older than Kafka 2.8, or answer as if they were: they cannot read version 3 of"
            " ApiVersions",
        ),
        (versions(code=42), OSError, "it answered ApiVersions with INVALID_REQUEST (42)"),
        (
            versions(None),
            OSError,
            "it is a controller of a KRaft cluster: use the brokers' port (it does not offer Metadata)",
        ),
    ],
)
def test_what_is_no_broker(peers: Peers, answer: Any, error: type[Exception], message: str) -> None:
    """A controller, an old broker, and a broker that answers with an error."""
    peers.script["ApiVersions"] = answer
    with pytest.raises(error) as caught:
        connect()
    assert [*caught.value.args] == ([0, message] if error is OSError else [message])
    assert not peers.connections[0].is_open


def test_a_server_without_an_answer(peers: Peers) -> None:
    """It is found out whether the port is one with TLS, or of another server."""
    peers.script["ApiVersions"] = LOST
    with pytest.raises(Disconnected):
        connect()
    peers.other = "a web server"
    with pytest.raises(OSError, match="a web server answered: use the brokers' port") as error:
        connect()
    assert error.value.errno == 0
    peers.accepts_tls = True
    with pytest.raises(TopiaristError, match="this port accepts TLS only: add tls") as caught:
        connect()
    assert caught.value.reason is Reason.AUTHENTICATION_FAILED
    assert caught.value.message.startswith("cannot log in to Kafka at kafka:9092: ")
    assert not isinstance(caught.value, RefusedByCluster)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            reply(error_code=33, mechanisms=["SCRAM-SHA-512", "PLAIN"]),
            "it requires a login by PLAIN, SCRAM-SHA-512: add",
        ),
        (reply(error_code=0, mechanisms=["PLAIN"]), "it requires a login by PLAIN: add sasl"),
    ],
)
def test_a_port_that_needs_a_login(peers: Peers, answer: Any, message: str) -> None:
    """A second connection asks for its mechanisms."""
    peers.script.update(Metadata=LOST, SaslHandshake=answer)
    with pytest.raises(TopiaristError, match=message):
        connect()
    assert [each.is_open for each in peers.connections] == [False, False]
    first, second = peers.connections
    assert second.called == [(SaslHandshakeRequest(mechanism=""), 1)]
    assert second.requests is first.requests is not None
    assert peers.looked_up == [(ADDRESS, 10.0)] * 2


class Wrapped(Plain):
    """A socket with TLS."""


@pytest.fixture
def with_tls(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> Peers:
    """Return servers with TLS."""

    def wrap(plain: Plain, *arguments: Any) -> Any:
        peers.wrapped.append((plain.host, *arguments))
        return Wrapped(plain.host)

    monkeypatch.setattr(tls, "wrap_socket", wrap)
    monkeypatch.setattr(connector_module, "_plaintext_port", lambda: "plaintext port")
    monkeypatch.setattr(tls, "describe_alert", lambda *arguments: f"alert {[*map(str, arguments[::2])]}")
    return peers


def open_with_tls() -> Any:
    """Open a connection to a server with TLS."""
    return Connector(KafkaAccess("kafka:9092", tls=Tls()), 10.0, Counter()).open(ADDRESS)


def test_a_connection_with_tls(with_tls: Peers) -> None:
    """The certificate is that of the host name, not of its IP address."""
    assert isinstance(open_with_tls().opened, Wrapped)
    assert with_tls.wrapped == [("10.0.0.0", ("10.0.0.0", 9092), "kafka", Tls(), "plaintext port")]


@pytest.mark.parametrize("name", ["ApiVersions", "Metadata"])
def test_an_alert_of_a_server_is_explained(with_tls: Peers, name: str) -> None:
    """A broken connection is an alert of TLS only if that is its cause; the login is asked for otherwise."""
    broken = Disconnected("broken", was_sent=True)
    broken.__cause__ = ssl.SSLError("no certificate")
    with_tls.script[name] = broken
    with pytest.raises(TopiaristError) as caught:
        open_with_tls()
    cause = str(broken.__cause__)
    assert caught.value.message == f"cannot log in to Kafka at kafka:9092: alert {[cause, 'plaintext port']}"
    with_tls.wrapped.clear()
    with_tls.script |= {name: LOST, "SaslHandshake": reply(error_code=33, mechanisms=["PLAIN"])}
    with pytest.raises(TopiaristError if name == "Metadata" else Disconnected):
        open_with_tls()
    if name == "Metadata":
        assert with_tls.wrapped[1] == ("10.0.0.0", ADDRESS, "kafka", Tls(), "plaintext port")


def test_a_port_without_tls_is_named() -> None:
    """A probe of this kind of server finds it."""
    message = "this port does not accept TLS: use the port of the brokers' TLS listener, or remove tls"
    assert connector_module._plaintext_port() == tls.PlaintextPort(connector_module.accepts_plaintext, message)


def test_a_server_without_tls_has_no_alert(peers: Peers) -> None:
    """The cause of a broken connection is looked for by its login."""
    broken = Disconnected("broken", was_sent=True)
    broken.__cause__ = ssl.SSLError("odd")
    peers.script |= {"Metadata": broken, "SaslHandshake": reply(error_code=33, mechanisms=["PLAIN"])}
    with pytest.raises(TopiaristError, match="it requires a login by PLAIN: add sasl"):
        connect()


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        reply(error_code=34, mechanisms=["PLAIN"]),
        reply(error_code=0, mechanisms=[]),
    ],
)
def test_a_port_that_closes_connections(peers: Peers, answer: Any) -> None:
    """Without mechanisms the cause is not known, and the failure may be temporary."""
    peers.script.update(Metadata=LOST, SaslHandshake=answer)
    with pytest.raises(Disconnected):
        connect()


class Logins:
    """The logins of a connector."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.deadlines: list[float] = []

    def log_in(self, _connection: Any, _host: str, deadline: float) -> Any:
        self.deadlines.append(deadline)
        found = self.results.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_a_login(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It replaces the request that proves that none is needed, and is renewed within the time of a request."""
    logins = Logins(50.0, 60.0, LoginRefused("no"))
    monkeypatch.setattr(connector_module, "Authenticator", lambda access: logins)
    opened = connect(sasl=SaslPassword(SaslMechanism.PLAIN, "ada", None))  # type: ignore[arg-type]
    assert [name for name, _ in opened.sent] == ["ApiVersions"]
    assert opened.log_in_again_at == 50.0
    assert opened.log_in_again() == 60.0
    assert [each - peers.clock.current for each in logins.deadlines] == [10.0, 7.0]
    with pytest.raises(RefusedByCluster, match="cannot log in to Kafka at kafka:9092: no") as caught:
        opened.log_in_again()
    assert caught.value.reason is Reason.AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("error", "is_final"), [(LoginRefused("wrong password"), True), (tls.AuthRejected("odd"), False)]
)
def test_a_refused_login(peers: Peers, monkeypatch: pytest.MonkeyPatch, error: Exception, is_final: bool) -> None:
    """A wrong password is refused at every address; another refusal may be that of one address."""
    peers.errors = [None, None]
    logins = Logins(error, None)
    monkeypatch.setattr(connector_module, "Authenticator", lambda access: logins)
    sasl: Any = SaslPassword(SaslMechanism.PLAIN, "ada", None)  # type: ignore[arg-type]
    if is_final:
        with pytest.raises(RefusedByCluster, match="wrong password"):
            connect(sasl=sasl)
    else:
        assert connect(sasl=sasl).opened.host == "10.0.0.1"
    assert not peers.connections[0].is_open


@pytest.mark.usefixtures("peers")
def test_a_login_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that closes the connection at the login may refuse it; one that does not answer in time says nothing."""
    closed, late = (Disconnected(text, was_sent=True) for text in ("the broker closed the connection", "no answer"))
    closed.__cause__ = OSError("the broker closed the connection")
    sasl: Any = SaslPassword(SaslMechanism.PLAIN, "ada", None)  # type: ignore[arg-type]
    for error, wanted in (
        (closed, "closed the connection at the login by PLAIN, as some do for a wrong"),
        (late, "no"),
    ):
        logins = Logins(error)
        monkeypatch.setattr(connector_module, "Authenticator", lambda access, logins=logins: logins)
        with pytest.raises(Disconnected, match=wanted) as caught:
            connect(sasl=sasl)
        assert ("at the login" in str(caught.value)) is (error is closed)
        assert caught.value.was_sent


def test_addresses_are_parsed() -> None:
    """Names, IPv4 and IPv6 addresses keep their order, and doubles are removed."""
    text = "b1.example:9092,127.0.0.1:1,[2001:db8::1]:65535,b1.example:9092"
    found = parse_bootstrap_servers(text)
    assert found == [("b1.example", 9092), ("127.0.0.1", 1), ("2001:db8::1", 65535)]
    assert ",".join(map(format_address, found)) == text.removesuffix(",b1.example:9092")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a broker is empty"),
        ("a:1,", "a broker is empty"),
        ("a:1, b:1", "contains blanks"),
        ("a", "needs a port"),
        ("a:", "needs a port"),
        ("a:x", "needs a port"),
        ("a:0", "needs a port"),
        ("a:65536", "needs a port"),
        ("a:+1", "needs a port"),
        ("a:٣", "needs a port"),
        (":9092", "a host is empty"),
        ("::1:9092", "in brackets"),
        ("[::1:9092", "in brackets"),
        ("[host]:9092", "in brackets"),
        ("[host:9092", "in brackets"),
        ("host]:9092", "in brackets"),
        ("kafka://a:9092", "a scheme or a path"),
        ("a:9092/chroot", "a scheme or a path"),
    ],
)
def test_other_text_is_refused(text: str, words: str) -> None:
    """The error has the text, the cause and an example."""
    with pytest.raises(TopiaristError, match=words) as caught:
        parse_bootstrap_servers(text)
    assert caught.value.reason is Reason.WRONG_USAGE
    assert caught.value.hint == "write host1:9092,host2:9092"


def test_work_with_a_deadline() -> None:
    """The value and the exception of the work reach the caller; late work ends in a timeout."""
    assert run_with_deadline(lambda: 7, time.monotonic() + 5.0, "late") == 7
    with pytest.raises(ZeroDivisionError):
        run_with_deadline(lambda: 1 // 0, time.monotonic() + 5.0, "late")
    with pytest.raises(TimeoutError, match="late"):
        run_with_deadline(lambda: time.sleep(0.2), time.monotonic(), "late")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (b"Zookeeper version: 3.9", "a ZooKeeper"),
        (b"srvr is not executed because it is not in the whitelist.", "a ZooKeeper"),
        (b"HTTP/1.1 400 Bad Request", "a web server"),
        (b"<html>", "a web server"),
        (b"SSH-2.0", ""),
        (b"", ""),
    ],
)
def test_another_server_at_the_port(answer: bytes, what: str) -> None:
    """It is named by what it answers to the command srvr; anything else is not named."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:

        def serve() -> bytes:
            taken, _ = server.accept()
            with taken:
                asked = taken.recv(64)
                taken.sendall(answer)
                return asked

        asked = pool.submit(serve)
        assert connector_module._identify(("127.0.0.1", server.getsockname()[1])) == what
        assert asked.result() == b"srvr\r\n\r\n"


def test_a_port_without_a_server_is_nothing() -> None:
    """No one is named, and it does not accept plaintext."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "127.0.0.1", server.getsockname()[1]
    assert connector_module._identify(address) == ""
    assert not connector_module.accepts_plaintext(address)


@pytest.mark.parametrize(("answer", "accepted"), [(LOST, False), (versions(), True), (versions(code=35), True)])
def test_a_port_without_tls(peers: Peers, answer: Any, accepted: bool) -> None:
    """Any answer to ApiVersions shows that brokers speak without TLS there; the connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peers.script["ApiVersions"] = answer
        assert connector_module.accepts_plaintext(("127.0.0.1", server.getsockname()[1])) is accepted
    (opened,) = peers.connections
    assert not opened.is_open
    cast("socket.socket", opened.opened).close()


def test_a_socket_without_tls_at_its_end_is_closed(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates that do not fit leave no socket open."""

    def refuse(*_: Any) -> Any:
        raise OSError(1, "the certificate is of another host")

    monkeypatch.setattr(tls, "wrap_socket", refuse)
    with pytest.raises(OSError, match="of another host"):
        Connector(KafkaAccess("kafka:9092", tls=Tls()), 10.0, Counter()).open(ADDRESS)
    assert [each.is_closed for each in peers.sockets] == [True]
