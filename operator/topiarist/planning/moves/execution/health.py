"""Decides whether a partition is healthy enough to be moved: a move that begins must be able to end.

The controller ends a reassignment when every replica of the target is in sync, and topiarist does not cancel it. A
replica that stays and is not in sync therefore keeps the whole batch from ending. Only replicas that leave may be out
of sync.

A plan calls it for the topics that it moves, and the adapter again directly before each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka import config_rules
from topiarist.kafka.config_values import java_trim, parse_integer
from topiarist.kafka.types import INT_MAX, KafkaVersion, cap_min_isr
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import Issue, MoveReplicas, Plan, TopicPlan, withhold
from topiarist.model.state import PartitionState, TopicInspection
from topiarist.text import format_count

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
