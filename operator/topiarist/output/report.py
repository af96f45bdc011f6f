"""The report of an ``apply``: lines of JSON, and its outcomes as text.

``apply --report`` writes a header, one line per topic and per moved partition, and a summary, each when its event
happens, so that an audit has the lines even if the run was interrupted. The caller supplies all times.
``schemas/report.json`` describes each field. The lines contain no addresses, secrets or paths.

``apply``, ``nudge`` and ``unmanage`` print the text: successful topics in a few lines, every other topic by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from topiarist import __version__
from topiarist.adapters.saved_plans import encode
from topiarist.errors import Reason
from topiarist.model.moves import ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import ImpliedTopic, Issue, Plan, TopicPlan
from topiarist.output.text.layout import BOLD, BOLD_RED, DIM, GREEN, YELLOW, TextLayout, choose_action_column
from topiarist.output.view import CLUSTER_WIDE_REASONS
from topiarist.text import format_count, sanitize

FORMAT_VERSION = 1


def format_header(plans: Sequence[Plan], *, at: str, owner: str, mode: str, fingerprint: str | None) -> str:
    """Return the first line: owner, version, mode and clusters of the run.

    ``mode`` is ``manifests``, ``plan`` or ``reviewed``.
    """
    clusters = list(map(_encode_cluster, plans))
    fields = {"formatVersion": FORMAT_VERSION, "at": at, "release": __version__, "owner": owner}
    return _format_line("header", **fields, form=mode, fingerprint=fingerprint, clusters=clusters)


def format_topic(plan: Plan, topic_plan: TopicPlan, outcome: Outcome, *, at: str) -> str:
    """Return the line of a topic: its outcome and all planned changes, before and after."""
    return _format_line(
        "topic",
        at=at,
        cluster=plan.cluster,
        clusterId=plan.cluster_id,
        topic=topic_plan.topic,
        topicId=outcome.topic_id or (topic_plan.before.topic_id if topic_plan.before else None),
        result=outcome.result.value,
        reason=outcome.reason.value if outcome.reason else None,
        message=outcome.message,
        risk=topic_plan.risk.label,
        record={
            "before": encode.encode_record(topic_plan.record_before),
            "after": encode.encode_record(topic_plan.record_after),
        },
        changes=list(map(encode.encode_change, topic_plan.changes)),
        refusals=list(map(_encode_refusal, topic_plan.refusals)),
    )


def format_move(plan: Plan, topic_plan: TopicPlan, move: ReplicaMove, *, batch: int, at: str) -> str:
    """Return the line of a partition with a finished move; ``batch`` is 0 if an earlier run sent it."""
    return _format_line(
        "move",
        at=at,
        cluster=plan.cluster,
        clusterId=plan.cluster_id,
        topic=move.topic,
        topicId=topic_plan.before.topic_id if topic_plan.before else None,
        **encode.encode_move(move),
        batch=batch or None,
    )


def make_refused_outcome(topic_plan: TopicPlan) -> Outcome:
    """Return the outcome of a topic that has only refusals."""
    first = topic_plan.refusals[0]
    return Outcome(topic_plan.topic, Result.REFUSED, first.reason, first.message)


def format_summary(results: Iterable[Result], *, at: str, code: int, reasons: Sequence[Reason]) -> str:
    """Return the last line: topic counts by result, exit code, reasons of errors that ended the run."""
    counted = Counter(results)
    counts = {result.value: counted[result] for result in Result if counted[result]}
    return _format_line("summary", at=at, exit=int(code), results=counts, errors=[reason.value for reason in reasons])


def _encode_cluster(plan: Plan) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": plan.cluster, "clusterId": plan.cluster_id, "chroot": plan.chroot}
    if plan.implied_topics:
        fields["alsoCreates"] = list(map(encode.encode_implied, plan.implied_topics))
    return fields


def _encode_refusal(issue: Issue) -> dict[str, Any]:
    # An audit has no manifest to find the field in.
    return {key: value for key, value in encode.encode_refusal(issue).items() if key != "field"}


def _format_line(row: str, **fields: Any) -> str:
    return json.dumps({"row": row, **fields})


_CONDENSED_RESULTS = {Result.DONE: ("+", GREEN), Result.UNCHANGED: ("=", ""), Result.SKIPPED: (".", DIM)}
"""Sign and style of the results that need no explanation; their topics are listed together."""

_DETAILED_RESULTS = {
    Result.CONFLICT: ("~", YELLOW),
    Result.DIFFERS: ("!", BOLD_RED),
    Result.REFUSED: ("!", BOLD_RED),
    Result.UNKNOWN: ("?", BOLD_RED),
    Result.PENDING: ("?", YELLOW),
    Result.FAILED: ("!", BOLD_RED),
}
_STYLES = _CONDENSED_RESULTS | _DETAILED_RESULTS
_WITHHELD = "held back"
_SUMMARY_ORDER = (*(result.value for result in Result), _WITHHELD)
_RESULT_HINTS = {
    Result.CONFLICT: "conflict: the topic changed after it was planned, so nothing was written; plan again",
    Result.DIFFERS: "differs: a request was sent, and the topic is not as planned; the next plan starts from there",
    Result.UNKNOWN: "unknown: a request was sent, and its outcome was not read; the next run checks if it was written",
    Result.PENDING: "pending: written, but the controller has not finished; no action is needed",
    Result.SKIPPED: "skipped: the run ended first, so nothing was written",
}
_HINT_MOVES_UNFINISHED = (
    "pending: a batch that was sent continues at the controller, with its throttle, and no further batch is sent; run"
    " the same command again for the rest (topiarist moves shows what is left)"
)


def format_report(report: ReconcileReport, layout: TextLayout) -> str:
    """Return the outcomes of one cluster's plan, hints for unfinished results, and a summary line.

    An error that ended the run is not included: the caller that catches the error prints it.
    """
    return "\n".join(_format_lines(report, layout)) + "\n"


def format_report_summary(report: ReconcileReport, layout: TextLayout) -> str:
    """Return only the summary line of a report, with the name of the cluster."""
    label = f"{sanitize(report.plan.cluster)}: " if report.plan.cluster else ""
    return layout.colorize(f"{label}{_format_summary(report)}", BOLD) + "\n"


def _format_lines(report: ReconcileReport, layout: TextLayout) -> Iterator[str]:
    condensed: dict[Result, list[str]] = {}
    detailed: list[Outcome] = []
    for outcome in sorted(report.outcomes):
        if outcome.result in _DETAILED_RESULTS or outcome.message:
            detailed.append(outcome)
        else:
            condensed.setdefault(outcome.result, []).append(outcome.topic)
    done = {outcome.topic for outcome in report.outcomes_with(Result.DONE)}
    moved = [topic.moves() for topic in report.plan.topics if topic.topic in done and topic.moves()]
    layout = replace(layout, action_column=choose_action_column(outcome.topic for outcome in detailed))
    if name := sanitize(report.plan.cluster):
        yield from (layout.colorize(part, BOLD) for part in layout.wrap(name, layout.width))
    for result, (sign, style) in _CONDENSED_RESULTS.items():
        if names := condensed.get(result):
            yield from layout.format_section(f"{sign} {result.value}", layout.format_names(names), style)
    if moved:
        count = format_count(sum(map(len, moved)), "partition")
        copies = format_count(sum(len(move.added) for moves in moved for move in moves), "replica")
        text = f"{count} of {format_count(len(moved), 'topic')}, {copies} copied"
        yield from layout.format_section("+ moved", [text], GREEN)
    if made := [f"{topic.name} (by {topic.maker})" for topic in list_made(report)]:
        yield from layout.format_section("+ also created", layout.format_names(made), GREEN)
    for outcome in detailed:
        sign, style = _STYLES[outcome.result]
        action = f"{outcome.result.value}: {outcome.message}" if outcome.message else outcome.result.value
        yield from layout.format_heading(sign, outcome.topic, action=action, styles=(style, ""))
        if outcome.reason and outcome.result is not Result.CONFLICT:
            yield from layout.format_field("reason", [outcome.reason.value])
    for hint in _find_hints(report.outcomes):
        yield from (f"  {part}" for part in layout.wrap(hint, layout.width - 2))
    yield layout.colorize(_format_summary(report), BOLD)


def list_made(report: ReconcileReport) -> Sequence[ImpliedTopic]:
    """Return the topics without a manifest that the run made: all of them, as soon as it wrote one record."""
    is_written = report.outcomes_with(Result.DONE) or report.outcomes_with(Result.DIFFERS)
    return report.plan.implied_topics if is_written else ()


def _find_hints(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the next step for each kind of unfinished result."""
    kinds = {(outcome.result, outcome.reason is Reason.MOVES_UNFINISHED) for outcome in outcomes}
    for result, hint in _RESULT_HINTS.items():
        if (result, False) in kinds:
            yield hint
        if (result, True) in kinds:
            yield _HINT_MOVES_UNFINISHED


def _format_summary(report: ReconcileReport) -> str:
    """Return ``Applied: 3 done, 1 unchanged, 1 failed, 2 refused.``

    Topics that the plan refused in part count as refused too.
    """
    counts = Counter(outcome.result.value for outcome in report.outcomes)
    refused = {outcome.topic for outcome in report.outcomes_with(Result.REFUSED)}
    withheld: set[str] = set()
    for topic in report.plan.topics:
        for issue in topic.refusals:
            (withheld if issue.reason in CLUSTER_WIDE_REASONS else refused).add(topic.topic)
    counts[Result.REFUSED.value] = len(refused)
    counts[_WITHHELD] = len(withheld)
    listed = ", ".join(f"{counts[label]:,} {label}" for label in _SUMMARY_ORDER if counts[label])
    return f"Applied: {listed}." if listed else "Applied: nothing to do."
