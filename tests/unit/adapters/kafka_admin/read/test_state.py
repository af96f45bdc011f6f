"""The state of a whole cluster over brokers by a script: records of topics, hidden topics, and reasons not to write."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.metadata import MetadataResponse
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Disconnected, Features, encode_topic_id
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read import configs as configs_module
from topiarist.adapters.kafka_admin.read import state as state_module
from topiarist.adapters.kafka_admin.read import sync as reassignments_module
from topiarist.adapters.kafka_admin.read import sync as sync_module
from topiarist.adapters.kafka_admin.read.capabilities import MIN_VERSION, NO_IDS
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from topiarist.adapters.kafka_admin.read.state import (
    HINT_DESCRIBE,
    REMEDY_NO_RECORDS,
    RecordsView,
    find_migration_block,
    read_capabilities,
    read_state,
)
from topiarist.adapters.kafka_admin.read.sync import LACKS_DESCRIBE
from topiarist.adapters.size_limits import REQUEST_LIMITS
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, ClusterMode, KnownConfig
from topiarist.model.moves import BatchRecord
from topiarist.model.state import (
    GIVEN,
    UNKNOWN,
    AppliedSpec,
    Capabilities,
    ClusterState,
    Freeze,
    IdentifiedRecord,
    OwnershipRecord,
    ReadError,
    TopicState,
    WriteBlock,
)
from unit.adapters.kafka_admin.read.test_configs import NOT_DESCRIBED, answer_for, entry, listed, over
from unit.adapters.kafka_admin.read.test_configs import described as described_configs
from unit.adapters.kafka_admin.read.test_sync import quorum, versions
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


def described(code: int, name: str | None, topic_id: uuid.UUID, replicas: tuple[int, ...] = (1, 2)) -> Any:
    """Return a topic of an answer to Metadata; without a name it has no partitions."""
    element = MetadataResponse.MetadataResponseTopic
    led = element.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=7,
        replica_nodes=[*replicas],
        isr_nodes=[*replicas],
        offline_replicas=[],
    )
    return element(error_code=code, name=name, topic_id=topic_id, is_internal=False, partitions=[led] if name else [])


def cluster(topic_id: uuid.UUID = PRESENT, *views: Sequence[Any], **script: Any) -> ScriptedSession:
    """Return a session with the topic ``a``, or with the topics of one view after the other; ids have the codes above.

    Configs are those of a topic that is in the view of the moment.
    """
    shown = [*views] or [[described(0, "a", topic_id)]]
    now: list[Sequence[Any]] = [shown[0]]

    def answer(_broker: int, request: Any) -> Any:
        asked = [each.topic_id for each in request.topics or ()]
        topics = [described(code, None, each) for each in asked if (code := CODES.get(each)) is not None]
        if request.topics is None:
            now[0] = shown.pop(0) if len(shown) > 1 else shown[0]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=each, host="b", port=9092, rack=None)
                for each in (1, 2, 3)
            ],
            cluster_id="cluster",
            controller_id=3,
            topics=topics or now[0],
            error_code=0,
        )

    fenced = reply(error_code=0, brokers=[])
    session: ScriptedSession = over(answer, **{"DescribeCluster": fenced, **script})
    return session


def read(
    session: ScriptedSession, records: RecordsView = NO_RECORDS, previous: ClusterState | None = None
) -> ClusterState:
    """Return the state."""
    return read_state(session, records, previous)  # type: ignore[arg-type]


def text(topic_id: uuid.UUID) -> str:
    """Return an id as topiarist has it."""
    found = read(cluster(topic_id)).topics["a"].topic_id
    assert found
    return found


BROKERS = (Broker(1), Broker(2), Broker(3))
KNOWN = {"retention.ms": KnownConfig("STRING", None), "segment.ms": KnownConfig("STRING", "7")}
CAPABILITIES = Capabilities(replica_lists=UNKNOWN, growth_lists=UNKNOWN, compaction=UNKNOWN)
MOVING = ("listed_reassignments", "moves", "elections")
"""The capabilities that need the list of reassignments in progress."""
ID_A = encode_topic_id(PRESENT)
TOPIC_A = TopicState("a", ID_A, ((1, 2),), {"retention.ms": "5"}, (0,), ID_A)
STATE = ClusterState(
    cluster_id="cluster",
    brokers=BROKERS,
    topics={"a": TOPIC_A},
    controller=3000,
    controller_epoch=5,
    min_version=(4, 0),
    size_limits=REQUEST_LIMITS,
    assigns_topic_ids=True,
    mode=ClusterMode.KRAFT,
    bypasses_brokers=False,
    known_configs=KNOWN,
    capabilities=CAPABILITIES,
)
"""The state of the topic ``a``, in which nothing stands in the way of a write."""


def test_a_cluster_that_may_be_written() -> None:
    """Brokers, topics, the controller and its epoch are those that the brokers name; nothing is in the way."""
    assert read(cluster()) == STATE


def test_a_cluster_without_topics() -> None:
    """No topic shows which configs the brokers know, nor whether they give ids: a new topic may get one."""
    assert read(cluster(PRESENT, [])) == replace(STATE, topics={}, known_configs=None)


def test_the_configs_of_many_topics_are_read_over_further_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A further connection is lent to a broker that serves metadata that are not old: none waits for another one."""
    monkeypatch.setattr(configs_module, "MIN_BATCH_SIZE", 1)
    names = [f"t{number:02}" for number in range(21)]
    session = cluster(PRESENT, [described(0, name, uuid.UUID(int=at)) for at, name in enumerate(names, 100)])
    lent = threading.Event()
    answer, lend = session.script["DescribeConfigs"], session.lend_another

    def lend_another(connection: Any) -> Any:
        lent.set()
        return lend(connection)

    def describe(broker: int, request: Any) -> Any:
        assert lent.wait(5)
        return answer(broker, request)

    session.script["DescribeConfigs"] = describe
    session.lend_another = lend_another  # type: ignore[method-assign]
    assert [*read(session).topics] == names


