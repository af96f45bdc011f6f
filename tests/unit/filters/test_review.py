"""The review of a saved plan: a new plan keeps exactly the changes that both plans have."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import (
    ADOPT_ALL,
    PROD_CLUSTER,
    RACKED_BROKERS,
    RACKLESS_BROKERS,
    cluster,
    config_changes,
    plan,
    record_without_values,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
    with_topic,
)
from support.examples import examples
from support.memory_cluster import simulate
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Reason
from topiarist.filters.review import BrokerSets, already_satisfied, filter_unreviewed, recheck_saved_plan, review_moves
from topiarist.kafka.types import UNPLACED, Broker, Replicas
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    MoveReplicas,
    Plan,
    Risk,
    RiskAssessment,
    RunOptions,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord
from topiarist.planning.preconditions import APPLICABLE, check_plan
from topiarist.planning.risk import assess_moves

# The review of moves: reviewed lists stand, nothing else is moved, and an interrupted run goes on with its lists.

EVERY_KIND = MoveSettings(allow=frozenset(MoveKind), throttle=UNLIMITED)
DRAIN_AND_FACTOR = MoveSettings(allow=frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), throttle=UNLIMITED)
DRAINING = replace(PROD_CLUSTER, moves=DRAIN_AND_FACTOR, drain_brokers=frozenset({4}))
LISTS = replica_lists("41", "42", "43", "14", "24", "34")
SEEN = state(topic(replicas=LISTS), brokers=RACKLESS_BROKERS)
WANTED_MOVES = spec(on=DRAINING, partitions=6, replicationFactor=2)
REVIEWED = plan(SEEN, WANTED_MOVES)
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
    fresh = plan(JOINED, WANTED_MOVES)
    assert moved(fresh) != moved(REVIEWED)
    left = filter_unreviewed(fresh, REVIEWED)
    assert (moved(left), held(left)) == (moved(REVIEWED), [])
    assert only(left).changes == only(REVIEWED).changes


@pytest.mark.parametrize("partitions", range(7))
def test_an_interrupted_run_goes_on_with_the_reviewed_lists(partitions: int) -> None:
    """Whatever was moved before, the rest gets the lists of the review, and nothing is refused."""
    seen = done(JOINED, REVIEWED, partitions)
    left = filter_unreviewed(plan(seen, WANTED_MOVES), REVIEWED)
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
    left = filter_unreviewed(plan(done(SEEN, REVIEWED, 2), WANTED_MOVES), reviewed)
    assert len(moved(left)) == 4
    other = with_topic(SEEN, "orders", record=replace(SEEN.topics["orders"].record, owner="team"))  # type: ignore[type-var]
    assert not moved(filter_unreviewed(plan(other, WANTED_MOVES), reviewed))


def test_an_owner_that_came_since_the_review_is_a_conflict() -> None:
    """Only moves write the record before they are done, and only that of the review: any other one is a conflict."""
    unowned = with_topic(OLD, "orders", record=None)
    adopted = plan(unowned, spec(**WANTED), run=ADOPT_ALL)
    before = replace(SEEN.topics["orders"], record=None)
    moved_by_team = replace(only(REVIEWED), before=before, record_after=OwnershipRecord("team"))
    for fresh, reviewed in ((planned(), adopted), (REVIEWED, replace(REVIEWED, topics=(moved_by_team,)))):
        assert held(filter_unreviewed(fresh, reviewed)) == ["had no owner at the review, and has owner default now"]


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
    left = filter_unreviewed(plan(seen, WANTED_MOVES), REVIEWED)
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
    left = filter_unreviewed(plan(replace(JOINED, brokers=brokers), WANTED_MOVES), REVIEWED)
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
    left = filter_unreviewed(plan(JOINED, WANTED_MOVES), with_moves(REVIEWED, kinds=(MoveKind.SPREAD,)))
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


MOVE_GUARDS: dict[str, tuple[Plan, ClusterSpec, ClusterState, str]] = {
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
    "lowered, min ISR 1": (
        LOWERED,
        replace(DRAINING, broker_config={"min.insync.replicas": "3"}),
        with_topic(LOWERED_FROM, "orders", config={"min.insync.replicas": "1"}),
        "",
    ),
    "lowered, min ISR 3": (
        LOWERED,
        DRAINING,
        with_topic(LOWERED_FROM, "orders", config={"min.insync.replicas": "3"}),
        "MinIsrAboveReplicas",
    ),
}


@pytest.mark.parametrize(("kept", "on", "seen", "reason"), MOVE_GUARDS.values(), ids=MOVE_GUARDS)
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


def test_risk_is_that_of_the_moves_that_are_left() -> None:
    """The part that is applied has its own explanation, not that of the whole plan."""
    first = ReplicaMove("orders", 0, (4, 1), (2, 1), (MoveKind.DRAIN,))
    assert assess_moves([first]).risk is Risk.DISRUPTIVE
    left = filter_unreviewed(plan(done(SEEN, REVIEWED, 5), WANTED_MOVES), REVIEWED)
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


many = examples(300)
DOCUMENT = spec().manifest.source

OLD = state(topic("orders", replica_lists("12", "23"), "segment.ms", config={"segment.ms": "5"}))
SEVEN = (Broker(0, "a"), *RACKED_BROKERS)
WANTED: dict[str, Any] = {"partitions": 4, "config": {"segment.ms": 6, "retention.ms": 7}}


def of(plan: Plan, name: str = "orders") -> TopicPlan:
    return next(topic for topic in plan.topics if topic.topic == name)


def again(world: PlanInput, seed: int) -> PlanInput:
    """Return the same input with some specs changed and, for some seeds, one broker removed."""
    random = Random(seed)
    other = {each.topic: each for each in _other(world, seed)}
    specs = tuple(random.choice((each, other.get(each.topic, each))) for each in world.specs)
    brokers = world.state.brokers[random.choice((0, 0, 1)) :]
    return world._replace(specs=specs, state=replace(world.state, brokers=brokers))


def _other(world: PlanInput, seed: int) -> tuple[TopicSpec, ...]:
    shuffled = list(world.specs)
    Random(seed).shuffle(shuffled)
    return tuple(
        replace(mine, **{field: getattr(theirs, field) for field in ("config", "partitions", "create_partitions")})
        for mine, theirs in zip(world.specs, shuffled, strict=True)
        if mine.assignment is None
    )


def parts(change: Change) -> set[tuple[Any, ...]]:
    """Return a change as a review compares it: kind, before and after by key, without the brokers of new replicas."""
    match change:
        case UpdateConfig():
            return {("config", *item[:3]) for item in change.items}
        case CreateTopic():
            return {("create", tuple(map(len, change.replicas)), tuple(sorted(change.config.items())))}
        case AddPartitions():
            return {("grow", change.before, change.first_replicas, tuple(map(len, change.replicas)))}
        case DeleteTopic():
            return {("delete", change.partitions, change.replicas)}
        case MoveReplicas():
            # The rest of a topic that is only spread is reviewed as a whole: it may move other partitions.
            if all(move.kinds == (MoveKind.SPREAD,) for move in change.moves):
                return {("spread",)}
            return {("move", move.partition, move.before, len(move.after)) for move in change.moves}
    return {("adopt",)}


def all_parts(topics: tuple[TopicPlan, ...]) -> set[tuple[Any, ...]]:
    return {(topic.topic, *part) for topic in topics for change in topic.changes for part in parts(change)}


@many
@given(plan_inputs(), st.integers(0, 1 << 40))
def test_nothing_is_done_that_was_not_reviewed(world: PlanInput, seed: int) -> None:
    """Every remaining change is in both plans, and a refusal holds every other change. Nothing is lost or added."""
    reviewed, fresh = world.plan(), again(world, seed).plan()
    left = filter_unreviewed(fresh, reviewed)
    to_do = tuple(left.actionable_topics())
    assert all_parts(to_do) <= all_parts(tuple(reviewed.actionable_topics())) & all_parts(
        tuple(fresh.actionable_topics())
    )
    for found, was in zip(left.topics, fresh.topics, strict=True):
        held = [held for refusal in found.refusals[len(was.refusals) :] for held in refusal.withheld]
        everything = {part for change in (*found.changes, *held) for part in parts(change)}
        assert everything == {part for change in was.changes for part in parts(change)}
        assert {refusal.reason for refusal in found.refusals[len(was.refusals) :]} <= {Reason.NOT_REVIEWED}


@many
@given(plan_inputs(), st.integers(0, 1 << 40))
def test_what_is_left_can_be_done(world: PlanInput, seed: int) -> None:
    """Every remaining topic matches the preconditions of its plan, and its record fits the remaining changes.

    The config may be invalid without an unreviewed key that would have fixed it: then nothing is written.
    """
    merged = again(world, seed)
    left = filter_unreviewed(merged.plan(), world.plan())
    for _, stands in check_plan(left, merged.state):
        assert stands == APPLICABLE or stands.message.startswith("the config after the change would be invalid now: ")
    after = simulate(merged.state, left.actionable_topics())
    for found in left.actionable_topics():
        if found.topic in after.topics:
            record = after.topics[found.topic].valid_record
            assert record is not None
            asked = found.spec.config.keys() if found.spec else set()
            assert set(record.config_keys) <= after.topics[found.topic].config.keys() | asked


@many
@given(plan_inputs())
def test_the_same_plan_is_reviewed_whole(world: PlanInput) -> None:
    """An unchanged reviewed plan keeps every change."""
    fresh = world.plan()
    assert filter_unreviewed(fresh, world.plan()) == fresh
    assert already_satisfied(fresh, world.plan()) == ()


def planned(seen: ClusterState = OLD, **fields: Any) -> Plan:
    return plan(seen, spec(**{**WANTED, **fields}))


def test_each_key_counts_by_itself() -> None:
    """A key that was merged after the review is withheld, and the record has only the reviewed keys."""
    left = of(filter_unreviewed(planned(config={"segment.ms": 6, "retention.ms": 7, "flush.ms": 8}), planned()))
    assert config_changes(left) == {"segment.ms": ("5", "6"), "retention.ms": (None, "7")}
    assert record_without_values(left) == OwnershipRecord("default", ("retention.ms", "segment.ms"))
    assert left.refusals[0].message == "flush.ms: the reviewed plan does not have this change"
    assert "have it reviewed" in left.refusals[0].hint


def test_lists_of_the_manifest_that_are_as_reviewed_are_used() -> None:
    """Explicit lists that did not change since the review are no difference, however uneven they are."""
    found = plan(state(), spec(replicaAssignment=[[1, 4], [1, 4], [1, 4]]))
    assert filter_unreviewed(found, found) == found


def test_reviewed_lists_are_used_while_their_brokers_stand() -> None:
    """An additional broker changes the planned placement, and the run still uses the reviewed replica lists, also for
    a plan without specs, which has no explicit lists to compare.
    """
    fresh = planned(replace(OLD, brokers=SEVEN))
    assert fresh.topics != planned().topics
    for each in (fresh, replace(fresh, topics=(replace(of(fresh), spec=None),))):
        assert of(filter_unreviewed(each, planned())).changes == of(planned()).changes


OBJECTIONS: dict[str, tuple[ClusterState, dict[str, Any], str]] = {
    "gone": (replace(OLD, brokers=(*RACKED_BROKERS[:3], *RACKED_BROKERS[4:])), {}, "broker 4, which is not registered"),
    "in another rack": (
        replace(OLD, brokers=(*SEVEN[:4], Broker(4, "z"), *SEVEN[5:])),
        {},
        "broker 4, which was in another rack or not registered",
    ),
    "excluded": (
        replace(OLD, brokers=SEVEN),
        {"on": cluster("prod", exclude_brokers=frozenset({4}))},
        "this run excludes",
    ),
    "given otherwise": (
        OLD,
        {"partitions": None, "replicationFactor": None, "replicaAssignment": [[1, 2], [2, 3], [1, 6], [5, 1]]},
        "other replica lists than those of the manifest",
    ),
    "more of them": (OLD, {"partitions": 5}, "another number of partitions"),
    # The lists of new partitions follow from those of partition 0: after it moved, the reviewed lists are not used.
    "other first replicas": (
        with_topic(OLD, "orders", replicas=replica_lists("21", "23")),
        {},
        "had other partitions at the review",
    ),
}


@pytest.mark.parametrize(("seen", "fields", "words"), OBJECTIONS.values(), ids=OBJECTIONS.keys())
def test_lists_that_cannot_be_had(seen: ClusterState, fields: dict[str, Any], words: str) -> None:
    """If the reviewed lists are no longer possible, growth is refused, because other lists were not reviewed; the
    config is written.
    """
    fields = {key: value for key, value in {**WANTED, **fields}.items() if value is not None}
    left = of(filter_unreviewed(plan(seen, spec(**fields)), planned()))
    assert [type(change) for change in left.changes] == [UpdateConfig]
    assert refusal_reasons(left) == ["NotReviewed"]
    assert words in left.refusals[0].message


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        (replica_lists(*["14"] * 6), "in fewer racks than the lists of a new plan"),
        (replica_lists(*["12"] * 6), "broker 1 leads 6 of its partitions, with the lists of a new plan at most 1"),
        (
            replica_lists("21", "31", "51", "61", "21", "31"),
            "broker 1 holds 6 of its partitions, with the lists of a new plan at most 2",
        ),
    ],
    ids=["racks", "leaders", "replicas"],
)
def test_lists_that_no_planner_makes(forged: tuple[Replicas, ...], words: str) -> None:
    """Forged replica lists in a saved plan are refused: a plan file must not control the load of a cluster."""
    made = plan(state(), spec("new", partitions=6, replicationFactor=2))
    (found,) = made.topics
    ours = replace(found, changes=(CreateTopic(replica_lists("12", "34", "56", "23", "45", "61"), {}),))
    theirs = replace(found, changes=(CreateTopic(forged, {}),))
    left = of(filter_unreviewed(replace(made, topics=(ours,)), replace(made, topics=(theirs,))), "new")
    assert refusal_reasons(left) == ["NotReviewed"]
    assert words in left.refusals[0].message


def test_brokers_of_the_run_that_get_nothing() -> None:
    """``--without-brokers`` of the applying run takes precedence over the reviewed lists."""
    seven = replace(OLD, brokers=SEVEN)
    assert (
        "broker 4, which this run excludes from new replicas"
        in of(filter_unreviewed(planned(seven), planned(), {4})).refusals[0].message
    )


def _riskier(found: Plan) -> Plan:
    """Return the plan with the risks of its growth and of each config raised to data loss."""
    worse = RiskAssessment(Risk.DATA_LOSS, "worse")
    changes = tuple(
        UpdateConfig(tuple(item._replace(assessment=worse) for item in change.items))
        if isinstance(change, UpdateConfig)
        else replace(change, assessment=worse)
        for change in of(found).changes
    )
    return replace(found, topics=(replace(of(found), changes=changes),))


def test_what_may_cost_more_than_the_review_showed_was_not_reviewed() -> None:
    """A risk that rose after the review needs another review, and a risk that fell does not."""
    left = of(filter_unreviewed(_riskier(planned()), planned()))
    assert config_changes(left) == {"retention.ms": (None, "7")}  # as risky at the review
    assert [refusal.message for refusal in left.refusals] == [
        "was reviewed as Disruptive, and is DataLoss now: worse",
        "segment.ms: was reviewed as Safe, and is DataLoss now: worse",
    ]
    assert of(filter_unreviewed(planned(), _riskier(planned()))).refusals == ()


WHOLE: dict[str, tuple[Callable[[ClusterState], ClusterState], str]] = {
    "made again": (lambda seen: with_topic(seen, "orders", identity="9"), "was deleted and recreated after the review"),
    "gone": (lambda seen: replace(seen, topics={}), "existed at the review, and does not exist now"),
    "given up": (
        lambda seen: with_topic(seen, "orders", record=None, record_valid=False),
        "had owner default at the review, and has no owner now",
    ),
}


@pytest.mark.parametrize(("act", "words"), WHOLE.values(), ids=WHOLE.keys())
def test_another_topic_than_the_one_reviewed(act: Callable[[ClusterState], ClusterState], words: str) -> None:
    """A topic that is not the reviewed one is refused as a whole."""
    fresh = plan(act(OLD), spec(**WANTED, replicationFactor=2), run=RunOptions(adopt=("*",)))
    left = of(filter_unreviewed(fresh, planned()))
    assert (left.changes, left.record_after) == ((), left.record_before)
    assert words in left.refusals[-1].message


def test_a_topic_that_was_made_since_the_review() -> None:
    """If only the creation of a topic was reviewed, changes of the topic that exists now are refused."""
    left = of(filter_unreviewed(planned(), planned(state(), replicationFactor=2)))
    assert left.changes == ()
    assert "did not exist at the review, and exists now" in left.refusals[0].message


def test_a_kind_of_change_that_was_not_reviewed() -> None:
    """Growth that was merged after the review is withheld, and the reviewed changes of the topic are made."""
    left = of(filter_unreviewed(planned(), planned(partitions=2)))
    assert [type(change) for change in left.changes] == [UpdateConfig]
    assert left.refusals[0].message == "the reviewed plan has no change of this kind for the topic"


def test_an_adoption_is_that_of_the_reviewed_record() -> None:
    """A change of only the ownership record must write exactly the reviewed record."""
    seen = state(topic("orders", replica_lists("12"), config={"segment.ms": "5", "flush.ms": "6"}, record=None))
    small = plan(seen, spec(partitions=1, config={"segment.ms": 5}))
    large = plan(seen, spec(partitions=1, config={"segment.ms": 5, "flush.ms": 6}))
    assert of(filter_unreviewed(small, small)).refusals == ()
    assert of(filter_unreviewed(large, small)).refusals[0].message == "was reviewed with other values"


def test_a_deletion_is_that_of_the_reviewed_size() -> None:
    """The deletion of a topic that grew after the review was not reviewed; a different record is no obstacle."""
    gone = spec(ensure="Absent")
    reviewed, grown = (
        plan(OLD, gone),
        with_topic(OLD, "orders", replicas=replica_lists("12", "23", "34")),
    )
    assert of(filter_unreviewed(reviewed, reviewed)).changes == of(reviewed).changes
    assert refusal_reasons(of(filter_unreviewed(plan(grown, gone), reviewed))) == ["NotReviewed"]
    configured = with_topic(OLD, "orders", record=OwnershipRecord("default"))
    assert (
        of(filter_unreviewed(plan(configured, gone), reviewed)).changes == of(reviewed).changes
    )  # the record does not change the size


def test_what_is_not_needed_any_more() -> None:
    """The review lists topics that need no change now, because they match already or are no longer declared."""
    reviewed = plan(OLD, spec(**WANTED), spec("new"))
    assert already_satisfied(plan(OLD, spec(**WANTED), spec("new")), reviewed) == ()
    done = simulate(OLD, reviewed.topics)
    assert already_satisfied(plan(done, spec(**WANTED), spec("new")), reviewed) == ("new", "orders")
    assert already_satisfied(plan(OLD, spec(**WANTED)), reviewed) == ("new",)
    noticed = with_topic(done, "orders", config={**done.topics["orders"].config, "flush.ms": "8"})
    assert "orders" in already_satisfied(plan(noticed, spec(**WANTED), spec("new")), reviewed)
    taken = plan(with_topic(OLD, "orders", record=OwnershipRecord("team")), spec(**WANTED), spec("new"))
    assert of(taken).changes == ()
    assert already_satisfied(taken, reviewed) == ()  # refused, and therefore not listed


def guarded(kept: Plan, cluster: ClusterSpec, *, allow_unknown_brokers: bool = False) -> Plan:
    """Return a saved plan after the checks of the run that applies it."""
    # Left out where it is false, so that the default is tested: it must not allow brokers that the review did not have.
    options = {"allow_unknown_brokers": True} if allow_unknown_brokers else {}
    return recheck_saved_plan(kept, cluster, OLD, planned_brokers=kept.brokers, **options)


GUARDS: dict[str, tuple[ClusterSpec, Reason | None]] = {
    "nothing said": (ClusterSpec(), None),
    "a broker that the plan uses": (ClusterSpec(exclude_brokers=frozenset({4})), Reason.EXCLUDED_BROKERS),
    "a broker that it does not use": (ClusterSpec(exclude_brokers=frozenset({6})), None),
    "protected": (ClusterSpec(protected=("ord*",)), Reason.PROTECTED_TOPIC),
    "configs that its release has": (ClusterSpec(source=DOCUMENT), None),
}


@pytest.mark.parametrize(("on", "reason"), GUARDS.values(), ids=GUARDS.keys())
def test_the_clusters_document_of_the_run_counts(on: ClusterSpec, reason: Reason | None) -> None:
    """The document of the applying run determines excluded brokers and protected topics, not the plan file."""
    kept = replace(planned(), topics=(replace(of(planned()), spec=None),))
    left = of(guarded(kept, on))
    assert [refusal.reason for refusal in left.refusals] == ([reason] if reason else [])
    assert all(refusal.hint for refusal in left.refusals)
    assert bool(left.changes) == (reason is None)


@pytest.mark.parametrize("config", [{"confluent.tier": "x"}, {"local.retention.ms": "5"}], ids=["vendor", "release"])
@pytest.mark.parametrize("made", [True, False], ids=["create", "configure"])
def test_configs_are_judged_by_the_document_of_the_run(config: dict[str, str], made: bool) -> None:
    """The applying run checks configs with its own knowledge of the cluster, with or without a document, and ignores
    the claims of the plan file.
    """
    vendors = ("confluent.*",)
    changes = (
        (CreateTopic(replica_lists("12"), config),)
        if made
        else (UpdateConfig(tuple(ConfigItem(key, None, text, SAFE_ASSESSMENT) for key, text in config.items())),)
    )
    kept = replace(planned(), topics=(TopicPlan("orders", None if made else OLD.topics["orders"], changes=changes),))
    document = ClusterSpec(source=DOCUMENT, version=(2, 8))
    assert refusal_reasons(of(guarded(kept, document))) == ["ConfigInvalid"]
    # Only a run without the document of the cluster is told to pass it.
    hints = [of(guarded(kept, on)).refusals[0].hint for on in (document, replace(document, source=None))]
    assert ["--clusters" in hint for hint in hints] == [False, True]
    kept = replace(kept, min_version=(2, 4))
    assert refusal_reasons(of(guarded(kept, ClusterSpec()))) == [
        "ConfigInvalid" if "confluent.tier" in config else "ConfigTooNew"
    ]
    for other in (
        ClusterSpec(source=DOCUMENT, version=(3, 9), allow_unknown_configs=vendors),
        ClusterSpec(version=(3, 9), allow_unknown_configs=vendors),
    ):
        assert of(guarded(kept, other)).changes == changes


def test_a_key_that_was_set_before_may_be_changed() -> None:
    """Another value of a config that the brokers already took needs no newer version: they know it."""
    item = ConfigItem("local.retention.ms", "4", "5", SAFE_ASSESSMENT)
    kept = replace(
        planned(),
        topics=(TopicPlan("orders", OLD.topics["orders"], changes=(UpdateConfig((item,)),)),),
        min_version=(2, 4),
    )
    assert refusal_reasons(of(guarded(kept, ClusterSpec()))) == []
    new = UpdateConfig((ConfigItem("local.retention.ms", None, "5", SAFE_ASSESSMENT),))
    kept = replace(kept, topics=(replace(of(kept), changes=(new,)),))
    assert refusal_reasons(of(guarded(kept, ClusterSpec()))) == ["ConfigTooNew"]


def test_a_key_may_be_taken_away_whoever_knows_it() -> None:
    """A key that the document of the cluster does not allow may be removed."""
    changes = (UpdateConfig((ConfigItem("confluent.tier", "x", None, SAFE_ASSESSMENT),)),)
    kept = replace(planned(), topics=(TopicPlan("orders", OLD.topics["orders"], changes=changes),))
    assert of(guarded(kept, ClusterSpec(source=DOCUMENT))).changes == changes


def test_a_file_may_not_leave_out_the_brokers_that_it_uses() -> None:
    """A plan that uses brokers without listing their racks is refused, unless the run allows unknown brokers."""
    kept = replace(planned(), brokers=(), topics=(replace(of(planned()), spec=None),))
    left = of(guarded(kept, ClusterSpec()))
    assert refusal_reasons(left) == ["UnknownBrokers"]
    assert "--allow-unknown-brokers" in left.refusals[0].hint
    assert of(guarded(kept, ClusterSpec(), allow_unknown_brokers=True)).changes == of(planned()).changes


def test_a_new_topic_is_not_put_on_other_brokers() -> None:
    """The checks of new replicas are those of a creation too."""
    made = plan(state(), spec("new"))
    assert refusal_reasons(of(guarded(replace(made, brokers=()), ClusterSpec()), "new")) == ["UnknownBrokers"]
    excluded = ClusterSpec(exclude_brokers=frozenset(range(1, 7)))
    assert refusal_reasons(of(guarded(made, excluded), "new")) == ["ExcludedBrokers"]


def test_a_protected_topic_may_be_made_and_configured() -> None:
    """A protected topic may be created and configured, but not grown, deleted or given another cleanup policy."""
    on = ClusterSpec(protected=("*",))
    assert of(guarded(planned(partitions=2), on)).refusals == ()
    for wanted in (spec(partitions=2, config={"cleanup.policy": "compact"}), spec(ensure="Absent"), spec(partitions=3)):
        assert refusal_reasons(of(guarded(plan(OLD, wanted), on)))[-1] == "ProtectedTopic"
    assert of(guarded(plan(state(), spec("new")), on), "new").refusals == ()


def test_a_topic_of_kafka_itself_does_not_grow() -> None:
    """No pattern of the Cluster needs to name it."""
    internal = replace(of(planned()), topic="__consumer_offsets")
    left = guarded(replace(planned(), topics=(internal,)), ClusterSpec(protected=()))
    assert refusal_reasons(left.topics[0]) == ["ProtectedTopic"]


def test_replicas_that_the_cluster_places_need_no_known_broker() -> None:
    """A saved plan names no broker for them: they are refused only if the Cluster excludes brokers."""
    made = (CreateTopic(((UNPLACED, UNPLACED),), {}),)
    kept = replace(planned(), topics=(TopicPlan("orders", None, changes=made),))
    assert of(guarded(kept, ClusterSpec())).changes == made
    excluded = of(guarded(kept, ClusterSpec(exclude_brokers=frozenset({6}))))
    assert refusal_reasons(excluded) == ["PlacedByBrokers"]


def test_a_creation_has_the_reviewed_config() -> None:
    """A topic that would be created with another config than the reviewed one is not created."""
    reviewed, other = (plan(state(), spec("new", config={"retention.ms": time})) for time in (7, 8))
    assert of(filter_unreviewed(reviewed, reviewed), "new").changes == of(reviewed, "new").changes
    left = of(filter_unreviewed(other, reviewed), "new")
    assert left.changes == ()
    assert [refusal.message for refusal in left.refusals] == ["was reviewed with another config"]
