"""A run that ends anywhere, and a new plan for the rest: the same lists, or as many copies and each list moved once.

A batch ends partition by partition in any order, so an interruption leaves some whole batches and any part of the next.
Kinds that depend on one list or on the topic alone end in the same lists. The others choose brokers by counts, and the
counts contain the moves that are done: a list that has not moved may get another broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, plan, spec, state, topic
from topiarist.errors import Reason
from topiarist.kafka.placement import assign_replicas, derive_start_and_shift, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import MoveReplicas
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.planning.moves.execution.ledger import make_batches

Lists = tuple[Replicas, ...]
Topics = Mapping[str, Lists]

LIMITS = BatchLimits(partitions=3, incoming=2, outgoing=2)


class MovingCluster:
    """A cluster in memory: its brokers, its manifests, and the lists of its topics."""

    def __init__(self, brokers: Sequence[Broker], on: ClusterSpec, topics: Topics, **fields: Any) -> None:
        self.brokers = tuple(brokers)
        self.on = on
        self.topics = {name: tuple(lists) for name, lists in topics.items()}
        self.specs: list[TopicSpec] = [
            spec(name, on, **({"partitions": len(lists)} | {key: value(name) for key, value in fields.items()}))
            for name, lists in sorted(topics.items())
        ]

    def plan_moves(self) -> tuple[ReplicaMove, ...]:
        """Return the moves of a new plan, which refuses none of them."""
        topics = [topic(name, lists, identity=at) for at, (name, lists) in enumerate(sorted(self.topics.items()))]
        planned = plan(state(*topics, brokers=self.brokers), *self.specs)
        moves = []
        for each in planned.topics:
            # A drain that is not allowed is refused, which is right where only another kind is planned.
            assume(all(refusal.reason is Reason.MOVE_NOT_ALLOWED for refusal in each.refusals))
            moves += [move for change in each.changes if isinstance(change, MoveReplicas) for move in change.moves]
        return tuple(moves)

    def allow_only(self, kind: MoveKind) -> None:
        """Allow one kind of moves."""
        ignored = frozenset({"replicationFactor"} if kind is not MoveKind.FACTOR else ())
        self.specs = [replace(each, allowed_moves=frozenset({kind}), ignored_fields=ignored) for each in self.specs]

    def carry_out(self, moves: Sequence[ReplicaMove]) -> None:
        """Give partitions their new lists."""
        for move in moves:
            lists = list(self.topics[move.topic])
            assert lists[move.partition] == move.before
            lists[move.partition] = move.after
            self.topics[move.topic] = tuple(lists)


def allowing(*kinds: MoveKind, **fields: Any) -> ClusterSpec:
    """Return a cluster that allows these kinds of moves."""
    settings = MoveSettings(frozenset(kinds), UNLIMITED, LIMITS)
    return replace(PROD_CLUSTER, moves=settings, broker_config={"min.insync.replicas": "1"}, **fields)


@st.composite
def brokers(draw: st.DrawFn, *, least: int = 4) -> tuple[Broker, ...]:
    """Up to eight brokers, in up to three racks of any size."""
    count = draw(st.integers(least, 8))
    racks = draw(st.one_of(st.none(), st.lists(st.sampled_from("abc"), min_size=count, max_size=count)))
    return tuple(Broker(id_, racks[id_ - 1] if racks else None) for id_ in range(1, count + 1))


def topics_of(draw: st.DrawFn, ids: Sequence[int], least: int, most: int) -> dict[str, Lists]:
    """Return some topics with lists of this width."""
    one = st.permutations(ids).flatmap(lambda order: st.integers(least, most).map(lambda width: tuple(order[:width])))
    lists = st.lists(one, min_size=1, max_size=8).map(tuple)
    return draw(st.dictionaries(st.sampled_from("abc"), lists, min_size=1))


def interrupt(draw: st.DrawFn, moves: Sequence[ReplicaMove]) -> list[ReplicaMove]:
    """Return the moves that were carried out: whole batches, and any part of the next one."""
    batches = make_batches(moves, LIMITS)
    at = draw(st.integers(0, len(batches) - 1))
    part = draw(st.lists(st.sampled_from(batches[at]), unique=True))
    return [*(move for batch in batches[:at] for move in batch), *part]


def count_copies(moves: Sequence[ReplicaMove]) -> int:
    """Return the number of replicas that are copied."""
    return sum(len(move.added) for move in moves)


@st.composite
def _exact_work(draw: st.DrawFn) -> MovingCluster:
    """Work of the kinds that end in the same lists: lower, raise by sequence, explicit lists (reordered ones too)."""
    known = draw(brokers())
    ids, kind = [broker.id for broker in known], draw(st.sampled_from(["lower", "raise", "lists"]))
    on = allowing(*MoveKind) if kind == "lists" else allowing(MoveKind.FACTOR)
    if kind == "lower":
        return MovingCluster(known, on, topics_of(draw, ids, 2, 4), replicationFactor=lambda _: 2)
    if kind == "lists":
        topics = topics_of(draw, ids, 1, 4)
        wanted = {name: [list(draw(st.permutations(ids)))[:2] for _ in lists] for name, lists in topics.items()}
        cluster = MovingCluster(known, on, topics)
        cluster.specs = [spec(name, on, replicaAssignment=lists) for name, lists in sorted(wanted.items())]
        return cluster
    ordered, placed = prepare_brokers(known, "enforced"), {}
    for name in draw(st.sets(st.sampled_from("abc"), min_size=1)):
        start, shift = draw(st.sampled_from([derive_start_and_shift(name, ordered), (2, 0), (0, 3)]))
        partitions = draw(st.integers(1, 12))
        placed[name] = assign_replicas(ordered, partitions, replication_factor=2, start=start, shift=shift)
    return MovingCluster(known, on, placed, replicationFactor=lambda _: 3)


@given(_exact_work(), st.data())
def test_kinds_that_count_nothing_end_in_the_same_lists(cluster: MovingCluster, data: st.DataObject) -> None:
    """Lower, raise by sequence and explicit lists: the rest of the moves is what a new plan finds."""
    moves = cluster.plan_moves()
    assume(moves)
    done = data.draw(st.composite(interrupt)(moves))
    cluster.carry_out(done)
    assert {move[:4] for move in cluster.plan_moves()} == {move[:4] for move in moves if move not in done}


@st.composite
def _counted_work(draw: st.DrawFn, *kinds: MoveKind) -> MovingCluster:
    """Work of kinds that choose brokers by counts."""
    known = draw(brokers(least=5))
    ids = [broker.id for broker in known]
    drained = draw(st.frozensets(st.sampled_from(ids), max_size=2)) if MoveKind.DRAIN in kinds else frozenset()
    factors = draw(st.fixed_dictionaries({name: st.integers(1, 3) for name in "abc"}))
    spread = draw(st.sampled_from(["Kafka", "One"]))
    on = allowing(*kinds, drain_brokers=drained)
    cluster = MovingCluster(
        known,
        on,
        topics_of(draw, ids, 1, 3),
        replicationFactor=factors.__getitem__,
        moves=lambda _: {"allow": [kind.value for kind in kinds], "spread": spread},
    )
    if MoveKind.FACTOR not in kinds:
        cluster.specs = [replace(each, ignored_fields=frozenset({"replicationFactor"})) for each in cluster.specs]
    return cluster


@pytest.mark.parametrize(
    "kinds",
    [(MoveKind.DRAIN,), (MoveKind.RACKS,), (MoveKind.FACTOR,), (MoveKind.DRAIN, MoveKind.RACKS, MoveKind.FACTOR)],
    ids=lambda kinds: "+".join(kind.value for kind in kinds),
)
@given(data=st.data())
def test_no_list_is_moved_twice_and_nothing_more_is_copied(kinds: tuple[MoveKind, ...], data: st.DataObject) -> None:
    """After an interruption the rest needs no more copies, and leaves the lists that were moved."""
    cluster = data.draw(_counted_work(*kinds))
    moves = cluster.plan_moves()
    assume(moves)
    done = data.draw(st.composite(interrupt)(moves))
    cluster.carry_out(done)
    rest = cluster.plan_moves()
    assert not {(move.topic, move.partition) for move in done} & {(move.topic, move.partition) for move in rest}
    assert count_copies(done) + count_copies(rest) == count_copies(moves)
    cluster.carry_out(rest)
    assert not cluster.plan_moves()


@pytest.mark.parametrize("kinds", [(MoveKind.SPREAD,), tuple(MoveKind)], ids=["Spread", "all"])
@given(data=st.data())
def test_a_spread_that_is_planned_again_ends(kinds: tuple[MoveKind, ...], data: st.DataObject) -> None:
    """After an interruption one more plan is enough, also where a spread follows other kinds."""
    cluster = data.draw(_counted_work(*kinds))
    moves = cluster.plan_moves()
    assume(moves)
    cluster.carry_out(data.draw(st.composite(interrupt)(moves)))
    cluster.carry_out(cluster.plan_moves())
    assert not cluster.plan_moves()


@given(_counted_work(*MoveKind))
def test_one_plan_of_all_kinds_copies_no_more_than_a_plan_for_each_kind(cluster: MovingCluster) -> None:
    """Each kind is planned and carried out by itself, in the order in which one plan adds them up.

    This holds for each topic by itself. Among equal brokers a plan prefers those that hold fewer replicas of the whole
    cluster, and these counts differ if a kind is carried out for all topics before the next kind.
    """
    name = min(cluster.topics)
    cluster.topics = {name: cluster.topics[name]}
    cluster.specs = [each for each in cluster.specs if each.topic == name]
    together = count_copies(cluster.plan_moves())
    apart = 0
    for kind in MoveKind:
        cluster.allow_only(kind)
        moves = cluster.plan_moves()
        cluster.carry_out(moves)
        apart += count_copies(moves)
    assert together <= apart


@given(_counted_work(MoveKind.DRAIN, MoveKind.RACKS, MoveKind.FACTOR))
def test_one_plan_copies_no_more_than_its_kinds_for_the_lists_before(cluster: MovingCluster) -> None:
    """Drain, rack repair and another factor need no copy more together than each of them for the same lists."""
    together = count_copies(cluster.plan_moves())
    apart = 0
    for kind in (MoveKind.DRAIN, MoveKind.RACKS, MoveKind.FACTOR):
        cluster.allow_only(kind)
        apart += count_copies(cluster.plan_moves())
    assert together <= apart
