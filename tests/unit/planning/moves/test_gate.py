"""The gate before a batch: what is done with each move of a topic, and what forbids all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import topic
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import TopicPlan
from topiarist.model.state import NO_LEADER, OwnershipRecord, PartitionState, Reassignment, TopicState
from topiarist.planning.moves.execution.gate import Judgement, MovedTopic, judge_topic

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
        (replace(BEFORE, identity="8"), "was deleted and recreated: it is another topic now"),
        (replace(BEFORE, topic_id="id-2"), "was deleted and recreated: it is another topic now"),
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
