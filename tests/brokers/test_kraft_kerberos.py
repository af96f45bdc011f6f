"""Logins by Kerberos to a real broker and a real ZooKeeper, with a KDC of the test: what works, and what fails how."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.protocol.serialization import Exists
from kazoo.security import make_acl
from msgspec.structs import replace

from support.kafka.kraft import KafkaListener, KraftCluster, KraftOptions
from support.network.kdc import REALM, Kdc, require_kerberos, running_kdc
from support.waiting import wait_until
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kerberos import KerberosExchange
from topiarist.adapters.zookeeper.connection import session as zookeeper_session
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import Credentials, KafkaAccess, Kerberos, SecretReference

HERE = Location("clusters.yaml", 3, 5)
REAUTHENTICATION_MS = 2_000
USER = "topiarist"
HOST = "127.0.0.1"
"""The host of the broker's key; the KDC knows ``localhost`` too, and the broker has no key for it."""

pytestmark = pytest.mark.night(area="security")


def in_file(path: Path) -> SecretReference:
    """Return a reference to a file."""
    return SecretReference(str(path), "", HERE)


def jaas(table: Path, principal: str) -> str:
    """Return Java's login of a server by its key table."""
    return (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{table}" principal="{principal}@{REALM}"'
    )


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Start a KDC with the principals of user and servers."""
    require_kerberos()
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        for principal in (USER, f"kafka/{HOST}", "kafka/localhost", f"zookeeper/{HOST}"):
            kdc.add(principal)
        yield kdc


@pytest.fixture(scope="module")
def kafka(kdc: Kdc, kraft_release: str) -> Iterator[KraftCluster]:
    """Start one node with two listeners for Kerberos, one with short sessions."""
    login = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "gssapi.sasl.jaas.config": jaas(kdc.table(f"kafka/{HOST}"), f"kafka/{HOST}") + ";",
    }
    listeners = {
        "KERBEROS": KafkaListener("SASL_PLAINTEXT", login),
        "SHORT": KafkaListener("SASL_PLAINTEXT", {**login, "connections.max.reauth.ms": REAUTHENTICATION_MS}),
    }
    options = KraftOptions(
        controllers=0,
        properties={"sasl.kerberos.service.name": "kafka"},
        listeners=listeners,
        jvm=(f"-Djava.security.krb5.conf={kdc.client_config}",),
    )
    with KraftCluster(kraft_release, {1: None}, options) as kafka:
        yield kafka


@pytest.fixture
def login(kdc: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kerberos:
    """Return the login of the user by key table; there is no other ticket cache."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    return Kerberos(f"{USER}@{REALM}", "kafka", key_tab=in_file(kdc.table(USER)))


def brokers(kafka: KraftCluster, login: Kerberos, listener: str = "KERBEROS", host: str = HOST) -> list[int]:
    """Return the brokers that a session finds."""
    session = Session(KafkaAccess(kafka.bootstrap_of(listener, host), login, request_timeout=15.0), 10.0)
    try:
        return [each.node_id for each in session.read_metadata([]).brokers]
    finally:
        session.close()


def refusal(kafka: KraftCluster, login: Kerberos, host: str = HOST) -> TopiaristError:
    """Return the error of a session for two addresses of the broker; only one of them may have been tried."""
    address = kafka.bootstrap_of("KERBEROS", host)
    session = Session(KafkaAccess(f"{address},{kafka.bootstrap_of('SHORT', host)}", login), 10.0)
    with pytest.raises(TopiaristError) as caught:
        session.read_metadata([])
    assert session.requests["ApiVersions", "ok"] == 1
    session.close()
    return caught.value


