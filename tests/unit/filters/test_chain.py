"""The chain of filters that a run applies to a plan, in order."""

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
    cluster,
    plan,
    record_without_values,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
)
from support.examples import examples
from support.memory_cluster import simulate
from support.policy_builders import evaluate_rules, make_desired, policy
from support.strategies import PlanInput, plan_inputs
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import dumps, encode_plans
from topiarist.cli.terminal import Settings
from topiarist.desired.resolve import Desired
from topiarist.errors import Exit, Reason
from topiarist.filters.chain import (
    PlanFilter,
    apply_filters,
    enforce_budgets,
    filter_changes,
    filter_unapproved,
    limit_moves,
    withhold_split_groups,
)
from topiarist.filters.policies import bind_change
from topiarist.filters.review import filter_unreviewed, recheck_saved_plan
from topiarist.model.moves import UNLIMITED, LeaderChange, MoveKind, MoveSettings
from topiarist.model.plan import (
    ALL_TOPICS,
    Change,
    ElectLeaders,
    Issue,
    Plan,
    Risk,
    RiskApproval,
    RunOptions,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.spec import Budgets, ClusterSpec, TopicSpec
from topiarist.model.state import OwnershipRecord, ReadError
from topiarist.planning.planner import make_plan
from topiarist.planning.risk import assess_elections
from topiarist.runs.inputs import RunInputs

# Permissions: filters that only remove changes from a plan.

NO = Issue(Reason.DATA_LOSS, "not now")
ANY_LOSS = RiskApproval(Risk.DATA_LOSS, ALL_TOPICS)


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
    assert _kinds(filter_unapproved(_risky(), (ANY_LOSS,))) == everything
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


# Budgets: the changes that count, the withheld changes, and the numbers in the messages.

NO_LIMIT = Budgets(partitions_per_topic=1 << 31, deletions=1 << 31, notifications=1 << 31, moved_replicas=1 << 31)


def _mixed() -> Plan:
    """Return a plan with one topic of each kind: adopted, configured and grown, created, deleted, unchanged."""
    seen = state(
        topic("adopted", record=None),
        topic("both", replica_lists("12", "23", "34")),
        topic("gone-a"),
        topic("gone-b"),
        topic("same"),
    )
    return plan(
        seen,
        spec("adopted"),
        spec("both", partitions=6, replicationFactor=2, config={"compression.type": "zstd"}),
        spec("gone-a", ensure="Absent"),
        spec("gone-b", ensure="Absent"),
        spec("new", partitions=4, replicationFactor=2),
        spec("same"),
    )


def _messages(found: Plan) -> set[str]:
    return {
        refusal.message
        for each in found.topics
        for refusal in each.refusals
        if refusal.reason is Reason.BUDGET_EXCEEDED
    }


# the budget, its message when it is one too small, and the topics that it counts
EACH = {
    "topics": (Budgets(topics=3), "4 changed topics, 3 allowed (topics)", {"both", "gone-a", "gone-b", "new"}),
    "newPartitions": (
        Budgets(new_partitions=6),
        "7 new partitions, 6 allowed (newPartitions)",
        {"both", "new"},
    ),
    "partitionsPerTopic": (
        Budgets(partitions_per_topic=5),
        "6 partitions for both, 5 allowed (partitionsPerTopic)",
        {"both"},
    ),
    "deletions": (Budgets(deletions=1), "2 deletions, 1 allowed (deletions)", {"gone-a", "gone-b"}),
    "changedShare": (
        Budgets(changed_share=59),
        "3 of 5 existing topics changed, 59% allowed (changedShare)",
        {"both", "gone-a", "gone-b"},
    ),
}


def _larger(budgets: Budgets) -> Budgets:
    """Return the budgets with each limit raised by one."""
    defaults = Budgets()
    found = {name: getattr(budgets, name) for name in Budgets.__struct_fields__}
    return Budgets(**{name: value + 1 for name, value in found.items() if value != getattr(defaults, name)})


@pytest.mark.parametrize("case", EACH.values(), ids=EACH.keys())
def test_over_a_budget_nothing_is_left(case: tuple[Budgets, str, set[str]]) -> None:
    """Over a budget, every change is refused with both numbers; with one more allowed, no change is."""
    budgets, words, _ = case
    before = _mixed()
    after = enforce_budgets(before, budgets)
    assert not after.has_changes
    assert after.has_refusals
    assert _messages(after) == {f"{words}: nothing is written to this cluster"}
    assert all("--partial" in each.refusals[-1].hint for each in after.topics)
    assert {each.topic: [type(c).__name__ for c in each.refusals[-1].withheld] for each in after.topics} == _kinds(
        before
    )
    assert enforce_budgets(before, _larger(budgets)) == before


@pytest.mark.parametrize("case", EACH.values(), ids=EACH.keys())
def test_partial_holds_back_what_the_budget_counts(case: tuple[Budgets, str, set[str]]) -> None:
    """``--partial`` withholds only the changes that the budget counts: not an adoption, and not the config of a topic
    that would grow too far.
    """
    budgets, words, counted = case
    before = _mixed()
    after = enforce_budgets(before, budgets, partial=True)
    assert _messages(after) == {words}
    assert all("spec.budgets" in issue.hint for each in after.topics for issue in each.refusals)
    name = words.partition("(")[2].rstrip(")")
    told = f"the changes of all topics together exceed the budget {name} of the Cluster"
    assert {issue.own_message for each in after.topics for issue in each.refusals} == {told}
    assert {each.topic for each in after.topics if each.refusals} == counted
    assert "TakeOwnership" in _kinds(after)["adopted"]
    if words.endswith("(partitionsPerTopic)"):
        assert _kinds(after)["both"] == ["UpdateConfig"]


def test_several_budgets_at_once() -> None:
    """One refusal has all exceeded budgets; with ``--partial``, each topic has the budgets that count it."""
    budgets = Budgets(topics=1, new_partitions=1, partitions_per_topic=3, deletions=0, changed_share=0)
    (message,) = _messages(enforce_budgets(_mixed(), budgets))
    assert message.count("allowed") == 5
    assert "6 partitions for both and too many for 1 other topic, 3 allowed (partitionsPerTopic)" in message
    after = enforce_budgets(_mixed(), replace(budgets, topics=None, changed_share=None), partial=True)
    assert _kinds(after) == {
        "adopted": ["TakeOwnership"],
        "both": ["UpdateConfig"],
        "gone-a": [],
        "gone-b": [],
        "new": [],
    }


def test_the_defaults() -> None:
    """The defaults allow 1,000 partitions a topic, 5 deletions and 1,000 notifications, and have no other limit."""
    gone = [f"t{number}" for number in range(6)]
    seen = state(*(topic(name) for name in gone))
    five = plan(seen, *(spec(name, ensure="Absent") for name in gone[:5]))
    assert enforce_budgets(five, Budgets()) == five
    six = plan(seen, *(spec(name, ensure="Absent") for name in gone))
    assert _messages(enforce_budgets(six, Budgets())) == {
        "6 deletions, 5 allowed (deletions): nothing is written to this cluster"
    }
    wide = plan(state(), spec("wide", partitions=1000, replicationFactor=1))
    assert enforce_budgets(wide, Budgets()) == wide
    wider = plan(state(), spec("wide", partitions=1001, replicationFactor=1))
    assert refusal_reasons(enforce_budgets(wider, Budgets()).topics[0]) == ["BudgetExceeded"]
    names = [f"c{number:04}" for number in range(1001)]
    many = plan(state(*map(topic, names)), *(spec(name, config={"compression.type": "zstd"}) for name in names))
    left = enforce_budgets(many, Budgets())
    assert [each.topic for each in left.topics if not each.is_actionable] == ["c1000"]


def test_the_first_notifications_by_name() -> None:
    """The first notifications by name are sent. All other topics keep only their growth or creation, which send none;
    the next run sends the rest.
    """
    seen = state(*(topic(name, replica_lists("12", "23", "34")) for name in "abcd"))
    wanted = [spec(name, partitions=4, replicationFactor=2, config={"compression.type": "zstd"}) for name in "abcd"]
    after = enforce_budgets(
        plan(seen, *wanted, spec("e", config={"compression.type": "zstd"})), Budgets(notifications=2)
    )
    both, grown = ["AddPartitions", "UpdateConfig"], ["AddPartitions"]
    assert _kinds(after) == {"a": both, "b": both, "c": grown, "d": grown, "e": ["CreateTopic"]}
    assert _messages(after) == {"4 config notifications to send, 2 allowed (notifications)"}
    assert "run again" in after.topics[2].refusals[0].hint
    held = after.topics[2]
    assert held.record_after is not None
    assert held.record_after.config_keys == ()


def test_brokers_that_are_asked_need_no_notification() -> None:
    """Through the brokers the budget has no meaning, and every config is changed."""
    seen = state(topic("a"), topic("b"), bypasses_brokers=False)
    wanted = [spec(name, config={"compression.type": "zstd"}) for name in "ab"]
    after = enforce_budgets(plan(seen, *wanted), Budgets(notifications=0))
    assert _kinds(after) == {"a": ["UpdateConfig"], "b": ["UpdateConfig"]}


def test_what_is_not_done_costs_nothing() -> None:
    """Observed topics and changes that are refused for other reasons do not count."""
    seen = state(topic("a"), topic("b", replica_lists("12", "23"), record=None))
    found = plan(seen, spec("a", ensure="Absent", mode="Observe"), spec("b", partitions=9, replicationFactor=2))
    assert enforce_budgets(found, Budgets(topics=0, new_partitions=0, deletions=0, changed_share=0)) == found


def test_a_share_is_one_of_all_topics_each_counted_once() -> None:
    """``changedShare`` counts each existing topic once, and a topic with only a notice as unchanged."""
    seen = state(
        topic("changed"), topic("noticed", config={"flush.ms": "5"}), topic("refused", replica_lists("12", "23"))
    )
    wanted = [spec("changed", config={"compression.type": "zstd"}), spec("noticed"), spec("refused", partitions=1)]
    found = plan(seen, *wanted)
    assert _kinds(found) == {"changed": ["UpdateConfig"], "noticed": [], "refused": []}
    (message,) = _messages(enforce_budgets(found, Budgets(changed_share=33)))
    assert message.startswith("1 of 3 existing topics changed, 33% allowed")
    assert enforce_budgets(found, Budgets(changed_share=34)) == found


def test_a_share_counts_topics_that_are_not_selected() -> None:
    """With a selection, ``changedShare`` is a share of the existing topics of all manifests, not of the selected."""
    seen = state(topic("changed"), topic("other"), topic("unmanaged"))
    options = RunOptions(selection="--topic changed", unselected=frozenset({"other", "not-created"}))
    found = make_plan(seen, ClusterSpec(), [spec("changed", config={"compression.type": "zstd"})], options)
    (message,) = _messages(enforce_budgets(found, Budgets(changed_share=49)))
    assert message.startswith("1 of 2 existing topics changed, 49% allowed")
    assert enforce_budgets(found, Budgets(changed_share=50)) == found


@examples(200)
@given(plan_inputs(), st.integers(0, 3), st.integers(0, 40), st.booleans())
def test_budgets_only_take_away(world: PlanInput, few: int, share: int, partial: bool) -> None:
    """The remaining changes are within every budget, and a refusal with the reason holds every other change."""
    before = replace(world.plan(), write_block=world.state.write_block)
    budgets = Budgets(few, few, few + 1, few, share, few)
    after = enforce_budgets(before, budgets, partial=partial)
    for one, other in zip(before.topics, after.topics, strict=True):
        gone = [change for change in one.changes if change not in other.changes]
        assert set(map(id, other.changes)) <= set(map(id, one.changes))
        new = other.refusals[len(one.refusals) :]
        assert [change for refusal in new for change in refusal.withheld] == gone
        assert {refusal.reason for refusal in new} <= {Reason.BUDGET_EXCEEDED}
    assert enforce_budgets(after, replace(budgets, changed_share=None), partial=partial) == after
    left = [change for each in after.actionable_topics() for change in each.changes]
    assert sum(isinstance(change, UpdateConfig) for change in left) <= few
    assert sum(not isinstance(change, TakeOwnership) for change in left) <= 2 * few
    assert enforce_budgets(before, NO_LIMIT) == before


def test_moves_count_by_copies_and_by_partitions() -> None:
    """``movedReplicas`` counts copies, ``movedPartitions`` also lists that are only reordered."""
    on = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.ASSIGNMENT}), throttle=UNLIMITED))
    seen = state(topic())
    whole = plan(seen, spec(on=on, replicaAssignment=[[2, 1], [2, 5], [4, 5]]))  # two lists of other brokers
    assert enforce_budgets(whole, Budgets(moved_replicas=2, moved_partitions=3)) == whole
    copies = enforce_budgets(whole, Budgets(moved_replicas=1))
    assert copies.topics[0].refusals[0].message.startswith("2 copied replicas, 1 allowed (movedReplicas)")
    partitions = enforce_budgets(whole, Budgets(moved_partitions=2))
    assert partitions.topics[0].refusals[0].message.startswith("3 moved partitions, 2 allowed (movedPartitions)")
    assert not partitions.has_changes


