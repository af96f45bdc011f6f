"""What differs between a topic and its spec, as findings of a report: field by field, by what ``plan_topic`` says.

``plan`` decides what differs; nothing here compares a spec with a state. Each change, held back or not, each refusal
and each notice about a difference becomes a ``Discrepancy``, with what is wanted, what is there, and what a plan would
do about it. Records are no part of it: a topic that is as asked and lacks only ours is no finding. ``drift`` builds its
reports from these, however it came by states and specs.

A finding of a drift report about one topic, as a value; and what there is to say of topics that no manifest names.

``discrepancies`` makes them of plans; ``drift`` makes rows of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.names import INTERNAL_TOPICS
from topiarist.kafka.types import Replicas
from topiarist.model.plan import AddPartitions, Change, CreateTopic, DeleteTopic, Issue, Risk, TopicPlan, UpdateConfig
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, TopicState, find_replication_factors
from topiarist.planning.stale_reassignments import explain_stale_entry
from topiarist.text import format_count

TopicFindingKey = tuple[str, str]
"""The kind and field of a discrepancy: there is one of each at most for a topic."""


def make_findings(plan: TopicPlan) -> tuple[DriftFinding, ...]:
    """The differences that a topic's plan was made of, in order of kind and field; each of them once."""
    found: dict[TopicFindingKey, DriftFinding] = {}
    for one in _iter_findings(plan):
        key = (one.drift_class.value, one.field)
        found[key] = _merge_findings(found[key], one) if key in found else one
    return tuple(_apply_observe_mode(found[key], plan) for key in sorted(found))


def _iter_findings(plan: TopicPlan) -> Iterator[DriftFinding]:
    for change in plan.changes:
        yield from _change_findings(plan, change, None)
    for refusal in plan.refusals:
        yield from _refusal_findings(plan, refusal)
    for notice in plan.notices:
        yield from _notice_findings(plan, notice)
    if any(notice.reason is Reason.UNMANAGED for notice in plan.notices):
        yield from _unmanaged_findings(plan)


def _change_findings(plan: TopicPlan, change: Change, refusal: Issue | None) -> Iterator[DriftFinding]:
    """What a change would put right; ``refusal`` is what holds it back. A record is no difference."""
    match change:
        case CreateTopic(replicas):
            wanted = describe_size(len(replicas), str(len(replicas[0])))
            yield _with_refusal(
                DriftFinding(DriftClass.MISSING, "", wanted, None, PlannedAction.CHANGE, *change.assessment), refusal
            )
        case DeleteTopic():
            there = describe_topic_size(plan.before)
            yield _with_refusal(
                DriftFinding(DriftClass.UNEXPECTED, "ensure", None, there, PlannedAction.CHANGE, *change.assessment),
                refusal,
            )
        case AddPartitions(before):
            sizes = str(change.total), str(before)
            yield _with_refusal(
                DriftFinding(DriftClass.PARTITIONS, "partitions", *sizes, PlannedAction.CHANGE, *change.assessment),
                refusal,
            )
        case UpdateConfig(items):
            for item in items:
                made = DriftFinding(
                    DriftClass.CONFIG,
                    f"config.{item.key}",
                    item.after,
                    item.before,
                    PlannedAction.CHANGE,
                    *item.assessment,
                )
                yield _with_refusal(made, refusal)


def _with_refusal(one: DriftFinding, refusal: Issue | None) -> DriftFinding:
    return _with_issue(one._replace(planned=PlannedAction.REFUSED), refusal) if refusal else one


def _with_issue(one: DriftFinding, finding: Issue) -> DriftFinding:
    return one._replace(reasons=(finding.reason,), message=finding.message, hint=finding.hint)


_WHOLE_TOPIC_REASONS = frozenset(
    {Reason.ZNODE_UNREADABLE, Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.DELETION_IN_PROGRESS}
)
"""Refusals of a topic as a whole: what differs in it is not known, or said by others."""


def _refusal_findings(plan: TopicPlan, refusal: Issue) -> Iterator[DriftFinding]:
    """What a refusal keeps as it is; one that holds back nothing but our record is about no difference."""
    for change in refusal.withheld:
        yield from _change_findings(plan, change, refusal)
    if not refusal.withheld:
        yield _with_issue(_refused_field_finding(plan, refusal), refusal)


