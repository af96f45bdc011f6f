"""Splits a plan into the changes that come first, and the moves and elections that follow them.

``reconcile`` applies all other changes topic by topic, and then lets the adapter carry out the moves in batches, and
the elections after them.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from topiarist.model.plan import Change, LastChange, Plan, TakeOwnership, TopicPlan, config_after


def without_moves(plan: Plan) -> Plan:
    """Return ``plan`` without moves and elections.

    A topic that is adopted in order to be moved gets its ownership record.
    """
    return replace(plan, topics=tuple(_without_moves(topic) if has_moves(topic) else topic for topic in plan.topics))


def only_moves(plan: Plan, topics: Collection[str]) -> Plan:
    """Return ``plan`` with the moves and elections of ``topics`` alone, given that their other changes are made."""
    return replace(plan, topics=tuple(_only_moves(topic) for topic in plan.topics if topic.topic in topics))


def has_moves(topic: TopicPlan) -> bool:
    """Return whether the plan of a topic has a change that follows all others: a move or an election."""
    return any(isinstance(change, LastChange) for change in topic.changes)


def _without_moves(topic: TopicPlan) -> TopicPlan:
    changes = _other_changes(topic)
    if not changes and topic.record_after != topic.record_before:
        changes = (TakeOwnership(),)
    return replace(topic, changes=changes)


def _only_moves(topic: TopicPlan) -> TopicPlan:
    before = topic.before and replace(
        topic.before,
        config=config_after(topic.before.config, _other_changes(topic)),
        record=topic.record_after,
        record_valid=topic.record_after is not None,
    )
    changes = tuple(change for change in topic.changes if isinstance(change, LastChange))
    return replace(topic, before=before, record_before=topic.record_after, changes=changes)


def _other_changes(topic: TopicPlan) -> tuple[Change, ...]:
    return tuple(change for change in topic.changes if not isinstance(change, LastChange))
