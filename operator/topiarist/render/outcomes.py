"""What became of a plan, as text: what went well in a few lines, everything else topic by topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from topiarist.reconcile import Outcome, Report, Result
from topiarist.render.blocks import CLOSED
from topiarist.render.page import (
    ADDED,
    CHANGED,
    GONE,
    QUIET,
    STRONG,
    Page,
    column_for,
    field,
    head,
    names,
    plain,
    remark,
    wrap,
)

_QUIET_RESULTS = {Result.DONE: ("+", ADDED), Result.ALREADY: ("=", ""), Result.NOT_SENT: (".", QUIET)}
_LOUD_RESULTS = {
    Result.MOVED: ("~", CHANGED),
    Result.REFUSED: ("!", GONE),
    Result.UNKNOWN: ("?", GONE),
    Result.UNFINISHED: ("?", CHANGED),
    Result.FAILED: ("!", GONE),
}

_HELD = "held back"
_SUMMARY = (*(result.value for result in Result), _HELD)

_NEXT = {
    Result.MOVED: "moved: not what the plan was made from, so nothing was written; plan again to see what is there now",
    Result.UNKNOWN: "unknown: the connection broke before the answer came; the next run sees whether it was done",
    Result.UNFINISHED: "not finished: written; the controller goes on by itself",
    Result.NOT_SENT: "not sent: the run ended before; the next run goes on",
}


def report(found: Report, page: Page) -> str:
    """What became of one cluster's plan: results, what to do about the worse ones, one line that adds up.

    An error that ended the run is not part of it: whoever catches it says it.
    """
    return "\n".join(_lines(found, page)) + "\n"


def _lines(found: Report, page: Page) -> Iterator[str]:
    results: dict[Result, list[Outcome]] = {}
    for outcome in sorted(found.outcomes):
        results.setdefault(outcome.result, []).append(outcome)
    loud = [outcome for outcome in sorted(found.outcomes) if _has_words(outcome)]
    page = replace(page, column=column_for(outcome.topic for outcome in loud))
    if name := plain(found.plan.cluster):
        yield from (page.paint(part, STRONG) for part in wrap(name, page.width))
    for result in _QUIET_RESULTS:
        if result in results:
            yield from _condensed(page, result, [each for each in results[result] if not _has_words(each)])
    for outcome in loud:
        yield from _loud(page, outcome)
    for result, words in _NEXT.items():
        if result in results:
            yield from (f"  {part}" for part in wrap(words, page.width - 2))
    yield page.paint(summary(found), STRONG)


def _has_words(outcome: Outcome) -> bool:
    """Whether there is something to say of this very topic."""
    return outcome.result in _LOUD_RESULTS or bool(outcome.message)


def _condensed(page: Page, result: Result, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Results that need no words of their own: the topics, in a row."""
    sign, tone = _QUIET_RESULTS[result]
    if outcomes:
        listed = names(page, [outcome.topic for outcome in outcomes])
        yield from remark(page, f"{sign} {result.value}", listed, tone)


def _loud(page: Page, outcome: Outcome) -> Iterator[str]:
    sign, tone = _LOUD_RESULTS.get(outcome.result) or _QUIET_RESULTS[outcome.result]
    words = f"{outcome.result.value}: {outcome.message}" if outcome.message else outcome.result.value
    yield from head(page, sign, outcome.topic, action=words, tones=(tone, ""))
    if outcome.reason and outcome.result is not Result.MOVED:
        yield from field(page, "reason", [outcome.reason.value])


def summary(found: Report) -> str:
    """``Applied: 3 done, 1 already so, 1 failed, 2 refused.``; topics that the plan refused in part count too."""
    results = Counter(outcome.result.value for outcome in found.outcomes)
    reasons = {topic.topic: {finding.reason for finding in topic.refusals} for topic in found.plan.topics}
    refused = {topic for topic, of_topic in reasons.items() if of_topic - CLOSED}
    refused.update(outcome.topic for outcome in found.topics(Result.REFUSED))
    held = {topic for topic, of_topic in reasons.items() if of_topic & CLOSED}
    results[Result.REFUSED.value] = len(refused)
    results[_HELD] = len(held)
    listed = ", ".join(f"{results[word]:,} {word}" for word in _SUMMARY if results[word])
    return f"Applied: {listed}." if listed else "Applied: nothing was to be done."
