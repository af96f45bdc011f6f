"""Plans the election of preferred leaders: partitions that another broker leads than the first of their list.

The controller elects the first replica of a list only if its broker is registered and in sync, and removes every other
entry of a request without a message (contract 6.7). Only partitions that can be elected are planned, and the
others are counted in a notice::

    list       leader    in sync    planned
    [1,2,3]    1         1,2,3      nothing: the first replica leads already
    [1,2,3]    2         1,2,3      2 -> 1
    [1,2,3]    2         2,3        nothing: broker 1 is not in sync
    [1,2,3]    none      1          nothing: the controller elects a leader by itself
    [1,2,3]    no state             nothing: an entry would stop the controller's election

Leaders are not part of ``ClusterState``: ``reconcile`` reads the partition states of the candidates after the plan is
made. An election follows the moves of a plan, and a topic with moves is a candidate in the next run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.moves import LeaderChange, MoveKind
from topiarist.model.plan import (
    Change,
    ElectLeaders,
    Issue,
    LastChange,
    MoveReplicas,
    Plan,
    TakeOwnership,
    TopicPlan,
    config_after,
)
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, PartitionState, TopicInspection, TopicState
from topiarist.planning.risk import assess_elections
from topiarist.text import format_count


def find_elections(
    lists: Iterable[tuple[int, Replicas]],
    states: Mapping[int, PartitionState],
    registered: Collection[int],
    drained: Collection[int] = (),
) -> tuple[tuple[LeaderChange, ...], Mapping[int, str]]:
    """Return the elections of partitions, and why other partitions keep a leader that is not their first replica.

    ``lists`` are the replicas of partitions in ascending order, ``states`` those of initialized partitions,
    ``registered`` the brokers that are online. Brokers in ``drained`` get no leader.
    """
    elections, problems = [], dict[int, str]()
    for partition, replicas in lists:
        state = states.get(partition)
        if not replicas or (state and state.leader == replicas[0]):
            continue
        problem = find_election_problem(partition, replicas[0], state, registered)
        if not problem and replicas[0] in drained:
            problem = f"broker {replicas[0]}, the first replica of partition {partition}, is drained"
        if problem or state is None:
            problems[partition] = problem
        else:
            elections.append(LeaderChange(partition, state.leader, replicas[0]))
    return tuple(elections), problems


def find_election_problem(
    partition: int, preferred: int, state: PartitionState | None, registered: Collection[int]
) -> str:
    """Return why the controller would not elect ``preferred`` as the leader of a partition; empty if it would."""
    if state is None:
        return f"partition {partition} has no state: the controller has not initialized it"
    if state.leader < 0:
        return f"partition {partition} has no leader"
    if preferred not in registered:
        return f"broker {preferred}, the first replica of partition {partition}, is not registered"
    if preferred not in state.isr:
        return f"broker {preferred}, the first replica of partition {partition}, is not in sync"
    return ""


def may_elect_leaders(spec: TopicSpec) -> bool:
    """Return whether the Cluster and the Topic allow elections, and the topic is changed at all."""
    if MoveKind.LEADERS not in spec.allowed_moves or spec.absent or spec.observe_only:
        return False
    is_protected = bool(spec.cluster.internal_owner(spec.topic)) or spec.cluster.is_protected(spec.topic)
    return spec.cluster.moves.protected or not is_protected


def find_candidates(plan: Plan, specs: Iterable[TopicSpec], state: ClusterState) -> Mapping[str, TopicState]:
    """Return the topics with leaders that may be elected, by name: the states of their partitions must be read.

    A candidate has an ownership record of the plan's owner before the run, and no field that Kafka does not write. It
    has no move, planned or refused, and is neither reassigned nor deleted. There is no candidate if nothing may be
    written to the cluster.
    """
    if plan.write_block.reason:
        return {}
    left_out = state.pending_deletions.union(topic.topic for topic in plan.topics if _wants_moves(topic))
    candidates = {}
    for spec in specs:
        topic = state.topics.get(spec.topic)
        if topic is None or not may_elect_leaders(spec) or spec.topic in left_out or topic.unknown_fields:
            continue
        record, in_flight = topic.valid_record, spec.topic in state.reassigning_topics
        if record and record.owner == plan.owner and not (in_flight or topic.reassigning_partitions):
            candidates[spec.topic] = topic
    return candidates


def add_elections(
    plan: Plan,
    specs: Iterable[TopicSpec],
    candidates: Mapping[str, TopicState],
    inspections: Mapping[str, TopicInspection],
) -> Plan:
    """Return ``plan`` with the elections of ``candidates``, given their partition states.

    A candidate without readable states is counted in a warning: a snapshot, for example, has none.
    """
    plans = {topic.topic: topic for topic in plan.topics}
    registered = {broker.id for broker in plan.brokers}
    unchanged, unknown = plan.unchanged, 0
    for spec in specs:
        topic, inspection = candidates.get(spec.topic), inspections.get(spec.topic)
        if topic is None:
            continue
        if inspection is None or not inspection.states_readable:
            unknown += 1
            continue
        before = plans.get(spec.topic) or TopicPlan(
            spec.topic, topic, topic.record, topic.record, observe_only=spec.observe_only, spec=spec
        )
        after = _add_to_topic(before, topic, inspection, plan.drain_brokers, registered)
        if not after.is_empty:
            plans[spec.topic] = after
            # A topic with notices alone counts as unchanged.
            unchanged -= bool(after.changes) and not (before.changes or before.refusals)
    warning = f"Leaders: no election is planned for {format_count(unknown, 'topic')} with leaders that cannot be read"
    return replace(
        plan,
        topics=tuple(plans[name] for name in sorted(plans)),
        unchanged=unchanged,
        warnings=(*plan.warnings, warning) if unknown else plan.warnings,
    )


def _wants_moves(topic: TopicPlan) -> bool:
    withheld = (change for refusal in topic.refusals for change in refusal.withheld)
    return any(isinstance(change, MoveReplicas) for change in (*topic.changes, *withheld))


def _add_to_topic(
    plan: TopicPlan,
    topic: TopicState,
    inspection: TopicInspection,
    drained: Collection[int],
    registered: Collection[int],
) -> TopicPlan:
    lists = tuple(zip(topic.partition_ids, topic.replicas, strict=True))
    if inspection.identity != topic.identity or dict(inspection.assignment) != dict(lists):
        return plan  # the topic changed between the two reads: the next run plans it
    elections, problems = find_elections(lists, inspection.states, registered, drained)
    changes, notices = plan.changes, plan.notices
    if elections:
        # Each write of a topic writes its record too, so a change of the record alone is not needed beside another.
        others = tuple(change for change in changes if not isinstance(change, TakeOwnership))
        changes = (*others, ElectLeaders(elections, assess_elections(elections)))
    if problems:
        count = format_count(len(problems), "partition")
        message = f"the first replica of {count} cannot be elected as leader: {next(iter(problems.values()))}"
        notices = (*notices, Issue(Reason.EXISTING_PROBLEM, message))
    return replace(plan, changes=changes, notices=notices)


# Splits a plan into the changes that come first, and the moves and elections that follow them.
#
# ``reconcile`` applies all other changes topic by topic, and then lets the adapter carry out the moves in batches, and
# the elections after them.


def without_moves(plan: Plan) -> Plan:
    """Return ``plan`` without moves and elections.

    A topic that is adopted in order to be moved gets its ownership record.
    """
    return replace(plan, topics=tuple(_without_moves(topic) if has_moves(topic) else topic for topic in plan.topics))


def only_moves(plan: Plan, topics: Collection[str]) -> Plan:
    """Return ``plan`` with the moves and elections of ``topics`` alone, given that their other changes are made."""
    return replace(plan, topics=tuple(_only_moves(topic) for topic in plan.topics if topic.topic in topics))


def has_moves(topic: TopicPlan) -> bool:
    """Return whether the plan of a topic has a change that follows all others: a move or an election."""
    return any(isinstance(change, LastChange) for change in topic.changes)


def _without_moves(topic: TopicPlan) -> TopicPlan:
    changes = _other_changes(topic)
    if not changes and topic.record_after != topic.record_before:
        changes = (TakeOwnership(),)
    return replace(topic, changes=changes)


def _only_moves(topic: TopicPlan) -> TopicPlan:
    before = topic.before and replace(
        topic.before,
        config=config_after(topic.before.config, _other_changes(topic)),
        record=topic.record_after,
        record_valid=topic.record_after is not None,
    )
    changes = tuple(change for change in topic.changes if isinstance(change, LastChange))
    return replace(topic, before=before, record_before=topic.record_after, changes=changes)


def _other_changes(topic: TopicPlan) -> tuple[Change, ...]:
    return tuple(change for change in topic.changes if not isinstance(change, LastChange))
