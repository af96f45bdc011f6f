"""The sections of one cluster in a pull request comment: topics, groups of topics, and facts about the cluster.

A section comes from one topic or from one group of ``groups``. Names and values are escaped by ``markdown.escape``;
diffs come from ``markdown.diff``. ``markdown.plan`` chooses the sections that fit into the comment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from topiarist.errors import Location, Reason
from topiarist.model.plan import Change, ConfigItem, ImpliedTopic, Issue, MoveReplicas, Plan, RiskAssessment, TopicPlan
from topiarist.model.run_options import Risk
from topiarist.model.spec import find_origin
from topiarist.output.groups import ClusterDefault, GroupedItems, group_items, list_exceeded_limits
from topiarist.output.limit_usage import describe_usage
from topiarist.output.locations import relative_location
from topiarist.output.markdown.diff import COMMENT_LAYOUT, format_config_item, format_diff
from topiarist.output.markdown.escape import (
    escape_prose,
    format_code,
    format_code_block,
    format_code_list,
)
from topiarist.output.text import brokers, planned_moves, topic_block
from topiarist.output.text.changes import (
    FROM_CLUSTER_DEFAULTS,
    group_risks,
    list_risk_assessments,
    summarize_changes,
)
from topiarist.output.text.summary import NOT_IN_PATHS
from topiarist.output.text.topic_block import CLUSTER_WIDE_REASONS
from topiarist.text import format_count

PRIORITY_CRITICAL, PRIORITY_HIGH, PRIORITY_BROKERS, PRIORITY_LOW, PRIORITY_INFO = range(5)
"""Section priorities, most important first.

