"""Enforces the budgets of a cluster on a plan.

Budgets are the last filter, so changes that a policy or a missing approval withheld cost nothing. The budget of
``notifications`` only spreads work over several runs. Every other budget is an alarm: a plan that is larger than
intended is not applied at all, unless the run asks for a partial apply. ``chain`` calls this module.
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
    """An exceeded budget, with its numbers and its field as text.

    ``is_counted`` returns whether the budget counts a change.
    """

    message: str
    is_counted: Callable[[TopicPlan, Change], bool]


def enforce_budgets(plan: Plan, budgets: Budgets, *, partial: bool = False) -> Plan:
    """Return ``plan`` without the changes that exceed ``budgets``.

    If a budget other than ``notifications`` is exceeded, all changes are withheld; with ``partial`` only the changes
    that the exceeded budget counts.
    """
    if over := list(_exceeded_budgets(plan, budgets)):
        plan = _withhold_counted(plan, over) if partial else _withhold_all(plan, over)
    return _limit_notifications(plan, budgets.notifications)


def _exceeded_budgets(plan: Plan, budgets: Budgets) -> Iterator[_ExceededBudget]:
    """Yield the exceeded budgets, in the order of the manifest reference."""
    for name, limit, cost, noun in (
        ("topics", budgets.topics, _topic_cost, "changed topic"),
        ("newPartitions", budgets.new_partitions, _new_partition_cost, "new partition"),
        ("deletions", budgets.deletions, _deletion_cost, "deletion"),
    ):
        # A topic counts once, by its most expensive change.
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
    """Return the partitions of a topic after a change that adds some.

    Returns 0 for other changes.
    """
    if isinstance(change, AddPartitions):
        return change.total
    return len(change.replicas) if isinstance(change, CreateTopic) else 0


def _partitions_per_topic(plan: Plan, limit: int) -> Iterator[_ExceededBudget]:
    """Yield the exceeded budget of partitions per topic.

    The message has the largest topic and the number of the other topics.
    """
    totals = {
        topic.topic: max(_total_partitions(topic, change) for change in topic.changes)
        for topic in plan.actionable_topics()
    }
    over_limit = [name for name, total in totals.items() if total > limit]
    if over_limit:
        largest = max(over_limit, key=lambda name: totals[name])
        more = f" and too many for {format_count(len(over_limit) - 1, 'other topic')}" if len(over_limit) > 1 else ""
        message = (
            f"{format_count(totals[largest], 'partition')} for {largest}{more}, {limit:,} allowed (partitionsPerTopic)"
        )
        yield _ExceededBudget(message, lambda topic, change: _total_partitions(topic, change) > limit)


def _changed_share(plan: Plan, limit: int) -> Iterator[_ExceededBudget]:
    """Yield the exceeded budget of changed topics as a share of existing topics.

    Creations count neither as changed nor as existing.
    """
    existing = plan.unchanged + sum(
        topic.before is not None for topic in plan.topics if topic.changes or topic.refusals
    )
    # The share counts topics, so one change of each is enough.
    changed = sum(
        _changes_existing_topic(topic, change) for topic in plan.actionable_topics() for change in topic.changes[:1]
    )
    if changed * 100 > existing * limit:
        message = f"{changed:,} of {format_count(existing, 'existing topic')} changed, {limit}% allowed (changedShare)"
        yield _ExceededBudget(message, _changes_existing_topic)


def _changes_existing_topic(topic: TopicPlan, change: Change) -> bool:
    return topic.before is not None and not isinstance(change, TakeOwnership)


def _withhold_all(plan: Plan, exceeded: Sequence[_ExceededBudget]) -> Plan:
    """Return the plan with all changes withheld.

    An exceeded budget means that the plan is probably not intended, so no part of it is trusted.
    """
    words = "; ".join(each.message for each in exceeded)
    message = f"{words}: nothing of this cluster is written"
    more = "; --partial does what that does not count"
    return _withhold_matching(
        plan, lambda _topic, _change: True, Issue(Reason.BUDGET_EXCEEDED, message, hint=_HINT_RAISE_BUDGET + more)
    )


def _withhold_counted(plan: Plan, exceeded: Sequence[_ExceededBudget]) -> Plan:
    """Return the plan without the changes that each exceeded budget counts."""
    for each in exceeded:
        plan = _withhold_matching(
            plan, each.is_counted, Issue(Reason.BUDGET_EXCEEDED, each.message, hint=_HINT_RAISE_BUDGET)
        )
    return plan


def _limit_notifications(plan: Plan, limit: int) -> Plan:
    """Return the plan with the first ``limit`` config updates, by topic name."""
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
    """Return ``plan`` with one refusal per topic for all unwanted changes."""
    topics = [
        withhold(topic, [change for change in topic.changes if is_unwanted(topic, change)], issue)
        if topic.is_actionable
        else topic
        for topic in plan.topics
    ]
    return replace(plan, topics=tuple(topics))
