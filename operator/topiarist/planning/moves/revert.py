"""Plans the reverse of moves that a report names: each partition gets the list that it had before.

The reverse is a plan of its own, not a cancellation: it is compared with the present lists, and applied in batches like
any other plan::

    the report says     the partition has now      result
    [1,2] -> [3,2]      [3,2], nothing in flight   move [3,2] -> [1,2]
    [1,2] -> [3,2]      [1,2], nothing in flight   nothing: it is moved back already
    [1,2] -> [3,2]      anything else, or none     refused; the other partitions of the topic are moved back

A report may hold several runs. Moves of one partition that follow on each other count as one. It may also name moves
that a run has planned and not finished: a batch that was sent then may be done now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.outcome import RunOptions
from topiarist.model.plan import Issue, MoveReplicas, Plan, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.planning.builder import PlanContext
from topiarist.planning.moves.execution.standing import MoveStanding, find_standing
from topiarist.planning.moves.topic import find_move_problem, find_targets_in_flight, without_protected_kinds
from topiarist.planning.planner import make_plan_context, plan_without_specs, unreadable_issue
from topiarist.planning.risk import assess_moves
from topiarist.text import format_count

_HINT_CONFLICT = "move it back by hand if that is still wanted: replicaAssignment with Assignment in spec.moves.allow"


class MovedTopic(NamedTuple):
    """The moves of one topic that a report names, and Kafka's id of the topic when it was moved; None without one."""

    topic_id: str | None
    moves: tuple[ReplicaMove, ...]


def merge_moves(moves: Iterable[ReplicaMove]) -> tuple[ReplicaMove, ...]:
    """Return one move for each partition of a topic, from all its moves in order of time.

    Of moves that do not follow on each other the last one counts. A partition with its first list again is left out.
    """
    merged: dict[int, ReplicaMove] = {}
    last: dict[int, ReplicaMove] = {}
    for move in moves:
        if last.get(move.partition) == move:
            continue  # finished, and planned again in the line of its topic
        last[move.partition] = move
        earlier = merged.get(move.partition)
        if earlier and earlier.after == move.before:
            kinds = tuple(kind for kind in MoveKind if kind in (*earlier.kinds, *move.kinds))
            move = move._replace(before=earlier.before, kinds=kinds)
        merged[move.partition] = move
    return tuple(move for _, move in sorted(merged.items()) if move.before != move.after)


def plan_revert(
    state: ClusterState, cluster: ClusterSpec, moved: Mapping[str, MovedTopic], options: RunOptions
) -> Plan:
    """Return the plan that moves the partitions of ``moved`` back, as far as they are where the report left them."""
    context = make_plan_context(state, cluster, options)
    topics = [_plan_topic(context, name, moved[name]) for name in sorted(moved)]
    needed = [topic for topic in topics if not topic.is_empty]
    plan = plan_without_specs(state, cluster.name, options.owner, needed, state.warnings)
    return replace(
        plan,
        unchanged=len(topics) - len(needed),
        load=context.placer.current_load() if any(topic.moves() for topic in plan.topics) else {},
        config_rules=cluster.config_rules.with_relevant_settings(),
        min_version=state.min_version,
        batch=state.batch,
        drain_brokers=context.cluster.drain_brokers,
        move_settings=cluster.moves,
    )


def _plan_topic(context: PlanContext, name: str, moved: MovedTopic) -> TopicPlan:
    """Return the plan of one topic; empty if all its partitions are moved back already."""
    topic, record = context.state.topics.get(name), context.state.record_of(name)
    if topic is None:
        return TopicPlan(name, None, record, record, refusals=(_describe_missing(context.state, name),))
    if conflict := _find_topic_conflict(context, topic, moved):
        return TopicPlan(name, topic, record, record, refusals=(conflict,))
    moves, refusals = _reverse_moves(context, topic, moved.moves)
    if not moves:
        return TopicPlan(name, topic, record, record, refusals=refusals)
    change = MoveReplicas(moves, assess_moves(moves))
    if problem := _find_problem(context, topic, change):
        return TopicPlan(name, topic, record, record, refusals=(*refusals, problem._replace(withheld=(change,))))
    return TopicPlan(name, topic, record, record, changes=(change,), refusals=refusals)


