"""Plans and reports as text for a person: one cluster after the other, everything that matters, in 80 columns.

``blocks`` has the topics, ``brokers`` the table, ``summary`` the end; here is their order. Nothing needs a legend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.core.units import count
from topiarist.errors import Reason
from topiarist.render import blocks, brokers, groups, outcomes, shared, summary
from topiarist.render.page import CHANGED, GONE, STRONG, Page, column_for, fit, names, plain, remark, wrap

_NOUNS = {
    Reason.DELETION_IN_PROGRESS: ("deletion under way", "deletions under way"),
    Reason.POLICY_WARNING: ("word from a policy", "words from policies"),
    Reason.REPLICAS_DIFFER: ("topic placed otherwise", "topics placed otherwise"),
    Reason.STALE_RECORD: ("stale record", "stale records"),
    Reason.STANDING_FAULT: ("fault that stands on the cluster", "faults that stand on the cluster"),
    Reason.UNMANAGED: ("config key left alone", "config keys left alone"),
    Reason.IGNORED: ("difference ignored", "differences ignored"),
    Reason.CHANGED_OUTSIDE: ("topic changed by others", "topics changed by others"),
}

_SHOWN_FAULTS = 6

report = outcomes.report


def plans(found: Sequence[Plan], page: Page, *, applying: bool = False) -> str:
    """Plans of a run, in the order given; several end with a line about them all.

    ``applying`` is for plans about to be carried out: what that would ask for is then not said.
    """
    lines: list[str] = []
    for plan in found:
        lines.extend(plan_lines(plan, page, applying=applying))
        lines.append("")
    if len(found) > 1:
        lines.append(summary.line(page, summary.total(found), f"All {count(len(found), 'cluster')}"))
        lines.append("")
    return "\n".join(lines[:-1]) + "\n" if lines else ""


def topic(plan: TopicPlan) -> str:
    """The plan of one topic by itself; empty if there is nothing to say of it."""
    page = Page(column=column_for([plan.topic]))
    return "\n".join(line.rstrip() for line in blocks.topic(page, plan, groups.Groups()))


def plan_lines(plan: Plan, page: Page, *, applying: bool = False) -> Iterator[str]:
    """One plan, line by line."""
    common = groups.find(plan)
    page = replace(page, column=column_for(topic.topic for topic in plan.topics))
    yield from header(plan, page)
    yield from _section(_topics(plan, page, common))
    yield from _section(brokers.table(page, plan))
    yield from _section(_remarks(plan, page, common))
    yield ""
    yield summary.line(page, summary.tally(plan))
    yield from summary.losses(page, plan, advice="" if applying else summary.ADVICE)


def _section(lines: Iterable[str]) -> Iterator[str]:
    """Lines with an empty one before them, if there are any."""
    for number, text in enumerate(lines):
        if number == 0:
            yield ""
        yield text


def header(plan: Plan, page: Page) -> Iterator[str]:
    """Which cluster it is, who controls it, and whether it may be written to."""
    name = plain(plan.cluster)
    start = f"{name}   " if name else ""
    at = len(start) if len(start) <= page.width // 2 else 4
    controller = f"controller {plan.controller} at epoch {plan.controller_epoch}"
    facts = (
        f"cluster {plain(plan.cluster_id) or 'without id'},",
        f"{broker_words(plan)},",
        "no controller" if plan.controller is None else controller,
    )
    first, *rest = fit(facts, page.width - at)
    if at == len(start):
        yield f"{page.paint(name, STRONG)}{start[len(name) :]}{first}"
    else:
        yield from (page.paint(part, STRONG) for part in wrap(name, page.width))
        yield " " * at + first
    yield from (" " * at + part for part in rest)
    if plan.gate.reason is not None:
        word = f"closed: {plan.gate.reason}"
        for part in wrap(f"{word}: {plan.gate.message}; nothing is written", page.width - 2):
            yield f"  {page.paint(part, GONE)}"


def broker_words(plan: Plan) -> str:
    """How many brokers there are, in how many racks."""
    racks = {broker.rack for broker in plan.brokers}
    without = sum(broker.rack is None for broker in plan.brokers)
    words = count(len(plan.brokers), "broker")
    if racks <= {None}:
        return f"{words} without racks" if plan.brokers else "no brokers"
    words += f" in {count(len(racks - {None}), 'rack')}"
    return f"{words} ({without} without)" if without else words


def _topics(plan: Plan, page: Page, common: groups.Groups) -> Iterator[str]:
    """The blocks; those of more than one line stand apart from their neighbours."""
    height = 0
    own = (blocks.topic(page, topic, common) for topic in plan.topics)
    for block in chain(shared.blocks(page, common), own):
        lines = list(block)
        if height and lines and max(height, len(lines)) > 1:
            yield ""
        yield from lines
        height = len(lines) or height


def _remarks(plan: Plan, page: Page, common: groups.Groups) -> Iterator[str]:
    """What concerns the cluster as a whole: notices that have no block, orphans, warnings."""
    quiet = () if page.verbose else tuple(_quiet_notices(plan, common))
    counted = Counter(notice.reason for _, notice in quiet if notice.reason is not Reason.STANDING_FAULT)
    if counted:
        listed = ", ".join(f"{number:,} {_noun(reason, number)}" for reason, number in sorted(counted.items()))
        yield from remark(page, "notices", wrap(f"{listed} (-v shows them)", page.room))
    yield from _faults(page, [(topic, notice) for topic, notice in quiet if notice.reason is Reason.STANDING_FAULT])
    if plan.orphans:
        words = f"{count(len(plan.orphans), 'owned topic')} {summary.NOT_GIVEN}"
        lines = [f"{words}:", *names(page, plan.orphans)]
        yield from remark(page, "others", lines if page.verbose else wrap(f"{words} (-v lists them)", page.room))
    for message, instead in groups.overdrafts(plan):
        yield from remark(page, "over budget", wrap(message, page.room), GONE)
        yield from remark(page, "instead", wrap(instead, page.room))
    for warning in plan.warnings:
        yield from remark(page, "warning", wrap(warning, page.room), CHANGED)


def _quiet_notices(plan: Plan, common: groups.Groups) -> Iterator[tuple[str, Finding]]:
    """Topics and their notices that stand in no block."""
    for topic in plan.topics:
        if topic.notices:
            shown = blocks.stands_alone(topic, common)
            yield from (
                (topic.topic, notice) for notice in topic.notices if notice.reason is Reason.UNMANAGED or not shown
            )


def _faults(page: Page, found: Sequence[tuple[str, Finding]]) -> Iterator[str]:
    """Faults that stand on the cluster: each kind once, the most frequent first, and only some of many kinds."""
    kinds: dict[str, list[str]] = {}
    for topic, notice in found:
        kinds.setdefault(notice.message, []).append(topic)
    ordered = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    shown = ordered if len(ordered) <= _SHOWN_FAULTS else ordered[: _SHOWN_FAULTS - 1]
    for message, topics in shown:
        if len(topics) == 1:
            yield from remark(page, "warning", wrap(f"{topics[0]}: {message}", page.room), CHANGED)
        else:
            lines = [*wrap(f"{count(len(topics), 'topic')}: {message}", page.room), *names(page, topics)]
            yield from remark(page, "warning", lines, CHANGED)
    if left := sum(len(topics) for _, topics in ordered[len(shown) :]):
        words = f"{left:,} more {_noun(Reason.STANDING_FAULT, left)} (-v shows them)"
        yield from remark(page, "warning", wrap(words, page.room), CHANGED)


def _noun(reason: Reason, number: int) -> str:
    return _NOUNS.get(reason, (str(reason), str(reason)))[number != 1]
