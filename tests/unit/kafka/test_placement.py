"""Kafka's placement, compared with Kafka's documentation and with a simple reference implementation, and its
properties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.kafka.placement import (
    AssignmentError,
    InferredPlacement,
    ReplicaPlacer,
    alternate_racks,
    assign_replicas,
    derive_start_and_shift,
    expand_assignment,
    expansion_start,
    infer_nearest_placement,
    infer_placement,
    prepare_brokers,
)
from topiarist.kafka.types import Broker, Replicas

FIVE = tuple(Broker(number) for number in range(5))
RACKED = (Broker(0, "1"), Broker(1, "3"), Broker(2, "3"), Broker(3, "2"), Broker(4, "2"), Broker(5, "1"))

RACK_NAMES = ("a", "b", "rack-10", "rack-2", "Z", "_", "\uffee", "\U0001f600")


@st.composite
def clusters(draw: st.DrawFn, racked: bool | None = None) -> tuple[Broker, ...]:
    """Return up to twelve brokers sorted by id, all with a rack or none."""
    ids = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=12)))
    with_racks = draw(st.booleans()) if racked is None else racked
    return tuple(Broker(number, draw(st.sampled_from(RACK_NAMES)) if with_racks else None) for number in ids)


def plainly(
    brokers: Sequence[Broker], count: int, *, width: int, start: int, shift: int, first: int = 0
) -> list[tuple[int, ...]]:
    """Return the placement of the contract, section 8.2, computed step by step, slowly and without any table."""
    racks = {broker.id: broker.rack for broker in brokers}
    aware = None not in racks.values()
    order = alternated(brokers) if aware else [broker.id for broker in brokers]
    size, rack_count = len(order), len(set(racks.values())) if aware else 1
    lists = []
    for partition in range(first, first + count):
        if partition > 0 and partition % size == 0:
            shift += 1
        leader = (partition + start) % size
        replicas = [order[leader]]
        step = 0
        while len(replicas) < width:
            candidate = order[(leader + 1 + (shift * rack_count + step) % (size - 1)) % size]
            used = {racks[broker] for broker in replicas}
            if not aware or (candidate not in replicas and (racks[candidate] not in used or len(used) == rack_count)):
                replicas.append(candidate)
            step += 1
        lists.append(tuple(replicas))
    return lists


def alternated(brokers: Sequence[Broker]) -> list[int]:
    """Return one broker of each rack in turn, from one queue for each rack."""
    names = sorted({str(broker.rack) for broker in brokers}, key=lambda name: name.encode("utf-16-be"))
    queues = [sorted(broker.id for broker in brokers if broker.rack == name) for name in names]
    order = []
    while any(queues):
        order += [queue.pop(0) for queue in queues if queue]
    return order


def test_the_table_of_kafkas_documentation() -> None:
    """Ten partitions of three replicas on five brokers equal the table of Kafka's documentation."""
    lists = assign_replicas(FIVE, 10, replication_factor=3, start=0, shift=0)
    assert lists == (
        *((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)),
        *((0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)),
    )


def test_the_racks_of_kafkas_documentation() -> None:
    """Seven partitions over three racks of two equal those of Kafka's own test."""
    assert alternate_racks(RACKED) == (0, 3, 1, 5, 4, 2)
    lists = assign_replicas(RACKED, 7, replication_factor=3, start=0, shift=0)
    assert lists == ((0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2))


def test_the_order_of_brokers_counts_where_there_are_no_racks() -> None:
    """Placement keeps the order of the brokers, as Kafka's function does; ``prepare_brokers`` sorts them."""
    brokers = [Broker(number) for number in (1, 2, 0, 4, 3)]
    assert assign_replicas(brokers, 2, replication_factor=3, start=0, shift=3) == ((1, 3, 2), (2, 1, 0))
    assert prepare_brokers(brokers, "enforced") == FIVE


def test_racks_are_sorted_as_java_sorts_text() -> None:
    """Racks sort by 16-bit units, so a character beyond the basic plane sorts before U+FFEE."""
    brokers = [
        Broker(number, rack) for number, rack in enumerate(["\uffee", "z", "_", "Z", "rack-2", "rack-10", "\U0001f600"])
    ]
    assert alternate_racks(brokers) == (3, 2, 5, 4, 1, 6, 0)


@given(clusters(), st.data())
def test_the_rows_give_what_the_plain_algorithm_gives(brokers: tuple[Broker, ...], data: st.DataObject) -> None:
    """Slicing the rows equals the reference algorithm for any parameters."""
    width = data.draw(st.integers(1, len(brokers)))
    start, shift = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    count, first = data.draw(st.integers(1, 90)), data.draw(st.integers(0, 60))
    placed = ReplicaPlacer(brokers).assign_replicas(
        count, replication_factor=width, start=start, shift=shift, first=first
    )
    assert list(placed) == plainly(brokers, count, width=width, start=start, shift=shift, first=first)


