"""The gate before a batch: what is done with each move of a topic, and what forbids all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import CLUSTER_ID, RACKLESS_BROKERS, cluster, plan, replica_lists, spec, state, topic
from topiarist.errors import Reason
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import LeaderChange, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import ElectLeaders, MoveReplicas, Plan, TopicPlan, UpdateConfig
from topiarist.model.state import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    OwnershipRecord,
    PartitionState,
    Reassignment,
    TopicInspection,
    TopicState,
)
from topiarist.planning.moves.gate import (
    ElectionJudgement,
    Judgement,
    MovedTopic,
    MoveStanding,
    effective_min_isr,
    find_health_problem,
    find_standing,
    find_topic_health_problem,
    judge_elections,
    judge_topic,
    withhold_unhealthy_moves,
)
from topiarist.planning.risk import assess_elections

BROKERS = {number: Broker(number, rack) for number, rack in enumerate("abcab", start=1)}
LISTS: tuple[Replicas, ...] = ((1, 2), (2, 3), (3, 1))
FIRST, SECOND = ReplicaMove("orders", 0, (1, 2), (4, 2)), ReplicaMove("orders", 1, (2, 3), (5, 3))
OWNER = OwnershipRecord("default", ())
BEFORE = topic("orders", LISTS, topic_id="id-1")
PLAN = TopicPlan("orders", before=BEFORE, record_after=OWNER)
STATES = {partition: PartitionState(replicas[0], replicas) for partition, replicas in enumerate(LISTS)}


def moved(found: TopicState | None = BEFORE, **fields: Any) -> MovedTopic:
    """Return the topic as read directly before a batch."""
    given = {"reassignments": {}, "marked_for_deletion": False, "brokers": BROKERS, "states": STATES, **fields}
    return MovedTopic(topic=found, **given)


def judge(current: MovedTopic, plan: TopicPlan = PLAN, planned: Mapping[int, Broker] = BROKERS) -> Judgement:
    """Return the judgement of both moves."""
    return judge_topic((FIRST, SECOND), plan, planned, current)


def test_healthy_moves_are_ready() -> None:
    """Both moves of an unchanged topic may begin."""
    assert judge(moved()) == Judgement(ready=(FIRST, SECOND))


def test_each_move_is_judged_by_itself() -> None:
    """One is done, the other under way: neither is sent again."""
    found = replace(BEFORE, replicas=((4, 2), (5, 3, 2), (3, 1)))
    judgement = judge(moved(found, reassignments={1: Reassignment((5,), (2,))}))
    assert judgement == Judgement(done=(FIRST,), under_way=(SECOND,))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "existed, and does not exist now"),
        (replace(BEFORE, identity="8"), "was deleted and recreated, so it is a different topic"),
        (replace(BEFORE, topic_id="id-2"), "was deleted and recreated, so it is a different topic"),
        (replace(BEFORE, unknown_fields=("vendor",)), "has fields now that Kafka does not write: vendor"),
        (replace(BEFORE, replicas=LISTS[:2], partition_ids=(0, 1)), "partition 2 existed, and does not exist now"),
        (replace(BEFORE, record=None), "had owner default, and has no owner now"),
        (replace(BEFORE, record_valid=False), "had owner default, and has no owner now"),
        (replace(BEFORE, record=OwnershipRecord("other", ())), "had owner default, and has owner other now"),
        (
            replace(BEFORE, replicas=((1, 3), *LISTS[1:])),
            "partition 0 was on [1, 2], was to be on [4, 2], and is on [1, 3] now",
        ),
    ],
)
def test_another_topic_owner_or_list_is_a_conflict(found: TopicState | None, message: str) -> None:
    """Nothing of the topic is moved, with the difference as the message."""
    assert judge(moved(found)) == Judgement(message)


def test_a_deletion_request_is_a_conflict() -> None:
    """The controller is about to delete the topic."""
    assert judge(moved(marked_for_deletion=True)).conflict == "is marked for deletion now"


def test_a_partition_that_is_moved_elsewhere_is_a_conflict() -> None:
    """Another client reassigns it to a target that is not that of the plan."""
    found = replace(BEFORE, replicas=((5, 2, 1), *LISTS[1:]))
    judgement = judge(moved(found, reassignments={0: Reassignment((5,), (1,))}))
    assert judgement.conflict.endswith("and is on [5, 2, 1] now")


def test_an_id_that_is_not_known_on_one_side_is_no_difference() -> None:
    """A controller may assign it between plan and batch."""
    assert not judge(moved(replace(BEFORE, topic_id=None))).conflict
    assert not judge(moved(), replace(PLAN, before=replace(BEFORE, topic_id=None))).conflict
    assert not judge(moved(), replace(PLAN, before=None)).conflict


def test_a_plan_without_an_owner_does_not_compare_owners() -> None:
    """The plan writes no record, so any record may be there."""
    assert judge(moved(replace(BEFORE, record=None)), replace(PLAN, record_after=None)).ready == (FIRST, SECOND)


def test_a_target_in_another_rack_is_a_conflict() -> None:
    """The lists were made for its rack; a target without a part in what is left does not count."""
    other = {**BROKERS, 4: Broker(4, "z")}
    assert judge(moved(brokers=other)).conflict == "broker 4 was in rack a, and is in z now"
    done = replace(BEFORE, replicas=((4, 2), *LISTS[1:]))
    assert judge(moved(done, brokers=other)).ready == (SECOND,)


def test_a_target_that_was_not_planned_with_is_a_conflict() -> None:
    """Its rack was not known when the lists were made."""
    planned = {number: broker for number, broker in BROKERS.items() if number != 5}
    message = "broker 5, a target, was not registered when the plan was made"
    assert judge(moved(), planned=planned).conflict == message


def test_an_offline_target_holds_its_moves() -> None:
    """The other moves may begin."""
    online = {number: broker for number, broker in BROKERS.items() if number != 4}
    judgement = judge(moved(brokers=online))
    assert judgement.ready == (SECOND,)
    assert judgement.held == ((FIRST, "broker 4, which partition 0 moves to, is not registered"),)


def test_a_partition_of_another_client_in_flight_holds_all() -> None:
    """The topic is written with each move, so nothing else of it may begin."""
    found = replace(BEFORE, replicas=(*LISTS[:2], (4, 1, 3)))
    judgement = judge(moved(found, reassignments={2: Reassignment((4,), (3,))}))
    cause = "partition 2 of the topic is reassigned by another client"
    assert judgement.held == ((FIRST, cause), (SECOND, cause))


@pytest.mark.parametrize(
    ("states", "cause"),
    [
        ({0: STATES[0], 1: STATES[1]}, "partition 2 has no state: the controller has not initialized it"),
        ({**STATES, 2: PartitionState(NO_LEADER, (3, 1))}, "partition 2 has no leader"),
    ],
)
def test_an_unhealthy_partition_beside_holds_all(states: Mapping[int, PartitionState], cause: str) -> None:
    """Also if that partition is not moved."""
    assert judge(moved(states=states)).held == ((FIRST, cause), (SECOND, cause))


def test_an_unhealthy_partition_is_held_alone() -> None:
    """A replica that stays and is not in sync would keep the batch from ending."""
    judgement = judge(moved(states={**STATES, 0: PartitionState(1, (1,))}))
    assert judgement.ready == (SECOND,)
    assert judgement.held == ((FIRST, "broker 2 keeps a replica of partition 0 that is not in sync"),)
    assert judge(moved(min_isr=3)).ready == (FIRST, SECOND)  # as many in sync at the end as now


def test_without_states_health_is_not_judged() -> None:
    """The first look at all topics reads no partition states."""
    assert judge(moved(states=None)).ready == (FIRST, SECOND)


MOVE = ReplicaMove("orders", 4, (1, 2, 3), (1, 4, 3))
LOWER = ReplicaMove("orders", 4, (1, 2, 3), (1, 2))
RAISE = ReplicaMove("orders", 4, (1,), (1, 2, 3))
FEWER = ReplicaMove("orders", 4, (1, 2, 3), (1,))
DEAD = ReplicaMove("orders", 4, (1, 6), (1, 5))
SINGLE = ReplicaMove("orders", 4, (5,), (6,))


@pytest.mark.parametrize(
    ("move", "leader", "isr", "problem"),
    [
        (MOVE, 1, (1, 2, 3), ""),
        (MOVE, 1, (1, 3), ""),  # broker 2 leaves, so it may lag
        (MOVE, 1, (1, 2), "broker 3 keeps a replica of partition 4 that is not in sync"),
        (MOVE, 2, (2,), "broker 1 keeps a replica of partition 4 that is not in sync"),
        (MOVE, NO_LEADER, (1, 2, 3), "partition 4 has no leader"),
        (MOVE, LEADER_DURING_DELETE, (1, 2, 3), "partition 4 has no leader"),
        (MOVE, 9, (1, 2, 3), "broker 9, the leader of partition 4, is not registered"),
        (MOVE, 1, (1, 2, 3, 7), "broker 7 is in sync for partition 4, and is not in its replica list"),
        (LOWER, 1, (1, 2, 3), ""),
        (LOWER, 1, (1, 3), "broker 2 keeps a replica of partition 4 that is not in sync"),
        (SINGLE, 5, (5,), ""),
        (RAISE, 1, (1,), ""),
        (DEAD, 1, (1,), ""),
        (FEWER, 1, (1, 2, 3), "partition 4 would have 1 replica left of 3 in sync, and min.insync.replicas is 2"),
        (FEWER, 1, (1,), ""),
    ],
)
def test_only_replicas_that_leave_may_be_out_of_sync(
    move: ReplicaMove, leader: int, isr: Replicas, problem: str
) -> None:
    """The leader is online, the in-sync replicas are in the list, and every kept replica is in sync."""
    assert find_health_problem(move, PartitionState(leader, isr), {1, 2, 3, 4, 5, 6}, 2) == problem


def test_a_move_leaves_no_fewer_replicas_than_min_isr() -> None:
    """Also if ``min.insync.replicas`` was raised since the plan."""
    state = PartitionState(1, (1, 2, 3))
    assert find_health_problem(LOWER, state, {1, 2, 3}, 2) == ""
    expected = "partition 4 would have 2 replicas left of 3 in sync, and min.insync.replicas is 3"
    assert find_health_problem(LOWER, state, {1, 2, 3}, 3) == expected
    assert find_health_problem(LOWER, PartitionState(1, (1, 2)), {1, 2, 3}, 3) == ""
    assert find_health_problem(SINGLE, PartitionState(5, (5,)), {5, 6}, 1) == ""


@pytest.mark.parametrize(
    ("replicas", "reassignment", "standing"),
    [
        ((1, 2, 3), None, MoveStanding.BEFORE),
        ((1, 4, 3), None, MoveStanding.AFTER),
        ((1, 4, 3, 2), Reassignment((4,), (2,)), MoveStanding.UNDERWAY),
        ((4, 1, 3, 2), Reassignment((4,), (2,)), MoveStanding.CONFLICT),  # the same brokers in another order
        ((1, 5, 3, 2), Reassignment((5,), (2,)), MoveStanding.CONFLICT),
        ((1, 2, 3), Reassignment((), ()), MoveStanding.CONFLICT),
        ((3, 2, 1), None, MoveStanding.CONFLICT),  # what Kafka's own cancel leaves
        (None, None, MoveStanding.CONFLICT),
        (None, Reassignment((4,), (2,)), MoveStanding.CONFLICT),  # it does not exist, whatever is in flight
    ],
)
def test_the_standing_of_a_move_is_found_by_value(
    replicas: Replicas | None, reassignment: Reassignment | None, standing: MoveStanding
) -> None:
    """Neither the request nor a version tells how far a move is, only the topic's znode does."""
    assert find_standing(MOVE, replicas, reassignment) is standing


