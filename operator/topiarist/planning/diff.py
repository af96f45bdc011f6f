"""Plans the changes of one topic: its creation, or its differences from the spec, field by field.

``planner`` decides whether a topic may be changed at all, and calls ``plan_creation`` or ``find_changes``.
``COMPARED_FIELDS`` is the one definition of equal: plans and drift reports compare the fields of that table, and no
others. The function of a field adds to a ``TopicPlanBuilder``: a change, a refusal, or a notice (for fields in
``ignore``).

A new field is one row of the table; if it needs a part of a topic that no row has, also a ``TopicPart``, its value in
``_read_part``, and a call of ``is_part_equal`` in ``drift.equality``. The tests of that module fail for a field
of a spec or a topic that has no place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka import config_rules
from topiarist.kafka.config_rules import is_min_isr_above, server_default
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import add_unit, has_equivalent_value, java_trim, parse_integer
from topiarist.kafka.types import LONG_MAX, are_unplaced, has_collision_chars, metric_name
from topiarist.model.moves import MoveKind
from topiarist.model.plan import AddPartitions, ConfigItem, CreateTopic, Issue, TopicPlan, UpdateConfig, config_after
from topiarist.model.spec import TopicSpec
from topiarist.model.state import OwnershipRecord, TopicState, describe_malformed_partitions, find_replication_factors
from topiarist.planning.builder import (
    HINT_MIN_ISR,
    HINT_PROTECTED_TOPIC,
    PlanContext,
    TopicPlanBuilder,
    explain_stale_entry,
    min_replica_count,
    version_hint,
    version_warning,
)
from topiarist.planning.moves.topic import describe_permission, find_forbidding_document, find_moves, permitted_kinds
from topiarist.planning.risk import assess_config, assess_growth, reassess
from topiarist.text import format_count

# Plans the creation of a topic: whether it is possible, on which brokers, and with which config.
#
# ``planner`` calls ``plan_creation`` for a topic that the cluster does not have. It adds a ``CreateTopic`` to the
# builder, or a refusal.


def plan_creation(builder: TopicPlanBuilder, record: OwnershipRecord | None) -> None:
    """Plan to create a topic that the cluster does not have.

    Adds a refusal if the creation is not possible or not allowed.
    """
    run = builder.context.options
    if builder.spec.absent:
        return
    if record and record.owner != run.owner and not run.may_take_ownership(builder.spec.topic):
        builder.refuse_other_owner(record)
        return
    # Built first, so that a refusal can show the withheld change.
    create = _build_creation(builder)
    if record and not record.deleted and not run.may_recreate(builder.spec.topic):
        builder.add_refusal(
            Reason.DELETED_EXTERNALLY,
            "was deleted by another client; a recreated topic would be empty",
            hint=f"to recreate it, pass --recreate={builder.spec.topic}; to give it up, remove its manifest",
            withheld=(create,) if create else (),
        )
    elif create:
        builder.changes.append(create)


def _build_creation(builder: TopicPlanBuilder) -> CreateTopic | None:
    """Return the change that creates the topic; None after a refusal was added."""
    spec, context = builder.spec, builder.context
    if owner := builder.internal_owner:
        builder.refuse_internal(f"{owner} creates this topic itself when it needs it")
        return None
    # Kafka replaces "." by "_" in the names of metrics, so a.b and a_b would share their metrics.
    other = context.topics_by_metric_name.get(metric_name(spec.topic)) if has_collision_chars(spec.topic) else None
    if other:
        message = f"collides with the topic {other}: Kafka does not distinguish . and _ in metric names"
        builder.add_refusal(Reason.NAME_COLLISION, message, hint="choose another topicName")
        return None
    if spec.topic in context.state.reassigning_topics:
        stale_entry = explain_stale_entry(topic_exists=False)
        builder.add_refusal(Reason.REASSIGNMENT_IN_PROGRESS, stale_entry.message, hint=stale_entry.hint)
        return None
    replicas = context.placer.place_topic(spec)
    if isinstance(replicas, Issue):
        builder.refusals.append(replicas)
        return None
    builder.notice_ignored_configs()
    config = {key: text for key, text in sorted(spec.config.items()) if not context.is_ignored(key)}
    create = CreateTopic(replicas, config)
    return None if _refuse_config(builder, create) else create


def _refuse_config(builder: TopicPlanBuilder, create: CreateTopic) -> bool:
    """Refuse the creation if the cluster cannot take its config; return whether it is refused."""
    context, config, replica_count = builder.context, create.config, len(create.replicas[0])
    rules, min_version = context.rules, context.state.min_version
    if too_new := {key: message for key in config if (message := version_warning(rules, key, min_version))}:
        path, message = ("config", next(iter(too_new))), "; ".join(too_new.values())
        builder.add_refusal(Reason.CONFIG_TOO_NEW, message, path, hint=version_hint(rules), withheld=(create,))
        return True
    if builder.refuse_invalid_config(config, create):
        return True
    if is_min_isr_above(config, replica_count, context.oldest_version):
        path = ("config", "min.insync.replicas")
        message = f"min.insync.replicas {config['min.insync.replicas']} with {format_count(replica_count, 'replica')}"
        builder.add_refusal(Reason.MIN_ISR_ABOVE_REPLICAS, message, path, hint=HINT_MIN_ISR, withheld=(create,))
        return True
    return False


# Limits a cut of retention to one step, if the cluster has ``spec.retentionStep``.
#
# Brokers delete all segments beyond a shorter retention within minutes, and nothing brings them back. In steps a
# mistake costs a part of the data, and disks are not busy with deletions alone. ``planner`` calls ``limit_cuts`` before
# it compares the topic: for this run the spec asks for the step. The next run finds the rest.

RETENTION_KEYS = ("retention.ms", "retention.bytes", "local.retention.ms", "local.retention.bytes")


def limit_cuts(spec: TopicSpec, topic: TopicState, context: PlanContext) -> tuple[TopicSpec, list[Issue]]:
    """Return the spec with the next step of each cut of retention, and a notice for each step that is not the last.

    A cut from a value without bound, or from a default of the brokers that is not known, has no steps.
    """
    rule = context.cluster.retention_step
    if rule is None:
        return spec, []
    steps, notices = dict[str, str](), []
    for key, before, target in _find_cuts(spec, topic, context):
        step = _next_value(before, target, rule.share)
        if step == target:
            continue
        steps[key] = str(step)
        count = _count_steps(before, target, rule.share)
        here, end = add_unit(key, str(step)), add_unit(key, str(target))
        message = f"{key} {here} is a step to {end}: {count:,} more, of {rule.share}% at most"
        notices.append(Issue(Reason.RETENTION_STEP, message, ("config", key)))
    return (replace(spec, config={**spec.config, **steps}) if steps else spec), notices


def find_retention_cuts(topic: TopicPlan) -> list[ConfigItem]:
    """Return the config items of a plan that may cut retention: all that set or remove it."""
    return [
        item
        for change in topic.changes
        if isinstance(change, UpdateConfig)
        for item in change.items
        if item.key in RETENTION_KEYS and _may_be_cut(item)
    ]


def _find_cuts(spec: TopicSpec, topic: TopicState, context: PlanContext) -> Iterator[tuple[str, int, int]]:
    """Yield each key that the spec would lower, with the values before and after, both with a bound."""
    record = topic.valid_record
    for key in RETENTION_KEYS:
        stored, default = topic.config.get(key), server_default(key, context.settings)
        if key in spec.config:
            wanted: str | None = spec.config[key]
        elif stored is not None and (spec.remove_unmanaged or (record and key in record.config_keys)):
            wanted = default  # the override is removed
        else:
            continue
        before, target = _parse(stored if stored is not None else default), _parse(wanted)
        if f"config.{key}" not in spec.ignored_fields and before is not None and target is not None and target < before:
            yield key, before, target


def _parse(text: str | None) -> int | None:
    """Return a retention with a bound; None for all other values."""
    try:
        number = -1 if text is None else parse_integer(java_trim(text), limit=LONG_MAX)
    except ValueError:
        return None
    return number if number >= 0 else None


def _may_be_cut(item: ConfigItem) -> bool:
    before, after = _parse(item.before), _parse(item.after)
    return after is None if before is None else after is None or after < before


def _next_value(before: int, target: int, share: int) -> int:
    kept = -(-before * (100 - share) // 100)
    return max(target, min(kept, before - 1))


def _count_steps(before: int, target: int, share: int) -> int:
    """Return the number of steps that are left after the next one."""
    count = -1
    while before > target:
        before, count = _next_value(before, target, share), count + 1
    return count


class TopicPart(Enum):
    """A part of an existing topic that fields of a spec are compared with, with the type of its value."""

    REPLICAS = "replica lists of the partitions from 0 on, none if the ids have holes"
    SIZE = "pair of partition count and replication factors"
    CONFIG = "overrides by key"


def _read_part(topic: TopicState, part: TopicPart) -> Any:
    match part:
        case TopicPart.REPLICAS:
            return topic.replicas if topic.has_contiguous_partitions else ()
        case TopicPart.SIZE:
            return len(topic.replicas), find_replication_factors(topic)
        case TopicPart.CONFIG:
            return topic.config


class ComparedField(NamedTuple):
    """A field of a spec that a part of an existing topic is compared with.

    ``is_equal`` is cheap, needs nothing but the value of the part, and is true only if a plan has nothing to say about
    the field: so drift reports pass a topic without a plan. If it is false, ``compare`` adds what differs to the plan.
    """

    name: str
    is_equal: Callable[[TopicSpec, Any], bool]
    compare: Callable[[TopicPlanBuilder, TopicState], None]


def is_part_equal(spec: TopicSpec, part: TopicPart, value: Any) -> bool:
    """Return whether all fields that are compared with a part of a topic are equal to its value."""
    for field in COMPARED_FIELDS[part]:  # noqa: SIM110  # ``all`` takes twice as long, for each topic of a fleet
        if not field.is_equal(spec, value):
            return False
    return True


def find_changes(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add all differences between ``topic`` and the spec, except the ownership record."""
    find_moves(builder, topic)
    for part, fields in COMPARED_FIELDS.items():
        value = _read_part(topic, part)
        if part is TopicPart.CONFIG:
            builder.notice_ignored_configs()
        for field in fields:
            if not field.is_equal(builder.spec, value):
                field.compare(builder, topic)
    if len(builder.changes) > 1:  # the risk of growth depends on the config after the update
        after, settings = config_after(topic.config, builder.changes), builder.context.settings
        builder.changes = [reassess(change, topic.config, after, settings) for change in builder.changes]


