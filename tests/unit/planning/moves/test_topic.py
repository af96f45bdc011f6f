"""Moves in the plan of a topic: which kinds apply, what they wait for, and why a topic is not moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import (
    PROD_CLUSTER,
    RACKLESS_BROKERS,
    change_kinds,
    notice_reasons,
    plan,
    plan_single_topic,
    refusal_reasons,
    replan,
    replica_lists,
    spec,
    state,
    topic,
)
from topiarist.errors import Reason
from topiarist.kafka.placement import assign_replicas, derive_start_and_shift, prepare_brokers
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import (
    UNLIMITED,
    BatchLimits,
    BatchRecord,
    MoveKind,
    MoveSettings,
    ReplicaMove,
    RequestedReassignment,
)
from topiarist.model.plan import MoveReplicas, Risk, RunOptions, TopicPlan, compute_broker_load_after
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.planning.moves.ledger import make_batches
from topiarist.planning.moves.topic import find_targets_in_flight

EVERY_KIND = MoveSettings(allow=frozenset(MoveKind), throttle=UNLIMITED)


def movable(settings: MoveSettings = EVERY_KIND, **fields: Any) -> ClusterSpec:
    """Return a cluster on which replicas may be moved."""
    return replace(PROD_CLUSTER, moves=settings, **fields)


def lists_after(planned: TopicPlan) -> dict[int, str]:
    """Return the planned lists by partition, each as a string of broker ids."""
    return {move.partition: "".join(map(str, move.after)) for move in planned.moves()}


def refusal(planned: TopicPlan) -> tuple[Reason, str, str]:
    """Return reason, message and hint of the only refusal; it withholds the moves."""
    (issue,) = planned.refusals
    assert not planned.changes
    return issue.reason, issue.message, issue.hint


def test_nothing_moves_without_permission() -> None:
    """Without ``moves`` a cluster's topics stay, whatever their racks and spread."""
    seen = state(topic(replicas=replica_lists("14", "14", "14")))
    assert plan_single_topic(seen, spec()).changes == ()


def test_a_factor_is_raised_with_risk_reason_and_load() -> None:
    """The plan has a list for each partition, the number of copies, and the brokers' load afterwards."""
    seen = state(topic(), brokers=RACKLESS_BROKERS)
    wanted = spec(on=movable(), partitions=3, replicationFactor=3)
    whole = plan(seen, wanted)
    (planned,) = whole.topics
    assert lists_after(planned) == {0: "123", 1: "234", 2: "341"}
    assert {move.kinds for move in planned.moves()} == {(MoveKind.FACTOR,)}
    assert planned.changes[0].assessment == (Risk.DISRUPTIVE, "copies 3 replicas")
    assert {broker: load.replicas for broker, load in whole.load.items()} == {1: 1, 2: 2, 3: 2, 4: 1}
    assert {broker: load.replicas for broker, load in compute_broker_load_after(whole).items()} == {
        1: 2,
        2: 2,
        3: 3,
        4: 2,
    }


def test_a_lowered_factor_says_what_is_lost() -> None:
    """The preferred leader stays; one replica alone is a risk of data loss."""
    seen = state(topic(replicas=replica_lists("123", "234")), brokers=RACKLESS_BROKERS)
    to_two = plan_single_topic(seen, spec(on=movable(), partitions=2, replicationFactor=2))
    assert lists_after(to_two) == {0: "12", 1: "23"}
    assert to_two.changes[0].assessment == (Risk.DISRUPTIVE, "3 -> 2 replicas: one broker less may fail")
    known = movable(broker_config={"min.insync.replicas": "1"})
    to_one = plan_single_topic(seen, spec(on=known, partitions=2, replicationFactor=1))
    assert to_one.risk is Risk.DATA_LOSS


def test_drain_and_racks_add_up_to_one_list() -> None:
    """A partition moves once, with all its reasons."""
    seen = state(topic(replicas=replica_lists("14", "25")))  # broker 1 and 4 share rack a, 2 and 5 rack b
    planned = plan_single_topic(seen, spec(on=movable(drain_brokers=frozenset({5})), partitions=2, replicationFactor=2))
    assert [move.before for move in planned.moves()] == [(1, 4), (2, 5)]
    assert all(5 not in move.after for move in planned.moves())
    assert planned.moves()[1].kinds[0] is MoveKind.DRAIN


