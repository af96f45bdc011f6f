"""Logins and TLS with real brokers: what works, and how a refusal is explained."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.shared_clusters import FIRST_WITH_SCRAM, PASSWORDS, REAUTHENTICATION_MS, SecurityFiles
from support.kafka.kraft_fixture import KraftFixture
from support.network.certificates import EXPIRED
from support.network.token_server import TokenServer
from support.secret_scanner import register_secret
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import KafkaAccess, SaslMechanism, SaslOAuth, SaslPassword, SecretReference, Tls

WRONG_PASSWORD = register_secret("planted-Hedge13-wrong")
CLIENT_SECRET = register_secret("planted-Hedge14-client")
HERE = Location("clusters.yaml", 3, 5)


class Secured:
    """The node with a listener for each kind of security, and the files for its clients."""

    def __init__(self, bed: KraftFixture, files: SecurityFiles) -> None:
        self.bed, self.kafka = bed, bed.kafka
        self.folder, self.authority, self.other = files.folder, files.authority, files.other

    def reference(self, name: str, content: str) -> SecretReference:
        """Return a reference to a file with this content."""
        path = self.folder / name
        path.write_text(content)
        return SecretReference(str(path), "", HERE)

    def password(self, mechanism: str, user: str = "alice", password: str = "") -> SaslPassword:
        """Return a login by password, by default the right one."""
        secret = self.reference("password", password or PASSWORDS[user])
        return SaslPassword(SaslMechanism(mechanism), user, secret)

    def tls(self, certificate: Path | None = None, ca: Path | None = None) -> Tls:
        """Return TLS settings with this client certificate, which trust this CA, by default that of the broker."""
        reference = SecretReference(str(certificate), "", HERE) if certificate else None
        return Tls(ca=SecretReference(str(ca or self.authority.ca), "", HERE), certificate=reference)

    def access(
        self, listener: str, sasl: SaslPassword | SaslOAuth | None = None, tls: Tls | None = None
    ) -> KafkaAccess:
        """Return the access over one listener."""
        return KafkaAccess(self.kafka.bootstrap_of(listener), sasl, tls, request_timeout=15.0)


@pytest.fixture
def secured(secured_node: KraftFixture, security: SecurityFiles, kraft_release: str) -> Secured:
    """Return the node with its files; KRaft mode has SCRAM from Kafka 3.5 on."""
    if kraft_release < FIRST_WITH_SCRAM:
        pytest.skip(f"Kafka {kraft_release} has no SCRAM in KRaft mode")
    return Secured(secured_node, security)


def broker_ids(access: KafkaAccess) -> list[int]:
    """Return the brokers that a session finds, after requests to two of them."""
    session = Session(access, 10.0)
    try:
        assert session.controller().is_open
        return [each.node_id for each in session.read_metadata([]).brokers]
    finally:
        session.close()


def refusal(access: KafkaAccess) -> TopiaristError:
    """Return the error of a session that cannot be opened; it takes much less than the deadline."""
    started = time.monotonic()
    with pytest.raises(TopiaristError) as caught:
        broker_ids(access)
    assert time.monotonic() - started < 8.0
    return caught.value


@pytest.mark.core
@pytest.mark.parametrize(
    ("mechanism", "user"),
    [
        pytest.param("PLAIN", "alice", marks=pytest.mark.night(area="security")),
        pytest.param("SCRAM-SHA-256", "alice", marks=pytest.mark.night(area="security")),
        ("SCRAM-SHA-512", "alice"),
        pytest.param("SCRAM-SHA-512", "bob=,b", marks=pytest.mark.night(area="security")),
    ],
)
def test_a_password_logs_in(secured: Secured, mechanism: str, user: str) -> None:
    """Each mechanism logs in, without TLS and with it, also a user with a name that SCRAM has to escape."""
    login = secured.password(mechanism, user)
    assert broker_ids(secured.access("LOGIN", login)) == [1]
    assert broker_ids(secured.access("LOGINTLS", login, secured.tls())) == [1]


@pytest.mark.night(area="security")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(secured: Secured, mechanism: str) -> None:
    """The error has the server, the user and the words of the broker, and not the password."""
    error = refusal(secured.access("LOGIN", secured.password(mechanism, password=WRONG_PASSWORD)))
    assert error.reason is Reason.AUTHENTICATION_FAILED
    server = secured.kafka.bootstrap_of("LOGIN")
    assert str(error).startswith(
        f"cannot log in to Kafka at {server}: it refused the user alice: Authentication failed"
    )


@pytest.mark.night(area="security")
def test_a_certificate_logs_in(secured: Secured) -> None:
    """A client certificate of the authority of the brokers is accepted; a listener without clients' needs none."""
    certificate = secured.authority.issue("client", "client")
    assert broker_ids(secured.access("MUTUAL", tls=secured.tls(certificate))) == [1]
    assert broker_ids(secured.access("TLS", tls=secured.tls())) == [1]


