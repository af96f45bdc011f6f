"""Reads of topics over brokers by a script: progress, states of partitions, reassignments, throttles, single topics."""

from __future__ import annotations

import threading
import uuid
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.read import configs as configs_module
from topiarist.adapters.kafka_admin.read import sync as reassignments_module
from topiarist.adapters.kafka_admin.read import sync as sync_module
from topiarist.adapters.kafka_admin.read.configs import (
    MAX_MORE_CONNECTIONS,
    no_more,
    read_in_parallel,
    read_known_configs,
    read_overrides,
    read_overrides_and_known_configs,
    read_static_settings,
)
from topiarist.adapters.kafka_admin.read.metadata import decode_metadata, read_topic_id_errors
from topiarist.adapters.kafka_admin.read.sync import ReassignmentsWatch, read_reassignments, target_of
from topiarist.adapters.kafka_admin.read.topic_reader import (
    SHOWN_AFTER_S,
    TopicReader,
    inspect,
    inspect_all,
    is_unchanged,
    poll_progress,
    read_again,
    read_broker_throttles,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import TopicProgress
from topiarist.model.state import PartitionState, ReadError, Reassignment, TopicInspection, TopicState
from unit.adapters.kafka_admin.read.test_sync import quorum, versions
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, ScriptedSession, metadata, partition, reply


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time."""
    clock = FakeTime()
    for module in (sync_module, reassignments_module):
        monkeypatch.setattr(module, "time", clock)
    return clock


def listed(*moving: tuple[str, int, list[int], list[int]], code: int = 0) -> Any:
    """Return an answer to ListPartitionReassignments: topic, partition, added and removed replicas."""
    topics = [
        reply(
            name=name,
            partitions=[
                reply(partition_index=number, adding_replicas=adding, removing_replicas=removing)
                for topic, number, adding, removing in moving
                if topic == name
            ],
        )
        for name in dict.fromkeys(each[0] for each in moving)
    ]
    return reply(error_code=code, error_message="why", topics=topics)


def over(topics: Any = None, **script: Any) -> Any:
    """Return a session in KRaft mode, in sync, without reassignments."""
    answers = {
        "ApiVersions": versions(),
        "DescribeQuorum": quorum(),
        "ListPartitionReassignments": listed(),
        "DescribeConfigs": describe,
    }
    if topics is not None:
        answers["Metadata"] = topics
    return ScriptedSession({**answers, **script})


def described(name: str, kind: int, entries: list[Any], code: int = 0) -> Any:
    """Return the configs of one entity."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    return result(error_code=code, error_message="why", resource_type=kind, resource_name=name, configs=entries)


def entry(name: str, value: str | None, source: int = 1, kind: int = 2, synonyms: Any = ()) -> Any:
    """Return one config: its source is 1 for a topic, 2 for a broker, 3 for all brokers, 5 for the default."""
    config = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
    known = [config.DescribeConfigsSynonym(name=each[0], value=each[1], source=each[2]) for each in synonyms]
    return config(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=known,
        config_type=kind,
        documentation=None,
    )


def describe(_broker: int, request: Any) -> Any:
    """Answer DescribeConfigs: each topic has one override and one default."""
    results = [
        described(each.resource_name, 2, [entry("retention.ms", "5"), entry("segment.ms", "7", 5)])
        for each in request.resources
    ]
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


ID_OF_A, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAQ"
TOPIC = {"a": [partition(0, 1, 2), partition(1, 2, 9, leader=-1)]}


def test_topic_ids() -> None:
    """A topic id that the answer leaves out is not known to be gone."""
    answer = metadata({"a": 100})
    known = decode_id(answer)
    session = over(answer)
    assert read_topic_id_errors(session.any_broker(), [known, "AAAAAAAAAAAAAAAAAAAAAQ"]) == {
        known: 100,
        "AAAAAAAAAAAAAAAAAAAAAQ": -1,
    }
    assert [each.name for each in session.sent[0].request.topics] == [None, None]
    assert read_topic_id_errors(session.any_broker(), []) == {}
    assert len(session.sent) == 1


def test_ids_of_brokers_without_them() -> None:
    """An id is not asked for in a request that would drop it, and that would ask for all topics in its place."""
    session = over(metadata({"a": 100}))
    session.versions["Metadata"] = 9
    assert read_topic_id_errors(session.any_broker(), ["AAAAAAAAAAAAAAAAAAAAAQ"]) == {"AAAAAAAAAAAAAAAAAAAAAQ": 35}
    assert session.sent == []


def decode_id(answer: Any) -> str:
    """Return the id of the only topic as text."""
    answer.topics[0].topic_id = uuid.UUID(int=2)
    return "AAAAAAAAAAAAAAAAAAAAAg"


def test_progress() -> None:
    """A partition with a leader is initialized; a broker of its list that is not registered is named."""
    found = poll_progress(over(metadata({**TOPIC, "x": 3, "y": 29})), {"a": [0, 1, 7], "x": [0], "y": [0]})
    lists = {0: (1, 2), 1: (2, 9)}
    shown = TopicProgress("no-id", False, replicas=lists, initialized=frozenset({0}), missing_brokers=(9,))
    hidden = "it is hidden from topiarist, or does not exist: Describe is missing"
    assert found == {
        "a": shown,
        "x": TopicProgress(None, False),
        "y": TopicProgress(None, False, read_error=hidden),
    }
    assert poll_progress(over(metadata(TOPIC)), {"a": []}) == {"a": TopicProgress("no-id", False, missing_brokers=(9,))}
    with_id = metadata({"a": [partition(0, 1)]})
    decode_id(with_id)
    assert poll_progress(over(with_id), {"a": [0]}) == {
        "a": TopicProgress(ID_OF_A, False, replicas={0: (1,)}, initialized=frozenset({0}), topic_id=ID_OF_A)
    }
    assert inspect(over(with_id), "a") == TopicInspection(
        ID_OF_A, {0: (1,)}, states={0: PartitionState(1, (1,), 7)}, topic_id=ID_OF_A
    )
    assert poll_progress(over(metadata({"a": [partition(0, 0, leader=0)]}, brokers=(0,))), {"a": [0]})[
        "a"
    ].initialized == {0}


def test_states_of_partitions() -> None:
    """Lists, leaders, in-sync replicas and the target of a reassignment."""
    topics = {"a": [partition(0, 3, 1, 2, leader=1, isr=(1, 2)), partition(1, 1)]}
    found = inspect(
        over(metadata(topics), ListPartitionReassignments=listed(("a", 0, [3], [2]), ("a", 9, [1], []))), "a"
    )
    assert found == TopicInspection(
        "no-id",
        {0: (3, 1, 2), 1: (1,)},
        states={0: PartitionState(1, (1, 2), 7), 1: PartitionState(1, (1,), 7)},
        reassignments={0: Reassignment((3,), (2,)), 9: Reassignment((1,), ())},
        requested_replicas={0: (3, 1)},
    )


@pytest.mark.parametrize(("code", "is_readable"), [(3, True), (29, False), (42, False)])
def test_states_of_a_topic_without_metadata(code: int, is_readable: bool) -> None:
    """A topic that does not exist has no state; one that is hidden has an error."""
    found = inspect(over(metadata({"a": code})), "a")
    assert (found.identity, found.assignment, found.states_readable) == (None, {}, is_readable)
    assert len(found.other_errors) == (0 if is_readable else 1)
    many = inspect_all(over(metadata({"a": code})), [TopicState("a", "1", (), {})])
    assert ("a" in many) is not is_readable
    assert inspect_all(over(), []) == {}


def test_states_of_many_topics() -> None:
    """From more than 1,000 topics on the metadata of all are asked for."""
    topics = {f"t{number:04}": [partition(0, 1)] for number in range(1001)}
    for count, wanted in ((1000, 1000), (1001, None)):
        session = over(metadata(topics))
        found = inspect_all(session, [TopicState(name, "1", (), {}) for name in [*topics][:count]])
        assert len(found) == count
        (asked,) = (each.request.topics for each in session.sent if each.name == "Metadata")
        assert (None if asked is None else len(asked)) == wanted


def test_states_are_read_again_while_reassignments_change() -> None:
    """Metadata fit a list of reassignments only if the list is the same afterwards; at most five times."""
    lists = [listed(("a", 0, [3], [])), listed(), listed()]
    session = over(metadata(TOPIC), ListPartitionReassignments=lists)
    assert inspect(session, "a").reassignments == {}
    assert session.names().count("Metadata") == 2
    changing = [listed(("a", 0, [number], [])) for number in range(9)]
    session = over(metadata(TOPIC), ListPartitionReassignments=changing)
    inspect(session, "a")
    assert session.names().count("Metadata") == 5


def test_a_watch_of_reassignments(clock: FakeTime) -> None:
    """It settles before metadata are read, and names the topics with another list."""
    first = listed(("a", 0, [3], []), ("b", 0, [3], []), ("c", 0, [3], []))
    session = over(ListPartitionReassignments=[first, listed(("b", 0, [4], []), ("c", 0, [3], []), ("d", 0, [1], []))])
    watch = ReassignmentsWatch(session, session.any_broker())
    assert watch.is_visible
    clock.current += 0.02
    watch.settle()
    assert clock.slept == [pytest.approx(0.03)]
    assert session.names().count("DescribeQuorum") == 1
    assert watch.refresh() == {"a", "b", "d"}
    watch.settle()
    assert clock.slept[1] == pytest.approx(0.05)
    clock.current += 1
    watch.settle()
    assert clock.slept[2] == 0


@pytest.mark.parametrize("has_controller", [True, False])
def test_a_watch_that_sees_nothing(has_controller: bool, clock: FakeTime) -> None:
    """Without the right, or without a controller, nothing is listed and nothing is waited for."""
    session = over(ListPartitionReassignments=listed(code=31))
    watch = ReassignmentsWatch(session, session.any_broker(), has_controller=has_controller)
    watch.settle()
    assert (watch.is_visible, watch.current, watch.refresh(), clock.slept) == (False, {}, (), [])
    assert len(session.sent) == has_controller
    without, *unsupported = over(), *(over(ListPartitionReassignments=listed(code=code)) for code in (35, 42))
    without.unsupported = {"ListPartitionReassignments"}
    for hidden in (without, *unsupported):
        watch = ReassignmentsWatch(hidden, hidden.any_broker())
        assert (watch.is_visible, watch.current) == (False, {})
        assert "ListPartitionReassignments" in watch.support.why
    broken = over(ListPartitionReassignments=listed(code=99))
    with pytest.raises(TopiaristError) as caught:
        ReassignmentsWatch(broken, broken.any_broker())
    assert caught.value.reason is Reason.UNREADABLE


def test_reassignments() -> None:
    """All are asked for; the right is named; a target is the list without what is removed."""
    session = over(ListPartitionReassignments=listed(("a", 1, [3], [2])))
    assert read_reassignments(session, session.any_broker()) == {"a": {1: Reassignment((3,), (2,))}}
    assert (session.sent[0].request.topics, session.sent[0].request.timeout_ms) == (None, 10_000)
    denied = over(ListPartitionReassignments=listed(code=31))
    with pytest.raises(TopiaristError, match="lacks Describe on the cluster"):
        read_reassignments(denied, denied.any_broker())
    assert target_of((3, 1, 2), Reassignment((3,), (2,))) == (3, 1)


def test_throttles_of_brokers() -> None:
    """Each broker describes itself, and one the defaults of all; only values that are set count."""
    rates = "leader.replication.throttled.rate"

    def answer(broker: int, request: Any) -> Any:
        (each,) = request.resources
        assert each.resource_type == 4
        assert each.resource_name in ("", str(broker))
        own = {"1": "5", "2": None, "3": "", "": "9"}[each.resource_name]
        source = 3 if each.resource_name == "" else 2
        entries = [entry(rates, own, source), entry("x", "1", 5 - source), entry("y", "1", 5)]
        return DescribeConfigsResponse(throttle_time_ms=0, results=[described(each.resource_name, 4, entries)])

    found = read_broker_throttles(over(metadata({}), DescribeConfigs=answer))
    assert found == {"brokers/1": {rates: "5"}, "brokers/<default>": {rates: "9"}}


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (None, Reason.UNREADABLE, "the answer of the brokers does not have {}"),
        (31, Reason.NO_PERMISSION, "cannot read {}: .*lacks DescribeConfigs on the cluster"),
        (42, Reason.UNREADABLE, "cannot read {}: .*why"),
    ],
)
@pytest.mark.parametrize(("entity", "name"), [("1", "the configs of broker 1"), ("", "the defaults of the brokers")])
def test_throttles_that_are_not_described(entity: str, name: str, code: int | None, reason: Reason, words: str) -> None:
    """A broker without an answer is no broker without a throttle; the error names the entity."""

    def answer(_broker: int, request: Any) -> Any:
        (each,) = request.resources
        is_odd = each.resource_name == entity
        found = described(each.resource_name, 4, [], (code or 0) * is_odd)
        return DescribeConfigsResponse(throttle_time_ms=0, results=[] if is_odd and code is None else [found])

    with pytest.raises(TopiaristError, match=words.format(name)) as caught:
        read_broker_throttles(over(metadata({}), DescribeConfigs=answer))
    assert caught.value.reason is reason