def test_a_compacted_topic_shows_that_the_cluster_compacts() -> None:
    """Its policy may have a second part."""
    compacted = described_configs("a", 2, [entry("cleanup.policy", "compact,delete")])
    session = cluster(DescribeConfigs=DescribeConfigsResponse(throttle_time_ms=0, results=[compacted]))
    assert read(session).capabilities == replace(CAPABILITIES, compaction=GIVEN)


def test_defaults_and_records_of_a_state() -> None:
    """Values that all brokers share are its defaults; the record of a batch comes from the records."""
    shared = entry("segment.ms", "8", 5, synonyms=[("log.segment.ms", "8", 3)])
    answer = DescribeConfigsResponse(throttle_time_ms=0, results=[described_configs("a", 2, [shared])])
    batch = BatchRecord("team", 1, 1, (), {})
    state = read(cluster(DescribeConfigs=answer), RecordsView(batch=batch, batch_at_ms=7))
    assert (state.broker_defaults, state.batch, state.batch_at_ms) == ({"log.segment.ms": "8"}, batch, 7)


def test_a_cluster_without_a_controller() -> None:
    """It can be read, without its version; nothing is written, and reassignments are not asked for."""
    session = cluster(DescribeQuorum=quorum(-1))
    warning = "there is no controller, so the output may be outdated"
    block = WriteBlock(Reason.NO_CONTROLLER, "the controller does not answer: the quorum has no leader")
    assert read(session) == replace(
        STATE,
        controller=3,
        controller_epoch=0,
        min_version=MIN_VERSION,
        warnings=(warning,),
        write_block=block,
        capabilities=replace(CAPABILITIES, **dict.fromkeys(MOVING, UNKNOWN)),
    )
    assert "ListPartitionReassignments" not in session.names()


