"""What a plan would spend of its cluster's budgets, and the plan without what they do not allow.

A budget is the last of the filters: what a policy or a missing permission has held back costs nothing. That of
``notifications`` only spreads work over runs. Every other budget is an alarm: a plan that is larger than anybody meant
is not carried out in part, unless the run asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from topiarist.core.budgets import Budgets
from topiarist.core.change import (
    AddPartitions,
    Adopt,
    Change,
    CreateTopic,
    DeleteTopic,
    Finding,
    Plan,
    TopicPlan,
    UpdateConfig,
)
from topiarist.core.holding import hold
from topiarist.core.units import count
from topiarist.errors import Reason

_RAISE = "ask for less, or raise it in spec.budgets of the Cluster"

Cost = Callable[[TopicPlan, Change], int]


class _Overdraft(NamedTuple):
    """A budget that a plan exceeds: the numbers and its field in words, and which changes it counts."""

    words: str
    counts: Callable[[TopicPlan, Change], bool]


def within_budgets(plan: Plan, budgets: Budgets, *, partial: bool = False) -> Plan:
    """``plan`` without what exceeds ``budgets``.

    Over any but ``notifications`` nothing at all is left, or with ``partial`` nothing that the exceeded budget counts.
    """
    if over := list(_overdrafts(plan, budgets)):
        plan = _without(plan, over) if partial else _stopped(plan, over)
    return _notifying(plan, budgets.notifications)


def _overdrafts(plan: Plan, budgets: Budgets) -> Iterator[_Overdraft]:
    """The exceeded budgets, in the order in which the manifest's reference lists them."""
    for name, limit, cost, noun in (
        ("topics", budgets.topics, _touched, "changed topic"),
        ("newPartitions", budgets.new_partitions, _new_partitions, "new partition"),
        ("deletions", budgets.deletions, _deleted, "deletion"),
    ):
        spent = sum(max(cost(topic, change) for change in topic.changes) for topic in plan.to_do())
        if limit is not None and spent > limit:
            yield _Overdraft(f"{count(spent, noun)}, {limit:,} allowed ({name})", _costs(cost))
    yield from _wide(plan, budgets.partitions_per_topic)
    if budgets.changed_share is not None:
        yield from _share(plan, budgets.changed_share)


def _costs(cost: Cost) -> Callable[[TopicPlan, Change], bool]:
    return lambda topic, change: cost(topic, change) > 0


def _touched(_topic: TopicPlan, change: Change) -> int:
    return int(not isinstance(change, Adopt))


def _deleted(_topic: TopicPlan, change: Change) -> int:
    return int(isinstance(change, DeleteTopic))


def _new_partitions(_topic: TopicPlan, change: Change) -> int:
    return len(change.replicas) if isinstance(change, CreateTopic | AddPartitions) else 0


def _total(_topic: TopicPlan, change: Change) -> int:
    """Partitions that a topic has once a change that gives it some is done; 0 for other changes."""
    if isinstance(change, AddPartitions):
        return change.total
    return len(change.replicas) if isinstance(change, CreateTopic) else 0


def _wide(plan: Plan, limit: int) -> Iterator[_Overdraft]:
    """Topics that would have too many partitions: the largest is named, the others are counted."""
    totals = {topic.topic: max(_total(topic, change) for change in topic.changes) for topic in plan.to_do()}
    wide = [name for name, total in totals.items() if total > limit]
    if wide:
        largest = max(wide, key=lambda name: totals[name])
        more = f" and too many for {count(len(wide) - 1, 'other topic')}" if len(wide) > 1 else ""
        words = f"{count(totals[largest], 'partition')} for {largest}{more}, {limit:,} allowed (partitionsPerTopic)"
        yield _Overdraft(words, lambda topic, change: _total(topic, change) > limit)


def _share(plan: Plan, limit: int) -> Iterator[_Overdraft]:
    """Existing topics that change, as a share of those that the run knows: creations are no part of either."""
    existing = plan.unchanged + sum(
        topic.before is not None for topic in plan.topics if topic.changes or topic.refusals
    )
    changed = sum(_alters(topic, change) for topic in plan.to_do() for change in topic.changes[:1])
    if changed * 100 > existing * limit:
        words = f"{changed:,} of {count(existing, 'existing topic')} changed, {limit}% allowed (changedShare)"
        yield _Overdraft(words, _alters)


def _alters(topic: TopicPlan, change: Change) -> bool:
    return topic.before is not None and not isinstance(change, Adopt)


def _stopped(plan: Plan, over: Sequence[_Overdraft]) -> Plan:
    """Nothing is done: the plan is not what anybody meant, so no part of it can be trusted to be."""
    words = "; ".join(each.words for each in over)
    message = f"{words}: nothing of this cluster is written"
    more = "; --partial does what that does not count"
    return _holding(plan, lambda _topic, _change: True, Finding(Reason.BUDGET_EXCEEDED, message, instead=_RAISE + more))


def _without(plan: Plan, over: Sequence[_Overdraft]) -> Plan:
    """The plan without the changes that each exceeded budget counts."""
    for each in over:
        plan = _holding(plan, each.counts, Finding(Reason.BUDGET_EXCEEDED, each.words, instead=_RAISE))
    return plan


def _notifying(plan: Plan, limit: int) -> Plan:
    """The plan with the first ``limit`` of its config updates, by topic name."""
    updates = [topic.topic for topic in plan.to_do() if any(map(_notifies, topic.changes))]
    if len(updates) <= limit:
        return plan
    waiting = frozenset(updates[limit:])
    finding = Finding(
        Reason.BUDGET_EXCEEDED,
        f"{count(len(updates), 'config notification')} to send, {limit:,} allowed (notifications)",
        instead="run again for the next ones, or raise it in spec.budgets of the Cluster",
    )
    return _holding(plan, lambda topic, change: topic.topic in waiting and _notifies(change), finding)


def _notifies(change: Change) -> bool:
    return isinstance(change, UpdateConfig)


def _holding(plan: Plan, unwanted: Callable[[TopicPlan, Change], bool], finding: Finding) -> Plan:
    """``plan`` with all unwanted changes of a topic held by one refusal."""
    topics = [
        hold(topic, [change for change in topic.changes if unwanted(topic, change)], finding) if topic.to_do else topic
        for topic in plan.topics
    ]
    return replace(plan, topics=tuple(topics))
