"""The state of a whole cluster over brokers by a script: records of topics, hidden topics, and reasons not to write."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.metadata import MetadataResponse

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Disconnected, Features
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read import sync as reassignments_module
from topiarist.adapters.kafka_admin.read import sync as sync_module
from topiarist.adapters.kafka_admin.read.capabilities import MIN_VERSION
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from topiarist.adapters.kafka_admin.read.state import RecordsView, find_migration_block, read_state
from topiarist.errors import Reason
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.state import AppliedSpec, ClusterState, Freeze, IdentifiedRecord, OwnershipRecord
from unit.adapters.kafka_admin.read.test_configs import listed, over
from unit.adapters.kafka_admin.read.test_sync import quorum
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, reply

PRESENT, RECREATED, MISSING, HIDDEN, LATE, BROKEN = (uuid.UUID(int=number) for number in range(11, 17))
CODES = {MISSING: 100, HIDDEN: 29, LATE: 0, BROKEN: 5, RECREATED: 100}
TEAM = OwnershipRecord("team")
NO_RECORDS = RecordsView()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time."""
    clock = FakeTime()
    for module in (sync_module, reassignments_module):
        monkeypatch.setattr(module, "time", clock)
    return clock


def described(code: int, name: str | None, topic_id: uuid.UUID) -> Any:
    """Return a topic of an answer to Metadata; without a name it has no partitions."""
    element = MetadataResponse.MetadataResponseTopic
    led = element.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=7,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
    )
    return element(error_code=code, name=name, topic_id=topic_id, is_internal=False, partitions=[led] if name else [])


def cluster(topic_id: uuid.UUID = PRESENT, **script: Any) -> ScriptedSession:
    """Return a session with the topic ``a``; other ids have the codes above."""

    def answer(_broker: int, request: Any) -> Any:
        asked = [each.topic_id for each in request.topics or ()]
        topics = [described(code, None, each) for each in asked if (code := CODES.get(each)) is not None]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=each, host="b", port=9092, rack=None)
                for each in (1, 2, 3)
            ],
            cluster_id="cluster",
            controller_id=3,
            topics=topics or [described(0, "a", topic_id)],
            error_code=0,
        )

    fenced = reply(error_code=0, brokers=[])
    session: ScriptedSession = over(answer, **{"DescribeCluster": fenced, **script})
    return session


def read(session: ScriptedSession, records: RecordsView = NO_RECORDS) -> ClusterState:
    """Return the state."""
    return read_state(session, records)  # type: ignore[arg-type]


def text(topic_id: uuid.UUID) -> str:
    """Return an id as topiarist has it."""
    found = read(cluster(topic_id)).topics["a"].topic_id
    assert found
    return found


def test_a_cluster_that_may_be_written() -> None:
    """Brokers, topics, the controller and its epoch are those that the brokers name; nothing is in the way."""
    state = read(cluster())
    assert (state.cluster_id, [broker.id for broker in state.brokers]) == ("cluster", [1, 2, 3])
    assert state.topics["a"].config == {"retention.ms": "5"}
    assert (state.write_block.reason, state.warnings, state.topic_errors) == (None, (), {})
    assert (state.mode, state.bypasses_brokers, state.assigns_topic_ids) == (ClusterMode.KRAFT, False, True)
    assert (state.controller, state.controller_epoch) == (3000, 5)
    assert (state.reassigning_topics, state.requested_reassignments) == (frozenset(), ())


def test_a_cluster_without_a_controller() -> None:
    """It can be read, without its version; nothing is written, and reassignments are not asked for."""
    session = cluster(DescribeQuorum=quorum(-1))
    state = read(session)
    assert (state.write_block.reason, state.mode) == (Reason.NO_CONTROLLER, ClusterMode.KRAFT)
    assert (state.controller, state.controller_epoch, state.min_version) == (3, 0, MIN_VERSION)
    assert state.warnings == ("there is no controller: what is shown may be some time old",)
    assert "controller" in state.write_block.message
    assert "ListPartitionReassignments" not in session.names()
    assert state.topics.keys() == {"a"}


