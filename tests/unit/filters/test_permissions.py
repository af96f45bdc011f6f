"""Permissions: filters that only remove changes from a plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.builders import (
    change_kinds,
    plan,
    record_without_values,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
)
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Reason
from topiarist.filters.permissions import filter_changes, filter_unapproved
from topiarist.model.plan import Change, Issue, Plan, Risk, TopicPlan, withhold
from topiarist.model.run_options import ALL_TOPICS, RiskApproval, RunOptions
from topiarist.model.state import OwnershipRecord
from topiarist.planning.preconditions import simulate

NO = Issue(Reason.DATA_LOSS, "not now")
LOSS = RiskApproval(Risk.DATA_LOSS, ALL_TOPICS)


def _risky() -> Plan:
    """Return a plan with one topic that grows and loses messages, one that is deleted, and one that is created."""
    config = {"retention.ms": "86400000", "segment.ms": "5"}
    seen = state(
        topic("clicks", replica_lists("12", "23", "34"), "retention.ms", "segment.ms", config=config), topic("old")
    )
    wanted = spec("clicks", partitions=4, replicationFactor=2, config={"retention.ms": 5})
    return plan(seen, wanted, spec("old", ensure="Absent"), spec("new"))


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: change_kinds(each) for each in found.topics}


def test_data_loss_needs_a_word() -> None:
    """Without an allowance, only changes with data loss are withheld; ``Disruptive`` needs none."""
    found = filter_unapproved(_risky(), ())
    assert _kinds(found) == {"clicks": ["AddPartitions"], "new": ["CreateTopic"], "old": []}
    clicks = found.topics[0]
    assert refusal_reasons(clicks) == ["DataLoss"]
    assert "--allow-risk DataLoss=clicks" in clicks.refusals[0].hint
    assert [type(change).__name__ for change in clicks.refusals[0].withheld] == ["UpdateConfig"]


def test_an_allowance_for_all_or_for_some() -> None:
    """``DataLoss`` covers every topic, ``DataLoss=old`` only that topic, and ``Disruptive`` no data loss."""
    everything = {"clicks": ["AddPartitions", "UpdateConfig"], "new": ["CreateTopic"], "old": ["DeleteTopic"]}
    assert _kinds(filter_unapproved(_risky(), (LOSS,))) == everything
    some = filter_unapproved(_risky(), (RiskApproval(Risk.DATA_LOSS, ("old",)),))
    assert _kinds(some) == everything | {"clicks": ["AddPartitions"]}
    assert _kinds(filter_unapproved(_risky(), (RiskApproval(Risk.DISRUPTIVE, ALL_TOPICS),))) == _kinds(
        filter_unapproved(_risky(), ())
    )


def test_what_is_held_is_not_in_the_record() -> None:
    """The record after the remaining changes keeps a key that was not removed, and omits a key that was not set."""
    before = _risky().topics[0]
    assert record_without_values(before) == OwnershipRecord("default", ("retention.ms",))
    held = filter_unapproved(_risky(), ()).topics[0]
    assert record_without_values(held) == OwnershipRecord("default", ("retention.ms", "segment.ms"))


def test_a_topic_of_which_nothing_is_left() -> None:
    """The record of a topic without remaining changes stays unchanged."""
    old = filter_unapproved(_risky(), ()).topics[2]
    assert old.record_after == old.record_before == OwnershipRecord("default")
    assert not old.is_actionable


def test_an_adoption_of_which_nothing_is_left() -> None:
    """A topic is not adopted if its only change is withheld."""
    seen = state(topic("clicks", record=None))
    found = plan(seen, spec("clicks", config={"retention.ms": 5}), run=RunOptions(adopt=("*",)))
    assert record_without_values(found.topics[0]) == OwnershipRecord("default", ("retention.ms",))
    assert filter_unapproved(found, ()).topics[0].record_after is None


def test_holding_nothing_changes_nothing() -> None:
    """Withholding no change returns the same plan."""
    before = _risky().topics[0]
    assert withhold(before, (), NO) is before


def test_observed_topics_are_not_judged() -> None:
    """The changes of an observed topic need no permission, because the run does not write them."""
    seen = state(topic("old"))
    found = filter_unapproved(plan(seen, spec("old", ensure="Absent", mode="Observe")), ())
    assert _kinds(found) == {"old": ["DeleteTopic"]}
    assert not found.has_refusals


@examples(300)
@given(plan_inputs(), st.sampled_from(["CreateTopic", "AddPartitions", "UpdateConfig", "DeleteTopic", "TakeOwnership"]))
def test_a_policy_only_takes_away(world: PlanInput, kind: str) -> None:
    """A filter adds and alters no change, and one refusal holds each removed change. A plan after the remaining changes
    has no further change.
    """

    def judge(_topic: TopicPlan, change: Change) -> Issue | None:
        return NO if type(change).__name__ == kind else None

    before = world.plan()
    after = filter_changes(before, judge)
    for one, other in zip(before.topics, after.topics, strict=True):
        gone = tuple(change for change in one.changes if one.is_actionable and type(change).__name__ == kind)
        assert other.changes == tuple(change for change in one.changes if change not in gone)
        assert tuple(change for refusal in other.refusals[len(one.refusals) :] for change in refusal.withheld) == gone
    later = simulate(world.state, after.topics)
    for each in after.actionable_topics():
        record = later.topics[each.topic].record if each.topic in later.topics else later.dangling_records[each.topic]
        assert record == each.record_after
    left = filter_changes(world._replace(state=later).plan(), judge)
    deleted = any(
        type(change).__name__ == "DeleteTopic" for each in after.actionable_topics() for change in each.changes
    )
    # Growth waits for moves, and the grown topic is spread after it.
    waits = bool(world.cluster.moves.allow)
    others = [each for each in left.actionable_topics() if set(change_kinds(each)) != {"TakeOwnership"}]
    assert deleted or waits or not others
