"""Limits a cut of retention to one step, if the cluster has ``spec.retentionStep``.

Brokers delete all segments beyond a shorter retention within minutes, and nothing brings them back. In steps a mistake
costs a part of the data, and disks are not busy with deletions alone. ``planner`` calls ``limit_cuts`` before it
compares the topic: for this run the spec asks for the step. The next run finds the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.config_rules import server_default
from topiarist.kafka.config_values import add_unit, java_trim, parse_integer
from topiarist.kafka.types import LONG_MAX
from topiarist.model.plan import ConfigItem, Issue, TopicPlan, UpdateConfig
from topiarist.model.spec import TopicSpec
from topiarist.model.state import TopicState
from topiarist.planning.builder import PlanContext

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
