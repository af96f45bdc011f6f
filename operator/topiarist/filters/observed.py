"""Filters for what the cluster shows: external changes that are only reported, deletions of topics in use.

The ownership record has the spec values of the moment when the topic last matched its spec. If the spec still asks for
such a value and the topic no longer has it, another client changed the topic: that is drift. The operator calls
``withhold_external_changes`` on each plan if its policy is to report drift only, and ``split_external_changes`` to
report what it reverted. The ownership record is the only memory of applied values, because it outlives every resource,
status and run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.filters.chain import filter_changes
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    DeleteTopic,
    Issue,
    Plan,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    matches_recorded_value,
    record_after,
    withhold,
)
from topiarist.model.state import OwnershipRecord, TopicState
from topiarist.model.usage import DeletionCheck, TopicUsage, UsageSettings
from topiarist.usage.describe import describe_change, describe_missing, describe_users, name_groups
from topiarist.usage.fold import DeletionVerdict, judge_deletion

# Refuses deletions of topics in use, and adds to each topic of a plan what its changes mean for data and users.
#
# ``RunInputs.filter_plan`` calls it with the usage that a snapshot has, or that the run has read (``deletion_guard``).
# A person overrides it by the exact name of a topic. Only what is known to be in use is refused, unless the cluster
# requires proof that a topic is not.

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


def withhold_external_changes(plan: Plan) -> Plan:
    """Return ``plan`` without the changes that would undo external changes.

    Each topic gets one refusal for all of them. Only the record of the plan's own owner is used. A record of an earlier
    topic of the same name is used too, because a recreated topic is also drift. A record without applied values
    withholds every change to a config that another client has written since.
    """
    return replace(plan, topics=tuple(_withhold_in_topic(topic, plan.owner) for topic in plan.topics))


def split_external_changes(topic: TopicPlan, owner: str) -> tuple[Sequence[Change], Sequence[Change]]:
    """Return the changes that the manifest caused, and those that undo external changes.

    A change of both is split. Everything is of the manifest if the topic has no record of ``owner``.
    """
    actual, record = topic.before, topic.record_before
    if topic.observe_only or topic.spec is None or actual is None or record is None:
        return topic.changes, ()
    if record.owner != owner or record.deleted:
        return topic.changes, ()
    kept, drifted = list[Change](), list[Change]()
    for change in topic.changes:
        for part, is_external in _split_change(change, actual, record):
            (drifted if is_external else kept).append(part)
    return kept, drifted


def _withhold_in_topic(topic: TopicPlan, owner: str) -> TopicPlan:
    kept, drifted = split_external_changes(topic, owner)
    actual = topic.before
    if not drifted or topic.spec is None or actual is None:
        return topic
    issue = Issue(
        Reason.DRIFT_DETECTED,
        "another client changed it on the cluster after it matched its spec",
        hint="undo that change, change the spec, or set driftPolicy: Correct in the Cluster",
    )
    filtered = withhold(replace(topic, changes=(*kept, *drifted)), drifted, issue)
    valid_record = actual.valid_record
    if filtered.changes or valid_record is None or valid_record.applied is None:
        return filtered
    # All changes are withheld, but the record still notes the values that match the spec.
    after = record_after(owner, topic.spec, actual.config, len(actual.replicas), valid_record)
    return filtered if after == valid_record else replace(filtered, changes=(TakeOwnership(),), record_after=after)


def _split_change(change: Change, actual: TopicState, record: OwnershipRecord) -> Iterator[tuple[Change, bool]]:
    # The second value is true if the part undoes an external change.
    if isinstance(change, AddPartitions):
        applied = record.applied
        undoes_external = not actual.record_valid if applied is None else change.total <= (applied.partitions or 0)
        yield change, undoes_external
    elif isinstance(change, UpdateConfig):
        external = {item: _is_external(item, actual, record) for item in change.items}
        for is_external in (False, True):
            if items := tuple(item for item in change.items if external[item] is is_external):
                yield UpdateConfig(items), is_external
    else:
        yield change, False


def _is_external(item: ConfigItem, actual: TopicState, record: OwnershipRecord) -> bool:
    """Return whether another client, not the spec, caused the difference of a key."""
    if record.applied is None:
        return actual.modified_externally or not actual.record_valid
    if item.after is None:
        return item.key not in record.config_keys and record.applied.remove_unmanaged
    if item.key not in record.config_keys:
        return False
    # If the spec asks for another value than the recorded one, the spec has changed since.
    value = dict(record.applied.config).get(item.key)
    return value is None or matches_recorded_value(item.key, value, item.after)
