"""Requests of moves and elections: what is sent, and that every element of an answer is read."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)

from topiarist.adapters.kafka_admin.moves import look
from topiarist.adapters.kafka_admin.protocol.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from topiarist.adapters.kafka_admin.read.sync import decode_reassignments
from topiarist.adapters.kafka_admin.write.requests import Element
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import Reassignment
from topiarist.planning.moves.throttles import PartitionInFlight
from unit.adapters.kafka_admin.moves.moving_brokers import make_brokers
from unit.adapters.kafka_admin.scripted_session import LOST, metadata, reply

MOVES = (ReplicaMove("b", 1, (1,), (2, 1)), ReplicaMove("a", 0, (1, 2), (2, 1)), ReplicaMove("b", 0, (1,), (2,)))


def test_moves_are_grouped_by_topic() -> None:
    """Both versions of the request have all targets."""
    for version in (0, 1):
        sent = look.build_reassignments(MOVES).encode(version=version)
        request = AlterPartitionReassignmentsRequest.decode(sent, version=version)
        found = {
            (topic.name, each.partition_index): each.replicas for topic in request.topics for each in topic.partitions
        }
        assert found == {("a", 0): [2, 1], ("b", 0): [2], ("b", 1): [2, 1]}
        assert [topic.name for topic in request.topics] == ["a", "b"]


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
    answer.error_code, answer.error_message = 31, "denied"
    assert look.read_reassignments_answer(answer, asked) == dict.fromkeys(asked, Element(31, "denied"))


def test_elections() -> None:
    """Each partition has its element."""
    sent = look.build_elections([("b", 1), ("a", 0), ("b", 0)]).encode(version=2)
    request = ElectLeadersRequest.decode(sent, version=2)
    assert [(each.topic, each.partitions) for each in request.topic_partitions] == [("a", [0]), ("b", [0, 1])]
    result = ElectLeadersResponse.ReplicaElectionResult
    results = [
        result(topic="b", partition_result=[result.PartitionResult(partition_id=1, error_code=84, error_message=None)])
    ]
    answer = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)
    assert look.read_elections_answer(answer, [("a", 0), ("b", 1)]) == {
        ("a", 0): Element(None),
        ("b", 1): Element(84),
    }


def test_a_look_waits_for_the_end_of_moves_that_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller may list a move no more while a broker still serves both its old and its new replicas."""
    brokers = make_brokers(monkeypatch)
    brokers.create("a", (1, 2))
    brokers.reassign("a", 0, (1, 3))
    brokers.session.script["ListPartitionReassignments"] = reply(error_code=0, error_message=None, topics=[])
    reader = brokers.reader()
    reader.expect([ReplicaMove("a", 0, (1, 2), (1, 3))])
    assert reader.look(["a"]).list_of(("a", 0)) == (1, 3)


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (
            29,
            Reason.NO_PERMISSION,
            "no permission to read topic a: it needs the right Describe on the topic; ",
        ),
        (17, Reason.UNREADABLE, "topic a cannot be read: INVALID_TOPIC_EXCEPTION (17)"),
    ],
)
def test_a_topic_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, code: int, reason: Reason, words: str) -> None:
    """The error names the topic, the right and the answer, and is not read again."""
    brokers = make_brokers(monkeypatch)
    brokers.session.script["Metadata"] = metadata({"a": code})
    with pytest.raises(TopiaristError) as caught:
        brokers.reader().look(["a"])
    assert caught.value.reason is reason
    assert caught.value.args[0].startswith(words)
    assert caught.value.args[0].count(":") == words.count(":")
    assert brokers.clock.slept == []


def test_a_cluster_that_does_not_answer_is_read_again_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost answer is asked for again, at another controller if there is one; after the patience it is an error."""
    brokers = make_brokers(monkeypatch)
    brokers.create("a", (1, 2))
    brokers.session.script["Metadata"] = [LOST, brokers.on_metadata]
    assert brokers.reader().look(["a"]).topics["a"]
    assert (brokers.session.forgotten, len(brokers.clock.slept)) == (1, 1)
    brokers.session.script["Metadata"] = LOST
    began = brokers.clock.current
    with pytest.raises(TopiaristError, match="cannot read the cluster: the answer was lost") as caught:
        brokers.reader().look(["a"])
    assert caught.value.reason is Reason.UNREACHABLE
    assert look.READ_PATIENCE_S <= brokers.clock.current - began <= look.READ_PATIENCE_S + 2 * look._PAUSE_S


def test_throttles_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that denies its configs ends the read, with the right; one that is away is named apart."""
    brokers = make_brokers(monkeypatch)
    brokers.session.unreachable = {2}
    assert brokers.reader().read_throttles(["brokers/1", "brokers/2"]).unreachable.keys() == {"brokers/2"}
    denied = reply(results=[reply(error_code=31, error_message=None, resource_name="1", configs=[])])
    brokers.session.script["DescribeConfigs"] = denied
    with pytest.raises(TopiaristError, match="configs of brokers/1: it needs the right DescribeConfigs on the cluster"):
        brokers.reader().read_throttles(["brokers/1"])


def test_partitions_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its target, the replicas that copy, and those in sync; an unknown topic has none."""
    brokers = make_brokers(monkeypatch)
    brokers.create("a", (1, 2), (2, 1))
    brokers.reassign("a", 1, (3, 1))
    found = brokers.reader().look(["a"])
    assert found.in_flight(("a", 1)) == PartitionInFlight("a", 1, (3, 1), (3,), (2, 1))
    assert [found.in_flight(each) for each in (("a", 0), ("gone", 0))] == [None, None]
