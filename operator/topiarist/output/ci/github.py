"""Plans and errors as GitHub annotations, shown at the line of the manifest in the reviewed change.

``plan --format github`` and ``validate`` print them. A workflow command is a line of output, so no text from outside
may start one: text is escaped the way the runner unescapes it. GitHub shows only the first ten errors, warnings and
notices of a step, so equal annotations are combined and the most severe come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topiarist.errors import Diagnostic, FieldPath, Location
from topiarist.model.plan import Plan, Risk, RiskAssessment, TopicPlan
from topiarist.output.groups import NOT_IN_PATHS
from topiarist.output.text.layout import BROKER_DEFAULT, sanitize
from topiarist.output.view import (
    ChangeView,
    IssueView,
    locate,
    relative_location,
    relative_path,
    view_changes,
    view_issue,
)
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
        # Topics that are refused for the same reason have the same message, so that they share an annotation.
        view = view_issue(topic, issue, is_shared=True)
        place = _NO_LOCATION if view.is_held_back else _find_place(topic, issue.field, root)
        priority, level = (3, NOTICE) if topic.observe_only else (0, ERROR)
        lines = [issue.message, *([f"fix: {view.hint}"] if view.hint else []), *_format_cause_place(view, root)]
        if view.changes and not view.is_held_back:
            lines.append(f"held back: {view.summary}")
        yield _Annotation(priority, place, level, plan.cluster, f"refused ({issue.reason})", "\n".join(lines))
    for change in view_changes(topic.changes) if topic.is_actionable else ():
        for field, action, assessment in _list_risks(change):
            priority = Risk.DATA_LOSS - assessment.risk + 1
            place = _find_place(topic, field, root)
            message = f"{action}: {assessment.explanation}"
            yield _Annotation(priority, place, WARNING, plan.cluster, assessment.risk.label, message)
    for issue in topic.notices:
        place = _find_place(topic, issue.field, root)
        message = "\n".join([issue.message, *_format_cause_place(view_issue(topic, issue), root)])
        yield _Annotation(3, place, NOTICE, plan.cluster, issue.reason.value, message)


def _format_cause_place(view: IssueView, root: str) -> Iterator[str]:
    if place := view.cause_place:
        yield f"{view.cause} at {relative_location(place, root)}"


def _list_risks(change: ChangeView) -> Iterator[tuple[FieldPath, str, RiskAssessment]]:
    """Yield each unsafe part of a change: the field that requests it, the action, the assessment."""
    for item in change.overrides:
        if item.assessment.risk:
            before = "not set" if item.before is None else item.before
            action = f"{item.key} {before} -> {BROKER_DEFAULT if item.after is None else item.after}"
            yield ("config", item.key), action, item.assessment
    if change.assessment.risk and not change.overrides:
        yield change.field, change.summary, change.assessment


def _format_cluster_notices(plan: Plan) -> Iterator[str]:
    title = f"Cluster {plan.cluster}".strip()
    if plan.orphans:
        message = f"{format_count(len(plan.orphans), 'owned topic')} {NOT_IN_PATHS}"
        message += f": {', '.join(plan.orphans)}" if len(plan.orphans) <= _MAX_NAMES else ""
        yield _format_command(NOTICE, _NO_LOCATION, title, message)
    for warning in plan.warnings:
        yield _format_command(NOTICE, _NO_LOCATION, title, warning)


def _find_place(topic: TopicPlan, field: FieldPath, root: str) -> Location:
    """``config`` as a whole has the location of the topic, although the cluster may have defaults for it."""
    place = locate(topic.spec, *(() if field == ("config",) else field)) or locate(topic.spec)
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
