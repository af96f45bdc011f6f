"""Validation of decoded plans: values that the schema accepts but that topiarist never plans.

``decode`` calls ``first_error``. The planner never makes such names, lists or combinations, but an edited plan file can
hold them. The preconditions of a plan, and whether Kafka accepts the config of a topic as a whole, are checked at the
cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from topiarist.kafka import explicit_assignment
from topiarist.kafka.names import INTERNAL_TOPICS, metric_name, topic_name_problem
from topiarist.kafka.types import Replicas
from topiarist.model.ownership_record import matches_recorded_value
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    retained_managed_keys,
)
from topiarist.model.state import AppliedSpec
from topiarist.planning.risk import assess_deletion
from topiarist.text import quote

_VALID_COMBINATIONS = (
    *((), (CreateTopic,), (AddPartitions,), (UpdateConfig,), (AddPartitions, UpdateConfig)),
    *((DeleteTopic,), (TakeOwnership,)),
)
"""The combinations of changes that one topic can have, in order."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def first_error(plans: Sequence[Plan]) -> str:
    """Return the first value that topiarist never plans, with its location; empty if there is none."""
    if not _is_ascending([plan.cluster for plan in plans]):
        return "clusters that stand twice or not in order of name"
    if len({plan.cluster_id for plan in plans}) < len(plans):
        return "two plans for one cluster"
    return next((f"cluster {quote(plan.cluster)}: {message}" for plan in plans for message in _plan_errors(plan)), "")


def _plan_errors(plan: Plan) -> Iterator[str]:
    if not _is_ascending([broker.id for broker in plan.brokers]):
        yield "brokers that stand twice or not in order of id"
    if not _is_ascending([topic.topic for topic in plan.topics]):
        yield "topics that stand twice or not in order of name"
    if len({metric_name(topic.topic) for topic in plan.topics}) < len(plan.topics):
        yield "two topics whose names Kafka cannot tell apart"
    for topic in plan.topics:
        yield from (f"topic {quote(topic.topic)}: {message}" for message in _topic_errors(topic, plan.owner))


def _topic_errors(topic: TopicPlan, owner: str) -> Iterator[str]:
    if message := topic_name_problem(topic.topic):
        yield message
    if topic.before and topic.before.record_valid and topic.record_before is None:
        yield "a record that counts and is not there"
    for change in (*topic.changes, *(change for refusal in topic.refusals for change in refusal.withheld)):
        yield from _change_errors(change)
    if topic.changes:
        yield from _combination_errors(topic)
        yield from _record_errors(topic, owner)


def _combination_errors(topic: TopicPlan) -> Iterator[str]:
    kinds = tuple(map(type, topic.changes))
    if kinds not in _VALID_COMBINATIONS:
        yield f"changes that do not go together: {', '.join(kind.__name__ for kind in kinds)}"
    if (CreateTopic in kinds) != (topic.before is None):
        yield "the creation of a topic that exists, or a change to one that does not"
    if topic.topic in INTERNAL_TOPICS and kinds != (TakeOwnership,):
        yield "a change to a topic that Kafka keeps for itself"


def _record_errors(topic: TopicPlan, owner: str) -> Iterator[str]:
    """Yield the errors of the record after the changes.

    The record belongs to the plan's owner and names keys that are then set. A deletion needs the owner's record before.
    """
    before, after = topic.before.valid_record if topic.before else None, topic.record_after
    deletes = any(isinstance(change, DeleteTopic) for change in topic.changes)
    keys_before = before.config_keys if before else ()
    if after is None or after.owner != owner or after.deleted != deletes:
        yield "a record afterwards that is not what its changes leave"
    elif not _is_ascending(after.config_keys) or not set(after.config_keys) <= _keys_after(topic).union(keys_before):
        yield "a record afterwards of keys that are not set then"
    elif after.applied and not _is_applied_consistent(after.applied, set(after.config_keys), topic):
        yield "a record afterwards of values that are not what its changes leave"
    if deletes and (before is None or before.owner != owner or before.deleted):
        yield "the deletion of a topic that is not ours"


