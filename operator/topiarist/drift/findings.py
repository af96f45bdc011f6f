"""Findings of a drift report: derived from plans, and written as the rows of ``findings.jsonl``.

``drift.compare`` calls this module. ``plan_topic`` alone decides what differs; this module never compares a spec with a
state. Each change (withheld or not), each refusal, and each notice about a difference becomes a ``DriftFinding`` with
the expected value, the actual value and the planned action. Ownership records are not differences: a topic that matches
its spec and lacks only the ownership record has no finding. Topics without a manifest get their findings from
``undeclared_topic_finding``.

A row (``make_row``) has the fields of ``schemas/drift.json``. It is a plain mapping, so that it can be
written as JSON and Parquet and returned from Python workers. ``finding_key`` identifies a finding across reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.types import count_replicas, matches_any
from topiarist.model.moves import MoveKind
from topiarist.model.plan import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    Issue,
    MoveReplicas,
    Risk,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, TopicState, find_replication_factors
from topiarist.text import format_count


class DriftClass(str, Enum):
    """Class of a difference: the ``class`` of a finding and the values of ``--fail-on``.

    A new class is a member here, and in the sets below what else it is; its value and its meaning in
    ``schemas/drift.json``; its value in ``schemas/driftexception.json``, unless no exception may accept it; and a topic
    of ``drift.demo`` that shows it. Tests fail until it has all of them. Its findings come from ``make_findings`` if a
    plan says them, else from a check that ``drift.compare`` calls.
    """

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    ORPHANED = "orphaned"
    PARTITIONS = "partitions"
    REPLICATION_FACTOR = "replicationFactor"
    ASSIGNMENT = "assignment"
    DRAINED = "drained"
    RACKS = "racks"
    WIDTHS = "widths"
    SPREAD = "spread"
    MOVING = "moving"
    THROTTLE = "throttle"
    STUCK = "stuck"
    CONFIG = "config"
    UNMANAGED = "unmanaged"
    FAULT = "fault"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    INVALID = "invalid"
    EXPIRED = "expired"
    DORMANT = "dormant"
    OVERSIZED = "oversized"


class Severity(str, Enum):
    """The severity of a finding, the most severe first: the order of findings in summaries."""

    CRITICAL = "Critical"
    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


SEVERITY_RANK = {each.value: rank for rank, each in enumerate(Severity)}
"""The position of each severity, as in rows, in the order of summaries: the lowest is the most severe."""

CRITICAL_CLASSES = frozenset({DriftClass.MISSING, DriftClass.STUCK})
"""Classes that are critical: no client can use the topic, or nothing can be moved on the whole cluster."""

MOVE_CLASSES = frozenset({DriftClass.THROTTLE, DriftClass.STUCK, DriftClass.MOVING})
"""Classes that ``topiarist moves`` shows on a cluster."""

MANIFEST_CLASSES = frozenset({DriftClass.INVALID.value, DriftClass.EXPIRED.value})
"""Classes, as in rows, of findings about documents: they are known whatever is known of clusters and topics."""

NEVER_ACCEPTED = MANIFEST_CLASSES | {DriftClass.UNKNOWN.value}
"""Classes, as in rows, that no exception accepts."""

PLACEMENT_CLASSES = tuple(
    kind.value for kind in (DriftClass.RACKS, DriftClass.WIDTHS, DriftClass.SPREAD, DriftClass.DRAINED)
)
"""Classes, as in rows, about the brokers of replicas."""


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
    field: str = ""
    expected: str | None = None
    actual: str | None = None
    planned: PlannedAction = PlannedAction.REPORTED
    risk: Risk | None = None
    explanation: str = ""
    reasons: tuple[Reason, ...] = ()
    message: str = ""
    hint: str = ""


FindingRow = dict[str, Any]

FindingKey = tuple[str, str, str, str]
"""Cluster, topic, class and field."""


def finding_key(row: Mapping[str, Any]) -> FindingKey:
    """Return the key of a finding, which is equal in all reports."""
    return row["cluster"], row["topic"], row["class"], row["field"]


def finding_id(row: Mapping[str, Any]) -> str:
    """Return the id of a finding: 12 characters, of its key alone, so that it is the same in all reports."""
    return sha256(json.dumps(finding_key(row)).encode()).hexdigest()[:12]


class FindingSelection(Struct, frozen=True):
    """Some findings; an empty field selects all. ``topics``, ``fields`` and ``clusters`` are patterns."""

    ids: tuple[str, ...] = ()
    severities: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    responsible: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()

    def matches(self, row: FindingRow) -> bool:
        """Return whether a finding is selected."""
        return (
            (not self.ids or row["id"] in self.ids)
            and (not self.severities or row["severity"] in self.severities)
            and (not self.classes or row["class"] in self.classes)
            and (not self.fields or matches_any(row["field"], self.fields))
            and (not self.topics or matches_any(row["topic"], self.topics))
            and (not self.clusters or matches_any(row["cluster"], self.clusters))
            and (not self.responsible or row["responsible"] in self.responsible)
            and (not self.manifests or row["manifest"] in self.manifests)
        )


def make_findings(plan: TopicPlan, actual: Iterable[DriftFinding] = ()) -> tuple[DriftFinding, ...]:
    """Return the findings of a topic, sorted by class and field, at most one for each of these pairs.

    The plan of the topic decides the planned action and its risk. ``actual`` are findings that do not depend on a plan,
    at most one for each pair: they decide the values.
    """
    by_key: dict[tuple[str, str], list[DriftFinding]] = {}
    for finding in _iter_findings(plan):
        by_key.setdefault((finding.drift_class.value, finding.field), []).append(finding)
    findings = {key: _merge_findings(group) if len(group) > 1 else group[0] for key, group in by_key.items()}
    for finding in _hidden_partitions_findings(plan):
        findings.setdefault((finding.drift_class.value, finding.field), finding)
    is_foreign = any(refusal.reason in _FOREIGN_TOPIC_REASONS for refusal in plan.refusals)
    for finding in () if is_foreign else actual:
        key = (finding.drift_class.value, finding.field)
        planned = findings.get(key)
        findings[key] = planned._replace(expected=finding.expected, actual=finding.actual) if planned else finding
    ordered = (findings[key] for key in sorted(findings))
    return tuple(one._replace(planned=PlannedAction.REPORTED) if plan.observe_only else one for one in ordered)


def _iter_findings(plan: TopicPlan) -> Iterator[DriftFinding]:
    for change in plan.changes:
        yield from _change_findings(plan, change)
    for refusal in plan.refusals:
        # A refusal that withholds only the change of the ownership record yields nothing.
        for change in refusal.withheld:
            for finding in _change_findings(plan, change):
                yield _with_issue(finding, refusal)._replace(planned=PlannedAction.REFUSED)
        if not refusal.withheld:
            yield _with_issue(_refused_field_finding(plan, refusal), refusal)._replace(planned=PlannedAction.REFUSED)
    # Notices come last, so that a notice never overrides the values of a change or a refusal.
    if plan.spec and plan.before:  # a saved plan has no spec
        for notice in plan.notices:
            for finding in _notice_findings(plan.spec, plan.before, notice):
                yield _with_issue(finding, notice)
        if any(notice.reason is Reason.UNMANAGED for notice in plan.notices):
            yield from _unmanaged_findings(plan, plan.spec, plan.before)


def _hidden_partitions_findings(plan: TopicPlan) -> Iterator[DriftFinding]:
    """Yield the difference of partitions that a plan does not name.

    If explicit lists have another width than the topic, the plan has one refusal for the growth and for the width.
    """
    spec, before = plan.spec, plan.before
    if spec is None or before is None or spec.assignment is None or spec.partitions == len(before.replicas):
        return
    for refusal in plan.refusals:
        if refusal.reason is Reason.REPLICATION_FACTOR_DIFFERS:
            yield _with_issue(_partitions_finding(spec, before), refusal)._replace(planned=PlannedAction.REFUSED)


def _with_issue(finding: DriftFinding, issue: Issue) -> DriftFinding:
    return finding._replace(reasons=(issue.reason,), message=issue.message, hint=issue.hint)


def _merge_findings(group: Sequence[DriftFinding]) -> DriftFinding:
    """Merge findings of the same class and field; the first one decides the values and the planned action."""
    return group[0]._replace(
        risk=max((each.risk for each in group if each.risk is not None), default=None),
        explanation=next((each.explanation for each in group if each.explanation), ""),
        reasons=tuple(dict.fromkeys(chain.from_iterable(each.reasons for each in group))),
        message="; ".join(dict.fromkeys(each.message for each in group if each.message)),
        hint="; ".join(dict.fromkeys(each.hint for each in group if each.hint)),
    )


def keep_selected(plan: TopicPlan, selected: AbstractSet[tuple[str, str]]) -> TopicPlan:
    """Return the plan with the changes and refusals of these findings alone, each given by class and field."""
    kept: list[Change] = []
    dropped: list[Change] = []
    for change in plan.changes:
        if isinstance(change, UpdateConfig):
            for items, into in (
                (tuple(each for each in change.items if _config_keys(each.key) & selected), kept),
                (tuple(each for each in change.items if not _config_keys(each.key) & selected), dropped),
            ):
                if items:
                    into.append(UpdateConfig(items))
        else:
            (kept if _keys_of(plan, change) & selected else dropped).append(change)
    refusals = tuple(each for each in plan.refusals if _refusal_keys(plan, each) & selected)
    whole = replace(plan, changes=(*kept, *dropped))
    return replace(withhold(whole, dropped, Issue(Reason.IGNORED, "")), refusals=refusals)


def _config_keys(key: str) -> set[tuple[str, str]]:
    return {(each.value, f"config.{key}") for each in (DriftClass.CONFIG, DriftClass.UNMANAGED)}


def find_planned(plan: TopicPlan) -> set[tuple[str, str]]:
    """Return the findings that changes and refusals of a plan are about, by class and field."""
    changes = (_keys_of(plan, each) for each in plan.changes)
    return set().union(*changes, *(_refusal_keys(plan, each) for each in plan.refusals))


def _keys_of(plan: TopicPlan, change: Change) -> set[tuple[str, str]]:
    if isinstance(change, UpdateConfig):
        return set().union(*(_config_keys(each.key) for each in change.items))
    return {(each.drift_class.value, each.field) for each in _change_findings(plan, change)}


def _refusal_keys(plan: TopicPlan, refusal: Issue) -> set[tuple[str, str]]:
    if refusal.withheld:
        return set().union(*(_keys_of(plan, change) for change in refusal.withheld))
    found = _refused_field_finding(plan, refusal)
    return {(found.drift_class.value, found.field)}


def _change_findings(plan: TopicPlan, change: Change) -> Iterator[DriftFinding]:
    """Yield the differences that a change would remove; a change of the ownership record is not a difference."""
    planned = PlannedAction.CHANGE
    match change:
        case CreateTopic(replicas):
            size = _describe_size(len(replicas), str(len(replicas[0])))
            yield DriftFinding(DriftClass.MISSING, "", size, None, planned, *change.assessment)
        case DeleteTopic():
            actual = _describe_topic_size(plan.before)
            yield DriftFinding(DriftClass.UNEXPECTED, "ensure", None, actual, planned, *change.assessment)
        case AddPartitions(before):
            sizes = str(change.total), str(before)
            yield DriftFinding(DriftClass.PARTITIONS, "partitions", *sizes, planned, *change.assessment)
        case MoveReplicas(moves):
            for kind in MoveKind:
                if any(kind in move.kinds for move in moves):
                    finding = _moves_finding(plan, kind)
                    yield finding._replace(
                        planned=planned, risk=change.assessment.risk, explanation=change.assessment.explanation
                    )
        case UpdateConfig(items):
            for item in items:
                values = f"config.{item.key}", item.after, item.before
                yield DriftFinding(DriftClass.CONFIG, *values, planned, *item.assessment)


_CLASS_BY_KIND = {
    MoveKind.DRAIN: DriftClass.DRAINED,
    MoveKind.RACKS: DriftClass.RACKS,
    MoveKind.SPREAD: DriftClass.SPREAD,
    MoveKind.LEADERS: DriftClass.SPREAD,
}


def _moves_finding(plan: TopicPlan, kind: MoveKind) -> DriftFinding:
    """Return the finding of the partitions that move for one reason.

    The replicas themselves are described by ``drift.placement``: where they go depends on the plans of other
    topics.
    """
    if plan.spec is not None and plan.before is not None:
        if kind is MoveKind.FACTOR:
            return _replication_factor_finding(plan.spec, plan.before)
        if kind is MoveKind.ASSIGNMENT:
            return _assignment_finding(plan.spec, plan.before)
    return DriftFinding(_CLASS_BY_KIND[kind])


_WHOLE_TOPIC_REASONS = frozenset(
    {Reason.TOPIC_UNREADABLE, Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.DELETION_IN_PROGRESS}
)
"""Reasons that refuse a topic as a whole: its differences are unknown, or other findings report them."""


_FOREIGN_TOPIC_REASONS = _WHOLE_TOPIC_REASONS - {Reason.NOT_ADOPTED}
"""Reasons for which nothing of a topic is compared; a topic that waits for adoption is compared."""


def _refused_field_finding(plan: TopicPlan, refusal: Issue) -> DriftFinding:
    """Return the finding of a refusal that withholds no change, because no change could be planned."""
    spec, before = plan.spec, plan.before
    if spec is None or refusal.reason in _WHOLE_TOPIC_REASONS:
        return DriftFinding(DriftClass.REFUSED)
    if spec.absent:
        return DriftFinding(DriftClass.UNEXPECTED, "ensure", None, _describe_topic_size(before))
    if before is None:
        size = _describe_size(spec.create_partitions, str(spec.create_replication_factor))
        return DriftFinding(DriftClass.MISSING, "", size)
    # If the factor is ignored, this reason refuses the growth by explicit lists of another width.
    if refusal.reason is Reason.REPLICATION_FACTOR_DIFFERS and "replicationFactor" not in spec.ignored_fields:
        return _replication_factor_finding(spec, before)
    if _keeps_drained_broker(spec, before, refusal):
        return DriftFinding(DriftClass.DRAINED)
    if refusal.field[:1] in (("partitions",), ("replicaAssignment",)):
        return _partitions_finding(spec, before)
    return DriftFinding(DriftClass.REFUSED, ".".join(refusal.field))


def _keeps_drained_broker(spec: TopicSpec, before: TopicState, refusal: Issue) -> bool:
    """Return whether a refusal says that the topic stays on a drained broker."""
    if refusal.reason is Reason.EXCLUDED_BROKERS:  # also the reason to refuse growth by explicit lists
        return spec.partitions == len(before.replicas)
    return refusal.reason in (Reason.MOVE_NOT_ALLOWED, Reason.PROTECTED_TOPIC) and not refusal.field


def _notice_findings(spec: TopicSpec, before: TopicState, notice: Issue) -> Iterator[DriftFinding]:
    """Yield the differences that a notice reports.

    Notices about ownership records or about work in progress are not differences and yield nothing.
    """
    if notice.reason is Reason.IGNORED:
        yield from _ignored_findings(spec, before, notice.field)
    elif notice.reason is Reason.REPLICAS_DIFFER:
        yield _assignment_finding(spec, before)
    elif notice.reason is Reason.EXISTING_PROBLEM and notice.field == ("replicationFactor",):
        yield DriftFinding(DriftClass.WIDTHS)
    elif notice.reason is Reason.EXISTING_PROBLEM:
        yield DriftFinding(DriftClass.FAULT, ".".join(notice.field))


def _ignored_findings(spec: TopicSpec, before: TopicState, path: tuple[str, ...]) -> Iterator[DriftFinding]:
    """Yield the differences that ``ignore`` excludes from reconciliation.

    The entry ``replicaAssignment`` covers both the partition count and the replication factor.
    """
    if path[0] == "config":
        key = path[1]
        if f"config.{key}" not in spec.ignored_fields:
            return  # the Kafka version of the cluster has dropped it, so that nothing differs
        yield DriftFinding(DriftClass.CONFIG, f"config.{key}", spec.config.get(key), before.config.get(key))
        return
    ignores_assignment = spec.assignment is not None and "replicaAssignment" in spec.ignored_fields
    ignores_partitions = ignores_assignment or "partitions" in spec.ignored_fields
    ignores_factor = ignores_assignment or "replicationFactor" in spec.ignored_fields
    if path[0] != "replicationFactor" and ignores_partitions and spec.partitions != len(before.replicas):
        yield _partitions_finding(spec, before)
    if path[0] != "partitions" and ignores_factor and not find_replication_factors(before) <= {spec.replication_factor}:
        yield _replication_factor_finding(spec, before)


def _unmanaged_findings(plan: TopicPlan, spec: TopicSpec, before: TopicState) -> Iterator[DriftFinding]:
    """Yield a finding for each config key that the topic has and topiarist does not manage.

    These are the keys that are not in the manifest, except throttles and keys that the plan changes or ignores. The
    plan has a notice for each key, but the notice names the key only in its text.
    """
    changes = [*plan.changes, *(change for refusal in plan.refusals for change in refusal.withheld)]
    touched = {item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items}
    ignored = (notice.field for notice in plan.notices if notice.reason is Reason.IGNORED)
    touched.update(path[1] for path in ignored if path[0] == "config")
    message = "is not in the manifest and was not set by topiarist: left unchanged"
    for key in sorted(before.config.keys() - spec.config.keys() - THROTTLE_CONFIGS - touched):
        finding = DriftFinding(DriftClass.UNMANAGED, f"config.{key}", None, before.config[key])
        yield finding._replace(reasons=(Reason.UNMANAGED,), message=message)


def _partitions_finding(spec: TopicSpec, before: TopicState) -> DriftFinding:
    return DriftFinding(DriftClass.PARTITIONS, "partitions", str(spec.partitions), str(len(before.replicas)))


def _replication_factor_finding(spec: TopicSpec, before: TopicState) -> DriftFinding:
    expected, actual = str(spec.replication_factor), _format_replication_factors(before)
    return DriftFinding(DriftClass.REPLICATION_FACTOR, "replicationFactor", expected, actual)


def _assignment_finding(spec: TopicSpec, before: TopicState) -> DriftFinding:
    """Return the finding for partitions with other replicas than the explicit replica lists.

    Both values are JSON objects by partition id. Partitions under reassignment are left out.
    """
    desired = dict(enumerate(spec.assignment or ()))
    actual = dict(zip(before.partition_ids, before.replicas, strict=True))
    differing = [
        partition
        for partition, replicas in actual.items()
        if desired.get(partition, replicas) != replicas and partition not in before.reassigning_partitions
    ]
    expected, found = (
        json.dumps({partition: lists[partition] for partition in differing}, separators=(",", ":"))
        for lists in (desired, actual)
    )
    return DriftFinding(DriftClass.ASSIGNMENT, "replicaAssignment", expected, found)


def undeclared_topic_finding(name: str, state: ClusterState, cluster: ClusterSpec, owner: str) -> DriftFinding | None:
    """Return the finding for a topic of ``state`` that no manifest of its cluster declares.

    Returns None for internal topics of Kafka and of topiarist, for topics with a pending deletion, and for protected
    topics (topics of other software) unless ``owner`` has created or adopted them.
    """
    if name in state.pending_deletions or cluster.internal_owner(name):
        return None
    topic = state.topics.get(name)
    record = topic.valid_record if topic else None
    size = _describe_topic_size(topic)
    if record and record.owner == owner:
        hint = f"add a manifest for it, or give up its ownership: topiarist unmanage {name}"
        message = "was created or adopted by this owner, and is not in the given paths"
        return DriftFinding(DriftClass.ORPHANED, actual=size, message=message, hint=hint)
    if cluster.is_protected(name):
        return None
    if topic is None:
        fault = state.topic_errors[name]
        message = f"is not in the given paths, and it cannot be read: {fault.path}: {fault.message}"
        return DriftFinding(DriftClass.UNEXPECTED, actual="unreadable", message=message)
    message = "is not in the given paths" + (f"; it belongs to owner {record.owner}" if record else "")
    return DriftFinding(DriftClass.UNEXPECTED, actual=size, message=message)


def _format_replication_factors(topic: TopicState) -> str:
    return ", ".join(map(str, sorted(set(map(count_replicas, topic.replicas))))) or "0"


def _describe_topic_size(topic: TopicState | None) -> str | None:
    return _describe_size(len(topic.replicas), _format_replication_factors(topic)) if topic else None


def _describe_size(partitions: int, replication_factor: str) -> str:
    return f"{format_count(partitions, 'partition')}, replication factor {replication_factor}"