def test_static_settings_that_the_answer_does_not_have() -> None:
    """They are not known."""
    session = over(metadata({}), DescribeConfigs=DescribeConfigsResponse(throttle_time_ms=0, results=[]))
    assert read_static_settings(session, 1, ["remote.log.storage.system.enable"]) == {}


@pytest.mark.parametrize(
    ("count", "batches"),
    [(1, [1]), (201, [100, 100, 1]), (601, [101] * 5 + [96]), (1000, [167] * 5 + [165]), (1501, [250] * 6 + [1])],
)
def test_overrides_are_read_in_equal_parts(count: int, batches: list[int]) -> None:
    """All topics are in one request of 100 to 250; up to 1,500, each of three connections has two."""
    session = over()
    names = [f"t{number}" for number in range(count)]
    found = read_overrides(session, session.any_broker(), names)
    assert found == {name: {"retention.ms": "5"} for name in names}
    assert [len(each.request.resources) for each in session.sent] == batches


def test_overrides() -> None:
    """Only overrides are returned; a topic that was deleted has none."""
    session = over()
    assert read_overrides(session, session.any_broker(), ["a"]) == {"a": {"retention.ms": "5"}}
    assert {each.resource_type for each in session.sent[0].request.resources} == {2}
    gone = DescribeConfigsResponse(throttle_time_ms=0, results=[described("a", 2, [], 3)])
    session = over(DescribeConfigs=gone)
    assert read_overrides(session, session.any_broker(), ["a"]) == {"a": None}
    session = over()
    session.versions["DescribeConfigs"] = 3
    assert read_overrides(session, session.any_broker(), ["a"]) == {"a": {"retention.ms": "5"}}
    assert session.sent[0].version == 3