def test_raises_lowers_and_reorders_are_found_under_way() -> None:
    """A raise removes nothing, a lower adds nothing."""
    raised = ReplicaMove("orders", 0, (1, 2), (1, 2, 3))
    assert find_standing(raised, (1, 2, 3), Reassignment((3,), ())) is MoveStanding.UNDERWAY
    assert find_standing(LOWER, (1, 2, 3), Reassignment((), (3,))) is MoveStanding.UNDERWAY


DRAINING = cluster(
    "prod",
    cluster_id=CLUSTER_ID,
    version=(3, 9),
    moves=MoveSettings(frozenset(MoveKind), 1000),
    drain_brokers=frozenset({6}),
)
LISTS_OF_PLAN = replica_lists("61", "12", "26")
HEALTHY = {partition: PartitionState(replicas[0], replicas) for partition, replicas in enumerate(LISTS_OF_PLAN)}
PLAN_OF_MOVES = plan(
    state(topic("orders", LISTS_OF_PLAN)), spec("orders", DRAINING, partitions=3, replicationFactor=2), on=DRAINING
)


def inspection(states: Mapping[int, PartitionState], **fields: Any) -> TopicInspection:
    """Return the partitions of ``orders`` as they are now."""
    assert PLAN_OF_MOVES.topics[0].before is not None
    given = {
        "identity": PLAN_OF_MOVES.topics[0].before.identity,
        "assignment": dict(enumerate(LISTS_OF_PLAN)),
        "states": states,
    }
    return TopicInspection(**{**given, **fields})