def test_a_new_replica_brings_a_rack_that_the_list_lacks() -> None:
    """The factor is raised before racks are repaired: one copy does both."""
    brokers = (Broker(1, "a"), Broker(3, "a"), Broker(7, "b"))
    kinds = MoveSettings(frozenset({MoveKind.FACTOR, MoveKind.RACKS}), UNLIMITED)
    seen = state(topic(replicas=((1, 3),)), brokers=brokers)
    planned = plan_single_topic(seen, spec(on=movable(kinds), partitions=1, replicationFactor=3))
    assert [(move.after, move.kinds) for move in planned.moves()] == [((1, 3, 7), (MoveKind.FACTOR,))]


def test_explicit_lists_bind_existing_partitions_where_assignment_is_allowed() -> None:
    """Else the difference is only a notice, as before; the same brokers in another order copy nothing."""
    seen = state(topic(), brokers=RACKLESS_BROKERS)
    lists = [[2, 1], [2, 3], [4, 3]]
    noticed = plan_single_topic(seen, spec(replicaAssignment=lists))
    assert (noticed.changes, notice_reasons(noticed)) == ((), ["ReplicasDiffer"])
    without_throttle = MoveSettings(allow=frozenset({MoveKind.ASSIGNMENT}))
    planned = plan_single_topic(seen, spec(on=movable(without_throttle), replicaAssignment=lists))
    assert (lists_after(planned), planned.risk) == ({0: "21", 2: "43"}, Risk.SAFE)


def test_a_topic_narrows_what_its_cluster_allows() -> None:
    """A topic cannot allow itself a kind, and an empty list allows none."""
    seen = state(topic(), brokers=RACKLESS_BROKERS)
    wanted: dict[str, Any] = {"partitions": 3, "replicationFactor": 3}
    none = plan_single_topic(seen, spec(on=movable(), moves={"allow": []}, **wanted))
    assert refusal(none) == (
        Reason.REPLICATION_FACTOR_DIFFERS,
        "replication factor 2 -> 3: Factor moves are not allowed",
        "set replicationFactor: 2, or allow Factor in spec.moves of the Topic",
    )
    own = plan_single_topic(seen, spec(moves={"allow": ["Factor"]}, **wanted))
    assert refusal(own)[2] == "set replicationFactor: 2, or allow Factor in spec.moves of the Cluster"


def test_growth_waits_for_the_moves() -> None:
    """The controller would lose partitions that appear while it moves others."""
    seen = state(topic(), brokers=RACKLESS_BROKERS)
    planned = plan_single_topic(seen, spec(on=movable(), partitions=6, replicationFactor=3))
    assert (change_kinds(planned), refusal_reasons(planned)) == (["MoveReplicas"], ["AfterMoves"])


@pytest.mark.parametrize(
    ("before", "after", "waits"), [("1", "2", True), (None, "2", True), ("2", "1", False), ("x", "2", True)]
)
def test_only_a_higher_min_isr_waits_for_the_moves(before: str | None, after: str, waits: bool) -> None:
    """A lower value is written before the moves. A value on the cluster that no broker accepts counts as lower."""
    config = {} if before is None else {"min.insync.replicas": before}
    seen = state(topic(config=config), brokers=RACKLESS_BROKERS)
    wanted = spec(on=movable(), partitions=3, replicationFactor=3, config={"min.insync.replicas": after})
    planned = plan_single_topic(seen, wanted)
    assert "MoveReplicas" in change_kinds(planned)
    assert ("AfterMoves" in refusal_reasons(planned)) is waits


