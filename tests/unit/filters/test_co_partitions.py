"""Topics of one co-partition group: all of them grow, or none, whatever another filter withholds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import change_kinds, plan, refusal_reasons, replica_lists, spec, state, topic
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import dumps, encode_plans
from topiarist.errors import Reason
from topiarist.filters.chain import apply_filters, enforce_budgets, withhold_split_groups
from topiarist.model.plan import Issue, Plan, TopicPlan, withhold
from topiarist.model.spec import Budgets, TopicSpec
from topiarist.model.state import ReadError

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


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: change_kinds(each) for each in found.topics}


def test_a_group_grows_if_all_of_it_may() -> None:
    """Nothing is withheld, and topics without a group are left alone."""
    found = _plan("a", "b")
    assert withhold_split_groups(found) is found
    assert _kinds(found) == {"a": ["AddPartitions"], "b": ["AddPartitions"]}


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
    (saved,) = parse_plan_file(dumps(encode_plans([_plan("a", "b")])).encode(), "plan.json")
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
