"""Topics that are not on the cluster yet: whether they can be created, where, and with what config.

Called by ``plan`` for a topic that its cluster does not hold; adds a ``CreateTopic`` to the draft, or what speaks
against it.
"""

from __future__ import annotations

from topiarist.core.change import CreateTopic, Finding
from topiarist.core.draft import LEAVE_TO_KAFKA, Draft
from topiarist.core.names import INTERNAL_TOPICS, collision_key, has_collision_chars
from topiarist.core.requested import explain
from topiarist.core.rules import DECLARE, config_faults, min_isr_above, remedy, too_new
from topiarist.core.state import TopicRecord
from topiarist.core.units import count
from topiarist.errors import Reason


def plan_missing(draft: Draft, record: TopicRecord | None) -> None:
    """A topic that is not on the cluster: create it, unless something speaks against it."""
    run = draft.context.run
    if draft.spec.absent:
        return
    if record and record.owner != run.owner and not run.takes(draft.spec.topic):
        draft.refuse_foreign(record)
        return
    create = _creation(draft)
    if record and not record.absent and not run.recreates(draft.spec.topic):
        draft.refuse(
            Reason.DELETED_OUTSIDE,
            "was ours and has been deleted by others; created again it would be empty",
            instead=f"--recreate={draft.spec.topic} if that is meant, or take its manifest away to give it up",
            held=(create,) if create else (),
        )
    elif create:
        draft.changes.append(create)


def _creation(draft: Draft) -> CreateTopic | None:
    """The change that creates the topic, or None with the reason among the draft's refusals."""
    spec = draft.spec
    if _name_refused(draft) or _request_refused(draft):
        return None
    replicas = draft.context.placing.create(spec)
    if isinstance(replicas, Finding):
        draft.refusals.append(replicas)
        return None
    create = CreateTopic(replicas, dict(sorted(spec.config.items())))
    return None if _config_refused(draft, create) else create


def _name_refused(draft: Draft) -> bool:
    name = draft.spec.topic
    if name in INTERNAL_TOPICS:
        message = "Kafka makes this topic itself, as it needs it"
        draft.refuse(Reason.INTERNAL_TOPIC, message, instead=LEAVE_TO_KAFKA)
        return True
    other = draft.context.unified.get(collision_key(name)) if has_collision_chars(name) else None
    if other:
        message = f"collides with the topic {other}: Kafka takes . and _ for the same letter in metric names"
        draft.refuse(Reason.NAME_COLLISION, message, instead="choose another topicName")
    return other is not None


def _request_refused(draft: Draft) -> bool:
    named = draft.spec.topic in draft.context.state.reassigning
    if named:
        said = explain(there=False)
        draft.refuse(Reason.REASSIGNMENT_IN_PROGRESS, said.message, instead=said.instead)
    return named


def _config_refused(draft: Draft, create: CreateTopic) -> bool:
    context, config, width = draft.context, create.config, len(create.replicas[0])
    if new := {
        key: message for key in config if (message := too_new(context.cluster, key, context.state.release_at_least))
    }:
        path, message = ("config", next(iter(new))), "; ".join(new.values())
        draft.refuse(Reason.CONFIG_TOO_NEW, message, path, instead=DECLARE, held=(create,))
    elif wrong := config_faults(config, context.cluster, context.releases, context.settings):
        message = "the config as it would be written is invalid: " + "; ".join(fault.message for fault in wrong)
        draft.refuse(Reason.CONFIG_INVALID, message, ("config",), instead=remedy(wrong, config), held=(create,))
    elif min_isr_above(config, width):
        message = f"min.insync.replicas {config['min.insync.replicas']} with {count(width, 'replica')}"
        instead = "every write with acks=all would fail; ask for no more than there are"
        draft.refuse(
            Reason.MIN_ISR_ABOVE_REPLICAS, message, ("config", "min.insync.replicas"), instead=instead, held=(create,)
        )
    else:
        return False
    return True