def answer_for(codes: dict[str, int | None]) -> Any:
    """Return an answer to DescribeConfigs with an error for some topics; None leaves a topic out."""

    def answer(broker: int, request: Any) -> Any:
        found = describe(broker, request)
        for each in found.results:
            if code := codes.get(each.resource_name):
                each.error_code, each.error_message, each.configs = code, "why", []
        found.results = [each for each in found.results if codes.get(each.resource_name, 0) is not None]
        return found

    return answer


NOT_DESCRIBED = [
    (None, Reason.UNREADABLE, "the answer of the brokers does not have its configs"),
    (
        29,
        Reason.NO_PERMISSION,
        "its configs cannot be read: User:ANONYMOUS lacks DescribeConfigs on topic a (TOPIC_AUTHORIZATION_FAILED)",
    ),
    (17, Reason.UNREADABLE, "its configs cannot be read: INVALID_TOPIC_EXCEPTION (17): why"),
    (42, Reason.UNREADABLE, "its configs cannot be read: INVALID_REQUEST (42): why"),
    (7, Reason.UNREACHABLE, "its configs cannot be read: REQUEST_TIMED_OUT (7): why"),
    (-1, Reason.UNREACHABLE, "its configs cannot be read: UNKNOWN_SERVER_ERROR (-1): why"),
]