def _is_applied_consistent(applied: AppliedSpec, keys: set[str], topic: TopicPlan) -> bool:
    """Return whether a record has applied values of its own keys only.

    Each value is the value after the changes, or was in the record before.
    """
    record = topic.before.valid_record if topic.before else None
    previously_applied = record.applied.config if record and record.applied else ()
    config: Mapping[str, str | None] = topic.before.config if topic.before else {}
    for change in topic.changes:
        if isinstance(change, CreateTopic):
            config = change.config
        elif isinstance(change, UpdateConfig):
            config = {**config, **{item.key: item.after for item in change.items}}
    texts = ((key, value, config.get(key)) for key, value in applied.config)
    return {key for key, _ in applied.config} <= keys and all(
        (key, value) in previously_applied or (text is not None and matches_recorded_value(key, value, text))
        for key, value, text in texts
    )


def _keys_after(topic: TopicPlan) -> set[str]:
    """Return the config keys that the plan knows to be set after its changes."""
    keys = {key for key in retained_managed_keys(topic) if topic.before and key in topic.before.config}
    for change in topic.changes:
        if isinstance(change, CreateTopic):
            keys |= change.config.keys()
        elif isinstance(change, UpdateConfig):
            keys |= {item.key for item in change.items if item.after is not None}
    return keys


def _change_errors(change: Change) -> Iterator[str]:
    match change:
        case CreateTopic(replicas, config, verdict):
            yield from _replica_list_errors(replicas)
            yield from (
                f"a config {message}" for item in config.items() if (message := _control_character_error(*item))
            )
            yield from _risk_errors(verdict, lowest=Risk.SAFE, highest=Risk.SAFE)
        case AddPartitions(first_replicas=model, replicas=replicas, assessment=verdict):
            yield from _replica_list_errors(replicas)
            if any(len(brokers) != len(model) for brokers in replicas):
                yield "new partitions that are not as wide as partition 0"
            yield from _risk_errors(verdict, lowest=Risk.DISRUPTIVE, highest=Risk.DATA_LOSS)
        case UpdateConfig():
            yield from _config_item_errors(change)
        case DeleteTopic(partitions, replica_count, verdict):
            if verdict != assess_deletion(partitions, replica_count):
                yield "a deletion whose risk is not what a deletion loses"
        case TakeOwnership(verdict):
            yield from _risk_errors(verdict, lowest=Risk.SAFE, highest=Risk.SAFE)


def _replica_list_errors(replicas: Sequence[Replicas]) -> Iterator[str]:
    if not replicas:
        yield "no partitions"
    for partition, message in explicit_assignment.find_errors(dict(enumerate(replicas))):
        yield f"replica list {partition}: {message}"


def _config_item_errors(change: UpdateConfig) -> Iterator[str]:
    if not _is_ascending([item.key for item in change.items]):
        yield "config keys that stand twice or not in order"
    for item in change.items:
        if item.before == item.after:
            yield f"config {quote(item.key)}: no change"
        if message := _control_character_error(item.key, item.after or ""):
            yield f"config {quote(item.key)}: {message}"
        yield from _risk_errors(item.assessment, lowest=Risk.SAFE, highest=Risk.DATA_LOSS)


def _control_character_error(key: str, text: str) -> str:
    """Return the error of a key or value with control characters; empty if there are none."""
    return "found a control character" if not key.isprintable() or _CONTROL_CHARACTERS.search(text) else ""


def _risk_errors(assessment: RiskAssessment, *, lowest: Risk, highest: Risk) -> Iterator[str]:
    if not lowest <= assessment.risk <= highest or (assessment.risk is Risk.SAFE and assessment != SAFE_ASSESSMENT):
        yield f"a risk of {assessment.risk.label} where that cannot be"


def _is_ascending(values: Sequence[Any]) -> bool:
    """Return whether values are in strictly ascending order."""
    return all(value < following for value, following in pairwise(values))
