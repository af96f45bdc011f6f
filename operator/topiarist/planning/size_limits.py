"""Limits the sizes that a plan increases: what a cluster takes as a whole, for one topic, or for one change.

A cluster that has to take more than it can may answer nothing useful any more, or nothing at all. Therefore sizes are
computed before anything is written, with the limits that the adapter gives. ``planner`` calls ``enforce_size_limits``,
and a writer calls it again before writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from topiarist.kafka.types import Replicas
from topiarist.model.plan import AddPartitions, Change, CreateTopic, Issue, TopicPlan, UpdateConfig, withhold
from topiarist.model.state import SizeLimit, SizeScope, SizeWeights

_CACHE_SIZE = 1 << 14
"""Number of cached sizes; the topics of a cluster share few replica lists."""


def measure_partitions(weights: SizeWeights, lists: Sequence[Replicas], first_partition: int = 0) -> int:
    """Return the size of replica lists; ``first_partition`` is the id of the first partition."""
    size = weights.partition * len(lists)
    if weights.digit:
        size += weights.digit * (_count_id_digits(first_partition, len(lists)) + sum(map(_count_digits, lists)))
    if weights.separator:
        size += weights.separator * sum(len(replicas) - 1 for replicas in lists if replicas)
    return size


@lru_cache(maxsize=_CACHE_SIZE)
def _count_id_digits(first_partition: int, count: int) -> int:
    return sum(len(str(partition)) for partition in range(first_partition, first_partition + count))


@lru_cache(maxsize=_CACHE_SIZE)
def _count_digits(replicas: Replicas) -> int:
    return sum(len(str(broker)) for broker in replicas)


def measure_change(weights: SizeWeights, topic: str, change: Change) -> int:
    """Return what ``change`` adds to a size."""
    match change:
        case CreateTopic(replicas, config):
            fixed = weights.new_topic + weights.name_character * len(topic) + weights.config * len(config)
            return fixed + measure_partitions(weights, replicas)
        case AddPartitions(before=before, replicas=replicas):
            return measure_partitions(weights, replicas, before)
        case UpdateConfig(items):
            return weights.config_update + weights.config * len(items)
    return 0


def enforce_size_limits(topics: Iterable[TopicPlan], limits: Sequence[SizeLimit]) -> tuple[list[TopicPlan], list[str]]:
    """Return the plans without changes that would not fit, and warnings.

    A change that does not fit is refused, with numbers; it leaves its space to later changes. A warning names a size
    that is above the warned share of its limit after the plan.
    """
    kept = []
    for topic in topics:
        plan, limits = _fit_topic(topic, limits) if topic.is_actionable else (topic, limits)
        kept.append(plan)
    return kept, [
        f"{limit.what}: {_fill(limit.warning, limit, limit.used)}"
        for limit in limits
        if limit.warned_share is not None and limit.used > limit.maximum * limit.warned_share
    ]


def _fit_topic(topic: TopicPlan, limits: Sequence[SizeLimit]) -> tuple[TopicPlan, Sequence[SizeLimit]]:
    """Return the topic with the changes that fit, and the limits with what these use."""
    for change in topic.changes:
        after = []
        for limit in limits:
            added = measure_change(limit.weights, topic.topic, change)
            used = _size_before(topic, limit) + added
            if added and used > limit.maximum * limit.refused_share:
                topic = withhold(topic, (change,), _build_issue(limit, used))
                break
            after.append(replace(limit, used=used) if limit.scope is SizeScope.CLUSTER and added else limit)
        else:
            limits = after
    return topic, limits


def _build_issue(limit: SizeLimit, used: int) -> Issue:
    own = f"{limit.what} of the cluster has no room for it" if limit.scope is SizeScope.CLUSTER else ""
    return Issue(limit.reason, _fill(limit.refusal, limit, used), hint=limit.hint, own_message=own)


def _size_before(topic: TopicPlan, limit: SizeLimit) -> int:
    if limit.scope is SizeScope.CLUSTER:
        return limit.used
    if limit.scope is SizeScope.TOPIC and topic.before:
        return measure_partitions(limit.weights, topic.before.replicas)
    return 0


def _fill(text: str, limit: SizeLimit, used: int) -> str:
    return text.replace("{used}", f"{used:,}").replace("{maximum}", f"{limit.maximum:,}")