@pytest.mark.parametrize(("code", "reason", "message"), NOT_DESCRIBED)
def test_a_topic_that_is_not_described(code: int | None, reason: Reason, message: str) -> None:
    """Its error is its own, and no topic without overrides; the others are described, and show what brokers know."""
    session = over(DescribeConfigs=answer_for({"a": code}))
    overrides, known = read_overrides_and_known_configs(session, session.any_broker(), ["a", "b"])
    for found in (overrides, read_overrides(session, session.any_broker(), ["a", "b"])):
        error = found["a"]
        assert isinstance(error, TopiaristError)
        assert (error.reason, error.message, found["b"]) == (reason, message, {"retention.ms": "5"})
        assert read_known_configs(session, session.any_broker(), found) == known
    assert known
    assert known.configs.keys() == {"retention.ms", "segment.ms"}


def test_a_topic_that_was_deleted_shows_no_configs() -> None:
    """It is no error, and no topic."""
    session = over(DescribeConfigs=answer_for({"a": 3}))
    assert read_overrides_and_known_configs(session, session.any_broker(), ["a"]) == ({"a": None}, None)


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (31, Reason.NO_PERMISSION, "lacks DescribeConfigs on topic a (CLUSTER_AUTHORIZATION_FAILED)"),
        (35, Reason.PREREQUISITE_MISSING, "the brokers do not support it (UNSUPPORTED_VERSION (35): why)"),
    ],
)
def test_answers_about_every_topic_end_a_read(code: int, reason: Reason, message: str) -> None:
    """They concern the request, and not the topic that has them."""
    session = over(DescribeConfigs=answer_for({"a": code}))
    for read in (read_overrides, read_overrides_and_known_configs):
        with pytest.raises(TopiaristError) as caught:
            read(session, session.any_broker(), ["a", "b"])
        assert caught.value.reason is reason
        assert caught.value.message.startswith("topic a: its configs cannot be read: ")
        assert caught.value.message.endswith(message)