@pytest.mark.parametrize("fields", [{"reassigning_partitions": (0,)}, {}])
def test_a_higher_min_isr_waits_for_replicas_in_flight(fields: dict[str, Any]) -> None:
    """Also without a move in the plan: a replica in flight is in the list, and not in sync yet."""
    moved = topic(replicas=replica_lists("123", "231", "312"), config={"min.insync.replicas": "1"}, **fields)
    seen = state(moved, brokers=RACKLESS_BROKERS)
    if not fields:
        seen = replace(seen, reassigning_topics=frozenset({moved.name}))
    raises = MoveSettings(allow=frozenset({MoveKind.FACTOR}), throttle=UNLIMITED)
    wanted = spec(on=movable(raises), partitions=3, replicationFactor=3, config={"min.insync.replicas": "2"})
    planned = plan_single_topic(seen, wanted)
    assert (change_kinds(planned), "AfterMoves" in refusal_reasons(planned)) == ([], True)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"unknown_fields": ("vendor",)}, Reason.UNKNOWN_FIELDS),
        ({"partition_ids": (0, 1, 3)}, Reason.PARTITIONS_MALFORMED),
        ({"replicas": (*replica_lists("12", "23"), ())}, Reason.PARTITIONS_MALFORMED),
        ({"reassigning_partitions": (2,)}, Reason.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_the_state_of_a_topic_forbids_moves(fields: dict[str, Any], reason: Reason) -> None:
    """The whole topic stays; the refusal shows the moves that it withholds."""
    seen = state(topic(**fields), brokers=RACKLESS_BROKERS)
    planned = plan_single_topic(seen, spec(on=movable(), partitions=3, replicationFactor=3))
    assert refusal(planned)[0] is reason
    assert [type(change) for change in planned.refusals[0].withheld] == [MoveReplicas]


def test_the_state_of_the_cluster_forbids_moves() -> None:
    """A request that names the topic, a topic without id beside others, a missing broker that is not drained."""
    wanted = spec(on=movable(), partitions=3, replicationFactor=3)
    named = state(topic(), brokers=RACKLESS_BROKERS, reassigning_topics=frozenset({"orders"}))
    assert refusal(plan_single_topic(named, wanted))[0] is Reason.REASSIGNMENT_IN_PROGRESS
    no_id = state(topic(), brokers=RACKLESS_BROKERS, assigns_topic_ids=True)
    assert refusal(plan_single_topic(no_id, wanted))[0] is Reason.NOT_INITIALIZED
    missing = state(topic(), topic("other", replica_lists("19"), identity="8"), brokers=RACKLESS_BROKERS)
    assert refusal(plan_single_topic(missing, wanted))[0] is Reason.BROKERS_MISSING
    drained = movable(drain_brokers=frozenset({9}))
    both = [spec(on=drained, partitions=3, replicationFactor=3), spec("other", drained, partitions=1)]
    assert [change_kinds(each) for each in plan(missing, *both).topics] == [["MoveReplicas"], ["MoveReplicas"]]


def test_copies_need_a_declared_throttle() -> None:
    """A manifest that sets a throttle config itself contradicts a throttled move."""
    seen = state(topic(), brokers=RACKLESS_BROKERS)
    size: dict[str, Any] = {"partitions": 3, "replicationFactor": 3}
    undeclared = movable(replace(EVERY_KIND, throttle=None))
    assert refusal(plan_single_topic(seen, spec(on=undeclared, **size)))[0] is Reason.THROTTLE_MISSING
    throttled, config = movable(replace(EVERY_KIND, throttle=1 << 20)), {"leader.replication.throttled.replicas": "*"}
    planned = plan_single_topic(seen, spec(on=throttled, config=config, **size))
    assert refusal_reasons(planned) == ["ThrottleDeclared"]
    assert "MoveReplicas" in change_kinds(plan_single_topic(seen, spec(on=movable(), config=config, **size)))


@pytest.mark.parametrize(
    ("config", "factor", "refused"),
    [({"min.insync.replicas": "2"}, 1, True), ({"min.insync.replicas": "2"}, 2, False), ({}, 1, True), ({}, 2, False)],
)
def test_a_lowered_factor_keeps_min_isr(config: dict[str, str], factor: int, refused: bool) -> None:
    """An unknown ``min.insync.replicas`` of a topic with three replicas counts as 2."""
    seen = state(topic(replicas=replica_lists("123"), config=config), brokers=RACKLESS_BROKERS)
    planned = plan_single_topic(seen, spec(on=movable(), partitions=1, replicationFactor=factor))
    assert ("MinIsrAboveReplicas" in refusal_reasons(planned)) is refused


def test_a_drain_that_may_not_happen_is_refused() -> None:
    """Not allowed, protected, or bound by explicit lists: the broker stays in use, and the plan says so."""
    drained: dict[str, Any] = {"drain_brokers": frozenset({4})}
    seen = state(topic(), topic("_schemas", identity="8"), brokers=RACKLESS_BROKERS)
    not_allowed = plan_single_topic(seen, spec(on=replace(PROD_CLUSTER, **drained)))
    assert refusal(not_allowed)[:2] == (Reason.MOVE_NOT_ALLOWED, "stays on drained broker 4 with 1 partition")
    protected = plan_single_topic(seen, spec("_schemas", movable(**drained)))
    assert refusal(protected)[0] is Reason.PROTECTED_TOPIC
    allowed = movable(replace(EVERY_KIND, protected=True), **drained)
    assert change_kinds(plan_single_topic(seen, spec("_schemas", allowed))) == ["MoveReplicas"]
    explicit = spec(on=movable(**drained), replicaAssignment=[[1, 2], [2, 3], [3, 4]])
    assert refusal(plan_single_topic(seen, explicit))[0] is Reason.EXCLUDED_BROKERS


def test_too_few_brokers_refuse_the_topic_as_a_whole() -> None:
    """Also where some of its lists could be made."""
    seen = state(topic(replicas=replica_lists("12", "123")), brokers=RACKLESS_BROKERS[:3])
    planned = plan_single_topic(seen, spec(on=movable(), partitions=2, replicationFactor=4))
    assert refusal_reasons(planned) == ["TooFewBrokers"]


def test_explicit_lists_with_brokers_that_take_nothing_are_refused() -> None:
    """An unregistered broker, and an excluded one."""
    seen = state(topic(replicas=replica_lists("12")), brokers=RACKLESS_BROKERS)
    unknown = plan_single_topic(seen, spec(on=movable(), replicaAssignment=[[1, 9]]))
    assert refusal(unknown)[0] is Reason.UNKNOWN_BROKERS
    excluded = plan_single_topic(seen, spec(on=movable(exclude_brokers=frozenset({3})), replicaAssignment=[[1, 3]]))
    assert refusal(excluded)[0] is Reason.EXCLUDED_BROKERS


_BROKERS = st.integers(min_value=4, max_value=8)


@st.composite
def _topics(draw: st.DrawFn) -> tuple[tuple[Broker, ...], dict[str, tuple[Replicas, ...]], int, frozenset[int]]:
    count = draw(_BROKERS)
    racks = draw(st.sampled_from([1, 2, 3]))
    brokers = tuple(Broker(number, f"r{number % racks}" if racks > 1 else None) for number in range(1, count + 1))
    ids = [broker.id for broker in brokers]
    lists = st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True).map(tuple)
    topics = draw(
        st.dictionaries(st.sampled_from("abcd"), st.lists(lists, min_size=1, max_size=6).map(tuple), min_size=1)
    )
    drained = draw(st.frozensets(st.sampled_from(ids), max_size=1))
    return brokers, topics, draw(st.integers(min_value=1, max_value=3)), drained


