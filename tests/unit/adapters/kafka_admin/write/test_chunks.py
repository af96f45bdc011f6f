"""Tests of the chunks of a plan: sizes, order, throttle, and topics that are too large."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_cluster import Gate
from topiarist import throttle
from topiarist.adapters.kafka_admin.connection.connection import Disconnected, encode_topic_id
from topiarist.adapters.kafka_admin.write import chunks
from topiarist.adapters.kafka_admin.write.chunks import (
    MAX_CREATIONS,
    MAX_DELETIONS,
    MAX_RECORDS,
    MAX_TOPICS,
    ChunkQueue,
    ChunkRequests,
    TopicWrite,
    _delete_by_name,
    count_records,
    split_chunks,
    too_large_outcome,
)
from topiarist.adapters.kafka_admin.write.requests import Answer, Element, Kind
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Result
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
from unit.adapters.kafka_admin.scripted_session import (
    LOST,
    NOT_SENT,
    FakeTime,
    ScriptedSession,
    metadata,
    partition,
    reply,
)

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


def names(parts: Sequence[Sequence[TopicPlan]]) -> list[list[str]]:
    """Return the topics of each chunk."""
    return [[plan.topic for plan in chunk] for chunk in parts]


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
    parts = list(split_chunks(plans))
    kinds = [{_kind(plan) for plan in chunk} for chunk in parts]
    assert sorted(plan.topic for chunk in parts for plan in chunk) == sorted(plan.topic for plan in plans)
    assert all(len(kind) == 1 for kind in kinds)
    assert kinds == sorted(kinds, key=lambda kind: list(LIMITS).index(min(kind)))
    for chunk, kind in zip(parts, kinds, strict=True):
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
        return reply(throttle_time_ms=7, responses=responses)

    session = ScriptedSession({"Metadata": found, "DeleteTopics": deleted})
    session.versions["DeleteTopics"] = 5
    # Each topic has its own id in a plan; one id for all would be one key.
    ids = {name: encode_topic_id(PLANNED) if name == "same" else f"id of {name}" for name in topics}
    return session, {ids[name]: TopicWrite(deletion(name), ids[name]) for name in topics}


def test_a_deletion_by_name_names_only_topics_with_the_planned_id() -> None:
    """A recreated topic, a deleted one and a hidden one have their codes, and are not deleted."""
    session, writes = by_name(same=PLANNED, recreated=OTHER, gone=3, hidden=29)
    answer = _delete_by_name(session.any_broker(), writes)
    (sent,) = (each for each in session.sent if each.name == "DeleteTopics")
    assert (sent.request.topic_names, sent.timeout) == (["same"], 70.0)
    elements = {
        encode_topic_id(PLANNED): Element(0),
        "id of recreated": Element(100),
        "id of gone": Element(3),
        "id of hidden": Element(29),
    }
    assert answer == Answer(elements, 7)


def test_no_request_deletes_without_a_name() -> None:
    """Brokers take an empty list; it is not sent."""
    session, writes = by_name(recreated=OTHER)
    assert _delete_by_name(session.any_broker(), writes) == Answer({"id of recreated": Element(100)}, 0)
    assert session.names() == ["Metadata"]


def test_a_look_before_a_deletion_that_fails_has_deleted_nothing() -> None:
    """The connection broke before the deletion was sent: it may be sent again."""
    session, writes = by_name(same=PLANNED)
    session.script["Metadata"] = LOST
    with pytest.raises(Disconnected) as caught:
        _delete_by_name(session.any_broker(), writes)
    assert not caught.value.was_sent


# The requests of one chunk: what is sent again, and what each answer leaves for its topic.


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the requests."""
    clock = FakeTime(1000.0)
    for module in (chunks, throttle):
        monkeypatch.setattr(module, "time", clock)
    return clock


def answered(code: int, throttle_ms: int = 0) -> Any:
    """Return an answer to a creation or a change of the topic ``a``."""
    element = reply(error_code=code, error_message="why")
    named = {"topics": "name", "results": "name", "responses": "resource_name"}

    def answer(_broker: int, request: Any) -> Any:
        field = {"CreateTopicsRequest": "topics", "CreatePartitionsRequest": "results"}.get(request.name, "responses")
        found = reply(**vars(element), **{named[field]: "a"})
        return reply(throttle_time_ms=throttle_ms, **{field: [found]})

    return answer


def send(
    script: dict[str, Any], plan: TopicPlan, stop: Callable[[], bool] = lambda: False
) -> tuple[TopicWrite, ScriptedSession, ChunkRequests]:
    """Send the requests of a plan; return the topic afterwards, the session, and the chunk."""
    session, write = ScriptedSession(script), TopicWrite(plan, None)
    requests = ChunkRequests(session, lambda: None, stop)  # type: ignore[arg-type]
    requests.send([write])
    return write, session, requests