def _refused_field_finding(plan: TopicPlan, refusal: Issue) -> DriftFinding:
    """What a refusal that holds no change back is about: then no change could be made."""
    spec, before, first = plan.spec, plan.before, refusal.field[:1]
    if spec is None or refusal.reason in _WHOLE_TOPIC_REASONS:
        return DriftFinding(DriftClass.REFUSED, "", None, None, PlannedAction.REFUSED)
    if spec.absent:
        return DriftFinding(DriftClass.UNEXPECTED, "ensure", None, describe_topic_size(before), PlannedAction.REFUSED)
    if before is None:
        wanted = describe_size(spec.create_partitions, str(spec.create_replication_factor))
        return DriftFinding(DriftClass.MISSING, "", wanted, None, PlannedAction.REFUSED)
    if refusal.reason is Reason.REPLICATION_FACTOR_DIFFERS:
        return _replication_factor_finding(spec, before, PlannedAction.REFUSED)
    if first in (("partitions",), ("replicaAssignment",)):
        return _partitions_finding(spec, before, PlannedAction.REFUSED)
    return DriftFinding(DriftClass.REFUSED, ".".join(refusal.field), None, None, PlannedAction.REFUSED)


def _notice_findings(plan: TopicPlan, notice: Issue) -> Iterator[DriftFinding]:
    """What is only said; a notice about records, or about what is under way, is no difference."""
    spec, before = plan.spec, plan.before
    if spec is None or before is None:
        return
    if notice.reason is Reason.IGNORED:
        yield from (_with_issue(one, notice) for one in _ignored_findings(spec, before, notice.field))
    elif notice.reason is Reason.REPLICAS_DIFFER:
        yield _with_issue(_assignment_finding(spec, before), notice)
    elif notice.reason is Reason.EXISTING_PROBLEM:
        yield _with_issue(
            DriftFinding(DriftClass.FAULT, ".".join(notice.field), None, None, PlannedAction.REPORTED), notice
        )


def _ignored_findings(spec: TopicSpec, before: TopicState, path: tuple[str, ...]) -> Iterator[DriftFinding]:
    """The differences that ``ignore`` leaves alone. One word, replicaAssignment, may stand for both sizes."""
    if path[0] == "config":
        key = path[1]
        yield DriftFinding(
            DriftClass.CONFIG, f"config.{key}", spec.config.get(key), before.config.get(key), PlannedAction.REPORTED
        )
        return
    explicit = spec.assignment is not None
    sized, placed = "partitions" in spec.ignored_fields, explicit and "replicaAssignment" in spec.ignored_fields
    if path[0] != "replicationFactor" and (sized or placed) and spec.partitions != len(before.replicas):
        yield _partitions_finding(spec, before, PlannedAction.REPORTED)
    wide = "replicationFactor" in spec.ignored_fields or placed
    if path[0] != "partitions" and wide and not find_replication_factors(before) <= {spec.replication_factor}:
        yield _replication_factor_finding(spec, before, PlannedAction.REPORTED)


def _unmanaged_findings(plan: TopicPlan) -> Iterator[DriftFinding]:
    """The keys that nobody asked for and nobody touches: all that are there but not in the manifest, less the others.

    Of these the plan has a notice each, which says it for people only.
    """
    spec, before = plan.spec, plan.before
    if spec is None or before is None:
        return
    changes = [*plan.changes, *(change for refusal in plan.refusals for change in refusal.withheld)]
    touched = {item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items}
    ignored = (notice.field for notice in plan.notices if notice.reason is Reason.IGNORED)
    touched.update(path[1] for path in ignored if path[0] == "config")
    for key in sorted(before.config.keys() - spec.config.keys() - THROTTLE_CONFIGS - touched):
        one = DriftFinding(DriftClass.UNMANAGED, f"config.{key}", None, before.config[key], PlannedAction.REPORTED)
        yield one._replace(reasons=(Reason.UNMANAGED,), message="not in the manifest and not set by us: left alone")


def _partitions_finding(spec: TopicSpec, before: TopicState, planned: PlannedAction) -> DriftFinding:
    wanted, now = spec.partitions, len(before.replicas)
    return DriftFinding(DriftClass.PARTITIONS, "partitions", None if wanted is None else str(wanted), str(now), planned)


def _replication_factor_finding(spec: TopicSpec, before: TopicState, planned: PlannedAction) -> DriftFinding:
    expected, actual = str(spec.replication_factor), format_replication_factors(before)
    return DriftFinding(DriftClass.REPLICATION_FACTOR, "replicationFactor", expected, actual, planned)


def _assignment_finding(spec: TopicSpec, before: TopicState) -> DriftFinding:
    """The partitions whose replicas are not where explicit lists have them, as JSON by partition id."""
    wanted, actual = (
        dict(enumerate(spec.assignment or ())),
        dict(zip(before.partition_ids, before.replicas, strict=True)),
    )
    other = [
        partition
        for partition, replicas in actual.items()
        if partition in wanted and wanted[partition] != replicas and partition not in before.reassigning_partitions
    ]
    expected, found = (
        _format_replica_lists((partition, side[partition]) for partition in other) for side in (wanted, actual)
    )
    return DriftFinding(DriftClass.ASSIGNMENT, "replicaAssignment", expected, found, PlannedAction.REPORTED)