def _describe_missing(state: ClusterState, name: str) -> Issue:
    if read_error := state.topic_errors.get(name):
        return unreadable_issue(read_error)
    return Issue(Reason.STATE_CONFLICT, "existed, and does not exist now", hint="nothing of it can be moved back")


def _find_topic_conflict(context: PlanContext, topic: TopicState, moved: MovedTopic) -> Issue | None:
    """Return why nothing of an existing topic is moved back; None if its partitions decide."""
    record, owner = topic.valid_record, context.options.owner
    if moved.topic_id and topic.topic_id and moved.topic_id != topic.topic_id:
        message = "was deleted and recreated: it is another topic now"
        return Issue(Reason.STATE_CONFLICT, message, hint="nothing of it can be moved back")
    if record is None:
        hint = "adopt it first: apply its manifest with --adopt"
        return Issue(Reason.NOT_ADOPTED, "has no ownership record now", hint=hint)
    if record.owner != owner:
        message = f"belongs to owner {record.owner}, this run is {owner}"
        return Issue(Reason.NOT_OWNED, message, hint="give the --owner of the run that moved it")
    if topic.name in context.state.pending_deletions:
        return Issue(Reason.DELETION_IN_PROGRESS, "is marked for deletion", hint="nothing of it can be moved back")
    return None


def _reverse_moves(
    context: PlanContext, topic: TopicState, moves: Iterable[ReplicaMove]
) -> tuple[tuple[ReplicaMove, ...], tuple[Issue, ...]]:
    """Return the moves back, and a refusal if partitions have another list now."""
    lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    requested = {entry.partition for entry in context.state.requested_reassignments if entry.topic == topic.name}
    in_flight = requested.union(topic.reassigning_partitions)
    back, conflicts = [], []
    for move in moves:
        standing = find_standing(move, lists.get(move.partition), None)
        if move.partition in in_flight:
            conflicts.append(f"partition {move.partition} is being reassigned now")
        elif standing is MoveStanding.AFTER:
            back.append(ReplicaMove(topic.name, move.partition, move.after, move.before, move.kinds))
        elif standing is not MoveStanding.BEFORE:
            conflicts.append(_describe_conflict(move, lists.get(move.partition)))
    if not conflicts:
        return tuple(back), ()
    more = f"; {format_count(len(conflicts) - 1, 'more partition')} likewise" if len(conflicts) > 1 else ""
    return tuple(back), (Issue(Reason.STATE_CONFLICT, conflicts[0] + more, hint=_HINT_CONFLICT),)


def _describe_conflict(move: ReplicaMove, replicas: Replicas | None) -> str:
    now = "does not exist now" if replicas is None else f"is on {list(replicas)} now"
    return f"partition {move.partition} was to be on {list(move.after)}, and {now}"


def _find_problem(context: PlanContext, topic: TopicState, change: MoveReplicas) -> Issue | None:
    """Return why the topic must not be moved back, as for any other move."""
    needed = {kind for move in change.moves for kind in move.kinds}
    forbidden = [kind.value for kind in MoveKind if kind in needed - context.cluster.moves.allow]
    if forbidden:
        names = ", ".join(forbidden)
        message = f"was moved for {names}, which the Cluster does not allow now"
        return Issue(Reason.MOVE_NOT_ALLOWED, message, hint=f"allow {names} in spec.moves of the Cluster")
    if without_protected_kinds(context.cluster, topic.name, frozenset(needed)) != needed:
        hint = "set spec.moves.protected: true in the Cluster"
        return Issue(Reason.PROTECTED_TOPIC, "protected topics are not moved", hint=hint)
    record = topic.valid_record
    managed = {key: topic.config[key] for key in (record.config_keys if record else ()) if key in topic.config}
    _, is_foreign = find_targets_in_flight(context.state, topic)
    problem = find_move_problem(context, topic, change, managed, is_foreign=is_foreign)
    if problem and problem.reason in (Reason.EXCLUDED_BROKERS, Reason.UNKNOWN_BROKERS):
        # The lists come from the report, not from a manifest.
        return problem._replace(field=(), hint="change the Cluster first, or wait until the broker is registered")
    return problem