def test_zookeeper_mode_without_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode is that of the brokers, not KRaft."""

    def fail(_: object) -> None:
        raise TopiaristError(Reason.NO_CONTROLLER, "there is none")

    monkeypatch.setattr(state_module, "sync_to_read", fail)
    for mode in ClusterMode:
        monkeypatch.setattr(state_module, "find_mode", lambda _, mode=mode: mode)
        assert read(cluster()).mode is mode


def test_reassignments_that_are_not_visible() -> None:
    """A warning has the cause."""
    state = read(cluster(ListPartitionReassignments=listed(code=31)))
    assert state.warnings == (f"reassignments in progress are not visible: {LACKS_DESCRIBE.why}",)
    assert state.capabilities.listed_reassignments == LACKS_DESCRIBE


def test_old_metadata_are_not_read() -> None:
    """A broker that stays behind ends the read: only a missing controller leaves something to show."""
    with pytest.raises(TopiaristError) as caught:
        read(cluster(ApiVersions=versions(epoch=1)))
    assert caught.value.reason is Reason.UNREACHABLE


A, A_MOVED, A_AGAIN = (
    described(0, "a", PRESENT),
    described(0, "a", PRESENT, (2, 3)),
    described(0, "a", RECREATED),
)
B = described(0, "b", LATE)
IDS = {"a": PRESENT, "b": LATE}
LIST, NO_LIST = listed(("a", 0, [3], [1])), listed()


@pytest.mark.parametrize(
    ("views", "lists", "topics", "described_topics"),
    [
        ([[A], [A]], [NO_LIST], {"a": (1, 2)}, ["a"]),
        ([[A], [A_MOVED], [A_MOVED]], [NO_LIST], {"a": (2, 3)}, ["a", "a"]),
        ([[A], [A_AGAIN], [A_AGAIN]], [NO_LIST], {"a": (1, 2)}, ["a", "a"]),
        ([[A], [A, B], [A, B]], [NO_LIST], {"a": (1, 2), "b": (1, 2)}, ["a", "b"]),
        ([[A, B], [A], [A]], [NO_LIST], {"a": (1, 2)}, ["a", "b"]),
        ([[A]] * 2 + [[A_MOVED]] * 2, [LIST, NO_LIST, NO_LIST], {"a": (2, 3)}, ["a", "a"]),
        ([[A], [A_MOVED]] * 4, [NO_LIST], {"a": (2, 3)}, ["a"] * 6),
    ],
)
def test_a_cluster_that_changes_while_it_is_read(
    views: list[Any], lists: list[Any], topics: dict[str, tuple[int, ...]], described_topics: list[str]
) -> None:
    """Topics are those of two equal looks, and only topics that changed are described again; at most five times."""
    session = cluster(PRESENT, *views, ListPartitionReassignments=lists)
    state = read(session)
    assert {name: each.replicas for name, each in state.topics.items()} == {name: (t,) for name, t in topics.items()}
    assert all(each.config == {"retention.ms": "5"} for each in state.topics.values())
    asked = [
        each.resource_name for sent in session.sent if sent.name == "DescribeConfigs" for each in sent.request.resources
    ]
    assert asked == described_topics


def test_a_topic_that_is_deleted_while_it_is_read() -> None:
    """Without its configs it is no topic; one that the brokers still list after five looks is left out."""
    gone = DescribeConfigsResponse(throttle_time_ms=0, results=[described_configs("a", 2, [], 3)])
    assert read(cluster(PRESENT, [A], [], DescribeConfigs=gone)).topics == {}
    session = cluster(PRESENT, [A], DescribeConfigs=gone)
    assert (read(session).topics, session.names().count("Metadata")) == ({}, 6)


DENIED_A = ReadError("topic a", f"{NOT_DESCRIBED[1][2]}; grant it with kafka-acls")


def test_a_topic_whose_configs_are_denied() -> None:
    """It alone is an error, with its right and what to do: a record of it is neither lost nor of a deleted topic."""

    def resolve(topics: Any) -> dict[str, IdentifiedRecord]:
        assert topics["a"] == DENIED_A
        return {"a": IdentifiedRecord(TEAM, ID_A)}

    for previous in (None, read(cluster(PRESENT, [A, B]))):
        for records in (
            RecordsView({name: IdentifiedRecord(TEAM, encode_topic_id(each)) for name, each in IDS.items()}),
            RecordsView({"b": IdentifiedRecord(TEAM, encode_topic_id(LATE))}, resolve_pending=resolve),
        ):
            session = cluster(PRESENT, [A, B], DescribeConfigs=answer_for({"a": 29}))
            state = read(session, records, previous)
            assert (state.topic_errors, state.dangling_records) == ({"a": DENIED_A}, {})
            assert state.topics.keys() == {"b"}
            assert state.topics["b"].valid_record == TEAM
            assert state.known_configs == KNOWN


@pytest.mark.parametrize("views", [[[A, B], [A_MOVED, B], [A_MOVED, B]], [[A], [A, B], [A, B]]])
def test_a_topic_whose_configs_are_denied_in_a_later_look(views: list[Any]) -> None:
    """A topic that is read again because the cluster changes is read like one of the first look."""
    state = read(cluster(PRESENT, *views, DescribeConfigs=answer_for({"a": 29})))
    assert (state.topic_errors, [*state.topics]) == ({"a": DENIED_A}, ["b"])


def test_configs_of_all_topics_that_are_denied() -> None:
    """Of several topics the same right is hardly missing on each alone: the read ends, with the right of the first."""
    denied = answer_for({"a": 29, "b": 29})
    with pytest.raises(TopiaristError) as caught:
        read(cluster(PRESENT, [B, A], DescribeConfigs=denied))
    assert (caught.value.reason, caught.value.hint) == (Reason.NO_PERMISSION, "grant it with kafka-acls")
    assert caught.value.message == f"no topic can be read: topic a: {NOT_DESCRIBED[1][2]}"
    assert read(cluster(DescribeConfigs=denied)).topic_errors == {"a": DENIED_A}


def test_lists_that_move_all_the_time() -> None:
    """If its reassignment ends with the last look, a topic counts as one that is being reassigned."""
    state = read(cluster(PRESENT, [A], ListPartitionReassignments=[*[LIST, NO_LIST] * 3]))
    assert (state.reassigning_topics, state.requested_reassignments) == (frozenset({"a"}), ())


@pytest.mark.parametrize(
    ("views", "described_topics", "looks"),
    [
        ([[A]], ["a"], 1),
        ([[A, B]], ["a", "b"], 2),
        ([[A_MOVED]], ["a", "a"], 2),
        ([[A_AGAIN]], ["a", "a"], 2),
        ([[]], ["a"], 1),
        ([[described(0, "a", NO_ID)]], ["a", "a"], 2),
    ],
)
def test_a_cluster_that_was_read_before(views: list[Any], described_topics: list[str], looks: int) -> None:
    """The state is that of a new read; one as it was before costs one look, and no question for fenced brokers."""
    previous = replace(read(cluster()), fenced_brokers={7: None})
    session = cluster(PRESENT, *views)
    found = read(session, previous=previous)
    assert replace(found, known_configs=KNOWN) == replace(
        read(cluster(PRESENT, *views)), fenced_brokers={7: None}, known_configs=KNOWN
    )
    asked = [
        each.resource_name for sent in session.sent if sent.name == "DescribeConfigs" for each in sent.request.resources
    ]
    assert (asked, session.names().count("Metadata"), "DescribeCluster" in session.names()) == (
        described_topics,
        looks,
        False,
    )


@pytest.mark.parametrize(
    ("changes", "script"),
    [
        ({"reassigning_topics": frozenset({"a"})}, {}),
        ({"topics": {}}, {}),
        ({}, {"DescribeQuorum": quorum(-1)}),
    ],
)
def test_a_state_from_before_that_is_not_used(changes: dict[str, Any], script: dict[str, Any]) -> None:
    """Its lists may be those of a reassignment, or of any time before: everything is read twice."""
    session = cluster(**script)
    read(session, previous=replace(STATE, **changes))
    assert session.names().count("Metadata") == 2
    other = read(cluster(), previous=replace(STATE, brokers=BROKERS[:2], fenced_brokers={7: None}))
    assert other.fenced_brokers == {}


def test_a_reassignment_that_begins_after_a_state() -> None:
    """Its topic is read until the list of reassignments is the same twice."""
    session = cluster(ListPartitionReassignments=LIST)
    state = read(session, previous=STATE)
    assert (state.reassigning_topics, session.names().count("Metadata")) == (frozenset({"a"}), 2)


def test_records_of_topics() -> None:
    """A record counts for the topic with its id only; a config that another client changed is noticed then."""
    applied = OwnershipRecord("team", ("retention.ms",), applied=AppliedSpec(1, (("retention.ms", "5"),)))
    changed = OwnershipRecord("team", ("retention.ms",), applied=AppliedSpec(1, (("retention.ms", "6"),)))
    gone, dropped, other_config = (
        OwnershipRecord("team", (key,), applied=AppliedSpec(1, ((key, "6"),)))
        for key in ("segment.ms", "message.format.version", "of.a.fork")  # brokers do not show the second one any more
    )
    here, other = text(PRESENT), text(RECREATED)
    for record, topic_id, is_valid, is_changed in (
        (applied, here, True, False),
        (changed, here, True, True),
        (gone, here, True, True),
        (dropped, here, True, False),
        (other_config, here, True, True),
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
    assert [*state.topics] == ["a"]
    hidden = "it is hidden from topiarist, or does not exist: Describe is missing"
    assert state.topic_errors == {"hidden": ReadError("topic hidden", hidden)}


def test_records_without_a_topic() -> None:
    """Only a topic with an id that no broker knows is deleted; a hidden one, or one that appeared, is an error."""
    ids = {"none": None, "gone": MISSING, "hidden": HIDDEN, "late": LATE, "broken": BROKEN}
    records = {name: IdentifiedRecord(TEAM, text(each) if each else None) for name, each in ids.items()}
    session = cluster()
    state = read(session, RecordsView(records))
    assert state.dangling_records == {"none": TEAM, "gone": TEAM}
    assert state.topic_errors == {
        f"{name}": ReadError(f"topic {name}", words)
        for name, words in {
            "hidden": f"it exists and is hidden from topiarist: {HINT_DESCRIBE}",
            "late": "the brokers do not list it: it appeared while the cluster was read",
            "broken": "the brokers do not list it: LEADER_NOT_AVAILABLE (5)",
        }.items()
    }
    assert state.topics.keys() == {"a"}


def test_many_records_without_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ids are asked for in requests of a thousand."""
    missing = [uuid.UUID(int=number) for number in range(1000, 2001)]
    for each in missing:
        monkeypatch.setitem(CODES, each, 100)
    session = cluster()
    records = {f"t{each.int}": IdentifiedRecord(TEAM, encode_topic_id(each)) for each in missing}
    assert read(session, RecordsView(records)).dangling_records == dict.fromkeys(records, TEAM)
    asked = [each.request.topics for each in session.sent if each.name == "Metadata" and each.request.topics]
    assert [len(each) for each in asked] == [1000, 1]


