"""Nudging topics: which ones a plan sets again as they are, which it leaves alone, and why it refuses others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topiarist.core.change import Nudge
from topiarist.core.evolve import Position, evolve, standing
from topiarist.core.inspection import Inspection, PartitionState
from topiarist.core.nudge import checked, plan_nudge
from topiarist.core.state import ClusterState, Fault, Gate
from topiarist.core.waiting import Sight, brings, stage
from topiarist.errors import Reason
from topiarist.render.page import Page
from topiarist.render.text import plans
from unit.builders import lists, now, refused, state, topic, with_topic

LISTS = lists("12", "23", "78")
SEEN = state(topic("orders", LISTS))


def inspection(*taken: int, known: bool = True, faults: int = 0) -> Inspection:
    """What the controller has made of the topic: states of these partitions."""
    return Inspection(
        identity=7,
        assignment=dict(enumerate(LISTS)),
        states={partition: PartitionState(1, (1,)) for partition in taken},
        faults={partition: Fault("somewhere", "odd") for partition in range(faults)},
        known=known,
    )


CASES: dict[str, tuple[ClusterState, Inspection | None, list[str]]] = {
    "odd": (replace(SEEN, topics={}, faults={"orders": Fault("/x", "odd")}), inspection(), ["ZnodeUnreadable"]),
    "marked": (replace(SEEN, deleting=frozenset({"orders"})), inspection(), ["DeletionInProgress"]),
    "states forbidden": (SEEN, inspection(known=False), ["ZnodeUnreadable"]),
    "a state odd": (SEEN, inspection(faults=1), ["ZnodeUnreadable"]),
    "states not known": (SEEN, None, ["ZnodeUnreadable"]),
    "requested": (replace(SEEN, reassigning=frozenset({"orders"})), inspection(), ["ReassignmentInProgress"]),
    "moving": (with_topic(SEEN, "orders", reassigning=(1,)), inspection(), ["ReassignmentInProgress"]),
    "no broker": (SEEN, inspection(0, 1), ["BrokersMissing"]),
    "frozen": (replace(SEEN, gate=Gate(Reason.FROZEN, "until noon")), inspection(), ["Frozen"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_refused(case: tuple[ClusterState, Inspection | None, list[str]]) -> None:
    """Nothing is done, and each says why."""
    seen, found, reasons = case
    planned = plan_nudge(seen, "prod", {"orders": found}, "default")
    assert (refused(planned.plan.topics[0]), planned.plan.pending) == (reasons, False)


def test_partitions_that_could_be_taken_over_are_nudged() -> None:
    """Those without a state of which a broker is there; the record stays as it is."""
    planned = plan_nudge(SEEN, "prod", {"orders": inspection(0), "gone": None}, "team")
    (found,) = planned.plan.topics
    assert found.changes == (Nudge((1,)),)
    assert found.record_after == found.record_before
    assert (planned.well, planned.absent, planned.plan.owner) == ([], ["gone"], "team")
    assert "nudge: 1 partition without a state" in plans([planned.plan], Page(80), applying=True)
    assert "1 to nudge" in plans([planned.plan], Page(80), applying=True)


def test_a_topic_that_is_taken_over_needs_none() -> None:
    """Whatever else is going on with it."""
    busy = replace(SEEN, reassigning=frozenset({"orders"}))
    planned = plan_nudge(busy, "prod", {"orders": inspection(0, 1, 2)}, "default")
    assert (planned.plan.topics, planned.well) == ((), ["orders"])


def test_nothing_of_a_state_changes() -> None:
    """Not even a record."""
    planned = plan_nudge(SEEN, "prod", {"orders": inspection()}, "default").plan
    assert evolve(SEEN, planned.to_do()) == SEEN


MOVES = {
    "marked": replace(SEEN, deleting=frozenset({"orders"})),
    "gone": replace(SEEN, topics={}),
    "made again": with_topic(SEEN, "orders", identity=99),
    "requested": replace(SEEN, reassigning=frozenset({"orders"})),
    "moving": with_topic(SEEN, "orders", reassigning=(1,)),
    "grown": with_topic(SEEN, "orders", replicas=(*LISTS, (1, 2)), partition_ids=()),
}


@pytest.mark.parametrize("moved", MOVES.values(), ids=MOVES.keys())
def test_what_moves_a_topic_under_a_nudge(moved: ClusterState) -> None:
    """Configs and records may change: nothing of them is written."""
    plan = plan_nudge(SEEN, "prod", {"orders": inspection()}, "default").plan
    (one,) = plan.topics
    assert standing(one, plan.basis(), now(SEEN, "orders")).position is Position.BEFORE
    configured = with_topic(SEEN, "orders", config={"retention.ms": "5"}, record=None)
    assert standing(one, plan.basis(), now(configured, "orders")).position is Position.BEFORE
    stands = standing(one, plan.basis(), now(moved, "orders"))
    assert (stands.position, bool(stands.message)) == (Position.MOVED, True)


def test_the_states_are_waited_for_whosever_the_record_is() -> None:
    """A stale record is none of a nudge's business."""
    (plan,) = plan_nudge(SEEN, "prod", {"orders": inspection(0)}, "default").plan.topics
    assert brings(plan) == {1: LISTS[1]}
    assert plan.before is not None
    sight = Sight(plan.before.identity, False, replicas=dict(enumerate(LISTS)), stale=True)
    assert stage(plan, sight).reason is Reason.NOT_TAKEN_OVER
    assert stage(plan, sight._replace(taken=frozenset({1}))).final


def test_words_that_are_no_topic_names_are_refused() -> None:
    """Each name once, sorted."""
    assert checked(["b", "a", "b"]) == ("a", "b")
    with pytest.raises(ValueError, match="found"):
        checked(["topics/orders"])
