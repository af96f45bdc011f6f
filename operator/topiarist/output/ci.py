"""Output for CI systems: plans and errors as GitHub annotations and as JUnit XML, errors as JSON and as SARIF 2.1.0.

``plan --format github`` and ``validate`` print annotations, shown at the line of the manifest in the reviewed change. A
workflow command is a line of output, so no text from outside may start one: text is escaped the way the runner
unescapes it. GitHub shows only the first ten errors, warnings and notices of a step, so equal annotations are combined
and the most severe come first.

SARIF is the report format of code scanners: tools show the errors beside the findings of other scanners. JUnit XML is
that of tests, which GitLab, Jenkins, Azure and others show under a change. It has the elements and attributes of
Jenkins' schema junit-10.xsd only. GitLab shows the content of an element and no message, so the content is complete.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from topiarist import __version__
from topiarist.adapters.saved_plans.encode import dumps
from topiarist.errors import Diagnostic, FieldPath, Location, Reason
from topiarist.model.plan import Plan, Risk, RiskAssessment, TopicPlan
from topiarist.output.groups import NOT_IN_PATHS, count_plan
from topiarist.output.text.layout import BROKER_DEFAULT, TextLayout
from topiarist.output.text.plan import format_summary_line
from topiarist.output.view import (
    ChangeView,
    IssueView,
    locate,
    relative_location,
    relative_path,
    view_changes,
    view_issue,
    view_topic,
)
from topiarist.text import format_count, sanitize, shorten_list

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
        listed = f"\ntopics: {shorten_list(names, _MAX_NAMES)}" if len(names) > 1 else ""
        lines.append(_format_command(annotation.level, annotation.location, title, annotation.message + listed))
    for plan in plans:
        title = f"Cluster {plan.cluster}".strip()
        lines.extend(_format_command(NOTICE, _NO_LOCATION, title, text) for text in _list_cluster_notices(plan))
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
        lines.append(_format_command(ERROR, _NO_LOCATION, "topiarist", format_count(suppressed_count, "more error")))
    return "".join(lines)


def _build_annotations(plan: Plan, topic: TopicPlan, root: str, *, is_shared: bool = True) -> Iterator[_Annotation]:
    """Yield the annotations of a topic.

    With ``is_shared``, topics that are refused for the same reason have the same message, so that they share one.
    """
    for issue in topic.refusals:
        view = view_issue(topic, issue, is_shared=is_shared)
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


def _list_cluster_notices(plan: Plan) -> Iterator[str]:
    if plan.orphans:
        listed = f": {', '.join(plan.orphans)}" if len(plan.orphans) <= _MAX_NAMES else ""
        yield f"{format_count(len(plan.orphans), 'owned topic')} {NOT_IN_PATHS}{listed}"
    yield from plan.warnings


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


_BASE_ID = "%SRCROOT%"
_LINE_NUMBERS = re.compile(r"(?<=line )[0-9]+|:[0-9]+:[0-9]+")
_DOUBTFUL_RULE = "Doubtful"
_RULE_DESCRIPTIONS = {
    Reason.INVALID_MANIFEST.value: "A manifest that is not valid.",
    Reason.UNREADABLE.value: "A file that cannot be read, or YAML that parsers read differently.",
    Reason.CONFIG_INVALID.value: "A topic config that Kafka rejects, or that conflicts with another config.",
    Reason.NAME_COLLISION.value: "Duplicate documents, or topic names that collide in Kafka's metric names.",
    Reason.POLICY_DENIED.value: "A topic that violates a policy.",
    Reason.POLICY_WARNING.value: "A topic that violates a policy that only warns.",
    _DOUBTFUL_RULE: "A valid manifest that is probably a mistake.",
}


def to_json(errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic] = (), *, suppressed_count: int = 0) -> str:
    """Return ``{"errors": [{file, line, column, message, hint}], "more": 0, "warnings": [...]}``.

    Line and column are 0 if an error is about a file as a whole. ``suppressed_count`` errors were only counted.
    """
    content = {
        "errors": [*map(_encode_diagnostic, errors)],
        "more": suppressed_count,
        "warnings": [*map(_encode_diagnostic, warnings)],
    }
    return json.dumps(content, indent=2) + "\n"


def _encode_diagnostic(diagnostic: Diagnostic) -> dict[str, str | int]:
    return {**diagnostic.location._asdict(), "message": diagnostic.message, "hint": diagnostic.hint}


def to_sarif(
    errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic] = (), *, suppressed_count: int = 0, root: str
) -> str:
    """Return a SARIF log with one run.

    File locations are relative to the folder ``root``. ``suppressed_count`` is the number of errors that were counted
    but not kept. A result's fingerprint depends on no line number, neither its own nor one in its message: the
    fingerprint stays the same when lines are added above.
    """
    results = [(diagnostic.reason, "error", diagnostic) for diagnostic in errors]
    # An invalid manifest would be an error, so the rule of a warning about one is another.
    other_rules = {Reason.INVALID_MANIFEST.value: _DOUBTFUL_RULE}
    results += [(other_rules.get(each.reason, each.reason), "warning", each) for each in warnings]
    rules = sorted({rule for rule, _, _ in results})
    descriptions = [_RULE_DESCRIPTIONS.get(rule, "A manifest that violates a rule.") for rule in rules]
    listed = [{"id": rule, "shortDescription": {"text": text}} for rule, text in zip(rules, descriptions, strict=True)]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "topiarist", "version": __version__, "rules": listed}},
        "originalUriBaseIds": {_BASE_ID: {"description": {"text": "The folder in which topiarist was run."}}},
        # Columns count characters; the default of SARIF is UTF-16 units.
        "columnKind": "unicodeCodePoints",
        "results": list(_build_results(results, rules, root)),
    }
    if suppressed_count:
        text = f"not kept, only counted: {format_count(suppressed_count, 'more error')}."
        note = {"level": "warning", "message": {"text": text}}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [note]}]
    return dumps({"version": "2.1.0", "runs": [run]})


def _build_results(
    diagnostics: Sequence[tuple[str, str, Diagnostic]], rules: Sequence[str], root: str
) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for rule, level, diagnostic in diagnostics:
        file = relative_path(diagnostic.location.file, root)
        identity = "\0".join((rule, file, _LINE_NUMBERS.sub("", diagnostic.message)))
        # Equal errors in one file need different fingerprints, so their ordinal is part of the hash.
        seen[identity] += 1
        fingerprint = sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest()
        text = f"{diagnostic.message}\n{diagnostic.hint}" if diagnostic.hint else diagnostic.message
        yield {
            "ruleId": rule,
            "ruleIndex": rules.index(rule),
            "level": level,
            "message": {"text": _escape_markup(text)},
            "locations": [_build_location(diagnostic, file)],
            "partialFingerprints": {"topiarist/v1": fingerprint},
        }


def _build_location(diagnostic: Diagnostic, file: str) -> dict[str, Any]:
    """A file outside the root is named but not linked."""
    place = diagnostic.location
    if file.startswith(("/", "../", "<")):
        return {"message": {"text": file.rpartition("/")[2]}}
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(file), "uriBaseId": _BASE_ID}}
    if place.line:
        physical["region"] = {"startLine": place.line, "startColumn": place.column}
    return {"physicalLocation": physical}


def _escape_markup(text: str) -> str:
    """Escape links (``[a](b)``) and placeholders (``{0}``), which SARIF viewers interpret."""
    if "](" in text:
        text = text.replace("[", "\\[").replace("]", "\\]")
    return re.sub(r"[{]([0-9]+)[}]", r"{{\1}}", text)


FAILURE, SKIPPED, PASSED = "failure", "skipped", ""
"""Outcomes of a test case beside ``ERROR``; each but ``PASSED`` is the name of its element."""

CLUSTER_CASE = "plan of the cluster"
"""The test case of a cluster as a whole; no topic can have this name."""

_MANIFESTS = ("topiarist", "manifests")
"""Suite and name of the test case of all manifests."""

_UNREADABLE = frozenset({Reason.TOPIC_UNREADABLE.value, Reason.UNREADABLE.value})


class _TestCase(NamedTuple):
    """A test case of a JUnit report; ``reason`` is that of an outcome that is not ``PASSED``, ``lines`` its text."""

    suite: str
    name: str
    outcome: str
    reason: str
    lines: Sequence[str]


def plans_to_junit(plans: Sequence[Plan], failed_clusters: Sequence[str], root: str) -> str:
    """Return a JUnit report: a test suite for each cluster, with a test case for it and for each topic of its plan.

    A refused topic is a failure, one that cannot be read and a cluster without a plan are errors, and an observed topic
    is skipped. A topic with changes passes, whatever their risk: its output has them. Topics without changes are only
    counted, in the output of the cluster. File locations are relative to the folder ``root``.
    """
    lines = ["not planned: see the log of the run"]
    cases = [_TestCase(name or "cluster", CLUSTER_CASE, ERROR, "NotPlanned", lines) for name in failed_clusters]
    for plan in plans:
        name = plan.cluster or plan.cluster_id
        counted = format_summary_line(TextLayout(width=10_000), count_plan(plan))
        cases.append(_TestCase(name, CLUSTER_CASE, PASSED, "", [counted, *_list_cluster_notices(plan)]))
        cases.extend(_build_test_case(name, plan, topic, root) for topic in plan.topics)
    # Jenkins takes a report without a test case for an error.
    return _to_junit(cases or [_TestCase(*_MANIFESTS, PASSED, "", ["no cluster to plan"])])


def diagnostics_to_junit(
    errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic], suppressed_count: int, root: str
) -> str:
    """Return a JUnit report with a test case for each error, and one for all manifests, which has the warnings.

    A file that cannot be read is an error, everything else a failure. ``suppressed_count`` is the number of errors that
    were counted but not kept. File locations are relative to the folder ``root``.
    """
    cases = [_TestCase(*_MANIFESTS, PASSED, "", [_format_diagnostic(each, root) for each in warnings])]
    for each in errors:
        outcome = ERROR if each.reason in _UNREADABLE else FAILURE
        where = relative_location(each.location, root)
        # GitLab ignores a second test case of the same name.
        name = f"{where.line}:{where.column} {each.message}" if where.line else each.message
        cases.append(_TestCase(where.file, name, outcome, each.reason, [_format_diagnostic(each, root)]))
    if suppressed_count:
        text = format_count(suppressed_count, "more error")
        cases.append(_TestCase("topiarist", text, FAILURE, Reason.INVALID_MANIFEST.value, [text]))
    return _to_junit(cases)


def _build_test_case(suite: str, plan: Plan, topic: TopicPlan, root: str) -> _TestCase:
    reasons = [issue.reason.value for issue in topic.refusals]
    outcome = PASSED
    if topic.observe_only and not topic.is_empty:
        outcome = SKIPPED
    elif reasons:
        outcome = FAILURE if _UNREADABLE.isdisjoint(reasons) else ERROR
    action = view_topic(topic).action if outcome in (PASSED, SKIPPED) else ""
    annotations = sorted(_build_annotations(plan, topic, root, is_shared=False))
    lines = [": ".join(filter(None, (str(each.location), each.kind, each.message))) for each in annotations]
    lines = [*filter(None, [action]), *lines]
    return _TestCase(suite, topic.topic, outcome, next(iter(reasons), "Observed"), lines)


def _format_diagnostic(diagnostic: Diagnostic, root: str) -> str:
    return str(diagnostic._replace(location=relative_location(diagnostic.location, root)))


def _to_junit(cases: Sequence[_TestCase]) -> str:
    from xml.etree import ElementTree as ET  # not above: no other format needs it

    suites: dict[str, list[_TestCase]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    top = ET.Element("testsuites", name="topiarist")
    for name, found in suites.items():
        counts = Counter(case.outcome for case in found)
        numbers = {"failures": FAILURE, "errors": ERROR, "skipped": SKIPPED}
        counted = {label: str(counts[outcome]) for label, outcome in numbers.items()}
        suite = ET.SubElement(top, "testsuite", {"name": sanitize(name), "tests": str(len(found)), **counted})
        for case in found:
            about = ET.SubElement(suite, "testcase", classname=sanitize(name), name=sanitize(case.name))
            # XML allows no control characters and no surrogates, not even as references: ``sanitize`` escapes them.
            lines = [sanitize(line) for text in case.lines for line in text.split("\n")]
            if case.outcome != PASSED:
                ET.SubElement(about, case.outcome, type=case.reason, message=lines[0]).text = "\n".join(lines)
            elif lines:
                ET.SubElement(about, "system-out").text = "\n".join(lines)
    ET.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(top, encoding="unicode")}\n'
