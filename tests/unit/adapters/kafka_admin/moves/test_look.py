"""Requests of moves and elections: what is sent, and that every element of an answer is read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.moves import look
from topiarist.adapters.kafka_admin.protocol.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from topiarist.adapters.kafka_admin.read.sync import decode_reassignments
from topiarist.adapters.kafka_admin.write.requests import ADMIN_TIMEOUT_MS, Element
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import PartitionState, Reassignment
from topiarist.planning.moves.gate import MovedTopic
from topiarist.planning.moves.throttles import PartitionInFlight
from unit.adapters.kafka_admin.moves.moving_brokers import LISTS, RATES, MovingBrokers
from unit.adapters.kafka_admin.scripted_session import LOST, reply

MOVES = (ReplicaMove("b", 1, (1,), (2, 1)), ReplicaMove("a", 0, (1, 2), (2, 1)), ReplicaMove("b", 0, (1,), (2,)))


def test_moves_are_grouped_by_topic() -> None:
    """Both versions of the request have all targets, in the order of topics and partitions."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    target = topic.ReassignablePartition
    wanted = AlterPartitionReassignmentsRequest(
        timeout_ms=ADMIN_TIMEOUT_MS,
        topics=[
            topic(name="a", partitions=[target(partition_index=0, replicas=[2, 1])]),
            topic(
                name="b",
                partitions=[target(partition_index=0, replicas=[2]), target(partition_index=1, replicas=[2, 1])],
            ),
        ],
    )
    for version in (0, 1):
        sent = look.build_reassignments(MOVES).encode(version=version)
        assert AlterPartitionReassignmentsRequest.decode(sent, version=version) == wanted


def test_a_listed_partition_without_a_change_is_not_being_reassigned() -> None:
    """Tansu lists all partitions of all topics: only those that get or lose replicas count."""
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    partition = topic.OngoingPartitionReassignment
    lists = [([1, 2], [2], []), ([1], [], []), ([1], [], [3])]
    listed = [
        partition(partition_index=number, replicas=replicas, adding_replicas=adding, removing_replicas=removing)
        for number, (replicas, adding, removing) in enumerate(lists)
    ]
    topics = [topic(name="a", partitions=listed), topic(name="b", partitions=listed[1:2])]
    answer = ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=0, error_message=None, topics=topics)
    assert decode_reassignments(answer) == {"a": {0: Reassignment((2,), ()), 2: Reassignment((), (3,))}}


def test_each_partition_of_an_answer_is_read() -> None:
    """A partition that the answer leaves out has no code; an error of the whole answer is that of each partition."""
    topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    partition = topic.ReassignablePartitionResponse
    responses = [topic(name="b", partitions=[partition(partition_index=0, error_code=39, error_message="no broker 2")])]
    answer = AlterPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=0, error_message=None, responses=responses
    )
    asked = [("b", 0), ("b", 1)]
    found = look.read_reassignments_answer(answer, asked)
    assert found == {("b", 0): Element(39, "no broker 2"), ("b", 1): Element(None)}
    for message, words in (("denied", "denied"), (None, "")):
        answer.error_code, answer.error_message = 31, message
        assert look.read_reassignments_answer(answer, asked) == dict.fromkeys(asked, Element(31, words))


def test_elections() -> None:
    """Each partition has its element."""
    sent = look.build_elections([("b", 1), ("a", 0), ("b", 0)]).encode(version=2)
    request = ElectLeadersRequest.decode(sent, version=2)
    topic = ElectLeadersRequest.TopicPartitions
    preferred = 0
    assert request == ElectLeadersRequest(
        election_type=preferred,
        topic_partitions=[topic(topic="a", partitions=[0]), topic(topic="b", partitions=[0, 1])],
        timeout_ms=ADMIN_TIMEOUT_MS,
    )
    result = ElectLeadersResponse.ReplicaElectionResult
    results = [
        result(topic="b", partition_result=[result.PartitionResult(partition_id=1, error_code=84, error_message=None)])
    ]
    answer = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)
    assert look.read_elections_answer(answer, [("a", 0), ("b", 1)]) == {
        ("a", 0): Element(None),
        ("b", 1): Element(84),
    }
    answer.error_code = 31
    assert look.read_elections_answer(answer, [("a", 0)]) == {("a", 0): Element(31)}


