"""Adds the moves and elections of one topic to its plan, or the refusals that say why it is not moved.

``planning/diff.py`` calls ``find_moves`` first: growth and a higher ``min.insync.replicas`` wait for the moves. The
checks of partition states (leaders, in-sync replicas) need more reads, so ``gate`` makes them later, for the
topics that the plan moves.

Elections of preferred leaders are planned for partitions that another broker leads than the first of their list.

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
from topiarist.kafka import config_rules
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.placement import AssignmentError
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, LeaderChange, MoveKind
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
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, PartitionState, TopicInspection, TopicState
from topiarist.planning.builder import PlanContext, TopicPlanBuilder
from topiarist.planning.risk import assess_elections, assess_moves
from topiarist.text import format_count, shorten_list

# Requirements of moves that a plan checks when it is made, and again when a saved plan is applied.
#
# ``find_move_problem`` calls the functions for a new plan, and ``filters/review.py`` some of them for a saved one.

KINDS_OF_PROTECTED_TOPICS = frozenset({MoveKind.DRAIN, MoveKind.RACKS})
"""The kinds of moves that ``spec.moves.protected`` permits for internal and protected topics."""


def find_missing_throttle(change: MoveReplicas, throttle: int | None) -> Issue | None:
    """Return the refusal of copies for which no throttle is declared; ``UNLIMITED`` is declared too."""
    if not change.copies or throttle is not None:
        return None
    message = f"{format_count(change.copies, 'replica')} to copy, and no throttle is declared"
    hint = "set throttle in spec.moves of the Cluster, such as 50MiB or Unlimited, or pass --throttle"
    return Issue(Reason.THROTTLE_MISSING, message, hint=hint)


def find_low_replica_count(
    change: MoveReplicas, config: Mapping[str, str], settings: Mapping[str, str]
) -> Issue | None:
    """Return the refusal of moves that leave fewer replicas than ``min.insync.replicas``.

    Producers with ``acks=all`` would stop, or, since Kafka 3.7, need fewer replicas than declared. ``config`` has the
    overrides of the topic after the plan, ``settings`` those of the brokers that are known. A value that is not known
    counts as 2 where a partition has three replicas or more.
    """
    lowered = [move for move in change.moves if len(move.after) < len(move.before)]
    if not lowered:
        return None
    fewest, key = min(len(move.after) for move in lowered), "min.insync.replicas"
    text = config.get(key) or config_rules.server_default(key, settings)
    assumed = "2" if text is None and max(len(move.before) for move in lowered) > 2 else text or "1"
    if not is_min_isr_above({key: assumed}, fewest):
        return None
    shown = "not known and may be 2: declare it in brokerConfig of the Cluster" if text is None else text
    message = f"the moves leave {format_count(fewest, 'replica')} for a partition, and {key} is {shown}"
    hint = f"keep {format_count(int(assumed), 'replica')}, or lower {key} first"
    return Issue(Reason.MIN_ISR_ABOVE_REPLICAS, message, ("replicationFactor",), hint)


def find_moves(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add a ``MoveReplicas`` change, or a refusal; nothing if the lists are as they should be."""
    kinds = permitted_kinds(builder, topic.name)
    _refuse_unpermitted_drain(builder, topic, kinds)
    if not kinds:
        return
    targets, is_foreign = find_targets_in_flight(builder.context.state, topic)
    # A partition in flight counts with its target and is not moved; an empty list is a separate error.
    pairs = [
        (partition, targets.get(partition, replicas))
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if replicas and (partition in targets or partition not in topic.reassigning_partitions)
    ]
    partitions, lists = [pair[0] for pair in pairs], tuple(pair[1] for pair in pairs)
    try:
        planned = builder.context.moves.plan_moves(builder.spec, partitions, lists, kinds)
    except AssignmentError as error:
        hint = "add brokers, or set a lower replicationFactor"
        if builder.context.moves.drained:
            hint = f"drain fewer brokers, {hint}"
        builder.add_refusal(Reason.TOO_FEW_BROKERS, str(error), ("replicationFactor",), hint=hint)
        return
    moves = tuple(move for move in planned if move.partition not in targets)
    if not moves:
        return
    change = MoveReplicas(moves, assess_moves(moves))
    if issue := find_move_problem(builder.context, topic, change, builder.spec.config, is_foreign=is_foreign):
        builder.refusals.append(issue._replace(withheld=(change,)))
    else:
        builder.changes.append(change)


