"""Simulates a plan: computes the state of a cluster after the plan is applied.

``adapters.memory`` applies plans by this function. Tests use it to prove plans: plan, simulate, plan again, and the
second plan must be empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from topiarist.model.plan import (
    CreateTopic,
    DeleteTopic,
    TopicPlan,
    config_after,
    releases_ownership,
    replicas_after,
)
from topiarist.model.state import ClusterState, TopicState
from topiarist.planning.preconditions import is_nudge


def simulate(state: ClusterState, plans: Iterable[TopicPlan]) -> ClusterState:
    """Return the state after every change of ``plans``.

    Changed values are new objects; all other values are shared with ``state``.
    """
    topics, records, identity = dict(state.topics), dict(state.dangling_records), state.next_identity
    for plan in plans:
        if not plan.is_actionable or is_nudge(plan):
            continue  # a nudge writes the same data again
        records.pop(plan.topic, None)
        if any(isinstance(change, DeleteTopic) for change in plan.changes):
            topics.pop(plan.topic, None)
            if plan.record_after:
                records[plan.topic] = plan.record_after
        elif releases_ownership(plan):
            if topic := topics.get(plan.topic):
                topics[plan.topic] = replace(topic, record=None, record_valid=False, modified_externally=False)
        else:
            topics[plan.topic] = _topic_after(plan, topics.get(plan.topic) or TopicState(plan.topic, str(identity), ()))
            identity += plan.before is None
    return replace(state, topics=topics, dangling_records=records, next_identity=identity)


def _topic_after(plan: TopicPlan, before: TopicState) -> TopicState:
    # For a creation ``before`` is a topic without partitions.
    replicas, config = replicas_after(before, plan.changes), config_after(before.config, plan.changes)
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            replicas, config = change.replicas, dict(change.config)
    return replace(
        before,
        replicas=replicas,
        partition_ids=range(len(replicas)) if before.has_contiguous_partitions else before.partition_ids,
        config=config,
        record=plan.record_after,
        record_valid=True,
        modified_externally=False,
    )
