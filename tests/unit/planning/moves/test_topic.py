"""Moves in the plan of a topic: which kinds apply, what they wait for, and why a topic is not moved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
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
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import MoveReplicas, TopicPlan, compute_broker_load_after
from topiarist.model.run_options import Risk, RunOptions
from topiarist.model.spec import ClusterSpec

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