def permitted_kinds(builder: TopicPlanBuilder, topic: str) -> frozenset[MoveKind]:
    """Return the kinds of moves of replicas that the Cluster and the Topic allow, and that apply to the topic."""
    kinds, ignored = builder.spec.allowed_moves - {MoveKind.LEADERS}, builder.spec.ignored_fields
    if builder.spec.assignment is not None:
        kinds &= {MoveKind.ASSIGNMENT}
    kinds = without_protected_kinds(builder.context.cluster, topic, kinds)
    if "replicationFactor" in ignored:
        kinds -= {MoveKind.FACTOR}
    if "replicaAssignment" in ignored:
        kinds -= {MoveKind.ASSIGNMENT}
    return kinds


def without_protected_kinds(cluster: ClusterSpec, topic: str, kinds: frozenset[MoveKind]) -> frozenset[MoveKind]:
    """Return ``kinds`` without those that do not apply to the topic because it is internal or protected."""
    if not kinds or not (cluster.internal_owner(topic) or cluster.is_protected(topic)):
        return kinds
    return kinds & KINDS_OF_PROTECTED_TOPICS if cluster.moves.protected else frozenset()


def find_move_problem(
    context: PlanContext, topic: TopicState, change: MoveReplicas, config: Mapping[str, str], *, is_foreign: bool
) -> Issue | None:
    """Return why the moves of a topic must not be made; None if they may.

    ``config`` are the overrides of its manifest. ``is_foreign`` is whether another client reassigns its replicas.
    """
    return (
        _find_obstacle(context, topic, is_foreign=is_foreign)
        or _find_missing_setting(context, change, config)
        or _find_target_problem(context, change)
        or find_low_replica_count(change, {**topic.config, **config}, context.settings)
    )


def _refuse_unpermitted_drain(builder: TopicPlanBuilder, topic: TopicState, kinds: frozenset[MoveKind]) -> None:
    """Refuse a topic that stays on a drained broker because its replicas may not be moved."""
    drained = builder.context.moves.drained
    if not drained or MoveKind.DRAIN in kinds:
        return
    # An explicit list that may be carried out decides which replicas stay. If it adds a drained broker, that is refused
    # as the target of a move.
    final = (builder.spec.assignment if MoveKind.ASSIGNMENT in kinds else None) or topic.replicas
    staying = [
        drained.intersection(present, replicas) for present, replicas in zip(topic.replicas, final, strict=False)
    ]
    held = frozenset[int]().union(*staying)
    if not held:
        return
    count = sum(map(bool, staying))
    message = f"stays on drained broker {_join(held)} with {format_count(count, 'partition')}"
    if builder.spec.assignment is not None:
        hint = "list other brokers in replicaAssignment"
        if MoveKind.ASSIGNMENT not in kinds:
            hint += f", and {describe_permission(builder, MoveKind.ASSIGNMENT)}"
        message += ": its replicaAssignment binds them"
        builder.add_refusal(Reason.EXCLUDED_BROKERS, message, ("replicaAssignment",), hint=hint)
    elif builder.internal_owner or builder.context.cluster.is_protected(topic.name):
        _refuse_protected_drain(builder, f"{message}: protected topics are not moved")
    else:
        _refuse_drain(builder, message)


def _refuse_protected_drain(builder: TopicPlanBuilder, message: str) -> None:
    steps = [] if builder.context.cluster.moves.protected else ["set spec.moves.protected: true in the Cluster"]
    if MoveKind.DRAIN not in builder.spec.allowed_moves:
        steps.append(describe_permission(builder, MoveKind.DRAIN))
    origin = builder.context.cluster_origin("moves", "protected")
    builder.add_refusal(Reason.PROTECTED_TOPIC, message, hint=", and ".join(steps), origin=origin)


def _refuse_drain(builder: TopicPlanBuilder, message: str) -> None:
    """Refuse the moves of a drain; the location is that of the permission, in the Topic or in the Cluster."""
    reason, hint = Reason.MOVE_NOT_ALLOWED, describe_permission(builder, MoveKind.DRAIN)
    if find_forbidding_document(builder, MoveKind.DRAIN) == "Topic":
        builder.add_refusal(reason, message, ("moves", "allow"), hint=hint)
    else:
        builder.add_refusal(reason, message, hint=hint, origin=builder.context.cluster_origin("moves", "allow"))


def describe_permission(builder: TopicPlanBuilder, kind: MoveKind) -> str:
    """Return the advice to allow a kind of move, with its document: ``allow Drain in spec.moves of the Cluster``."""
    return f"allow {kind.value} in spec.moves of the {find_forbidding_document(builder, kind)}"


