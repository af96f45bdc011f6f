"""Admission policies as documents: the translated rules and the untranslated rules."""

from __future__ import annotations

from typing import Any

import pytest
from crd import policy_files
from crd.configs import config_policies
from crd.policies import admission_policies, translatable_rules

from support.builders import PositionedSource
from topiarist.model.policy import Policy, Rule, RuleSubject

NOWHERE = PositionedSource("nowhere.yaml")


def rule(name: str, expression: str, *, subject: RuleSubject = RuleSubject.TOPIC, deny: bool = True) -> Rule:
    """Return a rule of the policy ``p``."""
    return Rule("p", name, expression, f"not {name}", subject, deny, (), NOWHERE, ())


def policy(*rules: Rule, **selector: Any) -> Policy:
    """Return a policy with these rules."""
    return Policy(name="p", namespace="", source=NOWHERE, rules=rules, **selector)


SMALL = rule("small", "topic.partitions <= 48")
NAMED = rule("named", 'topic.name != "cluster"')


def test_only_rules_about_topics_alone_are_taken() -> None:
    """Only rules without changes and without cluster data are translated.

    Text and names that only resemble such data are accepted.
    """
    where = rule("where", 'cluster.name != "a" || topic.partitions < 9')
    what = rule("what", "true", subject=RuleSubject.CHANGE)
    assert translatable_rules(policy(SMALL, where, what, NAMED)) == [SMALL, NAMED]


@pytest.mark.parametrize("selector", [{"cluster_names": ("a",)}, {"cluster_labels": {"env": "prod"}}])
def test_a_policy_for_some_clusters_makes_none(selector: dict[str, Any]) -> None:
    """A policy for some clusters is not translated, because a Topic does not determine its clusters alone."""
    found = policy(SMALL, **selector)
    assert admission_policies(found) == []
    assert policy_files({"p.yaml": found}) == {}


@pytest.mark.parametrize("selector", [{"topic_patterns": ("a*",)}, {"topic_labels": {"team": "a"}}])
def test_what_is_not_translated_is_said(selector: dict[str, Any]) -> None:
    """Untranslated rules are reported: a rule for some topics must not apply to all topics."""
    with pytest.raises(ValueError, match="policy p: selectors of topics cannot be translated"):
        admission_policies(policy(SMALL, **selector))
    assert admission_policies(policy(rule("a", "true", subject=RuleSubject.CHANGE), **selector)) == []


def test_denying_and_warning_are_two_policies() -> None:
    """Denials and warnings are two policies with their own bindings, because a binding applies one action to a
    policy.
    """
    found = admission_policies(policy(SMALL, rule("many", "topic.partitions >= 3", deny=False)))
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ValidatingAdmissionPolicy", "topiarist-policy-p"),
        ("ValidatingAdmissionPolicyBinding", "topiarist-policy-p"),
        ("ValidatingAdmissionPolicy", "topiarist-policy-p-warnings"),
        ("ValidatingAdmissionPolicyBinding", "topiarist-policy-p-warnings"),
    ]
    assert [one["spec"]["validationActions"] for one in found[1::2]] == [["Deny"], ["Warn"]]
    assert [one["spec"]["policyName"] for one in found[1::2]] == [one["metadata"]["name"] for one in found[::2]]


def variables(*rules: Rule) -> dict[str, str]:
    """Return the variables of the policy from these rules."""
    spec = admission_policies(policy(*rules))[0]["spec"]
    return {one["name"]: one["expression"] for one in spec["variables"]}


def test_only_what_rules_read_is_there() -> None:
    """A policy has only the variables that its rules read.

    A rule about names reads no override; a rule about partitions passes without a partition count.
    """
    assert variables(NAMED).keys() == {"topics"}
    assert "overrides" not in variables(NAMED)["topics"]
    assert variables(SMALL).keys() == {"partitions", "topics"}
    (judged,) = admission_policies(policy(SMALL))[0]["spec"]["validations"]
    given = "size(object.spec.?profiles.orValue([])) > 0 || !('partitions' in topic) || "
    assert judged["expression"] == f"variables.topics.all(topic, {given}(\ntopic.partitions <= 48\n))"
    assert judged["message"] == "not small (rule small)"


def test_what_profiles_may_give_is_not_evaluated_for_a_topic_with_profiles() -> None:
    """Rules about labels, configs and sizes leave such topics to the operator; other rules, and rules about profiles,
    hold for them too.
    """
    for text in ('"team" in topic.labels', '"a" in topic.config', "topic.replicationFactor > 1"):
        (judged,) = admission_policies(policy(rule("r", text)))[0]["spec"]["validations"]
        assert "size(object.spec.?profiles.orValue([])) > 0 || " in judged["expression"]
    for text in ('!("large" in topic.profiles)', 'topic.name != "a"', "!topic.observed"):
        (judged,) = admission_policies(policy(rule("r", text)))[0]["spec"]["validations"]
        assert judged["expression"] == f"variables.topics.all(topic, (\n{text}\n))"
    read = variables(rule("r", '!("large" in topic.profiles)'))
    assert read == {"topics": "[{\n  'profiles': dyn(object.spec.?profiles.orValue([]))\n}]"}


def test_labels_count_as_a_change_where_rules_read_them() -> None:
    """A label change is checked if a rule reads labels, so that no forbidden label can be set later."""
    conditions = admission_policies(policy(rule("team", '"team" in topic.labels')))[0]["spec"]["matchConditions"]
    assert "object.metadata.?labels" in conditions[0]["expression"]
    assert "labels" not in admission_policies(policy(SMALL))[0]["spec"]["matchConditions"][0]["expression"]


def test_what_ships_fails_closed_and_leaves_status_alone() -> None:
    """An error in an expression denies the request; the operator's status writes are not checked."""
    for one in (*config_policies(), *admission_policies(policy(SMALL))):
        if one["kind"] == "ValidatingAdmissionPolicy":
            assert one["spec"]["failurePolicy"] == "Fail"
            (resources,) = one["spec"]["matchConstraints"]["resourceRules"]
            assert resources["resources"] in (["topics"], ["clusters"])
            assert "!has(object.metadata.deletionTimestamp)" in str(one["spec"]["matchConditions"])