def test_a_principal_logs_in(kdc: Kdc, kafka: KraftCluster, login: Kerberos, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key table, a ticket cache and the tickets of the user log in, with or without the realm in the principal."""
    cache = kdc.log_in(USER)
    assert brokers(kafka, login) == [1]
    assert brokers(kafka, replace(login, principal=USER)) == [1]
    assert brokers(kafka, replace(login, realm=REALM)) == [1]
    assert brokers(kafka, replace(login, key_tab=None, ticket_cache=in_file(cache))) == [1]
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
    assert brokers(kafka, replace(login, key_tab=None)) == [1]


def test_the_login_is_renewed(kafka: KraftCluster, login: Kerberos) -> None:
    """A connection outlives the session lifetime of the broker: the login is renewed before a later request."""
    session = Session(KafkaAccess(kafka.bootstrap_of("SHORT"), login), 10.0)
    connection = session.any_broker()
    for _ in range(2):
        time.sleep(REAUTHENTICATION_MS / 1000)
        assert session.read_metadata([]).brokers
        assert session.any_broker() is connection
    assert session.requests["SaslHandshake", "ok"] == 3
    session.close()


def test_what_is_wrong_is_said(kdc: Kdc, kafka: KraftCluster, login: Kerberos, tmp_path: Path) -> None:
    """Each cause has words of its own and the place of its field, and ends the search at the first broker."""
    other = in_file(kdc.table(f"kafka/{HOST}"))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"hello")
    cases = {
        f"the file {other.file} has no key of {USER}@{REALM}": replace(login, key_tab=other),
        "the KDC does not know the principal nobody@": replace(
            login, principal=f"nobody@{REALM}", key_tab=in_file(nobody_table(kdc))
        ),
        f"the KDC does not know the service nosuch/{HOST}@{REALM}": replace(login, service_name="nosuch"),
        "the ticket cache of this user has no ticket of": replace(login, key_tab=None),
        f"the file {damaged}": replace(login, key_tab=in_file(damaged)),
    }
    errors = {words: str(refusal(kafka, given)) for words, given in cases.items()}
    assert errors == {words: error for words, error in errors.items() if words in error}


def test_an_expired_ticket_is_named(kdc: Kdc, kafka: KraftCluster, login: Kerberos) -> None:
    """A ticket that the KDC no longer accepts is named as the cause, with what to do."""
    given = replace(login, key_tab=None, ticket_cache=in_file(kdc.log_in(USER, "-l", "1s")))

    def has_expired() -> bool:
        try:
            return not KerberosExchange(given, HOST)
        except TopiaristError:
            return True

    wait_until(has_expired, "the end of a ticket", interval=0.5)
    error = refusal(kafka, given)
    assert str(error).endswith(
        f"cannot log in by GSSAPI: the ticket of {USER}@{REALM} has expired: run kinit, or give keyTab"
    )
    assert error.reason is Reason.AUTHENTICATION_FAILED


def nobody_table(kdc: Kdc) -> Path:
    """Return the key table of a principal that the KDC no longer knows."""
    table = kdc.add("nobody")
    kdc.run("kadmin.local", "-r", REALM, "delprinc", "-force", "nobody")
    return table


def test_a_kdc_that_does_not_answer_is_named(
    kdc: Kdc, kafka: KraftCluster, login: Kerberos, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only this failure may be temporary; it ends the search too."""
    (tmp_path / "krb5.conf").write_text(kdc.client_config.read_text().replace(str(kdc.port), "1"))
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    error = refusal(kafka, login)
    assert f"no KDC for {USER}@{REALM} and kafka/{HOST}@{REALM} answers: Cannot contact any KDC" in str(error)
    assert error.reason is Reason.UNREACHABLE


def test_an_old_key_is_refused(kdc: Kdc, kafka: KraftCluster, login: Kerberos, tmp_path: Path) -> None:
    """After a change of the key at the KDC, the old key table is named as the cause; a new one logs in at once."""
    kdc.add("changing")
    old = tmp_path / "old.keytab"
    old.write_bytes(kdc.table("changing").read_bytes())
    given = replace(login, principal=f"changing@{REALM}", key_tab=in_file(old))
    assert brokers(kafka, given) == [1]
    kdc.table("changing").unlink()
    kdc.export("changing", kdc.table("changing"))
    error = refusal(kafka, given)
    assert "the KDC refuses the key of changing@" in str(error)
    assert error.reason is Reason.AUTHENTICATION_FAILED
    old.write_bytes(kdc.table("changing").read_bytes())
    assert brokers(kafka, given) == [1]


def test_a_host_without_a_key_is_explained(kafka: KraftCluster, login: Kerberos) -> None:
    """A broker that has no key for the name in the ticket refuses, and the error names where its cause is."""
    error = refusal(kafka, login, "localhost")
    assert error.reason is Reason.AUTHENTICATION_FAILED
    assert "it refused the principal topiarist@" in str(error)
    assert "a keytab without a key for this host name" in str(error)


@pytest.fixture(scope="module")
def zookeeper(kdc: Kdc) -> Iterator[EmbeddedZooKeeper]:
    """Start a ZooKeeper that accepts logins by Kerberos."""
    server = f"zookeeper/{HOST}"
    config = kdc.folder / "zookeeper.jaas"
    config.write_text(f"Server {{ {jaas(kdc.table(server), server)}; }};")
    options = (f"-Djava.security.auth.login.config={config}", f"-Djava.security.krb5.conf={kdc.client_config}")
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with EmbeddedZooKeeper(settings=provider, jvm_options=options) as server_process:
        yield server_process


def test_a_principal_logs_in_to_zookeeper(zookeeper: EmbeddedZooKeeper, login: Kerberos) -> None:
    """The session has the identity of the principal: a znode that only it may read can be read."""
    given = replace(login, service_name="zookeeper")
    session = zookeeper_session.open_session(zookeeper.connect, 10.0, Credentials(sasl=given))
    try:
        acl = [make_acl("sasl", f"{USER}@{REALM}", all=True)]
        session.client.create("/own", b"mine", acl=acl)
        assert session.client.get("/own")[0] == b"mine"
    finally:
        session.close()
    stranger = zookeeper_session.open_session(zookeeper.connect, 10.0)
    try:
        with pytest.raises(NoAuthError):
            stranger.client.get("/own")
    finally:
        stranger.close()


@pytest.mark.parametrize(
    ("service", "host", "words"),
    [
        ("zookeeper", "localhost", "the KDC does not know the service zookeeper/localhost@"),
        ("kafka", HOST, "it refused the principal topiarist@"),
    ],
)
def test_zookeeper_refuses(zookeeper: EmbeddedZooKeeper, login: Kerberos, service: str, host: str, words: str) -> None:
    """A wrong host name is named before anything is sent, a wrong service by the server's refusal."""
    connect = zookeeper.connect.replace("127.0.0.1", host)
    given = Credentials(sasl=replace(login, service_name=service))
    with pytest.raises(TopiaristError) as caught:
        zookeeper_session.open_session(connect, 10.0, given).call_with_retry(Exists("/", None))
    assert words in str(caught.value)