def find_forbidding_document(builder: TopicPlanBuilder, kind: MoveKind) -> str:
    """Return the kind of document that does not allow a kind of move."""
    return "Topic" if kind in builder.context.cluster.moves.allow else "Cluster"


def find_targets_in_flight(state: ClusterState, topic: TopicState) -> tuple[Mapping[int, Replicas], bool]:
    """Return the targets of the partitions that topiarist's last batch moves, and whether others are in flight.

    The lists are compared by value with the record of the batch. Partitions that another client moves have no known
    target.
    """
    requested = {entry.partition for entry in state.requested_reassignments if entry.topic == topic.name}
    in_flight = requested.union(topic.reassigning_partitions)
    if topic.name in state.stale_reassignments or (topic.name in state.reassigning_topics and not requested):
        return {}, True
    if not in_flight or state.batch is None:
        return {}, bool(in_flight)
    wanted = {entry.partition: entry.replicas for entry in state.requested_reassignments if entry.topic == topic.name}
    lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
    targets = {
        move.partition: move.after
        for move in state.batch.moves
        if move.topic == topic.name and move.partition in in_flight
        if wanted.get(move.partition, move.after) == move.after
        if lists.get(move.partition) in (move.before, move.in_flight, move.after)
    }
    return targets, not in_flight <= targets.keys()


def _find_obstacle(context: PlanContext, topic: TopicState, *, is_foreign: bool) -> Issue | None:
    """Return why the topic's own state, or the brokers, forbid every move."""
    state, missing = context.state, context.placer.missing_brokers
    if not topic.has_contiguous_partitions or () in topic.replicas:
        found = shorten_list(topic.partition_ids)
        message = f"found partition ids {found}, and {topic.replicas.count(())} without replicas: nothing is moved"
        return Issue(Reason.PARTITIONS_MALFORMED, message, hint="fix the topic with Kafka's own tools first")
    if is_foreign:
        message = "its replicas are being reassigned already, so nothing else of it is moved"
        return Issue(Reason.REASSIGNMENT_IN_PROGRESS, message, hint="run again when the reassignment is done")
    if topic.topic_id is None and state.assigns_topic_ids:
        message = "the controller has not initialized the topic yet: no id is assigned"
        return Issue(Reason.NOT_INITIALIZED, message, hint="run again later; see docs/reasons.md, NotInitialized")
    if topic.unknown_fields:
        names = ", ".join(topic.unknown_fields)
        message = f"its entry has fields that the controller would remove with a move: {names}"
        return Issue(Reason.UNKNOWN_FIELDS, message, hint="move its replicas with the vendor's own tool")
    if missing:
        message = f"broker {_join(missing)} holds replicas but is not registered: a move could wait for it forever"
        hint = "wait until it is registered again, or drain it: drainBrokers of the Cluster, or --drain-brokers"
        return Issue(Reason.BROKERS_MISSING, message, hint=hint)
    return None


def _find_missing_setting(context: PlanContext, change: MoveReplicas, config: Mapping[str, str]) -> Issue | None:
    throttle = context.cluster.moves.throttle
    if not change.copies or throttle is None:
        issue = find_missing_throttle(change, throttle)
        return issue and issue._replace(cause_origin=context.cluster_origin("moves", "throttle"))
    if throttle != UNLIMITED and (keys := sorted(THROTTLE_CONFIGS & config.keys())):
        message = f"{keys[0]}: the manifest sets it, and a throttled move must set it too"
        hint = "remove it from the manifest; moves set it and put back what was there"
        return Issue(Reason.THROTTLE_DECLARED, message, ("config", keys[0]), hint=hint)
    return None


def _find_target_problem(context: PlanContext, change: MoveReplicas) -> Issue | None:
    """Return why an explicit list cannot be made: only registered brokers that may take replicas can be added."""
    added = {broker for move in change.moves for broker in move.added}
    able = {broker.id for broker in context.placer.eligible_brokers}
    if added <= able:
        return None
    path, registered = ("replicaAssignment",), {broker.id for broker in context.state.brokers}
    if unknown := added - registered:
        known = _join(registered) or "none"
        message = f"broker {_join(unknown)} is not registered; registered: {known}"
        return Issue(Reason.UNKNOWN_BROKERS, message, path, "list registered brokers")
    message = f"broker {_join(added - able)} takes no replicas (drainBrokers, excludeBrokers or --without-brokers)"
    return Issue(Reason.EXCLUDED_BROKERS, message, path, "list other brokers, or change the exclusion")


def _join(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


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
