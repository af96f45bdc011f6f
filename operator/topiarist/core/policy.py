"""What may be done: plans in, plans out. No flag that allows or forbids a change is read anywhere else.

A policy never adds a change; what it takes away becomes a refusal that holds it, so that it still can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from topiarist.core.change import Change, Finding, Plan, Risk, TopicPlan
from topiarist.core.holding import hold
from topiarist.core.names import fits
from topiarist.errors import Reason


@dataclass(frozen=True, slots=True)
class Allowance:
    """A risk that a run may take, for the topics that fit one of the patterns; ``EVERY`` is all of them.

    Without patterns the allowance covers no topic.
    """

    risk: Risk
    topics: tuple[str, ...]

    def covers(self, topic: str) -> bool:
        """Return whether the allowance covers this topic."""
        return fits(topic, self.topics)


def restrict(plan: Plan, judge: Callable[[TopicPlan, Change], Finding | None]) -> Plan:
    """``plan`` without the changes to which ``judge`` has a finding."""
    return replace(plan, topics=tuple(_restricted(topic, judge) for topic in plan.topics))


def _restricted(topic: TopicPlan, judge: Callable[[TopicPlan, Change], Finding | None]) -> TopicPlan:
    for change in topic.changes if topic.to_do else ():
        if finding := judge(topic, change):
            topic = hold(topic, (change,), finding)
    return topic


def allow_risk(plan: Plan, allowances: tuple[Allowance, ...]) -> Plan:
    """``plan`` with only those changes that may lose data which the run allows; ``Disruptive`` needs no allowance."""

    def judge(topic: TopicPlan, change: Change) -> Finding | None:
        if change.verdict.risk < Risk.DATA_LOSS:
            return None
        if any(allowance.risk is Risk.DATA_LOSS and allowance.covers(topic.topic) for allowance in allowances):
            return None
        return Finding(
            Reason.DATA_LOSS,
            f"may lose data: {change.verdict.because}",
            instead=f"if it is meant: --allow-risk DataLoss={topic.topic}",
        )

    return restrict(plan, judge)
