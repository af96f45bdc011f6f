"""Refuses deletions of topics in use, and adds to each topic of a plan what its changes mean for data and users.

``filters.chain`` calls it with the usage that a snapshot has, or that the run has read (``deletion_guard``). A person
overrides it by the exact name of a topic. Only what is known to be in use is refused, unless the cluster requires proof
that a topic is not.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.filters.permissions import filter_changes
from topiarist.model.plan import Change, DeleteTopic, Issue, Plan, TopicPlan
from topiarist.model.usage import DeletionCheck, TopicUsage, UsageSettings
from topiarist.usage.describe import describe_change, describe_missing, describe_users, name_groups
from topiarist.usage.fold import DeletionVerdict, judge_deletion

_SEGMENT_BYTES = "segment.bytes"

IsAllowed = Callable[[str, TopicUsage | None], bool]
"""Returns whether a topic may be deleted although it is in use, or its use is not known."""


def allow_none(_topic: str, _usage: TopicUsage | None) -> bool:
    """Allow no topic."""
    return False


def filter_usage(plan: Plan, settings: UsageSettings, is_allowed: IsAllowed = allow_none) -> Plan:
    """Return the plan without deletions that its usage forbids, with the meaning of each topic's changes."""
    read_at = plan.evidence.read_at if plan.evidence else 0

    def find_issue(topic: TopicPlan, change: Change) -> Issue | None:
        usage = plan.usage.get(topic.topic)
        if not isinstance(change, DeleteTopic) or is_allowed(topic.topic, usage):
            return None
        verdict = judge_deletion(usage, read_at, settings)
        if verdict is DeletionVerdict.IN_USE and usage:
            return Issue(
                Reason.TOPIC_IN_USE,
                f"is in use: {describe_change(change, usage, read_at)}",
                hint=f"ask its users to stop first; or --allow-in-use {topic.topic}",
                own_message=f"is in use, with {name_groups(usage)}",
            )
        if verdict is DeletionVerdict.UNKNOWN and settings.deletion is DeletionCheck.REQUIRE_NOT_SEEN:
            return Issue(
                Reason.USAGE_UNKNOWN,
                f"is not proven to be out of use: {_describe_unknown(plan, usage, read_at)}",
                own_message="is not proven to be out of use",
                hint=f"take snapshots with --evidence, and give them by --evidence; or --allow-in-use {topic.topic}",
            )
        return None

    allowed = filter_changes(plan, find_issue)
    return replace(allowed, topics=tuple(_describe(topic, plan, read_at) for topic in allowed.topics))


def _describe(topic: TopicPlan, plan: Plan, read_at: int) -> TopicPlan:
    usage = plan.usage.get(topic.topic)
    if usage is None:
        return topic
    segment = topic.before.config.get(_SEGMENT_BYTES) if topic.before else None
    texts = [describe_change(change, usage, read_at, segment) for change in topic.changes]
    if plan.evidence and any(isinstance(change, DeleteTopic) for change in topic.changes):
        texts.append(describe_missing(plan.evidence))
    return replace(topic, usage=tuple(filter(None, texts)))


def _describe_unknown(plan: Plan, usage: TopicUsage | None, read_at: int) -> str:
    if usage is None:
        return "its usage was not read"
    missing = describe_missing(plan.evidence) if plan.evidence else ""
    return "; ".join(filter(None, [describe_users(usage, read_at), missing]))