@given(_topics())
def test_a_second_plan_moves_nothing(
    world: tuple[tuple[Broker, ...], dict[str, tuple[Replicas, ...]], int, frozenset[int]],
) -> None:
    """Whatever the lists are: once the moves are carried out, every topic lies as the manifests say."""
    brokers, lists, factor, drained = world
    on = movable(drain_brokers=drained, broker_config={"min.insync.replicas": "1"})
    seen = state(
        *(topic(name, of, identity=at) for at, (name, of) in enumerate(sorted(lists.items()))), brokers=brokers
    )
    specs = [spec(name, on, partitions=len(of), replicationFactor=factor) for name, of in sorted(lists.items())]
    first = plan(seen, *specs)
    assert not first.has_refusals
    for planned in first.topics:
        for move in planned.moves():
            assert len(set(move.after)) == len(move.after) == factor
            assert drained.isdisjoint(move.after)
    assert replan(seen, specs).topics == ()


def test_a_run_drains_one_more_broker() -> None:
    """``--drain-brokers`` adds to those of the cluster, and needs its permission; new replicas avoid both."""
    seen = state(topic(replicas=replica_lists("12", "23", "34")), brokers=RACKLESS_BROKERS)
    on = movable(drain_brokers=frozenset({4}))
    wanted = spec(on=on, partitions=3, replicationFactor=2)
    run = RunOptions(drain_brokers=frozenset({1}))
    whole = plan(seen, wanted, spec("new", on), run=run)
    assert lists_after(next(each for each in whole.topics if each.topic == "orders")) == {0: "32", 2: "32"}
    assert {broker for each in whole.topics for broker in each.placed_brokers()} == {2, 3}
    assert whole.drain_brokers == {1, 4}
    forbidden = plan_single_topic(seen, spec(partitions=3, replicationFactor=2), run)
    assert refusal_reasons(forbidden) == ["MoveNotAllowed"]


