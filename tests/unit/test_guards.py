"""What a run may do of a plan: the filters in their order."""

from __future__ import annotations

from dataclasses import replace

from topiarist.cli.guards import Permit, allowed
from topiarist.core.budgets import Budgets
from topiarist.core.change import Plan, Risk
from topiarist.core.plan import EVERY
from topiarist.core.policy import Allowance, allow_risk
from topiarist.core.spec import ClusterSpec
from topiarist.settings import Settings
from unit.builders import NAMED, plan, spec, state, topic
from unit.laws import desired, policy, ruled

GONE = ("a", "b", "c")
LOSS = Settings(allow_risk=(Allowance(Risk.DATA_LOSS, EVERY),))


def _deletions(on: ClusterSpec) -> Plan:
    return plan(state(*map(topic, GONE)), *(spec(name, on, ensure="Absent") for name in GONE))


def _unasked(settings: Settings) -> Permit:
    """Where nobody is asked, the run's flags are the permission."""
    return lambda plan: allow_risk(plan, settings.allow_risk)


def _left(found: Plan) -> list[str]:
    return [each.topic for each in found.to_do()]


def test_what_is_refused_before_costs_no_budget() -> None:
    """Three deletions, a budget of one: a policy denies one, the run allows one of the others."""
    on = replace(NAMED, budgets=Budgets(deletions=1))
    law = policy({"subject": "Change", "expression": 'topic.name != "a"'})
    run = ruled([law], *(spec(name, on, ensure="Absent") for name in GONE), alone=False)
    some = Settings(allow_risk=(Allowance(Risk.DATA_LOSS, ("a", "b")),))
    assert _left(allowed(_deletions(on), run, some, permit=_unasked(some))) == ["b"]
    assert _left(allowed(_deletions(on), run, some)) == []
    assert _left(allowed(_deletions(on), run, Settings(), permit=_unasked(Settings()))) == []


def test_a_person_answers_for_what_may_lose_data() -> None:
    """Only where nobody is asked does the run need an allowance."""
    run = desired(*(spec(name, ensure="Absent") for name in GONE))
    assert _left(allowed(_deletions(NAMED), run, Settings())) == list(GONE)
    assert _left(allowed(_deletions(NAMED), run, Settings(), permit=_unasked(Settings()))) == []
    assert _left(allowed(_deletions(NAMED), run, LOSS, permit=_unasked(LOSS))) == list(GONE)


def test_a_run_may_be_partial() -> None:
    """The flag reaches the budgets."""
    on = replace(NAMED, budgets=Budgets(deletions=0))
    specs = [spec("a", on, ensure="Absent"), spec("new", on)]
    found = plan(state(topic("a")), *specs)
    assert _left(allowed(found, desired(*specs), Settings())) == []
    assert _left(allowed(found, desired(*specs), Settings(partial=True))) == ["new"]
