"""The chain of filters that a run applies to a plan, in order."""

from __future__ import annotations

from msgspec.structs import replace

from support.builders import PROD_CLUSTER, plan, spec, state, topic
from support.policy_builders import evaluate_rules, make_desired, policy
from topiarist.cli.settings import Settings
from topiarist.filters.permissions import PlanFilter, filter_unapproved
from topiarist.model.outcome import ALL_TOPICS, RiskApproval
from topiarist.model.plan import Plan, Risk
from topiarist.model.spec import Budgets, ClusterSpec
from topiarist.runs.inputs import RunInputs

GONE = ("a", "b", "c")
LOSS = Settings(allow_risk=(RiskApproval(Risk.DATA_LOSS, ALL_TOPICS),))


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


def test_a_person_answers_for_what_may_lose_data() -> None:
    """A run needs an allowance for data loss only if it cannot prompt a user."""
    run = RunInputs(make_desired(*(spec(name, ensure="Absent") for name in GONE)))
    assert _left(run.filter_plan(_deletions(PROD_CLUSTER), Settings())) == list(GONE)
    assert _left(run.filter_plan(_deletions(PROD_CLUSTER), Settings(), _unasked(Settings()))) == []
    assert _left(run.filter_plan(_deletions(PROD_CLUSTER), LOSS, _unasked(LOSS))) == list(GONE)


def test_a_run_may_be_partial() -> None:
    """The flag ``--partial`` reaches the budgets."""
    on = replace(PROD_CLUSTER, budgets=Budgets(deletions=0))
    specs = [spec("a", on, ensure="Absent"), spec("new", on)]
    found = plan(state(topic("a")), *specs)
    assert _left(RunInputs(make_desired(*specs)).filter_plan(found, Settings())) == []
    assert _left(RunInputs(make_desired(*specs)).filter_plan(found, Settings(partial=True))) == ["new"]
