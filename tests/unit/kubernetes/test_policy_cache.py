"""The policies of the operator: compiled once, and never passed by because they are broken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters import cel
from topiarist.desired import parse
from topiarist.desired.merge import merge
from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.cache import Candidate, build_candidate
from topiarist.kubernetes.cluster_worker import PolicyCache, errors_of_policy
from topiarist.model.plan import Issue, Plan
from topiarist.model.policy import Policy, Rule
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import make_plan
from unit.kubernetes.topic_results import spec_of

PROD, TEST = (spec_of(resource_bodies.cluster(name, meta={"labels": {"env": name}})) for name in ("prod", "test"))
NO_KEY = 'topic.config["retention.ms"] == "1"'
ON_CHANGE = {"subject": "Change", "expression": 'topic.config["retention.ms"] == "1"'}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rules of each court that was made."""
    found: list[int] = []
    plain = cel.CelRuleEvaluator.__init__

    def counting(self: cel.CelRuleEvaluator, rules: Iterable[Rule]) -> None:
        listed = list(rules)
        found.append(len(listed))
        plain(self, listed)

    monkeypatch.setattr(cel.CelRuleEvaluator, "__init__", counting)
    return found


def law(name: str = "law", *rules: dict[str, Any], **selector: Any) -> Policy:
    """A Policy as the store keeps it."""
    found = resource_bodies.policy(name, *rules, **({"selector": selector} if selector else {}))
    assert found.manifest is not None, found.errors
    return parse.parse_policy(found.manifest)


def wishes(spec: ClusterSpec, *topics: Resource) -> list[Candidate]:
    """Topics on a cluster."""
    return [build_candidate(each, merge(each.manifest, spec)) for each in topics if each.manifest]


def left(
    policing: PolicyCache, policies: list[Policy], *, spec: ClusterSpec = PROD, unreadable: tuple[str, ...] = ()
) -> Plan:
    """What policies leave of a plan that creates one topic and grows another."""
    found = wishes(spec, resource_bodies.topic("new"), resource_bodies.topic("old", partitions=6))
    state = states.cluster(states.topic("old"))
    plan = make_plan(state, spec, [each.spec for each in found], RunOptions())
    return policing.build_filter(policies, unreadable, spec, found)(plan)


def changed(plan: Plan) -> list[str]:
    """The topics that may be changed."""
    return [topic.topic for topic in plan.actionable_topics()]


def refused(plan: Plan) -> dict[str, tuple[Reason, str]]:
    """Why each other topic may not."""
    return {
        topic.topic: (topic.refusals[0].reason, topic.refusals[0].message) for topic in plan.topics if topic.refusals
    }


def test_without_policies_everything_may_be_done() -> None:
    """The very same plan."""
    assert changed(left(PolicyCache(), [])) == ["new", "old"]


def test_a_rule_holds_back_what_it_denies() -> None:
    """Of topics and of changes; the rest is done, and a warning holds nothing back."""
    small = law("small", {"expression": "topic.partitions <= 3", "message": "too many"})
    plan = left(PolicyCache(), [small])
    assert changed(plan) == ["new"]
    assert refused(plan) == {"old": (Reason.POLICY_DENIED, "too many (policy small, rule r0)")}
    fixed = law("fixed", {"subject": "Change", "expression": 'change.kind != "CreateTopic"'})
    assert changed(left(PolicyCache(), [fixed])) == ["old"]
    assert changed(left(PolicyCache(), [law("mild", {"expression": "false", "action": "Warn"})])) == ["new", "old"]


def test_rules_are_compiled_once(compiled: list[int]) -> None:
    """For all passes of all clusters, until one of them changes."""
    policing, policies = PolicyCache(), [law("a", {"expression": "true"}, {"expression": "topic.partitions < 9"})]
    for spec in (PROD, TEST, PROD):
        left(policing, [*policies], spec=spec)
    assert compiled == [2]
    policies = [*policies, law("b", {"expression": "true"})]
    left(policing, policies)
    left(policing, [*policies])
    assert compiled == [2, 3]
    left(
        policing, [*policies[:1], law("b", {"expression": "true"})]
    )  # changed: another object, though it says the same
    assert compiled == [2, 3, 3]