def test_known_configs() -> None:
    """The topic with the fewest overrides is asked, another one for the defaults that it hides.

    Only a dynamic value of all brokers is a default: no override, no static value, no built-in default, no empty text.
    """
    asked = []
    synonyms = [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "2", 3),
        ("log.x", "", 3),
        ("log.static", "3", 4),
        ("log.y", "4", 5),
    ]

    def answer(_broker: int, request: Any) -> Any:
        (each,) = request.resources
        asked.append((each.resource_name, request.include_synonyms))
        if each.resource_name == "few":
            entries = [entry("retention.ms", "9", 1, 5, synonyms), entry("odd", "1", 5, 77)]
        else:
            entries = [entry("retention.ms", "3", 5, 5, synonyms), entry("odd", "2", 1, 1)]
        return DescribeConfigsResponse(throttle_time_ms=0, results=[described(each.resource_name, 2, entries)])

    session = over(DescribeConfigs=answer)
    overrides = {
        "none": None,
        "same": {"retention.ms": "1", "b": "2"},
        "few": {"retention.ms": "9"},
        "x": {"a": "1", "b": "2"},
    }
    known = read_known_configs(session, session.any_broker(), overrides)
    assert known is not None
    assert asked == [("few", True), ("x", True)]
    assert {name: (each.type, each.default) for name, each in known.configs.items()} == {
        "retention.ms": ("LONG", "3"),
        "odd": ("", "1"),
    }
    assert known.broker_defaults == {"log.retention.ms": "2"}
    assert read_known_configs(session, session.any_broker(), {"none": None}) is None


@pytest.mark.parametrize(
    ("number", "name"),
    [
        *enumerate(("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"), 1),
        (0, ""),
        (10, ""),
    ],
)
def test_types_of_configs(number: int, name: str) -> None:
    """Kafka's numbers of config types have names."""
    answer = DescribeConfigsResponse(throttle_time_ms=0, results=[described("a", 2, [entry("k", "1", 5, number)])])
    session = over(DescribeConfigs=answer)
    known = read_known_configs(session, session.any_broker(), {"a": {}})
    assert known is not None
    assert known.configs["k"].type == name


def test_single_topics(clock: FakeTime) -> None:
    """A topic with its overrides and reassignments, one that does not exist, and one that is hidden."""
    answer = metadata({"a": [partition(0, 1, 2)], "gone": 3, "hidden": 29})
    look = TopicReader(over(answer, ListPartitionReassignments=listed(("a", 0, [2], [])))).look(["hidden", "gone", "a"])
    topic = look.topics["a"]
    assert isinstance(topic, TopicState)
    assert (topic.replicas, topic.config, topic.reassigning_partitions) == (((1, 2),), {"retention.ms": "5"}, (0,))
    assert look.topics["gone"] is None
    assert "hidden" in str(look.topics["hidden"])
    assert [*look.brokers] == [1, 2, 3]
    assert look.min_version == (4, 0)
    assert clock.slept == [pytest.approx(0.05)]
    assert look.broker_defaults