def test_a_partial_run_leaves_out_the_moves_alone() -> None:
    """With ``--partial`` an exceeded budget of moves withholds every move, and no other change of the topics."""
    on = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.ASSIGNMENT}), throttle=UNLIMITED))
    lists = [[2, 1], [2, 5], [4, 5]]
    seen = state(topic("a"), topic("b"))
    whole = plan(
        seen, spec("a", on, replicaAssignment=lists, config={"retention.ms": 5}), spec("b", on, replicaAssignment=lists)
    )
    for budgets in (Budgets(moved_replicas=3), Budgets(moved_partitions=5)):
        left = enforce_budgets(whole, budgets, partial=True)
        assert [[type(change) for change in each.changes] for each in left.topics] == [[UpdateConfig], []]
        assert not enforce_budgets(whole, budgets).has_changes
    assert enforce_budgets(whole, Budgets(moved_replicas=4, moved_partitions=6), partial=True) == whole


# Topics of one co-partition group: all of them grow, or none, whatever another filter withholds.

TWO = replica_lists("12", "23")


def _grown(name: str, partitions: int = 4, **fields: Any) -> TopicSpec:
    return spec(name, partitions=partitions, replicationFactor=2, coPartitionGroup="join", **fields)


def _plan(*names: str) -> Plan:
    """Return a plan in which each of the topics grows from 2 to 4 partitions."""
    return plan(state(*(topic(name, TWO) for name in names)), *map(_grown, names))