def test_records_of_topics() -> None:
    """A record counts for the topic with its id only; a config that another client changed is noticed then."""
    applied = OwnershipRecord("team", ("retention.ms",), applied=AppliedSpec(1, (("retention.ms", "5"),)))
    changed = OwnershipRecord("team", ("retention.ms",), applied=AppliedSpec(1, (("retention.ms", "6"),)))
    here, other = text(PRESENT), text(RECREATED)
    for record, topic_id, is_valid, is_changed in (
        (applied, here, True, False),
        (changed, here, True, True),
        (changed, other, False, False),
        (changed, None, False, False),
    ):
        topic = read(cluster(), RecordsView({"a": IdentifiedRecord(record, topic_id)})).topics["a"]
        found = (topic.record, topic.record_valid, topic.modified_externally)
        assert found == (record, is_valid, is_changed), (topic_id, is_changed)


def test_no_record_counts_for_a_topic_without_an_id() -> None:
    """Without ids nothing tells whether the topic is the one of the record."""
    topic = read(cluster(NO_ID), RecordsView({"a": IdentifiedRecord(TEAM, None)})).topics["a"]
    assert (topic.topic_id, topic.record, topic.record_valid) == (None, TEAM, False)


@pytest.mark.parametrize(("number", "requested"), [(0, 1), (7, 0)])
def test_a_reassignment_of_a_partition_that_is_not_listed(number: int, requested: int) -> None:
    """Metadata may be older than the list of reassignments: a partition without metadata is not shown."""
    state = read(cluster(ListPartitionReassignments=listed(("a", number, [3], [1]))))
    assert len(state.requested_reassignments) == requested
    assert state.reassigning_topics == {"a"}


def test_topics_with_errors_are_errors() -> None:
    """A topic that only became unknown is none; each other error is one of the state."""
    session = cluster()
    answer = session.script["Metadata"]

    def with_errors(broker: int, request: Any) -> Any:
        found = answer(broker, request)
        found.topics += [described(3, "gone", NO_ID), described(29, "hidden", HIDDEN)]
        return found

    session.script["Metadata"] = with_errors
    state = read(session)
    assert [*state.topics, *state.topic_errors] == ["a", "hidden"]


def test_records_without_a_topic() -> None:
    """Only a topic with an id that no broker knows is deleted; a hidden one, or one that appeared, is an error."""
    ids = {"none": None, "gone": MISSING, "hidden": HIDDEN, "late": LATE, "broken": BROKEN}
    records = {name: IdentifiedRecord(TEAM, text(each) if each else None) for name, each in ids.items()}
    session = cluster()
    state = read(session, RecordsView(records))
    assert state.dangling_records == {"none": TEAM, "gone": TEAM}
    for name, words in {
        "hidden": "it exists and is hidden from topiarist",
        "late": "the brokers do not list it: it appeared while the cluster was read",
        "broken": "the brokers do not list it: LEADER_NOT_AVAILABLE (5)",
    }.items():
        assert words in str(state.topic_errors[name]), name
    assert state.topic_errors.keys() == {"hidden", "late", "broken"}
    assert state.topics.keys() == {"a"}


def test_a_record_that_a_run_left_unfinished() -> None:
    """The topic shows which record it has, in place of the one from before that run."""
    later = OwnershipRecord("later")
    view = RecordsView(
        {"a": IdentifiedRecord(TEAM, text(PRESENT))},
        resolve_pending=lambda topics: {name: IdentifiedRecord(later, each.topic_id) for name, each in topics.items()},
    )
    topic = read(cluster(), view).topics["a"]
    assert (topic.record, topic.record_valid) == (later, True)


@pytest.mark.parametrize(
    ("topic_id", "unsupported", "freeze", "reason"),
    [
        (PRESENT, None, None, None),
        (PRESENT, None, Freeze("incident"), Reason.FROZEN),
        (NO_ID, None, Freeze("incident"), Reason.NOT_OFFERED),
        *(
            (PRESENT, name, Freeze("incident"), Reason.NOT_OFFERED)
            for name in (
                *("ListOffsets", "Fetch", "FindCoordinator", "InitProducerId"),
                *("AddPartitionsToTxn", "Produce", "EndTxn"),
            )
        ),
    ],
)
def test_reasons_not_to_write(
    topic_id: uuid.UUID, unsupported: str | None, freeze: Freeze | None, reason: Reason | None
) -> None:
    """Brokers that take no records, topics without ids, and a freeze, in this order; the state is read all the same."""
    session = cluster(topic_id)
    session.unsupported = {unsupported} if unsupported else set()
    state = read(session, RecordsView(freeze=freeze))
    assert state.write_block.reason is reason
    assert unsupported is None or unsupported in state.write_block.message
    assert state.topics.keys() == {"a"}


