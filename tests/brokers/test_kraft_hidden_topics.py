"""Reads real brokers with few rights: what is hidden is told from what does not exist, and nothing reads as empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers.shared_clusters import PASSWORD
from support.kafka.acls import Acl, create_acls
from support.kafka.clients import Clients
from support.kafka.kraft import KraftCluster
from support.kafka.kraft_fixture import KraftFixture
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read import sync
from topiarist.adapters.kafka_admin.read.state import WARNING_NO_REASSIGNMENTS, RecordsView, read_state
from topiarist.adapters.kafka_admin.read.topic_reader import TopicReader, inspect, poll_progress
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import KafkaAccess, SaslMechanism, SaslPassword, SecretReference
from topiarist.model.state import IdentifiedRecord, OwnershipRecord, ReadError, TopicState

RECORD = OwnershipRecord("team", ("retention.ms",))
TOPICS = ("seen", "hidden", "deleted")


class Guarded:
    """A cluster of one broker with ACLs, on which ``user`` has the rights that ``grant`` gave it."""

    def __init__(self, kafka: KraftCluster, clients: Clients, password: Path) -> None:
        self.kafka, self.clients = kafka, clients
        self._password = password

    def grant(self, *acls: Acl) -> None:
        """Give rights."""
        create_acls(self.kafka.bootstrap, acls)

    def session(self, user: str) -> Session:
        """Return a session of a user."""
        secret = SecretReference(str(self._password), "", Location("clusters.yaml", 1, 1))
        login = SaslPassword(SaslMechanism("PLAIN"), user, secret)
        return Session(KafkaAccess(self.kafka.bootstrap_of("LOGIN"), login, request_timeout=15.0), 10.0)


@pytest.fixture
def guarded(secured_node: KraftFixture, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """Create three topics and the rights of four users, each of whom lacks something but ``reader``."""
    password = tmp_path_factory.mktemp("hidden") / "password"
    password.write_text(PASSWORD)
    guarded = Guarded(secured_node.kafka, secured_node.clients, password)
    assert guarded.clients.create(dict.fromkeys(TOPICS, ((1,),)), {"retention.ms": "5"}) == {}
    guarded.grant(
        Acl("reader", ("Describe", "DescribeConfigs"), "Topic"),
        Acl("reader", ("Describe",), "Cluster"),
        Acl("narrow", ("Describe", "DescribeConfigs"), "Topic", "seen"),
        Acl("narrow", ("Describe",), "Cluster"),
        Acl("blind", ("Describe",), "Topic"),
        Acl("blind", ("Describe",), "Cluster"),
        Acl("distant", ("Describe", "DescribeConfigs"), "Topic"),
    )
    return guarded


@pytest.fixture
def session_of(guarded: Guarded) -> Iterator[Callable[[str], Session]]:
    """Return a function that opens sessions; they are closed after the test."""
    opened: list[Session] = []

    def open_session(user: str) -> Session:
        opened.append(guarded.session(user))
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


def records_of(ids: dict[str, str | None]) -> RecordsView:
    """Return a record for each of these topics."""
    return RecordsView({name: IdentifiedRecord(RECORD, topic_id) for name, topic_id in ids.items()})


def test_a_hidden_topic_is_not_gone(guarded: Guarded, session_of: Callable[[str], Session]) -> None:
    """Of two topics that are not listed, the hidden one is an error of its own, and the deleted one leaves a record."""
    narrow, reader = session_of("narrow"), session_of("reader")
    before = read_state(reader, RecordsView())
    assert set(TOPICS) == before.topics.keys()
    assert before.warnings == ()
    ids = {name: before.topics[name].topic_id for name in TOPICS}
    assert guarded.clients.delete(["deleted"]) == {}
    state = read_state(narrow, records_of(ids))
    assert state.topics.keys() == {"seen"}
    assert state.topics["seen"].config == {"retention.ms": "5"}
    assert state.topics["seen"].record_valid
    assert state.topic_errors.keys() == {"hidden"}
    assert "it exists and is hidden from topiarist" in state.topic_errors["hidden"].message
    assert state.dangling_records == {"deleted": RECORD}
    guarded.grant(Acl("narrow", ("Describe", "DescribeConfigs"), "Topic", "hidden"))
    unhidden = read_state(narrow, records_of(ids))
    assert unhidden.topics.keys() == {"seen", "hidden"}
    assert unhidden.topic_errors == {}
    assert unhidden.dangling_records == {"deleted": RECORD}


@pytest.mark.night(area="rights")
def test_a_name_without_describe_is_never_absent(session_of: Callable[[str], Session]) -> None:
    """Before a write, after it and for its progress, a name that may not be described is an error, existing or not."""
    narrow = session_of("narrow")
    look = TopicReader(narrow).look(["seen", "no-such-topic"]).topics
    assert isinstance(look["seen"], TopicState)
    found = look["no-such-topic"]
    assert isinstance(found, ReadError)
    assert "hidden from topiarist, or does not exist" in found.message
    inspection = inspect(narrow, "no-such-topic")
    assert not inspection.states_readable
    progress = poll_progress(narrow, {"no-such-topic": [0]})["no-such-topic"]
    assert progress.read_error
    reader = session_of("reader")
    assert TopicReader(reader).look(["no-such-topic"]).topics == {"no-such-topic": None}


@pytest.mark.night(area="rights")
def test_configs_that_may_not_be_read_are_a_fault(session_of: Callable[[str], Session]) -> None:
    """Without DescribeConfigs no state is read: a state without overrides would be a plan to set all of them."""
    blind = session_of("blind")
    for read in (lambda: read_state(blind, RecordsView()), lambda: TopicReader(blind).look(["seen"])):
        with pytest.raises(TopiaristError, match="User:blind lacks DescribeConfigs") as caught:
            read()
        assert caught.value.reason is Reason.NO_PERMISSION


@pytest.mark.night(area="rights")
def test_without_describe_on_the_cluster_a_state_warns(session_of: Callable[[str], Session]) -> None:
    """The state is read and says that it may be old, and that it shows no reassignments."""
    state = read_state(session_of("distant"), RecordsView())
    assert state.topics["seen"].config == {"retention.ms": "5"}
    hidden = f"{WARNING_NO_REASSIGNMENTS}Describe on the cluster is missing"
    assert set(state.warnings) == {sync.WARNING_UNSYNCED, hidden}
