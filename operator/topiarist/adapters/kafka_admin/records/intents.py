"""Resolve the intents of a run that ended: what of a chunk was made is decided by the topics as they are now.

Pure. The intents of every owner are resolved, whatever the manifests of this run say: to a record with the id of the
topic, to the record before, or to none. Only the owner completes what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records.values import Intent, IntentKind, TopicRecord
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.model.state import AppliedSpec, OwnershipRecord, ReadError, TopicState

PresentTopics = Mapping[str, TopicState | ReadError | None]


def has_late_write(record: TopicRecord, topic: TopicState | ReadError | None) -> bool:
    """Return whether the request of an intent may be carried out later; a run waits for it once."""
    intent = record.intent
    if intent is None or isinstance(topic, ReadError):
        return False
    if intent.kind is IntentKind.GONE:
        return False
    if intent.kind is IntentKind.CREATE:
        return topic is None
    if topic is None or topic.topic_id != record.topic_id:
        return False
    return intent.kind is IntentKind.DELETE or not _is_changed(intent, topic)


def resolve(record: TopicRecord, topic: TopicState | ReadError | None, *, has_waited: bool) -> TopicRecord | None:
    """Return the record without its intent (None: no record); a topic that cannot be read keeps its intent.

    ``has_waited`` is true if no request of the other run can be carried out any more. Until then a creation that was
    given up stays as ``GONE``: a topic that appears later is recognized by it.

    What was made is recorded without the values that were applied, so that the next plan completes the record: this
    writes it, even if nothing else is to do.
    """
    intent = record.intent
    if intent is None or isinstance(topic, ReadError):
        return record
    before = forget_intent(record)
    if intent.kind in (IntentKind.CREATE, IntentKind.GONE):
        if topic is None:
            return before if has_waited else record._replace(intent=intent._replace(kind=IntentKind.GONE))
        return _made(intent.after, topic.topic_id) if _is_created(intent, topic) else before
    is_same = topic is not None and topic.topic_id == record.topic_id
    if intent.kind is IntentKind.DELETE:
        if is_same:
            return before
        return TopicRecord(intent.after) if intent.after else None
    if topic is None or not is_same:
        return before
    if _is_changed(intent, topic):
        return _made(intent.after, record.topic_id)
    partial = build_partial_record(record.record, intent, topic)
    return before if partial == record.record else _made(partial, record.topic_id)


def forget_intent(record: TopicRecord) -> TopicRecord | None:
    """Return the record as it was before its intent."""
    return TopicRecord(record.record, record.topic_id) if record.record else None


def build_partial_record(before: OwnershipRecord | None, intent: Intent, topic: TopicState) -> OwnershipRecord | None:
    """Return the ownership record of a topic that shows only a part of a change; ``before`` if it shows nothing of it.

    It lists the keys of the intent that have their value, and the keys of ``before`` that are still set.
    """
    after = intent.after
    made = {key for key, value in intent.config.items() if _is_set(topic, key, value)}
    is_grown = bool(intent.replicas) and _is_grown(intent, topic)
    if after is None or not (made or is_grown):
        return before
    usable = before if before and not before.deleted else None
    added = {key for key in after.config_keys if key in made or key not in intent.config}
    kept = {key for key in (usable.config_keys if usable else ()) if key in topic.config}
    values: dict[str, str] = {}
    for record, keys in ((usable, kept), (after, added)):
        config = record.applied.config if record and record.applied else ()
        values |= {key: value for key, value in config if key in keys}
    sizes = after if is_grown or not intent.replicas else usable
    applied = after.applied and AppliedSpec(
        sizes.applied.partitions if sizes and sizes.applied else None,
        tuple(sorted(values.items())),
        after.applied.remove_unmanaged,
    )
    return replace(after, config_keys=tuple(sorted(added | kept)), applied=applied)


def _made(record: OwnershipRecord | None, topic_id: str | None) -> TopicRecord | None:
    if record is None:
        return None
    applied = record.applied and AppliedSpec(None, (), record.applied.remove_unmanaged)
    return TopicRecord(replace(record, applied=applied), topic_id)


def _is_created(intent: Intent, topic: TopicState) -> bool:
    return topic.replicas == intent.replicas and _are_configs_set(intent, topic)


def _is_changed(intent: Intent, topic: TopicState) -> bool:
    return _is_grown(intent, topic) and _are_configs_set(intent, topic)


def _is_grown(intent: Intent, topic: TopicState) -> bool:
    first = intent.first_partition
    return topic.replicas[first : first + len(intent.replicas)] == intent.replicas


def _are_configs_set(intent: Intent, topic: TopicState) -> bool:
    return all(_is_set(topic, key, value) for key, value in intent.config.items())


def _is_set(topic: TopicState, key: str, value: str | None) -> bool:
    return key not in topic.config if value is None else has_equivalent_value(topic.config, key, value)
