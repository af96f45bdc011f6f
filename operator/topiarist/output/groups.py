"""What is the same for many topics of a plan, found so that it can be shown once.

A default of the cluster that touches 812 topics is one decision to review, not 812; so is a broker that is missing.
Topics are put together only where nothing about them differs but their names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from topiarist.errors import Reason
from topiarist.model.plan import ConfigItem, CreateTopic, Issue, Plan, TakeOwnership, TopicPlan, UpdateConfig

GROUP_MIN_TOPICS = 4
"""From so many topics on, what they have in common is shown once."""

ClusterDefault = tuple[str, str | None]
"""A key and the value that the cluster's defaults give it."""


@dataclass(frozen=True, slots=True)
class GroupedItems:
    """What many topics of one plan share: defaults, what becomes of their record, refusals (by ``alike``)."""

    defaults: Mapping[ClusterDefault, Sequence[tuple[TopicPlan, ConfigItem]]] = field(default_factory=dict)
    ownership_actions: Mapping[str, Sequence[TopicPlan]] = field(default_factory=dict)
    refusals: Mapping[Hashable, Sequence[tuple[TopicPlan, Issue]]] = field(default_factory=dict)


def group_items(plan: Plan) -> GroupedItems:
    """What the topics of a plan have in common, ordered as a reader meets it."""
    defaults: dict[ClusterDefault, list[tuple[TopicPlan, ConfigItem]]] = defaultdict(list)
    records: dict[str, list[TopicPlan]] = defaultdict(list)
    refusals: dict[Hashable, list[tuple[TopicPlan, Issue]]] = defaultdict(list)
    for topic in plan.topics:
        if topic.is_actionable:
            for item in _list_inherited_items(topic):
                defaults[item.key, item.after].append((topic, item))
            if is_record_only(topic):
                records[describe_ownership_action(topic)].append(topic)
        for finding in topic.refusals:
            if key := refusal_group_key(finding):
                refusals[key].append((topic, finding))
    return GroupedItems(
        defaults={
            default: touched for default, touched in sorted(defaults.items()) if len(touched) >= GROUP_MIN_TOPICS
        },
        ownership_actions={
            words: topics for words, topics in sorted(records.items()) if len(topics) >= GROUP_MIN_TOPICS
        },
        refusals={key: members for key, members in refusals.items() if len(members) >= GROUP_MIN_TOPICS},
    )


def list_exceeded_budgets(plan: Plan) -> Iterable[tuple[str, str]]:
    """What the budgets of the cluster held back, with what to do: said once, not for each topic."""
    findings = chain.from_iterable(topic.refusals for topic in plan.topics)
    held = ((each.message, each.hint) for each in findings if each.reason is Reason.BUDGET_EXCEEDED)
    return dict.fromkeys(held)


def is_record_only(topic: TopicPlan) -> bool:
    """Whether nothing of Kafka's changes: only our record is written."""
    return bool(topic.changes) and all(isinstance(change, TakeOwnership) for change in topic.changes)


def describe_ownership_action(topic: TopicPlan) -> str:
    """What becomes of our record beside an existing topic; empty if it stays with its owner."""
    before = topic.before.valid_record if topic.before else None
    if topic.before is None or topic.record_after is None:
        return ""
    if before is None:
        return "adopt"
    if topic.record_after and topic.record_after.owner != before.owner:
        return f"take over from owner {before.owner}"
    return ""


def _list_inherited_items(topic: TopicPlan) -> Iterable[ConfigItem]:
    for change in topic.changes:
        if isinstance(change, UpdateConfig):
            yield from (item for item in change.items if item.inherited)


def refusal_group_key(issue: Issue) -> Hashable:
    """What two refusals must have in common to be shown as one; None for those that stand alone.

    Creations hold replica lists, which differ from topic to topic (and a mapping, which cannot be a key).
    """
    if any(isinstance(change, CreateTopic) for change in issue.withheld):
        return None
    return issue.reason, issue.message, issue.field, issue.withheld