def _withhold_all(found: Plan, name: str) -> Plan:
    def one(each: TopicPlan) -> TopicPlan:
        return withhold(each, each.changes, Issue(Reason.DATA_LOSS, "not allowed")) if each.topic == name else each

    return replace(found, topics=tuple(map(one, found.topics)))


def _without_lists(each: TopicPlan) -> TopicPlan:
    """Return a topic as a saved plan has it, without the replica lists before."""
    return replace(each, before=each.before and replace(each.before, replicas=()))


def test_one_topic_that_may_not_grow_holds_the_others() -> None:
    """The counts of all are in the message; the other changes of a topic are made."""
    seen = state(topic("a", TWO), topic("b", TWO), topic("other", TWO))
    other = spec("other", partitions=4, replicationFactor=2)
    changed = _grown("b", config={"retention.ms": 3600000})
    found = withhold_split_groups(_withhold_all(plan(seen, _grown("a"), changed, other), "a"))
    assert _kinds(found) == {"a": [], "b": ["UpdateConfig"], "other": ["AddPartitions"]}
    assert refusal_reasons(found.topics[1]) == ["CoPartitionsDiffer"]
    assert found.topics[1].refusals[0].field == ("coPartitionGroup",)
    assert found.topics[1].refusals[0].hint.startswith("its topics grow together or not at all")
    assert found.topics[1].refusals[0].message == (
        "coPartitionGroup join would have different counts: a 2 partitions, b 4 partitions"
    )
    own = "the topics of coPartitionGroup join would have different counts"
    assert found.topics[1].refusals[0].own_message == own
    assert refusal_reasons(found.topics[0]) == ["DataLoss"]


