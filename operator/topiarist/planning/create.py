"""Plans the creation of a topic: whether it is possible, on which brokers, and with which config.

``planner`` calls ``plan_creation`` for a topic that the cluster does not have. It adds a ``CreateTopic`` to the
builder, or a refusal.
"""

from __future__ import annotations

from topiarist.errors import Reason
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.types import has_collision_chars, metric_name
from topiarist.model.plan import CreateTopic, Issue
from topiarist.model.state import OwnershipRecord
from topiarist.planning.builder import (
    HINT_MIN_ISR,
    TopicPlanBuilder,
    version_hint,
    version_warning,
)
from topiarist.planning.existing_problems import explain_stale_entry
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