def withheld(states: Mapping[int, PartitionState], **fields: Any) -> Plan:
    """Return the plan without unhealthy moves."""
    return withhold_unhealthy_moves(PLAN_OF_MOVES, {"orders": inspection(states, **fields)}, {})


def has_moves(planned: Plan) -> bool:
    """Return whether the plan still moves the topic."""
    return any(isinstance(change, MoveReplicas) for change in planned.topics[0].changes)


def test_healthy_topics_are_moved() -> None:
    """The plan is unchanged, also for a topic that could not be inspected."""
    assert withheld(HEALTHY) == PLAN_OF_MOVES
    assert withhold_unhealthy_moves(PLAN_OF_MOVES, {}, {}) == PLAN_OF_MOVES


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({**HEALTHY, 0: PartitionState(6, (6,))}, "broker 1 keeps a replica of partition 0 that is not in sync"),
        # Kafka would take the list over, fail, and leave the partition in flight.
        ({0: HEALTHY[0], 2: HEALTHY[2]}, "partition 1 has no state: the controller has not initialized it"),
        (
            {**HEALTHY, 0: PartitionState(6, (6,)), 2: PartitionState(6, (6,))},
            "broker 1 keeps a replica of partition 0 that is not in sync; 1 more partition likewise",
        ),
    ],
)
def test_unhealthy_topics_are_refused(states: Mapping[int, PartitionState], message: str) -> None:
    """All moves of the topic are withheld, with the first problem and the number of others."""
    planned = withheld(states)
    (refusal,) = planned.topics[0].refusals
    assert (refusal.reason, refusal.message) == (Reason.NOT_IN_SYNC, message)
    assert not has_moves(planned)
    assert [type(change) for change in refusal.withheld] == [MoveReplicas]


