"""Inference of placements: recognizes the results of ``assign`` and ``expand``, and names reassigned partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.kafka.placement import (
    InferredPlacement,
    assign_replicas,
    expand_assignment,
    infer_nearest_placement,
    infer_placement,
)
from topiarist.kafka.types import Broker, Replicas
from unit.kafka.test_placement import FIVE, RACKED, clusters


def lists_of(found: InferredPlacement | None, count: int, width: int) -> tuple[Replicas, ...]:
    """Return the lists of an inferred placement up to its first expansion."""
    assert found is not None
    last = found.expansion_starts[0] if found.expansion_starts else count
    return assign_replicas(found.brokers, last, replication_factor=width, start=found.start, shift=found.shift)


@given(clusters(), st.data())
def test_a_placement_is_inferred(brokers: tuple[Broker, ...], data: st.DataObject) -> None:
    """An inferred placement gives the same lists; with few partitions, several starts and shifts match."""
    width, count = data.draw(st.integers(1, len(brokers))), data.draw(st.integers(1, 60))
    start, shift = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    lists = assign_replicas(brokers, count, replication_factor=width, start=start, shift=shift)
    found = infer_placement(brokers, lists)
    assert found is not None
    assert not found.expansion_starts
    assert not found.differing_partitions
    assert lists_of(found, count, width) == lists
    assert found.shift <= shift
    assert found.start == start % len(brokers)


@given(clusters(), st.data())
def test_expansions_are_inferred(brokers: tuple[Broker, ...], data: st.DataObject) -> None:
    """A topic that was created and grown several times is recognized, and its inference gives the same lists."""
    width, count = data.draw(st.integers(1, len(brokers))), data.draw(st.integers(1, 30))
    lists = assign_replicas(
        brokers,
        count,
        replication_factor=width,
        start=data.draw(st.integers(0, 40)),
        shift=data.draw(st.integers(0, 40)),
    )
    steps = data.draw(st.lists(st.integers(1, 20), max_size=4))
    for more in steps:
        lists += expand_assignment(brokers, dict(enumerate(lists)), len(lists) + more)
    found = infer_placement(brokers, lists)
    assert found is not None
    assert not found.differing_partitions
    assert len(found.expansion_starts) <= len(steps)
    assert again(found, brokers, lists) == lists


def again(found: InferredPlacement, brokers: Sequence[Broker], lists: tuple[Replicas, ...]) -> tuple[Replicas, ...]:
    """Return the lists that the inferred creation and expansions give."""
    made = lists_of(found, len(lists), len(lists[0]))
    for total in (*found.expansion_starts[1:], len(lists)) if found.expansion_starts else ():
        made += expand_assignment(brokers, dict(enumerate(made)), total)
    return made


@given(clusters(), st.data())
def test_lists_that_were_moved_since_are_named(brokers: tuple[Broker, ...], data: st.DataObject) -> None:
    """At most the reassigned partitions differ, and exactly those that differ from the inferred placement are named."""
    width, count = data.draw(st.integers(1, len(brokers))), data.draw(st.integers(3, 40))
    placed = assign_replicas(brokers, count, replication_factor=width, start=data.draw(st.integers(0, 40)), shift=3)
    moved = data.draw(st.sets(st.integers(0, count - 1), max_size=(count - 1) // 2))
    ids = [broker.id for broker in brokers]
    lists = tuple(
        tuple(data.draw(st.permutations(ids))[:width]) if at in moved else one for at, one in enumerate(placed)
    )
    found = infer_nearest_placement(brokers, lists)
    if found is not None and not found.expansion_starts:
        made = lists_of(found, count, width)
        assert found.differing_partitions == tuple(at for at in range(count) if made[at] != lists[at])
    if count >= 4 * len(moved) + 4 * len(brokers):
        assert found is not None
        assert len(found.differing_partitions) <= len(moved)


def test_two_partitions_that_were_moved() -> None:
    """Two reassigned partitions are named, and the placement of all other partitions is unchanged."""
    placed = list(assign_replicas(FIVE, 12, replication_factor=3, start=2, shift=1))
    placed[3], placed[7] = (4, 0, 2), (0, 1, 2)
    found = infer_nearest_placement(FIVE, placed)
    assert found is not None
    assert (found.first_broker, found.start, found.shift, found.differing_partitions) == (2, 2, 1, (3, 7))
    assert infer_placement(FIVE, placed) is None


def test_a_topic_that_grew_after_brokers_came() -> None:
    """The creation is inferred over the brokers that led at that time, the expansion over the present brokers."""
    lists = assign_replicas(FIVE[:3], 6, replication_factor=2, start=1, shift=0)
    lists += expand_assignment(FIVE, dict(enumerate(lists)), 12)
    found = infer_placement(FIVE, lists)
    assert found is not None
    assert (found.order, found.start, found.shift, found.expansion_starts) == ((0, 1, 2), 1, 0, (6,))


def test_brokers_that_have_gone() -> None:
    """A placement over brokers that are no longer registered is inferred over the brokers in the lists."""
    lists = assign_replicas(FIVE, 5, replication_factor=3, start=2, shift=1)
    found = infer_placement(FIVE[1:], lists)
    assert found is not None
    assert found.order == (0, 1, 2, 3, 4)


def test_brokers_that_get_no_new_replicas() -> None:
    """Excluded brokers are removed before the brokers in the lists are counted."""
    rest = tuple(broker for broker in FIVE if broker.id != 1)
    lists = assign_replicas(rest, 3, replication_factor=2, start=0, shift=0)
    assert lists == ((0, 2), (2, 3), (3, 4))
    found = infer_placement(FIVE, lists, excluded={1})
    assert found is not None
    assert found.order == (0, 2, 3, 4)


def test_brokers_that_were_not_sorted() -> None:
    """A placement over unsorted brokers is inferred by the order of the leaders, because a broker that serves a create
    request does not sort.
    """
    order = [Broker(broker) for broker in (1, 0, 4, 2, 3)]
    lists = assign_replicas(order, 11, replication_factor=3, start=3, shift=2)
    found = infer_placement(FIVE, lists)
    assert found is not None
    assert (found.order, found.first_broker, found.shift) == ((0, 4, 2, 3, 1), 2, 2)


def test_racks_that_did_not_count() -> None:
    """A topic that was placed without racks is recognized as not rack-aware."""
    bare = [Broker(broker.id) for broker in RACKED]
    found = infer_placement(RACKED, assign_replicas(bare, 8, replication_factor=3, start=1, shift=0))
    assert found is not None
    assert not found.rack_aware
    found = infer_placement(RACKED, assign_replicas(RACKED, 8, replication_factor=3, start=1, shift=0))
    assert found is not None
    assert found.rack_aware
    assert found.order == (0, 3, 1, 5, 4, 2)


def test_racks_on_some_brokers_only() -> None:
    """With racks on some brokers only, only placements without racks are inferred."""
    brokers = (*RACKED[:5], Broker(5))
    bare = [Broker(broker.id) for broker in RACKED]
    found = infer_placement(brokers, assign_replicas(bare, 8, replication_factor=3, start=1, shift=0))
    assert found is not None
    assert not found.rack_aware


def test_lists_of_different_width() -> None:
    """Each list compares at its own width, so a partial increase of the replication factor is recognized."""
    narrow = assign_replicas(RACKED, 9, replication_factor=2, start=4, shift=1)
    wide = assign_replicas(RACKED, 9, replication_factor=3, start=4, shift=1)
    found = infer_placement(RACKED, (*wide[:4], *narrow[4:]))
    assert found is not None
    assert (found.start, found.shift) == (4, 1)


@pytest.mark.parametrize(
    "lists", [(), ((),), ((0, 1), ()), ((0, 0), (1, 1), (2, 2)), ((7, 8, 9), (7, 9, 8), (8, 9, 7))]
)
def test_what_kafka_did_not_place(lists: tuple[Replicas, ...]) -> None:
    """No partitions, no replicas, a duplicate broker and manual lists give no placement and no error."""
    assert infer_placement(FIVE, lists) is None


def test_lists_by_hand_have_no_nearest_placement() -> None:
    """Lists that differ from every placement in half of the partitions have no nearest placement."""
    lists = [(0, 1, 2), (0, 1, 2), (0, 2, 1), (3, 2, 1), (0, 1, 2), (4, 1, 2)]
    assert infer_nearest_placement(FIVE, lists) is None


def test_expansions_do_not_explain_what_was_moved() -> None:
    """Lists without a shift after each round are not Kafka's, although many expansions would match most of them."""
    lists = [tuple(((at + step) % 5) for step in range(3)) for at in range(30)]
    assert infer_nearest_placement(FIVE, lists) is None


def test_the_nearest_placement_where_partition_0_has_no_replicas() -> None:
    """A topic with an empty partition 0, which Kafka does not expand, still has a nearest placement."""
    placed = assign_replicas(FIVE, 9, replication_factor=3, start=2, shift=1)
    found = infer_nearest_placement(FIVE, ((), *placed[1:]))
    assert found is not None
    assert (found.start, found.shift, found.differing_partitions) == (2, 1, (0,))


def test_moved_partitions_of_a_topic_that_grew() -> None:
    """Expansions are recognized in a topic with reassigned partitions."""
    lists = list(assign_replicas(FIVE, 9, replication_factor=3, start=2, shift=0))
    lists += expand_assignment(FIVE, dict(enumerate(lists)), 18)
    lists[4] = (0, 4, 3)
    found = infer_nearest_placement(FIVE, lists)
    assert found is not None
    assert (found.start, found.shift, found.expansion_starts, found.differing_partitions) == (2, 0, (9,), (4,))
