"""One ZooKeeper session: what breaks it, what it survives, and what it says when it is over or never began."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.serialization import SetData
from kazoo.security import make_acl

from support.network.relay import Relay
from support.secret_scanner import register_secret
from support.waiting import wait_until
from support.zookeeper.proxy import Connection, Proxy
from support.zookeeper.secured_server import KAFKA, PASSWORDS, READER, SecuredZooKeeper
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, Session, open_session, parse_connect_string
from topiarist.adapters.zookeeper.read.bulk_read import Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import read_metadata
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import Credentials, SecretReference, Tls, UserPassword

REPLICAS = ((1, 2, 3), (2, 3, 4))


@contextmanager
def opened(connect: str) -> Iterator[Session]:
    """A session that ends with the test."""
    with closing(open_session(connect, 10.0)) as session:
        yield session


class OldServer(Proxy):
    """Makes of the server behind it one before 3.6: it answers MultiRead with Unimplemented and hangs up."""

    def _request(self, connection: Connection, body: bytes, first: bool) -> bool:
        if not first and struct.unpack_from("!i", body, 4)[0] == 22:
            connection.requests["multiRead"] += 1
            xid = struct.unpack_from("!i", body)[0]
            connection.client.sendall(struct.pack("!iiqi", 16, xid, 0, -6))
            return False
        return super()._request(connection, body, first)


class HangingServer(Proxy):
    """Breaks the connection at every MultiRead, without a word."""

    def _request(self, connection: Connection, body: bytes, first: bool) -> bool:
        return super()._request(connection, body, first) and (first or struct.unpack_from("!i", body, 4)[0] != 22)


def test_a_server_that_hangs_up_at_multiread_is_no_fault(cluster: SimulatedKafka, zookeeper: EmbeddedZooKeeper) -> None:
    """ZooKeeper 3.5 closes the connection over an opcode it does not know: same session, one probe, everything read."""
    cluster.add_topics(Topic("orders", REPLICAS, {}))
    with OldServer(zookeeper.connect) as old, opened(old.through(cluster.connect)) as session:
        identity = session.client.client_id
        assert list(read_state(session, jute_max_buffer=1).topics) == ["orders"]
        assert list(read_state(session, jute_max_buffer=1).topics) == ["orders"]
        assert (session.supports_multiread, session.disconnects, session.lost) == (False, 1, False)
        assert session.client.client_id == identity
        assert old.requests["multiRead"] == 1


@pytest.mark.slow
def test_an_interrupted_reading_goes_on(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A connection that drops in the middle comes back with the same session, and nothing is missing or twice."""
    cluster.add_topics(*(Topic(f"topic-{number:04}", REPLICAS, {}) for number in range(900)))
    names = [paths.topic_path(f"topic-{number:04}") for number in range(900)]
    for multiread in (True, False):
        with opened(proxy.through(cluster.connect)) as session:
            expected = list(read_znodes(session, names))
            session.supports_multiread = multiread
            answers = read_znodes(session, names)
            found = [next(answers)]
            proxy.drop()
            found += answers
            assert found == expected
            assert (session.disconnects, session.lost) == (1, False)