def test_partitions_below_their_minimum_are_moved() -> None:
    """A dead broker is replaced though writes fail until then; the plan says so, and so it does of what stays below."""
    states = {**HEALTHY, 0: PartitionState(1, (1,)), 2: PartitionState(2, (2,))}
    inspected = {"orders": inspection(states)}
    planned = withhold_unhealthy_moves(PLAN_OF_MOVES, inspected, {"min.insync.replicas": "2"})
    assert has_moves(planned)
    (notice,) = planned.topics[0].notices
    assert notice.message == (
        "min.insync.replicas is 2, and partition 0 has 1 replica in sync: writes with acks=all fail until it is moved;"
        " 1 more partition likewise"
    )
    old = replace(PLAN_OF_MOVES, config_rules=replace(PLAN_OF_MOVES.config_rules, version=(3, 6)))
    planned = withhold_unhealthy_moves(old, inspected, {"min.insync.replicas": "3"})
    assert has_moves(planned)
    assert "writes with acks=all fail also after the move" in planned.topics[0].notices[0].message


def test_the_shortage_of_a_partition_is_said_once() -> None:
    """What the move does to it replaces the notice that it is there; one replica is enough for one since 3.7."""
    on = replace(DRAINING, version=(3, 6))
    config = {"min.insync.replicas": "3"}
    wanted = spec("orders", on, partitions=3, replicationFactor=2, config={"min.insync.replicas": 3})
    planned = plan(state(topic("orders", LISTS_OF_PLAN, "min.insync.replicas", config=config)), wanted, on=on)
    inspected = {"orders": inspection(HEALTHY)}
    (notice,) = withhold_unhealthy_moves(planned, inspected, {}).topics[0].notices
    assert notice.message.startswith("min.insync.replicas is 3, and partition 0 has 2 replicas in sync")
    capped = plan(state(topic("orders", LISTS_OF_PLAN, "min.insync.replicas", config=config)), wanted, on=DRAINING)
    assert withhold_unhealthy_moves(capped, inspected, {}).topics[0].notices == ()


