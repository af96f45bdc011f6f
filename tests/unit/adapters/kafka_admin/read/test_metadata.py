"""Metadata answers: topics and partitions in any order, topics with errors, topic ids."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, decode_topic_id, encode_topic_id
from topiarist.adapters.kafka_admin.read.metadata import (
    PartitionMetadata,
    TopicMetadata,
    decode_metadata,
)
from topiarist.kafka.types import Broker

_TOPIC = MetadataResponse.MetadataResponseTopic
_ID = uuid.UUID("22f94b4b-839a-42e5-83ce-72a33f491881")


def answer_with(topics: list[Any], controller: int = 1) -> Any:
    """Return an answer with two brokers, the larger id first."""
    node = MetadataResponse.MetadataResponseBroker
    brokers = [node(node_id=2, host="h", port=2, rack=None), node(node_id=1, host="h", port=1, rack="a")]
    return MetadataResponse(brokers=brokers, cluster_id="id", controller_id=controller, topics=topics)


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
    """The id -1 is no broker, and broker 0 is one."""
    assert decode_metadata(answer_with([], -1)).controller is None
    assert decode_metadata(answer_with([], 0)).controller == 0


@given(st.uuids())
def test_topic_ids_are_read_as_they_are_written(topic_id: uuid.UUID) -> None:
    """Each id has 22 characters, as Kafka's tools write it, and is read back; the id of no topic is empty."""
    text = encode_topic_id(topic_id)
    if topic_id == NO_ID:
        assert text == ""
        return
    assert len(text) == 22
    assert decode_topic_id(text) == topic_id
