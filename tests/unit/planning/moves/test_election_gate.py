"""The gate of elections: what is done with each partition directly before and after an election."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import RACKLESS_BROKERS, replica_lists, topic
from topiarist.model.moves import LeaderChange
from topiarist.model.plan import ElectLeaders, TopicPlan
from topiarist.model.state import OwnershipRecord, PartitionState, Reassignment
from topiarist.planning.moves.execution.gate import ElectionJudgement, MovedTopic, judge_elections
from topiarist.planning.risk import assess_elections

FIRST, LAST = LeaderChange(0, 2, 1), LeaderChange(2, 4, 3)
BEFORE = topic()
PLAN = TopicPlan(
    "orders",
    BEFORE,
    BEFORE.record,
    BEFORE.record,
    (ElectLeaders((FIRST, LAST), assess_elections((FIRST, LAST))),),
)
AWAY = {0: PartitionState(2, (1, 2)), 1: PartitionState(2, (2, 3)), 2: PartitionState(4, (3, 4))}


def judge(requested: tuple[int, ...] = (), **fields: Any) -> ElectionJudgement:
    """Return the judgement of the plan on a topic that differs in ``fields`` from the planned one."""
    current = MovedTopic(BEFORE, {}, False, {broker.id: broker for broker in RACKLESS_BROKERS}, AWAY)
    return judge_elections(PLAN.elections(), PLAN, current._replace(**fields), requested)


def test_what_can_be_elected_is_ready() -> None:
    """The leader before does not count: another replica may lead by now."""
    assert judge() == ElectionJudgement(ready=(FIRST, LAST))
    assert judge(states={**AWAY, 0: PartitionState(3, (1, 3))}) == ElectionJudgement(ready=(FIRST, LAST))


def test_an_elected_leader_is_done() -> None:
    """A leader that is elected already, by this run or by the controller itself, is not elected again."""
    assert judge(states={**AWAY, 0: PartitionState(1, (1, 2))}) == ElectionJudgement(elected=(FIRST,), ready=(LAST,))


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
    assert judge(**fields) == ElectionJudgement(ready=(LAST,), held=((FIRST, cause),))


CONFLICTS: dict[str, tuple[dict[str, Any], str]] = {
    "deleted": ({"topic": None}, "existed, and does not exist now"),
    "recreated": ({"topic": topic(identity="8")}, "was deleted and recreated: it is another topic now"),
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
    assert judge(**fields) == ElectionJudgement(conflict)