def test_without_policies_nothing_is_compiled(compiled: list[int]) -> None:
    """Nor is the library of the language needed."""
    left(PolicyCache(), [])
    assert compiled == []


def test_a_policy_that_cannot_be_read_holds_back_every_change() -> None:
    """It does so on every cluster, since its rules and its scope are unknown."""
    plan = left(PolicyCache(), [law("fine", {"expression": "true"})], unreadable=("broken", "other"))
    assert changed(plan) == []
    assert {reason for reason, _ in refused(plan).values()} == {Reason.INVALID_MANIFEST}
    assert refused(plan)["new"][1] == "Policy broken cannot be read"
    assert plan.topics[0].refusals[0].hint == "correct or delete the Policy: until then nothing is changed"
    assert changed(left(PolicyCache(), [], unreadable=("broken",))) == []


BROKEN = [
    ({"expression": "topic.partitons < 3"}, 'does not compile: unknown name "topic.partitons"'),
    ({"expression": "topic.partitions"}, "evaluates to int, wanted true or false"),
    ({"expression": NO_KEY}, "found no key"),
    (ON_CHANGE, "found no key"),
    ({"subject": "Change", "expression": "change.nothing"}, "does not compile"),
]


@pytest.mark.parametrize(("rule", "words"), BROKEN)
def test_a_rule_that_cannot_be_judged_holds_back_every_change(rule: dict[str, str], words: str) -> None:
    """Also one that fails only when it meets a change; what is wrong is kept for the status of its Policy."""
    policing, policies = PolicyCache(), [law("fine", {"expression": "true"}), law("broken", rule)]
    for _ in range(3):  # in every pass: it is never passed by because it is known
        plan = left(policing, policies)
        assert changed(plan) == []
        reasons = {(reason, words in message) for reason, message in refused(plan).values()}
        assert reasons == {(Reason.POLICY_DENIED, True)}
        (fault,) = errors_of_policy("broken", policing.rule_errors["prod"])
        assert fault.startswith("policy broken, rule r0: ")
        assert words in fault
        assert errors_of_policy("fine", policing.rule_errors["prod"]) == []


@pytest.mark.parametrize(("rule", "words"), BROKEN)
def test_a_broken_rule_holds_back_only_what_it_is_for(rule: dict[str, str], words: str) -> None:
    """The topics that its Policy selects; a rule that only warns could deny nothing, so it holds nothing back."""
    policing = PolicyCache()
    plan = left(policing, [law("broken", rule, topics=["o*"])])
    assert changed(plan) == ["new"]
    assert words in refused(plan)["old"][1]
    assert words in policing.rule_errors["prod"][0]
    assert changed(left(policing, [law("broken", {**rule, "action": "Warn"})])) == ["new", "old"]
    assert words in policing.rule_errors["prod"][0]


@pytest.mark.parametrize("subject", ["Topic", "Change"])
def test_a_rule_that_fails_for_one_topic_holds_back_that_topic(subject: str) -> None:
    """It is judged for all others, and denies what it denies."""
    rule = {"subject": subject, "expression": 'topic.name == "new" || topic.config["x"] == "1"'}
    plan = left(PolicyCache(), [law("broken", rule)])
    assert changed(plan) == ["new"]
    assert "found no key" in refused(plan)["old"][1]
    denying = {"subject": subject, "expression": 'topic.name == "old" ? false : topic.config["x"] == "1"'}
    assert changed(left(PolicyCache(), [law("broken", denying)])) == []


def test_rules_are_checked_without_any_cluster() -> None:
    """What does not compile is known before a pass meets it."""
    policing = PolicyCache()
    assert policing.check_rules([]) == []
    (fault,) = policing.check_rules([law("fine"), law("broken", {"expression": "topic.partitons < 3"})])
    assert fault.startswith("policy broken, rule r0: does not compile")
    assert policing.check_rules([law("broken", {"expression": "topic.partitions < 3"})]) == []


