"""Which part of a difference the manifest brought about, and which part somebody else did on the cluster.

The record beside a topic remembers what the spec asked for when the topic last was as asked (``witness``). What the
spec asks for still, and the cluster had by then, somebody has changed since: that is drift. Whoever only reports drift
calls ``report_only`` on each plan; ``reconcile`` then does what is left. Nothing else is asked what was applied: a
record outlives every resource, status and run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topiarist.core.change import AddPartitions, Adopt, Change, ConfigItem, Finding, Plan, TopicPlan, UpdateConfig
from topiarist.core.differences import record_after
from topiarist.core.holding import hold
from topiarist.core.state import TopicRecord, TopicState
from topiarist.core.witness import means
from topiarist.errors import Reason


def report_only(plan: Plan) -> Plan:
    """``plan`` without the changes that would undo what others did; each topic's become one refusal.

    Only the owner's own record is asked, also one of an earlier topic of the name: that it was made again is drift too.
    A record that does not know what was applied speaks against every change to a config that others have written since.
    """
    return replace(plan, topics=tuple(_reported(topic, plan.owner) for topic in plan.topics))


def _reported(topic: TopicPlan, owner: str) -> TopicPlan:
    found, record = topic.before, topic.record_before
    if topic.observed or topic.spec is None or found is None or record is None:
        return topic
    if record.owner != owner or record.absent:
        return topic
    left, drifted = list[Change](), list[Change]()
    for change in topic.changes:
        for part, outside in _parts(change, found, record):
            (drifted if outside else left).append(part)
    if not drifted:
        return topic
    finding = Finding(
        Reason.DRIFT_DETECTED,
        "changed on the cluster since it was as asked",
        instead="put it right there, change the spec, or set driftPolicy: Correct in the Cluster",
    )
    held = hold(replace(topic, changes=(*left, *drifted)), drifted, finding)
    return held if held.changes else _noted(held, found, owner)


def _noted(topic: TopicPlan, found: TopicState, owner: str) -> TopicPlan:
    """Where all changes are held: what the topic meets of its spec is noted in the record nevertheless."""
    record = found.valid_record
    if topic.spec is None or record is None or record.applied is None:
        return topic
    after = record_after(owner, topic.spec, found.config, len(found.replicas), record)
    return topic if after == record else replace(topic, changes=(Adopt(),), record_after=after)


def _parts(change: Change, found: TopicState, record: TopicRecord) -> Iterator[tuple[Change, bool]]:
    """A change, or its config keys apart, and whether what it would undo was done outside."""
    if isinstance(change, AddPartitions):
        applied = record.applied
        known = not found.record_valid if applied is None else change.total <= (applied.partitions or 0)
        yield change, known
    elif isinstance(change, UpdateConfig):
        outside = {item: _is_outside(item, found, record) for item in change.items}
        for verdict in (False, True):
            if items := tuple(item for item in change.items if outside[item] is verdict):
                yield UpdateConfig(items), verdict
    else:
        yield change, False


def _is_outside(item: ConfigItem, found: TopicState, record: TopicRecord) -> bool:
    """Whether a key is not as the spec asks because others changed it, not because the spec did."""
    if record.applied is None:
        return found.changed_outside or not found.record_valid
    if item.after is None:
        return item.key not in record.config and record.applied.remove_unmanaged
    if item.key not in record.config:
        return False
    value = dict(record.applied.config).get(item.key)
    return value is None or means(item.key, value, item.after)