def test_a_topic_that_changed_since_is_left_to_the_apply() -> None:
    """Another topic of that name, lists that were changed, and states that cannot be read are compared later."""
    unhealthy = {**HEALTHY, 0: PartitionState(6, (6,))}
    assert withheld(unhealthy, identity="99") == PLAN_OF_MOVES
    assert withheld(unhealthy, assignment={}) == PLAN_OF_MOVES
    assert withheld({}, states_readable=False) == PLAN_OF_MOVES


def test_other_changes_of_an_unhealthy_topic_are_made() -> None:
    """Only its moves are withheld; a topic that is not moved, or only observed, is not looked at."""
    configured = spec("orders", DRAINING, partitions=3, replicationFactor=2, config={"retention.ms": 5})
    planned = plan(state(topic("orders", LISTS_OF_PLAN)), configured, on=DRAINING)
    unhealthy = {"orders": inspection({})}
    assert [type(change) for change in withhold_unhealthy_moves(planned, unhealthy, {}).topics[0].changes] == [
        UpdateConfig
    ]
    (only,) = planned.topics
    unmoved = tuple(change for change in only.changes if isinstance(change, UpdateConfig))
    still = replace(planned, topics=(replace(only, changes=unmoved),))
    assert withhold_unhealthy_moves(still, unhealthy, {}) == still
    observed = replace(planned, topics=(replace(only, observe_only=True),))
    assert withhold_unhealthy_moves(observed, unhealthy, {}) == observed


def test_a_refused_topic_is_not_refused_again() -> None:
    """A topic that is not moved for another reason keeps that reason alone."""
    refused = withheld({**HEALTHY, 0: PartitionState(6, (6,))})
    assert withhold_unhealthy_moves(refused, {"orders": inspection({})}, {}) == refused
    nothing = replace(PLAN_OF_MOVES, topics=())
    assert withhold_unhealthy_moves(nothing, {"orders": inspection({})}, {}) == nothing


def test_every_partition_has_a_state_with_a_leader() -> None:
    """The first partition with a problem is named."""
    assert find_topic_health_problem((0, 1, 2), HEALTHY) == ""
    assert find_topic_health_problem((), {}) == ""
    assert find_topic_health_problem((0, 7), HEALTHY).startswith("partition 7 has no state")
    assert find_topic_health_problem((0, 1), {**HEALTHY, 0: PartitionState(-2, (1,))}) == "partition 0 has no leader"


@pytest.mark.parametrize(
    ("config", "settings", "expected"),
    [
        ({}, {}, 1),
        ({}, {"min.insync.replicas": "2"}, 2),
        ({"min.insync.replicas": "3"}, {"min.insync.replicas": "2"}, 3),
        ({"min.insync.replicas": " 3 "}, {}, 3),
        ({"min.insync.replicas": "many"}, {"min.insync.replicas": "2"}, 1),
        ({"min.insync.replicas": ""}, {"min.insync.replicas": "2"}, 2),
    ],
)
def test_min_isr_is_that_in_effect(config: Mapping[str, str], settings: Mapping[str, str], expected: int) -> None:
    """The topic's override, else the setting of the brokers, else Kafka's default."""
    assert effective_min_isr(config, settings) == expected


