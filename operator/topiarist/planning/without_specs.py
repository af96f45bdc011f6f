"""Plans of commands that need no manifest: unmanage topics, nudge the controller, move partitions back.

Each is an ordinary ``Plan``, so a write block applies to it, and it is printed and written like every plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.types import Replicas, matches_any, topic_name_problem
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.plan import Change, Issue, MoveReplicas, Nudge, Plan, ReleaseOwnership, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OwnershipRecord, TopicInspection, TopicState
from topiarist.planning import planner
from topiarist.planning.builder import NAMED_BY_REQUEST, PlanContext
from topiarist.planning.moves.gate import MoveStanding, find_standing
from topiarist.planning.moves.topic import find_move_problem, find_targets_in_flight, without_protected_kinds
from topiarist.planning.risk import assess_moves
from topiarist.text import format_count, quote, shorten_list

# Plans to unmanage topics: remove their ownership records and leave everything of Kafka's unchanged.
#
# Deletion records and stale records are removed too, because a record needs no topic to be released.

_GLOB_CHARACTERS = frozenset("*?[]!")


class UnmanageRequest(NamedTuple):
    """The topics to unmanage, by name and by glob pattern.

    Patterns match only topics of the run's own owner.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()


def parse_unmanage_request(arguments: Iterable[str]) -> UnmanageRequest:
    """Split command-line arguments into names and patterns.

    Raises ``ValueError`` with the problems of all invalid arguments.
    """
    names, patterns, problems = list[str](), list[str](), list[str]()
    for argument in sorted(set(arguments)):
        if _GLOB_CHARACTERS.isdisjoint(argument):
            names.append(argument)
            problems += filter(None, [topic_name_problem(argument)])
        else:
            patterns.append(argument)
            if topic_name_problem("".join("x" if letter in _GLOB_CHARACTERS else letter for letter in argument)):
                problems.append(f"found the pattern {quote(argument)}, which no topic name can match")
    if problems:
        raise ValueError("; ".join(problems))
    return UnmanageRequest(tuple(names), tuple(patterns))


class UnmanagePlan(NamedTuple):
    """The plan to unmanage topics of one cluster, and the names without a record."""

    plan: Plan
    without_record: Sequence[str]


def plan_unmanage(state: ClusterState, cluster: str, request: UnmanageRequest, options: RunOptions) -> UnmanagePlan:
    """Return the plan that unmanages topics, and the names without a record."""
    of_existing_topics = {name: topic.record for name, topic in state.topics.items() if topic.record is not None}
    records = {**state.dangling_records, **of_existing_topics}
    # A pattern never selects topics of another owner; a topic of another owner that is named is refused.
    names = {
        name
        for name, record in records.items()
        if record.owner == options.owner and matches_any(name, request.patterns)
    }.union(request.names)
    planned_names = sorted(name for name in names if name in records or name in state.topic_errors)
    topics = [_plan_release(state, name, records.get(name), options) for name in planned_names]
    plan = planner.plan_without_specs(state, cluster, options.owner, topics)
    return UnmanagePlan(plan, sorted(names.difference(planned_names)))


def _plan_release(state: ClusterState, name: str, record: OwnershipRecord | None, options: RunOptions) -> TopicPlan:
    topic = state.topics.get(name)
    if record is None:
        return TopicPlan(name, topic, refusals=(planner.unreadable_issue(state.topic_errors[name]),))
    if record.owner != options.owner and not options.may_take_ownership(name):
        message = f"belongs to owner {record.owner}, this run is {options.owner}"
        hint = f"leave it to its owner, or pass --take-ownership={name}"
        return TopicPlan(name, topic, record, record, refusals=(Issue(Reason.NOT_OWNED, message, hint=hint),))
    is_stale = topic is not None and not topic.record_valid
    notices = (Issue(Reason.STALE_OWNERSHIP_RECORD, planner.STALE_RECORD_MESSAGE),) if is_stale else ()
    return TopicPlan(name, topic, record, changes=(ReleaseOwnership(),), notices=notices)


# Plans to nudge topics that the controller has missed: their entries are written again, unchanged.
#
# A controller in ZooKeeper mode reads the entries of all new topics at once, and misses all of them if one cannot be
# decoded. After that it knows their names and watches their entries. A write of the same data makes the controller
# initialize the partitions without a state. No record, config or assignment changes, so topics of every owner may be
# nudged. ``cli.commands.apply`` calls this module.


class NudgePlan(NamedTuple):
    """The plan to nudge topics of one cluster.

    ``initialized`` has the topics that need no nudge, ``not_found`` the names that the cluster does not have.
    """

    plan: Plan
    initialized: Sequence[str]
    not_found: Sequence[str]


