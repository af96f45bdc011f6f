"""Tests of the chunks of a plan: sizes, order, throttle, and topics that are too large."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, encode_topic_id
from topiarist.adapters.kafka_admin.write.chunks import (
    MAX_CREATIONS,
    MAX_DELETIONS,
    MAX_RECORDS,
    MAX_TOPICS,
    ChunkQueue,
    TopicWrite,
    _delete_by_name,
    count_records,
    split_chunks,
    too_large_outcome,
)
from topiarist.adapters.kafka_admin.write.requests import Element
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from unit.adapters.kafka_admin.scripted_session import LOST, ScriptedSession, metadata, partition, reply

LIMITS = {"d": MAX_DELETIONS, "u": MAX_TOPICS, "c": MAX_CREATIONS}
"""The largest chunk of deletions, changes and creations, in the order in which a run sends them."""


def creation(name: str, partitions: int = 1, configs: int = 0) -> TopicPlan:
    """Return the plan of a new topic."""
    config = {f"key{each}": "1" for each in range(configs)}
    return TopicPlan(name, changes=(CreateTopic(((1,),) * partitions, config),))


def growth(name: str, partitions: int, configs: int = 0) -> TopicPlan:
    """Return the plan of a topic that grows by ``partitions``, and changes ``configs`` keys."""
    items = tuple(ConfigItem(f"key{each}", None, "1", SAFE_ASSESSMENT) for each in range(configs))
    changes = (UpdateConfig(items),) if items else ()
    return TopicPlan(name, changes=(*changes, AddPartitions(1, (1,), ((1,),) * partitions, SAFE_ASSESSMENT)))


def update(name: str, configs: int = 1) -> TopicPlan:
    """Return the plan of a topic that changes configs alone."""
    items = tuple(ConfigItem(f"key{each}", None, "1", SAFE_ASSESSMENT) for each in range(configs))
    return TopicPlan(name, changes=(UpdateConfig(items),))


def deletion(name: str) -> TopicPlan:
    """Return the plan of a deletion."""
    return TopicPlan(name, changes=(DeleteTopic(1, 1, SAFE_ASSESSMENT),))


def names(chunks: Sequence[Sequence[TopicPlan]]) -> list[list[str]]:
    """Return the topics of each chunk."""
    return [[plan.topic for plan in chunk] for chunk in chunks]


class Gate:
    """A throttle that lets ``room`` topics through after each wait, and counts the waits."""

    def __init__(self, room: int) -> None:
        self.room, self.left, self.waits = room, room, 0

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Return whether there is room."""
        self.left -= 1
        return self.left >= 0

    def wait(self) -> None:
        """Make room."""
        self.left, self.waits = self.room, self.waits + 1

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Ignore the outcome."""


def test_records_are_the_topic_its_configs_and_its_new_partitions() -> None:
    """Each topic counts one record, plus one for each config and each new partition."""
    assert count_records(creation("a", 3, 2)) >= 1 + 3 + 2
    assert count_records(growth("a", 4, 1)) == 1 + 4 + 1
    assert count_records(update("a", 2)) == 1 + 2
    assert count_records(TopicPlan("a", changes=(TakeOwnership(),))) == 1


@given(st.lists(st.tuples(st.sampled_from("cgud"), st.integers(1, 7_000)), max_size=700))
def test_chunks_hold_every_topic_once_within_the_limits(sizes: list[tuple[str, int]]) -> None:
    """Deletions come first, then changes, then creations, each alone and within its limits; a large topic is alone."""
    build = {"c": creation, "g": growth, "u": lambda name, size: update(name, size % 20 + 1)}
    plans = [
        deletion(f"t{index}") if kind == "d" else build[kind](f"t{index}", size)
        for index, (kind, size) in enumerate(sizes)
    ]
    chunks = list(split_chunks(plans))
    kinds = [{_kind(plan) for plan in chunk} for chunk in chunks]
    assert sorted(plan.topic for chunk in chunks for plan in chunk) == sorted(plan.topic for plan in plans)
    assert all(len(kind) == 1 for kind in kinds)
    assert kinds == sorted(kinds, key=lambda kind: list(LIMITS).index(min(kind)))
    for chunk, kind in zip(chunks, kinds, strict=True):
        assert len(chunk) <= LIMITS[min(kind)]
        assert len(chunk) == 1 or sum(map(count_records, chunk)) <= MAX_RECORDS


def _kind(plan: TopicPlan) -> str:
    classes = {type(change) for change in plan.changes}
    return "d" if DeleteTopic in classes else "c" if CreateTopic in classes else "u"


def test_a_thousand_creations_are_one_chunk() -> None:
    """The controller takes them in one batch of metadata; config changes are read again before the lease ends."""
    plans = [creation(f"c{index}", 3) for index in range(1_001)] + [update(f"u{index}") for index in range(201)]
    assert [len(chunk) for chunk in split_chunks(plans)] == [200, 1, 1_000, 1]


def test_a_topic_larger_than_a_chunk_is_alone() -> None:
    """A topic with more records than a chunk may have does not take others with it, and none is lost."""
    plans = [creation("a"), creation("large", 9_500), creation("b")]
    assert names(list(split_chunks(plans))) == [["a"], ["large"], ["b"]]


def test_topics_without_new_partitions_do_not_wait_for_the_throttle() -> None:
    """Configs are sent first; new partitions as the throttle lets them through; nothing waits without need."""
    gate = Gate(2)
    queue = ChunkQueue(gate, lambda: False)
    for plan in (creation("c0"), update("u"), creation("c1"), growth("g", 1), deletion("d")):
        queue.add(plan)
    assert names([queue.take()]) == [["d"]]
    assert names([queue.take()]) == [["u"]]
    assert names([queue.take()]) == [["c0", "c1"]]
    assert queue.take() == ()
    assert not queue.is_empty
    queue.wait()
    assert names([queue.take()]) == [["g"]]
    assert queue.is_empty
    assert gate.waits == 1


def test_requeued_topics_are_the_next_and_do_not_ask_the_throttle_again() -> None:
    """A topic that was let through once stays let through."""
    queue = ChunkQueue(Gate(1), lambda: False)
    for plan in (creation("a"), creation("b"), deletion("d")):
        queue.add(plan)
    queue.requeue(queue.take())
    assert [plan.topic for plan in queue.remaining()] == ["d", "a", "b"]
    queue.take()
    queue.requeue(queue.take())
    assert names([queue.take()]) == [["a"]]


def test_a_stopped_run_does_not_wait_for_the_throttle() -> None:
    """After a stop the throttle is not asked to wait."""
    gate = Gate(0)
    queue = ChunkQueue(gate, lambda: True)
    queue.add(creation("a"))
    queue.wait()
    assert gate.waits == 0


@pytest.mark.parametrize(
    ("plan", "is_refused"),
    [
        (creation("a", 9_999), False),
        (creation("a", 10_000), True),
        (creation("a", 9_990, 20), True),
        (growth("a", 10_000), False),
        (growth("a", 10_001), True),
        (growth("a", 9_990, 20), False),  # two requests
    ],
)
def test_a_request_beyond_10000_records_is_refused_with_the_number(plan: TopicPlan, is_refused: bool) -> None:
    """The limit is that of the controller for one request."""
    outcome = too_large_outcome(plan)
    assert (outcome is not None) is is_refused
    if outcome:
        assert (outcome.result, outcome.reason) == (Result.REFUSED, Reason.TOO_LARGE)
        assert "10,000" in outcome.message


PLANNED, OTHER = (uuid.UUID(int=number) for number in (1, 2))


def by_name(**topics: uuid.UUID | int) -> tuple[Any, dict[str, TopicWrite]]:
    """Return brokers that have these topics, or a code in their place, and a deletion of each by the planned id."""
    found = metadata({name: each if isinstance(each, int) else [partition(0, 1)] for name, each in topics.items()})
    for topic in found.topics:
        given = topics[topic.name]
        topic.topic_id = given if isinstance(given, uuid.UUID) else topic.topic_id

    def deleted(_broker: int, request: Any) -> Any:
        responses = [reply(name=name, error_code=0, error_message=None) for name in request.topic_names]
        return reply(throttle_time_ms=0, responses=responses)

    session = ScriptedSession({"Metadata": found, "DeleteTopics": deleted})
    session.versions["DeleteTopics"] = 5
    # Each topic has its own id in a plan; one id for all would be one key.
    ids = {name: encode_topic_id(PLANNED) if name == "same" else f"id of {name}" for name in topics}
    return session, {ids[name]: TopicWrite(deletion(name), ids[name]) for name in topics}


def test_a_deletion_by_name_names_only_topics_with_the_planned_id() -> None:
    """A recreated topic, a deleted one and a hidden one have their codes, and are not deleted."""
    session, writes = by_name(same=PLANNED, recreated=OTHER, gone=3, hidden=29)
    answer = _delete_by_name(session.any_broker(), writes)
    (request,) = (each.request for each in session.sent if each.name == "DeleteTopics")
    assert request.topic_names == ["same"]
    assert answer.elements == {
        encode_topic_id(PLANNED): Element(0),
        "id of recreated": Element(100),
        "id of gone": Element(3),
        "id of hidden": Element(29),
    }


def test_no_request_deletes_without_a_name() -> None:
    """Brokers take an empty list; it is not sent."""
    session, writes = by_name(recreated=OTHER)
    _delete_by_name(session.any_broker(), writes)
    assert session.names() == ["Metadata"]


def test_a_look_before_a_deletion_that_fails_has_deleted_nothing() -> None:
    """The connection broke before the deletion was sent: it may be sent again."""
    session, writes = by_name(same=PLANNED)
    session.script["Metadata"] = LOST
    with pytest.raises(Disconnected) as caught:
        _delete_by_name(session.any_broker(), writes)
    assert not caught.value.was_sent