def test_a_new_topic_waits_for_its_group() -> None:
    """A creation with the new number would make the group differ; without the topic it does not."""
    seen = state(topic("a", TWO))
    specs = [_grown(name) for name in ("a", "new")]
    assert _kinds(withhold_split_groups(_withhold_all(plan(seen, *specs), "a"))) == {"a": [], "new": []}
    assert _kinds(withhold_split_groups(_withhold_all(plan(seen, *specs), "new"))) == {
        "a": ["AddPartitions"],
        "new": [],
    }


def test_a_topic_with_more_partitions_holds_its_group() -> None:
    """Kafka cannot remove partitions, so the others would stay different."""
    seen = state(topic("a", replica_lists(*["12"] * 6)), topic("b", TWO))
    found = withhold_split_groups(plan(seen, _grown("a"), _grown("b")))
    assert _kinds(found) == {"a": [], "b": []}
    assert refusal_reasons(found.topics[0]) == ["FewerPartitions"]
    assert "a 6 partitions, b 4 partitions" in found.topics[1].refusals[0].message


@pytest.mark.parametrize("fields", [{"mode": "Observe"}, {"ignore": ["partitions"]}])
def test_a_topic_that_is_never_changed_holds_its_group(fields: dict[str, Any]) -> None:
    """Its growth is only reported, so that the others would grow alone."""
    seen = state(topic("a", TWO), topic("b", TWO))
    found = withhold_split_groups(plan(seen, _grown("a", **fields), _grown("b")))
    assert refusal_reasons(found.topics[1]) == ["CoPartitionsDiffer"]
    assert _kinds(found)["b"] == []


