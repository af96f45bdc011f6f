"""Plans in fewer lines: one per topic (``-q``), or only the summary of each plan (``--summary``).

``plan`` and ``apply`` print them in place of ``text.plan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from topiarist.model.outcome import ReconcileReport
from topiarist.model.plan import Plan, TopicPlan
from topiarist.output.groups import describe_ownership_action, is_record_only
from topiarist.output.text import apply, summary, topic_block
from topiarist.output.text import plan as plan_
from topiarist.output.text.changes import RISK_STYLES, summarize_changes
from topiarist.output.text.layout import BOLD, BOLD_RED, TextLayout, choose_action_column, sanitize
from topiarist.text import format_count


def format_topic_lines(plans: Sequence[Plan], layout: TextLayout, *, applying: bool = False) -> str:
    """Return the plans with one line for each topic with a change or refusal."""
    parts: list[str] = []
    for plan in plans:
        column = choose_action_column(topic.topic for topic in plan.topics)
        parts += [*plan_.format_cluster_header(plan, layout), ""]
        if heads := [
            head for topic in plan.topics for head in _format_topic(topic, replace(layout, action_column=column))
        ]:
            parts += [*heads, ""]
        parts += [*_format_summary(plan, layout, summary.PLAN_LABEL, applying=applying), ""]
    return _join_lines(parts, plans, layout)


def format_summaries(plans: Sequence[Plan], layout: TextLayout, *, applying: bool = False) -> str:
    """Return only the summary of each plan.

    A cluster with a write block has a line with its reason.
    """
    parts: list[str] = []
    for plan in plans:
        if plan.write_block.reason is not None:
            label = f"{sanitize(plan.cluster)}: " if plan.cluster else ""
            closed = (
                f"{label}closed: {plan.write_block.reason}: {sanitize(plan.write_block.message)}; nothing is written"
            )
            parts.append(layout.colorize(closed, BOLD_RED))
        label = sanitize(plan.cluster) if len(plans) > 1 else summary.PLAN_LABEL
        parts += _format_summary(plan, layout, label, applying=applying)
    return _join_lines([*parts, ""], plans, layout) if parts else ""


def format_report_summary(report: ReconcileReport, layout: TextLayout) -> str:
    """Return the summary line of a report."""
    label = f"{sanitize(report.plan.cluster)}: " if report.plan.cluster else ""
    return layout.colorize(f"{label}{apply.format_summary(report)}", BOLD) + "\n"


def _format_summary(plan: Plan, layout: TextLayout, label: str, *, applying: bool) -> Iterator[str]:
    yield summary.format_summary_line(layout, summary.count_plan(plan), label)
    yield from summary.format_data_losses(layout, plan, advice="" if applying else summary.DATA_LOSS_ADVICE)


def _join_lines(lines: Sequence[str], plans: Sequence[Plan], layout: TextLayout) -> str:
    """Return the lines as text, with a summary line for all plans if there are several."""
    total = (
        [summary.format_summary_line(layout, summary.count_plans(plans), f"All {format_count(len(plans), 'cluster')}")]
        if len(plans) > 1
        else []
    )
    every = [*lines, *total] if total else lines[:-1]
    return "\n".join(every) + "\n" if every else ""


def _format_topic(topic: TopicPlan, layout: TextLayout) -> Iterator[str]:
    """Yield one line for the topic; nothing if the topic has only notices."""
    refused = "; ".join(
        filter(None, [_join_reasons(topic, cluster_wide=False), _join_reasons(topic, cluster_wide=True)])
    )
    if not topic.changes:
        if refused:
            yield _format_line(layout, "!", topic.topic, refused)
        return
    ownership_action = describe_ownership_action(topic)
    action = (
        topic_block.describe_record_only(ownership_action)
        if is_record_only(topic)
        else summarize_changes(topic.changes)
    )
    action = f"observed, not done: {action}" if topic.observe_only else action
    sign = "." if topic.observe_only else topic_block.choose_sign(topic.changes)
    risk = layout.colorize(topic.risk.label, RISK_STYLES[topic.risk])
    yield _format_line(layout, sign, topic.topic, f"{action}; {refused}" if refused else action, risk)


def _join_reasons(topic: TopicPlan, *, cluster_wide: bool) -> str:
    """Return the reasons of the topic's refusals.

    ``cluster_wide`` selects the refusals by a write block or a budget; otherwise the topic's own refusals.
    """
    reasons = dict.fromkeys(
        each.reason.value
        for each in topic.refusals
        if (each.reason in topic_block.CLUSTER_WIDE_REASONS) is cluster_wide
    )
    return f"{'held back' if cluster_wide else 'refused'}: {', '.join(reasons)}" if reasons else ""


def _format_line(layout: TextLayout, sign: str, name: str, action: str, risk: str = "") -> str:
    start = f"  {sign} {sanitize(name)}".ljust(layout.action_column - 1)
    return f"{start} {action}{'  ' if risk else ''}{risk}"
