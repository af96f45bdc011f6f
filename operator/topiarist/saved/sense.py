"""What no plan of topiarist has, although its document is of the schema: names, lists and combinations that do not fit.

The planner would never make such a plan; a person or a program with another aim could. Whether a plan is still true is
found out at the cluster, and so is whether Kafka would take a topic's config as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from topiarist.core import explicit
from topiarist.core.change import (
    SAFE,
    AddPartitions,
    Adopt,
    Change,
    CreateTopic,
    DeleteTopic,
    Plan,
    Risk,
    TopicPlan,
    UpdateConfig,
    Verdict,
)
from topiarist.core.evolve import vouched
from topiarist.core.names import INTERNAL_TOPICS, collision_key, name_problem
from topiarist.core.quoting import quoted
from topiarist.core.risk import of_deletion
from topiarist.core.state import Applied, Replicas
from topiarist.core.witness import means

_TOGETHER = (
    *((), (CreateTopic,), (AddPartitions,), (UpdateConfig,), (AddPartitions, UpdateConfig)),
    *((DeleteTopic,), (Adopt,)),
)
"""The changes that one topic can have, in their order."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def wrong(plans: Sequence[Plan]) -> str:
    """The first thing that no plan has, and where; empty if all may be."""
    if not _ascending([plan.cluster for plan in plans]):
        return "clusters that stand twice or not in order of name"
    if len({plan.cluster_id for plan in plans}) < len(plans):
        return "two plans for one cluster"
    return next((f"cluster {quoted(plan.cluster)}: {message}" for plan in plans for message in _of_plan(plan)), "")


def _of_plan(plan: Plan) -> Iterator[str]:
    if not _ascending([broker.id for broker in plan.brokers]):
        yield "brokers that stand twice or not in order of id"
    if not _ascending([topic.topic for topic in plan.topics]):
        yield "topics that stand twice or not in order of name"
    if len({collision_key(topic.topic) for topic in plan.topics}) < len(plan.topics):
        yield "two topics whose names Kafka cannot tell apart"
    for topic in plan.topics:
        yield from (f"topic {quoted(topic.topic)}: {message}" for message in _of_topic(topic, plan.owner))


def _of_topic(topic: TopicPlan, owner: str) -> Iterator[str]:
    if message := name_problem(topic.topic):
        yield message
    if topic.before and topic.before.record_valid and topic.record_before is None:
        yield "a record that counts and is not there"
    for change in (*topic.changes, *(change for refusal in topic.refusals for change in refusal.held)):
        yield from _of_change(change)
    if topic.changes:
        yield from _together(topic)
        yield from _of_record(topic, owner)


def _together(topic: TopicPlan) -> Iterator[str]:
    kinds = tuple(map(type, topic.changes))
    if kinds not in _TOGETHER:
        yield f"changes that do not go together: {', '.join(kind.__name__ for kind in kinds)}"
    if (CreateTopic in kinds) != (topic.before is None):
        yield "the creation of a topic that exists, or a change to one that does not"
    if topic.topic in INTERNAL_TOPICS and kinds != (Adopt,):
        yield "a change to a topic that Kafka keeps for itself"


def _of_record(topic: TopicPlan, owner: str) -> Iterator[str]:
    """The record afterwards is the plan's owner's, and names what is set then; a deletion needs one from before."""
    before, after = topic.before.valid_record if topic.before else None, topic.record_after
    deletes = any(isinstance(change, DeleteTopic) for change in topic.changes)
    kept = before.config if before else ()
    if after is None or after.owner != owner or after.absent != deletes:
        yield "a record afterwards that is not what its changes leave"
    elif not _ascending(after.config) or not set(after.config) <= _set_then(topic).union(kept):
        yield "a record afterwards of keys that are not set then"
    elif after.applied and not _bears_witness(after.applied, set(after.config), topic):
        yield "a record afterwards of values that are not what its changes leave"
    if deletes and (before is None or before.owner != owner or before.absent):
        yield "the deletion of a topic that is not ours"


def _bears_witness(applied: Applied, keys: set[str], topic: TopicPlan) -> bool:
    """Whether a record remembers values of its own keys only: as they will be, or as it remembered them before."""
    record = topic.before.valid_record if topic.before else None
    was = record.applied.config if record and record.applied else ()
    config: Mapping[str, str | None] = topic.before.config if topic.before else {}
    for change in topic.changes:
        if isinstance(change, CreateTopic):
            config = change.config
        elif isinstance(change, UpdateConfig):
            config = {**config, **{item.key: item.after for item in change.items}}
    texts = ((key, value, config.get(key)) for key, value in applied.config)
    return {key for key, _ in applied.config} <= keys and all(
        (key, value) in was or (text is not None and means(key, value, text)) for key, value, text in texts
    )


def _set_then(topic: TopicPlan) -> set[str]:
    """The keys of which the plan knows that they are set once it is done."""
    keys = {key for key in vouched(topic) if topic.before and key in topic.before.config}
    for change in topic.changes:
        if isinstance(change, CreateTopic):
            keys |= change.config.keys()
        elif isinstance(change, UpdateConfig):
            keys |= {item.key for item in change.items if item.after is not None}
    return keys


def _of_change(change: Change) -> Iterator[str]:
    match change:
        case CreateTopic(replicas, config, verdict):
            yield from _of_lists(replicas)
            yield from (f"a config {message}" for item in config.items() if (message := _unwritten(*item)))
            yield from _of_verdict(verdict, least=Risk.SAFE, most=Risk.SAFE)
        case AddPartitions(model=model, replicas=replicas, verdict=verdict):
            yield from _of_lists(replicas)
            if any(len(brokers) != len(model) for brokers in replicas):
                yield "new partitions that are not as wide as partition 0"
            yield from _of_verdict(verdict, least=Risk.DISRUPTIVE, most=Risk.DATA_LOSS)
        case UpdateConfig():
            yield from _of_items(change)
        case DeleteTopic(partitions, replica_count, verdict):
            if verdict != of_deletion(partitions, replica_count):
                yield "a deletion whose risk is not what a deletion loses"
        case Adopt(verdict):
            yield from _of_verdict(verdict, least=Risk.SAFE, most=Risk.SAFE)


def _of_lists(replicas: Sequence[Replicas]) -> Iterator[str]:
    if not replicas:
        yield "no partitions"
    for partition, message in explicit.problems(dict(enumerate(replicas))):
        yield f"replica list {partition}: {message}"


def _of_items(change: UpdateConfig) -> Iterator[str]:
    if not _ascending([item.key for item in change.items]):
        yield "config keys that stand twice or not in order"
    for item in change.items:
        if item.before == item.after:
            yield f"config {quoted(item.key)}: no change"
        if message := _unwritten(item.key, item.after or ""):
            yield f"config {quoted(item.key)}: {message}"
        yield from _of_verdict(item.verdict, least=Risk.SAFE, most=Risk.DATA_LOSS)


def _unwritten(key: str, text: str) -> str:
    """What is wrong with a key or a value that no manifest can hold; empty if nothing."""
    return "found a control character" if not key.isprintable() or _CONTROL.search(text) else ""


def _of_verdict(verdict: Verdict, *, least: Risk, most: Risk) -> Iterator[str]:
    if not least <= verdict.risk <= most or (verdict.risk is Risk.SAFE and verdict != SAFE):
        yield f"a risk of {verdict.risk.word} where that cannot be"


def _ascending(values: Sequence[Any]) -> bool:
    """Whether values stand in order, each once."""
    return all(one < other for one, other in pairwise(values))
