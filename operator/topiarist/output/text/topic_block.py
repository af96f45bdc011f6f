"""The blocks of a plan as text: one per topic with changes, one per refusal, one per group of topics.

Every block has the same heading: a sign, a name, the action, and the risk at the right end.

    +  create      ~  grow, configure      -  delete      =  ownership record only      !  refused      .  not applied

``text.plan``, ``text.describe`` and ``markdown.plan`` call this module. ``groups`` finds the changes
and refusals that many topics share; their block lists the topic names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from topiarist.errors import Reason
from topiarist.model.plan import (
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ImpliedTopic,
    Issue,
    Plan,
    ReleaseOwnership,
    TakeOwnership,
    TopicPlan,
)
from topiarist.model.run_options import Risk
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
    SharedDefaults,
    format_changes,
    format_risks,
    highest_risk,
    is_fully_shared,
    summarize_changes,
)
from topiarist.output.text.layout import BOLD_RED, DIM, GREEN, YELLOW, TextLayout, sanitize
from topiarist.output.text.values import ConfigRow, format_config_lines
from topiarist.text import format_count

CLUSTER_WIDE_REASONS = frozenset(
    {
        Reason.KRAFT_CONTROLLER,
        Reason.KRAFT_MIGRATION,
        Reason.NO_CONTROLLER,
        Reason.FROZEN,
        Reason.RECORDS_NOT_MOVED,
        Reason.MOVED_BACK,
        Reason.BUDGET_EXCEEDED,
        Reason.MOVES_LIMITED,
    }
)
"""Reasons about the cluster or the run rather than a topic: the header or a remark at the end explains them."""

WARNING_REASONS = frozenset({Reason.EXISTING_PROBLEM, Reason.MAY_NEED_PROTECTION})
"""Reasons of notices that are shown with their message, even if the topic has no block."""

_SIGN_STYLES = {"+": GREEN, "~": YELLOW, "-": BOLD_RED, "!": BOLD_RED, "=": "", ".": DIM}
_MAX_SHOWN_OLD_VALUES = 6


def format_topic(layout: TextLayout, plan: TopicPlan, grouped: GroupedItems) -> Iterator[str]:
    """Yield the blocks of one topic, without anything that a group's block shows."""
    if has_ungrouped_changes(plan, grouped):
        yield from _format_block_heading(layout, choose_sign(plan), plan.topic, describe_action(plan), plan.risk)
        yield from format_changes(layout, plan.changes, plan.spec, shared_defaults=shared_defaults_of(plan, grouped))
        yield from layout.format_text_field("record", describe_record_too(plan))
    for issue in list_ungrouped_refusals(plan, grouped):
        yield from _format_refusal(layout, [(plan, issue)])
    own_block = has_own_block(plan, grouped)
    for text in plan.usage if own_block else ():
        yield from layout.format_text_field("usage", sanitize(text))
    if layout.verbose and plan.notices and not own_block:
        action = "see above" if plan.changes or plan.refusals else "nothing to do"
        yield from _format_block_heading(layout, ".", plan.topic, action)
    for notice in plan.notices if own_block or layout.verbose else ():
        if layout.verbose or notice.reason is not Reason.UNMANAGED:
            yield from layout.format_text_field(label_notice(notice), notice.message)


def has_own_block(plan: TopicPlan, grouped: GroupedItems) -> bool:
    """Return whether a topic has its own block for a change or refusal; its notices are shown there too."""
    return has_ungrouped_changes(plan, grouped) or bool(list_ungrouped_refusals(plan, grouped))


def list_ungrouped_refusals(plan: TopicPlan, grouped: GroupedItems) -> Sequence[Issue]:
    """Return the refusals of a topic that no group shows."""
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


def shared_defaults_of(plan: TopicPlan, grouped: GroupedItems) -> SharedDefaults:
    """Return the defaults that are shown once for many topics; none for an observed topic, which no group lists."""
    return () if plan.observe_only else grouped.defaults


