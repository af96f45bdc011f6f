"""Plans in fewer lines: one for each topic (``-q``), or nothing but how each plan ends (``--summary``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.units import count
from topiarist.reconcile import Report
from topiarist.render import blocks, outcomes, summary, text
from topiarist.render.changes import RISK_TONES, action
from topiarist.render.groups import record_only, record_words
from topiarist.render.page import GONE, STRONG, Page, column_for, plain


def lines(found: Sequence[Plan], page: Page, *, applying: bool = False) -> str:
    """Return the plans of a run with one line for each topic that has a change or a refusal."""
    parts: list[str] = []
    for plan in found:
        column = column_for(topic.topic for topic in plan.topics)
        parts += [*text.header(plan, page), ""]
        if heads := [head for topic in plan.topics for head in _topic(topic, replace(page, column=column))]:
            parts += [*heads, ""]
        parts += [*_end(plan, page, summary.PLAN, applying=applying), ""]
    return _joined(parts, found, page)


def ends(found: Sequence[Plan], page: Page, *, applying: bool = False) -> str:
    """Return how the plans of a run end, and nothing of what is in them; a closed cluster is named as such."""
    parts: list[str] = []
    for plan in found:
        if plan.gate.reason is not None:
            label = f"{plain(plan.cluster)}: " if plan.cluster else ""
            closed = f"{label}closed: {plan.gate.reason}: {plain(plan.gate.message)}; nothing is written"
            parts.append(page.paint(closed, GONE))
        label = plain(plan.cluster) if len(found) > 1 else summary.PLAN
        parts += _end(plan, page, label, applying=applying)
    return _joined([*parts, ""], found, page) if parts else ""


def outcome(found: Report, page: Page) -> str:
    """Return the last line about what became of a plan."""
    label = f"{plain(found.plan.cluster)}: " if found.plan.cluster else ""
    return page.paint(f"{label}{outcomes.summary(found)}", STRONG) + "\n"


def _end(plan: Plan, page: Page, label: str, *, applying: bool) -> Iterator[str]:
    yield summary.line(page, summary.tally(plan), label)
    yield from summary.losses(page, plan, advice="" if applying else summary.ADVICE)


def _joined(parts: Sequence[str], found: Sequence[Plan], page: Page) -> str:
    """Return the lines as a text that ends with a line about all plans, if there are several."""
    total = [summary.line(page, summary.total(found), f"All {count(len(found), 'cluster')}")] if len(found) > 1 else []
    every = [*parts, *total] if total else parts[:-1]
    return "\n".join(every) + "\n" if every else ""


def _topic(topic: TopicPlan, page: Page) -> Iterator[str]:
    """Return one line for the topic, or none where there is nothing but notices."""
    refused = "; ".join(filter(None, [_reasons(topic, closed=False), _reasons(topic, closed=True)]))
    if not topic.changes:
        if refused:
            yield _line(page, "!", topic.topic, refused)
        return
    words = record_words(topic)
    done = blocks.record_action(words) if record_only(topic) else action(topic.changes)
    done = f"observed, not done: {done}" if topic.observed else done
    mark = "." if topic.observed else blocks.sign(topic.changes)
    risk = page.paint(topic.risk.word, RISK_TONES[topic.risk])
    yield _line(page, mark, topic.topic, f"{done}; {refused}" if refused else done, risk)


def _reasons(topic: TopicPlan, *, closed: bool) -> str:
    """Return the reasons of the topic's refusals, or of what a closed cluster or a budget holds back."""
    found = dict.fromkeys(each.reason.value for each in topic.refusals if (each.reason in blocks.CLOSED) is closed)
    return f"{'held back' if closed else 'refused'}: {', '.join(found)}" if found else ""


def _line(page: Page, mark: str, name: str, words: str, risk: str = "") -> str:
    start = f"  {mark} {plain(name)}".ljust(page.column - 1)
    return f"{start} {words}{'  ' if risk else ''}{risk}"