def test_a_topic_that_cannot_be_read_holds_its_group() -> None:
    """Its number of partitions is not known."""
    seen = state(topic("b", TWO), topic_errors={"a": ReadError("/brokers/topics/a", "not JSON")})
    found = withhold_split_groups(plan(seen, _grown("a"), _grown("b")))
    assert found.topics[1].refusals[0].message == "a of coPartitionGroup join cannot be read"


def test_budgets_come_first() -> None:
    """A budget that leaves one topic of a group leaves none."""
    seen = state(topic("a", TWO), topic("b", replica_lists("12", "23", "31")))
    made = plan(seen, _grown("a", 5), _grown("b", 5))
    budgets = Budgets(partitions_per_topic=4)
    assert _kinds(enforce_budgets(made, budgets, partial=True)) == {"a": [], "b": []}
    alone = _withhold_all(_plan("a", "b"), "b")
    assert _kinds(apply_filters(alone, Budgets(), partial=True)) == {"a": [], "b": []}


def test_a_saved_plan_keeps_its_groups() -> None:
    """A topic that has changed since holds the others of its group."""
    (saved,) = parse_plan_file(dumps(encode_plans([_plan("a", "b")])).encode(), "plan.json").plans
    assert [each.co_partition_group for each in saved.topics] == ["join", "join"]
    assert withhold_split_groups(saved) is saved
    assert _kinds(withhold_split_groups(saved, {"a"})) == {"a": [], "b": []}


def test_a_saved_plan_counts_what_it_withheld() -> None:
    """A saved plan knows the partitions of a topic by its growth alone: withheld growth holds the others, and a topic
    without growth does not.
    """
    seen = state(topic("a", TWO), topic("b", TWO))
    made = plan(seen, _grown("a"), _grown("b", config={"retention.ms": 3600000}))
    saved = replace(made, topics=tuple(_without_lists(each) for each in made.topics))
    assert _kinds(withhold_split_groups(_withhold_all(saved, "a"))) == {"a": [], "b": ["UpdateConfig"]}
    grown = state(topic("a", TWO), topic("b", replica_lists("12", "23", "31", "12")))
    made = plan(grown, _grown("a"), _grown("b", config={"retention.ms": 3600000}))
    saved = replace(made, topics=tuple(_without_lists(each) for each in made.topics))
    assert withhold_split_groups(saved) is saved


@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_equal_counts_or_no_growth(allowed: list[bool]) -> None:
    """Whatever is withheld, the topics of a group have equal counts afterwards."""
    names = [f"t{index}" for index in range(len(allowed))]
    found = _plan(*names)
    for name, may_grow in zip(names, allowed, strict=True):
        found = found if may_grow else _withhold_all(found, name)
    left = _kinds(withhold_split_groups(found))
    assert set(map(tuple, left.values())) == ({("AddPartitions",)} if all(allowed) else {()})


# The limit of copied replicas in one run: the first ones stay, whole partitions only, and the rest says so.

ON = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.FACTOR, MoveKind.ASSIGNMENT}), UNLIMITED))
MOVING = state(
    topic("a", replica_lists("12", "23", "34")),
    topic("b", replica_lists("12", "23")),
    topic("c", replica_lists("34", "12")),
    brokers=RACKLESS_BROKERS,
)
SPECS = (
    spec("a", ON, partitions=3, replicationFactor=3, config={"retention.ms": 5}),
    spec("b", ON, partitions=2, replicationFactor=3),
    spec("c", ON, replicaAssignment=[[1, 2], [2, 1]]),
)
MOVES = plan(MOVING, *SPECS, on=ON)
COPIES = ("a/0", "a/1", "a/2", "b/0", "b/1", "c/0", "c/0")
"""Each copied replica of ``MOVES``; partition 0 of topic ``c`` gets two. Its partition 1 is reordered."""


