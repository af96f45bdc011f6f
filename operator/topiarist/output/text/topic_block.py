"""The blocks of a plan as text: one per topic with changes, one per refusal, one per group of topics.

Every block has the same heading: a sign, a name, the action, and the risk at the right end.

    +  create      ~  grow, configure      -  delete      =  ownership record only      !  refused      .  not applied

``text.plan``, ``text.short``, ``text.describe`` and ``markdown.plan`` call this module. ``groups`` finds the changes
and refusals that many topics share; their block lists the topic names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from topiarist.errors import Reason
from topiarist.model.plan import (
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    ReleaseOwnership,
    Risk,
    TakeOwnership,
    TopicPlan,
)
from topiarist.model.spec import find_origin
from topiarist.output.groups import (
    ClusterDefault,
    GroupedItems,
    describe_ownership_action,
    is_record_only,
    refusal_group_key,
)
from topiarist.output.text.changes import (
    FROM_CLUSTER_DEFAULTS,
    RISK_STYLES,
    format_changes,
    format_risk_reasons,
    highest_risk,
    is_fully_shared,
    summarize_changes,
)
from topiarist.output.text.layout import (
    BOLD_RED,
    DIM,
    GREEN,
    YELLOW,
    TextLayout,
    format_field,
    format_heading,
    format_names,
    format_text_field,
    right_align,
    sanitize,
    wrap,
)
from topiarist.output.text.values import ConfigRow, format_config_lines
from topiarist.text import format_count

CLUSTER_WIDE_REASONS = frozenset(
    {Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION, Reason.NO_CONTROLLER, Reason.FROZEN, Reason.BUDGET_EXCEEDED}
)
"""Reasons about the cluster rather than a topic: the header or a remark at the end explains them."""

_SIGN_STYLES = {"+": GREEN, "~": YELLOW, "-": BOLD_RED, "!": BOLD_RED, "=": "", ".": DIM}


def format_topic(layout: TextLayout, plan: TopicPlan, grouped: GroupedItems) -> Iterator[str]:
    """Yield the blocks of one topic, without anything that a group's block shows."""
    if has_ungrouped_changes(plan, grouped):
        yield from _format_changed_topic(layout, plan, grouped)
    for issue in list_ungrouped_refusals(plan, grouped):
        yield from format_refusal(layout, plan, issue)
    if has_own_block(plan, grouped):
        yield from _format_notices(layout, plan)
    elif layout.verbose and plan.notices:
        yield from format_block_heading(
            layout, ".", plan.topic, "see above" if plan.changes or plan.refusals else "nothing to do"
        )
        yield from _format_notices(layout, plan)


def has_own_block(plan: TopicPlan, grouped: GroupedItems) -> bool:
    """Return whether a topic has its own block for a change or refusal; its notices are shown there too."""
    return has_ungrouped_changes(plan, grouped) or bool(list_ungrouped_refusals(plan, grouped))


def list_ungrouped_refusals(plan: TopicPlan, grouped: GroupedItems) -> Sequence[Issue]:
    if not grouped.refusals:
        return plan.refusals
    return [issue for issue in plan.refusals if refusal_group_key(issue) not in grouped.refusals]


def has_ungrouped_changes(plan: TopicPlan, grouped: GroupedItems) -> bool:
    """Return whether the changes need a block of their own.

    Grouped changes do not, nor does the ownership record of an observed topic, which stays unchanged.
    """
    if is_record_only(plan):
        return not plan.observe_only and describe_ownership_action(plan) not in grouped.ownership_actions
    if plan.observe_only or describe_ownership_action(plan):
        return bool(plan.changes)
    return bool(plan.changes) and not is_fully_shared(plan.changes, grouped.defaults)


