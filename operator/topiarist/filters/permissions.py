"""What may be done: plans in, plans out. No flag that allows or forbids a change is read anywhere else.

A policy never adds a change; what it takes away becomes a refusal that holds it, so that it still can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from topiarist.errors import Reason
from topiarist.model.plan import Change, Issue, Plan, Risk, TopicPlan, withhold
from topiarist.model.run_options import RiskApproval

PlanFilter = Callable[[Plan], Plan]
"""Takes a plan and returns it with fewer changes that may be made."""


def keep_all(plan: Plan) -> Plan:
    """Return the plan as it is."""
    return plan


def filter_changes(plan: Plan, find_issue: Callable[[TopicPlan, Change], Issue | None]) -> Plan:
    """``plan`` without the changes to which ``find_issue`` has a finding."""
    return replace(plan, topics=tuple(_filter_topic(topic, find_issue) for topic in plan.topics))


def _filter_topic(topic: TopicPlan, find_issue: Callable[[TopicPlan, Change], Issue | None]) -> TopicPlan:
    for change in topic.changes if topic.is_actionable else ():
        if finding := find_issue(topic, change):
            topic = withhold(topic, (change,), finding)
    return topic


def filter_unapproved(plan: Plan, approvals: tuple[RiskApproval, ...]) -> Plan:
    """``plan`` with only those changes that may lose data which the run allows; ``Disruptive`` needs no allowance."""

    def judge(topic: TopicPlan, change: Change) -> Issue | None:
        if change.assessment.risk < Risk.DATA_LOSS:
            return None
        if any(allowance.risk is Risk.DATA_LOSS and allowance.covers(topic.topic) for allowance in approvals):
            return None
        return Issue(
            Reason.DATA_LOSS,
            f"may lose data: {change.assessment.explanation}",
            hint=f"if it is meant: --allow-risk DataLoss={topic.topic}",
        )

    return filter_changes(plan, judge)
