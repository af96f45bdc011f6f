"""Plans and errors as GitHub annotations, shown at the line of the manifest in the reviewed change.

``plan --format github`` and ``validate`` print them. A workflow command is a line of output, so no text from outside
may start one: text is escaped the way the runner unescapes it. GitHub shows only the first ten errors, warnings and
notices of a step, so equal annotations are combined and the most severe come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.errors import Diagnostic, Location
from topiarist.model.moves import MoveKind
from topiarist.model.plan import (
    AddPartitions,
    Change,
    DeleteTopic,
    Issue,
    MoveReplicas,
    Plan,
    RiskAssessment,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.run_options import Risk
from topiarist.model.spec import find_origin
from topiarist.output.locations import relative_path
from topiarist.output.text.changes import summarize_changes
from topiarist.output.text.layout import sanitize
from topiarist.output.text.summary import NOT_IN_PATHS
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS, label_cause
from topiarist.output.text.values import BROKER_DEFAULT
from topiarist.text import format_count

ERROR, WARNING, NOTICE = "error", "warning", "notice"
_NO_LOCATION = Location("")
_MAX_NAMES = 10


class _Annotation(NamedTuple):
    """An annotation without its topics; sorts by priority (most severe first), then by location."""

    priority: int
    location: Location
    level: str
    cluster: str
    kind: str
    message: str


def format_plans(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str) -> str:
    """Return an annotation for each refusal (error), risk (warning) and notice.

    ``failed_clusters`` are reported as errors without a location. File locations are relative to the folder ``root``.
    """
    lines = [
        _format_command(ERROR, _NO_LOCATION, f"Cluster {name}", "not planned: see the log of the run")
        for name in failed_clusters
    ]
    topics: dict[_Annotation, list[str]] = {}
    for plan in plans:
        for topic in plan.topics:
            for annotation in _build_annotations(plan, topic, root):
                topics.setdefault(annotation, []).append(topic.topic)
    for annotation, names in sorted(topics.items()):
        subject = names[0] if len(names) == 1 else format_count(len(names), "topic")
        title = f"{subject}{f' on {annotation.cluster}' if annotation.cluster else ''}: {annotation.kind}"
        more = ", ..." if len(names) > _MAX_NAMES else ""
        listed = f"\ntopics: {', '.join(names[:_MAX_NAMES])}{more}" if len(names) > 1 else ""
        lines.append(_format_command(annotation.level, annotation.location, title, annotation.message + listed))
    for plan in plans:
        lines.extend(_format_cluster_notices(plan))
    return "".join(lines)


def format_diagnostics(
    errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic], suppressed_count: int, root: str
) -> str:
    """Return an annotation for each error and each warning.

    ``suppressed_count`` is the number of errors that were counted but not kept.
    """
    lines = []
    for level, listed in ((ERROR, errors), (WARNING, warnings)):
        for place, message, hint, *_ in listed:
            text = f"{message}\n{hint}" if hint else message
            lines.append(_format_command(level, _relative_location(place, root), "topiarist", text))
    if suppressed_count:
        lines.append(_format_command(ERROR, _NO_LOCATION, "topiarist", f"{suppressed_count:,} more errors"))
    return "".join(lines)


def _build_annotations(plan: Plan, topic: TopicPlan, root: str) -> Iterator[_Annotation]:
    for issue in topic.refusals:
        cluster_wide = issue.reason in CLUSTER_WIDE_REASONS
        place = _NO_LOCATION if cluster_wide else _field_location(topic, issue.field, root)
        priority, level = (3, NOTICE) if topic.observe_only else (0, ERROR)
        lines = [issue.message]
        if issue.hint:
            # Topics that are refused for the same reason have the same message, so that they share an annotation.
            lines.append(f"fix: {issue.hint.replace(f'={topic.topic}', '=TOPIC')}")
        lines.extend(_format_cause_location(issue, root))
        if issue.withheld and not cluster_wide:
            lines.append(f"held back: {summarize_changes(issue.withheld)}")
        yield _Annotation(priority, place, level, plan.cluster, f"refused ({issue.reason})", "\n".join(lines))
    for change in topic.changes if topic.is_actionable else ():
        for field, action, assessment in _list_risks(change):
            priority = Risk.DATA_LOSS - assessment.risk + 1
            place = _field_location(topic, field, root)
            message = f"{action}: {assessment.explanation}"
            yield _Annotation(priority, place, WARNING, plan.cluster, assessment.risk.label, message)
    for issue in topic.notices:
        place = _field_location(topic, issue.field, root)
        message = "\n".join([issue.message, *_format_cause_location(issue, root)])
        yield _Annotation(3, place, NOTICE, plan.cluster, issue.reason.value, message)


def _format_cause_location(issue: Issue, root: str) -> Iterator[str]:
    if place := issue.cause_origin and issue.cause_origin.locate():
        yield f"{label_cause(issue)} at {place._replace(file=relative_path(place.file, root))}"


def _list_risks(change: Change) -> Iterator[tuple[tuple[str, ...], str, RiskAssessment]]:
    """Yield each unsafe part of a change: the field that requests it, the action, the assessment."""
    if isinstance(change, UpdateConfig):
        for item in change.items:
            if item.assessment.risk:
                before = "not set" if item.before is None else item.before
                action = f"{item.key} {before} -> {BROKER_DEFAULT if item.after is None else item.after}"
                yield ("config", item.key), action, item.assessment
    elif change.assessment.risk:
        fields = {AddPartitions: ("partitions",), DeleteTopic: ("ensure",), MoveReplicas: _find_move_field(change)}
        yield fields.get(type(change), ()), summarize_changes([change]), change.assessment


def _find_move_field(change: Change) -> tuple[str, ...]:
    """Return the field of the topic that asks for a move; empty if the cluster does."""
    kinds = {kind for move in change.moves for kind in move.kinds} if isinstance(change, MoveReplicas) else set()
    if MoveKind.ASSIGNMENT in kinds:
        return ("replicaAssignment",)
    return ("replicationFactor",) if MoveKind.FACTOR in kinds else ()


def _format_cluster_notices(plan: Plan) -> Iterator[str]:
    title = f"Cluster {plan.cluster}".strip()
    if plan.orphans:
        message = f"{format_count(len(plan.orphans), 'owned topic')} {NOT_IN_PATHS}"
        message += f": {', '.join(plan.orphans)}" if len(plan.orphans) <= _MAX_NAMES else ""
        yield _format_command(NOTICE, _NO_LOCATION, title, message)
    for warning in plan.warnings:
        yield _format_command(NOTICE, _NO_LOCATION, title, warning)


def _field_location(topic: TopicPlan, field: Sequence[str], root: str) -> Location:
    """``config`` as a whole has the location of the topic, although the cluster may have defaults for it."""
    if topic.spec is None:
        return _NO_LOCATION
    path = () if tuple(field) == ("config",) else field
    place = find_origin(topic.spec, *path).locate() or find_origin(topic.spec).locate()
    return _relative_location(place, root) if place else _NO_LOCATION


def _relative_location(location: Location, root: str) -> Location:
    """A file outside ``root`` has no location: GitHub could not show it."""
    file = relative_path(location.file, root)
    return _NO_LOCATION if file.startswith(("/", "../", "<")) else location._replace(file=file)


def _format_command(level: str, location: Location, title: str, message: str) -> str:
    fields = {"file": location.file, "line": location.line, "col": location.column, "title": sanitize(title)}
    listed = ",".join(f"{name}={_escape_property(str(value))}" for name, value in fields.items() if value)
    text = "\n".join(map(sanitize, message.split("\n")))
    return f"::{level} {listed}::{_escape_data(text)}\n"


def _escape_data(text: str) -> str:
    # The percent sign comes first, because the other escapes contain it.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