def _moved(found: Plan) -> list[str]:
    return [f"{move.topic}/{move.partition}" for each in found.actionable_topics() for move in each.moves()]


def _copies(found: Plan) -> int:
    return sum(len(move.added) for each in found.actionable_topics() for move in each.moves())


def _held(found: Plan) -> dict[str, str]:
    return {
        each.topic: f"{issue.message}; {issue.hint}"
        for each in found.topics
        for issue in each.refusals
        if issue.reason is Reason.MOVES_LIMITED
    }


@pytest.mark.parametrize("limit", range(8))
def test_the_first_copies_stay(limit: int) -> None:
    """Each limit keeps the first copies that fit with their partitions, and every reordered list."""
    expected = list(COPIES[:limit]) if limit != 6 else list(COPIES[:5])
    moved = _moved(limit_moves(MOVES, limit))
    assert moved.count("c/1") == 1
    assert [name for name in moved if name != "c/1"] == list(dict.fromkeys(expected))


def test_no_limit_and_a_large_one() -> None:
    """Without a limit, and with one that nothing exceeds, the plan is the same."""
    assert limit_moves(MOVES, None) is MOVES
    assert limit_moves(MOVES, 7) == MOVES


def test_the_rest_says_how_much_remains() -> None:
    """Each withheld topic has the number of replicas and partitions that remain, and a run may be repeated."""
    held = _held(limit_moves(MOVES, 4))
    text = "3 replicas of 2 partitions left to copy: --max-moves is 4; run again for the next ones"
    assert held == {"b": text, "c": text}
    assert Reason.MOVES_LIMITED.retryable
    assert Reason.MOVES_LIMITED.exit_code is Exit.REFUSED


def test_a_limit_below_the_first_partition_names_the_number_that_it_needs() -> None:
    """A limit under which no run would ever copy anything says which limit would."""
    only = plan(MOVING, spec("c", ON, replicaAssignment=[[1, 2], [3, 4]]), on=ON)
    assert _held(limit_moves(only, 1)) == {
        "c": "4 replicas of 2 partitions left to copy: --max-moves is 1; "
        "pass at least --max-moves 2: partition 0 of c needs that many"
    }


def test_other_changes_of_a_topic_stay() -> None:
    """The config of a topic is changed although its moves wait."""
    first = next(limit_moves(MOVES, 0).actionable_topics())
    assert (first.topic, [type(change).__name__ for change in first.changes]) == ("a", ["UpdateConfig"])


def test_withheld_moves_cost_no_budget() -> None:
    """A plan above the budget of copied replicas passes if the limit of the run keeps it below."""
    on = replace(ON, budgets=Budgets(moved_replicas=4))
    desired = Desired({"prod": SPECS}, {"prod": on})
    assert _copies(RunInputs(desired).filter_plan(MOVES, Settings(max_moves=4))) == 4
    assert _copies(RunInputs(desired).filter_plan(MOVES, Settings(max_moves=5))) == 0


@pytest.mark.parametrize("limit", range(1, 9))
def test_repeated_runs_do_all(limit: int) -> None:
    """Runs with one limit, each applied, end with the lists of the whole plan or at a partition that never fits."""
    seen = MOVING
    for _ in range(8):
        limited = limit_moves(plan(seen, *SPECS, on=ON), limit)
        assert _copies(limited) <= limit
        seen = simulate(seen, limited.topics)
    left = _moved(plan(seen, *SPECS, on=ON))
    assert left == (["c/0"] if limit == 1 else [])


# Elections in the filters of a plan: reviews, budgets, saved plans and policies.

ELECTED = state(topic())


def electing(*partitions: LeaderChange) -> Plan:
    """Return the plan of one topic with an election alone."""
    owned = ELECTED.topics["orders"]
    change = ElectLeaders(partitions, assess_elections(partitions))
    planned = TopicPlan("orders", owned, owned.record, owned.record, (change,), spec=spec())
    return replace(plan(ELECTED), topics=(planned,))


