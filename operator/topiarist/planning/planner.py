"""Makes the plan: the changes from the actual to the desired state of a cluster, and the refusals.

``plan_topic`` plans one topic, ``make_plan`` all topics of a cluster. Both are pure: the same spec, state and options
give the same plan, to the byte. A desired change that is not made becomes an ``Issue`` with a reason, never an
exception; all other changes are still made. ::

    topic on the cluster?   ownership record?   difference?     result
    no                      no                  -               create
    no                      yes                 -               refused (DeletedExternally) unless --recreate
    yes                     no, or stale        no              adopt
    yes                     no, or stale        yes             refused (NotAdopted) unless --adopt
    yes                     another owner's     -               refused (NotOwned) unless --take-ownership
    yes                     the run's owner     no              nothing
    yes                     the run's owner     yes             add partitions, update config

``diff`` plans topics that do not exist and compares the fields of existing topics, and ``builder`` reports problems
that no change fixes; ``filters`` removes changes. ``reconcile``, the operator and ``drift`` call this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka import types
from topiarist.kafka.config_rules import ConfigRules, server_default
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.outcome import DELETION_DISABLED_MESSAGE, blocking_reason, build_topic_progress
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    ImpliedTopic,
    Issue,
    MoveReplicas,
    Plan,
    RunOptions,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    config_after,
    describe_external_changes,
    partitions_after,
    record_after,
    record_without_changes,
    withhold,
)
from topiarist.model.spec import ClusterSpec, TopicSize, TopicSpec
from topiarist.model.state import (
    ClusterState,
    OwnershipRecord,
    ReadError,
    SizeLimit,
    SizeScope,
    SizeWeights,
    TopicState,
    WriteBlock,
)
from topiarist.planning import diff
from topiarist.planning.builder import (
    HINT_PROTECTED_TOPIC,
    NAMED_BY_REQUEST,
    PlacedByBrokers,
    PlanContext,
    ReplicaPlacer,
    TopicPlanBuilder,
    explain_stale_entry,
    find_problems,
    make_move_refusal,
)
from topiarist.planning.diff import limit_cuts, plan_creation
from topiarist.planning.moves.planner import MovePlanner
from topiarist.planning.risk import assess_deletion
from topiarist.text import format_count, printable

# Limits the sizes that a plan increases: what a cluster takes as a whole, for one topic, or for one change.
#
# A cluster that has to take more than it can may answer nothing useful any more, or nothing at all. Therefore sizes are
# computed before anything is written, with the limits that the adapter gives. ``planner`` calls
# ``enforce_size_limits``, and a writer calls it again before writing.

_CACHE_SIZE = 1 << 14
"""Number of cached sizes; the topics of a cluster share few replica lists."""


def measure_partitions(weights: SizeWeights, lists: Sequence[types.Replicas], first_partition: int = 0) -> int:
    """Return the size of replica lists; ``first_partition`` is the id of the first partition."""
    size = weights.partition * len(lists)
    if weights.digit:
        size += weights.digit * (_count_id_digits(first_partition, len(lists)) + sum(map(_count_digits, lists)))
    if weights.separator:
        size += weights.separator * sum(len(replicas) - 1 for replicas in lists if replicas)
    return size


@lru_cache(maxsize=_CACHE_SIZE)
def _count_id_digits(first_partition: int, count: int) -> int:
    return sum(len(str(partition)) for partition in range(first_partition, first_partition + count))


@lru_cache(maxsize=_CACHE_SIZE)
def _count_digits(replicas: types.Replicas) -> int:
    return sum(len(str(broker)) for broker in replicas)


def measure_change(weights: SizeWeights, topic: str, change: Change) -> int:
    """Return what ``change`` adds to a size."""
    match change:
        case CreateTopic(replicas, config):
            fixed = weights.new_topic + weights.name_character * len(topic) + weights.config * len(config)
            return fixed + measure_partitions(weights, replicas)
        case AddPartitions(before=before, replicas=replicas):
            return measure_partitions(weights, replicas, before)
        case UpdateConfig(items):
            return weights.config_update + weights.config * len(items)
    return 0


def enforce_size_limits(topics: Iterable[TopicPlan], limits: Sequence[SizeLimit]) -> tuple[list[TopicPlan], list[str]]:
    """Return the plans without changes that would not fit, and warnings.

    A change that does not fit is refused, with numbers; it leaves its space to later changes. A warning names a size
    that is above the warned share of its limit after the plan.
    """
    kept = []
    for topic in topics:
        plan, limits = _fit_topic(topic, limits) if topic.is_actionable else (topic, limits)
        kept.append(plan)
    return kept, [
        f"{limit.what}: {_fill(limit.warning, limit, limit.used)}"
        for limit in limits
        if limit.warned_share is not None and limit.used > limit.maximum * limit.warned_share
    ]


def _fit_topic(topic: TopicPlan, limits: Sequence[SizeLimit]) -> tuple[TopicPlan, Sequence[SizeLimit]]:
    """Return the topic with the changes that fit, and the limits with what these use."""
    for change in topic.changes:
        after = []
        for limit in limits:
            added = measure_change(limit.weights, topic.topic, change)
            used = _size_before(topic, limit) + added
            if added and used > limit.maximum * limit.refused_share:
                topic = withhold(topic, (change,), _build_issue(limit, used))
                break
            after.append(replace(limit, used=used) if limit.scope is SizeScope.CLUSTER and added else limit)
        else:
            limits = after
    return topic, limits


def _build_issue(limit: SizeLimit, used: int) -> Issue:
    own = f"{limit.what} of the cluster has no room for it" if limit.scope is SizeScope.CLUSTER else ""
    return Issue(limit.reason, _fill(limit.refusal, limit, used), hint=limit.hint, own_message=own)


def _size_before(topic: TopicPlan, limit: SizeLimit) -> int:
    if limit.scope is SizeScope.CLUSTER:
        return limit.used
    if limit.scope is SizeScope.TOPIC and topic.before:
        return measure_partitions(limit.weights, topic.before.replicas)
    return 0


def _fill(text: str, limit: SizeLimit, used: int) -> str:
    return text.replace("{used}", f"{used:,}").replace("{maximum}", f"{limit.maximum:,}")


# Find the topics that the first write through brokers makes beside those of its plan.
#
# Topiarist makes the topic of its records. It writes them in transactions, and Kafka makes the topic of the
# transactions when the first client begins one. Both are made once for a cluster, so a plan names them only until they
# exist.

PARTITIONS_SETTING, FACTOR_SETTING = "transaction.state.log.num.partitions", "transaction.state.log.replication.factor"
"""The settings of the brokers for the topic of transactions, which an adapter reads while it does not exist."""

_DEFAULTS = {PARTITIONS_SETTING: "50", FACTOR_SETTING: "3"}


def find_implied_topics(state: ClusterState, cluster: ClusterSpec) -> tuple[ImpliedTopic, ...]:
    """Return the topics that the first write to a cluster makes; none through ZooKeeper, and of those that exist.

    Once there are records there were transactions, whether the brokers show their topic or not.
    """
    records = cluster.kafka.records if cluster.kafka else DEFAULT_RECORDS_TOPIC
    if state.bypasses_brokers or records is None or state.records_topic_id:
        return ()
    settings = {**_DEFAULTS, **state.broker_defaults}
    partitions, factor = int(settings[PARTITIONS_SETTING]), int(settings[FACTOR_SETTING])
    found = (
        ImpliedTopic(records.name, 1, min(records.replication_factor, len(state.brokers)), "topiarist", "its records"),
        ImpliedTopic(types.TRANSACTIONS_TOPIC, partitions, factor, "Kafka", "the transactions of these records"),
    )
    return tuple(each for each in found if each.name not in state.topics and each.name not in state.topic_errors)


# Warnings about drained brokers that are not empty after the plan, or that return with old logs.
#
# A refused topic says by itself that it stays on a drained broker. Topics without a manifest are in no plan, so their
# replicas are only counted.


def find_drain_warnings(
    state: ClusterState, drained: Collection[int], declared: Collection[str], plans: Iterable[TopicPlan]
) -> Iterator[str]:
    """Yield a warning for each drained broker that topics without a manifest stay on, or that is not registered.

    ``declared`` are the topics with a manifest, ``plans`` those of them that are not as declared.
    """
    if not drained:
        return
    registered = {broker.id for broker in state.brokers}
    left = {broker for topic in plans if topic.is_actionable for move in topic.moves() for broker in move.removed}
    others = [
        topic for name, topic in state.topics.items() if name not in declared and name not in state.pending_deletions
    ]
    for broker in sorted(drained):
        counts = [sum(replicas.count(broker) for replicas in topic.replicas) for topic in others]
        if replicas := sum(counts):
            topics = format_count(sum(map(bool, counts)), "topic")
            yield f"drained broker {broker} keeps {format_count(replicas, 'replica')} of {topics} without a manifest"
        if broker in left and broker not in registered:
            # Kafka's controller asks a broker once to delete a log, and not again when an offline broker is back.
            yield (
                f"drained broker {broker} is not registered: the logs of the replicas that leave it stay on its disk; "
                "delete them before it comes back"
            )


HINT_AFTER_DELETION = "run again when the controller has deleted it"


def unreadable_issue(read_error: ReadError) -> Issue:
    """Return the refusal of a topic that cannot be read."""
    message = f"{read_error.path}: {read_error.message}"
    return Issue(
        Reason.TOPIC_UNREADABLE, message, hint="make it readable; topiarist writes nothing to the topic until then"
    )


def make_plan(state: ClusterState, cluster: ClusterSpec, specs: Iterable[TopicSpec], options: RunOptions) -> Plan:
    """Return the plan for one cluster.

    With a selection in ``options`` other topics may have manifests, so that no warning is about a topic without a spec.
    No two ``specs`` have the same name or names that collide; ``desired`` makes sure of that.
    """
    context = make_plan_context(state, cluster, options)
    cluster = context.cluster
    plans, unchanged, declared = [], 0, set()
    # By name: where a topic's moves go depends on the moves of the topics before it.
    for spec in sorted(specs, key=lambda spec: spec.topic):
        declared.add(spec.topic)
        plan = plan_topic(spec, context)
        if plan.changes or plan.refusals:
            plans.append(plan)
        else:
            unchanged += 1
            if plan.notices:
                plans.append(plan)
    if why := context.placer.by_brokers.creations:
        refusal = make_move_refusal(why)
        plans = [
            withhold(plan, [change for change in plan.changes if isinstance(change, MoveReplicas)], refusal)
            for plan in plans
        ]
    plans, warnings = enforce_size_limits(plans, state.size_limits)
    plans = apply_write_block(plans, state.write_block)
    by_brokers = _describe_placement(plans, context.placer.by_brokers)
    return Plan(
        cluster=cluster.name,
        cluster_id=state.cluster_id,
        chroot=state.chroot,
        owner=options.owner,
        brokers=state.brokers,
        topics=tuple(plans),
        unchanged=unchanged,
        unselected=sum(name in state.topics for name in options.unselected),
        orphans=() if options.selection else _find_orphans(state, options, declared),
        warnings=(
            *state.warnings,
            *_find_cluster_warnings(state, cluster, context.rules),
            *_find_unknown_brokers(state, options),
            *_batch_warnings(state),
            *([f"the brokers place new replicas: {by_brokers}"] if by_brokers and not cluster.placement else ()),
            *(() if options.selection else find_drain_warnings(state, cluster.drain_brokers, declared, plans)),
            *warnings,
            *_bypass_warnings(state, plans),
            *_deletion_warnings(state, plans),
            *(() if cluster.keeps_records else (WARNING_NO_RECORDS,)),
            *((f"only topics selected by {options.selection} were compared",) if options.selection else ()),
        ),
        sizes=_measure_topics(state, options, declared),
        default_retention_bytes=server_default("retention.bytes", context.settings),
        load=context.placer.current_load() if any(plan.placed_brokers() or plan.moves() for plan in plans) else {},
        write_block=state.write_block,
        config_rules=context.rules.with_relevant_settings(),
        min_version=state.min_version,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
        batch=state.batch,
        bypasses_brokers=state.bypasses_brokers,
        keeps_records=cluster.keeps_records,
        implied=find_implied_topics(state, cluster),
        drain_brokers=cluster.drain_brokers,
        move_settings=cluster.moves,
        evidence=state.evidence,
        usage={plan.topic: state.usage[plan.topic] for plan in plans if plan.topic in state.usage},
        placed_by_brokers=by_brokers,
        capabilities=state.capabilities,
    )


def _describe_placement(plans: Iterable[TopicPlan], by_brokers: PlacedByBrokers) -> str:
    """Return why the cluster places replicas of a plan; empty if it places none."""
    unplaced = [plan for plan in plans if types.are_unplaced(plan.new_replicas())]
    whys = (by_brokers.growth if plan.before else by_brokers.creations for plan in unplaced)
    return "; ".join(dict.fromkeys(whys))


def plan_topic(spec: TopicSpec, context: PlanContext) -> TopicPlan:
    """Return the changes, refusals and notices of one topic."""
    state, name = context.state, spec.topic
    builder = TopicPlanBuilder(spec, context)
    if read_error := state.topic_errors.get(name):
        builder.refusals.append(unreadable_issue(read_error))
        return _build_topic_plan(builder, None, None)
    topic = state.topics.get(name)
    record = state.record_of(name)
    # Checked before ``topic``: the deletion request can outlive the topic for a moment.
    if name in state.pending_deletions:
        if spec.absent:
            why = blocking_reason(build_topic_progress(state, name))
            builder.add_notice(Reason.DELETION_IN_PROGRESS, f"marked for deletion: {why}")
        else:
            builder.add_refusal(Reason.DELETION_IN_PROGRESS, "is marked for deletion", hint=HINT_AFTER_DELETION)
    elif topic is None:
        plan_creation(builder, record)
    elif spec.absent:
        _plan_deletion(builder, topic)
    else:
        _plan_existing(builder, topic)
    return _build_topic_plan(builder, topic, record)


def plan_without_specs(
    state: ClusterState, cluster: str, owner: str, topics: Iterable[TopicPlan], warnings: tuple[str, ...] = ()
) -> Plan:
    """Return the plan of a command that releases or nudges topics.

    If the cluster has a write block, all changes are refused.
    """
    return Plan(
        cluster=cluster,
        cluster_id=state.cluster_id,
        chroot=state.chroot,
        owner=owner,
        brokers=state.brokers,
        topics=tuple(apply_write_block(topics, state.write_block)),
        warnings=warnings,
        write_block=state.write_block,
        config_rules=ConfigRules().for_cluster(state.mode, state.known_configs),
        bypasses_brokers=state.bypasses_brokers,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
    )


def make_plan_context(
    state: ClusterState, cluster: ClusterSpec, options: RunOptions, replica_holders: frozenset[int] | None = None
) -> PlanContext:
    """Return the facts that all topics of a plan share.

    If ``state`` has only some topics of a cluster, ``replica_holders`` are the brokers that hold replicas of any
    remaining topic.
    """
    cluster = replace(cluster, drain_brokers=cluster.drain_brokers | options.drain_brokers)
    placer = ReplicaPlacer(state, cluster, options.without_brokers, options.allow_unknown_brokers, replica_holders)
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    settings = rules.merge_dynamic_settings(state.broker_defaults)
    by_metric_name = types.index_by_metric_name(chain(state.topics, state.topic_errors))
    count_lists = (lambda: placer.replica_list_counts) if replica_holders is None else None
    moves = MovePlanner(cluster, state.brokers, placer.excluded_brokers, count_lists)
    return PlanContext(state, cluster, options, placer, moves, rules, settings, by_metric_name)


def _build_topic_plan(builder: TopicPlanBuilder, topic: TopicState | None, record: OwnershipRecord | None) -> TopicPlan:
    """Return the topic plan of ``builder``, with the ownership record after it.

    If only the ownership record changes, the plan has a ``TakeOwnership`` change.
    """
    spec, owner = builder.spec, builder.context.options.owner
    after = record
    if not builder.context.cluster.keeps_records:
        after = None
    elif builder.changes and isinstance(builder.changes[0], DeleteTopic):
        after = OwnershipRecord(owner, deleted=True)
    elif builder.changes and isinstance(builder.changes[0], CreateTopic):
        after = record_after(owner, spec, builder.changes[0].config, len(builder.changes[0].replicas), None)
    elif (
        topic is not None
        and not spec.absent
        and _NO_RECORD_REASONS.isdisjoint([refusal.reason for refusal in builder.refusals])
    ):
        config = config_after(topic.config, builder.changes) if builder.changes else topic.config
        partitions = partitions_after(len(topic.replicas), builder.changes)
        find_record = record_after if builder.changes else record_without_changes
        after = find_record(owner, spec, config, partitions, topic.valid_record)
        if not builder.changes and after != topic.valid_record:
            builder.changes.append(TakeOwnership())
    if topic is not None:
        _warn_of_state_topic(builder, topic)
    return TopicPlan(
        topic=spec.topic,
        before=topic,
        record_before=record,
        record_after=after,
        changes=tuple(builder.changes),
        refusals=tuple(builder.refusals),
        notices=tuple(builder.notices),
        observe_only=spec.observe_only,
        spec=spec,
        co_partition_group=spec.co_partition_group,
    )


def _warn_of_state_topic(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add a notice if the plan takes or changes a topic that looks like the state of other software.

    A name that its owner chose, such as "kc-prod-offsets", matches none of the patterns of protected topics.
    """
    context = builder.context
    touched = builder.changes or any(refusal.withheld for refusal in builder.refusals)
    policy = topic.config.get("cleanup.policy") or server_default("cleanup.policy", context.settings) or ""
    if (
        touched
        and topic.name.lower().endswith(types.STATE_TOPIC_ENDINGS)
        and len(topic.replicas) == 1
        and "compact" in policy
        and not builder.internal_owner
        and not context.cluster.is_protected(topic.name)
    ):
        message = "compacted, with one partition, and named like a topic in which Kafka Connect or Debezium keeps its"
        message += " own state: if that is so, add its name to Cluster.spec.protected and remove its manifest"
        builder.add_notice(Reason.MAY_NEED_PROTECTION, message)


