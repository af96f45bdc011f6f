"""Plans as text for a terminal, in 80 columns and without a legend: in full, in short, or only their summaries.

``plan`` and ``apply`` print it; the operator writes the text of one topic into the Topic's status. This module has the
order of the parts: ``topic_block`` formats the topics, ``brokers`` the broker table, ``summary`` the last lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.types import ClusterMode
from topiarist.model.plan import Plan, TopicPlan
from topiarist.output.groups import GroupedItems, group_items, list_exceeded_limits
from topiarist.output.limit_usage import describe_usage
from topiarist.output.text import brokers, planned_moves, summary, topic_block
from topiarist.output.text.changes import RISK_STYLES
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    YELLOW,
    TextLayout,
    choose_action_column,
    join_sections,
    sanitize,
)
from topiarist.text import format_count

_NOTICE_NOUNS = {
    Reason.DELETION_IN_PROGRESS: ("deletion in progress", "deletions in progress"),
    Reason.POLICY_WARNING: ("policy warning", "policy warnings"),
    Reason.REPLICAS_DIFFER: ("topic with different replica lists", "topics with different replica lists"),
    Reason.STALE_OWNERSHIP_RECORD: ("stale ownership record", "stale ownership records"),
    Reason.UNMANAGED: ("unmanaged config key", "unmanaged config keys"),
    Reason.IGNORED: ("ignored difference", "ignored differences"),
    Reason.MODIFIED_EXTERNALLY: ("topic with external changes", "topics with external changes"),
}
_MAX_SHOWN_PROBLEMS = 6


def format_plans(plans: Sequence[Plan], layout: TextLayout, *, applying: bool = False) -> str:
    """Return the text of a run's plans, in the order given.

    Several plans end with one summary line for all. Set ``applying`` if the plans are about to be applied: the advice
    on what ``apply`` requires is then omitted.
    """
    sections = (_format_plan(plan, layout, applying=applying) for plan in plans)
    return _join_plans(chain.from_iterable(sections), plans, layout)


def format_topic_lines(plans: Sequence[Plan], layout: TextLayout, *, applying: bool = False) -> str:
    """Return the plans with one line for each topic with a change or refusal."""
    sections: list[Iterable[str]] = []
    for plan in plans:
        aligned = replace(layout, action_column=choose_action_column(_list_names(plan)))
        lines = [line for topic in plan.topics for line in _format_topic_line(topic, aligned)]
        lines += [next(topic_block.format_implied(aligned, topic)) for topic in plan.implied_topics]
        sections += [format_cluster_header(plan, layout), lines, _format_end(plan, layout, applying=applying)]
    return _join_plans(sections, plans, layout)


def format_summaries(plans: Sequence[Plan], layout: TextLayout, *, applying: bool = False) -> str:
    """Return only the summary of each plan, and the write block of a cluster that has one."""
    lines: list[str] = []
    for plan in plans:
        name = sanitize(plan.cluster)
        if plan.write_block.reason is not None:
            block = f"{f'{name}: ' if name else ''}{_describe_write_block(plan)}"
            lines.append(layout.colorize(sanitize(block), BOLD_RED))
        label = name if len(plans) > 1 else summary.PLAN_LABEL
        lines += _format_end(plan, layout, label, applying=applying)
        if names := [topic.name for topic in plan.implied_topics]:
            lines += layout.wrap(f"{label}: the run also creates {' and '.join(names)}.", layout.width)
    return _join_plans([lines], plans, layout)


def format_topic_plan(plan: TopicPlan) -> str:
    """Return the plan of one topic by itself; empty if the plan is empty."""
    layout = TextLayout(action_column=choose_action_column([plan.topic]))
    return "\n".join(line.rstrip() for line in topic_block.format_topic(layout, plan, GroupedItems()))


def _join_plans(sections: Iterable[Iterable[str]], plans: Sequence[Plan], layout: TextLayout) -> str:
    total: list[str] = []
    if len(plans) > 1:
        label = f"All {format_count(len(plans), 'cluster')}"
        total.append(summary.format_summary_line(layout, summary.count_plans(plans), label))
    return join_sections([*sections, total]) + "\n" if plans else ""


def _format_plan(plan: Plan, layout: TextLayout, *, applying: bool) -> Iterator[Iterable[str]]:
    grouped = group_items(plan)
    layout = replace(layout, action_column=choose_action_column(_list_names(plan)))
    yield format_cluster_header(plan, layout)
    yield _format_topic_blocks(plan, layout, grouped)
    yield brokers.format_broker_table(layout, plan)
    pace = planned_moves.describe_pace(plan)
    yield layout.format_text_section("moves", pace) if pace else ()
    yield _format_cluster_fields(plan, layout, grouped)
    yield _format_end(plan, layout, applying=applying)


def _format_end(plan: Plan, layout: TextLayout, label: str = summary.PLAN_LABEL, *, applying: bool) -> Iterator[str]:
    yield summary.format_summary_line(layout, summary.count_plan(plan), label)
    yield from summary.format_data_losses(layout, plan, applying=applying)


def format_cluster_header(plan: Plan, layout: TextLayout) -> Iterator[str]:
    """Yield the cluster's identity, its brokers, its controller and its write block."""
    name = sanitize(plan.cluster)
    start = f"{name}   " if name else ""
    # A long name gets lines of its own, so that enough columns remain for the facts.
    at = len(start) if len(start) <= layout.width // 2 else 4
    facts = (
        f"cluster {sanitize(plan.cluster_id) or 'without id'},",
        f"{describe_brokers(plan)},",
        _describe_controller(plan),
    )
    first, *rest = layout.fill_lines(facts, layout.width - at)
    if at == len(start):
        yield f"{layout.colorize(name, BOLD)}{start[len(name) :]}{first}"
    else:
        yield from (layout.colorize(part, BOLD) for part in layout.wrap(name, layout.width))
        yield " " * at + first
    yield from (" " * at + part for part in rest)
    if plan.write_block.reason is not None:
        for part in layout.wrap(_describe_write_block(plan), layout.width - 2):
            yield f"  {layout.colorize(part, BOLD_RED)}"


