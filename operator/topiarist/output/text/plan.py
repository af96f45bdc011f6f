"""Plans as text for a terminal: one cluster after the other, in 80 columns and without a legend.

``plan`` and ``apply`` print it; the operator writes the text of one topic into the Topic's status. This module has the
order of the parts: ``topic_block`` formats the topics, ``brokers`` the broker table, ``summary`` the last lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from topiarist.errors import Reason
from topiarist.model.plan import Issue, Plan, TopicPlan
from topiarist.output import groups
from topiarist.output.text import apply, brokers, summary, topic_block
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    YELLOW,
    TextLayout,
    choose_action_column,
    fill_lines,
    format_names,
    format_section,
    sanitize,
    wrap,
)
from topiarist.text import format_count

_NOTICE_NOUNS = {
    Reason.DELETION_IN_PROGRESS: ("deletion under way", "deletions under way"),
    Reason.POLICY_WARNING: ("word from a policy", "words from policies"),
    Reason.REPLICAS_DIFFER: ("topic placed otherwise", "topics placed otherwise"),
    Reason.STALE_OWNERSHIP_RECORD: ("stale record", "stale records"),
    Reason.EXISTING_PROBLEM: ("fault that stands on the cluster", "faults that stand on the cluster"),
    Reason.UNMANAGED: ("config key left alone", "config keys left alone"),
    Reason.IGNORED: ("difference ignored", "differences ignored"),
    Reason.MODIFIED_EXTERNALLY: ("topic changed by others", "topics changed by others"),
}

_MAX_SHOWN_PROBLEMS = 6

format_report = apply.format_report


def format_plans(plans: Sequence[Plan], layout: TextLayout, *, applying: bool = False) -> str:
    """Return the text of a run's plans, in the order given.

    Several plans end with one summary line for all. Set ``applying`` if the plans are about to be applied: the advice
    on what ``apply`` requires is then omitted.
    """
    lines: list[str] = []
    for plan in plans:
        lines.extend(format_plan(plan, layout, applying=applying))
        lines.append("")
    if len(plans) > 1:
        lines.append(
            summary.format_summary_line(
                layout, summary.count_plans(plans), f"All {format_count(len(plans), 'cluster')}"
            )
        )
        lines.append("")
    return "\n".join(lines[:-1]) + "\n" if lines else ""


def format_topic_plan(plan: TopicPlan) -> str:
    """Return the plan of one topic by itself; empty if the plan is empty."""
    page = TextLayout(action_column=choose_action_column([plan.topic]))
    return "\n".join(line.rstrip() for line in topic_block.format_topic(page, plan, groups.GroupedItems()))


def format_plan(plan: Plan, layout: TextLayout, *, applying: bool = False) -> Iterator[str]:
    """Yield the lines of one plan."""
    grouped = groups.group_items(plan)
    layout = replace(layout, action_column=choose_action_column(topic.topic for topic in plan.topics))
    yield from format_cluster_header(plan, layout)
    yield from _prepend_blank_line(_format_topic_blocks(plan, layout, grouped))
    yield from _prepend_blank_line(brokers.format_broker_table(layout, plan))
    yield from _prepend_blank_line(_format_cluster_sections(plan, layout, grouped))
    yield ""
    yield summary.format_summary_line(layout, summary.count_plan(plan))
    yield from summary.format_data_losses(layout, plan, advice="" if applying else summary.DATA_LOSS_ADVICE)


def _prepend_blank_line(lines: Iterable[str]) -> Iterator[str]:
    """Yield an empty line and the given lines; nothing if there are none."""
    for number, text in enumerate(lines):
        if number == 0:
            yield ""
        yield text


def format_cluster_header(plan: Plan, layout: TextLayout) -> Iterator[str]:
    """Yield the cluster's identity, its brokers, its controller and its write block."""
    name = sanitize(plan.cluster)
    start = f"{name}   " if name else ""
    # A long name gets lines of its own, so that enough columns remain for the facts.
    at = len(start) if len(start) <= layout.width // 2 else 4
    controller = f"controller {plan.controller} at epoch {plan.controller_epoch}"
    facts = (
        f"cluster {sanitize(plan.cluster_id) or 'without id'},",
        f"{describe_brokers(plan)},",
        "no controller" if plan.controller is None else controller,
    )
    first, *rest = fill_lines(facts, layout.width - at)
    if at == len(start):
        yield f"{layout.colorize(name, BOLD)}{start[len(name) :]}{first}"
    else:
        yield from (layout.colorize(part, BOLD) for part in wrap(name, layout.width))
        yield " " * at + first
    yield from (" " * at + part for part in rest)
    if plan.write_block.reason is not None:
        word = f"closed: {plan.write_block.reason}"
        for part in wrap(f"{word}: {plan.write_block.message}; nothing is written", layout.width - 2):
            yield f"  {layout.colorize(part, BOLD_RED)}"