MOVE = ReplicaMove("orders", 0, (1, 2), (3, 2))
OTHER = ReplicaMove("orders", 1, (2, 3), (2, 4))
BATCH = BatchRecord("default", 1, 1, (MOVE, OTHER), {})
BEGUN = topic("orders", ((3, 2, 1), (2, 3)), reassigning_partitions=(0,))
BEFORE = topic("orders", replica_lists("12", "23"))


def find(found: ClusterState, batch: BatchRecord | None = BATCH) -> tuple[dict[int, Replicas], bool]:
    """Return the targets in flight, and whether other partitions are."""
    targets, is_foreign = find_targets_in_flight(
        ClusterState(**{**_fields(found), "batch": batch}), found.topics["orders"]
    )
    return dict(targets), is_foreign


def _fields(found: ClusterState) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def requested(*entries: tuple[int, Replicas]) -> dict[str, Any]:
    """Return the fields of a state with a request of these partitions."""
    listed = tuple(RequestedReassignment("orders", partition, replicas) for partition, replicas in entries)
    return {"requested_reassignments": listed, "reassigning_topics": frozenset({"orders"})}


def test_nothing_in_flight_has_no_target() -> None:
    """A batch that is done does not count, whatever its record says."""
    assert find(state(BEFORE)) == ({}, False)
    assert find(state(BEFORE), None) == ({}, False)


@pytest.mark.parametrize("found", [BEFORE, topic("orders", replica_lists("32", "23")), BEGUN])
def test_our_own_batch_counts_with_its_target(found: Any) -> None:
    """Before the controller begins, in flight, and when it has not removed the entry yet."""
    assert find(state(found, **requested((0, (3, 2))))) == ({0: (3, 2)}, False)


def test_in_flight_without_a_request_counts_if_it_is_ours() -> None:
    """The request was removed, or cannot be read, and the lists are those of the batch."""
    assert find(state(BEGUN)) == ({0: (3, 2)}, False)


@pytest.mark.parametrize(
    ("found", "entries", "batch"),
    [
        (BEFORE, ((0, (4, 2)),), BATCH),  # another target
        (BEFORE, ((0, (3, 2)),), None),  # no record
        (topic("orders", replica_lists("52", "23")), ((0, (3, 2)),), BATCH),  # another list
        (BEGUN, (), None),
        (BEGUN, (), BATCH._replace(moves=(OTHER,))),
        (BEGUN, (), BATCH._replace(moves=(MOVE._replace(topic="clicks"),))),
    ],
)
def test_another_client_has_no_known_target(found: Any, entries: Any, batch: BatchRecord | None) -> None:
    """Nothing else of the topic is planned then."""
    assert find(state(found, **(requested(*entries) if entries else {})), batch) == ({}, True)


def test_entries_of_other_topics_do_not_count() -> None:
    """Another topic of the same request or batch may have the same partition with other lists."""
    clicks = RequestedReassignment("clicks", 0, (5, 2))
    fields = requested((0, (3, 2)))
    found = state(BEFORE, **{**fields, "requested_reassignments": (*fields["requested_reassignments"], clicks)})
    batch = BATCH._replace(moves=(MOVE, MOVE._replace(topic="clicks", after=(5, 2))))
    assert find(found, batch) == ({0: (3, 2)}, False)
    assert find(state(BEFORE, requested_reassignments=(clicks,)), batch) == ({}, False)


def test_a_partition_of_another_client_beside_ours_is_foreign() -> None:
    """Ours still counts with its target."""
    assert find(state(BEGUN, **requested((0, (3, 2)), (1, (5, 3))))) == ({0: (3, 2)}, True)


def test_a_stale_or_unreadable_request_is_foreign() -> None:
    """What it would do to the topic is not known."""
    stale = state(BEGUN, stale_reassignments=frozenset({"orders"}), **requested((0, (3, 2))))
    assert find(stale) == ({}, True)
    assert find(state(BEFORE, reassigning_topics=frozenset({"orders"}))) == ({}, True)


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
