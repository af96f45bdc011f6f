"""Find the outcome and the final record of each topic of a chunk, from what is there after its requests.

The topic as it is read afterwards decides, not the answers: a change without an answer may have been made, a
confirmed one may have been made to another topic of this name, or otherwise than it was asked for. What was made in
part is recorded in part, by value. A creation that was confirmed with the id of the topic is decided by its answer,
which has the counts and the configs that were made: only replica lists, of brokers that are not known to obey them,
have to be read. No outcome says more than was compared: that something was made, or not, or by another client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records import codec as intents
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.kafka_admin.write.chunks import TopicWrite, is_deletion
from topiarist.adapters.kafka_admin.write.requests import Kind
from topiarist.errors import Reason
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.kafka.types import Replicas, are_carried_out, are_unplaced
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import TopicPlan
from topiarist.model.state import AppliedSpec, OwnershipRecord, ReadError, TopicState
from topiarist.text import format_count


class FinalRecord(Enum):
    """The record that replaces the intent of a topic."""

    PLANNED = "the record after the plan"
    MADE = "the record after the plan, without the values that were applied"
    PARTIAL = "the parts of the plan that the topic shows"
    BEFORE = "the record before the plan"
    INTENT = "the intent stays, for the next run"


class TopicResult(NamedTuple):
    """The result of one topic. ``outcome`` is None if the topic joins a later chunk."""

    outcome: Outcome | None
    record: FinalRecord


def find_created_result(write: TopicWrite, *, are_lists_obeyed: bool) -> TopicResult | None:
    """Return the result of a topic by the answer to its creation; None if the topic must be read.

    ``are_lists_obeyed`` is true if the brokers are known to carry out replica lists.
    """
    created, creation = write.created, requests.creation_of(write.plan)
    if created is None or creation is None or created.partitions is None:
        return None
    config = {key: text for key, text in created.config.items() if text is not None}
    if not config.keys() >= creation.config.keys():
        return None
    differences = []
    if created.partitions != len(creation.replicas):
        differences.append(_differ(format_count(len(creation.replicas), "partition"), created.partitions))
    if created.replication_factor != len(creation.replicas[0]):
        differences.append(_differ(format_count(len(creation.replicas[0]), "replica"), created.replication_factor))
    differences += _list_config_differences(creation.config, config)
    if differences:
        is_counted = created.partitions == len(creation.replicas)
        is_recorded = is_counted and not _list_config_differences(creation.config, config)
        record = FinalRecord.PLANNED if is_recorded else FinalRecord.MADE
        return TopicResult(_confirmed_outcome(write.plan, differences, created.topic_id), record)
    if not are_lists_obeyed and not are_unplaced(creation.replicas):
        return None
    return TopicResult(Outcome(write.plan.topic, Result.DONE, topic_id=created.topic_id), FinalRecord.PLANNED)


def find_result(
    write: TopicWrite, topic: TopicState | ReadError | None, now: float, *, unknown_brokers: bool = False
) -> TopicResult | None:
    """Return the result of a topic that was read after its requests; None if it must be read again.

    ``now`` is a time of the monotonic clock.
    """
    plan, name = write.plan, write.plan.topic
    if isinstance(topic, ReadError):
        return _unreadable_result(write, topic)
    differences = find_differences(write, topic)
    if not differences:
        return TopicResult(Outcome(name, Result.DONE, topic_id=_created_id(plan, topic)), FinalRecord.PLANNED)
    is_same = topic is not None and write.known_id in (topic.topic_id, None)
    if write.problem is None:
        if now < write.visible_by and not _shows_last_request(plan, topic):
            return None  # the look may be older than the answers
        outcome = _confirmed_outcome(plan, differences, _created_id(plan, topic) if is_same else None)
        return TopicResult(outcome, _record_of_differing(plan, topic) if topic and is_same else FinalRecord.BEFORE)
    element, kind = write.problem
    is_refused = element.certainty is requests.Certainty.NOT_MADE
    if requests.creation_of(plan) and topic is not None:  # a creation that is late cannot be carried out any more
        if not is_refused:
            return TopicResult(_unexplained_outcome(write, differences), FinalRecord.BEFORE)
        message = f"another topic of this name exists now: {'; '.join(differences)}"
        return TopicResult(Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, message), FinalRecord.BEFORE)
    if is_same and _has_grown(plan, topic) and not is_refused:
        return TopicResult(_unexplained_outcome(write, differences), FinalRecord.PARTIAL)
    is_late = write.late_until is not None and now < write.late_until
    if write.is_touched and is_same and not (is_late and kind is Kind.GROW) and _lacks_growth_alone(plan, topic):
        return TopicResult(_growth_missing_outcome(write, unknown_brokers=unknown_brokers), FinalRecord.PARTIAL)
    if is_late:
        return None
    if write.is_throttled and not write.is_touched:
        return TopicResult(None, FinalRecord.BEFORE)
    outcome = _not_reached_outcome(
        write, differences, is_same=is_same or topic is None, unknown_brokers=unknown_brokers
    )
    if outcome.result is Result.UNKNOWN:
        return TopicResult(outcome, FinalRecord.INTENT)
    return TopicResult(outcome, FinalRecord.PARTIAL if write.is_touched and is_same else FinalRecord.BEFORE)


def find_differences(write: TopicWrite, topic: TopicState | None) -> list[str]:
    """Return what a topic has otherwise than its plan wants it, each with both values; empty if nothing."""
    plan, creation, growth = write.plan, requests.creation_of(write.plan), requests.growth_of(write.plan)
    if is_deletion(plan):
        if topic is None:
            return []
        return [
            "it still exists" if topic.topic_id == write.topic_id else "it was recreated, so it is a different topic"
        ]
    if topic is None:
        return ["it does not exist"]
    if write.known_id not in (topic.topic_id, None):
        return ["it was deleted and recreated, so it is a different topic"]
    texts: Mapping[str, str | None] = {item.key: item.after for item in requests.config_items_of(plan)}
    lists: list[str] = []
    if creation:
        texts, lists = creation.config, _list_replica_differences(creation.replicas, topic.replicas, 0)
    elif growth:
        found = topic.replicas[growth.before : growth.total]
        lists = _list_replica_differences(growth.replicas, found, growth.before)
    return [*lists, *_list_config_differences(texts, topic.config)]


def _list_replica_differences(planned: Sequence[Replicas], found: Sequence[Replicas], first: int) -> list[str]:
    """Return how new partitions differ from their plan; ``first`` is the id of the first one."""
    if are_carried_out(planned, found):
        return []
    if len(planned) != len(found):
        return [_differ(format_count(first + len(planned), "partition"), first + len(found))]
    pairs = enumerate(zip(planned, found, strict=True), first)
    number, (wanted, now) = next(each for each in pairs if not are_carried_out(each[1][:1], each[1][1:]))
    if len(wanted) != len(now):
        return [_differ(format_count(len(wanted), "replica"), len(now))]
    return [_differ(f"the replicas {list(wanted)} of partition {number}", list(now))]


def _list_config_differences(wanted: Mapping[str, str | None], found: Mapping[str, str]) -> list[str]:
    """Return the keys with another value; None is a key that is not to be set."""
    return [
        f"{key}: {_differ(*('not set' if each is None else each for each in (text, found.get(key))))}"
        for key, text in wanted.items()
        if (key in found if text is None else not has_equivalent_value(found, key, text))
    ]


def _differ(wanted: object, found: object) -> str:
    return f"wanted {wanted}, found {found}"


def _shows_last_request(plan: TopicPlan, topic: TopicState | None) -> bool:
    """Return whether a look shows the last request of a topic, and so all of them: another look adds nothing."""
    if topic is None or is_deletion(plan):
        return False
    return requests.creation_of(plan) is not None or (_has_grown(plan, topic) and _are_applied(plan, topic))


def _has_grown(plan: TopicPlan, topic: TopicState | None) -> bool:
    """Return whether an existing topic has the partitions that its plan adds, or others in their place."""
    growth = requests.growth_of(plan)
    return growth is not None and topic is not None and len(topic.replicas) >= growth.total


def _record_of_differing(plan: TopicPlan, topic: TopicState) -> FinalRecord:
    """Return the record of a topic that differs from its plan: the planned one if only its replicas do."""
    if is_deletion(plan):
        return FinalRecord.BEFORE
    if creation := requests.creation_of(plan):
        is_recorded = len(topic.replicas) == len(creation.replicas)
        is_recorded = is_recorded and not _list_config_differences(creation.config, topic.config)
        return FinalRecord.PLANNED if is_recorded else FinalRecord.MADE
    return FinalRecord.PLANNED if _has_grown(plan, topic) and _are_applied(plan, topic) else FinalRecord.PARTIAL


def _confirmed_outcome(plan: TopicPlan, differences: Sequence[str], topic_id: str | None) -> Outcome:
    """Return the outcome of a topic that was written, as all answers say, and that is not as its plan wants it."""
    message = f"the brokers confirmed it, but it is not as planned: {'; '.join(differences)}"
    return Outcome(plan.topic, Result.DIFFERS, Reason.MADE_OTHERWISE, message, topic_id)


def _unexplained_outcome(write: TopicWrite, differences: Sequence[str]) -> Outcome:
    """Return the outcome of a topic that is not as its plan wants it, after a request without an answer."""
    answer = (write.problem[0].message if write.problem else "") or "no answer"
    message = f"it is not as planned: {'; '.join(differences)}; which client changed it is unknown ({answer})"
    return Outcome(write.plan.topic, Result.DIFFERS, Reason.STATE_CONFLICT, message)


def _not_reached_outcome(
    write: TopicWrite, differences: Sequence[str], *, is_same: bool, unknown_brokers: bool
) -> Outcome:
    """Return the outcome of a topic that a request without a good answer has not changed.

    ``is_same`` is false if another topic has the name now.
    """
    name = write.plan.topic
    assert write.problem is not None
    element, kind = write.problem
    if not is_same:
        message = "was deleted and recreated, so it is a different topic"
        outcome = Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, message)
    elif write.late_until is not None:
        # All brokers and controllers have given up the request by now, and a read after that does not show the change.
        message = f"it was sent and not carried out: {'; '.join(differences)} ({element.message or 'no answer'})"
        outcome = Outcome(name, Result.SKIPPED, Reason.NOT_SENT, message)
    else:
        outcome = requests.not_made_outcome(name, element, kind, unknown_brokers=unknown_brokers)
    return _as_written(outcome) if write.is_touched else outcome


def _as_written(outcome: Outcome) -> Outcome:
    """Return the outcome of a topic that a request may have changed: after a conflict nothing is written."""
    return outcome._replace(result=Result.DIFFERS) if outcome.result is Result.CONFLICT else outcome


def _unreadable_result(write: TopicWrite, error: ReadError) -> TopicResult:
    name = write.plan.topic
    if write.problem and write.problem[0].certainty is requests.Certainty.NOT_MADE and not write.is_touched:
        return TopicResult(requests.not_made_outcome(name, write.problem[0], write.problem[1]), FinalRecord.BEFORE)
    if not write.is_touched:
        return TopicResult(
            Outcome(name, Result.CONFLICT, Reason.TOPIC_UNREADABLE, f"{error.path}: {error.message}"),
            FinalRecord.BEFORE,
        )
    outcome = requests.unknown_outcome(name, f"it cannot be read: {error.message}")
    return TopicResult(outcome, FinalRecord.PLANNED if write.created else FinalRecord.INTENT)


def _lacks_growth_alone(plan: TopicPlan, topic: TopicState | None) -> bool:
    """Return whether all configs of a plan with growth are applied; the caller knows that the growth is not."""
    has_both = requests.growth_of(plan) is not None and bool(requests.config_items_of(plan))
    return has_both and topic is not None and _are_applied(plan, topic)


def _growth_missing_outcome(write: TopicWrite, *, unknown_brokers: bool) -> Outcome:
    """Return the outcome of a topic with all configs of its plan and without its growth."""
    name, message = write.plan.topic, "its configs were changed, and its partitions were not added"
    if write.is_throttled:
        return Outcome(name, Result.PENDING, Reason.THROTTLED, f"{message}, because of a quota: run again for that")
    assert write.problem is not None
    if write.problem[1] is not Kind.GROW or write.late_until is not None:
        return Outcome(name, Result.PENDING, Reason.NOT_SENT, f"{message}: run again for that")
    outcome = requests.not_made_outcome(name, write.problem[0], Kind.GROW, unknown_brokers=unknown_brokers)
    return _as_written(outcome._replace(message=f"{message}: {outcome.message}"))


def _created_id(plan: TopicPlan, topic: TopicState | None) -> str | None:
    return topic.topic_id if topic and requests.creation_of(plan) else None


def _are_applied(plan: TopicPlan, topic: TopicState) -> bool:
    """Return whether a topic has all config changes of its plan."""
    return not _list_config_differences({item.key: item.after for item in requests.config_items_of(plan)}, topic.config)


def build_intent(plan: TopicPlan) -> Intent:
    """Return the intent of a plan that needs a request."""
    if is_deletion(plan):
        return Intent(IntentKind.DELETE, plan.record_after)
    if creation := requests.creation_of(plan):
        return Intent(IntentKind.CREATE, plan.record_after, creation.replicas, config=creation.config)
    growth = requests.growth_of(plan)
    return Intent(
        IntentKind.CHANGE,
        plan.record_after,
        growth.replicas if growth else (),
        growth.before if growth else 0,
        {item.key: item.after for item in requests.config_items_of(plan)},
    )


def forget_applied(record: OwnershipRecord | None) -> OwnershipRecord | None:
    """Return a record without the values that were applied, so that the next plan completes it."""
    if record is None or record.applied is None:
        return record
    return replace(record, applied=AppliedSpec(remove_unmanaged=record.applied.remove_unmanaged))


def build_partial_record(plan: TopicPlan, topic: TopicState) -> OwnershipRecord | None:
    """Return the ownership record of a topic that shows only a part of its plan, as another run would find it."""
    if plan.record_after is None or plan.record_after.deleted:
        return plan.record_before
    usable = plan.record_before if plan.before and plan.before.record_valid else None
    return intents.build_partial_record(usable, build_intent(plan), topic)