def describe_brokers(plan: Plan) -> str:
    """Return the number of brokers and racks as text."""
    racks = {broker.rack for broker in plan.brokers}
    without = sum(broker.rack is None for broker in plan.brokers)
    words = format_count(len(plan.brokers), "broker")
    if racks <= {None}:
        return f"{words} without racks" if plan.brokers else "no brokers"
    words += f" in {format_count(len(racks - {None}), 'rack')}"
    return f"{words} ({without} without)" if without else words


def _format_topic_blocks(plan: Plan, layout: TextLayout, grouped: groups.GroupedItems) -> Iterator[str]:
    """Yield the blocks, with an empty line around each block of more than one line."""
    height = 0
    own = (topic_block.format_topic(layout, topic, grouped) for topic in plan.topics)
    for block in chain(topic_block.format_group_blocks(layout, grouped), own):
        lines = list(block)
        if height and lines and max(height, len(lines)) > 1:
            yield ""
        yield from lines
        height = len(lines) or height


def _format_cluster_sections(plan: Plan, layout: TextLayout, grouped: groups.GroupedItems) -> Iterator[str]:
    """Yield the sections about the whole cluster.

    These are notices without a block, owned topics that are not in the given paths, exceeded budgets and warnings.
    """
    # A verbose layout shows every notice below its topic.
    unlisted_notices = () if layout.verbose else tuple(_list_unlisted_notices(plan, grouped))
    counted = Counter(notice.reason for _, notice in unlisted_notices if notice.reason is not Reason.EXISTING_PROBLEM)
    if counted:
        listed = ", ".join(
            f"{number:,} {_choose_notice_noun(reason, number)}" for reason, number in sorted(counted.items())
        )
        yield from format_section(layout, "notices", wrap(f"{listed} (-v shows them)", layout.text_width))
    yield from _format_existing_problems(
        layout, [(topic, notice) for topic, notice in unlisted_notices if notice.reason is Reason.EXISTING_PROBLEM]
    )
    if plan.orphans:
        words = f"{format_count(len(plan.orphans), 'owned topic')} {summary.NOT_IN_PATHS}"
        lines = [f"{words}:", *format_names(layout, plan.orphans)]
        yield from format_section(
            layout, "others", lines if layout.verbose else wrap(f"{words} (-v lists them)", layout.text_width)
        )
    for message, hint in groups.list_exceeded_budgets(plan):
        yield from format_section(layout, "over budget", wrap(message, layout.text_width), BOLD_RED)
        yield from format_section(layout, "fix", wrap(hint, layout.text_width))
    for warning in plan.warnings:
        yield from format_section(layout, "warning", wrap(warning, layout.text_width), YELLOW)


def _list_unlisted_notices(plan: Plan, grouped: groups.GroupedItems) -> Iterator[tuple[str, Issue]]:
    """Yield each notice that no block shows, with its topic."""
    for topic in plan.topics:
        if topic.notices:
            shown = topic_block.has_own_block(topic, grouped)
            yield from (
                (topic.topic, notice) for notice in topic.notices if notice.reason is Reason.UNMANAGED or not shown
            )


def _format_existing_problems(layout: TextLayout, notices: Sequence[tuple[str, Issue]]) -> Iterator[str]:
    """Yield the existing problems of the cluster, grouped by message.

    The most frequent message comes first; of more than ``_MAX_SHOWN_PROBLEMS`` messages the rest is counted.
    """
    kinds: dict[str, list[str]] = {}
    for topic, notice in notices:
        kinds.setdefault(notice.message, []).append(topic)
    ordered = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
    shown = ordered if len(ordered) <= _MAX_SHOWN_PROBLEMS else ordered[: _MAX_SHOWN_PROBLEMS - 1]
    for message, topics in shown:
        if len(topics) == 1:
            yield from format_section(layout, "warning", wrap(f"{topics[0]}: {message}", layout.text_width), YELLOW)
        else:
            lines = [
                *wrap(f"{format_count(len(topics), 'topic')}: {message}", layout.text_width),
                *format_names(layout, topics),
            ]
            yield from format_section(layout, "warning", lines, YELLOW)
    if left := sum(len(topics) for _, topics in ordered[len(shown) :]):
        words = f"{left:,} more {_choose_notice_noun(Reason.EXISTING_PROBLEM, left)} (-v shows them)"
        yield from format_section(layout, "warning", wrap(words, layout.text_width), YELLOW)


def _choose_notice_noun(reason: Reason, number: int) -> str:
    return _NOTICE_NOUNS.get(reason, (str(reason), str(reason)))[number != 1]