def test_a_look_waits_for_the_end_of_moves_that_were_sent(brokers: MovingBrokers) -> None:
    """The controller may list a move no more while a broker still serves both its old and its new replicas."""
    brokers.create("a", (1, 2))
    brokers.reassign("a", 0, (1, 3))
    brokers.session.script["ListPartitionReassignments"] = reply(error_code=0, error_message=None, topics=[])
    reader = brokers.reader()
    reader.expect([ReplicaMove("a", 0, (1, 2), (1, 3))])
    assert reader.look(["a"]).list_of(("a", 0)) == (1, 3)


def test_a_move_that_begins_during_a_look_is_in_it(brokers: MovingBrokers) -> None:
    """The list is read before and after the metadata, until both are equal."""
    brokers.create("a", (1, 2))
    brokers.reassign("a", 0, (1, 3))
    empty = reply(error_code=0, error_message=None, topics=[])
    brokers.session.script["ListPartitionReassignments"] = [empty, brokers.on_list]
    assert brokers.reader().look(["a"]).list_of(("a", 0)) == (1, 3)
    assert brokers.session.names().count("ListPartitionReassignments") == 4


@pytest.mark.parametrize("target", [(1, 3), (1, 2, 3)])
def test_metadata_that_do_not_show_a_listed_move_yet(brokers: MovingBrokers, target: tuple[int, ...]) -> None:
    """A broker that is behind is asked again; a move without replicas to remove is seen by its list alone."""
    brokers.create("a", (1, 2))
    behind = brokers.on_metadata(1, reply(names=["a"], ids=[]))
    brokers.reassign("a", 0, target)
    brokers.copies_at_sleep = False
    brokers.session.script["Metadata"] = [behind, brokers.on_metadata]
    assert brokers.reader().look(["a"]).target_of(("a", 0)) == target
    assert brokers.session.names().count("Metadata") == 2


def test_lists_that_change_all_the_time_are_taken_as_they_are(brokers: MovingBrokers) -> None:
    """After five seconds a look returns what it has seen last, whatever another client does."""
    brokers.create("a", (1, 2))
    brokers.reassign("a", 0, (1, 3))
    brokers.copies_at_sleep = False

    def list_by_turns(broker: int, request: Any) -> Any:
        count = brokers.session.names().count("ListPartitionReassignments")
        assert count < 1000
        return brokers.on_list(broker, request) if count % 2 else reply(error_code=0, error_message=None, topics=[])

    brokers.session.script["ListPartitionReassignments"] = list_by_turns
    assert brokers.reader().look(["a"]).target_of(("a", 0)) == (1, 3)
    assert sum(brokers.clock.slept) == pytest.approx(5, abs=0.11)


def listing(code: int, message: str | None) -> dict[str, Any]:
    """Return brokers that do not list reassignments."""
    return {"ListPartitionReassignments": reply(error_code=code, error_message=message, topics=[])}


DENIED = "CLUSTER_AUTHORIZATION_FAILED (31)"


@pytest.mark.parametrize(
    ("code", "message", "reason", "words"),
    [
        (
            31,
            "who?",
            Reason.NO_PERMISSION,
            f"no permission to read the reassignments: it needs Describe on the cluster; {DENIED}: who?",
        ),
        (42, None, Reason.UNREADABLE, "the reassignments cannot be read: INVALID_REQUEST (42)"),
    ],
)
def test_answers_that_end_a_read(
    brokers: MovingBrokers, code: int, message: str | None, reason: Reason, words: str
) -> None:
    """The error names what was read, the right, and the words of the brokers; it is not read again."""
    brokers.create("a", (1, 2))
    brokers.session.script.update(listing(code, message))
    with pytest.raises(TopiaristError) as caught:
        brokers.reader().look(["a"])
    assert (caught.value.reason, caught.value.message) == (reason, words)
    assert brokers.clock.slept == []


TOPIC_DENIED = "TOPIC_AUTHORIZATION_FAILED (29)"
TOPIC_LACKS = f"no permission to read topic a: it needs Describe on the topic; {TOPIC_DENIED}"
CONFIGS = "the configs of topics/a"
CONFIGS_LACK = f"no permission to read {CONFIGS}: it needs DescribeConfigs on topic a; {TOPIC_DENIED}: who?"


