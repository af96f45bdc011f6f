"""Separates changes that the manifest caused from changes that would undo external changes.

The ownership record has the spec values of the moment when the topic last matched its spec. If the spec still asks for
such a value and the topic no longer has it, another client changed the topic: that is drift. The operator calls
``withhold_external_changes`` on each plan if its policy is to report drift only, and ``split_external_changes`` to
report what it reverted. The ownership record is the only memory of applied values, because it outlives every resource,
status and run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
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