@pytest.mark.parametrize(
    ("ids", "metadata_of_topics", "topics", "reads"),
    [
        ({"a": ID_OF_A}, {"a": [partition(0, 1)]}, {"a": ((1,),)}, 1),
        ({"a": None, "gone": None}, {"gone": 3}, {"a": None, "gone": None}, 1),
        ({"a": OTHER_ID}, {"a": [partition(0, 1)]}, {"a": ((1,),)}, 3),
        ({"a": None}, {"a": [partition(0, 1)]}, {"a": ((1,),)}, 3),
    ],
)
def test_a_topic_with_its_id_is_read_once(
    ids: dict[str, str | None], metadata_of_topics: Any, topics: dict[str, Any], reads: int
) -> None:
    """Only a topic that is another one than before, or that was created, needs the look with two reads."""
    answer = metadata(metadata_of_topics)
    for each in answer.topics:
        each.topic_id = uuid.UUID(int=2)
    session = over(answer)
    found = TopicReader(session).look_again(ids).topics
    assert {name: each.replicas if isinstance(each, TopicState) else None for name, each in found.items()} == topics
    assert session.names().count("Metadata") == reads


_LOOK, _SYNC = ["DescribeConfigs", "Metadata"], ["DescribeQuorum", "ApiVersions"]


def test_one_look_after_a_proof_needs_none() -> None:
    """It waits a moment after the last write, and asks the same connection; the next look is proven again."""
    answer = metadata({"a": [partition(0, 1)]})
    decode_id(answer)
    session = over(answer)
    reader = TopicReader(session)
    for is_proven, wanted, waits in (
        (False, _SYNC + _LOOK, 0),
        (False, _LOOK, 1),
        (False, _SYNC + _LOOK, 1),
        (True, _SYNC + _LOOK, 1),
        (False, _LOOK, 2),
    ):
        session.sent.clear()
        reader.look_again({"a": ID_OF_A}, lists_reassignments=False, is_proven=is_proven)
        assert (session.names(), session.waits) == (wanted, [SHOWN_AFTER_S] * waits)


def test_a_connection_that_breaks_in_a_look_without_a_proof() -> None:
    """Another connection may lead to a broker that is older: its look is proven."""
    answer = metadata({"a": [partition(0, 1)]})
    decode_id(answer)
    session = over(answer, DescribeConfigs=[describe, LOST, describe])
    reader = TopicReader(session)
    reader.look_again({"a": ID_OF_A}, lists_reassignments=False)
    session.sent.clear()
    reader.look_again({"a": ID_OF_A}, lists_reassignments=False, is_proven=False)
    assert session.names() == ["DescribeConfigs", *_SYNC, *_LOOK]


def test_a_topic_without_configs_at_the_first_look() -> None:
    """A broker that has just learned about it describes it a moment later: it is read again, and is no other topic."""
    answer = metadata({"a": [partition(0, 1)]})
    decode_id(answer)
    unknown = DescribeConfigsResponse(throttle_time_ms=0, results=[described("a", 2, [], 3)])
    session = over(answer, DescribeConfigs=[unknown, describe])
    found = TopicReader(session).look_again({"a": ID_OF_A}).topics["a"]
    assert isinstance(found, TopicState)
    assert (found.topic_id, found.config) == (ID_OF_A, {"retention.ms": "5"})


def test_a_look_at_a_topic_that_is_not_described() -> None:
    """Before a write and after it, the topic is unreadable, with what to do; the others are read in the same look."""
    answer = metadata({name: [partition(0, 1)] for name in "ab"})
    decode_id(answer)
    reader = TopicReader(over(answer, DescribeConfigs=answer_for({"a": 29})))
    for look in (reader.look(["a", "b"]), reader.look_again(dict.fromkeys("ab", ID_OF_A))):
        assert look.topics["a"] == ReadError("topic a", f"{NOT_DESCRIBED[1][2]}; grant it with kafka-acls")
        assert isinstance(look.topics["b"], TopicState)
        assert look.broker_defaults == {"log.roll.ms": "7"}


