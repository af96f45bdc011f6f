"""The outcome and the final record of each topic of a chunk, from what is there after its requests.

The topic as it is read afterwards decides, not the answers: a change without an answer may have been made, and a
confirmed one may have been made to another topic of this name. What was made in part is recorded in part, by value.
A creation that was confirmed with the id of the topic is neither, and does not come here.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind
from topiarist.adapters.kafka_admin.write.answers import Certainty, Right, not_made_outcome, unknown_outcome
from topiarist.adapters.kafka_admin.write.chunk_requests import Kind, TopicWrite
from topiarist.adapters.kafka_admin.write.chunks import is_deletion
from topiarist.adapters.kafka_admin.write.requests import config_items_of, creation_of, growth_of
from topiarist.errors import Reason
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import ConfigItem, CreateTopic, TopicPlan
from topiarist.model.state import OwnershipRecord, ReadError, TopicState


class FinalRecord(Enum):
    """The record that replaces the intent of a topic."""

    PLANNED = "the record after the plan"
    PARTIAL = "the parts of the plan that the topic shows"
    BEFORE = "the record before the plan"
    INTENT = "the intent stays, for the next run"


class TopicResult(NamedTuple):
    """The result of one topic. ``outcome`` is None if the topic joins a later chunk."""

    outcome: Outcome | None
    record: FinalRecord


def is_reached(plan: TopicPlan, topic_id: str | None, topic: TopicState | None) -> bool:
    """Return whether ``topic`` is as the plan wants it; ``topic_id`` is the id before the plan, None for a creation."""
    if is_deletion(plan):
        return topic is None
    if topic is None:
        return False
    if creation := creation_of(plan):
        return is_created(creation, topic)
    growth = growth_of(plan)
    return (
        topic.topic_id == topic_id
        and _are_configs_applied(plan, topic)
        and (growth is None or topic.replicas[growth.before : growth.total] == growth.replicas)
    )


def is_created(creation: CreateTopic, topic: TopicState) -> bool:
    """Return whether a topic has the replica lists and the configs of its creation, by value."""
    return topic.replicas == creation.replicas and all(
        has_equivalent_value(topic.config, key, text) for key, text in creation.config.items()
    )


def find_result(
    write: TopicWrite, topic: TopicState | ReadError | None, now: float, *, unknown_brokers: bool = False
) -> TopicResult | None:
    """Return the result of a topic that was read after its requests; None if it must be read again.

    ``now`` is a time of the monotonic clock.
    """
    plan, name = write.plan, write.plan.topic
    if isinstance(topic, ReadError):
        return _unreadable_result(write, topic)
    if is_reached(plan, write.topic_id, topic):
        return TopicResult(Outcome(name, Result.DONE, topic_id=_created_id(plan, topic)), FinalRecord.PLANNED)
    is_late = write.late_until is not None and now < write.late_until
    if write.problem is None and now < write.visible_by:
        return None  # the look may be older than the answers
    if creation_of(plan) and topic is not None:  # a creation that is late cannot be carried out any more
        message = "another topic of this name exists now, with other replica lists or configs"
        return TopicResult(Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, message), FinalRecord.BEFORE)
    is_growth_late = is_late and _is_about_growth(write)
    if write.is_touched and not is_growth_late and _lacks_growth_alone(plan, write.topic_id, topic):
        return TopicResult(_growth_missing_outcome(write, unknown_brokers=unknown_brokers), FinalRecord.PARTIAL)
    if is_late:
        return None
    if write.is_throttled and not write.is_touched:
        return TopicResult(None, FinalRecord.BEFORE)
    outcome = _not_reached_outcome(write, topic, unknown_brokers=unknown_brokers)
    if outcome.result is Result.UNKNOWN:
        return TopicResult(outcome, FinalRecord.INTENT)
    is_changed = write.is_touched and topic is not None and topic.topic_id == write.topic_id
    return TopicResult(outcome, FinalRecord.PARTIAL if is_changed else FinalRecord.BEFORE)


def _not_reached_outcome(write: TopicWrite, topic: TopicState | None, *, unknown_brokers: bool) -> Outcome:
    name = write.plan.topic
    if topic is not None and topic.topic_id != write.topic_id:
        message = "was deleted and recreated: it is another topic now"
        return Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, message)
    if write.problem is None:
        message = "the brokers confirmed the change, and it is not there: another client changed the topic at once"
        return Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, message)
    element, kind = write.problem
    if write.late_until is not None:
        # All brokers and controllers have given up the request by now, and a read after that does not show the change.
        message = f"it was sent and not carried out: {element.message or 'no answer'}"
        return Outcome(name, Result.SKIPPED, Reason.NOT_SENT, message)
    return not_made_outcome(name, element, kind.value, unknown_brokers=unknown_brokers)


def _unreadable_result(write: TopicWrite, error: ReadError) -> TopicResult:
    name = write.plan.topic
    if write.problem and write.problem[0].certainty is Certainty.NOT_MADE and not write.is_touched:
        return TopicResult(not_made_outcome(name, write.problem[0], write.problem[1].value), FinalRecord.BEFORE)
    if not write.is_touched:
        return TopicResult(
            Outcome(name, Result.CONFLICT, Reason.TOPIC_UNREADABLE, f"{error.path}: {error.message}"),
            FinalRecord.BEFORE,
        )
    return TopicResult(unknown_outcome(name, f"it cannot be read: {error.message}"), FinalRecord.INTENT)


def _lacks_growth_alone(plan: TopicPlan, topic_id: str | None, topic: TopicState | None) -> bool:
    """Return whether all configs of a plan with growth are applied; the caller knows that the growth is not."""
    has_both = growth_of(plan) is not None and bool(config_items_of(plan))
    return has_both and topic is not None and topic.topic_id == topic_id and _are_configs_applied(plan, topic)


def _is_about_growth(write: TopicWrite) -> bool:
    return write.problem is not None and write.problem[1] is Kind.GROW


def _growth_missing_outcome(write: TopicWrite, *, unknown_brokers: bool) -> Outcome:
    """Return the outcome of a topic with all configs of its plan and without its growth."""
    name, message = write.plan.topic, "its configs were changed, and its partitions were not added"
    if write.is_throttled:
        return Outcome(name, Result.PENDING, Reason.THROTTLED, f"{message}, because of a quota: run again for that")
    if write.problem is None or not _is_about_growth(write) or write.late_until is not None:
        return Outcome(name, Result.PENDING, Reason.NOT_SENT, f"{message}: run again for that")
    outcome = not_made_outcome(name, write.problem[0], Right.GROW, unknown_brokers=unknown_brokers)
    return outcome._replace(message=f"{message}: {outcome.message}")


def _created_id(plan: TopicPlan, topic: TopicState | None) -> str | None:
    return topic.topic_id if topic and creation_of(plan) else None


def _are_configs_applied(plan: TopicPlan, topic: TopicState) -> bool:
    return all(_is_item_applied(item, topic) for item in config_items_of(plan))


def _is_item_applied(item: ConfigItem, topic: TopicState) -> bool:
    if item.after is None:
        return item.key not in topic.config
    return has_equivalent_value(topic.config, item.key, item.after)


def build_intent(plan: TopicPlan) -> Intent:
    """Return the intent of a plan that needs a request."""
    if is_deletion(plan):
        return Intent(IntentKind.DELETE, plan.record_after)
    if creation := creation_of(plan):
        return Intent(IntentKind.CREATE, plan.record_after, creation.replicas, config=creation.config)
    growth = growth_of(plan)
    return Intent(
        IntentKind.CHANGE,
        plan.record_after,
        growth.replicas if growth else (),
        growth.before if growth else 0,
        {item.key: item.after for item in config_items_of(plan)},
    )


def build_partial_record(plan: TopicPlan, topic: TopicState) -> OwnershipRecord | None:
    """Return the ownership record of a topic that shows only a part of its plan, as another run would find it."""
    if plan.record_after is None or plan.record_after.deleted:
        return plan.record_before
    usable = plan.record_before if plan.before and plan.before.record_valid else None
    return codec.build_partial_record(usable, build_intent(plan), topic)