@pytest.mark.parametrize(("rule", "words"), BROKEN)
def test_a_broken_rule_for_other_clusters_holds_back_nothing(rule: dict[str, str], words: str) -> None:
    """Only those that the Policy means."""
    policies = [law("broken", rule, clusterSelector={"matchLabels": {"env": "test"}})]
    policing = PolicyCache()
    assert changed(left(policing, policies)) == ["new", "old"]
    plan = left(policing, policies, spec=TEST)
    assert changed(plan) == []
    assert words in refused(plan)["new"][1]


def test_what_was_mended_counts_at_once() -> None:
    """Its error is not reported any more, also beside a Policy that cannot be read."""
    policing = PolicyCache()
    left(policing, [law("a", {"expression": NO_KEY})])
    mended = [law("a", {"expression": "true"})]
    left(policing, mended, unreadable=("b",))
    assert policing.rule_errors["prod"] == []
    assert changed(left(policing, mended)) == ["new", "old"]
    left(policing, [law("a", {"expression": NO_KEY})])
    assert changed(left(policing, [])) == ["new", "old"]
    assert not policing.rule_errors.get("prod")


def test_a_rule_that_was_given_up_is_passed_by_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the next pass nor in that of another cluster that is under way: all its changes are held."""
    monkeypatch.setattr(cel, "EVALUATION_GRACE_S", -1.0)
    policing, policies = PolicyCache(), [law("slow", {"subject": "Change", "expression": "true"})]
    found = wishes(TEST, resource_bodies.topic("new"))
    plan = make_plan(states.cluster(), TEST, [each.spec for each in found], RunOptions())
    guard = policing.build_filter(policies, (), TEST, found)  # under way, with the same court
    for spec in (PROD, PROD):
        assert changed(left(policing, policies, spec=spec)) == []
        assert "is not evaluated any more" in policing.rule_errors["prod"][0]
    monkeypatch.setattr(cel, "EVALUATION_GRACE_S", 1000.0)
    assert changed(guard(plan)) == []
    assert changed(left(policing, policies)) == ["new", "old"]


def test_annotations_can_be_asked_for() -> None:
    """Those of the resource."""
    found = [law("owned", {"expression": '"team" in topic.annotations'})]
    for notes, may in (({}, []), ({"team": "shop"}, ["new"])):
        topics = wishes(PROD, resource_bodies.topic("new", meta={"annotations": notes}))
        plan = make_plan(states.cluster(), PROD, [each.spec for each in topics], RunOptions())
        assert changed(PolicyCache().build_filter(found, (), PROD, topics)(replace(plan))) == may


def test_what_is_wrong_is_known_before_any_plan() -> None:
    """A cluster that cannot be read has no errors; with the last Policy all errors are removed."""
    policing = PolicyCache()
    policing.build_filter([law("broken", {"expression": "topic.partitons < 3"})], (), PROD, [])
    assert "does not compile" in policing.rule_errors["prod"][0]
    policing.build_filter([], (), PROD, [])
    assert policing.rule_errors == {}


def test_one_fault_hides_no_other() -> None:
    """A rule that does not compile is reported beside one that fails for a change."""
    policing = PolicyCache()
    broken = law("broken", {"expression": "topic.partitons < 3"}, ON_CHANGE)
    assert changed(left(policing, [broken])) == []
    assert "does not compile" in policing.rule_errors["prod"][0]


def test_a_topic_that_may_not_be_declared_is_not_judged() -> None:
    """A rule that cannot be evaluated for it would hold back all others."""
    found = wishes(PROD, resource_bodies.topic("new", config={"retention.ms": 1}), resource_bodies.topic("stranger"))
    conflict = Issue(Reason.RESOURCE_CONFLICT, "another declares it")
    found[1] = found[1]._replace(refusals=(conflict,))
    policing = PolicyCache()
    guard = policing.build_filter([law("a", {"expression": NO_KEY})], (), PROD, found)
    plan = make_plan(states.cluster(), PROD, [found[0].spec], RunOptions())
    assert changed(guard(plan)) == ["new"]
    assert policing.rule_errors["prod"] == []
