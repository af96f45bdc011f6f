"""What a plan would spend of its cluster's budgets, and the plan without what they do not allow.

A budget is the last of the filters: what a policy or a missing permission has held back costs nothing. That of
``notifications`` only spreads work over runs. Every other budget is an alarm: a plan that is larger than anybody meant
is not carried out in part, unless the run asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    Issue,
    Plan,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.spec import Budgets
from topiarist.text import format_count

_HINT_RAISE_BUDGET = "ask for less, or raise it in spec.budgets of the Cluster"

CostFunction = Callable[[TopicPlan, Change], int]


class _ExceededBudget(NamedTuple):
    """A budget that a plan exceeds: the numbers and its field in words, and which changes it counts."""

    message: str
    is_counted: Callable[[TopicPlan, Change], bool]


def enforce_budgets(plan: Plan, budgets: Budgets, *, partial: bool = False) -> Plan:
    """``plan`` without what exceeds ``budgets``.

    Over any but ``notifications`` nothing at all is left, or with ``partial`` nothing that the exceeded budget counts.
    """
    if over := list(_exceeded_budgets(plan, budgets)):
        plan = _withhold_counted(plan, over) if partial else _withhold_all(plan, over)
    return _limit_notifications(plan, budgets.notifications)


def _exceeded_budgets(plan: Plan, budgets: Budgets) -> Iterator[_ExceededBudget]:
    """The exceeded budgets, in the order in which the manifest's reference lists them."""
    for name, limit, cost, noun in (
        ("topics", budgets.topics, _topic_cost, "changed topic"),
        ("newPartitions", budgets.new_partitions, _new_partition_cost, "new partition"),
        ("deletions", budgets.deletions, _deletion_cost, "deletion"),
    ):
        spent = sum(max(cost(topic, change) for change in topic.changes) for topic in plan.actionable_topics())
        if limit is not None and spent > limit:
            yield _ExceededBudget(f"{format_count(spent, noun)}, {limit:,} allowed ({name})", _has_cost(cost))
    yield from _partitions_per_topic(plan, budgets.partitions_per_topic)
    if budgets.changed_share is not None:
        yield from _changed_share(plan, budgets.changed_share)


def _has_cost(cost: CostFunction) -> Callable[[TopicPlan, Change], bool]:
    return lambda topic, change: cost(topic, change) > 0


def _topic_cost(_topic: TopicPlan, change: Change) -> int:
    return int(not isinstance(change, TakeOwnership))


def _deletion_cost(_topic: TopicPlan, change: Change) -> int:
    return int(isinstance(change, DeleteTopic))


def _new_partition_cost(_topic: TopicPlan, change: Change) -> int:
    return len(change.replicas) if isinstance(change, CreateTopic | AddPartitions) else 0


def _total_partitions(_topic: TopicPlan, change: Change) -> int:
    """Partitions that a topic has once a change that gives it some is done; 0 for other changes."""
    if isinstance(change, AddPartitions):
        return change.total
    return len(change.replicas) if isinstance(change, CreateTopic) else 0


def _partitions_per_topic(plan: Plan, limit: int) -> Iterator[_ExceededBudget]:
    """Topics that would have too many partitions: the largest is named, the others are counted."""
    totals = {
        topic.topic: max(_total_partitions(topic, change) for change in topic.changes)
        for topic in plan.actionable_topics()
    }
    wide = [name for name, total in totals.items() if total > limit]
    if wide:
        largest = max(wide, key=lambda name: totals[name])
        more = f" and too many for {format_count(len(wide) - 1, 'other topic')}" if len(wide) > 1 else ""
        words = (
            f"{format_count(totals[largest], 'partition')} for {largest}{more}, {limit:,} allowed (partitionsPerTopic)"
        )
        yield _ExceededBudget(words, lambda topic, change: _total_partitions(topic, change) > limit)


def _changed_share(plan: Plan, limit: int) -> Iterator[_ExceededBudget]:
    """Existing topics that change, as a share of those that the run knows: creations are no part of either."""
    existing = plan.unchanged + sum(
        topic.before is not None for topic in plan.topics if topic.changes or topic.refusals
    )
    changed = sum(
        _changes_existing_topic(topic, change) for topic in plan.actionable_topics() for change in topic.changes[:1]
    )
    if changed * 100 > existing * limit:
        words = f"{changed:,} of {format_count(existing, 'existing topic')} changed, {limit}% allowed (changedShare)"
        yield _ExceededBudget(words, _changes_existing_topic)


def _changes_existing_topic(topic: TopicPlan, change: Change) -> bool:
    return topic.before is not None and not isinstance(change, TakeOwnership)


def _withhold_all(plan: Plan, exceeded: Sequence[_ExceededBudget]) -> Plan:
    """Nothing is done: the plan is not what anybody meant, so no part of it can be trusted to be."""
    words = "; ".join(each.message for each in exceeded)
    message = f"{words}: nothing of this cluster is written"
    more = "; --partial does what that does not count"
    return _withhold_matching(
        plan, lambda _topic, _change: True, Issue(Reason.BUDGET_EXCEEDED, message, hint=_HINT_RAISE_BUDGET + more)
    )


def _withhold_counted(plan: Plan, exceeded: Sequence[_ExceededBudget]) -> Plan:
    """The plan without the changes that each exceeded budget counts."""
    for each in exceeded:
        plan = _withhold_matching(
            plan, each.is_counted, Issue(Reason.BUDGET_EXCEEDED, each.message, hint=_HINT_RAISE_BUDGET)
        )
    return plan


def _limit_notifications(plan: Plan, limit: int) -> Plan:
    """The plan with the first ``limit`` of its config updates, by topic name."""
    updates = [topic.topic for topic in plan.actionable_topics() if any(map(_sends_notification, topic.changes))]
    if len(updates) <= limit:
        return plan
    waiting = frozenset(updates[limit:])
    finding = Issue(
        Reason.BUDGET_EXCEEDED,
        f"{format_count(len(updates), 'config notification')} to send, {limit:,} allowed (notifications)",
        hint="run again for the next ones, or raise it in spec.budgets of the Cluster",
    )
    return _withhold_matching(
        plan, lambda topic, change: topic.topic in waiting and _sends_notification(change), finding
    )


def _sends_notification(change: Change) -> bool:
    return isinstance(change, UpdateConfig)


def _withhold_matching(plan: Plan, is_unwanted: Callable[[TopicPlan, Change], bool], issue: Issue) -> Plan:
    """``plan`` with all unwanted changes of a topic held by one refusal."""
    topics = [
        withhold(topic, [change for change in topic.changes if is_unwanted(topic, change)], issue)
        if topic.is_actionable
        else topic
        for topic in plan.topics
    ]
    return replace(plan, topics=tuple(topics))
