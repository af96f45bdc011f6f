"""Compares an existing topic with its spec, field by field: size, replicas and config.

``planner`` decides whether a topic may be changed at all, and calls ``find_changes``. ``COMPARED_FIELDS`` is the one
definition of equal: plans and drift reports compare the fields of that table, and no others. The function of a field
adds to a ``TopicPlanBuilder``: a change, a refusal, or a notice (for fields in ``ignore``).

A new field is one row of the table; if it needs a part of a topic that no row has, also a ``TopicPart``, its value in
``_read_part``, and a call of ``is_part_equal`` in ``drift.checks.equality``. The tests of that module fail for a field
of a spec or a topic that has no place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from topiarist.errors import Reason
from topiarist.kafka import config_rules
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.model.moves import MoveKind
from topiarist.model.plan import AddPartitions, ConfigItem, Issue, UpdateConfig, config_after
from topiarist.model.spec import TopicSpec
from topiarist.model.state import TopicState, describe_malformed_partitions, find_replication_factors
from topiarist.planning.builder import (
    HINT_MIN_ISR,
    HINT_PROTECTED_TOPIC,
    TopicPlanBuilder,
    min_replica_count,
    version_hint,
    version_warning,
)
from topiarist.planning.moves.topic import (
    describe_permission,
    find_forbidding_document,
    find_moves,
    permitted_kinds,
)
from topiarist.planning.risk import assess_config, assess_growth, reassess
from topiarist.text import format_count


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
            message = f"{key} {stored[key]}: not in the manifest and not set by topiarist, so it stays"
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
            builder.changes.append(AddPartitions(actual, topic.replicas[0], replicas, assessment, spec.keyed))
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
        # The controller writes the whole assignment back from its memory at the end of each step.
        message = "its replicas are being reassigned, and the controller would undo the growth"
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