def _format_replica_lists(pairs: Iterable[tuple[int, Replicas]]) -> str:
    return json.dumps(dict(pairs), separators=(",", ":"))


def _merge_findings(one: DriftFinding, other: DriftFinding) -> DriftFinding:
    """Two that are about the same, with the words of both; what is only said comes last, and decides nothing."""
    return one._replace(
        risk=max((risk for risk in (one.risk, other.risk) if risk is not None), default=None),
        explanation=one.explanation or other.explanation,
        reasons=tuple(dict.fromkeys((*one.reasons, *other.reasons))),
        message="; ".join(dict.fromkeys(filter(None, (one.message, other.message)))),
        hint="; ".join(dict.fromkeys(filter(None, (one.hint, other.hint)))),
    )


def _apply_observe_mode(one: DriftFinding, plan: TopicPlan) -> DriftFinding:
    """Of a topic with ``mode: Observe`` everything is only reported."""
    return one._replace(planned=PlannedAction.REPORTED) if plan.observe_only else one


class DriftClass(str, Enum):
    """What kind of difference it is: the ``class`` of a finding, and the words of ``--fail-on``."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    ORPHANED = "orphaned"
    PARTITIONS = "partitions"
    REPLICATION_FACTOR = "replicationFactor"
    ASSIGNMENT = "assignment"
    CONFIG = "config"
    UNMANAGED = "unmanaged"
    FAULT = "fault"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class PlannedAction(str, Enum):
    """What a plan would do about a difference: change it, refuse to, or only say it."""

    CHANGE = "Change"
    REFUSED = "Refused"
    REPORTED = "Reported"


class DriftFinding(NamedTuple):
    """One difference of one topic. ``field`` is the path below the spec with dots (empty: the topic as a whole).

    ``expected`` and ``actual`` are text, None where there is no value. ``risk`` is that of the change, None if there is
    none. ``reasons`` are those of the refusals and notices that it comes from, ``message`` and ``instead`` their words.
    """

    drift_class: DriftClass
    field: str
    expected: str | None
    actual: str | None
    planned: PlannedAction
    risk: Risk | None = None
    explanation: str = ""
    reasons: tuple[Reason, ...] = ()
    message: str = ""
    hint: str = ""


def undeclared_topic_finding(name: str, state: ClusterState, cluster: ClusterSpec, owner: str) -> DriftFinding | None:
    """What to say of a topic of ``state`` that no manifest of its cluster names; None if there is nothing to say.

    Kafka's own topics are none of anybody's business, those of other software (``protected``) are expected unless we
    have made them, and what is marked for deletion is about to go.
    """
    topic = state.topics.get(name)
    if name in state.pending_deletions or name in INTERNAL_TOPICS:
        return None
    record = topic.valid_record if topic else None
    if record and record.owner == owner:
        instead = f"give it a manifest again, or give it up: topiarist release {name}"
        message = "was made or adopted by this owner, and is not in the given paths"
        return DriftFinding(
            DriftClass.ORPHANED,
            "",
            None,
            describe_topic_size(topic),
            PlannedAction.REPORTED,
            message=message,
            hint=instead,
        )
    if cluster.is_protected(name):
        return None
    if topic is None:
        fault = state.topic_errors[name]
        message = f"is not in the given paths, and it cannot be read: {fault.path}: {fault.message}"
        return DriftFinding(DriftClass.UNEXPECTED, "", None, "unreadable", PlannedAction.REPORTED, message=message)
    message = "is not in the given paths" + (f"; it belongs to owner {record.owner}" if record else "")
    return DriftFinding(
        DriftClass.UNEXPECTED, "", None, describe_topic_size(topic), PlannedAction.REPORTED, message=message
    )


def stale_reassignment_finding() -> DriftFinding:
    """Say of a topic that a reassignment request names it that is older than the topic, or whose topic is gone."""
    said = explain_stale_entry()
    reasons = (Reason.EXISTING_PROBLEM,)
    found = DriftFinding(DriftClass.FAULT, "reassignment", None, None, PlannedAction.REPORTED, reasons=reasons)
    return found._replace(message=said.message, hint=said.hint)


def format_replication_factors(topic: TopicState) -> str:
    """The replication factors of a topic's partitions: mostly one."""
    return ", ".join(map(str, sorted(set(map(len, topic.replicas))))) or "0"


def describe_topic_size(topic: TopicState | None) -> str | None:
    """A topic's size in words; None if there is no topic."""
    return describe_size(len(topic.replicas), format_replication_factors(topic)) if topic else None


def describe_size(partitions: int, replication_factor: str) -> str:
    """How many partitions with how many replicas, in words."""
    return f"{format_count(partitions, 'partition')}, replication factor {replication_factor}"
