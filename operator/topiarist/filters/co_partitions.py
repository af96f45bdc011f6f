"""Keeps the topics of a ``coPartitionGroup`` at equal numbers of partitions: all of them grow, or none.

Streams are joined by partition number, so a topic that grows alone breaks its joins. ``desired.resolve`` makes
sure that the manifests of a group ask for equal numbers. Other filters may withhold the growth of one topic; this one
comes after them, and then withholds the creations and the growth of the whole group. ``chain`` and saved plans call it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.model.plan import AddPartitions, Change, CreateTopic, Issue, Plan, TopicPlan, withhold
from topiarist.text import format_count


def withhold_split_groups(plan: Plan, lost: Collection[str] = ()) -> Plan:
    """Return ``plan`` without the creations and growth of groups that would have different numbers of partitions.

    ``lost`` are topics with changes that will not be made although the plan has them.
    """
    groups: defaultdict[str, list[TopicPlan]] = defaultdict(list)
    for topic in plan.topics:
        if topic.co_partition_group:
            groups[topic.co_partition_group].append(topic)
    replaced: dict[str, TopicPlan] = {}
    for group, members in groups.items():
        counts = {
            member.topic: count
            for member in members
            if (count := _count_after(member, is_lost=member.topic in lost)) is not None
        }
        own = f"the topics of coPartitionGroup {group} would have different counts"
        if unreadable := next((each for each in members if _is_unreadable(each)), None):
            problem = own = f"{unreadable.topic} of coPartitionGroup {group} cannot be read"
        elif len(set(counts.values())) > 1:
            problem = f"coPartitionGroup {group} would have different counts: {_describe(counts)}"
        else:
            continue
        for member in members:
            replaced[member.topic] = _withhold_growth(member, problem, own)
    return replace(plan, topics=tuple(replaced.get(each.topic, each) for each in plan.topics)) if replaced else plan


def _count_after(topic: TopicPlan, *, is_lost: bool) -> int | None:
    """Return the number of partitions after the run; None if the topic does not exist then, or the plan lacks it."""
    is_made = topic.is_actionable and not is_lost
    for change in topic.changes if is_made else ():
        if isinstance(change, CreateTopic):
            return len(change.replicas)
        if isinstance(change, AddPartitions):
            return change.total
    planned = (*topic.changes, *(change for issue in topic.refusals for change in issue.withheld))
    for change in planned:
        if isinstance(change, AddPartitions):
            return change.before
    # A saved plan has no replica lists of topics without growth.
    return len(topic.before.replicas) or None if topic.before else None


def _is_unreadable(topic: TopicPlan) -> bool:
    return any(refusal.reason is Reason.TOPIC_UNREADABLE for refusal in topic.refusals)


def _describe(counts: dict[str, int]) -> str:
    return ", ".join(f"{topic} {format_count(count, 'partition')}" for topic, count in sorted(counts.items()))


def _withhold_growth(topic: TopicPlan, problem: str, own: str) -> TopicPlan:
    if not topic.is_actionable:
        return topic
    changes: list[Change] = [each for each in topic.changes if isinstance(each, CreateTopic | AddPartitions)]
    hint = "its topics grow together or not at all: make the growth of the others possible, or take this one out"
    issue = Issue(Reason.CO_PARTITIONS_DIFFER, problem, ("coPartitionGroup",), hint, own_message=own)
    return withhold(topic, changes, issue)