@pytest.mark.parametrize(
    ("codes", "forgotten", "problem"),
    [
        ([0], 0, None),
        ([41, 0], 1, None),
        ([41, 41], 1, (Element(41, "why"), Kind.CREATE)),
        ([41, 44], 1, (Element(44, "why"), Kind.CREATE)),
    ],
)
def test_a_broker_that_is_not_the_controller(
    clock: FakeTime, codes: list[int], forgotten: int, problem: tuple[Element, Kind] | None
) -> None:
    """The controller is looked up once more; a second one that is none is the answer."""
    write, session, _ = send({"CreateTopics": [*map(answered, codes)]}, creation("a"))
    assert (write.problem, write.is_touched) == (problem, problem is None)
    assert (session.names(), session.forgotten) == (["CreateTopics"] * len(codes), forgotten)
    assert {(each.broker, each.timeout) for each in session.sent} == {(3, 70.0)}
    assert write.visible_by == (0.0 if problem else clock.current + 5)
    assert session.changed_at == clock.current


@pytest.mark.parametrize(
    ("throttle_ms", "waited", "is_left"), [(500, 0.5, False), (0, 0.1, False), (10_000, 10, False), (10_001, 0, True)]
)
def test_a_quota_is_waited_for(clock: FakeTime, throttle_ms: int, waited: float, is_left: bool) -> None:
    """The topic is sent again after the time that the broker asks for, if this chunk has so much; else it is left."""
    began, script = clock.current, {"CreateTopics": [answered(89, throttle_ms), answered(0)]}
    write, session, requests = send(script, creation("a"))
    assert sum(clock.slept) == pytest.approx(waited)
    assert (write.is_throttled, len(session.sent)) == (is_left, 1 if is_left else 2)
    assert requests.quota_reset_at == pytest.approx(began + max(throttle_ms, 100) / 1000)


@pytest.mark.usefixtures("clock")
def test_a_stopped_run_does_not_wait_for_a_quota() -> None:
    """The topic is left out."""
    write, session, _ = send({"CreateTopics": answered(89, 500)}, creation("a"), stop=lambda: True)
    assert (write.is_throttled, write.is_touched, len(session.sent)) == (True, False, 1)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("answer", "problem", "late_until"),
    [(LOST, Element(None, "the answer was lost"), 1070.0), (answered(7), Element(7, "why"), 1070.0)],
)
def test_a_request_that_may_be_made_late(answer: Any, problem: Element, late_until: float) -> None:
    """It is not repeated; until when it may be made is known."""
    write, session, _ = send({"CreateTopics": answer}, creation("a"))
    assert (write.problem, write.is_touched, write.late_until) == ((problem, Kind.CREATE), True, late_until)
    assert len(session.sent) == 1


def test_a_request_that_cannot_be_sent() -> None:
    """A second attempt is the last one, and the topics are as they were."""
    write = TopicWrite(creation("a"), None)
    session = ScriptedSession({"CreateTopics": NOT_SENT})
    for _ in range(2):
        with pytest.raises(TopiaristError) as caught:
            ChunkRequests(session, lambda: None, lambda: False).send([write])  # type: ignore[arg-type]
        assert caught.value.message.startswith("cannot send to the controller: ")
        assert (caught.value.reason, caught.value.hint) == (Reason.UNREACHABLE, "run the same command again")
        assert (write.is_touched, session.forgotten) == (False, 1)
        session.unreachable, session.forgotten = {3}, 0
    assert session.names() == ["CreateTopics"] * 2


def test_growth_waits_for_configs() -> None:
    """It is sent after them, and not at all if they were refused; a refused growth leaves the topic changed."""
    script = {"IncrementalAlterConfigs": answered(0), "CreatePartitions": answered(37)}
    write, session, _ = send(script, growth("a", 1, 1))
    assert session.names() == ["IncrementalAlterConfigs", "CreatePartitions"]
    assert (write.problem, write.is_touched) == ((Element(37, "why"), Kind.GROW), True)
    write, session, _ = send({**script, "IncrementalAlterConfigs": answered(40)}, growth("a", 1, 1))
    assert session.names() == ["IncrementalAlterConfigs"]
    assert (write.problem, write.is_touched) == ((Element(40, "why"), Kind.CONFIGURE), False)
    write, session, _ = send(script, growth("a", 1))
    assert (session.names(), write.is_touched) == (["CreatePartitions"], False)