def test_a_topic_that_changes_while_it_is_read() -> None:
    """It is read again until two looks are equal, five times at most."""
    lists = [metadata({"a": [partition(0, 1)]}), *[metadata({"a": [partition(0, 2)]})] * 3]
    look = TopicReader(over(lists)).look(["a"])
    topic = look.topics["a"]
    assert isinstance(topic, TopicState)
    assert topic.replicas == ((2,),)
    changing = [metadata({name: [partition(0, number)] for name in "ab"}) for number in range(1, 12)]
    with pytest.raises(TopiaristError, match="topic a changed 5 times while it was read") as caught:
        TopicReader(over(changing)).look(["b", "a"])
    assert (caught.value.reason, caught.value.hint) == (Reason.STATE_CONFLICT, "run again")


def test_a_topic_that_is_created_while_it_is_read() -> None:
    """It is neither absent nor a topic without configs: it is read again."""
    look = TopicReader(over([metadata({"a": 3}), *[metadata({"a": [partition(0, 2)]})] * 3])).look(["a"])
    topic = look.topics["a"]
    assert isinstance(topic, TopicState)
    assert topic.replicas == ((2,),)


def test_a_topic_with_other_reassignments_after_a_look_is_read_again() -> None:
    """Metadata that are the same twice may be those of before the end of a reassignment."""
    old, new = (metadata({"a": [partition(0, *replicas)]}) for replicas in ((1, 2, 3), (2, 3)))
    lists = [listed(("a", 0, [3], [1])), listed()]
    look = TopicReader(over([old, old, new, new], ListPartitionReassignments=lists)).look(["a"])
    topic = look.topics["a"]
    assert isinstance(topic, TopicState)
    assert (topic.replicas, topic.reassigning_partitions) == (((2, 3),), ())


def test_defaults_are_those_of_all_topics_of_the_first_read() -> None:
    """A topic that is read again does not show the defaults of configs that it overrides."""

    def describe_each(_broker: int, request: Any) -> Any:
        entries = {"a": entry("segment.ms", "7", 5), "b": entry("segment.ms", "1")}
        results = [described(each.resource_name, 2, [entries[each.resource_name]]) for each in request.resources]
        return DescribeConfigsResponse(throttle_time_ms=0, results=results)

    lists = [metadata({"a": [partition(0, 1)], "b": [partition(0, number)]}) for number in (1, 2, 2, 2)]
    look = TopicReader(over(lists, DescribeConfigs=describe_each)).look(["a", "b"])
    assert look.broker_defaults == {"log.roll.ms": "7"}


def test_unchanged_topics() -> None:
    """Leaders and in-sync replicas may change; ids, partitions and lists may not."""
    before = decode_metadata(metadata({"a": [partition(0, 1, 2)]})).topics["a"]
    for changed, is_same in (
        ([partition(0, 1, 2, leader=2, isr=(2,))], True),
        ([partition(0, 2, 1)], False),
        ([partition(0, 1, 2), partition(1, 1)], False),
        ([], False),
    ):
        assert is_unchanged(before, decode_metadata(metadata({"a": changed})).topics["a"]) is is_same
    assert not is_unchanged(before, before._replace(topic_id="x"))


@pytest.mark.parametrize(("failures", "is_read"), [(0, True), (2, True), (3, False)])
def test_a_read_is_begun_again(failures: int, is_read: bool) -> None:
    """Two connections may break during a read, not three."""
    results: list[Any] = [LOST] * failures + ["read"]

    def read() -> str:
        found = results.pop(0)
        if isinstance(found, Exception):
            raise found
        return str(found)

    if is_read:
        assert read_again(read) == "read"
    else:
        with pytest.raises(TopiaristError, match="the connection to a broker broke: the answer was lost") as caught:
            read_again(read)
        assert (caught.value.reason, caught.value.hint) == (Reason.UNREACHABLE, "run again")


FIRST: Any = "first"
PARTS = list(range(40))


def lend() -> AbstractContextManager[Any]:
    """Lend a connection of its own to each reader."""
    return nullcontext(object())


