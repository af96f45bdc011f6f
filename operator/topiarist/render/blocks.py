"""The blocks of a plan: one per topic with its changes, one per refusal, and one for whatever many topics share.

Every block reads alike: a sign, a name, what happens, and at the right end what it may cost. ::

    +  create      ~  grow, configure      -  delete      =  only our record      !  refused      .  only said
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topiarist.core.change import (
    Adopt,
    Change,
    CreateTopic,
    DeleteTopic,
    Finding,
    GiveUp,
    Risk,
    TopicPlan,
)
from topiarist.core.spec import origin
from topiarist.errors import Reason
from topiarist.render.changes import RISK_TONES, action, body, highest, wholly_shared
from topiarist.render.groups import Groups, alike, record_only, record_words
from topiarist.render.page import ADDED, CHANGED, GONE, QUIET, Page, ended, field, head, plain, said, wrap

CLOSED = frozenset(
    {Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION, Reason.NO_CONTROLLER, Reason.FROZEN, Reason.BUDGET_EXCEEDED}
)
"""Reasons that are about the cluster, not the topic: its header gives them, or a remark at the end."""

_TONES = {"+": ADDED, "~": CHANGED, "-": GONE, "!": GONE, "=": "", ".": QUIET}


def topic(page: Page, plan: TopicPlan, groups: Groups) -> Iterator[str]:
    """Everything about one topic that is not shown for many topics together."""
    if has_changes(plan, groups):
        yield from _changed(page, plan, groups)
    for finding in own_refusals(plan, groups):
        yield from refusal(page, plan, finding)
    if stands_alone(plan, groups):
        yield from _notices(page, plan)
    elif page.verbose and plan.notices:
        yield from block_head(page, ".", plan.topic, "see above" if plan.changes or plan.refusals else "nothing to do")
        yield from _notices(page, plan)


def stands_alone(plan: TopicPlan, groups: Groups) -> bool:
    """Whether a topic has a block of its own for a change or a refusal; its notices stand there too."""
    return has_changes(plan, groups) or bool(own_refusals(plan, groups))


def own_refusals(plan: TopicPlan, groups: Groups) -> Sequence[Finding]:
    if not groups.refusals:
        return plan.refusals
    return [finding for finding in plan.refusals if alike(finding) not in groups.refusals]


def has_changes(plan: TopicPlan, groups: Groups) -> bool:
    """Whether the changes need a block: all but what is grouped, and the record of an observed topic, which stays."""
    if record_only(plan):
        return not plan.observed and record_words(plan) not in groups.records
    if plan.observed or record_words(plan):
        return bool(plan.changes)
    return bool(plan.changes) and not wholly_shared(plan.changes, groups.defaults)


def _changed(page: Page, plan: TopicPlan, groups: Groups) -> Iterator[str]:
    words, record = action(plan.changes), record_words(plan)
    if plan.observed:
        yield from block_head(page, ".", plan.topic, f"observed, not done: {words}", plan.risk)
        yield from body(page, plan.changes)
    elif record_only(plan):
        yield from block_head(page, "=", plan.topic, record_action(record), Risk.SAFE)
    else:
        yield from block_head(page, sign(plan.changes), plan.topic, words, plan.risk)
        yield from body(page, plan.changes, shared=groups.defaults)
        yield from said(page, "record", f"{record}: the topic becomes ours" if record else "")


def sign(changes: Sequence[Change]) -> str:
    """The sign of a topic's changes."""
    if any(isinstance(change, CreateTopic) for change in changes):
        return "+"
    if any(isinstance(change, DeleteTopic) for change in changes):
        return "-"
    return "=" if all(isinstance(change, Adopt | GiveUp) for change in changes) else "~"


def block_head(page: Page, mark: str, name: str, words: str, risk: Risk | None = None) -> Iterator[str]:
    """The head of a block, in the tones of its sign and its risk."""
    if risk is None:
        return head(page, mark, name, action=words, tones=(_TONES[mark], ""))
    return head(page, mark, name, action=words, word=risk.word, tones=(_TONES[mark], RISK_TONES[risk]))


def record_action(words: str) -> str:
    """What happens where only our record is written; ``words`` are those of ``groups.record_words``."""
    return f"{words}: only our record is written" if words else "only our record is brought up to date"


def _notices(page: Page, plan: TopicPlan) -> Iterator[str]:
    for notice in plan.notices:
        if page.verbose or notice.reason is not Reason.UNMANAGED:
            yield from said(page, "warning" if notice.reason is Reason.STANDING_FAULT else "note", notice.message)


def refusal(page: Page, plan: TopicPlan, finding: Finding) -> Iterator[str]:
    """One refusal: what, where it was asked for, what to do, and the changes that it holds back."""
    yield from refusal_head(page, plan.topic, finding)
    if finding.reason not in CLOSED:
        yield from place_line(page, plan, finding)
        yield from said(page, "instead", finding.instead)
        yield from rule_line(page, finding)
    yield from held(page, finding)


def refusal_head(page: Page, name: str, finding: Finding) -> Iterator[str]:
    """The head of a refusal; that the whole cluster is closed is not said again for each topic."""
    if finding.reason in CLOSED:
        return block_head(page, "!", name, f"held back: {action(finding.held)}", highest(finding.held))
    return block_head(page, "!", name, f"refused: {finding.message}")


def place_line(page: Page, plan: TopicPlan, finding: Finding, more: int = 0) -> Iterator[str]:
    """Where a refused value was written; the reason's word at the right end."""
    place = origin(plan.spec, *finding.field).place() if plan.spec else None
    text = plain(str(place)) if place else ""
    text += f" and {more:,} more" if text and more else ""
    word = finding.reason.value
    *before, last = wrap(text, page.room)
    if len(last) + len(word) + 2 > page.room:
        before, last = [*before, last], ""
    end = ended(last, word, page.room, page.paint(word, QUIET))
    yield from field(page, "at" if text else "", [*before, end])


def rule_line(page: Page, finding: Finding) -> Iterator[str]:
    """Where the rule of a policy stands that decided it."""
    place = finding.rule.place() if finding.rule else None
    yield from said(page, "rule", str(place) if place else "")


def held(page: Page, finding: Finding) -> Iterator[str]:
    """The changes that a refusal holds back, with their fields."""
    if finding.held and finding.reason not in CLOSED:
        risk = highest(finding.held)
        end = ended(action(finding.held), risk.word, page.room, page.paint(risk.word, RISK_TONES[risk]))
        yield from field(page, "held back", [end])
    yield from body(page, finding.held, silent=finding.message)