Refusals and possible data loss; disruptive changes; broker effects and warnings; safe changes; information.
"""

_RISK_PRIORITIES = (PRIORITY_LOW, PRIORITY_HIGH, PRIORITY_CRITICAL)
_MAX_NAMES = 20
_MAX_KINDS = 10


class Section(NamedTuple):
    """A section with its priority, its topics and the function that formats it.

    The function is called only for sections that are tried: most sections of a long plan are not shown.
    """

    priority: int
    topics: Sequence[str]
    write: Callable[[], str]


def build_sections(plan: Plan, root: str) -> list[Section]:
    """Return the sections in display order; file locations are relative to the folder ``root``."""
    grouped = group_items(plan)
    sections = list(_build_group_sections(grouped, root))
    sections[:0] = _build_limit_sections(plan)
    for topic in plan.topics:
        if topic_block.has_own_block(topic, grouped):
            priority = PRIORITY_LOW if topic.observe_only else _RISK_PRIORITIES[topic.risk]
            priority = PRIORITY_CRITICAL if topic.refusals else priority
            sections.append(Section(priority, (topic.topic,), partial(_format_topic, topic, grouped, root)))
    sections.sort(key=lambda section: section.priority)
    if table := list(brokers.format_broker_table(COMMENT_LAYOUT, plan)):
        effect = "#### Effect on the brokers\n\n" + format_code_block(line.removeprefix("  ") for line in table)
        if pace := planned_moves.describe_pace(plan):
            effect += f"\n\nMoves: {escape_prose(pace)}"
        sections.append(Section(PRIORITY_BROKERS, (), lambda: effect))
    if implied := plan.implied_topics:
        sections.append(_list_section(PRIORITY_BROKERS, "Also created", map(_describe_implied, implied)))
    if plan.limits:
        sections.append(_list_section(PRIORITY_BROKERS, "Limits", map(escape_prose, describe_usage(plan.limits))))
    if plan.warnings:
        sections.append(_list_section(PRIORITY_BROKERS, "Warnings", map(escape_prose, plan.warnings)))
    if plan.orphans:
        text = format_count(len(plan.orphans), "owned topic")
        text += f": {_format_names(plan.orphans)}" if len(plan.orphans) <= _MAX_NAMES else ""
        sections.append(_list_section(PRIORITY_INFO, NOT_IN_PATHS.capitalize(), [text]))
    if notices := list(_format_unlisted_notices(plan, grouped)):
        sections.append(_list_section(PRIORITY_INFO, "Notices", notices))
    return sections


def _describe_implied(topic: ImpliedTopic) -> str:
    return f"{format_code(topic.name)}: {topic_block.explain_implied(topic)}"


def _build_limit_sections(plan: Plan) -> Iterator[Section]:
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for label, message, hint in list_exceeded_limits(plan):
        lines[label] += [escape_prose(message), escape_prose(f"fix: {hint}")]
    yield from (_list_section(PRIORITY_CRITICAL, label.capitalize(), texts) for label, texts in lines.items())


def _list_section(priority: int, title: str, lines: Iterable[str]) -> Section:
    text = f"#### {title}\n\n{_format_bullets(lines)}"
    return Section(priority, (), lambda: text)


def _build_group_sections(grouped: GroupedItems, root: str) -> Iterator[Section]:
    for default, touched in grouped.defaults.items():
        priority = _RISK_PRIORITIES[max(item.assessment.risk for _, item in touched)]
        names = [topic.topic for topic, _ in touched]
        yield Section(priority, names, partial(_format_default_group, default, touched, root))
    for action, topics in grouped.ownership_actions.items():
        names = [topic.topic for topic in topics]
        yield Section(PRIORITY_LOW, names, partial(_format_record_group, action, names))
    for members in grouped.refusals.values():
        names = [topic.topic for topic, _ in members]
        yield Section(PRIORITY_CRITICAL, names, partial(_format_refusal, members, root))


def _format_record_group(ownership_action: str, topics: Sequence[str]) -> str:
    action = topic_block.describe_record_only(ownership_action)
    return _format_section(format_count(len(topics), "topic"), action, [f"topics: {_format_names(topics)}"])


def _format_default_group(default: ClusterDefault, touched: Sequence[tuple[TopicPlan, ConfigItem]], root: str) -> str:
    key, _ = default
    assessments = Counter(item.assessment for _, item in touched).most_common()
    subjects = [(format_count(times, "topic"), assessment) for assessment, times in assessments]
    lines = _format_risks(subjects, several_topics=True)
    lines.append(f"topics: {_format_names([topic.topic for topic, _ in touched])}")
    lines.extend(_format_field_location(touched[0][0], ("config", key), root))
    old_values = Counter(item for _, item in touched).most_common(_MAX_KINDS)
    diff: list[str] = []
    for item, times in old_values:
        diff.extend(format_config_item(item, f"in {format_count(times, 'topic')}"))
    action = f"{FROM_CLUSTER_DEFAULTS}, {format_count(len(touched), 'topic')}"
    return _format_section(format_code(key), action, lines, diff)


def _format_topic(topic: TopicPlan, grouped: GroupedItems, root: str) -> str:
    parts = []
    if topic_block.has_ungrouped_changes(topic, grouped):
        lines = _format_risks(list_risk_assessments(topic.changes))
        lines.extend(_format_move_lines(topic, topic.changes, root))
        if record := topic_block.describe_record_too(topic):
            lines.append(f"record: {escape_prose(record)}")
        lines.extend(f"usage: {escape_prose(text)}" for text in topic.usage)
        diff = format_diff(topic.changes, topic_block.shared_defaults_of(topic, grouped))
        parts.append(_format_section(format_code(topic.topic), topic_block.describe_action(topic), lines, diff))
    for issue in topic_block.list_ungrouped_refusals(topic, grouped):
        parts.append(_format_refusal([(topic, issue)], root))
    notices = [issue for issue in topic.notices if issue.reason is not Reason.UNMANAGED]
    if notices:
        parts.append(
            _format_bullets(f"{topic_block.label_notice(issue)}: {escape_prose(issue.message)}" for issue in notices)
        )
    return "\n\n".join(parts)


def _format_move_lines(topic: TopicPlan, changes: Iterable[Change], root: str) -> Iterator[str]:
    """Yield the reasons of moves, the field that asks for them, and the new preferred leaders."""
    for change in changes:
        if isinstance(change, MoveReplicas):
            if reasons := planned_moves.describe_move_reasons(change.moves, topic.spec):
                place = planned_moves.find_move_location(change.moves, topic.spec)
                yield f"because {escape_prose(reasons)}" + (f", at {_format_location(place, root)}" if place else "")
            # The risk names the leaders that leave; those that stay as followers are only in the lists.
            if any(move.before[0] in move.after[1:] for move in change.moves):
                yield escape_prose(planned_moves.describe_new_leaders(change.moves))


def _format_refusal(members: Sequence[tuple[TopicPlan, Issue]], root: str) -> str:
    """Return one refusal, of one topic or shared by several, with its message, location, hint and withheld changes.

    A cluster-wide reason is not repeated: the cluster's heading or a section of its own gives it once.
    """
    topic, issue = members[0]
    name = format_code(topic.topic) if len(members) == 1 else format_count(len(members), "topic")
    withheld = summarize_changes(issue.withheld)
    if issue.reason in CLUSTER_WIDE_REASONS:
        action, lines = f"held back: {withheld}", []
    else:
        action, lines = f"refused ({issue.reason})", [escape_prose(issue.message)]
        lines.extend(_format_field_location(topic, issue.field, root))
        if issue.hint:
            lines.append(f"fix: {escape_prose(topic_block.choose_hint(members))}")
        if place := issue.cause_origin and issue.cause_origin.locate():
            lines.append(f"{topic_block.label_cause(issue)} at {_format_location(place, root)}")
        if issue.withheld:
            lines.append(f"held back: {escape_prose(withheld)}")
    if issue.withheld:
        lines.extend(_format_risks(list_risk_assessments(issue.withheld), already_shown=issue.message))
        lines.extend(_format_move_lines(topic, issue.withheld, root))
    if len(members) > 1:
        lines.append(f"topics: {_format_names([member.topic for member, _ in members])}")
    return _format_section(name, action, lines, format_diff(issue.withheld, ()))


def _format_section(name: str, action: str, lines: Iterable[str], diff: Sequence[str] = ()) -> str:
    text = f"#### {name}: {escape_prose(action)}\n\n{_format_bullets(lines)}"
    return f"{text}\n\n{format_code_block(diff, 'diff')}" if diff else text


def _format_bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _format_risks(
    assessments: Iterable[tuple[str, RiskAssessment]], *, several_topics: bool = False, already_shown: str = ""
) -> list[str]:
    """Return one line per risk and explanation, the highest risk first; at least the highest risk.

    Each explanation names its subjects, except when there is only one assessment and it is about one topic. An
    explanation that is part of ``already_shown`` is not repeated.
    """
    pairs = list(assessments)
    lines = []
    for assessment, subjects in group_risks(pairs):
        if assessment.explanation not in already_shown:
            text = assessment.explanation
            if several_topics or len(pairs) > 1:
                text = f"{subjects}: {text}"
            lines.append(f"**{assessment.risk.label}**: {escape_prose(text)}")
    highest = max((assessment.risk for _, assessment in pairs), default=Risk.SAFE)
    return lines or [f"**{highest.label}**"]


def _format_field_location(topic: TopicPlan, field: Sequence[str], root: str) -> Iterator[str]:
    place = find_origin(topic.spec, *field).locate() if topic.spec else None
    if place:
        yield f"at {_format_location(place, root)}"


def _format_location(location: Location, root: str) -> str:
    return format_code(str(relative_location(location, root)))


def _format_names(names: Sequence[str]) -> str:
    return format_code_list(names, _MAX_NAMES)


def _format_unlisted_notices(plan: Plan, grouped: GroupedItems) -> Iterator[str]:
    """Yield the notices of topics without a section, grouped by message.

    Warnings come before notes, the most frequent first; the rest is counted after ``_MAX_KINDS`` groups.
    """
    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for topic, issue in topic_block.list_unlisted_notices(plan, grouped):
        kinds[topic_block.label_notice(issue), issue.message].append(topic)
    ordered = sorted(kinds.items(), key=lambda kind: (kind[0][0] == "note", -len(kind[1])))
    for (label, message), topics in ordered[:_MAX_KINDS]:
        yield f"{label}: {_format_names(topics)}: {escape_prose(message)}"
    if left := sum(len(topics) for _, topics in ordered[_MAX_KINDS:]):
        yield f"and {format_count(left, 'other notice')}"