def list_unlisted_notices(plan: Plan, grouped: GroupedItems) -> Iterator[tuple[str, Issue]]:
    """Yield each notice that no block shows, with its topic; unmanaged keys are in no block."""
    for topic in plan.topics:
        if topic.notices:
            shown = has_own_block(topic, grouped)
            yield from ((topic.topic, each) for each in topic.notices if each.reason is Reason.UNMANAGED or not shown)


def label_notice(notice: Issue) -> str:
    """Return ``warning`` for a problem or a danger that no other line shows, else ``note``."""
    return "warning" if notice.reason in WARNING_REASONS else "note"


def choose_sign(plan: TopicPlan) -> str:
    """Return the sign for a topic's changes."""
    if plan.observe_only:
        return "."
    if any(isinstance(change, CreateTopic) for change in plan.changes):
        return "+"
    if any(isinstance(change, DeleteTopic) for change in plan.changes):
        return "-"
    return "=" if all(isinstance(change, TakeOwnership | ReleaseOwnership) for change in plan.changes) else "~"


def describe_action(plan: TopicPlan) -> str:
    """Return the action of a topic's changes in a few words."""
    if is_record_only(plan):
        action = describe_record_only(describe_ownership_action(plan))
    else:
        action = summarize_changes(plan.changes, len(plan.before.replicas) if plan.before else 0)
    return f"observed, not applied: {action}" if plan.observe_only else action


def describe_record_only(ownership_action: str) -> str:
    """Return the action of a topic with a change of its ownership record alone.

    ``ownership_action`` is a result of ``describe_ownership_action``.
    """
    return f"{ownership_action} (ownership record only)" if ownership_action else "update the ownership record"


def describe_record_too(plan: TopicPlan) -> str:
    """Return the action on the ownership record that goes with a topic's other changes; empty without one."""
    ownership_action = "" if plan.observe_only or is_record_only(plan) else describe_ownership_action(plan)
    return f"{ownership_action}: the ownership record is written too" if ownership_action else ""


def _format_block_heading(
    layout: TextLayout, sign: str, name: str, action: str, risk: Risk | None = None
) -> Iterator[str]:
    label, risk_style = ("", "") if risk is None else (risk.label, RISK_STYLES[risk])
    styles = (_SIGN_STYLES[sign], risk_style)
    return layout.format_heading(sign, name, action=action, right_text=label, styles=styles)


def _format_refusal(layout: TextLayout, members: Sequence[tuple[TopicPlan, Issue]]) -> Iterator[str]:
    """Yield one refusal, of one topic or shared by several.

    A cluster-wide reason, its message and its hint are not repeated for each topic.
    """
    plan, issue = members[0]
    name = plan.topic if len(members) == 1 else format_count(len(members), "topic")
    withheld, risk = summarize_changes(issue.withheld), highest_risk(issue.withheld)
    if issue.reason in CLUSTER_WIDE_REASONS:
        yield from _format_block_heading(layout, "!", name, f"held back: {withheld}", risk)
    else:
        yield from _format_block_heading(layout, "!", name, f"refused: {issue.message}")
        yield from _format_field_location(layout, plan, issue, other_topics=len(members) - 1)
        yield from layout.format_text_field("fix", choose_hint(members))
        cause = issue.cause_origin.locate() if issue.cause_origin else None
        yield from layout.format_text_field(label_cause(issue), str(cause) if cause else "")
        if issue.withheld:
            line = layout.align_right(withheld, risk.label, layout.text_width, RISK_STYLES[risk])
            yield from layout.format_field("held back", [line])
    yield from format_changes(layout, issue.withheld, plan.spec, already_shown=issue.message)
    if len(members) > 1:
        yield from layout.format_field("topics", layout.format_names([member.topic for member, _ in members]))


def format_implied(layout: TextLayout, topic: ImpliedTopic) -> Iterator[str]:
    """Yield the block of a topic that the first apply makes without a manifest."""
    yield from _format_block_heading(layout, "+", topic.name, _describe_size(topic), Risk.SAFE)
    yield from layout.format_text_field("made by", _describe_maker(topic))