def _list_names(plan: Plan) -> Iterator[str]:
    return chain((topic.topic for topic in plan.topics), (topic.name for topic in plan.implied_topics))


def _describe_controller(plan: Plan) -> str:
    if plan.controller is None:
        return "no controller"
    if plan.config_rules.mode is ClusterMode.KRAFT and not plan.controller_epoch:
        return "controller not known"  # brokers name any of themselves
    return f"controller {plan.controller}, epoch {plan.controller_epoch}"


def _describe_write_block(plan: Plan) -> str:
    return f"write block: {plan.write_block.reason}: {plan.write_block.message}; nothing is written"


def describe_brokers(plan: Plan) -> str:
    """Return the number of brokers and racks as text."""
    racks = {broker.rack for broker in plan.brokers}
    without = sum(broker.rack is None for broker in plan.brokers)
    words = format_count(len(plan.brokers), "broker")
    if racks <= {None}:
        return f"{words} without racks" if plan.brokers else "no brokers"
    words += f" in {format_count(len(racks - {None}), 'rack')}"
    return f"{words} ({without} without)" if without else words


def _format_topic_blocks(plan: Plan, layout: TextLayout, grouped: GroupedItems) -> Iterator[str]:
    """Yield the blocks, with an empty line around each block of more than one line."""
    height = 0
    own = (topic_block.format_topic(layout, topic, grouped) for topic in plan.topics)
    implied = (topic_block.format_implied(layout, topic) for topic in plan.implied_topics)
    for block in chain(topic_block.format_group_blocks(layout, grouped), own, implied):
        lines = list(block)
        if height and lines and max(height, len(lines)) > 1:
            yield ""
        yield from lines
        height = len(lines) or height


def _format_cluster_fields(plan: Plan, layout: TextLayout, grouped: GroupedItems) -> Iterator[str]:
    # A verbose layout shows every notice below its topic.
    unlisted = [] if layout.verbose else list(topic_block.list_unlisted_notices(plan, grouped))
    counts = Counter(notice.reason for _, notice in unlisted if notice.reason not in topic_block.WARNING_REASONS)
    if counts:
        nouns = {reason: _NOTICE_NOUNS.get(reason, (str(reason), str(reason))) for reason in counts}
        listed = ", ".join(f"{number:,} {nouns[reason][number != 1]}" for reason, number in sorted(counts.items()))
        yield from layout.format_text_section("notices", f"{listed} (-v shows them)")
    problems = [(topic, notice.message) for topic, notice in unlisted if notice.reason in topic_block.WARNING_REASONS]
    yield from layout.format_message_groups("warning", problems, _MAX_SHOWN_PROBLEMS, YELLOW)
    if plan.orphans:
        words = f"{format_count(len(plan.orphans), 'owned topic')} {summary.NOT_IN_PATHS}"
        if layout.verbose:
            lines = [f"{words}:", *layout.format_names(plan.orphans)]
        else:
            lines = layout.wrap(f"{words} (-v lists them)")
        yield from layout.format_section("orphans", lines)
    yield from format_exceeded_limits(layout, plan)
    for usage in describe_usage(plan.limits):
        yield from layout.format_text_section("limit", usage)
    yield from layout.format_warnings(plan.warnings)


def format_exceeded_limits(layout: TextLayout, plan: Plan) -> Iterator[str]:
    """Yield each exceeded budget of the cluster, and the exceeded limit of the run, with its hint."""
    for label, message, hint in list_exceeded_limits(plan):
        yield from layout.format_text_section(label, message, BOLD_RED)
        yield from layout.format_text_section("fix", hint)


def _format_topic_line(topic: TopicPlan, layout: TextLayout) -> Iterator[str]:
    """Yield one line for the topic, with the reasons of its refusals; nothing if the topic has only notices."""
    reasons: dict[str, dict[str, None]] = {"refused": {}, "held back": {}}
    for issue in topic.refusals:
        label = "held back" if issue.reason in topic_block.CLUSTER_WIDE_REASONS else "refused"
        reasons[label][issue.reason.value] = None
    parts = [f"{label}: {', '.join(names)}" for label, names in reasons.items() if names]
    sign, risk = "!", ""
    if topic.changes:
        parts.insert(0, topic_block.describe_action(topic))
        sign, risk = topic_block.choose_sign(topic), f"  {layout.colorize(topic.risk.label, RISK_STYLES[topic.risk])}"
    if parts:
        start = f"  {sign} {sanitize(topic.topic)}".ljust(layout.action_column - 1)
        yield f"{start} {'; '.join(parts)}{risk}"
