"""What differs between a topic and its spec, as findings of a report: field by field, by what ``plan_topic`` says.

``plan`` decides what differs; nothing here compares a spec with a state. Each change, held back or not, each refusal
and each notice about a difference becomes a ``Discrepancy``, with what is wanted, what is there, and what a plan would
do about it. Records are no part of it: a topic that is as asked and lacks only ours is no finding. ``drift`` builds its
reports from these, however it came by states and specs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from topiarist.core.change import AddPartitions, Change, CreateTopic, DeleteTopic, Finding, TopicPlan, UpdateConfig
from topiarist.core.differences import THROTTLES
from topiarist.core.discrepancy import Discrepancy, Kind, Planned, factors, size, sized
from topiarist.core.sizes import widths
from topiarist.core.spec import TopicSpec
from topiarist.core.state import Replicas, TopicState
from topiarist.errors import Reason

Key = tuple[str, str]
"""The kind and field of a discrepancy: there is one of each at most for a topic."""


def discrepancies(plan: TopicPlan) -> tuple[Discrepancy, ...]:
    """The differences that a topic's plan was made of, in order of kind and field; each of them once."""
    found: dict[Key, Discrepancy] = {}
    for one in _all(plan):
        key = (one.kind.value, one.field)
        found[key] = _joined(found[key], one) if key in found else one
    return tuple(_observed(found[key], plan) for key in sorted(found))


def _all(plan: TopicPlan) -> Iterator[Discrepancy]:
    for change in plan.changes:
        yield from _of_change(plan, change, None)
    for refusal in plan.refusals:
        yield from _of_refusal(plan, refusal)
    for notice in plan.notices:
        yield from _of_notice(plan, notice)
    if any(notice.reason is Reason.UNMANAGED for notice in plan.notices):
        yield from _unmanaged(plan)


def _of_change(plan: TopicPlan, change: Change, refusal: Finding | None) -> Iterator[Discrepancy]:
    """What a change would put right; ``refusal`` is what holds it back. A record is no difference."""
    match change:
        case CreateTopic(replicas):
            wanted = sized(len(replicas), str(len(replicas[0])))
            yield _held(Discrepancy(Kind.MISSING, "", wanted, None, Planned.CHANGE, *change.verdict), refusal)
        case DeleteTopic():
            there = size(plan.before)
            yield _held(Discrepancy(Kind.UNEXPECTED, "ensure", None, there, Planned.CHANGE, *change.verdict), refusal)
        case AddPartitions(before):
            sizes = str(change.total), str(before)
            yield _held(Discrepancy(Kind.PARTITIONS, "partitions", *sizes, Planned.CHANGE, *change.verdict), refusal)
        case UpdateConfig(items):
            for item in items:
                made = Discrepancy(
                    Kind.CONFIG, f"config.{item.key}", item.after, item.before, Planned.CHANGE, *item.verdict
                )
                yield _held(made, refusal)


def _held(one: Discrepancy, refusal: Finding | None) -> Discrepancy:
    return _said(one._replace(planned=Planned.REFUSED), refusal) if refusal else one


def _said(one: Discrepancy, finding: Finding) -> Discrepancy:
    return one._replace(reasons=(finding.reason,), message=finding.message, instead=finding.instead)


_WHOLE = frozenset({Reason.ZNODE_UNREADABLE, Reason.NOT_OWNED, Reason.NOT_ADOPTED, Reason.DELETION_IN_PROGRESS})
"""Refusals of a topic as a whole: what differs in it is not known, or said by others."""


def _of_refusal(plan: TopicPlan, refusal: Finding) -> Iterator[Discrepancy]:
    """What a refusal keeps as it is; one that holds back nothing but our record is about no difference."""
    for change in refusal.held:
        yield from _of_change(plan, change, refusal)
    if not refusal.held:
        yield _said(_of_field(plan, refusal), refusal)


def _of_field(plan: TopicPlan, refusal: Finding) -> Discrepancy:
    """What a refusal that holds no change back is about: then no change could be made."""
    spec, before, first = plan.spec, plan.before, refusal.field[:1]
    if spec is None or refusal.reason in _WHOLE:
        return Discrepancy(Kind.REFUSED, "", None, None, Planned.REFUSED)
    if spec.absent:
        return Discrepancy(Kind.UNEXPECTED, "ensure", None, size(before), Planned.REFUSED)
    if before is None:
        wanted = sized(spec.create_partitions, str(spec.create_replication_factor))
        return Discrepancy(Kind.MISSING, "", wanted, None, Planned.REFUSED)
    if refusal.reason is Reason.REPLICATION_FACTOR_DIFFERS:
        return _factor(spec, before, Planned.REFUSED)
    if first in (("partitions",), ("replicaAssignment",)):
        return _partitions(spec, before, Planned.REFUSED)
    return Discrepancy(Kind.REFUSED, ".".join(refusal.field), None, None, Planned.REFUSED)