# A topic that was refused for one of these reasons is not the run's own, so its record stays as it is.
_NO_RECORD_REASONS = frozenset(
    {Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.DELETION_IN_PROGRESS, Reason.DELETION_DISABLED}
)


def _plan_existing(builder: TopicPlanBuilder, topic: TopicState) -> None:
    run, record = builder.context.options, topic.valid_record
    _notice_stale_record(builder, topic)
    if record and record.owner != run.owner and not run.may_take_ownership(topic.name):
        builder.refuse_other_owner(record)
        return
    if record and topic.modified_externally:
        message = describe_external_changes(record, topic.config, builder.context.is_ignored)
        builder.add_notice(Reason.MODIFIED_EXTERNALLY, message, ("config",))
    builder.spec, steps = limit_cuts(builder.spec, topic, builder.context)
    diff.find_changes(builder, topic)
    builder.notices += steps
    find_problems(builder, topic)
    # An adoption without a difference changes only the record, so it needs no permission.
    differs = bool(builder.changes or builder.refusals) and builder.context.cluster.keeps_records
    if record is None and differs and not builder.spec.observe_only and not run.may_adopt(topic.name):
        withheld, builder.changes = tuple(builder.changes), []
        message = "exists, has no ownership record, and differs from its spec"
        hint = f"to adopt and change it, pass --adopt={topic.name}, or --adopt='*' for all topics"
        if builder.context.state.records_error.reason:
            message, hint = "differs from its spec, and its ownership record cannot be read", _HINT_UNREAD_RECORDS
        builder.add_refusal(Reason.NOT_ADOPTED, message, hint=builder.internal_hint or hint, withheld=withheld)


