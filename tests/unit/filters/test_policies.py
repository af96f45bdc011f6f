"""Policies as values: the clusters and topics that they cover, and a plan without the denied changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import change_kinds, notice_reasons, plan, refusal_reasons, replica_lists, spec, state, topic
from support.examples import examples
from support.policy_builders import labelled_spec, policy
from support.states import PositionedSource
from support.strategies import PlanInput, plan_inputs
from topiarist.errors import Location, Reason
from topiarist.filters.policies import EvaluationErrors, deny_changes, find_duplicate_names
from topiarist.model.plan import Change, Issue, TopicPlan
from topiarist.model.policy import RuleError
from topiarist.model.spec import ClusterSpec, Limit, LimitScope

DENY = policy({"message": "never"}).rules[0].make_issue(spec("a"))
WARN = policy({"message": "mind", "action": "Warn"}).rules[0].make_issue(spec("a"))
PROD = ClusterSpec(name="prod", labels={"env": "prod", "region": "eu"})
TEST = ClusterSpec(name="test", labels={"env": "test"})


def _nothing(_topic: TopicPlan, _change: Change) -> Sequence[Issue]:
    return ()


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ({}, {"prod", "test", ""}),
        ({"clusters": ["test"]}, {"test"}),
        ({"clusterSelector": {"matchLabels": {"env": "prod"}}}, {"prod"}),
        ({"clusterSelector": {"matchLabels": {"env": "prod", "region": "us"}}}, set()),
        ({"topics": ["nothing"]}, {"prod", "test", ""}),
    ],
)
def test_clusters_that_a_policy_means(selector: dict[str, Any], meant: set[str]) -> None:
    """A policy covers clusters by name or by all labels, and without either every cluster, named or not."""
    found = policy({}, **selector)
    assert {cluster.name for cluster in (PROD, TEST, ClusterSpec()) if found.applies_to_cluster(cluster)} == meant


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({}, {"orders.a", "users"}),
        ({"topics": ["orders.*"]}, {"orders.a"}),
        ({"topics": ["ORDERS.*", "us?rs"]}, {"users"}),
        ({"matchLabels": {"team": "shop"}}, {"orders.a", "users"}),
        ({"matchLabels": {"team": "shop", "tier": "1"}}, {"users"}),
        ({"topics": ["orders.*"], "matchLabels": {"tier": "1"}}, set()),
    ],
)
def test_topics_that_a_policy_covers(selector: dict[str, Any], covered: set[str]) -> None:
    """A policy covers topics by a case-sensitive pattern of the Kafka name and by all labels, and both must match."""
    specs = [labelled_spec("orders.a", {"team": "shop"}), labelled_spec("users", {"team": "shop", "tier": "1"})]
    found = policy({}, **selector)
    assert {each.topic for each in specs if found.applies_to_topic(each)} == covered


def test_a_topic_that_is_denied() -> None:
    """The first refusal holds all changes of a denied topic, the second holds none, and a warning is a notice."""
    before = plan(
        state(topic("a", replica_lists("12", "23", "34"))),
        spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"}),
    )
    (after,) = deny_changes(before, {"a": [DENY, DENY, WARN]}, _nothing).topics
    assert (change_kinds(after), refusal_reasons(after), notice_reasons(after)) == (
        [],
        ["PolicyDenied"] * 2,
        ["PolicyWarning"],
    )
    assert [len(refusal.withheld) for refusal in after.refusals] == [2, 0]
    assert after.record_after == after.record_before


def test_a_change_that_is_denied() -> None:
    """Only the denied change is withheld, and every rule that denies it is named."""

    def judge(_topic: TopicPlan, change: Change) -> Sequence[Issue]:
        return (DENY, DENY, WARN) if type(change).__name__ == "AddPartitions" else (WARN,)

    seen = state(topic("a", replica_lists("12", "23", "34")))
    before = plan(seen, spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"}))
    (after,) = deny_changes(before, {}, judge).topics
    assert (change_kinds(after), refusal_reasons(after)) == (["UpdateConfig"], ["PolicyDenied"] * 2)
    assert notice_reasons(after) == ["PolicyWarning"] * 2
    assert [[type(change).__name__ for change in each.withheld] for each in after.refusals] == [["AddPartitions"], []]


def test_topics_without_a_change() -> None:
    """A denial of an existing value is a notice for a topic in the plan, and a number for all other topics."""
    seen = state(topic("same"), topic("told", config={"segment.ms": "5"}))
    before = replace(plan(seen, spec("same"), spec("told")), warnings=("said before",))
    after = deny_changes(before, {"same": [DENY], "told": [DENY]}, _nothing)
    (told,) = after.topics
    assert (told.topic, refusal_reasons(told), notice_reasons(told)) == ("told", [], ["Unmanaged", "PolicyWarning"])
    assert not after.has_refusals
    assert after.warnings[0] == "said before"
    assert after.warnings[1].startswith("policies are violated by 1 topic without changes")


def test_topics_that_are_only_observed() -> None:
    """An observed topic has no denials, because the run does not write it."""
    before = plan(state(), spec("a", partitions=1, replicationFactor=1, mode="Observe"))
    after = deny_changes(before, {"a": [DENY]}, lambda _topic, _change: [DENY])
    assert (change_kinds(after.topics[0]), notice_reasons(after.topics[0])) == (["CreateTopic"], ["PolicyWarning"])
    assert not after.has_refusals


@examples(200)
@given(plan_inputs(), st.sampled_from(["CreateTopic", "AddPartitions", "UpdateConfig", "DeleteTopic", "TakeOwnership"]))
def test_a_rule_only_takes_away(world: PlanInput, kind: str) -> None:
    """A rule removes exactly the denied changes, and one refusal holds each of them. Nothing is added."""
    before = world.plan()
    after = deny_changes(before, {}, lambda _topic, change: [DENY] if type(change).__name__ == kind else [])
    for one, other in zip(before.topics, after.topics, strict=True):
        gone = tuple(change for change in one.changes if one.is_actionable and type(change).__name__ == kind)
        assert other.changes == tuple(change for change in one.changes if change not in gone)
        new = other.refusals[len(one.refusals) :]
        assert tuple(change for refusal in new for change in refusal.withheld) == gone
        assert {refusal.reason for refusal in new} <= {Reason.POLICY_DENIED}


def test_errors_of_a_rule_are_those_of_each_topic() -> None:
    """A topic has only its own errors, and the first topic of a rule is named with the number of the others."""
    first, second = policy({"name": "x"}, {"name": "y"}).rules
    errors = EvaluationErrors()
    errors.add(first, spec("a"), RuleError("no key", "add it"))
    errors.add(first, spec("b"), RuleError("no value"))
    errors.add(second, spec("b"), RuleError("no number"))
    assert [*errors.for_topic("a")] == [(first, RuleError("no key", "add it"))]
    assert [error.message for _, error in errors.for_topic("b")] == ["no value", "no number"]
    assert [(each.message, each.hint) for each in errors.errors()] == [
        ("policy law, rule x: cannot be evaluated for a on prod and 1 other topic: no key", "add it"),
        ("policy law, rule y: cannot be evaluated for b on prod: no number", ""),
    ]


def test_a_limit_of_a_policy_that_cannot_be() -> None:
    """The errors of limits are among those of the policy."""
    limit = Limit("law, limit a", LimitScope.LABEL, {})
    (error,) = find_duplicate_names([replace(policy({}), limits=(limit,))])
    assert error.message.startswith("law, limit a: found per: Label and no label")


def test_names_that_are_there_twice() -> None:
    """Duplicate policies of one namespace and duplicate rules of one policy are errors that name both places."""
    found = list(
        find_duplicate_names(
            [policy({}), policy({}, namespace="other"), policy({"name": "x"}, {"name": "x"}, {}), policy({})]
        )
    )
    assert [str(diagnostic).split(":")[0] for diagnostic in found] == ["law.yaml"] * 3
    assert [diagnostic.message.split(":")[0] for diagnostic in found] == [
        "Policy law",
        "policy law, rule x",
        "Policy law",
    ]


def test_a_duplicate_policy_is_reported_at_its_name() -> None:
    """The error is at the name of the later document, and has the place of the earlier name."""
    named = [
        replace(policy({}), source=PositionedSource(file, {("metadata",): (2, 1), ("metadata", "name"): (3, 3)}))
        for file in ("first.yaml", "second.yaml")
    ]
    (error,) = find_duplicate_names(named)
    assert error.location == Location("second.yaml", 3, 3)
    assert error.message == f"Policy law: duplicate name, declared at {Location('first.yaml', 3, 3)} already"
