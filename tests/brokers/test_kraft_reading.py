"""Reads clusters in KRaft mode through one broker, and compares the state with Kafka's own client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kafka.kraft import CONTROLLER
from support.kafka.kraft_fixture import KraftFixture
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.state import RecordsView, read_state
from topiarist.adapters.kafka_admin.read.topic_reader import TopicReader, inspect, inspect_all, poll_progress
from topiarist.errors import Reason
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.types import MIN_ISR_CAPPED_SINCE, Broker, ClusterMode
from topiarist.model.access import KafkaAccess
from topiarist.model.state import AppliedSpec, Freeze, IdentifiedRecord, OwnershipRecord, TopicState


@pytest.fixture
def session(kraft: KraftFixture) -> Iterator[Session]:
    """Return the connections of one run."""
    opened = Session(KafkaAccess(kraft.kafka.bootstrap), 10.0)
    yield opened
    opened.close()


def test_the_state_is_that_of_kafkas_own_client(kraft: KraftFixture, session: Session) -> None:
    """Brokers, replica lists, ids and overrides are equal; the brokers name their configs with types and defaults."""
    config = {"retention.ms": "1000000", "cleanup.policy": "compact,delete"}
    kraft.clients.create({"read-a": ((1, 2), (3, 1)), "read-b": ((2, 3, 1),)}, config)
    kraft.clients.create({"read-c": ((3,),)})
    state = read_state(session, RecordsView())
    assert state.brokers == (Broker(1, "a"), Broker(2, "b"), Broker(3, "c"))
    assert (state.mode, state.controller, state.write_block.reason) == (ClusterMode.KRAFT, CONTROLLER, None)
    assert state.controller_epoch > 0
    shown = kraft.clients.describe(state.topics)
    assert {"read-a", "read-b", "read-c"} <= shown.keys()
    for name, topic in state.topics.items():
        described = shown[name]
        assert described is not None
        assert (topic.replicas, topic.topic_id, topic.identity) == (described.replicas, described.id, described.id)
    assert {name: topic.config for name, topic in state.topics.items()} == kraft.clients.overrides(state.topics)
    assert state.topics["read-a"].config == config
    known = state.known_configs
    assert known is not None
    assert (known["retention.ms"].type, known["retention.ms"].default) == ("LONG", "604800000")
    assert known["cleanup.policy"].default == "delete"
    assert state.topic_errors == {}
    assert state.min_version >= (3, 3)


def test_one_replica_is_enough_for_one(kraft: KraftFixture, session: Session) -> None:
    """The cap of the minimum follows from the version that the metadata shows, and brokers keep to it."""
    kraft.clients.create({"alone": ((1,),)}, {"min.insync.replicas": "2"})
    written = kraft.clients.produce({"alone": 1}, "v")["alone"]
    state = read_state(session, RecordsView())
    oldest = ConfigRules().for_cluster(state.mode, state.known_configs).oldest_version(state.min_version)
    assert (written == [0]) is (oldest >= MIN_ISR_CAPPED_SINCE), written


def test_no_read_is_older_than_the_answer_before_it(kraft: KraftFixture, session: Session) -> None:
    """A topic is in the first read after its creation was answered, and its config in the first after the change."""
    reader = TopicReader(session)
    for number in range(60):
        name = f"fresh-{number}"
        assert kraft.clients.create({name: ((1,),)}) == {}
        assert isinstance(reader.look([name]).topics[name], TopicState), number
        assert kraft.clients.alter({name: {"retention.ms": str(number + 1)}}) == {}
        found = reader.look([name]).topics[name]
        assert isinstance(found, TopicState)
        assert found.config == {"retention.ms": str(number + 1)}
    names = [f"fresh-{number}" for number in range(60)]
    assert kraft.clients.delete(names) == {}
    assert set(reader.look(names).topics.values()) == {None}


def test_records_belong_to_the_id_of_a_topic(kraft: KraftFixture, session: Session) -> None:
    """A record of an earlier topic of the name is not valid; a value that differs from the record shows; a record
    without a topic is kept as such; a freeze blocks writes.
    """
    kraft.clients.create({"owned": ((1,),), "recreated": ((1,),)}, {"retention.ms": "5"})
    ids = {name: topic.topic_id for name, topic in read_state(session, RecordsView()).topics.items()}
    kraft.clients.delete(["recreated"])
    kraft.clients.create({"recreated": ((1,),)})
    record = OwnershipRecord("team", ("retention.ms",), applied=AppliedSpec(None, (("retention.ms", "5"),)))
    records = {
        "owned": IdentifiedRecord(record, ids["owned"]),
        "recreated": IdentifiedRecord(record, ids["recreated"]),
        "vanished": IdentifiedRecord(record, "AAAAAAAAQACAAAAAAAAAAQ"),
        "deleted": IdentifiedRecord(record, None),
    }
    freeze = Freeze("test", "ada")
    state = read_state(session, RecordsView(records, freeze))
    owned, recreated = state.topics["owned"], state.topics["recreated"]
    assert (owned.record_valid, owned.modified_externally) == (True, False)
    assert (recreated.record, recreated.record_valid) == (record, False)
    assert state.dangling_records == {"vanished": record, "deleted": record}
    assert state.write_block.reason is Reason.FROZEN
    kraft.clients.alter({"owned": {"retention.ms": "6"}})
    assert read_state(session, RecordsView(records)).topics["owned"].modified_externally


def test_leaders_states_and_progress(kraft: KraftFixture, session: Session) -> None:
    """States have leaders and in-sync replicas; a topic that does not exist has none."""
    kraft.clients.create({"led": ((1, 2), (2, 3))})
    kraft.kafka.wait(lambda: (found := kraft.clients.describe(["led"])["led"]) and found.is_in_sync, "the replicas")
    inspection = inspect(session, "led")
    assert inspection.assignment == {0: (1, 2), 1: (2, 3)}
    assert {number: state.leader for number, state in inspection.states.items()} == {0: 1, 1: 2}
    assert {number: set(state.isr) for number, state in inspection.states.items()} == {0: {1, 2}, 1: {2, 3}}
    topic = read_state(session, RecordsView()).topics["led"]
    assert inspect_all(session, [topic]) == {"led": inspection}
    assert inspect(session, "no-such-topic").identity is None
    progress = poll_progress(session, {"led": [0, 1], "no-such-topic": [0]})
    assert progress["led"].initialized == {0, 1}
    assert progress["led"].identity == topic.identity
    assert progress["no-such-topic"].identity is None


def test_a_fenced_broker_and_a_lost_controller(kraft: KraftFixture, session: Session) -> None:
    """A killed broker is no broker any more; without a controller the cluster is readable, and closed for writes."""
    bed = kraft
    bed.clients.create({"kept": ((1, 2),)})
    bed.kafka.kill(2)
    bed.kafka.wait(lambda: bed.registered() == {1, 3}, "the session of the killed broker to expire")
    state = read_state(session, RecordsView())
    assert state.brokers == (Broker(1, "a"), Broker(3, "c"))
    if state.min_version >= (4, 0):
        assert state.fenced_brokers == {2: "b"}
    assert inspect(session, "kept").states[0].isr == (1,)
    assert poll_progress(session, {"kept": [0]})["kept"].missing_brokers == (2,)
    bed.kafka.kill(CONTROLLER)
    closed = read_state(session, RecordsView())
    assert closed.topics.keys() == {"kept"}
    assert closed.write_block.reason is Reason.NO_CONTROLLER
