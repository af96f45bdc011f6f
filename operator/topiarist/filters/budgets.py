"""Enforces the budgets of a cluster on a plan.

Budgets are the last filter, so changes that a policy or a missing approval withheld cost nothing. The budget of
``notifications`` only spreads work over several runs, and counts only where topiarist sends them: brokers that are
asked for a change need none. Every other budget is an alarm: a plan that is larger than
intended is not applied at all, unless the run asks for a partial apply. ``chain`` calls this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.spec import Budgets
from topiarist.text import format_count

_HINT_RAISE_BUDGET = "reduce the changes, or raise the budget in spec.budgets of the Cluster"

CostFunction = Callable[[TopicPlan, Change], int]
"""Returns what a change costs of a budget; 0 if the budget does not count the change."""

ExceededBudget = tuple[str, CostFunction, str]
"""The numbers and the field of an exceeded budget as a message, its cost function, and its field."""


def enforce_budgets(plan: Plan, budgets: Budgets, *, partial: bool = False) -> Plan:
    """Return ``plan`` without the changes that exceed ``budgets``.

    If a budget other than ``notifications`` is exceeded, all changes are withheld; with ``partial`` only the changes
    that the exceeded budget counts.
    """
    exceeded = [*_exceeded_budgets(plan, budgets)]
    if partial:
        for message, cost, name in exceeded:
            plan = _withhold_matching(plan, cost, _build_issue(message, _HINT_RAISE_BUDGET, name))
    elif exceeded:
        # An exceeded budget means that the plan is probably not intended, so no part of it is trusted.
        message = f"{'; '.join(message for message, *_ in exceeded)}: nothing is written to this cluster"
        hint = f"{_HINT_RAISE_BUDGET}; to make the changes that the budget does not count, pass --partial"
        plan = _withhold_matching(plan, lambda _topic, _change: True, Issue(Reason.BUDGET_EXCEEDED, message, hint=hint))
    return _limit_notifications(plan, budgets.notifications) if plan.bypasses_brokers else plan


def _exceeded_budgets(plan: Plan, budgets: Budgets) -> Iterator[ExceededBudget]:
    """Yield the exceeded budgets, in the order of the manifest reference."""
    limits: Sequence[tuple[str, int | None, CostFunction, str]] = (
        ("topics", budgets.topics, lambda _, change: _changes_topic(change), "changed topic"),
        ("newPartitions", budgets.new_partitions, _new_partition_cost, "new partition"),
        ("movedReplicas", budgets.moved_replicas, _moved_replica_cost, "copied replica"),
        ("movedPartitions", budgets.moved_partitions, _moved_partition_cost, "moved partition"),
        ("deletions", budgets.deletions, lambda _, change: isinstance(change, DeleteTopic), "deletion"),
    )
    for name, limit, cost, noun in limits:
        # A topic counts once, by its most expensive change.
        spent = sum(max(cost(topic, change) for change in topic.changes) for topic in plan.actionable_topics())
        if limit is not None and spent > limit:
            yield f"{format_count(spent, noun)}, {limit:,} allowed ({name})", cost, name
    yield from _partitions_per_topic(plan, budgets.partitions_per_topic)
    if budgets.changed_share is not None:
        yield from _changed_share(plan, budgets.changed_share)


def _new_partition_cost(_topic: TopicPlan, change: Change) -> int:
    return len(change.replicas) if isinstance(change, CreateTopic | AddPartitions) else 0


def _moved_replica_cost(_topic: TopicPlan, change: Change) -> int:
    return change.copies if isinstance(change, MoveReplicas) else 0


def _moved_partition_cost(_topic: TopicPlan, change: Change) -> int:
    return len(change.moves) if isinstance(change, MoveReplicas) else 0


def _partitions_per_topic(plan: Plan, limit: int) -> Iterator[ExceededBudget]:
    """Yield the exceeded budget, with the largest topic and the number of the other topics."""

    def total(_topic: TopicPlan, change: Change) -> int:
        """Return the partitions after a change that adds some; 0 for other changes."""
        return change.total if isinstance(change, AddPartitions) else _new_partition_cost(_topic, change)

    totals = {topic.topic: max(total(topic, change) for change in topic.changes) for topic in plan.actionable_topics()}
    if over_limit := [name for name, partitions in totals.items() if partitions > limit]:
        largest = max(over_limit, key=lambda name: totals[name])
        more = f" and too many for {format_count(len(over_limit) - 1, 'other topic')}" if len(over_limit) > 1 else ""
        count = format_count(totals[largest], "partition")
        message = f"{count} for {largest}{more}, {limit:,} allowed (partitionsPerTopic)"
        yield message, lambda topic, change: total(topic, change) > limit, "partitionsPerTopic"


def _changed_share(plan: Plan, limit: int) -> Iterator[ExceededBudget]:
    # Creations count neither as changed nor as existing.
    existing = plan.unchanged + plan.unselected
    existing += sum(topic.before is not None for topic in plan.topics if topic.changes or topic.refusals)
    # The share counts topics, so one change of each is enough.
    changed = sum(
        _changes_existing_topic(topic, change) for topic in plan.actionable_topics() for change in topic.changes[:1]
    )
    if changed * 100 > existing * limit:
        message = f"{changed:,} of {format_count(existing, 'existing topic')} changed, {limit}% allowed (changedShare)"
        yield message, _changes_existing_topic, "changedShare"


def _changes_existing_topic(topic: TopicPlan, change: Change) -> bool:
    return topic.before is not None and _changes_topic(change)


def _changes_topic(change: Change) -> bool:
    # After a broker's restart the leaders of most topics may differ: an election gives nothing but the usual leader.
    return not isinstance(change, TakeOwnership | ElectLeaders)


def _limit_notifications(plan: Plan, limit: int) -> Plan:
    """Return the plan with the first ``limit`` config updates, by topic name."""

    def notifies(change: Change) -> bool:
        return isinstance(change, UpdateConfig)

    updates = [topic.topic for topic in plan.actionable_topics() if any(map(notifies, topic.changes))]
    if len(updates) <= limit:
        return plan
    waiting = frozenset(updates[limit:])
    message = f"{format_count(len(updates), 'config notification')} to send, {limit:,} allowed (notifications)"
    hint = "run again for the next notifications, or raise the budget in spec.budgets of the Cluster"
    issue = _build_issue(message, hint, "notifications")
    return _withhold_matching(plan, lambda topic, change: topic.topic in waiting and notifies(change), issue)


def _build_issue(message: str, hint: str, name: str) -> Issue:
    own = f"the changes of all topics together exceed the budget {name} of the Cluster"
    return Issue(Reason.BUDGET_EXCEEDED, message, hint=hint, own_message=own)


def _withhold_matching(plan: Plan, cost: CostFunction, issue: Issue) -> Plan:
    """Return ``plan`` with one refusal per topic for all changes with a cost."""
    topics = [
        withhold(topic, [change for change in topic.changes if cost(topic, change)], issue)
        if topic.is_actionable
        else topic
        for topic in plan.topics
    ]
    return replace(plan, topics=tuple(topics))
