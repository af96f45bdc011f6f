"""Findings of a drift report about single topics, derived from plans.

``drift.compare`` calls this module and turns the findings into report rows. ``plan_topic`` alone decides what differs;
this module never compares a spec with a state. Each change (withheld or not), each refusal, and each notice about a
difference becomes a ``DriftFinding`` with the expected value, the actual value and the planned action. Ownership
records are not differences: a topic that matches its spec and lacks only the ownership record has no finding. Topics
without a manifest get their findings from ``undeclared_topic_finding``.
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
from topiarist.planning.existing_problems import explain_stale_entry
from topiarist.text import format_count

TopicFindingKey = tuple[str, str]
"""Class and field of a finding; a topic has at most one finding per key."""


def make_findings(plan: TopicPlan) -> tuple[DriftFinding, ...]:
    """Return the findings of a topic's plan, sorted by class and field, without duplicates."""
    findings: dict[TopicFindingKey, DriftFinding] = {}
    for finding in _iter_findings(plan):
        key = (finding.drift_class.value, finding.field)
        findings[key] = _merge_findings(findings[key], finding) if key in findings else finding
    return tuple(_apply_observe_mode(findings[key], plan) for key in sorted(findings))


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
    """Yield the differences that a change would remove.

    ``refusal`` is the refusal that withholds the change, or None. A change of the ownership record is not a difference.
    """
    match change:
        case CreateTopic(replicas):
            wanted = describe_size(len(replicas), str(len(replicas[0])))
            yield _with_refusal(
                DriftFinding(DriftClass.MISSING, "", wanted, None, PlannedAction.CHANGE, *change.assessment), refusal
            )
        case DeleteTopic():
            actual = describe_topic_size(plan.before)
            yield _with_refusal(
                DriftFinding(DriftClass.UNEXPECTED, "ensure", None, actual, PlannedAction.CHANGE, *change.assessment),
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
                finding = DriftFinding(
                    DriftClass.CONFIG,
                    f"config.{item.key}",
                    item.after,
                    item.before,
                    PlannedAction.CHANGE,
                    *item.assessment,
                )
                yield _with_refusal(finding, refusal)


def _with_refusal(one: DriftFinding, refusal: Issue | None) -> DriftFinding:
    return _with_issue(one._replace(planned=PlannedAction.REFUSED), refusal) if refusal else one


def _with_issue(one: DriftFinding, finding: Issue) -> DriftFinding:
    return one._replace(reasons=(finding.reason,), message=finding.message, hint=finding.hint)


_WHOLE_TOPIC_REASONS = frozenset(
    {Reason.ZNODE_UNREADABLE, Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.DELETION_IN_PROGRESS}
)
"""Reasons that refuse a topic as a whole: its differences are unknown, or other findings report them."""


def _refusal_findings(plan: TopicPlan, refusal: Issue) -> Iterator[DriftFinding]:
    """Yield findings for the changes that a refusal withholds, or one finding for a refusal without changes.

    A refusal that withholds only the change of the ownership record yields nothing.
    """
    for change in refusal.withheld:
        yield from _change_findings(plan, change, refusal)
    if not refusal.withheld:
        yield _with_issue(_refused_field_finding(plan, refusal), refusal)


def _refused_field_finding(plan: TopicPlan, refusal: Issue) -> DriftFinding:
    """Return the finding of a refusal that withholds no change, because no change could be planned."""
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
    """Yield the differences that a notice reports.

    Notices about ownership records or about work in progress are not differences and yield nothing.
    """
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
    """Yield the differences that ``ignore`` excludes from reconciliation.

    The entry ``replicaAssignment`` covers both the partition count and the replication factor.
    """
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
    """Yield a finding for each config key that the topic has and topiarist does not manage.

    These are the keys that are not in the manifest, except throttles and keys that the plan changes or ignores. The
    plan has a notice for each key, but the notice names the key only in its text.
    """
    spec, before = plan.spec, plan.before
    if spec is None or before is None:
        return
    changes = [*plan.changes, *(change for refusal in plan.refusals for change in refusal.withheld)]
    touched = {item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items}
    ignored = (notice.field for notice in plan.notices if notice.reason is Reason.IGNORED)
    touched.update(path[1] for path in ignored if path[0] == "config")
    for key in sorted(before.config.keys() - spec.config.keys() - THROTTLE_CONFIGS - touched):
        finding = DriftFinding(DriftClass.UNMANAGED, f"config.{key}", None, before.config[key], PlannedAction.REPORTED)
        yield finding._replace(reasons=(Reason.UNMANAGED,), message="not in the manifest and not set by us: left alone")


def _partitions_finding(spec: TopicSpec, before: TopicState, planned: PlannedAction) -> DriftFinding:
    wanted, now = spec.partitions, len(before.replicas)
    return DriftFinding(DriftClass.PARTITIONS, "partitions", None if wanted is None else str(wanted), str(now), planned)


def _replication_factor_finding(spec: TopicSpec, before: TopicState, planned: PlannedAction) -> DriftFinding:
    expected, actual = str(spec.replication_factor), format_replication_factors(before)
    return DriftFinding(DriftClass.REPLICATION_FACTOR, "replicationFactor", expected, actual, planned)


def _assignment_finding(spec: TopicSpec, before: TopicState) -> DriftFinding:
    """Return the finding for partitions with other replicas than the explicit replica lists.

    Both values are JSON objects by partition id. Partitions under reassignment are left out.
    """
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
    """Merge two findings of the same class and field; ``one`` decides the values and the planned action.

    Messages, reasons and hints of both are kept. Notices are iterated last, so that a notice never overrides a change
    or a refusal.
    """
    return one._replace(
        risk=max((risk for risk in (one.risk, other.risk) if risk is not None), default=None),
        explanation=one.explanation or other.explanation,
        reasons=tuple(dict.fromkeys((*one.reasons, *other.reasons))),
        message="; ".join(dict.fromkeys(filter(None, (one.message, other.message)))),
        hint="; ".join(dict.fromkeys(filter(None, (one.hint, other.hint)))),
    )


def _apply_observe_mode(one: DriftFinding, plan: TopicPlan) -> DriftFinding:
    """Return the finding with planned action ``REPORTED`` if the topic has ``mode: Observe``."""
    return one._replace(planned=PlannedAction.REPORTED) if plan.observe_only else one


class DriftClass(str, Enum):
    """Class of a difference: the ``class`` of a finding and the values of ``--fail-on``."""

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
    """The planned action for a difference: change it, refuse the change, or only report the difference."""

    CHANGE = "Change"
    REFUSED = "Refused"
    REPORTED = "Reported"


class DriftFinding(NamedTuple):
    """One difference of one topic.

    ``field`` is the path below the spec, joined by dots; empty for the topic as a whole. ``expected`` and ``actual``
    are text, None where there is no value. ``risk`` and ``explanation`` are those of the change; ``risk`` is None
    without a change. ``reasons``, ``message`` and ``hint`` come from the refusals and notices behind the finding.
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
    """Return the finding for a topic of ``state`` that no manifest of its cluster declares.

    Returns None for Kafka's internal topics, for topics with a pending deletion, and for protected topics (topics of
    other software) unless ``owner`` has created or adopted them.
    """
    topic = state.topics.get(name)
    if name in state.pending_deletions or name in INTERNAL_TOPICS:
        return None
    record = topic.valid_record if topic else None
    if record and record.owner == owner:
        hint = f"give it a manifest again, or give it up: topiarist unmanage {name}"
        message = "was made or adopted by this owner, and is not in the given paths"
        return DriftFinding(
            DriftClass.ORPHANED,
            "",
            None,
            describe_topic_size(topic),
            PlannedAction.REPORTED,
            message=message,
            hint=hint,
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
    """Return the finding for a topic that a stale reassignment request names.

    The request is older than the topic, or the topic was deleted.
    """
    stale_entry = explain_stale_entry()
    reasons = (Reason.EXISTING_PROBLEM,)
    finding = DriftFinding(DriftClass.FAULT, "reassignment", None, None, PlannedAction.REPORTED, reasons=reasons)
    return finding._replace(message=stale_entry.message, hint=stale_entry.hint)


def format_replication_factors(topic: TopicState) -> str:
    """Return the distinct replication factors of a topic's partitions as text, ``0`` without partitions."""
    return ", ".join(map(str, sorted(set(map(len, topic.replicas))))) or "0"


def describe_topic_size(topic: TopicState | None) -> str | None:
    """Return a topic's size as text; None without a topic."""
    return describe_size(len(topic.replicas), format_replication_factors(topic)) if topic else None


def describe_size(partitions: int, replication_factor: str) -> str:
    """Return a partition count and a replication factor as text."""
    return f"{format_count(partitions, 'partition')}, replication factor {replication_factor}"
