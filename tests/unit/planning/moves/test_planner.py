"""Where replicas go: the invariants of raising, lowering, draining and rack repair, on any brokers and lists."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topiarist.kafka.placement import AssignmentError, assign_replicas, expand_assignment, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.planning.moves.planner import (
    RaiseMethod,
    ReplicaPicker,
    drain,
    kafka_bounds,
    lower_factor,
    raise_factor,
    repair_racks,
    spread,
)
from vectors.move_kinds import is_uneven

Lists = tuple[Replicas, ...]


@st.composite
def brokers_and_lists(draw: st.DrawFn, *, min_width: int = 1) -> tuple[tuple[Broker, ...], Lists]:
    """Brokers with or without racks, and lists of any brokers of at least this width."""
    count = draw(st.integers(min_width, 7))
    racks = draw(st.one_of(st.none(), st.lists(st.sampled_from("abcd"), min_size=count, max_size=count)))
    brokers = tuple(Broker(id_, racks[id_ - 1] if racks else None) for id_ in range(1, count + 1))
    one = st.permutations(range(1, count + 1)).flatmap(
        lambda ids: st.integers(min_width, count).map(lambda width: tuple(ids[:width]))
    )
    return brokers, tuple(draw(st.lists(one, min_size=1, max_size=8)))


def make_picker(brokers: tuple[Broker, ...], lists: Lists, without: Any = ()) -> ReplicaPicker:
    """Return a picker for a cluster that has only these lists."""
    picker = ReplicaPicker(brokers, without, Counter(lists))
    picker.begin_topic(lists)
    return picker


@given(brokers_and_lists(), st.integers(1, 7))
def test_a_raised_list_begins_with_the_list_before(cluster: tuple[tuple[Broker, ...], Lists], factor: int) -> None:
    """Nothing moves, no broker is twice in a list, and each new replica brings a rack if one can be had."""
    brokers, lists = cluster
    assume(factor <= len(brokers))
    picker = make_picker(brokers, lists)
    for before, after in zip(lists, raise_factor(lists, factor, picker)[0], strict=True):
        assert after[: len(before)] == before
        assert len(after) == len(set(after)) == max(len(before), factor)
        possible = min(len(after), picker.count_racks(broker.id for broker in brokers))
        added = len(after) - len(before)
        assert picker.count_racks(after) == max(
            picker.count_racks(before), min(possible, picker.count_racks(before) + added)
        )


@given(brokers_and_lists(), st.integers(1, 7))
def test_a_lowered_list_keeps_its_leader_its_order_and_as_many_racks_as_it_can(
    cluster: tuple[tuple[Broker, ...], Lists], factor: int
) -> None:
    """The first replica stays, the others in their order, with the most racks that so few replicas can have."""
    brokers, lists = cluster
    picker = make_picker(brokers, lists)
    for before, after in zip(lists, lower_factor(lists, factor, picker), strict=True):
        assert after[0] == before[0]
        assert after == tuple(broker for broker in before if broker in after)
        assert len(after) == min(len(before), factor)
        assert picker.count_racks(after) == min(len(after), picker.count_racks(before))


@given(brokers_and_lists(), st.integers(1, 7))
def test_raised_and_lowered_again_is_as_before(cluster: tuple[tuple[Broker, ...], Lists], factor: int) -> None:
    """Lists with right racks come back."""
    brokers, lists = cluster
    width = len(lists[0])
    lists = tuple(replicas for replicas in lists if len(replicas) == width)
    picker = make_picker(brokers, lists)
    assume(width <= factor <= len(brokers))
    assume(not any(picker.lacks_rack(replicas) for replicas in lists))
    raised, _ = raise_factor(lists, factor, picker)
    assert lower_factor(raised, width, picker) == lists


@given(
    st.integers(2, 9),
    st.integers(2, 4),
    st.integers(1, 30),
    st.integers(0, 40),
    st.integers(0, 40),
    st.data(),
)
def test_a_raise_continues_the_sequence_of_kafka_wherever_it_was_interrupted(
    count: int, width: int, partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    """The lists that Kafka would have made at the higher factor, also if some have it already."""
    assume(width < count)
    racks = data.draw(st.sampled_from([None, "ab", "abc"]))
    brokers = tuple(Broker(id_, racks[id_ % len(racks)] if racks else None) for id_ in range(count))
    ordered = prepare_brokers(brokers, "enforced")
    before, after = (
        assign_replicas(ordered, partitions, replication_factor=factor, start=start, shift=shift)
        for factor in (width, width + 1)
    )
    done = data.draw(st.sets(st.integers(0, partitions - 1)))
    assume(len(done) < partitions)
    lists = tuple(after[at] if at in done else before[at] for at in range(partitions))
    found, method = raise_factor(
        lists, width + 1, make_picker(brokers, lists), start_and_shift=(start % count, shift % count)
    )
    assert (found, method) == (after, RaiseMethod.SEQUENCE)
    # Without the topic's start and shift they are inferred; several shifts may fit so few lists.
    found, method = raise_factor(lists, width + 1, make_picker(brokers, lists))
    assert method is RaiseMethod.SEQUENCE
    assert all(new[: len(old)] == old for old, new in zip(lists, found, strict=True))


@given(brokers_and_lists(), st.sets(st.integers(1, 7), max_size=4))
def test_a_drain_copies_what_is_on_the_drained_brokers_and_nothing_else(
    cluster: tuple[tuple[Broker, ...], Lists], drained: set[int]
) -> None:
    """Other positions stay, drained brokers hold nothing, and lists have as many racks as can be had."""
    brokers, lists = cluster
    left = [broker.id for broker in brokers if broker.id not in drained]
    picker = make_picker(brokers, lists, drained)
    if any(len(replicas) > len(left) and drained.intersection(replicas) for replicas in lists):
        with pytest.raises(AssignmentError, match="can take replicas"):
            drain(lists, drained, picker)
        assert picker.load() == make_picker(brokers, lists).load()
        return
    for before, after in zip(lists, drain(lists, drained, picker), strict=True):
        assert len(set(after)) == len(before)
        assert drained.isdisjoint(after)
        assert all(new == old for old, new in zip(before, after, strict=True) if old not in drained)
        kept = [broker for broker in before if broker not in drained]
        possible = picker.count_racks(kept) + len(before) - len(kept)
        assert picker.count_racks(after) == min(possible, picker.count_racks([*kept, *left]))
    assert all(picker.load()[broker.id].replicas == 0 for broker in brokers if broker.id in drained)


@given(brokers_and_lists(min_width=2), st.sets(st.integers(1, 7), max_size=3))
def test_a_rack_repair_makes_the_fewest_copies_and_keeps_leaders(
    cluster: tuple[tuple[Broker, ...], Lists], without: set[int]
) -> None:
    """One copy for each rack that a list lacks, and nothing more to do afterwards."""
    brokers, lists = cluster
    picker = make_picker(brokers, lists, without)
    repaired = repair_racks(lists, picker)
    for before, after in zip(lists, repaired, strict=True):
        assert after[0] == before[0]
        assert len(set(after)) == len(before)
        copied = set(after) - set(before)
        assert without.isdisjoint(copied)
        assert len(copied) == picker.count_available_racks(before) - picker.count_racks(before)
    assert repair_racks(repaired, picker) == repaired


@given(brokers_and_lists(), st.integers(1, 7), st.sets(st.integers(1, 7), max_size=2))
def test_the_counts_of_the_picker_are_those_of_the_lists(
    cluster: tuple[tuple[Broker, ...], Lists], factor: int, drained: set[int]
) -> None:
    """After a drain, a repair, another factor and a spread the counts are what a new count of the lists gives."""
    brokers, lists = cluster
    picker = make_picker(brokers, lists, drained)
    try:
        lists = repair_racks(drain(lists, drained, picker), picker)
        lists = lower_factor(raise_factor(lists, factor, picker)[0], factor, picker)
        lists = spread(lists, picker, within_one=True)
    except AssignmentError:
        return
    assert picker.load() == make_picker(brokers, lists).load()


@pytest.mark.parametrize("factor", [4, 9])
def test_too_few_brokers_are_an_error_with_both_numbers(factor: int) -> None:
    """The error names the replicas that are wanted and the brokers that can take any."""
    lists = ((1, 2),)
    picker = make_picker((Broker(1), Broker(2), Broker(3), Broker(4)), lists, {4})
    with pytest.raises(AssignmentError, match=f"found {factor} replicas for one partition, but 3 brokers can take"):
        raise_factor(lists, factor, picker)


@st.composite
def small_topics(draw: st.DrawFn) -> tuple[ReplicaPicker, Lists]:
    """A topic so small that all its spreads can be tried."""
    count = draw(st.integers(2, 4))
    width = draw(st.integers(1, min(count, 2)))
    racks = draw(st.one_of(st.none(), st.lists(st.sampled_from("abc"), min_size=count, max_size=count)))
    brokers = [Broker(id_, racks[id_] if racks else None) for id_ in range(count)]
    one = st.permutations(range(count)).map(lambda ids: tuple(ids[:width]))
    return ReplicaPicker(brokers), tuple(draw(st.lists(one, min_size=1, max_size=4)))


def held_by(picker: ReplicaPicker, lists: Lists) -> list[int]:
    """Return the number of replicas of each broker."""
    counts = Counter(broker for replicas in lists for broker in replicas)
    return [counts[broker.id] for broker in picker.takers]


def unevenness(picker: ReplicaPicker, lists: Lists) -> int:
    """Return the sum of squares, which is smaller the more even the counts are."""
    return sum(count * count for count in held_by(picker, lists))


def copies(before: Lists, after: Lists) -> int:
    """Return the number of replicas that are copied."""
    return sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True))


@given(small_topics())
def test_no_other_spread_is_more_even_or_as_even_with_fewer_copies(topic: tuple[ReplicaPicker, Lists]) -> None:
    """The result is the best of all lists that keep the number of racks of each partition."""
    picker, lists = topic
    brokers = [broker.id for broker in picker.takers]
    choices = [
        [ids for ids in combinations(brokers, len(replicas)) if picker.count_racks(ids) >= picker.count_racks(replicas)]
        for replicas in lists
    ]
    best = min((unevenness(picker, found), copies(lists, found)) for found in product(*choices))
    after = spread(lists, picker, within_one=True)
    assert (unevenness(picker, after), copies(lists, after)) == best
    assert spread(after, picker, within_one=True) == after


@st.composite
def topics(draw: st.DrawFn) -> tuple[ReplicaPicker, Lists]:
    """A topic with any lists of one width."""
    count = draw(st.integers(3, 8))
    width = draw(st.integers(1, 3))
    racked = draw(st.booleans())
    brokers = [Broker(id_, "abc"[id_ % 3] if racked else None) for id_ in range(count)]
    without = draw(st.sets(st.integers(0, count - 1), max_size=count - 3))
    one = st.permutations(range(count)).map(lambda ids: tuple(ids[:width]))
    return ReplicaPicker(brokers, without), tuple(draw(st.lists(one, min_size=1, max_size=20)))


@given(topics(), st.booleans())
def test_a_spread_keeps_every_list_legal_and_brokers_without_new_replicas(
    topic: tuple[ReplicaPicker, Lists], within_one: bool
) -> None:
    """Lists keep their length and racks; a broker that takes no replicas neither gets nor gives one."""
    picker, lists = topic
    taking = {broker.id for broker in picker.takers}
    for before, after in zip(lists, spread(lists, picker, within_one=within_one), strict=True):
        assert len(set(after)) == len(before)
        assert picker.count_racks(after) >= picker.count_racks(before)
        assert set(before) - taking == set(after) - taking


@given(topics(), st.data())
def test_a_spread_that_was_interrupted_ends_as_even_with_no_more_copies(
    topic: tuple[ReplicaPicker, Lists], data: st.DataObject
) -> None:
    """Some partitions are moved, the rest is planned again: as even as without the interruption.

    With racks the shortest chains may differ after an interruption: 2 of 30,000 random topics then took one or two
    copies more.
    """
    picker, lists = topic
    whole = spread(lists, picker, within_one=True)
    done = data.draw(st.sets(st.integers(0, len(lists) - 1)))
    half = tuple(whole[at] if at in done else lists[at] for at in range(len(lists)))
    again = spread(half, picker, within_one=True)
    assert unevenness(picker, again) <= unevenness(picker, whole)
    if all(broker.rack is None for broker in picker.takers):
        assert copies(lists, half) + copies(half, again) <= copies(lists, whole)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 40), st.integers(0, 12), st.integers(0, 12))
def test_what_kafka_places_is_never_uneven(count: int, width: int, partitions: int, start: int, shift: int) -> None:
    """Without racks, every placement of Kafka is within the bounds, so it is not spread."""
    brokers = [Broker(id_) for id_ in range(count)]
    lists = assign_replicas(brokers, partitions, replication_factor=min(width, count), start=start % count, shift=shift)
    picker = ReplicaPicker(brokers)
    assert not is_uneven(lists, picker)
    assert copies(lists, spread(lists, picker)) == 0


def test_a_new_broker_makes_a_topic_uneven() -> None:
    """The bounds are those of four brokers, and the new one holds nothing."""
    lists: Lists = ((1, 2), (2, 3), (3, 1), (1, 2))
    picker = ReplicaPicker([Broker(id_) for id_ in (1, 2, 3, 4)])
    assert kafka_bounds(lists, 4) == (2, 2)
    assert is_uneven(lists, picker)
    assert held_by(picker, spread(lists, picker)) == [2, 2, 2, 2]


def test_an_expansion_of_kafka_may_leave_the_bounds() -> None:
    """Its first new partition does not continue the lists of the creation, so a later plan spreads the topic."""
    lists = ((1, 3), *expand_assignment([Broker(each) for each in (1, 2, 3)], {0: (1, 3)}, 3))
    assert lists == ((1, 3), (2, 3), (3, 1))
    assert kafka_bounds(lists, 3) == (2, 2)
    assert not kafka_bounds(lists, 3).contain([2, 1, 3])


def test_leaders_are_spread_without_a_copy() -> None:
    """All partitions are led by one broker, and afterwards each broker leads one."""
    lists: Lists = ((1, 2, 3), (1, 2, 3), (1, 3, 2))
    after = spread(lists, ReplicaPicker([Broker(id_) for id_ in (1, 2, 3)]))
    assert sorted(replicas[0] for replicas in after) == [1, 2, 3]
    assert copies(lists, after) == 0