def parse_topic_names(raw_names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct topic names, sorted.

    Raises ``ValueError`` if a name is not a valid topic name.
    """
    names = tuple(sorted(set(raw_names)))
    if problems := [problem for name in names if (problem := topic_name_problem(name))]:
        raise ValueError("; ".join(problems))
    return names


def plan_nudge(
    state: ClusterState, cluster: str, inspections: Mapping[str, TopicInspection | None], owner: str
) -> NudgePlan:
    """Return the plan to nudge the topics of ``inspections``.

    A topic is nudged if it has partitions without a state. ``inspections`` has the partition states of each topic;
    ``owner`` is that of the run.
    """
    existing = [name for name in inspections if name in state.topics or name in state.topic_errors]
    topics = [_plan_topic_nudge(state, name, inspections[name]) for name in existing]
    needed = [topic for topic in topics if not topic.is_empty]
    plan = planner.plan_without_specs(state, cluster, owner, needed, state.warnings)
    return NudgePlan(
        plan,
        [topic.topic for topic in topics if topic.is_empty],
        [name for name in inspections if name not in existing],
    )


def _plan_topic_nudge(state: ClusterState, name: str, inspection: TopicInspection | None) -> TopicPlan:
    """Return the plan of one topic; empty if all its partitions are initialized."""
    topic = state.topics.get(name)
    record = topic.record if topic else None
    decided = _decide_nudge(state, name, inspection)
    changes = (decided,) if isinstance(decided, Nudge) else ()
    refusals = (decided,) if isinstance(decided, Issue) else ()
    return TopicPlan(name, topic, record, record, changes=changes, refusals=refusals)


def _decide_nudge(state: ClusterState, name: str, inspection: TopicInspection | None) -> Change | Issue | None:
    if read_error := state.topic_errors.get(name):
        hint = "repair it; the controller reads it when it is written, so no nudge is needed"
        return planner.unreadable_issue(read_error)._replace(hint=hint)
    topic, registered = state.topics[name], {broker.id for broker in state.brokers}
    if name in state.pending_deletions:
        return Issue(Reason.DELETION_IN_PROGRESS, "is marked for deletion", hint=planner.HINT_AFTER_DELETION)
    if inspection is None or not inspection.states_readable or inspection.partition_errors:
        message = "its partition states cannot be read, so it is unknown whether the topic needs a nudge"
        return Issue(Reason.TOPIC_UNREADABLE, message, hint=f"run topiarist describe {name} for what cannot be read")
    replicas = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    missing = tuple(partition for partition in replicas if partition not in inspection.states)
    if not missing:
        return None
    if topic.reassigning_partitions or name in state.reassigning_topics:
        message = NAMED_BY_REQUEST if name in state.reassigning_topics else "its replicas are being reassigned"
        return Issue(Reason.REASSIGNMENT_IN_PROGRESS, message, hint="run again when the reassignment is done")
    if not state.bypasses_brokers:
        message = f"the controller has not initialized partition {shorten_list(missing)}"
        hint = "wait for the controller: through the brokers no client can make it read a topic again"
        return Issue(Reason.NOT_INITIALIZED, message, hint=hint)
    # The controller initializes a partition only if one of its brokers is registered, nudge or not.
    waiting = tuple(partition for partition in missing if registered.isdisjoint(replicas[partition]))
    if waiting == missing:
        message = f"no broker of partition {shorten_list(waiting)} is registered, and the controller waits for one"
        return Issue(Reason.BROKERS_MISSING, message, hint="start one of these brokers; then no nudge is needed")
    return Nudge(tuple(partition for partition in missing if partition not in waiting))


_HINT_CONFLICT = "move it back by hand if you still want it: replicaAssignment with Assignment in spec.moves.allow"
_HINT_IN_FLIGHT = "wait until it is done (topiarist moves shows what is left), and make this plan again"


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
    """Return the plan that moves the partitions of ``moved`` back, as far as they are where the report left them.

    Topics that are moved back already are not in it.
    """
    context = planner.make_plan_context(state, cluster, options)
    topics = [_plan_topic_revert(context, name, moved[name]) for name in sorted(moved)]
    needed = [topic for topic in topics if not topic.is_empty]
    plan = planner.plan_without_specs(state, cluster.name, options.owner, needed, state.warnings)
    return replace(
        plan,
        load=context.placer.current_load() if any(topic.moves() for topic in plan.topics) else {},
        config_rules=cluster.config_rules.with_relevant_settings(),
        min_version=state.min_version,
        batch=state.batch,
        drain_brokers=context.cluster.drain_brokers,
        move_settings=cluster.moves,
    )


def _plan_topic_revert(context: PlanContext, name: str, moved: MovedTopic) -> TopicPlan:
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
        return planner.unreadable_issue(read_error)
    return Issue(Reason.STATE_CONFLICT, "existed, and does not exist now", hint="nothing of it can be moved back")


def _find_topic_conflict(context: PlanContext, topic: TopicState, moved: MovedTopic) -> Issue | None:
    """Return why nothing of an existing topic is moved back; None if its partitions decide."""
    record, owner = topic.valid_record, context.options.owner
    if moved.topic_id and topic.topic_id and moved.topic_id != topic.topic_id:
        message = "was deleted and recreated, so it is a different topic"
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
    """Return the moves back, and a refusal for partitions in flight, and one for those with another list now."""
    lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    requested = {entry.partition for entry in context.state.requested_reassignments if entry.topic == topic.name}
    in_flight = requested.union(topic.reassigning_partitions)
    back, conflicts, issues = [], [], []
    if awaited := [move.partition for move in moves if move.partition in in_flight]:
        message = f"partition {shorten_list(awaited)} is being reassigned now"
        issues.append(Issue(Reason.REASSIGNMENT_IN_PROGRESS, message, hint=_HINT_IN_FLIGHT))
    for move in moves:
        standing = find_standing(move, lists.get(move.partition), None)
        if move.partition in in_flight:
            continue
        if standing is MoveStanding.AFTER:
            back.append(ReplicaMove(topic.name, move.partition, move.after, move.before, move.kinds))
        elif standing is not MoveStanding.BEFORE:
            conflicts.append(_describe_conflict(move, lists.get(move.partition)))
    if conflicts:
        more = f"; {format_count(len(conflicts) - 1, 'more partition')} likewise" if len(conflicts) > 1 else ""
        issues.append(Issue(Reason.STATE_CONFLICT, conflicts[0] + more, hint=_HINT_CONFLICT))
    return tuple(back), tuple(issues)


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
