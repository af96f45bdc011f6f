"""TLS and a login under load: large replies and writes, connections that break, secrets that change meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
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
from support.zookeeper.secured_server import KAFKA, PASSWORDS, READER, SecuredZooKeeper
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, Session, open_session
from topiarist.adapters.zookeeper.read.bulk_read import Znode, read_znodes, sync
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import Credentials, SecretReference, Tls, UserPassword

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
