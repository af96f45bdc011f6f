"""Decides for one topic, directly before a batch or an election, what of it may begin.

The adapter reads the topic under the lock and calls ``judge_topic`` or ``judge_elections``. A move that began must be
able to end, because it is not cancelled, so a partition that is not healthy is held and looked at again later::

    another topic, owner or list, fewer partitions,
    a target in another rack, or not planned with                  conflict: nothing more of the topic is moved
    list and standing are AFTER                                    done
    UNDERWAY                                                       under way: the controller works on it
    an offline target, a replica that is not in sync, no leader    held, with the cause
    otherwise                                                      ready
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka import config_rules
from topiarist.kafka.config_values import java_trim, parse_integer
from topiarist.kafka.types import INT_MAX, Broker, KafkaVersion, Replicas, cap_min_isr
from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.plan import Issue, MoveReplicas, Plan, TopicPlan, withhold
from topiarist.model.state import PartitionState, Reassignment, TopicInspection, TopicState
from topiarist.planning.moves.topic import find_election_problem
from topiarist.text import format_count

# Compares a move with what a cluster shows, by value: not begun, under way, done, or something else.
#
# The adapter that applies moves asks it before each batch and while a batch runs. A second run, or a saved plan that
# was interrupted, therefore never sends a partition twice::
#
#     what the cluster shows                         standing
#     [1,2]        nothing in flight                 BEFORE     of [1,2] -> [3,2]
#     [3,2,1]      adding 3, removing 1              UNDERWAY
#     [3,2]        nothing in flight                 AFTER
#     anything else, or no such partition            CONFLICT


class MoveStanding(Enum):
    """How far a move is."""

    BEFORE = "before"
    UNDERWAY = "underway"
    AFTER = "after"
    CONFLICT = "conflict"


def find_standing(move: ReplicaMove, replicas: Replicas | None, reassignment: Reassignment | None) -> MoveStanding:
    """Return the standing of ``move``, given the partition's list and its reassignment.

    ``replicas`` is None if the partition does not exist, ``reassignment`` if nothing of it is in flight.
    """
    if replicas is None:
        return MoveStanding.CONFLICT
    if reassignment is None:
        known = {move.before: MoveStanding.BEFORE, move.after: MoveStanding.AFTER}
        return known.get(replicas, MoveStanding.CONFLICT)
    # In flight the list is the target, then the brokers that leave (contract 6.6).
    target = tuple(broker for broker in replicas if broker not in reassignment.removing)
    return MoveStanding.UNDERWAY if target == move.after else MoveStanding.CONFLICT


# Decides whether a partition is healthy enough to be moved: a move that begins must be able to end.
#
# The controller ends a reassignment when every replica of the target is in sync, and topiarist does not cancel it. A
# replica that stays and is not in sync therefore keeps the whole batch from ending. Only replicas that leave may be out
# of sync.
#
# A plan calls it for the topics that it moves, and the adapter again directly before each batch.

_MIN_ISR_PATH = ("config", "min.insync.replicas")


def find_health_problem(
    move: ReplicaMove, state: PartitionState | None, registered: Collection[int], min_isr: int
) -> str:
    """Return why ``move`` must not begin; empty if it may.

    ``state`` is None if the controller has not initialized the partition, ``registered`` are the brokers that are
    online, ``min_isr`` is the ``min.insync.replicas`` in effect.
    """
    where = f"partition {move.partition}"
    if state is None:
        return f"{where} has no state: the controller has not initialized it"
    if state.leader < 0:
        return f"{where} has no leader"
    if state.leader not in registered:
        return f"broker {state.leader}, the leader of {where}, is not registered"
    if unknown := [broker for broker in state.isr if broker not in move.before]:
        return f"broker {unknown[0]} is in sync for {where}, and is not in its replica list"
    if lagging := [broker for broker in move.before if broker in move.after and broker not in state.isr]:
        return f"broker {lagging[0]} keeps a replica of {where} that is not in sync"
    # A partition that is below the minimum already may be moved: all replicas of the target are in sync at the end.
    if len(move.after) < min(len(state.isr), min_isr):
        left = format_count(len(move.after), "replica")
        return f"{where} would have {left} left of {len(state.isr)} in sync, and min.insync.replicas is {min_isr}"
    return ""


def describe_shortage(move: ReplicaMove, state: PartitionState, min_isr: int, oldest: KafkaVersion) -> str:
    """Return what a partition below ``min.insync.replicas`` lacks now and after ``move``; empty if it lacks nothing.

    ``oldest`` is the oldest version that the brokers may have.
    """
    if len(state.isr) >= cap_min_isr(min_isr, move.before, oldest):
        return ""
    is_enough = len(move.after) >= cap_min_isr(min_isr, move.after, oldest)
    until = "until it is moved" if is_enough else "also after the move"
    found = format_count(len(state.isr), "replica")
    return f"partition {move.partition} has {found} in sync: writes with acks=all fail {until}"


def find_topic_health_problem(partitions: Iterable[int], states: Mapping[int, PartitionState]) -> str:
    """Return why no partition of a topic may be moved: one has no state or no leader.

    The controller writes the whole topic from its memory with each move, and would lose a partition that it does not
    know yet.
    """
    for partition in partitions:
        state = states.get(partition)
        if state is None:
            return f"partition {partition} has no state: the controller has not initialized it"
        if state.leader < 0:
            return f"partition {partition} has no leader"
    return ""


def effective_min_isr(config: Mapping[str, str], settings: Mapping[str, str]) -> int:
    """Return the ``min.insync.replicas`` of a topic, given the brokers' settings; 1 if it is not known."""
    text = config.get("min.insync.replicas") or config_rules.server_default("min.insync.replicas", settings)
    try:
        return parse_integer(java_trim(text), limit=INT_MAX) if text else 1
    except ValueError:
        return 1