_HINT_UNREAD_RECORDS = "plan again when the records can be read"

STALE_RECORD_MESSAGE = "its ownership record belongs to an earlier topic of this name, so it has no effect"


def _notice_stale_record(builder: TopicPlanBuilder, topic: TopicState) -> None:
    if topic.record and not topic.record_valid:
        builder.add_notice(Reason.STALE_OWNERSHIP_RECORD, STALE_RECORD_MESSAGE)


def _plan_deletion(builder: TopicPlanBuilder, topic: TopicState) -> None:
    # Only an ownership record from before this run allows a deletion; a deletion never takes ownership.
    record, owner, state = topic.valid_record, builder.context.options.owner, builder.context.state
    _notice_stale_record(builder, topic)
    if internal_owner := builder.internal_owner:
        builder.refuse_internal(f"topiarist does not delete {internal_owner}'s own topics", ("ensure",))
        return
    if builder.context.cluster.is_protected(topic.name):
        reason, hint = Reason.PROTECTED_TOPIC, HINT_PROTECTED_TOPIC
        message = "belongs to other software, so topiarist does not delete it"
    elif record is None and builder.context.cluster.keeps_records:
        reason, hint = Reason.NOT_ADOPTED, "adopt it first (ensure: Present), then delete it"
        message = "had no ownership record before this run, so topiarist does not delete it"
        if state.records_error.reason:
            message, hint = "its ownership record cannot be read, so topiarist does not delete it", _HINT_UNREAD_RECORDS
    elif record is not None and record.owner != owner:
        reason = Reason.NOT_OWNED
        hint = f"leave it to its owner, or take ownership first (ensure: Present, --take-ownership={topic.name})"
        message = f"belongs to owner {record.owner}, this run is {owner}: it is not deleted"
    elif record is not None and record.deleted:
        # With delete.topic.enable=false a controller in ZooKeeper mode removes the request and keeps the topic.
        reason = Reason.DELETION_DISABLED
        hint = "keep the topic (ensure: Present, or unmanage it); or set delete.topic.enable=true on the brokers, "
        hint += "apply ensure: Present once, and then ensure: Absent again"
        message = DELETION_DISABLED_MESSAGE
    elif topic.name in state.stale_reassignments:
        reason = Reason.REASSIGNMENT_IN_PROGRESS
        message, hint = explain_stale_entry(topic_exists=True)
    elif topic.name in state.reassigning_topics:
        reason, hint = Reason.REASSIGNMENT_IN_PROGRESS, "run again when the reassignment is done"
        message = f"{NAMED_BY_REQUEST}: its entry would remain, and move a later topic of this name"
    else:
        partitions, replicas = len(topic.replicas), sum(map(len, topic.replicas))
        builder.changes.append(DeleteTopic(partitions, replicas, assess_deletion(partitions, replicas)))
        return
    builder.add_refusal(reason, message, ("ensure",), hint=hint)


