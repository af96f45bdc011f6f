"""Filters a plan by a function, and by the approvals of a run.

A filter takes a plan and returns a plan with fewer changes. A filter never adds a change. Each removed change becomes a
refusal that holds the change, so that it can still be shown. No other code than ``filters`` reads the flags that allow
or forbid changes. The other filters, the command line and the operator call this module.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.model.outcome import RiskApproval
from topiarist.model.plan import Change, Issue, Plan, Risk, TopicPlan, withhold

PlanFilter = Callable[[Plan], Plan]
"""A function from a plan to the same plan with fewer allowed changes."""


def keep_all(plan: Plan) -> Plan:
    """Return the plan unchanged."""
    return plan


def filter_changes(plan: Plan, find_issue: Callable[[TopicPlan, Change], Issue | None]) -> Plan:
    """Return ``plan`` without the changes for which ``find_issue`` returns an issue."""
    topics = []
    for topic in plan.topics:
        # Change by change: a refused deletion of data must not hold back a harmless change of the same topic.
        for change in topic.changes if topic.is_actionable else ():
            if issue := find_issue(topic, change):
                topic = withhold(topic, (change,), issue)
        topics.append(topic)
    return replace(plan, topics=tuple(topics))


def filter_unapproved(plan: Plan, approvals: tuple[RiskApproval, ...]) -> Plan:
    """Return ``plan`` without unapproved changes that may lose data.

    ``Disruptive`` changes need no approval.
    """

    def find_issue(topic: TopicPlan, change: Change) -> Issue | None:
        if change.assessment.risk < Risk.DATA_LOSS:
            return None
        if any(approval.risk is Risk.DATA_LOSS and approval.covers(topic.topic) for approval in approvals):
            return None
        return Issue(
            Reason.DATA_LOSS,
            f"may lose data: {change.assessment.explanation}",
            hint=f"to allow this, pass --allow-risk DataLoss={topic.topic}",
        )

    return filter_changes(plan, find_issue)
