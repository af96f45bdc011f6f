"""Plans the creation of a topic: whether it is possible, on which brokers, and with which config.

``planner`` calls ``plan_creation`` for a topic that the cluster does not have. It adds a ``CreateTopic`` to the
builder, or a refusal.
"""

from __future__ import annotations

from topiarist.errors import Reason
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.names import INTERNAL_TOPICS, has_collision_chars, metric_name
from topiarist.model.plan import CreateTopic, Issue
from topiarist.model.state import OwnershipRecord
from topiarist.planning.builder import (
    HINT_DECLARE_VERSION,
    HINT_INTERNAL_TOPIC,
    TopicPlanBuilder,
    config_hint,
    version_warning,
)
from topiarist.planning.stale_reassignments import explain_stale_entry
from topiarist.text import format_count


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
            "was ours and has been deleted by others; created again it would be empty",
            instead=f"--recreate={builder.spec.topic} if that is meant, or take its manifest away to give it up",
            held=(create,) if create else (),
        )
    elif create:
        builder.changes.append(create)


def _build_creation(builder: TopicPlanBuilder) -> CreateTopic | None:
    """Return the change that creates the topic; None after a refusal was added."""
    spec = builder.spec
    if _refuse_invalid_name(builder) or _refuse_stale_reassignment(builder):
        return None
    replicas = builder.context.placer.place_topic(spec)
    if isinstance(replicas, Issue):
        builder.refusals.append(replicas)
        return None
    create = CreateTopic(replicas, dict(sorted(spec.config.items())))
    return None if _refuse_invalid_config(builder, create) else create


def _refuse_invalid_name(builder: TopicPlanBuilder) -> bool:
    name = builder.spec.topic
    if name in INTERNAL_TOPICS:
        message = "Kafka makes this topic itself, as it needs it"
        builder.add_refusal(Reason.INTERNAL_TOPIC, message, instead=HINT_INTERNAL_TOPIC)
        return True
    other = builder.context.topics_by_metric_name.get(metric_name(name)) if has_collision_chars(name) else None
    if other:
        message = f"collides with the topic {other}: Kafka takes . and _ for the same letter in metric names"
        builder.add_refusal(Reason.NAME_COLLISION, message, instead="choose another topicName")
    return other is not None


def _refuse_stale_reassignment(builder: TopicPlanBuilder) -> bool:
    is_named = builder.spec.topic in builder.context.state.reassigning_topics
    if is_named:
        stale_entry = explain_stale_entry(topic_exists=False)
        builder.add_refusal(Reason.REASSIGNMENT_IN_PROGRESS, stale_entry.message, instead=stale_entry.hint)
    return is_named


def _refuse_invalid_config(builder: TopicPlanBuilder, create: CreateTopic) -> bool:
    context, config, width = builder.context, create.config, len(create.replicas[0])
    if new := {
        key: message
        for key in config
        if (message := version_warning(context.config_rules, key, context.state.min_version))
    }:
        path, message = ("config", next(iter(new))), "; ".join(new.values())
        builder.add_refusal(Reason.CONFIG_TOO_NEW, message, path, instead=HINT_DECLARE_VERSION, held=(create,))
    elif errors := context.config_rules.find_errors(config, context.versions_to_check, context.settings):
        message = "the config as it would be written is invalid: " + "; ".join(error.message for error in errors)
        builder.add_refusal(
            Reason.CONFIG_INVALID, message, ("config",), instead=config_hint(errors, config), held=(create,)
        )
    elif is_min_isr_above(config, width):
        message = f"min.insync.replicas {config['min.insync.replicas']} with {format_count(width, 'replica')}"
        instead = "every write with acks=all would fail; ask for no more than there are"
        builder.add_refusal(
            Reason.MIN_ISR_ABOVE_REPLICAS, message, ("config", "min.insync.replicas"), instead=instead, held=(create,)
        )
    else:
        return False
    return True