def explain_implied(topic: ImpliedTopic) -> str:
    """Return size, maker and purpose of a topic that the first apply makes without a manifest, in one line."""
    return f"{_describe_size(topic)}, by {_describe_maker(topic)}"


def _describe_maker(topic: ImpliedTopic) -> str:
    return f"{topic.maker}, once for a cluster, for {topic.purpose}"


def _describe_size(topic: ImpliedTopic) -> str:
    return f"create {format_count(topic.partitions, 'partition')} x {format_count(topic.replicas, 'replica')}"


def label_cause(issue: Issue) -> str:
    """Return ``rule`` for a policy's rule that caused an issue, ``cluster`` for a field of the Cluster."""
    return "rule" if issue.reason in (Reason.POLICY_DENIED, Reason.POLICY_WARNING) else "cluster"


def choose_hint(members: Sequence[tuple[TopicPlan, Issue]]) -> str:
    """Return the hint of a refusal; if several topics share it, it has TOPIC in place of the first topic's name."""
    plan, issue = members[0]
    return issue.hint if len(members) == 1 else issue.hint.replace(f"={plan.topic}", "=TOPIC")


def _format_field_location(layout: TextLayout, plan: TopicPlan, issue: Issue, other_topics: int) -> Iterator[str]:
    place = find_origin(plan.spec, *issue.field).locate() if plan.spec else None
    text = sanitize(str(place)) if place else ""
    text += f" and {other_topics:,} more" if text and other_topics else ""
    reason = issue.reason.value
    *before, last = layout.wrap(text)
    if len(last) + len(reason) + 2 > layout.text_width:
        before, last = [*before, last], ""
    end = layout.align_right(last, reason, layout.text_width, DIM)
    yield from layout.format_field("at" if text else "", [*before, end])


def format_group_blocks(layout: TextLayout, grouped: GroupedItems) -> Iterator[Iterator[str]]:
    """Yield one block for each shared default, each ownership action and each shared refusal."""
    yield from (_format_default_group(layout, default, touched) for default, touched in grouped.defaults.items())
    yield from (_format_record_group(layout, words, topics) for words, topics in grouped.ownership_actions.items())
    yield from (_format_refusal(layout, members) for members in grouped.refusals.values())


def _format_record_group(layout: TextLayout, ownership_action: str, topics: Sequence[TopicPlan]) -> Iterator[str]:
    action = describe_record_only(ownership_action)
    yield from _format_block_heading(layout, "=", format_count(len(topics), "topic"), action, Risk.SAFE)
    yield from layout.format_field("topics", layout.format_names([plan.topic for plan in topics]))


def _format_default_group(
    layout: TextLayout, default: ClusterDefault, touched: Sequence[tuple[TopicPlan, ConfigItem]]
) -> Iterator[str]:
    key, _ = default
    risk = max(item.assessment.risk for _, item in touched)
    action = f"{FROM_CLUSTER_DEFAULTS}, {format_count(len(touched), 'topic')}"
    yield from _format_block_heading(layout, "~", key, action, risk)
    assessments = Counter(item.assessment for _, item in touched).most_common()
    yield from format_risks(layout, [(format_count(times, "topic"), assessment) for assessment, times in assessments])
    old_values = Counter(item for _, item in touched).most_common()
    shown = old_values[:_MAX_SHOWN_OLD_VALUES]
    rows = [ConfigRow(item, f"in {format_count(times, 'topic')}") for item, times in shown]
    lines = format_config_lines(layout, rows)
    if left := len(old_values) - len(shown):
        lines.append(f"and {format_count(left, 'other value')}")
    yield from layout.format_field("config", lines)
    place = find_origin(spec, "config", key).locate() if (spec := touched[0][0].spec) else None
    yield from layout.format_text_field("at", str(place) if place else "")
    yield from layout.format_field("topics", layout.format_names([plan.topic for plan, _ in touched]))