FIRST_LEADER, LAST = LeaderChange(0, 2, 1), LeaderChange(2, 4, 3)
BEFORE_ELECTION = topic()
ELECTION_PLAN = TopicPlan(
    "orders",
    BEFORE_ELECTION,
    BEFORE_ELECTION.record,
    BEFORE_ELECTION.record,
    (ElectLeaders((FIRST_LEADER, LAST), assess_elections((FIRST_LEADER, LAST))),),
)
AWAY = {0: PartitionState(2, (1, 2)), 1: PartitionState(2, (2, 3)), 2: PartitionState(4, (3, 4))}


def judge_leaders(requested: tuple[int, ...] = (), **fields: Any) -> ElectionJudgement:
    """Return the judgement of the plan on a topic that differs in ``fields`` from the planned one."""
    current = MovedTopic(BEFORE_ELECTION, {}, False, {broker.id: broker for broker in RACKLESS_BROKERS}, AWAY)
    return judge_elections(ELECTION_PLAN.elections(), ELECTION_PLAN, current._replace(**fields), requested)


def test_what_can_be_elected_is_ready() -> None:
    """The leader before does not count: another replica may lead by now."""
    assert judge_leaders() == ElectionJudgement(ready=(FIRST_LEADER, LAST))
    assert judge_leaders(states={**AWAY, 0: PartitionState(3, (1, 3))}) == ElectionJudgement(ready=(FIRST_LEADER, LAST))


def test_an_elected_leader_is_done() -> None:
    """A leader that is elected already, by this run or by the controller itself, is not elected again."""
    assert judge_leaders(states={**AWAY, 0: PartitionState(1, (1, 2))}) == ElectionJudgement(
        elected=(FIRST_LEADER,), ready=(LAST,)
    )


HELD: dict[str, tuple[dict[str, Any], str]] = {
    "not in sync": (
        {"states": {**AWAY, 0: PartitionState(2, (2,))}},
        "broker 1, the first replica of partition 0, is not in sync",
    ),
    "without state": (
        {"states": {2: AWAY[2]}},
        "partition 0 has no state: the controller has not initialized it",
    ),
    "not registered": (
        {"brokers": {broker.id: broker for broker in RACKLESS_BROKERS[1:]}},
        "broker 1, the first replica of partition 0, is not registered",
    ),
    "in flight": ({"reassignments": {0: Reassignment((5,), (1,))}}, "partition 0 is being reassigned"),
    "named by a request": ({"requested": (0,)}, "partition 0 is being reassigned"),
}


@pytest.mark.parametrize(("fields", "cause"), HELD.values(), ids=HELD.keys())
def test_the_controller_would_give_it_up(fields: dict[str, Any], cause: str) -> None:
    """Such a partition is not listed in the request, and its cause is given (M40)."""
    assert judge_leaders(**fields) == ElectionJudgement(ready=(LAST,), held=((FIRST_LEADER, cause),))


CONFLICTS: dict[str, tuple[dict[str, Any], str]] = {
    "deleted": ({"topic": None}, "existed, and does not exist now"),
    "recreated": ({"topic": topic(identity="8")}, "was deleted and recreated, so it is a different topic"),
    "to be deleted": ({"marked_for_deletion": True}, "is marked for deletion now"),
    "of another owner": (
        {"topic": topic(record=OwnershipRecord("other"))},
        "had owner default, and has owner other now",
    ),
    "another first replica": (
        {"topic": topic(replicas=replica_lists("21", "23", "34"))},
        "broker 1 was the first replica of partition 0, which is on [2, 1] now",
    ),
    "fewer partitions": (
        {"topic": topic(replicas=replica_lists("12", "23"))},
        "partition 2 existed, and does not exist now",
    ),
}


@pytest.mark.parametrize(("fields", "conflict"), CONFLICTS.values(), ids=CONFLICTS.keys())
def test_another_topic_than_planned_is_a_conflict(fields: dict[str, Any], conflict: str) -> None:
    """No leader of it is elected."""
    assert judge_leaders(**fields) == ElectionJudgement(conflict)