@pytest.mark.night(area="security")
def test_refused_certificates_are_explained(secured: Secured) -> None:
    """Each cause of a failed TLS handshake has its own words."""
    foreign = secured.other.issue("foreign", "client")
    expired = secured.authority.issue("expired-client", "client", valid=EXPIRED)
    cases = {
        "it requires a client certificate": secured.access("MUTUAL", tls=secured.tls()),
        "it refused the client certificate": secured.access("MUTUAL", tls=secured.tls(foreign)),
        "perhaps expired": secured.access("MUTUAL", tls=secured.tls(expired)),
        "its certificate has expired": secured.access("EXPIRED", tls=secured.tls()),
        "an authority that tls.ca does not have": secured.access("TLS", tls=secured.tls(ca=secured.other.ca)),
        "its certificate is not for broker.example": secured.access(
            "TLS", tls=replace(secured.tls(), server_name="broker.example")
        ),
    }
    for words, access in cases.items():
        error = refusal(access)
        assert error.reason is Reason.AUTHENTICATION_FAILED, error
        assert words in str(error)
        assert access.bootstrap_servers in str(error)


@pytest.mark.night(area="security")
def test_the_wrong_listener_is_named(secured: Secured) -> None:
    """A port with TLS, without TLS, with a login, without a login, and of a controller are distinguished."""
    cases = {
        "this port accepts TLS only: add tls": secured.access("TLS"),
        "this port does not accept TLS": secured.access("PLAINTEXT", tls=secured.tls()),
        "it requires a login by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512: add sasl": secured.access("LOGIN"),
        "it requires a login by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512": secured.access("LOGINTLS", tls=secured.tls()),
        "this port has no login": secured.access("PLAINTEXT", secured.password("PLAIN")),
        "does not offer the SASL mechanism PLAIN, only OAUTHBEARER": secured.access("OAUTH", secured.password("PLAIN")),
    }
    for words, access in cases.items():
        error = refusal(access)
        assert words in str(error)
        assert error.reason is Reason.AUTHENTICATION_FAILED, error
    controller = KafkaAccess(f"127.0.0.1:{secured.kafka.port('CONTROLLER', secured.kafka.controllers[0])}")
    error = refusal(controller)
    assert "it is a controller of a KRaft cluster" in str(error)
    assert error.reason is Reason.UNREACHABLE


@pytest.mark.night(area="security")
def test_a_token_logs_in(secured: Secured) -> None:
    """A token of an endpoint logs in, by HTTP on the loopback interface and by HTTPS; one token serves all connections.

    Wrong client credentials are refused with the words of the endpoint, an expired token with those of the broker.
    """
    secret = secured.reference("client-secret", CLIENT_SECRET)
    certificate = secured.authority.issue("endpoint", "127.0.0.1")
    ca = SecretReference(str(secured.authority.ca), "", HERE)
    with (
        TokenServer("topiarist", CLIENT_SECRET) as plain,
        TokenServer("topiarist", CLIENT_SECRET, certificate) as https,
    ):
        for server in (plain, https):
            login = SaslOAuth(server.url, "topiarist", secret, ca=ca if server is https else None)
            assert broker_ids(secured.access("OAUTH", login)) == [1]
            assert server.requests == 1
        error = refusal(secured.access("OAUTH", SaslOAuth(plain.url, "stranger", secret)))
        assert error.reason is Reason.AUTHENTICATION_FAILED
        assert "HTTP status 401 (invalid_client: no such client)" in str(error)
        plain.lifetime = -3600
        error = refusal(secured.access("OAUTH", SaslOAuth(plain.url, "topiarist", secret)))
        assert error.reason is Reason.AUTHENTICATION_FAILED
        assert "it refused the client topiarist" in str(error)


@pytest.mark.night(area="security")
def test_the_login_is_renewed(secured: Secured) -> None:
    """A connection outlives the session lifetime of the broker: the login is renewed before a later request."""
    session = Session(secured.access("SHORT", secured.password("SCRAM-SHA-512")), 10.0)
    connection = session.any_broker()
    for _ in range(3):
        time.sleep(REAUTHENTICATION_MS / 1000)
        assert session.any_broker() is connection
        assert session.read_metadata([]).brokers
    assert connection.is_open
    logins = session.requests["SaslHandshake", "ok"]
    assert logins == 4
    session.close()
