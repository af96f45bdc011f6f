"""Decides for one topic, directly before a batch, which of its moves may begin.

The adapter reads the topic under the lock and calls ``judge_topic``. A move that began must be able to end, because it
is not cancelled, so a partition that is not healthy is held and looked at again later::

    another topic, owner or list, fewer partitions,
    a target in another rack, or not planned with                  conflict: nothing more of the topic is moved
    list and standing are AFTER                                    done
    UNDERWAY                                                       under way: the controller works on it
    an offline target, a replica that is not in sync, no leader    held, with the cause
    otherwise                                                      ready
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import TopicPlan
from topiarist.model.state import PartitionState, Reassignment, TopicState
from topiarist.planning.moves.execution.health import find_health_problem, find_topic_health_problem
from topiarist.planning.moves.execution.standing import MoveStanding, find_standing


class MovedTopic(NamedTuple):
    """A topic that is moved, as read directly before a batch.

    ``topic`` is None if it does not exist. ``states`` has the partitions that the controller has initialized; None if
    they were not read, and health is then not checked. ``brokers`` are the registered brokers.
    """

    topic: TopicState | None
    reassignments: Mapping[int, Reassignment]
    marked_for_deletion: bool
    brokers: Mapping[int, Broker]
    states: Mapping[int, PartitionState] | None = None
    min_isr: int = 1


class Judgement(NamedTuple):
    """The moves of one topic by what is to be done; ``conflict`` says why nothing more of the topic is moved."""

    conflict: str = ""
    done: tuple[ReplicaMove, ...] = ()
    under_way: tuple[ReplicaMove, ...] = ()
    ready: tuple[ReplicaMove, ...] = ()
    held: tuple[tuple[ReplicaMove, str], ...] = ()


def judge_topic(
    moves: Iterable[ReplicaMove], plan: TopicPlan, planned_brokers: Mapping[int, Broker], current: MovedTopic
) -> Judgement:
    """Return what is to be done with ``moves``, which are those of ``plan`` that are not known to be done."""
    if conflict := find_topic_conflict(plan, current):
        return Judgement(conflict)
    topic = current.topic
    assert topic is not None
    lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    by_standing: dict[MoveStanding, list[ReplicaMove]] = {standing: [] for standing in MoveStanding}
    for move in moves:
        standing = find_standing(move, lists.get(move.partition), current.reassignments.get(move.partition))
        if standing is MoveStanding.CONFLICT:
            return Judgement(describe_list_conflict(move, lists.get(move.partition)))
        by_standing[standing].append(move)
    waiting = by_standing[MoveStanding.BEFORE]
    for broker in sorted({broker for move in waiting for broker in move.added}):
        planned, now = planned_brokers.get(broker), current.brokers.get(broker)
        if planned is None:
            return Judgement(f"broker {broker}, a target, was not registered when the plan was made")
        if now and planned.rack != now.rack:
            return Judgement(f"broker {broker} was in rack {planned.rack}, and is in {now.rack} now")
    in_flight = current.reassignments.keys() - {move.partition for move in by_standing[MoveStanding.UNDERWAY]}
    ready, held = [], []
    for move in waiting:
        if cause := _find_hold(move, current, in_flight):
            held.append((move, cause))
        else:
            ready.append(move)
    done, under_way = by_standing[MoveStanding.AFTER], by_standing[MoveStanding.UNDERWAY]
    return Judgement("", tuple(done), tuple(under_way), tuple(ready), tuple(held))


def describe_list_conflict(move: ReplicaMove, replicas: Replicas | None) -> str:
    """Return the message for a partition that has neither its list of before nor that of after."""
    if replicas is None:
        return f"partition {move.partition} existed, and does not exist now"
    was, wanted = list(move.before), list(move.after)
    return f"partition {move.partition} was on {was}, was to be on {wanted}, and is on {list(replicas)} now"


def find_topic_conflict(plan: TopicPlan, current: MovedTopic) -> str:
    """Return why nothing of the topic may be moved: it is another one, or has another owner; empty if it may."""
    before, topic = plan.before, current.topic
    if topic is None:
        return "existed, and does not exist now"
    if before is not None and (
        before.identity != topic.identity or (before.topic_id and topic.topic_id and before.topic_id != topic.topic_id)
    ):
        return "was deleted and recreated: it is another topic now"
    if current.marked_for_deletion:
        return "is marked for deletion now"
    if topic.unknown_fields:
        return f"has fields now that Kafka does not write: {', '.join(topic.unknown_fields)}"
    if before is not None and (lost := set(before.partition_ids) - set(topic.partition_ids)):
        return f"partition {min(lost)} existed, and does not exist now"
    record, planned = topic.valid_record, plan.record_after
    if planned is not None and (record is None or record.owner != planned.owner):
        now = f"owner {record.owner}" if record else "no owner"
        return f"had owner {planned.owner}, and has {now} now"
    return ""


def _find_hold(move: ReplicaMove, current: MovedTopic, in_flight: Iterable[int]) -> str:
    """Return why a move must wait; empty if it may begin."""
    if other := sorted(in_flight):
        return f"partition {other[0]} of the topic is reassigned by another client"
    if offline := [broker for broker in move.added if broker not in current.brokers]:
        return f"broker {offline[0]}, which partition {move.partition} moves to, is not registered"
    if current.states is None:
        return ""
    assert current.topic is not None
    return find_topic_health_problem(current.topic.partition_ids, current.states) or find_health_problem(
        move, current.states.get(move.partition), current.brokers, current.min_isr
    )
