"""The metadata of all topics is decoded once while nothing but the named controller changes."""

from __future__ import annotations

import uuid
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from support.kafka.releases import encode_response
from topiarist.adapters.kafka_admin.read.metadata import AllMetadata, decode_metadata

VERSION = 12
SIZE_BYTES = 4


class OneConnection:
    """A connection that gives prepared answers, and counts those that are decoded."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.decoded = 0

    def version_of(self, request: Any) -> int:
        """Return the version of all answers."""
        assert isinstance(request, MetadataRequest)
        assert request.topics is None
        return VERSION

    def call_raw(self, _: Any, version: int) -> bytes:
        """Return the next answer, with a correlation id of its own."""
        return encode_response(self.answers.pop(0), version, 100 + len(self.answers))[SIZE_BYTES:]

    def decode(self, _: Any, version: int, data: bytes) -> Any:
        """Decode as a connection does."""
        self.decoded += 1
        return MetadataResponse.decode(data, version=version, header=True)


def answer(*, controller: int = 1, leader: int = 1, rack: str | None = "a", topic: str = "orders") -> Any:
    """Return an answer of two brokers with one topic."""
    broker = MetadataResponse.MetadataResponseBroker
    state = MetadataResponse.MetadataResponseTopic
    partition = state.MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader, leader_epoch=3, replica_nodes=[1, 2], isr_nodes=[1, 2]
    )
    partition.offline_replicas = []
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            broker(node_id=1, host="one.example", port=9092, rack=rack),
            broker(node_id=2, host="two.example", port=9092, rack=None),
        ],
        cluster_id="cluster",
        controller_id=controller,
        topics=[state(error_code=0, name=topic, topic_id=uuid.UUID(int=7), is_internal=False, partitions=[partition])],
    )


def read_all(*answers: Any) -> tuple[list[Any], int]:
    """Return what is read from the answers, and how many of them were decoded."""
    connection = OneConnection(list(answers))
    reader = AllMetadata(connection)  # type: ignore[arg-type]
    return [reader.read() for _ in answers], connection.decoded


def test_the_same_answer_is_decoded_once() -> None:
    """The topics of the second are the very object of the first."""
    (first, second), decoded = read_all(answer(), answer())
    assert (decoded, second.topics is first.topics, second) == (1, True, first)


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