def _format_changed_topic(layout: TextLayout, plan: TopicPlan, grouped: GroupedItems) -> Iterator[str]:
    action, record = summarize_changes(plan.changes), describe_ownership_action(plan)
    if plan.observe_only:
        yield from format_block_heading(layout, ".", plan.topic, f"observed, not done: {action}", plan.risk)
        yield from format_changes(layout, plan.changes)
    elif is_record_only(plan):
        yield from format_block_heading(layout, "=", plan.topic, describe_record_only(record), Risk.SAFE)
    else:
        yield from format_block_heading(layout, choose_sign(plan.changes), plan.topic, action, plan.risk)
        yield from format_changes(layout, plan.changes, shared_defaults=grouped.defaults)
        yield from format_text_field(layout, "record", f"{record}: the topic becomes ours" if record else "")


def choose_sign(changes: Sequence[Change]) -> str:
    """Return the sign for a topic's changes."""
    if any(isinstance(change, CreateTopic) for change in changes):
        return "+"
    if any(isinstance(change, DeleteTopic) for change in changes):
        return "-"
    return "=" if all(isinstance(change, TakeOwnership | ReleaseOwnership) for change in changes) else "~"


def format_block_heading(
    layout: TextLayout, sign: str, name: str, action: str, risk: Risk | None = None
) -> Iterator[str]:
    """Yield the heading of a block, in the styles of its sign and its risk."""
    if risk is None:
        return format_heading(layout, sign, name, action=action, styles=(_SIGN_STYLES[sign], ""))
    return format_heading(
        layout, sign, name, action=action, right_text=risk.label, styles=(_SIGN_STYLES[sign], RISK_STYLES[risk])
    )


def describe_record_only(ownership_action: str) -> str:
    """Return the action of a topic of which only the ownership record is written.

    ``ownership_action`` is a result of ``describe_ownership_action``.
    """
    return (
        f"{ownership_action}: only our record is written"
        if ownership_action
        else "only our record is brought up to date"
    )


def _format_notices(layout: TextLayout, plan: TopicPlan) -> Iterator[str]:
    for notice in plan.notices:
        if layout.verbose or notice.reason is not Reason.UNMANAGED:
            yield from format_text_field(
                layout, "warning" if notice.reason is Reason.EXISTING_PROBLEM else "note", notice.message
            )


def format_refusal(layout: TextLayout, plan: TopicPlan, issue: Issue) -> Iterator[str]:
    """Yield one refusal: message, location, hint and withheld changes."""
    yield from format_refusal_heading(layout, plan.topic, issue)
    if issue.reason not in CLUSTER_WIDE_REASONS:
        yield from format_field_location(layout, plan, issue)
        yield from format_text_field(layout, "fix", issue.hint)
        yield from format_rule_location(layout, issue)
    yield from format_withheld_changes(layout, issue)


def format_refusal_heading(layout: TextLayout, name: str, issue: Issue) -> Iterator[str]:
    """Yield the heading of a refusal; cluster-wide reasons are not repeated for each topic."""
    if issue.reason in CLUSTER_WIDE_REASONS:
        return format_block_heading(
            layout, "!", name, f"held back: {summarize_changes(issue.withheld)}", highest_risk(issue.withheld)
        )
    return format_block_heading(layout, "!", name, f"refused: {issue.message}")


def format_field_location(layout: TextLayout, plan: TopicPlan, issue: Issue, other_topics: int = 0) -> Iterator[str]:
    """Yield the location of the refused value, with the reason at the right end."""
    place = find_origin(plan.spec, *issue.field).locate() if plan.spec else None
    text = sanitize(str(place)) if place else ""
    text += f" and {other_topics:,} more" if text and other_topics else ""
    word = issue.reason.value
    *before, last = wrap(text, layout.text_width)
    if len(last) + len(word) + 2 > layout.text_width:
        before, last = [*before, last], ""
    end = right_align(last, word, layout.text_width, layout.colorize(word, DIM))
    yield from format_field(layout, "at" if text else "", [*before, end])


