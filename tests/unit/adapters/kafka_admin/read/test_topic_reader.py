"""The state of the plan in place of the first look: only while it is new, complete, and no other run has written."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import state, topic
from topiarist.adapters.kafka_admin.read import topic_reader
from topiarist.adapters.kafka_admin.read.topic_reader import MAX_AGE_S, FirstLook, Look, RecentState
from topiarist.kafka.types import KnownConfig
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError
from unit.adapters.kafka_admin.scripted_session import FakeTime, reply

NUMBER = 7
OWNED = replace(topic("orders", ((1, 2),)), record=OwnershipRecord("team"), record_valid=True, modified_externally=True)
READ = state(OWNED, topic("other", ((1, 2),)), broker_defaults={"log.retention.ms": "5"}, min_version=(3, 9))
NEW_LOOK = Look({}, {}, {}, (4, 0))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the module."""
    clock = FakeTime()
    monkeypatch.setattr(topic_reader, "time", clock)
    return clock


def recent(read: ClusterState = READ, *, age: float = 0.0) -> RecentState:
    """Return a state after commit 7 with a read that began some seconds ago."""
    return RecentState(read, NUMBER, FakeTime().now() - age)


def test_the_topics_are_those_of_the_state_without_their_records() -> None:
    """Records are read with the fence, so a look has none; a topic that does not exist is None."""
    found = recent().look(["orders", "missing"], NUMBER)
    assert found
    plain = replace(OWNED, record=None, record_valid=False, modified_externally=False)
    assert found.topics == {"orders": plain, "missing": None}
    assert found.brokers == {broker.id: broker for broker in READ.brokers}
    assert (found.broker_defaults, found.min_version) == ({"log.retention.ms": "5"}, (3, 9))


@pytest.mark.parametrize(
    ("fields", "number", "age", "is_used"),
    [
        ({}, NUMBER, 0.0, True),
        ({}, NUMBER, MAX_AGE_S - 1, True),
        ({}, NUMBER, MAX_AGE_S, False),
        ({}, NUMBER + 1, 0.0, False),
        ({}, NUMBER - 1, 0.0, False),
        ({"topic_errors": {"orders": ReadError("topic orders", "hidden")}}, NUMBER, 0.0, False),
        ({"reassigning_topics": frozenset({"orders"})}, NUMBER, 0.0, False),
        ({"topic_errors": {"third": ReadError("topic third", "hidden")}}, NUMBER, 0.0, True),
        ({"reassigning_topics": frozenset({"third"})}, NUMBER, 0.0, True),
    ],
)
def test_when_a_state_stands_for_a_look(fields: dict[str, Any], number: int, age: float, is_used: bool) -> None:
    """Not after ten seconds or another commit, and not for a topic that was not read or is being reassigned."""
    read = replace(READ, **fields)
    assert (recent(read, age=age).look(["other", "orders"], number) is not None) is is_used
    assert recent(age=age).is_recent is (age < MAX_AGE_S)


@pytest.mark.parametrize(("epoch", "found"), [(0, None), (3, 3)])
def test_the_epoch_of_the_controller(epoch: int, found: int | None) -> None:
    """Zero is that of a controller that did not tell."""
    assert recent(replace(READ, controller_epoch=epoch)).leader_epoch == found


@pytest.mark.parametrize(
    ("has_state", "number", "is_read"), [(True, NUMBER, False), (True, NUMBER + 1, True), (False, NUMBER, True)]
)
def test_the_first_look(has_state: bool, number: int, is_read: bool) -> None:
    """The brokers are looked at if the state cannot stand for it; every other look is one at the brokers."""
    asked: list[Any] = []

    def look(names: Any) -> Look:
        asked.append(names)
        return NEW_LOOK

    reader: Any = reply(look=look, look_again=look)
    first = FirstLook(reader, recent() if has_state else None, lambda: number)
    found = first.look_first(["orders"])
    assert (asked, found is NEW_LOOK) == ([["orders"]] if is_read else [], is_read)
    assert (first.look(["a"]), first.look_again({"b": None})) == (NEW_LOOK, NEW_LOOK)
    assert asked[-2:] == [["a"], {"b": None}]


def test_defaults_that_brokers_describe_and_those_that_are_set() -> None:
    """The dynamic defaults of the cluster are used before those that the brokers describe for a topic."""
    described = {"retention.ms": KnownConfig("LONG", "9"), "segment.ms": KnownConfig("LONG", "8")}
    found = recent(replace(READ, known_configs=described)).look(["orders"], NUMBER)
    assert found
    assert found.broker_defaults == {"log.retention.ms": "5", "log.roll.ms": "8"}
