"""The operator's waits between two steps of a cut of retention.

``planning.retention_steps`` plans one step a run. ``reconciler`` calls ``withhold_early_steps`` for each plan, and
``memory`` keeps the time of the last step of a topic in its ownership record, so that neither a restart nor a lost
status shortens a wait. A jump of the clock may shorten or lengthen one wait.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kubernetes.api.clock import format_milliseconds, format_time, from_milliseconds
from topiarist.model.plan import Issue, Plan, TopicPlan, UpdateConfig, withhold
from topiarist.model.spec import RetentionStep
from topiarist.model.state import OwnershipRecord
from topiarist.planning.retention_steps import find_retention_cuts

STEP_TIME = "retentionStepAt"
"""The field of a topic's status with the time of its last step."""

_WAITING_REASONS = frozenset({Reason.RETENTION_STEP, Reason.RETENTION_WAITS})


def withhold_early_steps(plan: Plan, rule: RetentionStep | None, now: datetime) -> Plan:
    """Return ``plan`` without cuts of retention that follow a step too soon."""
    if rule is None:
        return plan
    return replace(plan, topics=tuple(_withhold_early(topic, rule, now) for topic in plan.topics))


def _withhold_early(topic: TopicPlan, rule: RetentionStep, now: datetime) -> TopicPlan:
    cuts, record = find_retention_cuts(topic), topic.record_before
    if not cuts or record is None or record.memory.step_ms is None or topic.observe_only:
        return topic
    ready = from_milliseconds(record.memory.step_ms + rule.interval_ms)
    if now >= ready:
        return topic
    (update,) = (change for change in topic.changes if isinstance(change, UpdateConfig))
    kept, early = (tuple(item for item in update.items if (item in cuts) is is_cut) for is_cut in (False, True))
    parts = [UpdateConfig(items) for items in (kept, early) if items]
    changes = tuple(part for change in topic.changes for part in (parts if change is update else (change,)))
    keys = ", ".join(item.key for item in early)
    issue = Issue(Reason.RETENTION_WAITS, f"{keys}: the next step follows after {format_time(ready)}", ("config",))
    return withhold(replace(topic, changes=changes), (parts[-1],), issue)


def has_steps_left(topic: TopicPlan) -> bool:
    """Return whether a cut of retention has a step after those of the plan."""
    return any(each.reason in _WAITING_REASONS for each in (*topic.notices, *topic.refusals))


def find_next_step(topic: TopicPlan | None) -> Issue | None:
    """Return why a topic is not at its spec although all of its plan was made: the first step that is left."""
    notice = next((each for each in topic.notices if each.reason is Reason.RETENTION_STEP), None) if topic else None
    return notice._replace(reason=Reason.RETENTION_WAITS) if notice else None


def step_time(topic: TopicPlan | None, record: OwnershipRecord | None) -> str:
    """Return the time of the last step for the status of a topic; empty if no step is left.

    ``record`` is the record after the plan.
    """
    if topic is None or not has_steps_left(topic) or record is None or record.memory.step_ms is None:
        return ""
    return format_milliseconds(record.memory.step_ms)