def test_a_lost_session_stays_lost(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """When the session has ended, reading fails with that reason, and no new session is opened behind our back."""
    with opened(proxy.through(cluster.connect)) as session:
        read_metadata(session)
        thief = KazooClient(cluster.connect, client_id=session.client.client_id)
        thief.start()
        thief.stop()
        thief.close()
        proxy.drop()
        wait_until(lambda: session.lost, "the end of the session")
        wait_until(lambda: str(session.client.client_state) == "CLOSED", "the end of kazoo's thread")
        tried = len(proxy.connections)
        with pytest.raises(TopiaristError, match=r"the session with ZooKeeper at .* ended") as caught:
            read_metadata(session)
        assert caught.value.reason is Reason.SESSION_LOST
        assert not session.connected
        assert len(proxy.connections) == tried


def test_a_connection_that_always_drops_is_given_up(cluster: SimulatedKafka, zookeeper: EmbeddedZooKeeper) -> None:
    """A request that never gets an answer ends with a reason instead of being tried for ever."""
    with HangingServer(zookeeper.connect) as hanging, opened(hanging.through(cluster.connect)) as session:
        session.supports_multiread = True
        with pytest.raises(TopiaristError, match="dropped 5 times in a row") as caught:
            list(read_znodes(session, [paths.CLUSTER_ID]))
        assert hanging.requests["multiRead"] == 5
    assert caught.value.reason is Reason.UNREACHABLE


def closed_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ("127.0.0.1:{port}", "cannot reach ZooKeeper at 127.0.0.1:{port}: Connection refused"),
        (
            "no-such.invalid:2181,nor-this.invalid/kafka",
            "cannot reach ZooKeeper at no-such.invalid:2181, nor-this.invalid:2181: n.*invalid has no address",
        ),
    ],
)
def test_an_unreachable_server_is_one_line(hosts: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """No answer within the time is one error that names the hosts and why; kazoo says nothing on its own."""
    port = closed_port()
    with pytest.raises(TopiaristError, match=words.format(port=port)) as caught:
        open_session(hosts.format(port=port), 0.5)
    assert caught.value.reason is Reason.UNREACHABLE
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_kazoo_logs_nothing_of_a_session(cluster: SimulatedKafka, caplog: pytest.LogCaptureFixture) -> None:
    """Even with everything logged, kazoo's messages, which have credentials in them, do not come through."""
    with caplog.at_level(logging.DEBUG):
        session = open_session(cluster.connect, 10.0)
        read_metadata(session)
        session.close()
    ours = [record for record in caplog.records if record.threadName != "simulated-kafka"]
    assert not [record for record in ours if str(session.client.client_id) in record.getMessage()]
    assert not session.client.logger.isEnabledFor(logging.INFO)


def test_connect_strings_are_checked() -> None:
    """One chroot after the last host is valid; anything else is a usage error before any request."""
    assert parse_connect_string("a:1,b,[::1]:3/x/y") == [("a", 1), ("b", 2181), ("::1", 3)]
    assert parse_connect_string("a/") == parse_connect_string("a/k/") == [("a", 2181)]
    for wrong in ("", "a:1/k,b:2/k", "a:x", "a:1,,b", "a:99999", " a:1", "a:1//k", "/k", "a:1/k//", "a:1/../k"):
        with pytest.raises(TopiaristError, match="is not a connect string") as caught:
            parse_connect_string(wrong)
        assert caught.value.reason is Reason.WRONG_USAGE


SIZE, MANY = 60_000, 100
"""Six megabytes in all, sixteen nodes in a reply of one megabyte."""

WRONG = register_secret("planted-Hedge3-wrong")

_numbers = count(1)


def reference(path: Path) -> SecretReference:
    """A file, as a manifest names it."""
    return SecretReference(str(path), "", Location("clusters.yaml", 7, 9))


@pytest.fixture
def relay(secured: SecuredZooKeeper) -> Iterator[Relay]:
    """On the way to the port for TLS."""
    with Relay(("127.0.0.1", secured.secure_port)) as between:
        yield between


@pytest.fixture
def credentials(secured: SecuredZooKeeper) -> Credentials:
    """A login over TLS."""
    return Credentials(
        sasl=UserPassword(KAFKA, reference(secured.password(KAFKA))), tls=Tls(ca=reference(secured.authority.ca))
    )


@pytest.fixture
def ours(superuser: KazooClient) -> str:
    """A node that only the user of SASL may read and write, below which each node is large."""
    root, acl = f"/large-{next(_numbers)}", [make_acl("sasl", KAFKA, all=True)]
    superuser.create(root, acl=acl)
    for number in range(MANY):
        superuser.create(f"{root}/{number}", bytes([number]) * SIZE, acl=acl)
    return root


def content(session: Session, root: str) -> list[bytes]:
    """What is in the large nodes."""
    nodes = list(read_znodes(session, [f"{root}/{number}" for number in range(MANY)]))
    return [node.data for node in nodes if isinstance(node, Znode)]


def overwrite(session: Session, root: str, letter: bytes) -> None:
    """Set all the large nodes at once, many under way at any time."""
    pending = [session.send(SetData(f"{root}/{number}", letter * SIZE, -1)) for number in range(MANY)]
    for answer in pending:
        session.result(answer)


def test_large_replies_and_large_writes_come_whole(
    secured: SecuredZooKeeper, credentials: Credentials, ours: str
) -> None:
    """Six megabytes each way, in replies of one and writes that wait together, to the byte; no connection is lost."""
    with closing(open_session(secured.secure, 10.0, credentials)) as session:
        assert content(session, ours) == [bytes([number]) * SIZE for number in range(MANY)]
        overwrite(session, ours, b"x")
        assert content(session, ours) == [b"x" * SIZE] * MANY
        session.supports_multiread = False
        assert content(session, ours) == [b"x" * SIZE] * MANY
        assert session.disconnects == 0


def test_a_dropped_connection_logs_in_again(relay: Relay, credentials: Credentials, ours: str) -> None:
    """In the middle of large replies, again and again: the same session, the same rights, nothing missing."""
    with closing(open_session(f"localhost:{relay.port}", 10.0, credentials)) as session:
        sync(session)
        number = session.session_id
        names = [f"{ours}/{index}" for index in range(MANY)]
        for dropped in range(1, MAX_DISCONNECTS):
            answers = read_znodes(session, names)
            found = [next(answers)]
            relay.drop()
            found += answers
            assert [node.data[:1] for node in found if isinstance(node, Znode)] == [bytes([at]) for at in range(MANY)]
            assert (session.disconnects, session.lost, session.session_id) == (dropped, False, number)
        assert relay.connection_count == MAX_DISCONNECTS


def test_a_password_that_changes_counts_from_the_next_connection_on(
    relay: Relay, secured: SecuredZooKeeper, superuser: KazooClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The file is read at every connection: it was replaced, so after a drop we are who it makes us."""
    secret = tmp_path_factory.mktemp("vault") / "password"
    secret.write_text(PASSWORDS[KAFKA])
    path = f"/rotated-{next(_numbers)}"
    superuser.create(path, acl=[make_acl("digest", f"{KAFKA}:{_hashed(KAFKA)}", all=True)])
    tls = Tls(ca=reference(secured.authority.ca))
    with closing(
        open_session(
            f"localhost:{relay.port}", 10.0, Credentials(digest=UserPassword(KAFKA, reference(secret)), tls=tls)
        )
    ) as (session):
        assert isinstance(next(read_znodes(session, [path])), Znode)
        secret.write_text(WRONG)
        relay.drop()
        wait_until(lambda: session.disconnects == 1 and session.connected, "the connection to come back")
        with pytest.raises(NoAuthError):
            session.call_with_retry(SetData(path, b"", -1))
        secret.write_text(PASSWORDS[KAFKA])
        relay.drop()
        wait_until(lambda: session.disconnects == 2 and session.connected, "the connection to come back")
        session.call_with_retry(SetData(path, b"", -1))


def test_a_password_that_is_missing_for_a_moment_is_waited_for(
    relay: Relay, secured: SecuredZooKeeper, ours: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A file may be removed before its replacement exists: the session continues with the new one."""
    secret = tmp_path_factory.mktemp("vault") / "password"
    secret.write_text(PASSWORDS[KAFKA])
    credentials = Credentials(sasl=UserPassword(KAFKA, reference(secret)), tls=Tls(ca=reference(secured.authority.ca)))
    with closing(open_session(f"localhost:{relay.port}", 10.0, credentials)) as session:
        sync(session)
        number = session.session_id
        secret.unlink()
        relay.drop()
        wait_until(lambda: relay.connection_count >= 3, "two connections without a login")
        secret.write_text(PASSWORDS[KAFKA])
        wait_until(lambda: session.authenticator.refusal is None and session.connected, "a connection with one")
        session.wait_until_reconnected()
        assert len(content(session, ours)) == MANY
        assert session.session_id == number


def _hashed(user: str) -> str:
    from base64 import b64encode
    from hashlib import sha1

    return b64encode(sha1(f"{user}:{PASSWORDS[user]}".encode()).digest()).decode()


@pytest.mark.parametrize(
    ("what", "words"),
    [("password", "it refused the SASL user kafka"), ("ca", "holds no certificate in PEM form")],
)
def test_a_secret_that_goes_wrong_ends_the_session_and_says_so(
    relay: Relay, secured: SecuredZooKeeper, tmp_path_factory: pytest.TempPathFactory, what: str, words: str
) -> None:
    """A run never continues with another identity: the session is lost, and the error has the reason."""
    vault = tmp_path_factory.mktemp("vault")
    files = {"password": PASSWORDS[KAFKA], "ca": secured.authority.ca.read_text()}
    for name, text in files.items():
        (vault / name).write_text(text)
    credentials = Credentials(
        sasl=UserPassword(KAFKA, reference(vault / "password")), tls=Tls(ca=reference(vault / "ca"))
    )
    with closing(open_session(f"localhost:{relay.port}", 10.0, credentials)) as session:
        sync(session)
        (vault / what).write_text(WRONG)
        relay.drop()
        with pytest.raises(TopiaristError, match="ended during the run: ") as caught:
            sync(session)
    assert caught.value.reason is Reason.SESSION_LOST
    assert words in str(caught.value)


def test_nothing_is_logged_of_a_login(
    secured: SecuredZooKeeper, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    """kazoo would log every request, a login included; its messages go to a logger of ours that lets none through."""
    both = Credentials(sasl=credentials.sasl, digest=UserPassword(READER, reference(secured.password(READER))))
    with caplog.at_level(logging.DEBUG), closing(open_session(secured.connect, 10.0, both)) as session:
        sync(session)
    assert not [record for record in caplog.records if "SASL" in record.getMessage() or "Auth" in record.getMessage()]
    assert not session.client.logger.isEnabledFor(logging.INFO)
    assert PASSWORDS[KAFKA] not in repr(vars(session.client)) + repr(vars(session.authenticator)) + repr(both)
