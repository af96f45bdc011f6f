"""Compares an existing topic with its spec, field by field: size, replicas and config.

``planner`` decides whether a topic may be changed at all, and calls ``find_changes``. Each function compares one field
and adds to a ``TopicPlanBuilder``: a change, a refusal, or a notice (for fields in ``ignore``).
"""

from __future__ import annotations

from collections.abc import Sequence

from topiarist.errors import Reason
from topiarist.kafka import config_rules
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import has_equivalent_value
from topiarist.kafka.names import INTERNAL_TOPICS
from topiarist.model.plan import AddPartitions, ConfigItem, Issue, UpdateConfig, config_after
from topiarist.model.state import TopicState, find_replication_factors
from topiarist.planning.builder import (
    HINT_DECLARE_VERSION,
    HINT_INTERNAL_TOPIC,
    TopicPlanBuilder,
    config_hint,
    min_replica_count,
    version_warning,
)
from topiarist.planning.risk import assess_config, assess_growth, reassess
from topiarist.text import format_count, shorten_list


def find_changes(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add all differences between ``topic`` and the spec, except the ownership record."""
    find_size_changes(builder, topic)
    _diff_config(builder, topic)
    if len(builder.changes) > 1:  # the risk of growth depends on the config after the update
        after = config_after(topic.config, builder.changes)
        builder.changes = [
            reassess(change, topic.config, after, builder.context.settings) for change in builder.changes
        ]


def _diff_config(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add the changes of the config.

    Configs of the spec are set. Configs that topiarist set and the spec no longer has are removed. All other configs
    stay unless ``unmanagedConfig: Remove`` is set; throttle configs that the spec does not have always stay.
    """
    spec, stored = builder.spec, topic.config
    # Equal text is the usual case and cheap to find; only other values are parsed and compared by meaning.
    different = [(key, text) for key, text in spec.config.items() if stored.get(key) != text]
    items = [
        _build_config_item(builder, topic, key, text)
        for key, text in different
        if not has_equivalent_value(stored, key, text)
    ]
    undeclared = stored.keys() - spec.config.keys() - THROTTLE_CONFIGS
    record = topic.valid_record
    recorded_keys = record.config_keys if record else ()
    for key in sorted(undeclared) if undeclared else ():
        if key in recorded_keys or (spec.remove_unmanaged and config_rules.is_supported(key, builder.context.version)):
            items.append(_build_config_item(builder, topic, key, None))
        else:
            builder.add_notice(
                Reason.UNMANAGED, f"{key} {stored[key]}: not in the manifest and not set by us: left alone"
            )
    if items:
        _add_config_update(builder, topic, sorted(items))


def _build_config_item(builder: TopicPlanBuilder, topic: TopicState, key: str, after: str | None) -> ConfigItem:
    before = topic.config.get(key)
    verdict = assess_config(key, before, after, builder.context.settings)
    return ConfigItem(key, before, after, verdict, key in builder.spec.inherited_keys)


def _add_config_update(builder: TopicPlanBuilder, topic: TopicState, items: Sequence[ConfigItem]) -> None:
    """Add one change with all keys that may be changed.

    Each of the other keys becomes a refusal or a notice of its own.
    """
    allowed = []
    for item in items:
        if f"config.{item.key}" in builder.spec.ignored_fields:
            actual, desired = ("not set" if text is None else text for text in (item.before, item.after))
            message = f"{item.key}: {actual} on the cluster, {desired} in the manifest"
            builder.add_notice(Reason.IGNORED, message, ("config", item.key))
        elif not _refuse_config_item(builder, topic, item):
            allowed.append(item)
    if allowed and not _refuse_invalid_config(builder, topic, update := UpdateConfig(tuple(allowed))):
        builder.changes.append(update)


def _refuse_config_item(builder: TopicPlanBuilder, topic: TopicState, item: ConfigItem) -> bool:
    path, held = ("config", item.key), (UpdateConfig((item,)),)
    context = builder.context
    if topic.name in INTERNAL_TOPICS:
        message = f"{item.key}: Kafka's own topic, its config is left alone"
        builder.add_refusal(Reason.INTERNAL_TOPIC, message, path, instead=HINT_INTERNAL_TOPIC, held=held)
    elif item.key == "cleanup.policy" and context.is_protected(topic.name):
        message = "cleanup.policy: belongs to other software, which relies on it"
        instead = "ask its owner; Cluster.spec.protected lists the names"
        builder.add_refusal(Reason.PROTECTED_TOPIC, message, path, instead=instead, held=held)
    elif message := config_rules.forbidden_change_reason(
        item.key, item.before, item.after, context.versions_to_check[0]
    ):
        instead = f"set {item.key}: {item.before}, or create a new topic"
        builder.add_refusal(Reason.CONFIG_INVALID, f"{item.key}: {message}", path, instead=instead, held=held)
    elif item.before is None and (
        message := version_warning(context.config_rules, item.key, context.state.min_version)
    ):
        builder.add_refusal(Reason.CONFIG_TOO_NEW, message, path, instead=HINT_DECLARE_VERSION, held=held)
    elif item.after is not None and is_min_isr_above({item.key: item.after}, narrowest := min_replica_count(topic)):
        message = f"{item.key} {item.after}: the narrowest partition has {format_count(narrowest, 'replica')}"
        instead = "every write with acks=all would fail; ask for no more than there are"
        builder.add_refusal(Reason.MIN_ISR_ABOVE_REPLICAS, message, path, instead=instead, held=held)
    else:
        return False
    return True


def _refuse_invalid_config(builder: TopicPlanBuilder, topic: TopicState, update: UpdateConfig) -> bool:
    """Refuse a config that is invalid as it would be written.

    Kafka validates the whole map, unmanaged keys included, so this check does the same.
    """
    context = builder.context
    wrong = context.config_rules.find_errors(
        config_after(topic.config, (update,)), context.versions_to_check, context.settings
    )
    if wrong:
        message = "the config as it would be written is invalid: " + "; ".join(fault.message for fault in wrong)
        instead = config_hint(wrong, builder.spec.config)
        builder.add_refusal(Reason.CONFIG_INVALID, message, ("config",), instead=instead, held=(update,))
    return bool(wrong)


def find_size_changes(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add missing partitions, and report different replica lists and replication factors."""
    _diff_partitions(builder, topic)
    _diff_replication_factor(builder, topic)


def _diff_partitions(builder: TopicPlanBuilder, topic: TopicState) -> None:
    spec, actual = builder.spec, len(topic.replicas)
    if spec.assignment is not None:
        _notice_replica_differences(builder, topic)
    desired = spec.partitions
    if desired is None or desired == actual:
        return
    path = ("replicaAssignment",) if spec.assignment is not None else ("partitions",)
    if path[0] in spec.ignored_fields or "partitions" in spec.ignored_fields:
        builder.add_notice(Reason.IGNORED, f"partitions: {actual} on the cluster, {desired} in the manifest", path)
    elif desired < actual:
        keep = (
            f"list {format_count(actual, 'partition')}" if spec.assignment is not None else f"set partitions: {actual}"
        )
        message = f"{actual} -> {desired} partitions, Kafka cannot remove any"
        builder.add_refusal(Reason.FEWER_PARTITIONS, message, path, instead=f"{keep}, or create a new topic")
    elif not _refuse_growth(builder, topic, path):
        replicas = builder.context.placer.place_new_partitions(spec, topic, desired)
        if isinstance(replicas, Issue):
            # ``_diff_replication_factor`` refuses the same cause for the whole topic, and one refusal is enough.
            if replicas.reason is not Reason.REPLICATION_FACTOR_DIFFERS or "replicationFactor" in spec.ignored_fields:
                builder.refusals.append(replicas)
        else:
            verdict = assess_growth((topic.config,), builder.context.settings)
            builder.changes.append(AddPartitions(actual, topic.replicas[0], replicas, verdict))


def _refuse_growth(builder: TopicPlanBuilder, topic: TopicState, path: tuple[str, ...]) -> bool:
    """Refuse growth if the topic's own state forbids it; return whether it does."""
    state, more = builder.context.state, f"{len(topic.replicas)} -> {builder.spec.partitions} partitions"
    if topic.name in INTERNAL_TOPICS:
        message = f"{more}: Kafka's own topic, which relies on the count"
        builder.add_refusal(Reason.INTERNAL_TOPIC, message, path, instead=HINT_INTERNAL_TOPIC)
    elif builder.context.is_protected(topic.name):
        message = f"{more}: belongs to other software, which relies on the count"
        builder.add_refusal(
            Reason.PROTECTED_TOPIC, message, path, instead="ask its owner; Cluster.spec.protected lists the names"
        )
    elif not topic.has_contiguous_partitions or not topic.replicas or not topic.replicas[0]:
        message, instead = _explain_malformed(topic)
        builder.add_refusal(Reason.PARTITIONS_MALFORMED, f"{more}: {message}", path, instead=instead)
    elif topic.reassigning_partitions or topic.name in state.reassigning_topics:
        message = f"{more}: its replicas are being reassigned, and that would undo the growth"
        builder.add_refusal(
            Reason.REASSIGNMENT_IN_PROGRESS, message, path, instead="run again when the reassignment is done"
        )
    elif topic.topic_id is None and state.assigns_topic_ids:
        message = f"{more}: the controller has not given the topic its id yet, and would undo growth when it does"
        instead = "run again when it has; if it never does, the id was removed: docs/operations.md, NotInitialized"
        builder.add_refusal(Reason.NOT_INITIALIZED, message, path, instead=instead)
    elif topic.unknown_fields:
        names = ", ".join(topic.unknown_fields)
        message = f"{more}: the topic has fields that Kafka does not write ({names}); they would be left incomplete"
        builder.add_refusal(Reason.UNKNOWN_FIELDS, message, path, instead="use the vendor's own tool to add partitions")
    else:
        return False
    return True


def _explain_malformed(topic: TopicState) -> tuple[str, str]:
    """Return why the topic cannot grow, and a hint."""
    if topic.has_contiguous_partitions and topic.replicas:
        return (
            "partition 0 has no replicas, and Kafka gives new partitions as many as that one has",
            "give partition 0 replicas with kafka-reassign-partitions, or make a new topic",
        )
    found = f"found partition ids {shorten_list(topic.partition_ids) or 'none'}"
    return (
        f"{found}, wanted 0 to n-1: Kafka counts partitions, and would overwrite one that is there",
        "make a new topic with the partitions that are wanted, and move to it",
    )


def _notice_replica_differences(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Add one notice for all existing partitions that differ from the explicit lists.

    Explicit lists bind new partitions only.
    """
    desired = builder.spec.assignment or ()
    other = [
        (partition, replicas)
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if partition < len(desired) and desired[partition] != replicas and partition not in topic.reassigning_partitions
    ]
    if other:
        first, actual = other[0]
        example = f"{first}: {list(actual)} instead of {list(desired[first])}"
        message = f"{format_count(len(other), 'partition')} placed otherwise, as {example}"
        builder.add_notice(Reason.REPLICAS_DIFFER, message, ("replicaAssignment",))


def _diff_replication_factor(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Refuse another replication factor; topiarist does not reassign partitions."""
    desired = builder.spec.replication_factor
    if desired is None:
        return
    actual_factors = find_replication_factors(topic)
    if actual_factors <= {desired}:
        return
    path = ("replicaAssignment",) if builder.spec.assignment is not None else ("replicationFactor",)
    actual = " and ".join(map(str, sorted(actual_factors)))
    if "replicationFactor" in builder.spec.ignored_fields or path[0] in builder.spec.ignored_fields:
        builder.add_notice(
            Reason.IGNORED, f"replicationFactor: {actual} on the cluster, {desired} in the manifest", path
        )
        return
    keep = f"set replicationFactor: {actual}, or " if len(actual_factors) == 1 else ""
    if keep and builder.spec.assignment is not None:
        keep = f"list {format_count(min(actual_factors), 'broker')} for each partition, or "
    builder.add_refusal(
        Reason.REPLICATION_FACTOR_DIFFERS,
        f"replication factor {actual} -> {desired}: existing partitions are never moved",
        path,
        instead=f"{keep}reassign with kafka-reassign-partitions",
    )
