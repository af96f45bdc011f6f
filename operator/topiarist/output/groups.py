"""Defaults, record actions and refusals that many topics of a plan share, so that each is shown once.

A cluster default that changes 812 topics is one decision to review, not 812; the same holds for a missing broker.
Topics are grouped only if they differ in nothing but their names. ``text.plan`` and ``markdown.plan`` call
``group_items``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.model.plan import ConfigItem, CreateTopic, Issue, Plan, TakeOwnership, TopicPlan, UpdateConfig

_MIN_TOPICS = 4
"""Minimum number of topics that form a group."""

LIMIT_LABELS = {Reason.BUDGET_EXCEEDED: "over budget", Reason.MOVES_LIMITED: "over --max-moves"}
"""Names of the limits that withhold changes, by the reason of the refusals."""

ClusterDefault = tuple[str, str | None]
"""A config key and the value that the cluster's defaults give it."""


class GroupedItems(Struct, frozen=True):
    """Groups of what many topics of one plan share.

    ``defaults`` groups config items by key and value, ``ownership_actions`` topics by the text of
    ``describe_ownership_action``, ``refusals`` topics and issues by ``refusal_group_key``.
    """

    defaults: Mapping[ClusterDefault, Sequence[tuple[TopicPlan, ConfigItem]]] = field(default_factory=dict)
    ownership_actions: Mapping[str, Sequence[TopicPlan]] = field(default_factory=dict)
    refusals: Mapping[Hashable, Sequence[tuple[TopicPlan, Issue]]] = field(default_factory=dict)


def group_items(plan: Plan) -> GroupedItems:
    """Return the groups of a plan's topics, in display order."""
    defaults: dict[ClusterDefault, list[tuple[TopicPlan, ConfigItem]]] = defaultdict(list)
    records: dict[str, list[TopicPlan]] = defaultdict(list)
    refusals: dict[Hashable, list[tuple[TopicPlan, Issue]]] = defaultdict(list)
    for topic in plan.topics:
        if topic.is_actionable:
            for change in topic.changes:
                for item in change.items if isinstance(change, UpdateConfig) else ():
                    if item.inherited:
                        defaults[item.key, item.after].append((topic, item))
            if is_record_only(topic):
                records[describe_ownership_action(topic)].append(topic)
        for issue in topic.refusals:
            if key := refusal_group_key(issue):
                refusals[key].append((topic, issue))
    return GroupedItems(
        defaults={key: members for key, members in sorted(defaults.items()) if len(members) >= _MIN_TOPICS},
        ownership_actions={key: members for key, members in sorted(records.items()) if len(members) >= _MIN_TOPICS},
        refusals={key: members for key, members in refusals.items() if len(members) >= _MIN_TOPICS},
    )


def list_exceeded_limits(plan: Plan) -> Iterable[tuple[str, str, str]]:
    """Return label, message and hint of each exceeded limit: the budgets of the cluster, and that of the run.

    Each is returned once, not for each topic that it affects.
    """
    refusals = chain.from_iterable(topic.refusals for topic in plan.topics)
    exceeded = (
        (LIMIT_LABELS[issue.reason], issue.message, issue.hint) for issue in refusals if issue.reason in LIMIT_LABELS
    )
    return dict.fromkeys(exceeded)


def is_record_only(topic: TopicPlan) -> bool:
    """Return whether only the ownership record is written, and nothing of Kafka's."""
    return bool(topic.changes) and all(isinstance(change, TakeOwnership) for change in topic.changes)


def describe_ownership_action(topic: TopicPlan) -> str:
    """Return the action on the ownership record of an existing topic.

    Empty if the owner stays the same, or if the topic or its new record does not exist.
    """
    before = topic.before.valid_record if topic.before else None
    if topic.before is None or topic.record_after is None:
        return ""
    if before is None:
        return "adopt"
    if topic.record_after and topic.record_after.owner != before.owner:
        return f"take ownership from {before.owner}"
    return ""


def refusal_group_key(issue: Issue) -> Hashable:
    """Return a key that is equal for refusals to show as one; None for a refusal that is never grouped.

    A withheld creation is never grouped: replica lists differ from topic to topic, and a creation contains a mapping,
    which is not hashable.
    """
    if any(isinstance(change, CreateTopic) for change in issue.withheld):
        return None
    return issue.reason, issue.message, issue.field, issue.withheld