def withhold_unhealthy_moves(
    plan: Plan, inspections: Mapping[str, TopicInspection], settings: Mapping[str, str]
) -> Plan:
    """Return ``plan`` without the moves of topics with a partition that is not healthy.

    ``inspections`` has the partition states of the topics that the plan moves; a topic without one, or that has changed
    since it was planned, is not checked: the adapter checks each partition again before its batch. ``settings`` are
    those of the brokers.
    """
    registered = {broker.id for broker in plan.brokers}
    oldest = plan.config_rules.oldest_version(plan.min_version)
    topics = []
    for topic in plan.topics:
        inspection = inspections.get(topic.topic)
        if inspection and inspection.states_readable and topic.is_actionable and topic.moves():
            topic = _withhold_if_unhealthy(topic, inspection, registered, settings, oldest)
        topics.append(topic)
    return replace(plan, topics=tuple(topics))


def _withhold_if_unhealthy(
    topic: TopicPlan,
    inspection: TopicInspection,
    registered: Collection[int],
    settings: Mapping[str, str],
    oldest: KafkaVersion,
) -> TopicPlan:
    if topic.before is None or topic.before.identity != inspection.identity:
        return topic
    problems = [find_topic_health_problem(topic.before.partition_ids, inspection.states)]
    shortages = []
    min_isr = effective_min_isr(topic.before.config, settings)
    for move in topic.moves():
        if inspection.assignment.get(move.partition) == move.before:
            state = inspection.states.get(move.partition)
            problems.append(find_health_problem(move, state, registered, min_isr))
            shortages.append(describe_shortage(move, state, min_isr, oldest) if state else "")
    if found := _first_of(problems):
        hint = "run again when the replicas are in sync; or drain the broker that does not return (drainBrokers)"
        changes = [change for change in topic.changes if isinstance(change, MoveReplicas)]
        return withhold(topic, changes, Issue(Reason.NOT_IN_SYNC, found, hint=hint))
    if found := _first_of(shortages):
        found_before = [notice for notice in topic.notices if notice.field != _MIN_ISR_PATH]
        notice = Issue(Reason.EXISTING_PROBLEM, f"min.insync.replicas is {min_isr}, and {found}", _MIN_ISR_PATH)
        return replace(topic, notices=(*found_before, notice))
    return topic


def _first_of(texts: Iterable[str]) -> str:
    """Return the first text that is not empty, and the number of the others."""
    found = [*filter(None, texts)]
    more = f"; {format_count(len(found) - 1, 'more partition')} likewise" if len(found) > 1 else ""
    return "".join(found[:1]) + more


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
        return "was deleted and recreated, so it is a different topic"
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


# Decides for one topic, directly before and after an election, which partitions the controller can elect.
#
# The adapter reads the topic under the lock and calls ``judge_elections``; only the planned leader counts, and not the
# leader before, which may have changed since. ::
#
#     another topic or owner, another first replica          conflict: no leader of the topic is elected
#     the first replica leads                                elected
#     in flight, no state, not registered, not in sync       held, with the cause
#     otherwise                                              ready


class ElectionJudgement(NamedTuple):
    """The elections of one topic by what is to be done; ``conflict`` says why no leader of the topic is elected."""

    conflict: str = ""
    elected: tuple[LeaderChange, ...] = ()
    ready: tuple[LeaderChange, ...] = ()
    held: tuple[tuple[LeaderChange, str], ...] = ()


def judge_elections(
    elections: Iterable[LeaderChange], plan: TopicPlan, current: MovedTopic, requested: Collection[int] = ()
) -> ElectionJudgement:
    """Return what is to be done with ``elections``, which are those of ``plan`` that are not known to be done.

    ``current`` has partition states. ``requested`` are the partitions that a reassignment request names.
    """
    if conflict := find_topic_conflict(plan, current):
        return ElectionJudgement(conflict)
    topic, states = current.topic, current.states or {}
    assert topic is not None
    lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    elected, ready, held = [], [], []
    for each in elections:
        partition, state = each.partition, states.get(each.partition)
        if partition not in lists:
            return ElectionJudgement(f"partition {partition} existed, and does not exist now")
        if partition in requested or partition in current.reassignments:
            held.append((each, f"partition {partition} is being reassigned"))
        elif lists[partition][:1] != (each.after,):
            now = list(lists[partition])
            return ElectionJudgement(
                f"broker {each.after} was the first replica of partition {partition}, which is on {now} now"
            )
        elif state is not None and state.leader == each.after:
            elected.append(each)
        elif problem := find_election_problem(partition, each.after, state, current.brokers):
            held.append((each, problem))
        else:
            ready.append(each)
    return ElectionJudgement("", tuple(elected), tuple(ready), tuple(held))
