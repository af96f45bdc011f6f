"""Computed sizes: bytes of an assignment, and the space of changes in ZooKeeper's lists."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from support.builders import plan, refusal_reasons, spec, state, topic
from topiarist.adapters.size_limits import (
    ENTRY_WEIGHTS,
    MAX_NOTIFICATIONS,
    NOTIFICATION_BYTES,
    REQUEST_LIMITS,
    ListSizes,
    build_list_limits,
    list_sizes_of,
    measure_notifications,
)
from topiarist.kafka.types import Replicas
from topiarist.planning.planner import enforce_size_limits, measure_partitions

_LISTS = st.lists(st.lists(st.integers(0, 5000), max_size=5).map(tuple), max_size=30).map(tuple)


@given(_LISTS, st.integers(0, 20000))
def test_the_size_of_an_assignment_is_that_of_its_json(replicas: tuple[Replicas, ...], first: int) -> None:
    """The size is exact: each list with its partition id and one comma each, without the braces."""
    text = json.dumps({str(first + index): list(each) for index, each in enumerate(replicas)}, separators=(",", ":"))
    assert measure_partitions(ENTRY_WEIGHTS, replicas, first) == (len(text) - 1 if replicas else 0)


def test_a_notification_is_as_long_as_its_name_in_a_reply() -> None:
    """A notification takes four bytes of length plus its sequential name."""
    assert len("config_change_" + "0" * 10) + 4 == NOTIFICATION_BYTES


def test_room_is_taken_by_those_that_fit_only() -> None:
    """A long name that does not fit leaves space for a later short one."""
    wanted = plan(state(), spec("a" * 100), spec("b"), spec("c"))
    kept, warnings = enforce_size_limits(wanted.topics, build_list_limits(ListSizes(topics_bytes=80, max_bytes=100)))
    assert [refusal_reasons(each) for each in kept] == [["TooLarge"], [], []]
    assert kept[0].refusals[0].own_message == "the list of topics of the cluster has no room for it"
    assert warnings == ["the list of topics: 90 of 100 bytes that a broker can read in one reply"]


def test_there_are_never_more_than_so_many_notifications() -> None:
    """The number of notifications is limited, including those of other clients; only the excess one is refused."""
    there = [topic(name, config={"retention.ms": "1"}) for name in ("a", "b", "c")]
    wishes = [spec("a", config={"retention.ms": 2}), spec("b", config={"retention.ms": 2}), spec("c", partitions=9)]
    wanted = plan(state(*there), *wishes)
    room = build_list_limits(ListSizes(0, measure_notifications(MAX_NOTIFICATIONS - 1), 10**9))
    kept, _ = enforce_size_limits(wanted.topics, room)
    assert [refusal_reasons(each) for each in kept] == [[], ["BudgetExceeded"], []]
    assert kept[2].is_actionable
    assert kept[1].refusals[-1].message == "the cluster has 10,000 config notifications already, which is the limit"


@given(st.tuples(st.integers(0), st.integers(0), st.integers(1)).map(lambda sizes: ListSizes(*sizes)))
def test_a_snapshot_needs_the_sizes_only(sizes: ListSizes) -> None:
    """The sizes can be told from the limits, and the limits through brokers from both."""
    assert list_sizes_of(build_list_limits(sizes)) == sizes
    assert list_sizes_of(REQUEST_LIMITS) is None
    assert list_sizes_of(()) is None


def test_through_the_brokers_only_one_request_counts() -> None:
    """A topic of 10,000 records does not fit, with itself and its configs; two topics that fit share nothing."""
    whole = [spec(name, partitions=9_998, replicationFactor=1, config={"retention.ms": 1}) for name in ("a", "b")]
    large = spec("large", partitions=9_999, replicationFactor=1, config={"retention.ms": 1})
    found = plan(state(bypasses_brokers=False, size_limits=REQUEST_LIMITS), *whole, large)
    assert [refusal_reasons(each) for each in found.topics] == [[], [], ["TooLarge"]]
    assert found.topics[2].refusals[0].message == (
        "its request needs 10,001 metadata records; a controller writes at most 10,000 for one request"
    )
    assert found.topics[2].refusals[0].own_message == ""
    assert found.warnings == ()