def test_a_record_that_a_run_left_unfinished() -> None:
    """The topic shows which record it has, in place of the one from before that run."""
    later = OwnershipRecord("later")
    view = RecordsView(
        {"a": IdentifiedRecord(TEAM, text(PRESENT))},
        resolve_pending=lambda topics: {name: IdentifiedRecord(later, ID_A) for name in topics},
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
    words = "the cluster is frozen: incident" if freeze else ""
    if topic_id == NO_ID:
        words = "the brokers give topics no ids: a topic cannot be distinguished from a later one of its name"
    if unsupported:
        words = f"the brokers do not offer {unsupported}; {REMEDY_NO_RECORDS}"
    assert state.write_block == WriteBlock(reason, words)
    assert state.topics.keys() == {"a"}
    without_records = read(session, RecordsView(freeze=freeze, are_kept=False)).write_block
    assert without_records == (
        WriteBlock(Reason.FROZEN, "the cluster is frozen: incident") if unsupported else state.write_block
    )


@pytest.mark.parametrize("ids", [(NO_ID, NO_ID), (NO_ID, PRESENT)])
def test_topics_without_ids(ids: tuple[uuid.UUID, ...]) -> None:
    """One topic without an id is enough to write nothing; a new topic may get one if another has one."""
    state = read(cluster(PRESENT, [described(0, name, each) for name, each in zip("ab", ids, strict=True)]))
    assert (state.write_block.reason, state.capabilities.topic_ids) == (Reason.NOT_OFFERED, NO_IDS)
    assert state.assigns_topic_ids is (PRESENT in ids)


def test_a_migration_to_kraft_blocks_writes() -> None:
    """In ZooKeeper mode each broker is asked; a freeze comes first."""

    def answer(broker: int, _request: Any) -> Any:
        return reply(error_code=0, finalized_features_epoch=0, zk_migration_ready=broker == 1)

    session = cluster(ApiVersions=answer)
    session.api_keys = {3, UPDATE_METADATA}
    state = read(session, previous=STATE)
    assert (state.mode, state.controller, state.controller_epoch) == (ClusterMode.ZOOKEEPER, 3, 0)
    assert state.write_block == WriteBlock(
        Reason.KRAFT_MIGRATION,
        "a migration to KRaft has begun: broker 1 has been restarted for it, broker 2, 3 has not;"
        " writes through the restarted one would hang",
    )
    assert read(session, RecordsView(freeze=Freeze("incident"))).write_block.reason is Reason.FROZEN


def test_capabilities_are_read_without_configs() -> None:
    """Topics without ids, and reassignments that are denied, are seen; configs are not asked for."""
    session = cluster(NO_ID, ListPartitionReassignments=listed(code=31))
    found = read_capabilities(session)  # type: ignore[arg-type]
    assert found == replace(CAPABILITIES, topic_ids=NO_IDS, **dict.fromkeys(MOVING, LACKS_DESCRIBE))
    assert "DescribeConfigs" not in session.names()
    without = read_capabilities(cluster(DescribeQuorum=quorum(-1)))  # type: ignore[arg-type]
    assert without == replace(CAPABILITIES, **dict.fromkeys(MOVING, UNKNOWN))


def test_partitions_that_are_being_moved() -> None:
    """Their topics are named, with the replicas that they will have.

    Metadata may be older than the list of reassignments: what they do not show, a topic or a partition, is left out.
    """
    state = read(cluster(ListPartitionReassignments=listed(("a", 0, [3], [1]), ("hidden", 0, [3], [1]))))
    assert "a" in state.reassigning_topics
    assert [(each.topic, each.partition) for each in state.requested_reassignments] == [("a", 0)]
    unlisted = read(cluster(ListPartitionReassignments=listed(("a", 7, [3], [1]))))
    assert unlisted.reassigning_topics == {"a"}
    assert unlisted.requested_reassignments == ()
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
