"""What differs between an existing topic and its spec, field by field: size, replicas, config, record.

``plan`` decides whether a topic may be touched at all; this module finds what there would be to do. Each function
looks at one field and adds to a ``Draft``: a change, a refusal, or a notice (for fields in ``ignore``).

What differs between an existing topic and its spec in size and replicas: growth, and what cannot be done.

``differences`` asks, and looks at the config itself. What is found is added to a ``Draft``.
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
    """Everything that differs between ``topic`` and the draft's spec, record aside."""
    find_size_changes(builder, topic)
    _diff_config(builder, topic)
    if len(builder.changes) > 1:  # what growth may cost depends on what the config will be
        after = config_after(topic.config, builder.changes)
        builder.changes = [
            reassess(change, topic.config, after, builder.context.settings) for change in builder.changes
        ]


def _diff_config(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Set what the spec has, remove what we set and it no longer has, leave the rest alone unless told otherwise."""
    spec, stored = builder.spec, topic.config
    # Most values are written as they stand: only the others are worth a look at what they mean.
    odd = [(key, text) for key, text in spec.config.items() if stored.get(key) != text]
    items = [
        _build_config_item(builder, topic, key, text)
        for key, text in odd
        if not has_equivalent_value(stored, key, text)
    ]
    others = stored.keys() - spec.config.keys() - THROTTLE_CONFIGS
    record = topic.valid_record
    ours = record.config_keys if record else ()
    for key in sorted(others) if others else ():
        if key in ours or (spec.remove_unmanaged and config_rules.is_supported(key, builder.context.version)):
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
    """One change of all keys that may be changed; each of the others is a refusal or a notice of its own."""
    wanted = []
    for item in items:
        if f"config.{item.key}" in builder.spec.ignored_fields:
            found, meant = ("not set" if text is None else text for text in (item.before, item.after))
            message = f"{item.key}: {found} on the cluster, {meant} in the manifest"
            builder.add_notice(Reason.IGNORED, message, ("config", item.key))
        elif not _refuse_config_item(builder, topic, item):
            wanted.append(item)
    if wanted and not _refuse_invalid_config(builder, topic, update := UpdateConfig(tuple(wanted))):
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
    """Kafka validates the whole map, unmanaged keys included: so do we, as it would be written."""
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
    """Partitions that are missing, lists that differ, and another replication factor."""
    _diff_partitions(builder, topic)
    _diff_replication_factor(builder, topic)


def _diff_partitions(builder: TopicPlanBuilder, topic: TopicState) -> None:
    spec, now = builder.spec, len(topic.replicas)
    if spec.assignment is not None:
        _notice_replica_differences(builder, topic)
    wanted = spec.partitions
    if wanted is None or wanted == now:
        return
    path = ("replicaAssignment",) if spec.assignment is not None else ("partitions",)
    if path[0] in spec.ignored_fields or "partitions" in spec.ignored_fields:
        builder.add_notice(Reason.IGNORED, f"partitions: {now} on the cluster, {wanted} in the manifest", path)
    elif wanted < now:
        keep = f"list {format_count(now, 'partition')}" if spec.assignment is not None else f"set partitions: {now}"
        message = f"{now} -> {wanted} partitions, Kafka cannot remove any"
        builder.add_refusal(Reason.FEWER_PARTITIONS, message, path, instead=f"{keep}, or create a new topic")
    elif not _refuse_growth(builder, topic, path):
        replicas = builder.context.placer.place_new_partitions(spec, topic, wanted)
        if isinstance(replicas, Issue):
            # Lists of another width are refused for the topic as a whole too: one finding for one cause.
            if replicas.reason is not Reason.REPLICATION_FACTOR_DIFFERS or "replicationFactor" in spec.ignored_fields:
                builder.refusals.append(replicas)
        else:
            verdict = assess_growth((topic.config,), builder.context.settings)
            builder.changes.append(AddPartitions(now, topic.replicas[0], replicas, verdict))


def _refuse_growth(builder: TopicPlanBuilder, topic: TopicState, path: tuple[str, ...]) -> bool:
    """Whether something about the topic itself forbids to add partitions now."""
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
    """What is wrong with the partitions of a topic that cannot grow, and what to do."""
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
    """Explicit lists bind new partitions only; that existing ones differ is said, once for all."""
    wanted = builder.spec.assignment or ()
    other = [
        (partition, replicas)
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if partition < len(wanted) and wanted[partition] != replicas and partition not in topic.reassigning_partitions
    ]
    if other:
        first, actual = other[0]
        example = f"{first}: {list(actual)} instead of {list(wanted[first])}"
        message = f"{format_count(len(other), 'partition')} placed otherwise, as {example}"
        builder.add_notice(Reason.REPLICAS_DIFFER, message, ("replicaAssignment",))


def _diff_replication_factor(builder: TopicPlanBuilder, topic: TopicState) -> None:
    """Another replication factor needs a reassignment, which is not built."""
    wanted = builder.spec.replication_factor
    if wanted is None:
        return
    found_widths = find_replication_factors(topic)
    if found_widths <= {wanted}:
        return
    path = ("replicaAssignment",) if builder.spec.assignment is not None else ("replicationFactor",)
    found = " and ".join(map(str, sorted(found_widths)))
    if "replicationFactor" in builder.spec.ignored_fields or path[0] in builder.spec.ignored_fields:
        builder.add_notice(Reason.IGNORED, f"replicationFactor: {found} on the cluster, {wanted} in the manifest", path)
        return
    keep = f"set replicationFactor: {found}, or " if len(found_widths) == 1 else ""
    if keep and builder.spec.assignment is not None:
        keep = f"list {format_count(min(found_widths), 'broker')} for each partition, or "
    builder.add_refusal(
        Reason.REPLICATION_FACTOR_DIFFERS,
        f"replication factor {found} -> {wanted}: existing partitions are never moved",
        path,
        instead=f"{keep}reassign with kafka-reassign-partitions",
    )