def test_partitions_that_are_being_moved() -> None:
    """Their topics are named, with the replicas that they will have; a topic that is not listed is left out."""
    state = read(cluster(ListPartitionReassignments=listed(("a", 0, [3], [1]), ("hidden", 0, [3], [1]))))
    assert "a" in state.reassigning_topics
    assert [(each.topic, each.partition) for each in state.requested_reassignments] == [("a", 0)]
    assert state.topics["a"].reassigning_partitions == (0,)


def broker(number: int, *, is_fenced: bool, rack: str | None = None) -> Any:
    """Return a broker of an answer to DescribeCluster."""
    return reply(broker_id=number, host="b", port=1, rack=rack, is_fenced=is_fenced)


@pytest.mark.parametrize(
    ("version", "code", "is_offered", "fenced"),
    [(2, 0, True, {5: "r", 6: None}), (1, 0, True, {}), (2, 35, True, {}), (2, 0, False, {})],
)
def test_brokers_that_take_no_part(version: int, code: int, is_offered: bool, fenced: dict[int, str | None]) -> None:
    """They are registered, fenced and not in use; brokers that do not tell have none, and that is no error."""
    brokers = [
        *(broker(1, is_fenced=False), broker(2, is_fenced=True), broker(4, is_fenced=False)),
        *(broker(5, is_fenced=True, rack="r"), broker(6, is_fenced=True)),
    ]
    session = cluster(DescribeCluster=reply(error_code=code, brokers=brokers))
    session.versions = {"DescribeCluster": version}
    session.unsupported = set() if is_offered else {"DescribeCluster"}
    assert read(session).fenced_brokers == fenced


READY, PLAIN, OLD = (
    SimpleNamespace(finalized_features_epoch=0, zk_migration_ready=True),
    SimpleNamespace(finalized_features_epoch=0, zk_migration_ready=False),
    SimpleNamespace(finalized_features_epoch=-1),
)
KRAFT = SimpleNamespace(finalized_features_epoch=7, zk_migration_ready=False)

KRAFT_FEATURES = Features(frozenset({"metadata.version"}), 7)
UPDATE_METADATA = 6

CASES: dict[str, tuple[dict[int, Any], str]] = {
    "before": ({1: PLAIN, 2: PLAIN, 3: OLD}, ""),
    "the first one": ({1: READY, 2: PLAIN, 3: PLAIN}, "broker 1 has been restarted for it, broker 2, 3 has not"),
    "the last one": ({1: READY, 2: READY, 3: PLAIN}, "broker 1, 2 has been restarted for it, broker 3 has not"),
    "the last one is stopped": ({1: READY, 2: READY}, "broker 1, 2 has been restarted for it, and broker 3 is not"),
    "the last one is down, still registered": ({1: READY, 2: READY, 3: None}, "and broker 3 is not there"),
    "all": ({1: READY, 2: READY, 3: READY}, ""),
    "in KRaft mode": ({1: KRAFT, 2: READY, 3: READY}, ""),
    "one is in KRaft mode, one is stopped": ({1: KRAFT, 2: READY}, "and broker 3 is not there"),
    "stopped before": ({1: PLAIN, 2: PLAIN}, ""),
}
"""The ApiVersions answers of the registered brokers (None: no answer), and words of the write block."""


@pytest.mark.parametrize("case", CASES)
def test_writes_wait_until_all_brokers_are_restarted(case: str) -> None:
    """A topic has replicas on the brokers 1, 2 and 3."""
    answers, words = CASES[case]

    def broker(broker_id: int) -> Any:
        if answers[broker_id] is None:
            raise Disconnected("refused", was_sent=False)
        connection = ScriptedSession({"ApiVersions": answers[broker_id]}).any_broker()
        session = connection._session
        session.api_keys = {3} if answers[broker_id] is KRAFT else {3, UPDATE_METADATA}
        session.features = KRAFT_FEATURES if answers[broker_id] is KRAFT else Features()
        return connection

    partition = PartitionMetadata((1, 2, 3), 1, (1, 2, 3), 0)
    topic = TopicMetadata("orders", "id", {0: partition})
    metadata = ClusterMetadata("c", 1, tuple(Broker(each, None) for each in answers), {"orders": topic}, {})
    block = find_migration_block(cast("Session", SimpleNamespace(broker=broker)), metadata)
    assert block.reason == (Reason.KRAFT_MIGRATION if words else None)
    assert words in block.message
