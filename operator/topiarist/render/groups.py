"""What is the same for many topics of a plan, found so that it can be shown once.

A default of the cluster that touches 812 topics is one decision to review, not 812; so is a broker that is missing.
Topics are put together only where nothing about them differs but their names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from topiarist.core.change import Adopt, ConfigItem, CreateTopic, Finding, Plan, TopicPlan, UpdateConfig
from topiarist.errors import Reason

MANY = 4
"""From so many topics on, what they have in common is shown once."""

Default = tuple[str, str | None]
"""A key and the value that the cluster's defaults give it."""


@dataclass(frozen=True, slots=True)
class Groups:
    """What many topics of one plan share: defaults, what becomes of their record, refusals (by ``alike``)."""

    defaults: Mapping[Default, Sequence[tuple[TopicPlan, ConfigItem]]] = field(default_factory=dict)
    records: Mapping[str, Sequence[TopicPlan]] = field(default_factory=dict)
    refusals: Mapping[Hashable, Sequence[tuple[TopicPlan, Finding]]] = field(default_factory=dict)


def find(plan: Plan) -> Groups:
    """What the topics of a plan have in common, ordered as a reader meets it."""
    defaults: dict[Default, list[tuple[TopicPlan, ConfigItem]]] = defaultdict(list)
    records: dict[str, list[TopicPlan]] = defaultdict(list)
    refusals: dict[Hashable, list[tuple[TopicPlan, Finding]]] = defaultdict(list)
    for topic in plan.topics:
        if topic.to_do:
            for item in _inherited(topic):
                defaults[item.key, item.after].append((topic, item))
            if record_only(topic):
                records[record_words(topic)].append(topic)
        for finding in topic.refusals:
            if key := alike(finding):
                refusals[key].append((topic, finding))
    return Groups(
        defaults={default: touched for default, touched in sorted(defaults.items()) if len(touched) >= MANY},
        records={words: topics for words, topics in sorted(records.items()) if len(topics) >= MANY},
        refusals={key: members for key, members in refusals.items() if len(members) >= MANY},
    )


def overdrafts(plan: Plan) -> Iterable[tuple[str, str]]:
    """What the budgets of the cluster held back, with what to do: said once, not for each topic."""
    findings = chain.from_iterable(topic.refusals for topic in plan.topics)
    held = ((each.message, each.instead) for each in findings if each.reason is Reason.BUDGET_EXCEEDED)
    return dict.fromkeys(held)


def record_only(topic: TopicPlan) -> bool:
    """Whether nothing of Kafka's changes: only our record is written."""
    return bool(topic.changes) and all(isinstance(change, Adopt) for change in topic.changes)


def record_words(topic: TopicPlan) -> str:
    """What becomes of our record beside an existing topic; empty if it stays with its owner."""
    before = topic.before.valid_record if topic.before else None
    if topic.before is None or topic.record_after is None:
        return ""
    if before is None:
        return "adopt"
    if topic.record_after and topic.record_after.owner != before.owner:
        return f"take over from owner {before.owner}"
    return ""


def _inherited(topic: TopicPlan) -> Iterable[ConfigItem]:
    for change in topic.changes:
        if isinstance(change, UpdateConfig):
            yield from (item for item in change.items if item.inherited)


def alike(finding: Finding) -> Hashable:
    """What two refusals must have in common to be shown as one; None for those that stand alone.

    Creations hold replica lists, which differ from topic to topic (and a mapping, which cannot be a key).
    """
    if any(isinstance(change, CreateTopic) for change in finding.held):
        return None
    return finding.reason, finding.message, finding.field, finding.held