@pytest.mark.parametrize(
    ("name", "code", "reason", "message"),
    [
        ("Metadata", 29, Reason.NO_PERMISSION, TOPIC_LACKS),
        ("Metadata", 17, Reason.UNREADABLE, "topic a cannot be read: INVALID_TOPIC_EXCEPTION (17)"),
        ("Metadata", -1, Reason.UNREACHABLE, "topic a cannot be read: UNKNOWN_SERVER_ERROR (-1)"),
        ("DescribeConfigs", 29, Reason.NO_PERMISSION, CONFIGS_LACK),
        ("DescribeConfigs", 42, Reason.UNREADABLE, f"{CONFIGS} cannot be read: INVALID_REQUEST (42): who?"),
        ("DescribeConfigs", 7, Reason.UNREACHABLE, f"{CONFIGS} cannot be read: REQUEST_TIMED_OUT (7): who?"),
        ("DescribeConfigs", None, Reason.UNREADABLE, f"the answer of the brokers does not have {CONFIGS}"),
    ],
)
def test_a_topic_that_is_not_described(
    brokers: MovingBrokers, name: str, code: int | None, reason: Reason, message: str
) -> None:
    """Its error is its own, and the others are read; what may be gone is waited for first."""
    for topic in "ab":
        brokers.create(topic, (1, 2))
    brokers.errors[name, "a"] = code
    found = brokers.reader().look(["a", "b"])
    with pytest.raises(TopiaristError) as caught:
        found.moved_topic("a", brokers.records.topics)
    assert (caught.value.reason, caught.value.message) == (reason, message)
    assert found.moved_topic("b", brokers.records.topics).topic
    assert found.errors.keys() == {"a"}
    assert (sum(brokers.clock.slept) >= look.READ_PATIENCE_S) is (reason is Reason.UNREACHABLE)


def test_a_hidden_topic_that_another_client_moves(brokers: MovingBrokers) -> None:
    """It keeps no other topic from being read, and its brokers count."""
    for topic in "ab":
        brokers.create(topic, (1, 2))
    brokers.reassign("a", 0, (1, 3))
    brokers.errors["Metadata", "a"] = 29
    found = brokers.reader().look(["b"])
    assert (found.errors, found.topics["a"], found.list_of(("b", 0))) == ({}, None, (1, 2))
    assert found.reassignments == {("a", 0): Reassignment((3,), (2,))}


@pytest.mark.parametrize("code", [-1, 5, 6, 7, 9, 13, 14, 15, 41])
def test_codes_of_a_cluster_that_changes(brokers: MovingBrokers, code: int) -> None:
    """A leader or a controller that changes is waited for; after the patience the error has the last code."""
    brokers.session.script.update(listing(code, "wait"))
    words = rf"cannot read the cluster: the reassignments: \w+ \({code}\): wait$"
    with pytest.raises(TopiaristError, match=words) as caught:
        brokers.reader().look(["a"])
    assert caught.value.reason is Reason.UNREACHABLE


def test_a_topic_of_a_look(brokers: MovingBrokers) -> None:
    """A record is valid for the topic with its id; a topic that does not exist has no lists, and no configs are read.

    Without ``min.insync.replicas`` of a topic Kafka's default is in effect.
    """
    brokers.create("a", (1, 2), (2, 1))
    brokers.create("b", (1,))
    brokers.configs["topics/a"]["min.insync.replicas"] = "2"
    brokers.reassign("a", 1, (3, 1))
    brokers.reassign("b", 0, (2,))
    found = brokers.reader().look(["a", "gone"])
    valid = brokers.records.topics["a"]
    states = {0: PartitionState(1, (1, 2), 7), 1: PartitionState(2, (2, 1), 7)}
    for record, is_valid in ((valid, True), (valid._replace(topic_id="another"), False), (None, False)):
        topic = found.topics["a"]
        assert topic
        assert found.moved_topic("a", {"a": record} if record else {}) == MovedTopic(
            replace(topic, record=record and record.record, record_valid=is_valid),
            {1: Reassignment((3,), (2,))},
            False,
            {each: Broker(each) for each in (1, 2, 3, 4)},
            states,
            2,
        )
    assert found.moved_topic("gone", {"gone": valid}) == MovedTopic(None, {}, False, found.brokers, {}, 1)
    assert (found.list_of(("a", 1)), found.list_of(("a", 7)), found.list_of(("gone", 0))) == ((3, 1, 2), (), ())
    assert (found.target_of(("a", 1)), found.target_of(("a", 0))) == ((3, 1), ())
    assert found.topics.keys() == {"a", "b", "gone"}  # what is being reassigned is looked at, too
    (described,) = (each.request for each in brokers.session.sent if each.name == "DescribeConfigs")
    assert [(each.resource_name, each.configuration_keys) for each in described.resources] == [
        ("a", ["min.insync.replicas"])
    ]
    brokers.session.sent.clear()
    brokers.reader().look(["gone"])
    assert "DescribeConfigs" not in brokers.session.names()


