"""Preconditions of a planned topic, compared with the cluster directly before the write.

The adapters call ``check_preconditions`` for one topic directly before its write. ``revalidate`` does the same for all
topics of a saved plan, which may be old. Values are compared, not versions of the stored data. Versions are too weak,
because those of a recreated topic start again at 0, and Kafka's own protocol has none. Versions are also too strict: a
controller restart, a throttle or an unrelated config key would invalidate a plan that is still correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.kafka import types
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.model.plan import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    MoveReplicas,
    Nudge,
    Plan,
    PlanAssumptions,
    TopicPlan,
    UpdateConfig,
    config_after,
    releases_ownership,
    retained_managed_keys,
)
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import AppliedSpec, ClusterState, OwnershipRecord, TopicState
from topiarist.planning.builder import NAMED_BY_REQUEST, ReplicaPlacer
from topiarist.planning.planner import apply_write_block
from topiarist.planning.risk import describe_increase, reassess
from topiarist.text import format_count

_NAMED_BY_REQUEST_NOW = f"{NAMED_BY_REQUEST} now: its entry would outlive the topic, or move a new one"
_REASSIGNED_NOW = "its replicas are being reassigned now"


def is_nudge(plan: TopicPlan) -> bool:
    """Return whether the plan only nudges the controller and changes nothing else."""
    return any(isinstance(change, Nudge) for change in plan.changes)


class Validity(str, Enum):
    """The relation of a topic's current state to its plan."""

    APPLICABLE = "before"
    ALREADY_APPLIED = "after"
    CONFLICT = "conflict"


class PlanValidity(Struct, frozen=True):
    """The validity of a topic plan, with a message for a conflict.

    ``message`` has the expected and the actual value; it is empty without a conflict.
    """

    validity: Validity
    message: str = ""


APPLICABLE, ALREADY_APPLIED = PlanValidity(Validity.APPLICABLE), PlanValidity(Validity.ALREADY_APPLIED)


class CurrentTopic(Struct, frozen=True):
    """A topic at the moment of writing.

    It has everything else that the plan depends on. ``broker_defaults`` and ``min_version`` are those of
    ``ClusterState`` and are used to validate configs. ``topics_by_metric_name`` has the topics of the cluster as
    ``index_by_metric_name`` returns them.
    """

    topic: TopicState | None
    record: OwnershipRecord | None
    marked_for_deletion: bool
    reassigning: bool
    brokers: Mapping[int, types.Broker]
    broker_defaults: Mapping[str, str]
    min_version: types.KafkaVersion
    topics_by_metric_name: Mapping[str, str]


def check_preconditions(plan: TopicPlan, assumptions: PlanAssumptions, current: CurrentTopic) -> PlanValidity:
    """Return whether ``plan`` can be applied, is already applied, or conflicts.

    ``assumptions`` are those of the whole plan.
    """
    if _is_already_applied(plan, current):
        return ALREADY_APPLIED
    if releases_ownership(plan):
        message = _record_conflict(plan.record_before, current.record)
    elif current.topic and plan.elections() and _is_already_applied(_without_elections(plan), current):
        # An interrupted run, or one without other changes: only partition states show the leaders, not read here.
        message = _election_conflict(plan, current.topic)
    else:
        message = (
            _topic_conflict(plan, current)
            or _broker_conflict(plan, assumptions.brokers, current)
            or _invalid_config_conflict(plan, assumptions, current)
            or _risk_conflict(plan, assumptions, current)
        )
    return PlanValidity(Validity.CONFLICT, message) if message else APPLICABLE


def _is_already_applied(plan: TopicPlan, current: CurrentTopic) -> bool:
    if is_nudge(plan):
        return False  # only the partition states show it, and they are not read here
    if releases_ownership(plan):
        return current.record is None
    if any(isinstance(change, DeleteTopic) for change in plan.changes):
        # The deletion record proves that topiarist, and not another client, requested the deletion.
        return (current.topic is None or current.marked_for_deletion) and current.record == plan.record_after
    topic = current.topic
    if topic is None or current.marked_for_deletion or topic.record != plan.record_after:
        return False
    if not topic.record_valid and plan.record_after is not None:
        return False  # a cluster without records has topics by value alone
    if plan.before is not None and _is_recreated(plan.before, topic):
        return False
    return all(_is_change_applied(change, topic) for change in plan.changes)


