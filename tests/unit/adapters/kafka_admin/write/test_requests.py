"""Tests of answers to Admin requests: every element, missing and doubled ones, and each error code."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, encode_topic_id
from topiarist.adapters.kafka_admin.protocol.messages import DeleteTopicsRequest
from topiarist.adapters.kafka_admin.write.requests import (
    Certainty,
    CreatedTopic,
    Element,
    Kind,
    build_create_partitions,
    build_create_topics,
    build_delete_by_name,
    build_delete_topics,
    read_answer,
)
from topiarist.kafka.types import UNPLACED
from topiarist.model.plan import SAFE_ASSESSMENT, AddPartitions, CreateTopic

ID = encode_topic_id(uuid.UUID(int=1))


def element(name: str, code: int, message: str | None = None) -> Any:
    """Return an element as each of the answers has it."""
    counts = {"num_partitions": 2, "replication_factor": 3, "configs": [SimpleNamespace(name="k", value="v")]}
    return SimpleNamespace(
        name=name, resource_name=name, topic_id=uuid.UUID(int=1), error_code=code, error_message=message, **counts
    )


def test_elements_are_read_by_name_whatever_their_order() -> None:
    """An element belongs to its topic; elements that were not asked for are ignored."""
    answer = SimpleNamespace(throttle_time_ms=7, topics=[element("b", 36, "there"), element("x", 0), element("a", 0)])
    found = read_answer(Kind.CREATE, answer, ["a", "b"])
    created = CreatedTopic(encode_topic_id(uuid.UUID(int=1)), 2, 3, {"k": "v"})
    assert found.elements == {"a": Element(0, created=created), "b": Element(36, "there")}
    assert found.throttle_time_ms == 7


def test_only_a_creation_with_one_id_is_confirmed_by_its_answer() -> None:
    """An answer without an id, as that of old versions, or with two ids leaves the outcome to the next read."""
    without = element("a", 0)
    without.topic_id = NO_ID
    other = element("b", 0)
    other.topic_id = uuid.UUID(int=2)
    answer = SimpleNamespace(throttle_time_ms=0, topics=[without, element("b", 0), other, element("c", 36)])
    found = read_answer(Kind.CREATE, answer, ["a", "b", "c"]).elements
    assert [each.created for each in found.values()] == [None, None, None]


@pytest.mark.parametrize(("field", "unknown"), [("num_partitions", -1), ("replication_factor", -1), ("configs", None)])
def test_counts_that_are_not_answered_are_not_known(field: str, unknown: Any) -> None:
    """Brokers leave out counts and configs if the user may not describe configs; an id is known all the same."""
    hidden = element("a", 0)
    setattr(hidden, field, unknown)
    found = read_answer(Kind.CREATE, SimpleNamespace(throttle_time_ms=0, topics=[hidden]), ["a"]).elements["a"].created
    assert found == CreatedTopic(encode_topic_id(uuid.UUID(int=1)))


def test_a_missing_element_says_nothing() -> None:
    """Each kind of answer without an element for a topic leaves it unknown."""
    answer = SimpleNamespace(throttle_time_ms=0, topics=[], results=[], responses=[])
    for kind in Kind:
        assert read_answer(kind, answer, ["a"]).elements["a"].certainty is Certainty.UNKNOWN


def test_two_elements_that_differ_say_nothing() -> None:
    """A topic with an error and a success is unknown; two equal elements count as one."""
    answer = SimpleNamespace(throttle_time_ms=0, results=[element("a", 0), element("a", 44), element("b", 0)] * 2)
    found = read_answer(Kind.GROW, answer, ["a", "b"]).elements
    assert found["a"].certainty is Certainty.UNKNOWN
    assert found["b"].certainty is Certainty.ACCEPTED


def test_deletions_are_read_by_id() -> None:
    """The name of an element is empty where the principal may not see the topic; the id is there."""
    topic_id = encode_topic_id(uuid.UUID(int=1))
    answer = SimpleNamespace(throttle_time_ms=0, responses=[element("", 29)])
    assert read_answer(Kind.DELETE, answer, [topic_id]).elements == {topic_id: Element(29)}


def test_deletions_name_ids_alone() -> None:
    """A name beside the id would be an error, or another topic."""
    request = DeleteTopicsRequest.decode(build_delete_topics([ID]).encode(version=6), version=6)
    assert [(each.name, encode_topic_id(each.topic_id)) for each in request.topics] == [(None, ID)]


def test_each_request_names_the_time_that_brokers_may_take() -> None:
    """Without it a broker would answer at once, and go on."""
    creation, growth = CreateTopic(((1, 2),), {"k": "v"}), AddPartitions(1, (1,), ((2,),), SAFE_ASSESSMENT)
    requests: list[Any] = [
        build_create_topics({"a": creation}),
        build_create_partitions({"a": growth}),
        build_delete_topics([ID]),
        build_delete_by_name(["a"]),
    ]
    assert [each.timeout_ms for each in requests] == [10_000] * 4
    assert [each.validate_only for each in requests[:2]] == [False, False]


def test_a_creation_has_lists_or_counts() -> None:
    """Kafka refuses both together; a topic that the brokers place has the counts alone."""
    lists, counts = CreateTopic(((1, 2), (2, 3)), {"k": "v"}), CreateTopic(((UNPLACED,) * 3,) * 2, {})
    request: Any = build_create_topics({"a": lists, "b": counts})
    assert [(each.num_partitions, each.replication_factor) for each in request.topics] == [(-1, -1), (2, 3)]
    assert [[one.broker_ids for one in each.assignments] for each in request.topics] == [[[1, 2], [2, 3]], []]
    assert [one.partition_index for one in request.topics[0].assignments] == [0, 1]
