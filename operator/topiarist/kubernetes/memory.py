"""The operator's memory of a topic, in its ownership record: used consents, and the time of the last retention step.

``reconciler`` calls ``write_memory`` for each plan. The record is written in the transaction of the change, so no
failure separates the two. A status is a view: it may be lost, or refused by the API server. It counts only for a topic
without a memory in its record, which an earlier release has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from topiarist.kubernetes import approval
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.retention import has_steps_left
from topiarist.model.plan import Plan, TakeOwnership, TopicPlan
from topiarist.model.spec import TopicSpec
from topiarist.model.state import NO_MEMORY, ClusterState
from topiarist.planning.retention_steps import find_retention_cuts


def write_memory(
    plan: Plan, state: ClusterState, resources: Mapping[str, Resource], specs: Mapping[str, TopicSpec], now: datetime
) -> Plan:
    """Return ``plan`` with the operator's memory in each record that it writes.

    A consent that nothing is left for is used up too: its topic gets a change of the record alone. ``resources`` and
    ``specs`` have the Topics and their specs by topic.
    """
    topics = {topic.topic: _with_memory(topic, resources[topic.topic], now) for topic in plan.topics}
    if not plan.write_block.reason:
        for name, resource in resources.items():
            if approval.has_consents(resource):
                topic = topics.get(name) or TopicPlan(name, state.topics.get(name), spec=specs[name])
                topics[name] = _use_up_consents(topic, resource, plan.owner)
    return replace(plan, topics=tuple(topic for topic in topics.values() if not topic.is_empty))


def _with_memory(topic: TopicPlan, resource: Resource, now: datetime) -> TopicPlan:
    before, after = topic.record_before, topic.record_after
    if not topic.changes or after is None:
        return topic
    memory = before.memory if before else NO_MEMORY
    if approval.has_consented_changes(topic):
        memory = memory._replace(consent=approval.current_consents_digest(resource))
    if not has_steps_left(topic):
        memory = memory._replace(step_ms=None)
    elif find_retention_cuts(topic):
        memory = memory._replace(step_ms=int(now.timestamp() * 1000))
    return topic if memory == after.memory else replace(topic, record_after=replace(after, memory=memory))


def _use_up_consents(topic: TopicPlan, resource: Resource, owner: str) -> TopicPlan:
    """Return the plan of a topic that is as asked with its consents in the record; any other plan is returned as is."""
    record = topic.before.valid_record if topic.before else None
    if topic.changes or topic.refusals or topic.spec is None or topic.spec.observe_only or topic.spec.absent:
        return topic
    digest = approval.current_consents_digest(resource)
    if record is None or record.owner != owner or record.deleted or record.memory.consent == digest:
        return topic
    after = replace(record, memory=record.memory._replace(consent=digest))
    return replace(topic, record_before=record, record_after=after, changes=(TakeOwnership(),))