def test_a_cluster_that_does_not_answer_is_read_again_for_some_time(brokers: MovingBrokers) -> None:
    """A lost answer is asked for again, at another controller if there is one; after the patience it is an error."""
    brokers.create("a", (1, 2))
    brokers.session.script["Metadata"] = [LOST, brokers.on_metadata]
    assert brokers.reader().look(["a"]).topics["a"]
    assert (brokers.session.forgotten, brokers.clock.slept) == (1, [0.5])
    brokers.session.script["Metadata"] = LOST
    began = brokers.clock.current
    with pytest.raises(TopiaristError, match="cannot read the cluster: the answer was lost") as caught:
        brokers.reader().look(["a"])
    assert caught.value.reason is Reason.UNREACHABLE
    assert look.READ_PATIENCE_S <= brokers.clock.current - began <= look.READ_PATIENCE_S + 2 * look._PAUSE_S


def test_throttles(brokers: MovingBrokers) -> None:
    """Those of topics are read after a sync, in one request; each broker describes its own.

    A broker that is away is named apart, a topic that does not exist has none.
    """
    brokers.create("a", (1, 2))
    brokers.create("b", (1, 2))
    brokers.configs |= {"topics/a": {LISTS[0]: "*", "retention.ms": "1"}, "brokers/1": {RATES[1]: "5"}}
    brokers.session.unreachable = {2}
    reader = brokers.reader()
    assert reader.read_throttles(["brokers/2", "brokers/1", "topics/a", "topics/b", "topics/gone"]) == (
        {"topics/a": {LISTS[0]: "*"}, "topics/b": {}, "brokers/1": {RATES[1]: "5"}},
        {"brokers/2": "broker 2 cannot be reached"},
        {},
    )
    assert brokers.syncs == 1
    topics, broker = (each.request.resources for each in brokers.session.sent)
    assert [(each.resource_name, each.configuration_keys) for each in topics] == [
        (name, sorted(LISTS)) for name in ("a", "b", "gone")
    ]
    assert [(each.resource_type, each.resource_name, {*each.configuration_keys}) for each in broker] == [
        (4, "1", {*RATES})
    ]
    assert reader.read_throttles(["brokers/1"]).configs.keys() == {"brokers/1"}
    assert brokers.syncs == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (31, "no permission to read the configs of {}: it needs DescribeConfigs on .*; CLUSTER_AUTHORIZATION_FAILED"),
        (-1, r"the configs of {} cannot be read: UNKNOWN_SERVER_ERROR \(-1\): who\?"),
        (None, "the answer of the brokers does not have the configs of {}"),
    ],
)
def test_throttles_that_are_not_described(brokers: MovingBrokers, code: int | None, words: str) -> None:
    """Each entity has its own error, and the others are read."""
    for topic in "ab":
        brokers.create(topic, (1, 2))
    brokers.errors |= {("DescribeConfigs", "a"): code, ("DescribeConfigs", "1"): code}
    found = brokers.reader().read_throttles(["brokers/1", "brokers/2", "topics/a", "topics/b"])
    assert (found.configs, found.unreachable) == ({"topics/b": {}, "brokers/2": {}}, {})
    assert found.errors.keys() == {"topics/a", "brokers/1"}
    for entity, error in found.errors.items():
        assert re.match(words.format(entity), error.message)


def test_partitions_in_flight(brokers: MovingBrokers) -> None:
    """Each has its target, the replicas that copy, and those in sync; an unknown topic has none."""
    brokers.create("a", (1, 2), (2, 1))
    brokers.reassign("a", 1, (3, 1))
    found = brokers.reader().look(["a"])
    assert found.in_flight(("a", 1)) == PartitionInFlight("a", 1, (3, 1), (3,), (2, 1))
    assert [found.in_flight(each) for each in (("a", 0), ("gone", 0))] == [None, None]