def _of_notice(plan: TopicPlan, notice: Finding) -> Iterator[Discrepancy]:
    """What is only said; a notice about records, or about what is under way, is no difference."""
    spec, before = plan.spec, plan.before
    if spec is None or before is None:
        return
    if notice.reason is Reason.IGNORED:
        yield from (_said(one, notice) for one in _ignored(spec, before, notice.field))
    elif notice.reason is Reason.REPLICAS_DIFFER:
        yield _said(_placed(spec, before), notice)
    elif notice.reason is Reason.STANDING_FAULT:
        yield _said(Discrepancy(Kind.FAULT, ".".join(notice.field), None, None, Planned.REPORTED), notice)


def _ignored(spec: TopicSpec, before: TopicState, path: tuple[str, ...]) -> Iterator[Discrepancy]:
    """The differences that ``ignore`` leaves alone. One word, replicaAssignment, may stand for both sizes."""
    if path[0] == "config":
        key = path[1]
        yield Discrepancy(Kind.CONFIG, f"config.{key}", spec.config.get(key), before.config.get(key), Planned.REPORTED)
        return
    explicit = spec.assignment is not None
    sized, placed = "partitions" in spec.ignore, explicit and "replicaAssignment" in spec.ignore
    if path[0] != "replicationFactor" and (sized or placed) and spec.partitions != len(before.replicas):
        yield _partitions(spec, before, Planned.REPORTED)
    wide = "replicationFactor" in spec.ignore or placed
    if path[0] != "partitions" and wide and not widths(before) <= {spec.replication_factor}:
        yield _factor(spec, before, Planned.REPORTED)


def _unmanaged(plan: TopicPlan) -> Iterator[Discrepancy]:
    """The keys that nobody asked for and nobody touches: all that are there but not in the manifest, less the others.

    Of these the plan has a notice each, which says it for people only.
    """
    spec, before = plan.spec, plan.before
    if spec is None or before is None:
        return
    changes = [*plan.changes, *(change for refusal in plan.refusals for change in refusal.held)]
    touched = {item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items}
    ignored = (notice.field for notice in plan.notices if notice.reason is Reason.IGNORED)
    touched.update(path[1] for path in ignored if path[0] == "config")
    for key in sorted(before.config.keys() - spec.config.keys() - THROTTLES - touched):
        one = Discrepancy(Kind.UNMANAGED, f"config.{key}", None, before.config[key], Planned.REPORTED)
        yield one._replace(reasons=(Reason.UNMANAGED,), message="not in the manifest and not set by us: left alone")


def _partitions(spec: TopicSpec, before: TopicState, planned: Planned) -> Discrepancy:
    wanted, now = spec.partitions, len(before.replicas)
    return Discrepancy(Kind.PARTITIONS, "partitions", None if wanted is None else str(wanted), str(now), planned)


def _factor(spec: TopicSpec, before: TopicState, planned: Planned) -> Discrepancy:
    expected, actual = str(spec.replication_factor), factors(before)
    return Discrepancy(Kind.REPLICATION_FACTOR, "replicationFactor", expected, actual, planned)


def _placed(spec: TopicSpec, before: TopicState) -> Discrepancy:
    """The partitions whose replicas are not where explicit lists have them, as JSON by partition id."""
    wanted, actual = (
        dict(enumerate(spec.assignment or ())),
        dict(zip(before.partition_ids, before.replicas, strict=True)),
    )
    other = [
        partition
        for partition, replicas in actual.items()
        if partition in wanted and wanted[partition] != replicas and partition not in before.reassigning
    ]
    expected, found = (_lists((partition, side[partition]) for partition in other) for side in (wanted, actual))
    return Discrepancy(Kind.ASSIGNMENT, "replicaAssignment", expected, found, Planned.REPORTED)


def _lists(pairs: Iterable[tuple[int, Replicas]]) -> str:
    return json.dumps(dict(pairs), separators=(",", ":"))


def _joined(one: Discrepancy, other: Discrepancy) -> Discrepancy:
    """Two that are about the same, with the words of both; what is only said comes last, and decides nothing."""
    return one._replace(
        risk=max((risk for risk in (one.risk, other.risk) if risk is not None), default=None),
        because=one.because or other.because,
        reasons=tuple(dict.fromkeys((*one.reasons, *other.reasons))),
        message="; ".join(dict.fromkeys(filter(None, (one.message, other.message)))),
        instead="; ".join(dict.fromkeys(filter(None, (one.instead, other.instead)))),
    )


def _observed(one: Discrepancy, plan: TopicPlan) -> Discrepancy:
    """Of a topic with ``mode: Observe`` everything is only reported."""
    return one._replace(planned=Planned.REPORTED) if plan.observed else one
