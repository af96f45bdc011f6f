"""The review of moves: reviewed lists stand, nothing else is moved, and an interrupted run goes on with its lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import (
    PROD_CLUSTER,
    RACKED_BROKERS,
    RACKLESS_BROKERS,
    plan,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
    with_topic,
)
from topiarist.errors import Reason
from topiarist.filters.review import BrokerSets, filter_unreviewed, recheck_saved_plan, review_moves
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import MoveReplicas, Plan, Risk, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.planning.preconditions import revalidate
from topiarist.planning.risk import assess_moves

EVERY_KIND = MoveSettings(allow=frozenset(MoveKind), throttle=UNLIMITED)
DRAIN_AND_FACTOR = MoveSettings(allow=frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), throttle=UNLIMITED)
DRAINING = replace(PROD_CLUSTER, moves=DRAIN_AND_FACTOR, drain_brokers=frozenset({4}))
LISTS = replica_lists("41", "42", "43", "14", "24", "34")
SEEN = state(topic(replicas=LISTS), brokers=RACKLESS_BROKERS)
WANTED = spec(on=DRAINING, partitions=6, replicationFactor=2)
REVIEWED = plan(SEEN, WANTED)
JOINED = replace(SEEN, brokers=(*RACKLESS_BROKERS, Broker(5)))
"""The cluster of the review with a new, empty broker."""


def only(found: Plan) -> TopicPlan:
    (planned,) = found.topics
    return planned


def moved(found: Plan) -> dict[int, str]:
    """Return the lists after the plan by moved partition, each as a string of broker ids."""
    return {move.partition: "".join(map(str, move.after)) for each in found.topics for move in each.moves()}


def held(found: Plan) -> list[str]:
    """Return the messages of the refusals; all of them are about the review."""
    refusals = only(found).refusals
    assert {refusal.reason for refusal in refusals} <= {Reason.NOT_REVIEWED}
    return [refusal.message for refusal in refusals]


def with_moves(found: Plan, *lists: Replicas, **changes: Any) -> Plan:
    """Return a plan as an edited file has it: other lists for its first moves, with the risk that they have."""
    change = next(change for change in only(found).changes if isinstance(change, MoveReplicas))
    edited = tuple(move._replace(after=after) for move, after in zip(change.moves, lists, strict=False))
    moves = (*edited, *change.moves[len(edited) :])
    moves = tuple(move._replace(**changes) for move in moves)
    return replace(found, topics=(replace(only(found), changes=(MoveReplicas(moves, assess_moves(moves)),)),))


def done(seen: ClusterState, reviewed: Plan, partitions: int) -> ClusterState:
    """Return the cluster after a run that ended when it had moved the first partitions of a plan."""
    lists = dict(enumerate(seen.topics["orders"].replicas))
    lists.update((move.partition, move.after) for move in only(reviewed).moves()[:partitions])
    return with_topic(seen, "orders", replicas=tuple(lists.values()))


def test_reviewed_lists_stand_when_a_broker_joins() -> None:
    """A new plan would use the new broker; the reviewed lists are applied, with the risk that was reviewed."""
    fresh = plan(JOINED, WANTED)
    assert moved(fresh) != moved(REVIEWED)
    left = filter_unreviewed(fresh, REVIEWED)
    assert (moved(left), held(left)) == (moved(REVIEWED), [])
    assert only(left).changes == only(REVIEWED).changes


@pytest.mark.parametrize("partitions", range(7))
def test_an_interrupted_run_goes_on_with_the_reviewed_lists(partitions: int) -> None:
    """Whatever was moved before, the rest gets the lists of the review, and nothing is refused."""
    seen = done(JOINED, REVIEWED, partitions)
    left = filter_unreviewed(plan(seen, WANTED), REVIEWED)
    expected = dict([*moved(REVIEWED).items()][partitions:])
    assert moved(left) == expected
    assert not any(each.refusals for each in left.topics)


def test_an_interrupted_adoption_goes_on() -> None:
    """The run that adopted the topic wrote its record before the first move: the owner is that of the review."""
    seen = state(topic(replicas=LISTS, record=None), brokers=RACKLESS_BROKERS)
    change = MoveReplicas(only(REVIEWED).moves(), only(REVIEWED).changes[0].assessment)
    reviewed = replace(
        REVIEWED, topics=(replace(only(REVIEWED), before=seen.topics["orders"], record_before=None, changes=(change,)),)
    )
    left = filter_unreviewed(plan(done(SEEN, REVIEWED, 2), WANTED), reviewed)
    assert len(moved(left)) == 4
    other = with_topic(SEEN, "orders", record=replace(SEEN.topics["orders"].record, owner="team"))  # type: ignore[type-var]
    assert not moved(filter_unreviewed(plan(other, WANTED), reviewed))


def test_a_partition_that_was_not_reviewed_stays() -> None:
    """Of a larger new plan, only the partitions of the review are moved."""
    first = replace(
        REVIEWED,
        topics=(replace(only(REVIEWED), changes=(MoveReplicas(only(REVIEWED).moves()[:2], assess_moves(())),)),),
    )
    left = filter_unreviewed(REVIEWED, replace(first, topics=(replace(only(first)),)))
    assert held(left) == [
        "was reviewed as Safe, and is Disruptive now: " + only(left).refusals[0].withheld[0].assessment.explanation,
        "partition 2, 3, 4, 5: the reviewed plan does not move it",
    ]
    with_risk = replace(
        first,
        topics=(
            replace(
                only(first),
                changes=(MoveReplicas(only(REVIEWED).moves()[:2], only(REVIEWED).changes[0].assessment),),
            ),
        ),
    )
    assert [*moved(filter_unreviewed(REVIEWED, with_risk))] == [0, 1]


def test_a_list_that_changed_since_the_review_is_not_moved() -> None:
    """A partition with another list than at the review is withheld, with both lists; the others are moved."""
    seen = with_topic(SEEN, "orders", replicas=((4, 2), *LISTS[1:]))
    left = filter_unreviewed(plan(seen, WANTED), REVIEWED)
    assert held(left) == ["partition 0: was on [4, 1] at the review, and is on [4, 2] now"]
    assert [*moved(left)] == [1, 2, 3, 4, 5]


FORGED: dict[str, tuple[Replicas, str]] = {
    "the drained broker stays": ((1, 4), "other replicas that stay"),
    "another leader": ((1, 2), "other replicas that stay"),
    "a replica less": ((1,), "another number of replicas"),
    "a replica more": ((2, 1, 3), "another number of replicas"),
    "two copies": ((2, 3), "another number of replicas"),
    "an unknown broker": ((9, 1), "broker 9, which is not registered"),
    "a drained broker": ((4, 1), "other replicas that stay"),
}


@pytest.mark.parametrize(("after", "words"), FORGED.values(), ids=FORGED)
def test_lists_that_no_new_plan_would_make(after: Replicas, words: str) -> None:
    """A reviewed list that differs in more than the broker of a copy is not used, nor is one that cannot be."""
    left = filter_unreviewed(REVIEWED, with_moves(REVIEWED, after))
    (message,) = held(left)
    assert words in message
    assert 0 not in moved(left)


def test_all_load_on_one_broker_is_not_plausible() -> None:
    """A forged plan that puts every copy on one broker is refused; the lists that are as planned are moved."""
    seen = state(topic(replicas=tuple((1, 2) for _ in range(12))), brokers=RACKED_BROKERS)
    on = replace(PROD_CLUSTER, moves=EVERY_KIND, drain_brokers=frozenset({1}))
    reviewed = plan(seen, spec(on=on, partitions=12, replicationFactor=2))
    forged = with_moves(reviewed, *[(4, 2)] * 11, (5, 6))
    left = filter_unreviewed(reviewed, forged)
    as_planned = {move.partition: "42" for move in only(reviewed).moves()[:11] if move.after == (4, 2)}
    assert as_planned
    assert moved(left) == as_planned
    messages = sorted(message.partition(": ")[2] for message in held(left))
    assert messages[0] == "was reviewed with another number of replicas, or of copies"
    assert "broker 4 leads 11 of its partitions" in messages[1]


def test_equal_lists_need_no_equal_reason() -> None:
    """A list that is as reviewed is applied, also if the review had another reason: people agreed to the list."""
    left = filter_unreviewed(REVIEWED, with_moves(REVIEWED, kinds=(MoveKind.SPREAD,)))
    assert (moved(left), held(left)) == (moved(REVIEWED), [])


def test_a_target_that_left_or_is_excluded_now() -> None:
    """A reviewed list with a broker that left, in another rack, excluded or drained by the run is not used."""
    target = only(REVIEWED).moves()[0].added[0]
    brokers = tuple(broker for broker in JOINED.brokers if broker.id != target)
    left = filter_unreviewed(plan(replace(JOINED, brokers=brokers), WANTED), REVIEWED)
    assert refusal_reasons(only(left)) == ["BrokersMissing"]
    on = replace(DRAINING, exclude_brokers=frozenset({target}))
    left = filter_unreviewed(plan(JOINED, spec(on=on, partitions=6, replicationFactor=2)), REVIEWED)
    assert any(f"broker {target}, which this run excludes" in message for message in held(left))
    on = replace(DRAINING, drain_brokers=frozenset({4, target}))
    left = filter_unreviewed(plan(JOINED, spec(on=on, partitions=6, replicationFactor=2)), REVIEWED)
    assert not any(target in move.added for move in only(left).moves())


def test_lists_of_a_manifest_are_those_of_the_manifest() -> None:
    """Explicit lists that differ from the review were changed in the manifest, and are reviewed again."""
    on = replace(PROD_CLUSTER, moves=EVERY_KIND)
    seen = state(topic(replicas=replica_lists("12")), brokers=RACKLESS_BROKERS)
    reviewed = plan(seen, spec(on=on, replicaAssignment=[[1, 3]]))
    left = filter_unreviewed(plan(seen, spec(on=on, replicaAssignment=[[1, 4]])), reviewed)
    assert held(left) == ["partition 0: was reviewed with another list than that of the manifest"]


def test_another_reason_is_another_change() -> None:
    """A list that is moved for another reason than at the review, to another broker, is withheld."""
    left = filter_unreviewed(plan(JOINED, WANTED), with_moves(REVIEWED, kinds=(MoveKind.SPREAD,)))
    assert held(left)
    assert all("was reviewed for Spread, and is moved for Drain now" in message for message in held(left))


SIX = tuple(map(Broker, range(1, 7)))
SPREADING = replace(PROD_CLUSTER, moves=replace(EVERY_KIND, allow=frozenset({MoveKind.SPREAD})))


@given(st.lists(st.permutations([1, 2, 3, 4]), min_size=4, max_size=12), st.data())
def test_a_spread_topic_goes_on_with_the_reviewed_rest(orders: list[list[int]], data: st.DataObject) -> None:
    """A topic that was spread in part ends with the reviewed lists, whatever a new plan would move instead."""
    lists = tuple(tuple(order[:2]) for order in orders)
    seen = state(topic(replicas=lists), brokers=SIX)
    wanted = spec(on=SPREADING, partitions=len(lists), replicationFactor=2)
    reviewed = plan(seen, wanted)
    if not reviewed.topics:
        return
    moves = only(reviewed).moves()
    partly = data.draw(st.sets(st.sampled_from(moves)))
    current = dict(enumerate(lists)) | {move.partition: move.after for move in partly}
    middle = with_topic(seen, "orders", replicas=tuple(current.values()))
    left = filter_unreviewed(plan(middle, wanted), reviewed)
    for each in left.topics:
        assert set(each.moves()) <= set(moves) - partly


def test_the_rest_of_a_spread_is_that_of_the_review() -> None:
    """A new plan would move other partitions of a topic that is spread in part; the reviewed rest is moved, and not to
    a broker that the run excludes.
    """
    seen = state(topic(replicas=replica_lists("34", "31", "43", "14", "42")), brokers=SIX)
    wanted = spec(on=SPREADING, partitions=5, replicationFactor=2)
    reviewed = plan(seen, wanted)
    assert moved(reviewed) == {0: "35", 1: "61", 2: "23"}
    middle = with_topic(seen, "orders", replicas=replica_lists("34", "31", "23", "14", "42"))
    fresh = plan(middle, wanted)
    assert moved(fresh) == {0: "54", 3: "16"}
    left = filter_unreviewed(fresh, reviewed)
    assert (moved(left), held(left)) == ({0: "35", 1: "61"}, [])
    without = filter_unreviewed(fresh, reviewed, {5})
    assert not any("5" in brokers for brokers in moved(without).values())
    assert held(without)


UNEVEN = topic(replicas=replica_lists("12", "13", "15", "16", "25", "36"))
"""Broker 1 leads four partitions; ``FRESH`` spreads them with three copies."""


def spread(lists: dict[int, str]) -> MoveReplicas:
    moves = tuple(
        ReplicaMove("orders", partition, UNEVEN.replicas[partition], replica_lists(after)[0], (MoveKind.SPREAD,))
        for partition, after in lists.items()
    )
    return MoveReplicas(moves, assess_moves(moves))


FRESH = spread({0: "42", 1: "53", 2: "65"})
RESTS: dict[str, tuple[dict[int, str], dict[int, str]]] = {
    "other partitions": ({1: "43", 3: "56"}, {1: "43", 3: "56"}),
    "fewer copies": ({0: "52", 1: "63"}, {0: "52", 1: "63"}),
    "one broker leads": ({0: "42", 1: "43", 2: "45"}, {0: "42"}),
    "a replica more": ({0: "425", 1: "63"}, {1: "63"}),
    "a replica less": ({0: "2", 1: "63"}, {1: "63"}),
    "more copies": ({0: "45", 1: "64"}, {}),
}


@pytest.mark.parametrize(("reviewed", "applied"), RESTS.values(), ids=RESTS)
def test_a_reviewed_rest_that_no_new_plan_would_make(reviewed: dict[int, str], applied: dict[int, str]) -> None:
    """The rest of a spread is used as a whole only if it keeps the number of replicas, copies no more than a new plan
    and loads no broker far more. Otherwise each partition is compared with the new plan.
    """
    brokers = {each.id: each for each in SIX}
    found = review_moves(TopicPlan("orders", UNEVEN), FRESH, spread(reviewed), BrokerSets(brokers, brokers, ()))
    moves = [move for change, why in found if isinstance(change, MoveReplicas) and not why for move in change.moves]
    assert {move.partition: "".join(map(str, move.after)) for move in moves} == applied


SAVED = replace(REVIEWED, topics=(replace(only(REVIEWED), spec=None),))
RAISED = plan(
    state(topic(replicas=replica_lists("12", "23")), brokers=RACKLESS_BROKERS),
    spec(on=DRAINING, partitions=2, replicationFactor=3),
)
LOWERED_FROM = state(topic(replicas=replica_lists("123", "231")), brokers=RACKLESS_BROKERS)
LOWERED = plan(
    LOWERED_FROM,
    spec(on=replace(DRAINING, broker_config={"min.insync.replicas": "1"}), partitions=2, replicationFactor=2),
)


def rechecked(kept: Plan, on: ClusterSpec, seen: ClusterState = SEEN) -> TopicPlan:
    """Return the topic of a saved plan after the checks of the run that applies it."""
    return only(recheck_saved_plan(kept, on, seen, planned_brokers=kept.brokers))


GUARDS: dict[str, tuple[Plan, ClusterSpec, ClusterState, str]] = {
    "as planned": (SAVED, DRAINING, SEEN, ""),
    "drained no more": (SAVED, replace(DRAINING, drain_brokers=frozenset()), SEEN, ""),
    "no moves": (SAVED, ClusterSpec(), SEEN, "MoveNotAllowed"),
    "another kind": (
        SAVED,
        replace(DRAINING, moves=MoveSettings(frozenset({MoveKind.FACTOR}), UNLIMITED)),
        SEEN,
        "MoveNotAllowed",
    ),
    "no throttle": (SAVED, replace(DRAINING, moves=replace(DRAIN_AND_FACTOR, throttle=None)), SEEN, "ThrottleMissing"),
    "target drained": (SAVED, replace(DRAINING, drain_brokers=frozenset({1, 2, 3})), SEEN, "ExcludedBrokers"),
    "target excluded": (SAVED, replace(DRAINING, exclude_brokers=frozenset({1, 2, 3})), SEEN, "ExcludedBrokers"),
    "target unknown": (with_moves(SAVED, (9, 1)), DRAINING, SEEN, "UnknownBrokers"),
    "protected": (SAVED, replace(DRAINING, protected=("ord*",)), SEEN, "ProtectedTopic"),
    "protected, drained": (
        SAVED,
        replace(DRAINING, protected=("ord*",), moves=replace(EVERY_KIND, protected=True)),
        SEEN,
        "",
    ),
    "protected, raised": (
        RAISED,
        replace(DRAINING, protected=("ord*",), moves=replace(EVERY_KIND, protected=True)),
        SEEN,
        "ProtectedTopic",
    ),
    "lowered": (LOWERED, replace(DRAINING, broker_config={"min.insync.replicas": "1"}), LOWERED_FROM, ""),
    "lowered, min ISR unknown": (LOWERED, DRAINING, LOWERED_FROM, ""),
    "lowered, min ISR 3": (
        LOWERED,
        DRAINING,
        with_topic(LOWERED_FROM, "orders", config={"min.insync.replicas": "3"}),
        "MinIsrAboveReplicas",
    ),
}


@pytest.mark.parametrize(("kept", "on", "seen", "reason"), GUARDS.values(), ids=GUARDS)
def test_the_cluster_of_the_run_permits_the_moves(kept: Plan, on: ClusterSpec, seen: ClusterState, reason: str) -> None:
    """The document of the applying run decides, not the plan file: kinds, throttle, targets, protected topics, and how
    few replicas may be left.
    """
    left = rechecked(kept, on, seen)
    assert refusal_reasons(left) == ([reason] if reason else [])
    assert all(refusal.hint for refusal in left.refusals)
    assert bool(left.moves()) is not bool(reason)


@pytest.mark.parametrize("allow", [frozenset(), *(frozenset({kind}) for kind in MoveKind)])
def test_each_kind_needs_its_permission(allow: frozenset[MoveKind]) -> None:
    """A move with several reasons needs all of them."""
    both = with_moves(SAVED, kinds=(MoveKind.DRAIN, MoveKind.RACKS))
    on = replace(DRAINING, moves=MoveSettings(allow, UNLIMITED))
    assert refusal_reasons(rechecked(both, on)) == ["MoveNotAllowed"]
    assert bool(rechecked(SAVED, on).moves()) is (MoveKind.DRAIN in allow)


BEFORES: dict[str, tuple[TopicState, str]] = {
    "another list": (topic(replicas=((1, 2), *LISTS[1:])), "was on [4, 1], and is on [1, 2] now"),
    "no such partition": (topic(replicas=LISTS[:5]), "partition 5 existed, and does not exist now"),
}


@pytest.mark.parametrize(("now", "words"), BEFORES.values(), ids=BEFORES)
def test_a_saved_plan_with_another_list_before_is_a_conflict(now: TopicState, words: str) -> None:
    """A saved move of a list that the cluster does not have is a conflict, and nothing of the topic is sent."""
    found = revalidate(SAVED, state(now, brokers=RACKLESS_BROKERS))
    assert words in found.conflicts["orders"]


def test_risk_is_that_of_the_moves_that_are_left() -> None:
    """The part that is applied has its own explanation, not that of the whole plan."""
    first = ReplicaMove("orders", 0, (4, 1), (2, 1), (MoveKind.DRAIN,))
    assert assess_moves([first]).risk is Risk.DISRUPTIVE
    left = filter_unreviewed(plan(done(SEEN, REVIEWED, 5), WANTED), REVIEWED)
    (change,) = only(left).changes
    assert change.assessment == assess_moves(only(left).moves())


@pytest.mark.parametrize("protected", [False, True])
def test_a_topic_of_kafka_itself_needs_the_permission_for_protected_ones(protected: bool) -> None:
    """An internal topic is drained only with ``protected``, whether or not a pattern of the Cluster names it."""
    name = "__consumer_offsets"
    internal = replace(only(SAVED), topic=name)
    on = replace(DRAINING, protected=(), moves=replace(DRAIN_AND_FACTOR, protected=protected))
    left = rechecked(replace(SAVED, topics=(internal,)), on, state(topic(name, LISTS), brokers=RACKLESS_BROKERS))
    assert refusal_reasons(left) == ([] if protected else ["ProtectedTopic"])
