"""Validation of decoded plans: values that the schema accepts but that topiarist never plans.

``decode`` calls ``first_error``. The planner never makes such names, lists or combinations, but an edited plan file can
hold them. The preconditions of a plan, and whether Kafka accepts the config of a topic as a whole, are checked at the
cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from topiarist.kafka import types
from topiarist.kafka.types import INTERNAL_TOPICS, Replicas, metric_name, topic_name_problem
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.moves import LeaderChange, MoveKind, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    MoveReplicas,
    Plan,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    config_after,
    matches_recorded_value,
)
from topiarist.model.run_options import Risk
from topiarist.planning.risk import UNKEYED_GROWTH, assess_deletion, assess_elections, assess_moves
from topiarist.text import quote

_VALID_COMBINATIONS = (
    *((), (CreateTopic,), (AddPartitions,), (UpdateConfig,), (AddPartitions, UpdateConfig)),
    *((MoveReplicas,), (MoveReplicas, UpdateConfig), (ElectLeaders,), (AddPartitions, ElectLeaders)),
    *((UpdateConfig, ElectLeaders), (AddPartitions, UpdateConfig, ElectLeaders)),
    *((DeleteTopic,), (TakeOwnership,)),
)
"""The combinations of changes that one topic can have, in order."""

_INTERNAL_TOPICS = INTERNAL_TOPICS | {DEFAULT_RECORDS_TOPIC.name}

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def first_error(plans: Sequence[Plan]) -> str:
    """Return the first value that topiarist never plans, with its location; empty if there is none."""
    if not _is_ascending([plan.cluster for plan in plans]):
        return "found clusters that are duplicate or not sorted by name"
    if len({plan.cluster_id for plan in plans}) < len(plans):
        return "found two plans for one cluster id"
    return next((f"cluster {quote(plan.cluster)}: {message}" for plan in plans for message in _plan_errors(plan)), "")


def _plan_errors(plan: Plan) -> Iterator[str]:
    if not _is_ascending([broker.id for broker in plan.brokers]):
        yield "found brokers that are duplicate or not sorted by id"
    if not _is_ascending([topic.topic for topic in plan.topics]):
        yield "found topics that are duplicate or not sorted by name"
    if len({metric_name(topic.topic) for topic in plan.topics}) < len(plan.topics):
        yield 'found two topic names that differ only in "." and "_", which Kafka does not allow'
    for topic in plan.topics:
        yield from (f"topic {quote(topic.topic)}: {message}" for message in _topic_errors(topic, plan.owner))


def _topic_errors(topic: TopicPlan, owner: str) -> Iterator[str]:
    if message := topic_name_problem(topic.topic):
        yield message
    if topic.before and topic.before.record_valid and topic.record_before is None:
        yield "found a valid ownership record before the changes that is absent"
    for change in (*topic.changes, *(change for refusal in topic.refusals for change in refusal.withheld)):
        yield from _change_errors(change)
    if topic.changes:
        yield from _combination_errors(topic)
        yield from _record_errors(topic, owner)


def _combination_errors(topic: TopicPlan) -> Iterator[str]:
    kinds = tuple(map(type, topic.changes))
    if kinds not in _VALID_COMBINATIONS:
        yield f"found changes that exclude each other: {', '.join(kind.__name__ for kind in kinds)}"
    if (CreateTopic in kinds) != (topic.before is None):
        yield "found the creation of a topic that exists, or a change of a topic that does not exist"
    moved = {kind for move in topic.moves() for kind in move.kinds}
    is_repair = kinds == (MoveReplicas,) and moved <= {MoveKind.DRAIN, MoveKind.RACKS}
    if topic.topic in _INTERNAL_TOPICS and kinds not in ((TakeOwnership,), (ElectLeaders,)) and not is_repair:
        yield "found a change of a topic that is internal to Kafka or to topiarist"


def _record_errors(topic: TopicPlan, owner: str) -> Iterator[str]:
    """Yield the errors of the record after the changes.

    The record belongs to the plan's owner and names keys that are then set. A deletion needs the owner's record before.
    """
    before, after = topic.before.valid_record if topic.before else None, topic.record_after
    deletes = any(isinstance(change, DeleteTopic) for change in topic.changes)
    config = topic.before.config if topic.before else {}
    for change in topic.changes:
        config = change.config if isinstance(change, CreateTopic) else config_after(config, [change])
    known_keys = {*config, *(before.config_keys if before else ())}
    if after is None or after.owner != owner or after.deleted != deletes:
        yield "found an ownership record after the changes that does not match the changes and the owner"
    elif not _is_ascending(after.config_keys) or not set(after.config_keys) <= known_keys:
        yield "found an ownership record after the changes with keys that are not sorted or not set"
    elif after.applied:
        applied_before = before.applied.config if before and before.applied else ()
        for key, value in after.applied.config:
            is_set = key in config and matches_recorded_value(key, value, config[key])
            if key not in after.config_keys or not (is_set or (key, value) in applied_before):
                found = f"a value of {quote(key)} that does not match the changes"
                yield f"found an ownership record after the changes with {found}"
    if deletes and (before is None or before.owner != owner or before.deleted):
        yield "found the deletion of a topic without a valid ownership record of the plan's owner"


def _change_errors(change: Change) -> Iterator[str]:
    match change:
        case CreateTopic(replicas, config, assessment):
            yield from _replica_list_errors(replicas)
            for key, text in config.items():
                yield from _control_character_errors(key, text)
            yield from _risk_errors(assessment, lowest=Risk.SAFE, highest=Risk.SAFE)
        case AddPartitions(first_replicas=first_replicas, replicas=replicas, assessment=assessment, keyed=keyed):
            yield from _replica_list_errors(replicas)
            if any(len(brokers) != len(first_replicas) for brokers in replicas):
                yield "found new partitions with another number of replicas than partition 0"
            if keyed or assessment != UNKEYED_GROWTH:
                yield from _risk_errors(assessment, lowest=Risk.DISRUPTIVE, highest=Risk.DATA_LOSS)
        case MoveReplicas(moves, assessment):
            yield from _move_errors(moves)
            if assessment != assess_moves(moves):
                yield "found moves with another risk or explanation than they have"
        case ElectLeaders(partitions, assessment):
            yield from _election_errors(partitions)
            if assessment != assess_elections(partitions):
                yield "found an election with another risk or explanation than it has"
        case UpdateConfig():
            yield from _config_item_errors(change)
        case DeleteTopic(partitions, replica_count, assessment):
            if assessment != assess_deletion(partitions, replica_count):
                yield "found a deletion with another risk or explanation than a deletion has"
        case TakeOwnership(assessment):
            yield from _risk_errors(assessment, lowest=Risk.SAFE, highest=Risk.SAFE)


def _move_errors(moves: Sequence[ReplicaMove]) -> Iterator[str]:
    if not moves or not _is_ascending([move.partition for move in moves]):
        yield "found no moves, or partitions that are duplicate or not sorted"
    kinds = [*MoveKind]
    for move in moves:
        where = f"partition {move.partition}"
        if move.before == move.after:
            yield f"{where}: found equal replica lists before and after"
        for replicas in (move.before, move.after):
            for _, message in types.find_assignment_errors({0: replicas}):
                yield f"{where}: {message}"
        if not move.kinds or not _is_ascending([kinds.index(kind) for kind in move.kinds]):
            yield f"{where}: found no reasons, or reasons that are duplicate or not in order"
        elif problem := _find_reason_problem(move):
            yield f"{where}: {problem}"


def _find_reason_problem(move: ReplicaMove) -> str:
    """Return why these reasons do not move a partition to this list, forward or back; empty if they may.

    A reason is also the permission that a move needs, so it must not be one that gives another result. The plan of
    ``moves revert`` has the reasons of the moves that it takes back, of several runs perhaps.
    """
    before, after, kinds = move.before, move.after, set(move.kinds)
    if len(before) != len(after) and kinds.isdisjoint({MoveKind.FACTOR, MoveKind.ASSIGNMENT}):
        return "found another number of replicas without the reason Factor or Assignment"
    if kinds <= {MoveKind.DRAIN, MoveKind.RACKS} and not move.added:
        return "found another order of the same brokers for a reason that replaces brokers"
    if kinds <= {MoveKind.RACKS, MoveKind.FACTOR} and before[0] != after[0]:
        return "found another preferred leader for a reason that keeps it"
    return ""


def _election_errors(partitions: Sequence[LeaderChange]) -> Iterator[str]:
    if not partitions or not _is_ascending([each.partition for each in partitions]):
        yield "found no partitions of an election, or partitions that are duplicate or not sorted"
    for each in partitions:
        if each.before == each.after:
            yield f"partition {each.partition}: found equal leaders before and after"


def _replica_list_errors(replicas: Sequence[Replicas]) -> Iterator[str]:
    if not replicas:
        yield "found no partitions in a change that adds partitions"
    for partition, message in types.find_assignment_errors(dict(enumerate(replicas))):
        yield f"replica list {partition}: {message}"


def _config_item_errors(change: UpdateConfig) -> Iterator[str]:
    if not _is_ascending([item.key for item in change.items]):
        yield "found config keys that are duplicate or not sorted"
    for item in change.items:
        if item.before == item.after:
            yield f"config {quote(item.key)}: found equal values before and after"
        yield from _control_character_errors(item.key, item.after or "")
        yield from _risk_errors(item.assessment, lowest=Risk.SAFE, highest=Risk.DATA_LOSS)


def _control_character_errors(key: str, text: str) -> Iterator[str]:
    if not key.isprintable() or _CONTROL_CHARACTERS.search(text):
        yield f"config {quote(key)}: found a control character"


def _risk_errors(assessment: RiskAssessment, *, lowest: Risk, highest: Risk) -> Iterator[str]:
    if not lowest <= assessment.risk <= highest or (assessment.risk is Risk.SAFE and assessment != SAFE_ASSESSMENT):
        yield f"found the risk {assessment.risk.label} with an explanation, or for a change that cannot have it"


def _is_ascending(values: Sequence[Any]) -> bool:
    """Return whether values are in strictly ascending order."""
    return all(value < following for value, following in pairwise(values))
