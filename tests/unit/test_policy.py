"""What may be done: plans in, plans out, and nothing but less."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from topiarist.core.change import Change, Finding, Plan, Risk, TopicPlan
from topiarist.core.evolve import evolve
from topiarist.core.holding import hold
from topiarist.core.plan import EVERY, Run
from topiarist.core.policy import Allowance, allow_risk, restrict
from topiarist.core.state import TopicRecord
from topiarist.errors import Reason
from unit.builders import kinds, lists, mark, plan, refused, spec, state, topic
from unit.strategies import World, worlds

NO = Finding(Reason.DATA_LOSS, "not now")
LOSS = Allowance(Risk.DATA_LOSS, EVERY)


def _risky() -> Plan:
    """A topic that grows and loses messages, one that is deleted, one that is created."""
    config = {"retention.ms": "86400000", "segment.ms": "5"}
    seen = state(topic("clicks", lists("12", "23", "34"), "retention.ms", "segment.ms", config=config), topic("old"))
    wanted = spec("clicks", partitions=4, replicationFactor=2, config={"retention.ms": 5})
    return plan(seen, wanted, spec("old", ensure="Absent"), spec("new"))


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: kinds(each) for each in found.topics}


def test_data_loss_needs_a_word() -> None:
    """Without an allowance such changes are refused and held, the others stay; ``Disruptive`` needs none."""
    found = allow_risk(_risky(), ())
    assert _kinds(found) == {"clicks": ["AddPartitions"], "new": ["CreateTopic"], "old": []}
    clicks = found.topics[0]
    assert refused(clicks) == ["DataLoss"]
    assert "--allow-risk DataLoss=clicks" in clicks.refusals[0].instead
    assert [type(change).__name__ for change in clicks.refusals[0].held] == ["UpdateConfig"]


def test_an_allowance_for_all_or_for_some() -> None:
    """``DataLoss`` covers every topic, ``DataLoss=old`` only that one; another class covers no loss."""
    everything = {"clicks": ["AddPartitions", "UpdateConfig"], "new": ["CreateTopic"], "old": ["DeleteTopic"]}
    assert _kinds(allow_risk(_risky(), (LOSS,))) == everything
    some = allow_risk(_risky(), (Allowance(Risk.DATA_LOSS, ("old",)),))
    assert _kinds(some) == everything | {"clicks": ["AddPartitions"]}
    assert _kinds(allow_risk(_risky(), (Allowance(Risk.DISRUPTIVE, EVERY),))) == _kinds(allow_risk(_risky(), ()))


def test_what_is_held_is_not_in_the_record() -> None:
    """The record after the rest still has what was not removed, and not what was not set."""
    before = _risky().topics[0]
    assert mark(before) == TopicRecord("default", ("retention.ms",))
    held = allow_risk(_risky(), ()).topics[0]
    assert mark(held) == TopicRecord("default", ("retention.ms", "segment.ms"))


def test_a_topic_of_which_nothing_is_left() -> None:
    """Its record stays as it was."""
    old = allow_risk(_risky(), ()).topics[2]
    assert old.record_after == old.record_before == TopicRecord("default")
    assert not old.to_do


def test_an_adoption_of_which_nothing_is_left() -> None:
    """A topic that would have been adopted with its only change is then not adopted either."""
    seen = state(topic("clicks", record=None))
    found = plan(seen, spec("clicks", config={"retention.ms": 5}), run=Run(adopt=("*",)))
    assert mark(found.topics[0]) == TopicRecord("default", ("retention.ms",))
    assert allow_risk(found, ()).topics[0].record_after is None


def test_holding_nothing_changes_nothing() -> None:
    """No change held, the very same plan."""
    before = _risky().topics[0]
    assert hold(before, (), NO) is before


def test_observed_topics_are_not_judged() -> None:
    """What is not done anyway needs no permission."""
    seen = state(topic("old"))
    found = allow_risk(plan(seen, spec("old", ensure="Absent", mode="Observe")), ())
    assert _kinds(found) == {"old": ["DeleteTopic"]}
    assert not found.refused


@settings(max_examples=300)
@given(worlds(), st.sampled_from(["CreateTopic", "AddPartitions", "UpdateConfig", "DeleteTopic", "Adopt"]))
def test_a_policy_only_takes_away(world: World, kind: str) -> None:
    """No change is added or altered; what is taken away is held by one refusal each; the rest is done and done with."""

    def judge(_topic: TopicPlan, change: Change) -> Finding | None:
        return NO if type(change).__name__ == kind else None

    before = world.plan()
    after = restrict(before, judge)
    for one, other in zip(before.topics, after.topics, strict=True):
        gone = tuple(change for change in one.changes if one.to_do and type(change).__name__ == kind)
        assert other.changes == tuple(change for change in one.changes if change not in gone)
        assert tuple(change for refusal in other.refusals[len(one.refusals) :] for change in refusal.held) == gone
    later = evolve(world.state, after.topics)
    for each in after.to_do():
        record = later.topics[each.topic].record if each.topic in later.topics else later.records[each.topic]
        assert record == each.record_after
    left = restrict(world._replace(state=later).plan(), judge)
    deleted = any(type(change).__name__ == "DeleteTopic" for each in after.to_do() for change in each.changes)
    assert deleted or not [each for each in left.to_do() if set(kinds(each)) != {"Adopt"}]