def format_rule_location(layout: TextLayout, issue: Issue) -> Iterator[str]:
    """Yield the location of the policy rule that caused the issue, if known."""
    place = issue.rule_origin.locate() if issue.rule_origin else None
    yield from format_text_field(layout, "rule", str(place) if place else "")


def format_withheld_changes(layout: TextLayout, issue: Issue) -> Iterator[str]:
    """Yield the changes that a refusal withholds, with their fields."""
    if issue.withheld and issue.reason not in CLUSTER_WIDE_REASONS:
        risk = highest_risk(issue.withheld)
        end = right_align(
            summarize_changes(issue.withheld),
            risk.label,
            layout.text_width,
            layout.colorize(risk.label, RISK_STYLES[risk]),
        )
        yield from format_field(layout, "held back", [end])
    yield from format_changes(layout, issue.withheld, already_shown=issue.message)


_MAX_SHOWN_OLD_VALUES = 6


def format_group_blocks(layout: TextLayout, grouped: GroupedItems) -> Iterator[Iterator[str]]:
    """Yield one block for each shared default, each ownership action and each shared refusal."""
    yield from (_format_default_group(layout, default, touched) for default, touched in grouped.defaults.items())
    yield from (_format_record_group(layout, words, topics) for words, topics in grouped.ownership_actions.items())
    yield from (_format_refusal_group(layout, members) for members in grouped.refusals.values())


def _format_record_group(layout: TextLayout, ownership_action: str, topics: Sequence[TopicPlan]) -> Iterator[str]:
    yield from format_block_heading(
        layout, "=", format_count(len(topics), "topic"), describe_record_only(ownership_action), Risk.SAFE
    )
    yield from format_field(layout, "topics", format_names(layout, [plan.topic for plan in topics]))


def _format_refusal_group(layout: TextLayout, members: Sequence[tuple[TopicPlan, Issue]]) -> Iterator[str]:
    """Yield one refusal that many topics share; its hint has TOPIC in place of each name."""
    plan, issue = members[0]
    yield from format_refusal_heading(layout, format_count(len(members), "topic"), issue)
    if issue.reason not in CLUSTER_WIDE_REASONS:
        yield from format_field_location(layout, plan, issue, len(members) - 1)
        yield from format_text_field(layout, "fix", issue.hint.replace(f"={plan.topic}", "=TOPIC"))
        yield from format_rule_location(layout, issue)
    yield from format_withheld_changes(layout, issue)
    yield from format_field(layout, "topics", format_names(layout, [member.topic for member, _ in members]))


def _format_default_group(
    layout: TextLayout, default: ClusterDefault, touched: Sequence[tuple[TopicPlan, ConfigItem]]
) -> Iterator[str]:
    """Yield one default of the cluster, with all the existing topics that it changes."""
    key, _ = default
    risk = max(item.assessment.risk for _, item in touched)
    yield from format_block_heading(
        layout, "~", key, f"{FROM_CLUSTER_DEFAULTS}, {format_count(len(touched), 'topic')}", risk
    )
    befores = Counter(item for _, item in touched).most_common()
    assessments = Counter(item.assessment for _, item in touched).most_common()
    yield from format_field(
        layout,
        "reason",
        format_risk_reasons(layout, [(format_count(times, "topic"), assessment) for assessment, times in assessments]),
    )
    rows = [ConfigRow(item, f"in {format_count(times, 'topic')}") for item, times in befores[:_MAX_SHOWN_OLD_VALUES]]
    yield from format_field(layout, "config", format_config_lines(layout, rows))
    if left := len(befores) - len(rows):
        yield from format_field(layout, "", [f"and {format_count(left, 'other value')}"])
    place = find_origin(spec, "config", key).locate() if (spec := touched[0][0].spec) else None
    yield from format_text_field(layout, "at", str(place) if place else "")
    yield from format_field(layout, "topics", format_names(layout, [plan.topic for plan, _ in touched]))
