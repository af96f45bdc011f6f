"""Which part of a difference the manifest brought about, and which part somebody else did on the cluster.

The record beside a topic remembers what the spec asked for when the topic last was as asked (``witness``). What the
spec asks for still, and the cluster had by then, somebody has changed since: that is drift. Whoever only reports drift
calls ``report_only`` on each plan; ``reconcile`` then does what is left. Nothing else is asked what was applied: a
record outlives every resource, status and run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topiarist.errors import Reason
from topiarist.model.ownership_record import matches_recorded_value
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    Issue,
    Plan,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    record_after,
    withhold,
)
from topiarist.model.state import OwnershipRecord, TopicState


def withhold_external_changes(plan: Plan) -> Plan:
    """``plan`` without the changes that would undo what others did; each topic's become one refusal.

    Only the owner's own record is asked, also one of an earlier topic of the name: that it was made again is drift too.
    A record that does not know what was applied speaks against every change to a config that others have written since.
    """
    return replace(plan, topics=tuple(_withhold_in_topic(topic, plan.owner) for topic in plan.topics))


def _withhold_in_topic(topic: TopicPlan, owner: str) -> TopicPlan:
    found, record = topic.before, topic.record_before
    if topic.observe_only or topic.spec is None or found is None or record is None:
        return topic
    if record.owner != owner or record.deleted:
        return topic
    left, drifted = list[Change](), list[Change]()
    for change in topic.changes:
        for part, outside in _split_change(change, found, record):
            (drifted if outside else left).append(part)
    if not drifted:
        return topic
    finding = Issue(
        Reason.DRIFT_DETECTED,
        "changed on the cluster since it was as asked",
        hint="put it right there, change the spec, or set driftPolicy: Correct in the Cluster",
    )
    held = withhold(replace(topic, changes=(*left, *drifted)), drifted, finding)
    return held if held.changes else _add_record_update(held, found, owner)


def _add_record_update(topic: TopicPlan, actual: TopicState, owner: str) -> TopicPlan:
    """Where all changes are held: what the topic meets of its spec is noted in the record nevertheless."""
    record = actual.valid_record
    if topic.spec is None or record is None or record.applied is None:
        return topic
    after = record_after(owner, topic.spec, actual.config, len(actual.replicas), record)
    return topic if after == record else replace(topic, changes=(TakeOwnership(),), record_after=after)


def _split_change(change: Change, actual: TopicState, record: OwnershipRecord) -> Iterator[tuple[Change, bool]]:
    """A change, or its config keys apart, and whether what it would undo was done outside."""
    if isinstance(change, AddPartitions):
        applied = record.applied
        known = not actual.record_valid if applied is None else change.total <= (applied.partitions or 0)
        yield change, known
    elif isinstance(change, UpdateConfig):
        outside = {item: _is_external(item, actual, record) for item in change.items}
        for verdict in (False, True):
            if items := tuple(item for item in change.items if outside[item] is verdict):
                yield UpdateConfig(items), verdict
    else:
        yield change, False


def _is_external(item: ConfigItem, actual: TopicState, record: OwnershipRecord) -> bool:
    """Whether a key is not as the spec asks because others changed it, not because the spec did."""
    if record.applied is None:
        return actual.modified_externally or not actual.record_valid
    if item.after is None:
        return item.key not in record.config_keys and record.applied.remove_unmanaged
    if item.key not in record.config_keys:
        return False
    value = dict(record.applied.config).get(item.key)
    return value is None or matches_recorded_value(item.key, value, item.after)