def _is_change_applied(change: object, topic: TopicState) -> bool:
    match change:
        case CreateTopic(replicas, config):
            return types.are_carried_out(replicas, topic.replicas) and config.items() <= topic.config.items()
        case AddPartitions(before=before, replicas=replicas):
            return types.are_carried_out(replicas, topic.replicas[before:])
        case MoveReplicas(moves):
            lists = _lists_by_partition(topic)
            in_flight = topic.reassigning_partitions
            return all(lists.get(move.partition) == move.after and move.partition not in in_flight for move in moves)
        case ElectLeaders():
            return False  # only the partition states show it, and they are not read here
        case UpdateConfig(items):
            return all(topic.config.get(item.key) == item.after for item in items)
    return True


def _without_elections(plan: TopicPlan) -> TopicPlan:
    return replace(plan, changes=tuple(change for change in plan.changes if not isinstance(change, ElectLeaders)))


def _election_conflict(plan: TopicPlan, topic: TopicState) -> str:
    """Return the first partition with another first replica than planned; empty if there is none."""
    lists = _lists_by_partition(topic)
    for partition, _, preferred in plan.elections():
        replicas = lists.get(partition)
        if replicas is None:
            return f"partition {partition} existed, and does not exist now"
        if replicas[:1] != (preferred,):
            return (
                f"broker {preferred} was the first replica of partition {partition}, which is on {list(replicas)} now"
            )
    return ""


def _lists_by_partition(topic: TopicState) -> Mapping[int, types.Replicas]:
    return dict(zip(topic.partition_ids, topic.replicas, strict=True))


def _topic_conflict(plan: TopicPlan, current: CurrentTopic) -> str:
    """Return the first difference from the planned state; empty if there is none."""
    before, topic = plan.before, current.topic
    if current.marked_for_deletion:
        return "is marked for deletion now"
    if before is None:
        if topic is not None:
            return "did not exist, and exists now"
        if current.reassigning:
            return _NAMED_BY_REQUEST_NOW
        name = plan.topic
        if types.has_collision_chars(name) and (other := current.topics_by_metric_name.get(types.metric_name(name))):
            return f"would collide with {other}, which exists now"
        return _record_conflict(plan.record_before, current.record)
    if topic is None:
        return "existed, and does not exist now"
    if _is_recreated(before, topic):
        return "was deleted and recreated, so it is a different topic"
    if is_nudge(plan):  # writes no record, config or assignment, so those may have changed
        if topic.reassigning_partitions or current.reassigning:
            return _REASSIGNED_NOW
        return "" if topic.replicas == before.replicas else "has other replicas now"
    if topic.record_valid != before.record_valid:
        was, now = ("valid" if valid else "missing or stale" for valid in (before.record_valid, topic.record_valid))
        return f"its ownership record was {was}, and is {now} now"
    if conflict := (
        _record_conflict(before.record, topic.record)
        or _change_conflict(plan.changes, before.topic_id, topic, current)
        or _election_conflict(plan, topic)
    ):
        return conflict
    for key in retained_managed_keys(plan):
        if topic.config.get(key) != before.config.get(key):
            return _config_conflict(key, before.config.get(key), topic)
    return ""


def _is_recreated(before: TopicState, now: TopicState) -> bool:
    # The controller may add a topic id later, so ids are compared only if both states have one.
    return before.identity != now.identity or (before.topic_id or now.topic_id) != (now.topic_id or before.topic_id)


def _invalid_config_conflict(plan: TopicPlan, assumptions: PlanAssumptions, current: CurrentTopic) -> str:
    # The written config includes external changes made since the plan; the rules are those of ``make_plan``.
    written, after = _configs_after_write(plan, current.topic)
    if not after:
        return ""
    settings = assumptions.config_rules.merge_dynamic_settings(current.broker_defaults)
    # A single topic may show an older minimum version than the whole cluster did.
    versions = assumptions.config_rules.versions_to_check(max(assumptions.min_version, current.min_version))
    errors = [error.message for error in assumptions.config_rules.find_errors(after, versions, settings)]
    replicas = current.topic.replicas if current.topic else plan.new_replicas()
    if is_min_isr_above(written, min(map(types.count_replicas, replicas), default=0), versions[-1]):
        errors.append("min.insync.replicas: a partition has fewer replicas")
    return f"the config after the change would be invalid now: {'; '.join(errors)}" if errors else ""