@given(clusters(), st.data())
def test_good_placements_whatever_the_start(brokers: tuple[Broker, ...], data: st.DataObject) -> None:
    """A partition has no broker twice and as many racks as possible, and leader counts differ by at most one."""
    width, count = data.draw(st.integers(1, len(brokers))), data.draw(st.integers(1, 60))
    start, shift = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    lists = assign_replicas(brokers, count, replication_factor=width, start=start, shift=shift)
    racks = {broker.id: broker.rack for broker in brokers}
    leaders = Counter(replicas[0] for replicas in lists)
    shares = [leaders[broker.id] for broker in brokers]
    assert len(lists) == count
    assert all(len(replicas) == width == len(set(replicas)) for replicas in lists)
    assert max(shares) - min(shares) <= 1
    if None not in racks.values():
        most = min(width, len(set(racks.values())))
        assert {len({racks[broker] for broker in replicas}) for replicas in lists} == {most}


@given(clusters(), st.data())
def test_growing_gives_new_partitions_as_wide_as_the_first(brokers: tuple[Broker, ...], data: st.DataObject) -> None:
    """Expansion returns only the new partitions, placed from the index of partition 0's leader in the sorted list."""
    width = data.draw(st.integers(1, len(brokers)))
    leader = data.draw(st.integers(0, 45))
    existing = {0: (leader, *range(100, 99 + width)), 1: (7,), 2: (8, 9)}
    total = data.draw(st.integers(4, 40))
    start = next((index for index, broker in enumerate(brokers) if broker.id >= leader), 0)
    added = expand_assignment(tuple(reversed(brokers)), existing, total)
    assert list(added) == plainly(brokers, total - 3, width=width, start=start, shift=start, first=3)
    assert expansion_start(brokers, leader) == start


@pytest.mark.parametrize(
    ("ids", "existing", "total", "added"),
    [
        ((1, 2, 4, 5), {0: (3, 1)}, 3, ((5, 4), (1, 5))),  # the leader is not registered: the next larger id is used
        ((1, 2, 4, 5), {0: (9, 1)}, 3, ((2, 4), (4, 5))),  # beyond all ids: index 0
        ((7,), {0: (7,)}, 4, ((7,), (7,), (7,))),
        (
            (0, 1, 2),
            {0: (0, 1), 1: (1, 2), 2: (2, 0)},
            4,
            ((0, 2),),
        ),  # three of three brokers: the shift increases at once
    ],
)
def test_the_quirks_of_expansion(
    ids: tuple[int, ...], existing: dict[int, Replicas], total: int, added: tuple[Replicas, ...]
) -> None:
    """Expansion handles a removed leader, a single broker, and a round that begins with the first new partition."""
    assert expand_assignment([Broker(number) for number in ids], existing, total) == added


def test_expansion_finds_the_index_in_one_list_and_uses_it_in_another() -> None:
    """Index 2 is broker 2 in the sorted list, and broker 1 in the rack-alternated order 0, 2, 1, 3."""
    brokers = (Broker(0, "a"), Broker(1, "a"), Broker(2, "b"), Broker(3, "b"))
    assert expand_assignment(brokers, {0: (2, 0)}, 3) == ((3, 1), (0, 3))


@pytest.mark.parametrize(
    ("topic", "start", "shift"),
    [("orders", 3, 0), ("payments", 0, 1), ("a", 0, 3), ("__x.y-z", 3, 0), ("t" * 249, 0, 3)],
)
def test_the_start_of_a_topic_never_changes(topic: str, start: int, shift: int) -> None:
    """The start and shift of a name never change: a later release must make the same plan."""
    assert derive_start_and_shift(topic, FIVE) == (start, shift)


@given(st.text(alphabet="abc._-", min_size=1, max_size=30), clusters())
def test_the_start_is_an_index_of_the_brokers(topic: str, brokers: tuple[Broker, ...]) -> None:
    """Start and shift are below the number of brokers, and do not depend on the ids of the brokers."""
    start, shift = derive_start_and_shift(topic, brokers)
    assert 0 <= start < len(brokers)
    assert 0 <= shift < len(brokers)
    assert derive_start_and_shift(topic, [Broker(broker.id + 1, "x") for broker in brokers]) == (start, shift)


def test_starts_are_spread_over_all_brokers() -> None:
    """For 6,000 names on six brokers, each start and each shift occurs 850 to 1,150 times."""
    points = [derive_start_and_shift(f"team.service.topic-{number}", range(6)) for number in range(6000)]
    for column in zip(*points, strict=True):
        assert all(850 < times < 1150 for times in Counter(column).values())