def _diff_config(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add one change with all keys that may be changed; each other key becomes a refusal or a notice of its own.

    Configs of the spec are set. Configs that topiarist set and the spec no longer has are removed. All other configs
    stay unless ``unmanagedConfig: Remove`` is set; throttle configs that the spec does not have always stay.
    """
    spec, context, stored = builder.spec, builder.context, topic.config
    # Equal text is the usual case and cheap to find; only other values are parsed and compared by meaning.
    different = [
        (key, text) for key, text in spec.config.items() if stored.get(key) != text and not context.is_ignored(key)
    ]
    wanted: list[tuple[str, str | None]] = [
        (key, text) for key, text in different if not has_equivalent_value(stored, key, text)
    ]
    undeclared = stored.keys() - spec.config.keys() - THROTTLE_CONFIGS
    record = topic.valid_record
    recorded_keys = record.config_keys if record else ()
    min_version = context.state.min_version
    for key in sorted(undeclared) if undeclared else ():
        if key in recorded_keys or (spec.remove_unmanaged and context.rules.is_certain(key, min_version)):
            wanted.append((key, None))
        else:
            who = "not set by topiarist" if context.cluster.keeps_records else "no record shows who set it"
            message = f"{key} {stored[key]}: not in the manifest and {who}, so it stays"
            builder.add_notice(Reason.UNMANAGED, message)
    allowed = []
    for key, text in sorted(wanted):
        before = stored.get(key)
        assessment = assess_config(key, before, text, context.settings)
        item = ConfigItem(key, before, text, assessment, key in spec.inherited_keys)
        if f"config.{key}" in spec.ignored_fields:
            actual, desired = ("not set" if value is None else value for value in (before, text))
            message = f"{key}: {actual} on the cluster, {desired} in the manifest"
            builder.add_notice(Reason.IGNORED, message, ("config", key))
        elif not _refuse_config_item(builder, topic, item):
            allowed.append(item)
    if allowed:
        update = UpdateConfig(tuple(allowed))
        if not builder.refuse_invalid_config(config_after(stored, (update,)), update):
            builder.changes.append(update)


def _refuse_config_item(builder: TopicPlanBuilder, topic: TopicState, item: ConfigItem) -> bool:
    context, key = builder.context, item.key
    if owner := builder.internal_owner:
        message = f"{key}: topiarist does not change the config of {owner}'s own topics"
        builder.refuse_internal(message, ("config", key), withheld=(UpdateConfig((item,)),))
        return True
    if key == "cleanup.policy" and context.cluster.is_protected(topic.name):
        reason, hint = Reason.PROTECTED_TOPIC, HINT_PROTECTED_TOPIC
        message = "cleanup.policy: the topic belongs to other software, which relies on this value"
    elif why := config_rules.forbidden_change_reason(
        key, item.before, item.after, context.versions_to_check[0], context.rules.mode
    ):
        reason, message, hint = (
            Reason.CONFIG_INVALID,
            f"{key}: {why}",
            f"set {key}: {item.before}, or create a new topic",
        )
    elif item.before is None and (why := version_warning(context.rules, key, context.state.min_version)):
        reason, message, hint = Reason.CONFIG_TOO_NEW, why, version_hint(context.rules)
    elif key == "min.insync.replicas" and _waits_for_moves(builder, topic, item):
        reason, hint = Reason.AFTER_MOVES, "run again after the moves"
        message = f"{key} {item.after}: waits until the topic's replicas are moved"
    elif item.after is not None and is_min_isr_above(
        {key: item.after}, fewest := min_replica_count(topic), context.oldest_version
    ):
        reason, hint = Reason.MIN_ISR_ABOVE_REPLICAS, HINT_MIN_ISR
        message = f"{key} {item.after}: a partition has only {format_count(fewest, 'replica')}"
    else:
        return False
    builder.add_refusal(reason, message, ("config", key), hint=hint, withheld=(UpdateConfig((item,)),))
    return True


def _waits_for_moves(builder: TopicPlanBuilder, topic: TopicState, item: ConfigItem) -> bool:
    """Return whether ``min.insync.replicas`` would rise while replicas of the topic are moved, or are to be moved."""
    # A replica in flight is in the list already, and not in sync yet.
    in_flight = topic.reassigning_partitions or topic.name in builder.context.state.reassigning_topics
    if item.after is None or not (builder.moves_replicas or in_flight):
        return False
    before = item.before or config_rules.server_default(item.key, builder.context.settings)
    return before is None or not is_min_isr_above({item.key: before}, int(item.after) - 1)


def _diff_partitions(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add missing partitions."""
    spec, actual, desired = builder.spec, len(topic.replicas), builder.spec.partitions
    assert desired is not None
    path = ("replicaAssignment",) if spec.assignment is not None else ("partitions",)
    if path[0] in spec.ignored_fields or "partitions" in spec.ignored_fields:
        builder.add_notice(Reason.IGNORED, f"partitions: {actual} on the cluster, {desired} in the manifest", path)
    elif desired < actual:
        keep = f"set partitions: {actual}"
        if spec.assignment is not None:
            keep = f"list {format_count(actual, 'partition')}"
        message = f"{actual} -> {desired} partitions: Kafka cannot remove partitions"
        builder.add_refusal(Reason.FEWER_PARTITIONS, message, path, hint=f"{keep}, or create a new topic")
    elif builder.moves_replicas:
        # The controller may take the new partitions over before or after the moves, and lose them in between.
        message = f"{actual} -> {desired} partitions: waits until the topic's replicas are moved"
        builder.add_refusal(Reason.AFTER_MOVES, message, path, hint="run again after the moves")
    elif not _refuse_growth(builder, topic, path):
        replicas = builder.context.placer.place_new_partitions(spec, topic, desired)
        if not isinstance(replicas, Issue):
            assessment = assess_growth((topic.config,), builder.context.settings, keyed=spec.keyed)
            first = replicas[0] if are_unplaced(replicas) else topic.replicas[0]
            builder.changes.append(AddPartitions(actual, first, replicas, assessment, spec.keyed))
        # ``_diff_replication_factor`` refuses the same cause for the whole topic, and one refusal is enough.
        elif replicas.reason is not Reason.REPLICATION_FACTOR_DIFFERS or "replicationFactor" in spec.ignored_fields:
            builder.refusals.append(replicas)


def _refuse_growth(builder: TopicPlanBuilder, topic: TopicState, path: tuple[str, ...]) -> bool:
    """Refuse growth if the topic's own state forbids it; return whether it does."""
    state = builder.context.state
    if owner := builder.internal_owner:
        reason, hint = Reason.INTERNAL_TOPIC, builder.internal_hint
        message = f"{owner}'s own topic, and {owner} relies on its partition count"
    elif builder.context.cluster.is_protected(topic.name):
        reason, hint = Reason.PROTECTED_TOPIC, HINT_PROTECTED_TOPIC
        message = "the topic belongs to other software, which relies on its partition count"
    elif malformed := describe_malformed_partitions(topic):
        reason, hint = Reason.PARTITIONS_MALFORMED, "create a new topic with the wanted partitions, and migrate to it"
        # The brokers' Admin API numbers new partitions from the count of existing ones.
        message = f"{malformed}: a new partition could overwrite an existing one"
    elif not topic.replicas[0]:
        reason, hint = Reason.PARTITIONS_MALFORMED, "assign replicas to it with kafka-reassign-partitions"
        message = "partition 0 has no replicas, and Kafka gives new partitions the replica count of partition 0"
    elif topic.reassigning_partitions or topic.name in state.reassigning_topics:
        reason, hint = Reason.REASSIGNMENT_IN_PROGRESS, "run again when the reassignment is done"
        # In ZooKeeper mode the controller writes the whole assignment back from its memory at the end of each step.
        message = "its replicas are being reassigned, and partitions are added only when that is done"
    elif topic.topic_id is None and state.assigns_topic_ids:
        reason = Reason.NOT_INITIALIZED
        hint = "run again later; if the topic never gets an id, see docs/reasons.md, NotInitialized"
        message = "the controller has not assigned a topic id yet, and would undo the growth when it does"
    elif topic.unknown_fields:
        reason, hint = Reason.UNKNOWN_FIELDS, "add partitions with the vendor's own tool"
        names = ", ".join(topic.unknown_fields)
        message = f"its entry has fields that Kafka does not write ({names}), and they would not match new partitions"
    else:
        return False
    message = f"{len(topic.replicas)} -> {builder.spec.partitions} partitions: {message}"
    builder.add_refusal(reason, message, path, hint=hint)
    return True


def _diff_assignment(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Report partitions with other replicas than their explicit lists, unless moves carry the lists out."""
    if MoveKind.ASSIGNMENT in permitted_kinds(builder, topic.name):
        return
    # Explicit lists bind new partitions only, so this is not a refusal.
    desired = builder.spec.assignment or ()
    different = [
        (partition, replicas)
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if partition < len(desired) and desired[partition] != replicas and partition not in topic.reassigning_partitions
    ]
    if different:
        first, actual = different[0]
        message = (
            f"{format_count(len(different), 'partition')} not on the brokers of the manifest: "
            f"partition {first} is on {list(actual)} instead of {list(desired[first])}"
        )
        if MoveKind.ASSIGNMENT not in builder.spec.allowed_moves:
            message += f"; to move them, {describe_permission(builder, MoveKind.ASSIGNMENT)}"
        builder.add_notice(Reason.REPLICAS_DIFFER, message, ("replicaAssignment",))


def _diff_replication_factor(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Refuse another replication factor if the topic may not be moved."""
    desired, has_lists = builder.spec.replication_factor, builder.spec.assignment is not None
    actual_factors = find_replication_factors(topic)
    path = ("replicaAssignment",) if has_lists else ("replicationFactor",)
    actual = " and ".join(map(str, sorted(actual_factors)))
    if not builder.spec.ignored_fields.isdisjoint(("replicationFactor", path[0])):
        message = f"replicationFactor: {actual} on the cluster, {desired} in the manifest"
        builder.add_notice(Reason.IGNORED, message, path)
        return
    kind = MoveKind.ASSIGNMENT if has_lists else MoveKind.FACTOR
    if kind in permitted_kinds(builder, topic.name):
        return  # ``find_moves`` has planned or refused it
    origin = None
    if kind in builder.spec.allowed_moves:
        why, hint = "topiarist does not change that of protected topics", "change it with kafka-reassign-partitions"
    else:
        why, hint = f"{kind.value} moves are not allowed", describe_permission(builder, kind)
        if find_forbidding_document(builder, kind) == "Cluster":
            origin = builder.context.cluster_origin("moves", "allow")
    if len(actual_factors) == 1:
        keep = f"list {format_count(min(actual_factors), 'broker')} for each partition"
        hint = f"{keep if has_lists else f'set replicationFactor: {actual}'}, or {hint}"
    message = f"replication factor {actual} -> {desired}: {why}"
    builder.add_refusal(Reason.REPLICATION_FACTOR_DIFFERS, message, path, hint=hint, origin=origin)


COMPARED_FIELDS: Mapping[TopicPart, Sequence[ComparedField]] = {
    TopicPart.REPLICAS: [
        ComparedField(
            "assignment",
            lambda spec, replicas: spec.assignment is None or spec.assignment == replicas,
            _diff_assignment,
        ),
    ],
    TopicPart.SIZE: [
        ComparedField(
            "partitions", lambda spec, size: spec.partitions is None or spec.partitions == size[0], _diff_partitions
        ),
        ComparedField(
            "replication_factor",
            lambda spec, size: spec.replication_factor is None or size[1] <= {spec.replication_factor},
            _diff_replication_factor,
        ),
    ],
    TopicPart.CONFIG: [ComparedField("config", lambda spec, config: spec.config == config, _diff_config)],
}
"""The fields of a spec that are compared with an existing topic, by the part of the topic, in the order of a plan.

The names are those of ``TopicSpec``.
"""