def test_only_reviewed_leaders_are_elected() -> None:
    """Each partition counts by itself, and the leader before does not count: it may change at any time."""
    reviewed = electing(LeaderChange(0, 2, 1), LeaderChange(1, 3, 2))
    now = electing(LeaderChange(0, 3, 1), LeaderChange(2, 4, 3))
    (topic_plan,) = filter_unreviewed(now, reviewed).topics
    assert topic_plan.elections() == (LeaderChange(0, 3, 1),)
    assert topic_plan.changes[0].assessment.explanation == "leaders of 1 partition change"
    (refusal,) = topic_plan.refusals
    assert (refusal.reason, refusal.message) == (
        Reason.NOT_REVIEWED,
        "the reviewed plan does not elect these leaders",
    )
    assert [change_kinds(replace(topic_plan, changes=refusal.withheld))] == [["ElectLeaders"]]
    assert filter_unreviewed(reviewed, reviewed) == reviewed


def test_an_unreviewed_election_is_withheld() -> None:
    """A review without an election of the topic allows none."""
    (topic_plan,) = filter_unreviewed(electing(LeaderChange(0, 2, 1)), plan(ELECTED)).topics
    assert topic_plan.changes == ()
    assert [refusal.reason for refusal in topic_plan.refusals] == [Reason.NOT_REVIEWED]


def test_elections_count_for_no_budget() -> None:
    """After a restart the leaders of most topics differ, and their election is no change of the topics."""
    found = electing(LeaderChange(0, 2, 1))
    tight = Budgets(topics=0, new_partitions=0, moved_replicas=0, moved_partitions=0, deletions=0, changed_share=0)
    assert enforce_budgets(found, tight) == found


def test_a_saved_election_needs_the_permission_of_the_cluster() -> None:
    """The Cluster document of the run counts; without one nothing is allowed, as for every other kind of move."""
    found = electing(LeaderChange(0, 2, 1))
    allowed = cluster("prod", moves=MoveSettings(frozenset({MoveKind.LEADERS})))
    assert recheck_saved_plan(found, allowed, ELECTED, planned_brokers=ELECTED.brokers) == found
    for forbidding in (cluster("prod"), PROD_CLUSTER):
        (refused,) = recheck_saved_plan(found, forbidding, ELECTED, planned_brokers=ELECTED.brokers).topics
        assert [refusal.reason for refusal in refused.refusals] == [Reason.MOVE_NOT_ALLOWED]
        assert not refused.changes


def test_a_policy_sees_the_kind_and_the_risk() -> None:
    """Partitions, replication factor and config are those before."""
    (topic_plan,) = electing(LeaderChange(0, 2, 1)).topics
    found = bind_change(topic_plan, topic_plan.changes[0], 6)
    assert (found["change.kind"], found["change.risk"]) == ("ElectLeaders", "Disruptive")
    assert found["change.after.partitions"] == found["change.before.partitions"] == 3


GONE = ("a", "b", "c")


def _deletions(on: ClusterSpec) -> Plan:
    return plan(state(*map(topic, GONE)), *(spec(name, on, ensure="Absent") for name in GONE))


def _unasked(settings: Settings) -> PlanFilter:
    """Return the filter of a run without a prompt: its flags are the permission."""
    return lambda plan: filter_unapproved(plan, settings.allow_risk)


def _left(found: Plan) -> list[str]:
    return [each.topic for each in found.actionable_topics()]


def test_what_is_refused_before_costs_no_budget() -> None:
    """With three deletions and a budget of one, the run makes one: a policy denies one, and the run does not allow
    another. Neither counts.
    """
    on = replace(PROD_CLUSTER, budgets=Budgets(deletions=1))
    law = policy({"subject": "Change", "expression": 'topic.name != "a"'})
    specs = [spec(name, on, ensure="Absent") for name in GONE]
    run = RunInputs(make_desired(*specs), evaluate_rules([law], *specs, validate_only=False).plan_filter)
    some = Settings(allow_risk=(RiskApproval(Risk.DATA_LOSS, ("a", "b")),))
    assert _left(run.filter_plan(_deletions(on), some, _unasked(some))) == ["b"]
    assert _left(run.filter_plan(_deletions(on), some)) == []
    assert _left(run.filter_plan(_deletions(on), Settings(), _unasked(Settings()))) == []


def test_a_run_may_be_partial() -> None:
    """The flag ``--partial`` reaches the budgets."""
    on = replace(PROD_CLUSTER, budgets=Budgets(deletions=0))
    specs = [spec("a", on, ensure="Absent"), spec("new", on)]
    found = plan(state(topic("a")), *specs)
    assert _left(RunInputs(make_desired(*specs)).filter_plan(found, Settings())) == []
    assert _left(RunInputs(make_desired(*specs)).filter_plan(found, Settings(partial=True))) == ["new"]
