"""The operator's memory of a topic, in its ownership record: used consents, the last retention step, deletions.

``reconciler`` calls ``write_memory`` for each plan. The record is written in the transaction of the change, so no
failure separates the two. A status is a view: it may be lost or refused, so it decides nothing.

``recent_deletions`` counts the deletions of the last day, which share one budget. A deletion counts even if the
operator is killed right after it, the Cluster is recreated, or the operator recreates the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.kubernetes import approval
from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.retention import has_steps_left
from topiarist.model.plan import DeleteTopic, Plan, TakeOwnership, TopicPlan
from topiarist.model.spec import TopicSpec
from topiarist.model.state import NO_MEMORY, ClusterState, OwnershipRecord
from topiarist.planning.retention_steps import find_retention_cuts


class Deletion(NamedTuple):
    """The deletion of a topic: an RFC 3339 time and the topic's name, which sort in order of time."""

    time: str
    topic: str

    @property
    def status_entry(self) -> Mapping[str, str]:
        """Return the entry of the deletion in the Cluster's status."""
        return {"topic": self.topic, "time": self.time}


def recent_deletions(state: ClusterState, owner: str, now: datetime) -> Sequence[Deletion]:
    """Return the deletions by ``owner`` less than a day before ``now``, oldest first."""
    return sorted(
        Deletion(clock.format_milliseconds(time), topic)
        for topic, record in chain(state.dangling_records.items(), _topic_records(state))
        for time in _deletion_times(state, topic, record, owner, now)
    )


def _topic_records(state: ClusterState) -> Iterator[tuple[str, OwnershipRecord]]:
    """Yield the records beside topics, also those of an earlier topic of the name."""
    return ((name, topic.record) for name, topic in state.topics.items() if topic.record is not None)


def _deletion_times(
    state: ClusterState, topic: str, record: OwnershipRecord, owner: str, now: datetime
) -> tuple[int, ...]:
    """Return the times of a topic's deletions by ``owner`` that still count, in ms since the epoch.

    A deletion record without them is of an earlier release: the time counts at which it was written, if it is known.
    """
    if record.owner != owner:
        return ()
    times = record.memory.deletions_ms
    if not times and topic in state.deletion_records:
        times = (state.deletion_records[topic].written_at_ms,)
    since = (now - clock.DAY).timestamp() * 1000
    return tuple(time for time in times if time > since)


def write_memory(
    plan: Plan, state: ClusterState, resources: Mapping[str, Resource], specs: Mapping[str, TopicSpec], now: datetime
) -> Plan:
    """Return ``plan`` with the operator's memory in each record that it writes.

    A consent that nothing is left for is used up too: its topic gets a change of the record alone. ``resources`` and
    ``specs`` have the Topics and their specs by topic.
    """
    topics = {topic.topic: _with_memory(topic, state, resources[topic.topic], now) for topic in plan.topics}
    if not plan.write_block.reason:
        for name, resource in resources.items():
            if approval.has_consents(resource):
                topic = topics.get(name) or TopicPlan(name, state.topics.get(name), spec=specs[name])
                topics[name] = _use_up_consents(topic, resource, plan.owner)
    return replace(plan, topics=tuple(topic for topic in topics.values() if not topic.is_empty))


def _with_memory(topic: TopicPlan, state: ClusterState, resource: Resource, now: datetime) -> TopicPlan:
    before, after = topic.record_before, topic.record_after
    if not topic.changes or after is None:
        return topic
    memory, now_ms = before.memory if before else NO_MEMORY, int(now.timestamp() * 1000)
    known = topic.before.record if topic.before else before
    times = _deletion_times(state, topic.topic, known, after.owner, now) if known else ()
    deleted = any(isinstance(change, DeleteTopic) for change in topic.changes)
    memory = memory._replace(deletions_ms=(*times, now_ms) if deleted else times)
    if approval.has_consented_changes(topic):
        memory = memory._replace(consent=approval.current_consents_digest(resource))
    if not has_steps_left(topic):
        memory = memory._replace(step_ms=None)
    elif find_retention_cuts(topic):
        memory = memory._replace(step_ms=now_ms)
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