@pytest.mark.parametrize(
    ("mode", "racks", "expected"),
    [
        ("enforced", ("a", "b"), ("a", "b")),
        ("enforced", (None, None), (None, None)),
        ("safe", ("a", None), (None, None)),
        ("safe", ("a", "b"), ("a", "b")),
        ("disabled", ("a", "b"), (None, None)),
        ("disabled", ("a", None), (None, None)),
        ("enforced", ("", "a"), ("", "a")),  # the empty string is a rack
    ],
)
def test_rack_modes(mode: str, racks: tuple[str | None, ...], expected: tuple[str | None, ...]) -> None:
    """Racks are kept for all brokers, or removed from all brokers."""
    brokers = [Broker(number, rack) for number, rack in enumerate(racks)]
    assert tuple(broker.rack for broker in prepare_brokers(brokers[::-1], mode)) == expected


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "kind", "words"),
    [
        (FIVE, 0, 0, "invalid_partitions", "found 0 partitions, wanted 1 or more"),
        (FIVE, -1, 3, "invalid_partitions", "found -1 partitions"),
        (FIVE, 1, 0, "invalid_replication_factor", "found replication factor 0, wanted 1 to 5"),
        (FIVE, 1, 6, "invalid_replication_factor", "found replication factor 6, wanted 1 to 5: 5 brokers can take"),
        ((), 1, 1, "invalid_replication_factor", "wanted a broker: 0 brokers can take replicas"),
        ((Broker(0, "a"), Broker(4)), 1, 3, "invalid_replication_factor", "found replication factor 3"),
        ((Broker(0, "a"), Broker(4)), 1, 2, "admin_operation", "found 1 of 2 brokers without a rack (4)"),
    ],
)
def test_what_kafka_refuses_in_its_order(
    brokers: tuple[Broker, ...], partitions: int, factor: int, kind: str, words: str
) -> None:
    """Partitions are checked first, then the replication factor, then racks, and each message has the numbers."""
    with pytest.raises(AssignmentError) as caught:
        assign_replicas(brokers, partitions, replication_factor=factor, start=0, shift=0)
    assert caught.value.kind == kind
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("brokers", "start", "shift"),
    [(FIVE, -1, 0), (FIVE, 0, -1), (FIVE, 2**31, 0), (RACKED, 0, 2**31 // 3 + 1), (FIVE, 2**31 - 1, 0)],
)
def test_numbers_beyond_32_bits_are_refused(brokers: tuple[Broker, ...], start: int, shift: int) -> None:
    """Negative starts and starts beyond 32 bits are refused: Kafka would choose at random or overflow, and a plan
    cannot show that.
    """
    with pytest.raises(AssignmentError, match="32-bit") as caught:
        assign_replicas(brokers, 2, replication_factor=3, start=start, shift=shift)
    assert caught.value.kind == "illegal_argument"


def test_large_starts_are_fine() -> None:
    """A start may exceed the number of brokers within 32 bits."""
    assert assign_replicas(FIVE, 1, replication_factor=2, start=10**9, shift=10**9) == ((0, 1),)


@pytest.mark.parametrize(
    ("brokers", "existing", "total", "kind"),
    [
        (FIVE, {1: (0, 1)}, 3, "admin_operation"),
        (FIVE, {0: (0, 1)}, 1, "invalid_partitions"),
        (FIVE, {0: (0, 1)}, -22, "invalid_partitions"),
        (FIVE, {0: tuple(range(6))}, 2, "invalid_replication_factor"),
        (FIVE, {0: ()}, 2, "invalid_replication_factor"),
        ((Broker(0, "a"), Broker(1)), {0: (0,)}, 2, "admin_operation"),
    ],
)
def test_what_expansion_refuses(
    brokers: tuple[Broker, ...], existing: dict[int, Replicas], total: int, kind: str
) -> None:
    """Expansion refuses a missing partition 0, no new partition, too few brokers, and racks on some brokers."""
    with pytest.raises(AssignmentError) as caught:
        expand_assignment(brokers, existing, total)
    assert caught.value.kind == kind


def test_replica_lists_are_shared_between_topics() -> None:
    """Placements of many topics share the lists of the rows instead of copies."""
    placement = ReplicaPlacer(FIVE)
    one = placement.assign_replicas(3, replication_factor=3, start=1, shift=2)
    other = placement.assign_replicas(3, replication_factor=3, start=1, shift=2)
    assert all(left is right for left, right in zip(one, other, strict=True))


# Inference of placements: recognizes the results of ``assign`` and ``expand``, and names reassigned partitions.


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