def _risk_conflict(plan: TopicPlan, assumptions: PlanAssumptions, current: CurrentTopic) -> str:
    # An approval covers only the risk that the plan showed.
    if current.topic is None:
        return ""
    before, settings = current.topic.config, assumptions.config_rules.merge_dynamic_settings(current.broker_defaults)
    after = config_after(before, plan.changes)
    increases = (describe_increase(change, reassess(change, before, after, settings)) for change in plan.changes)
    return "; ".join(filter(None, increases))


def _configs_after_write(plan: TopicPlan, topic: TopicState | None) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the overrides that ``plan`` sets, and all overrides after the write."""
    for change in plan.changes:
        if isinstance(change, CreateTopic):
            return change.config, change.config
        if isinstance(change, UpdateConfig) and topic:
            written = {item.key: item.after for item in change.items if item.after is not None}
            return written, config_after(topic.config, (change,))
    return {}, {}


def _record_conflict(before: OwnershipRecord | None, now: OwnershipRecord | None) -> str:
    if before == now:
        return ""
    words = []
    for record in (before, now):
        keys = ", ".join(record.config_keys) or "no keys" if record else ""
        words.append(f"that of owner {record.owner} ({'deleted' if record.deleted else keys})" if record else "absent")
    if before and now and words[0] == words[1]:  # the records differ in what was applied, or in the operator's memory
        fields = ", ".join(_find_applied_changes(before.applied or AppliedSpec(), now.applied or AppliedSpec()))
        what = f"applied other values since then: {fields}" if fields else "written its ownership record since then"
        return f"another run has {what}"
    return f"its ownership record was {words[0]}, and is {words[1]} now"


def _find_applied_changes(before: AppliedSpec, now: AppliedSpec) -> Iterator[str]:
    if before.partitions != now.partitions:
        yield "partitions"
    yield from sorted({key for key, _ in {*before.config} ^ {*now.config}})


def _change_conflict(changes: Sequence[object], topic_id: str | None, topic: TopicState, current: CurrentTopic) -> str:
    for change in changes:
        if isinstance(change, UpdateConfig):
            for item in change.items:
                if topic.config.get(item.key) != item.before:
                    return _config_conflict(item.key, item.before, topic)
        elif isinstance(change, AddPartitions):
            if len(topic.replicas) != change.before:
                return _partition_count_conflict(change.before, topic)
            if not topic.has_contiguous_partitions:
                missing = next(index for index, number in enumerate(topic.partition_ids) if index != number)
                return f"partition {missing} is missing now"
            if topic.reassigning_partitions or current.reassigning:
                return _REASSIGNED_NOW
            if not types.are_carried_out([change.first_replicas], topic.replicas[:1]):
                return f"partition 0 was on {list(change.first_replicas)}, and is on {list(topic.replicas[0])} now"
            # The controller assigns a missing id and then writes the topic from its memory, without new partitions.
            if topic_id and not topic.topic_id:
                return f"had the topic id {topic_id}, and has none now"
            if topic.unknown_fields:
                return f"has fields now that Kafka does not write: {', '.join(topic.unknown_fields)}"
        elif isinstance(change, MoveReplicas):
            lists = _lists_by_partition(topic)
            for move in change.moves:
                now = lists.get(move.partition)
                if now is None:
                    return f"partition {move.partition} existed, and does not exist now"
                # An interrupted run has left some partitions as they were, some under way, and some done.
                if now not in (move.before, move.in_flight, move.after):
                    return f"partition {move.partition} was on {list(move.before)}, and is on {list(now)} now"
        elif isinstance(change, DeleteTopic):
            if current.reassigning:
                return _NAMED_BY_REQUEST_NOW
            if len(topic.replicas) != change.partitions:
                return _partition_count_conflict(change.partitions, topic)
    return ""


def _config_conflict(key: str, before: str | None, topic: TopicState) -> str:
    was, now = ("not set" if value is None else value for value in (before, topic.config.get(key)))
    return f"{key} was {was}, and is {now} now"


def _partition_count_conflict(before: int, topic: TopicState) -> str:
    return f"had {format_count(before, 'partition')}, and has {len(topic.replicas)} now"


def _broker_conflict(plan: TopicPlan, planned_brokers: Mapping[int, types.Broker], current: CurrentTopic) -> str:
    for broker in sorted(plan.placed_brokers()):
        before, after = planned_brokers.get(broker), current.brokers.get(broker)
        if before is None:
            continue  # an explicit assignment to an unregistered broker, which the run allowed
        if after is None:
            return f"broker {broker} was registered, and is not now"
        if after.rack != before.rack:
            return f"broker {broker} was in rack {before.rack}, and is in {after.rack} now"
    return ""


def check_plan(plan: Plan, state: ClusterState) -> Iterator[tuple[TopicPlan, PlanValidity]]:
    """Yield each topic that ``plan`` changes, with its validity on the cluster."""
    assumptions, brokers = plan.assumptions(), {broker.id: broker for broker in state.brokers}
    by_metric_name = types.index_by_metric_name(chain(state.topics, state.topic_errors))
    for topic in plan.actionable_topics():
        if read_error := state.topic_errors.get(topic.topic):
            yield topic, PlanValidity(Validity.CONFLICT, f"{read_error.path}: {read_error.message}")
            continue
        actual = state.topics.get(topic.topic)
        current = CurrentTopic(
            topic=actual,
            record=state.record_of(topic.topic),
            marked_for_deletion=topic.topic in state.pending_deletions,
            reassigning=topic.topic in state.reassigning_topics,
            brokers=brokers,
            broker_defaults=state.broker_defaults,
            min_version=state.min_version,
            topics_by_metric_name=by_metric_name,
        )
        yield topic, check_preconditions(topic, assumptions, current)


class RevalidatedPlan(NamedTuple):
    """A saved plan compared with the current cluster.

    ``plan`` has the topics that are not yet applied, topics with conflicts included, and the current facts about the
    cluster. ``already_applied`` are the topics with nothing left to do. ``conflicts`` has the expected and the actual
    value of each topic that changed since it was planned, by topic name.
    """

    plan: Plan
    already_applied: tuple[TopicPlan, ...]
    conflicts: Mapping[str, str]

    def without_conflicts(self) -> Plan:
        """Return the plan without the topics that have conflicts."""
        return replace(
            self.plan, topics=tuple(topic for topic in self.plan.topics if topic.topic not in self.conflicts)
        )


def revalidate(plan: Plan, state: ClusterState) -> RevalidatedPlan:
    """Compare a saved ``plan`` with the current ``state`` of its cluster.

    If the cluster has a write block, all remaining changes are withheld and there are no conflicts. The count of
    unchanged topics is limited to the topics of the cluster, because the file is not trusted and a budget may be a
    share of that count.
    """
    validity_by_topic = {topic.topic: result for topic, result in check_plan(plan, state)}
    already_applied = tuple(topic for topic in plan.topics if validity_by_topic.get(topic.topic) == ALREADY_APPLIED)
    remaining = apply_write_block(
        (topic for topic in plan.topics if validity_by_topic.get(topic.topic) != ALREADY_APPLIED), state.write_block
    )
    planned_topics = {topic.topic for topic in plan.topics if topic.changes or topic.refusals}
    placer = ReplicaPlacer(state, ClusterSpec(), frozenset(), allow_unknown_brokers=True)  # only for the load
    revalidated = replace(
        plan,
        topics=tuple(remaining),
        unchanged=min(plan.unchanged, len(state.topics.keys() - planned_topics)) + len(already_applied),
        brokers=state.brokers,
        write_block=state.write_block,
        warnings=plan.warnings if any(topic.is_actionable for topic in remaining) else (),
        load=placer.current_load() if any(topic.placed_brokers() or topic.moves() for topic in remaining) else {},
        controller=state.controller,
        controller_epoch=state.controller_epoch,
        batch=state.batch,
        bypasses_brokers=state.bypasses_brokers,
        capabilities=state.capabilities,
    )
    conflicts = {
        topic: result.message for topic, result in validity_by_topic.items() if result.validity is Validity.CONFLICT
    }
    return RevalidatedPlan(revalidated, already_applied, {} if state.write_block.reason else conflicts)