def test_no_thread_begins_without_further_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that has one connection reads all parts in order, in its own thread."""
    monkeypatch.setattr(threading, "Thread", lambda **_: pytest.fail("begins a thread"))
    for parts in (PARTS, []):
        assert read_in_parallel(FIRST, parts, lambda _, part: part, no_more) == parts


def test_further_connections_read_at_the_same_time() -> None:
    """Each reader waits until all have a part: that ends only if all of them read at once."""
    meeting, seen = threading.Barrier(1 + MAX_MORE_CONNECTIONS, timeout=20), set()

    def read(connection: Any, part: int) -> int:
        if connection not in seen:
            seen.add(connection)
            meeting.wait()
        return part

    assert read_in_parallel(FIRST, PARTS, read, lend) == PARTS
    assert len(seen) == 1 + MAX_MORE_CONNECTIONS


def test_the_part_of_a_broken_connection_is_read_by_the_first() -> None:
    """Both further connections break with a part in hand, the second while nothing else is left to read."""
    begun, first_is_done = threading.Barrier(1 + MAX_MORE_CONNECTIONS, timeout=20), threading.Event()
    parts, waited = [0, 1, 2, 3, 4, 5], set()

    def read(connection: Any, part: int) -> tuple[Any, int]:
        if connection not in waited:
            waited.add(connection)
            begun.wait()
        if connection is not FIRST:
            first_is_done.wait(0.2)
            raise Disconnected("gone", was_sent=True)
        return connection, part

    assert read_in_parallel(FIRST, parts, read, lend) == [(FIRST, part) for part in parts]


def test_a_connection_that_cannot_be_opened_is_not_needed() -> None:
    """Neither a refusal nor a connection that breaks while it is opened shows."""

    def breaks() -> AbstractContextManager[Any]:
        raise Disconnected("no", was_sent=False)

    for more in (nullcontext, breaks):
        assert read_in_parallel(FIRST, PARTS, lambda _, part: part, more) == PARTS


def test_a_connection_that_is_late_is_not_awaited() -> None:
    """All parts are read while another connection is still being opened."""
    opened = threading.Event()

    def more() -> AbstractContextManager[Any]:
        opened.wait(20)
        return nullcontext()

    assert read_in_parallel(FIRST, PARTS, lambda _, part: part, more) == PARTS
    opening = [thread for thread in threading.enumerate() if thread.name == "reading"]
    assert opening
    assert all(thread.daemon for thread in opening)  # nor does it keep the process alive
    opened.set()


@pytest.mark.parametrize("reader", ["first", "other"])
def test_an_error_of_any_reader_is_raised(reader: str) -> None:
    """A refusal ends the read, whichever connection has met it."""
    met = threading.Event()

    def read(connection: Any, part: int) -> int:
        if (connection is FIRST) == (reader == "first"):
            met.set()
            raise PermissionError("refused")
        met.wait(20)
        for thread in threading.enumerate():  # after the event, its thread has yet to report the error
            if connection is FIRST and thread.name == "reading":
                thread.join(20)
        return part

    with pytest.raises(PermissionError):
        read_in_parallel(FIRST, PARTS, read, lend)


def test_an_error_of_another_reader_ends_the_wait_for_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection has read all other parts, and waits for the last one when its reader is refused."""
    other_has_part, first_waits = threading.Event(), threading.Event()

    class Queue(SimpleQueue[None]):
        def get(self, block: bool = True, timeout: float | None = None) -> None:
            if self.empty():
                first_waits.set()
            return super().get(block, 20)

    def read(connection: Any, part: int) -> int:
        if connection is FIRST:
            other_has_part.wait(20)
            return part
        other_has_part.set()
        first_waits.wait(20)
        raise PermissionError("refused")

    monkeypatch.setattr(configs_module, "SimpleQueue", Queue)
    with pytest.raises(PermissionError):
        read_in_parallel(FIRST, PARTS, read, lend)


def test_the_error_of_the_first_connection_is_raised() -> None:
    """The caller begins its whole read anew then."""

    def read(_: Any, part: int) -> int:
        raise Disconnected(f"part {part}", was_sent=True)

    with pytest.raises(Disconnected):
        read_in_parallel(FIRST, PARTS, read, no_more)
