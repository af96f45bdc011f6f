"""The result of an ``apply`` as text: successful topics in a few lines, every other topic by itself.

``apply``, ``nudge`` and ``unmanage`` print it; ``text.short`` uses the summary line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    DIM,
    GREEN,
    YELLOW,
    TextLayout,
    choose_action_column,
    format_field,
    format_heading,
    format_names,
    format_section,
    sanitize,
    wrap,
)
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS

_CONDENSED_RESULTS = {Result.DONE: ("+", GREEN), Result.UNCHANGED: ("=", ""), Result.SKIPPED: (".", DIM)}
_DETAILED_RESULTS = {
    Result.CONFLICT: ("~", YELLOW),
    Result.REFUSED: ("!", BOLD_RED),
    Result.UNKNOWN: ("?", BOLD_RED),
    Result.PENDING: ("?", YELLOW),
    Result.FAILED: ("!", BOLD_RED),
}

_WITHHELD = "held back"
_SUMMARY_ORDER = (*(result.value for result in Result), _WITHHELD)

_RESULT_HINTS = {
    Result.CONFLICT: "conflict: the topic changed since it was planned, so nothing was written; plan again",
    Result.UNKNOWN: "unknown: the connection broke before the answer came; the next run sees whether it was done",
    Result.PENDING: "pending: written; the controller goes on by itself",
    Result.SKIPPED: "skipped: the run ended before; the next run goes on",
}


def format_report(report: ReconcileReport, layout: TextLayout) -> str:
    """Return the outcomes of one cluster's plan, hints for unfinished results, and a summary line.

    An error that ended the run is not included: the caller that catches the error prints it.
    """
    return "\n".join(_format_lines(report, layout)) + "\n"


def _format_lines(report: ReconcileReport, layout: TextLayout) -> Iterator[str]:
    results: dict[Result, list[Outcome]] = {}
    for outcome in sorted(report.outcomes):
        results.setdefault(outcome.result, []).append(outcome)
    detailed = [outcome for outcome in sorted(report.outcomes) if _has_details(outcome)]
    layout = replace(layout, action_column=choose_action_column(outcome.topic for outcome in detailed))
    if name := sanitize(report.plan.cluster):
        yield from (layout.colorize(part, BOLD) for part in wrap(name, layout.width))
    for result in _CONDENSED_RESULTS:
        if result in results:
            yield from _format_condensed(layout, result, [each for each in results[result] if not _has_details(each)])
    for outcome in detailed:
        yield from _format_detailed(layout, outcome)
    for result, words in _RESULT_HINTS.items():
        if result in results:
            yield from (f"  {part}" for part in wrap(words, layout.width - 2))
    yield layout.colorize(format_summary(report), BOLD)


def _has_details(outcome: Outcome) -> bool:
    """Return whether the topic needs a block of its own."""
    return outcome.result in _DETAILED_RESULTS or bool(outcome.message)


def _format_condensed(layout: TextLayout, result: Result, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a list of topic names for a result that needs no explanation."""
    sign, tone = _CONDENSED_RESULTS[result]
    if outcomes:
        listed = format_names(layout, [outcome.topic for outcome in outcomes])
        yield from format_section(layout, f"{sign} {result.value}", listed, tone)


def _format_detailed(layout: TextLayout, outcome: Outcome) -> Iterator[str]:
    sign, tone = _DETAILED_RESULTS.get(outcome.result) or _CONDENSED_RESULTS[outcome.result]
    words = f"{outcome.result.value}: {outcome.message}" if outcome.message else outcome.result.value
    yield from format_heading(layout, sign, outcome.topic, action=words, styles=(tone, ""))
    if outcome.reason and outcome.result is not Result.CONFLICT:
        yield from format_field(layout, "reason", [outcome.reason.value])


def format_summary(report: ReconcileReport) -> str:
    """Return ``Applied: 3 done, 1 unchanged, 1 failed, 2 refused.``

    Topics that the plan refused in part count as refused too.
    """
    results = Counter(outcome.result.value for outcome in report.outcomes)
    reasons = {topic.topic: {issue.reason for issue in topic.refusals} for topic in report.plan.topics}
    refused = {topic for topic, topic_reasons in reasons.items() if topic_reasons - CLUSTER_WIDE_REASONS}
    refused.update(outcome.topic for outcome in report.outcomes_with(Result.REFUSED))
    withheld = {topic for topic, topic_reasons in reasons.items() if topic_reasons & CLUSTER_WIDE_REASONS}
    results[Result.REFUSED.value] = len(refused)
    results[_WITHHELD] = len(withheld)
    listed = ", ".join(f"{results[word]:,} {word}" for word in _SUMMARY_ORDER if results[word])
    return f"Applied: {listed}." if listed else "Applied: nothing was to be done."