def apply_write_block(plans: Iterable[TopicPlan], write_block: WriteBlock) -> list[TopicPlan]:
    """Return the plans; a write block of the cluster turns all changes into refusals.

    The cluster may be frozen, or its controller may change, after this check and before a write. Therefore an adapter
    checks both again with each write, as far as it can.
    """
    if write_block.reason is None:
        return [*plans]
    issue = Issue(write_block.reason, write_block.message)
    return [withhold(plan, plan.changes, issue) if plan.is_actionable else plan for plan in plans]


def _find_orphans(state: ClusterState, options: RunOptions, declared: set[str]) -> tuple[str, ...]:
    return tuple(
        sorted(
            name
            for name, topic in state.topics.items()
            if (record := topic.valid_record) and record.owner == options.owner and name not in declared
            if name not in state.pending_deletions
        )
    )


def _measure_topics(state: ClusterState, options: RunOptions, declared: Collection[str]) -> dict[str, TopicSize]:
    """Return the sizes of the topics with manifests, selected or not, and of those of the run's owner."""
    return {
        name: TopicSize(len(topic.replicas), topic.config.get("retention.bytes"))
        for name, topic in sorted(state.topics.items())
        if name in declared
        or name in options.unselected
        or ((record := topic.valid_record) and record.owner == options.owner)
    }


