"""Metadata answers: topics and partitions in any order, topics with errors, topic ids."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from support.kafka.releases import encode_response
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, decode_topic_id, encode_topic_id
from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest
from topiarist.adapters.kafka_admin.read.metadata import AllMetadata, PartitionMetadata, TopicMetadata, decode_metadata
from topiarist.kafka.types import Broker

_TOPIC = MetadataResponse.MetadataResponseTopic
_ID = uuid.UUID("22f94b4b-839a-42e5-83ce-72a33f491881")


def answer_with(topics: list[Any], controller: int = 1, rack: str | None = "a") -> Any:
    """Return an answer with two brokers, the larger id first; ``rack`` is that of the other one."""
    node = MetadataResponse.MetadataResponseBroker
    brokers = [node(node_id=2, host="h", port=2, rack=None), node(node_id=1, host="h", port=1, rack=rack)]
    return MetadataResponse(
        throttle_time_ms=0, brokers=brokers, cluster_id="id", controller_id=controller, topics=topics
    )


def partition(number: int, replicas: list[int], leader: int, error_code: int = 0) -> Any:
    """Return one partition, with all replicas in sync."""
    return _TOPIC.MetadataResponsePartition(
        error_code=error_code,
        partition_index=number,
        leader_id=leader,
        leader_epoch=4,
        replica_nodes=replicas,
        isr_nodes=replicas,
        offline_replicas=[],
    )


def test_brokers_and_partitions_are_sorted() -> None:
    """Brokers and partitions come in any order; a partition without a leader (error 5) is there with its list."""
    topic = _TOPIC(name="a", topic_id=_ID, partitions=[partition(1, [2, 1], -1, 5), partition(0, [1, 2], 1)])
    found = decode_metadata(answer_with([topic]))
    assert found.brokers == (Broker(1, "a"), Broker(2, None))
    expected = {0: PartitionMetadata((1, 2), 1, (1, 2), 4), 1: PartitionMetadata((2, 1), -1, (2, 1), 4)}
    assert found.topics == {"a": TopicMetadata("a", "IvlLS4OaQuWDznKjP0kYgQ", expected)}
    assert list(found.topics["a"].partitions) == [0, 1]
    assert found.errors == {}


@pytest.mark.parametrize("code", [3, 5, 29, -1])
def test_a_topic_with_an_error_is_no_topic(code: int) -> None:
    """A topic with an error code is among the errors, whatever else the answer says about it."""
    topic = _TOPIC(error_code=code, name="a", topic_id=_ID, partitions=[partition(0, [1], 1)])
    found = decode_metadata(answer_with([topic, _TOPIC(name="b", topic_id=NO_ID, partitions=[])]))
    assert found.errors == {"a": code}
    assert found.topics == {"b": TopicMetadata("b", None, {})}


def test_no_controller_is_none() -> None:
    """The id -1 is no broker, and broker 0 is one; a cluster may have no id."""
    assert decode_metadata(answer_with([], -1)).controller is None
    answer = answer_with([], 0)
    answer.cluster_id = None
    found = decode_metadata(answer)
    assert (found.controller, found.cluster_id) == (0, "")


@given(st.uuids())
def test_topic_ids_are_read_as_they_are_written(topic_id: uuid.UUID) -> None:
    """Each id has 22 characters, as Kafka's tools write it, and is read back; the id of no topic is empty."""
    text = encode_topic_id(topic_id)
    if topic_id == NO_ID:
        assert text == ""
        return
    assert len(text) == 22
    assert decode_topic_id(text) == topic_id


VERSION = 12
SIZE_BYTES = 4


class OneConnection:
    """A connection that gives prepared answers, and counts those that are decoded."""

    def __init__(self, answers: list[Any], version: int) -> None:
        self.answers = answers
        self.version = version
        self.decoded = 0

    def version_of(self, request: Any) -> int:
        """Return the version of all answers."""
        assert isinstance(request, MetadataRequest)
        assert request.topics is None
        return self.version

    def call_raw(self, _: Any, version: int) -> bytes:
        """Return the next answer, with a correlation id of its own."""
        return encode_response(self.answers.pop(0), version, 100 + len(self.answers))[SIZE_BYTES:]

    def decode(self, _: Any, version: int, data: bytes) -> Any:
        """Decode as a connection does."""
        self.decoded += 1
        return MetadataResponse.decode(data, version=version, header=True)


def answer(*, leader: int = 1, topic: str = "orders", **fields: Any) -> Any:
    """Return an answer of two brokers with one topic."""
    described = _TOPIC(
        error_code=0,
        name=topic,
        topic_id=uuid.UUID(int=7),
        is_internal=False,
        partitions=[partition(0, [1, 2], leader)],
    )
    return answer_with([described], **fields)


def read_all(*answers: Any, version: int = VERSION) -> tuple[list[Any], int]:
    """Return what is read from the answers, and how many of them were decoded."""
    connection = OneConnection(list(answers), version)
    reader = AllMetadata(connection)  # type: ignore[arg-type]
    return [reader.read() for _ in answers], connection.decoded


def test_the_same_answer_is_decoded_once() -> None:
    """The topics of the second are the very object of the first."""
    (first, second), decoded = read_all(answer(), answer())
    assert (decoded, second.topics is first.topics, second) == (1, True, first)


def test_answers_without_ids() -> None:
    """In the old form of the answer nothing is left out of the comparison: each change is found, the controller too."""
    changes: list[dict[str, Any]] = [{"controller": 2}, {"leader": 2}, {"rack": "b"}, {"topic": "payments"}]
    for fields in changes:
        (first, same, changed), decoded = read_all(answer(), answer(), answer(**fields), version=8)
        assert (decoded, same) == (2, first), fields
        assert changed != first, fields
        assert {each.topic_id for each in changed.topics.values()} == {None}


def test_another_controller_alone_is_taken_over() -> None:
    """Brokers in KRaft mode name another broker in each answer; -1 is none."""
    (first, second, third), decoded = read_all(answer(controller=1), answer(controller=2), answer(controller=-1))
    assert (decoded, first.controller, second.controller, third.controller) == (1, 1, 2, None)
    assert second == decode_metadata(answer(controller=2))


def test_any_other_change_is_decoded() -> None:
    """A leader, a rack and a topic count."""
    for change in ({"leader": 2}, {"rack": "b"}, {"rack": None}, {"topic": "clicks"}):
        (_, second), decoded = read_all(answer(), answer(**change))
        assert decoded == 2
        assert second == decode_metadata(answer(**change))
