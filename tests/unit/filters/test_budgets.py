"""Budgets: the changes that count, the withheld changes, and the numbers in the messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, change_kinds, plan, refusal_reasons, replica_lists, spec, state, topic
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Reason
from topiarist.filters.budgets import enforce_budgets
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.outcome import RunOptions
from topiarist.model.plan import Plan, TakeOwnership, UpdateConfig
from topiarist.model.spec import Budgets, ClusterSpec
from topiarist.planning.planner import make_plan

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


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: change_kinds(each) for each in found.topics}


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


def test_creations_are_no_share() -> None:
    """Creations do not count in ``changedShare``, because they change no existing topic."""
    found = plan(state(), *(spec(name) for name in "abc"))
    assert enforce_budgets(found, Budgets(changed_share=0)) == found


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


def test_a_run_may_take_over_without_limit() -> None:
    """One run may adopt a whole cluster, because adoption changes nothing in Kafka."""
    names = [f"t{number}" for number in range(50)]
    found = plan(state(*(topic(name, record=None) for name in names)), *map(spec, names), run=RunOptions())
    assert enforce_budgets(found, Budgets(topics=0, changed_share=0)) == found


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