def _find_cluster_warnings(state: ClusterState, cluster: ClusterSpec, rules: ConfigRules) -> Iterable[str]:
    if cluster.cluster_id == "" and cluster.source is not None:
        yield f"no clusterId guards this cluster; add to spec: clusterId: {state.cluster_id}"
    if cluster.version is not None and cluster.version < state.min_version:
        declared, oldest = types.format_version(cluster.version), types.format_version(state.min_version)
        yield f"kafkaVersion is {declared}, but the metadata of the cluster needs {oldest} or later"
    elif conflict := rules.version_conflict():
        yield conflict


def _find_unknown_brokers(state: ClusterState, options: RunOptions) -> Iterable[str]:
    # Probably a typing error: the broker that was meant would still get replicas, or keep its own.
    named = options.without_brokers | options.drain_brokers
    unknown = named.difference((broker.id for broker in state.brokers), state.fenced_brokers)
    if unknown:
        holders = {broker for topic in state.topics.values() for replicas in topic.replicas for broker in replicas}
        for broker in sorted(unknown - holders):
            option = "--without-brokers" if broker in options.without_brokers else "--drain-brokers"
            yield f"{option} {broker}: this broker is not registered and has no replica"


def _batch_warnings(state: ClusterState) -> Iterable[str]:
    # A run that ended early leaves them; the controller finishes the batch, and the next run puts the throttles back.
    batch = state.batch
    if batch is None:
        return
    partitions = {(move.topic, move.partition) for move in batch.moves}
    left = sum((entry.topic, entry.partition) in partitions for entry in state.requested_reassignments)
    name = f"batch {batch.batch} of {batch.batches} of moves by owner {printable(batch.owner)}"
    if left:
        waits = "an apply of that owner waits for it, after its other changes"
        yield f"{name} is in progress: {format_count(left, 'partition')} left; {waits}"
    elif batch.throttles:
        yield f"{name} is done, and its throttles are still set: the next apply of that owner puts them back"
    else:
        yield f"{name} is done, and its record is still there: the next apply of that owner deletes it"


def _deletion_warnings(state: ClusterState, plans: Sequence[TopicPlan]) -> Iterable[str]:
    by_id = state.capabilities.deletion_by_id
    changes = chain.from_iterable(plan.changes for plan in plans if plan.is_actionable)
    if by_id.is_missing and any(isinstance(change, DeleteTopic) for change in changes):
        yield (
            "topics are deleted by name: apply compares the id of each directly before, and would delete a topic that"
            f" is deleted and recreated in between ({by_id.why})"
        )


WARNING_NO_RECORDS = (
    "without records (spec.kafka.records: None): each topic with a manifest counts as managed; there is no lock, no"
    " owner and no freeze, and nothing is removed by omission (docs/why-trust-it.md)"
)


def _bypass_warnings(state: ClusterState, plans: Sequence[TopicPlan]) -> Iterable[str]:
    if not state.bypasses_brokers:
        return
    changes = chain.from_iterable(plan.changes for plan in plans if plan.is_actionable)
    if any(isinstance(change, CreateTopic | AddPartitions | UpdateConfig) for change in changes):
        yield "written to ZooKeeper directly: the brokers' topic and config policies, ACLs and quotas are not checked"
