"""The sections of one cluster in a pull request comment: topics, groups of topics, and facts about the cluster.

A section comes from one topic or from one group of ``groups``. Names and values are escaped.
Values before and after are the lines of a ``diff`` code block, which viewers colour. ``markdown.plan`` chooses the
sections that fit into the comment.

Untrusted text is shown as plain text on GitHub and elsewhere. Escaping alone is not sufficient: mentions, references
(``#12``, ``GH-12``, commit ids) and URLs become links after the Markdown was parsed, except in code. Therefore
everything but plain words is put into a code span or a fence.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import NamedTuple

from topiarist.errors import Location, Reason
from topiarist.model.plan import ConfigItem, Issue, Plan, Risk, RiskAssessment, TopicPlan
from topiarist.output import groups
from topiarist.output.text.layout import BROKER_DEFAULT, TextLayout, format_value, humanize_config_value
from topiarist.output.text.plan import format_broker_table, format_partitions
from topiarist.output.view import (
    FROM_CLUSTER_DEFAULTS,
    ChangeView,
    describe_implied,
    describe_pace,
    describe_record_only,
    group_risks,
    label_notice,
    locate,
    relative_location,
    view_issue,
    view_topic,
)
from topiarist.text import format_count, list_first, sanitize

_MAX_CODE_LENGTH = 250
_MAX_PROSE_LENGTH = 1000

_TOKEN = re.compile(r'[^\s"]*"(?:\\.|[^"\\])*"\S*|\S+')
_PARTS = re.compile(r"([(]*)(.*?)([),.;:?]*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+(?:['-][a-z]+)*'?")
_NUMBER = re.compile(r"~?[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]{1,2})?%?")
_COMMIT = re.compile(r"[0-9A-Fa-f]{7,}")


def format_code(text: str) -> str:
    """Return a code span that shows ``text`` on one line.

    Empty text is shown as two quotes; very long text is cut.
    """
    text = _truncate(sanitize(text), _MAX_CODE_LENGTH) or '""'
    runs = {len(run) for run in re.findall("`+", text)}
    ticks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    stripped = text.strip(" ")
    pad = " " if text.strip("`") != text or (stripped and text[0] == text[-1] == " ") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def format_table_cell(text: str) -> str:
    """Return ``text`` as code for a table cell.

    A bar ends a cell even within a code span, so each bar is put between two code spans.
    """
    return "&#124;".join(
        format_code(part) if part else "" for part in _truncate(sanitize(text), _MAX_CODE_LENGTH).split("|")
    ) or format_code("")


def format_code_list(texts: Sequence[str], max_items: int) -> str:
    """Return texts as code with commas between them.

    Of more than ``max_items`` texts the first are listed and the rest counted.
    """
    most = max_items - (len(texts) > max_items)
    return list_first([*map(format_code, texts[:most])], most, total=len(texts))


def format_html_code(text: str) -> str:
    """Return ``text`` as code within a line of HTML, where Markdown is not parsed."""
    return f"<code>{escape(_truncate(sanitize(text), _MAX_CODE_LENGTH)) or '&quot;&quot;'}</code>"


def escape_prose(text: str) -> str:
    """Return a sentence with its plain words unchanged and everything else as code.

    Keys, values, names and paths become code.
    """
    return " ".join(map(_escape_token, _TOKEN.findall(_truncate(sanitize(text), _MAX_PROSE_LENGTH))))


def _escape_token(token: str) -> str:
    if token == "->":
        return "-&gt;"
    match = _PARTS.fullmatch(token)
    assert match
    before, core, after = match.groups()
    if not core:
        return format_code(token)
    if _WORD.fullmatch(core) and not _COMMIT.fullmatch(core):
        return f"{before}{core}{after}"
    if _NUMBER.fullmatch(core):
        core = core.replace("~", "\\~")  # two tildes strike through the text between them
        # At the start of a line "1." and "1)" begin a list.
        return f"{before}{core}\\{after}" if after[:1] in (".", ")") and after else f"{before}{core}{after}"
    return f"{before}{format_code(core)}{after}"


def _truncate(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def format_code_block(lines: Iterable[str], language: str = "") -> str:
    """Return a fenced block of ``lines``, which must be sanitized.

    The language ``diff`` colours the lines that start with a sign.
    """
    text = "\n".join(lines)
    # A fence must be longer than any run of backticks within it.
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


COMMENT_LAYOUT = TextLayout(width=107)
"""The layout of fixed-width text in a comment: the widest that needs no horizontal scroll bar."""

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
    grouped = groups.group_items(plan)
    sections = list(_build_group_sections(grouped, root))
    sections[:0] = _build_limit_sections(plan)
    for topic in plan.topics:
        if grouped.has_own_block(topic):
            priority = PRIORITY_LOW if topic.observe_only else _RISK_PRIORITIES[topic.risk]
            priority = PRIORITY_CRITICAL if topic.refusals else priority
            sections.append(Section(priority, (topic.topic,), partial(_format_topic, topic, grouped, root)))
    sections.sort(key=lambda section: section.priority)
    if table := list(format_broker_table(COMMENT_LAYOUT, plan)):
        effect = "#### Effect on the brokers\n\n" + format_code_block(line.removeprefix("  ") for line in table)
        if pace := describe_pace(plan):
            effect += f"\n\nMoves: {escape_prose(pace)}"
        sections.append(Section(PRIORITY_BROKERS, (), lambda: effect))
    if implied := plan.implied_topics:
        texts = (f"{format_code(topic.name)}: {', by '.join(describe_implied(topic))}" for topic in implied)
        sections.append(_list_section(PRIORITY_BROKERS, "Also created", texts))
    if plan.limits:
        sections.append(
            _list_section(PRIORITY_BROKERS, "Limits", map(escape_prose, groups.describe_limits(plan.limits)))
        )
    if plan.warnings:
        sections.append(_list_section(PRIORITY_BROKERS, "Warnings", map(escape_prose, plan.warnings)))
    if plan.orphans:
        text = format_count(len(plan.orphans), "owned topic")
        text += f": {_format_names(plan.orphans)}" if len(plan.orphans) <= _MAX_NAMES else ""
        sections.append(_list_section(PRIORITY_INFO, groups.NOT_IN_PATHS.capitalize(), [text]))
    if notices := list(_format_unlisted_notices(plan, grouped)):
        sections.append(_list_section(PRIORITY_INFO, "Notices", notices))
    return sections


def _build_limit_sections(plan: Plan) -> Iterator[Section]:
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for label, message, hint in groups.list_exceeded_limits(plan):
        lines[label] += [escape_prose(message), escape_prose(f"fix: {hint}")]
    yield from (_list_section(PRIORITY_CRITICAL, label.capitalize(), texts) for label, texts in lines.items())


def _list_section(priority: int, title: str, lines: Iterable[str]) -> Section:
    text = f"#### {title}\n\n{_format_bullets(lines)}"
    return Section(priority, (), lambda: text)


def _build_group_sections(grouped: groups.GroupedItems, root: str) -> Iterator[Section]:
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
    action = describe_record_only(ownership_action)
    return _format_section(format_count(len(topics), "topic"), action, [f"topics: {_format_names(topics)}"])


def _format_default_group(
    default: groups.ClusterDefault, touched: Sequence[tuple[TopicPlan, ConfigItem]], root: str
) -> str:
    key, _ = default
    assessments = Counter(item.assessment for _, item in touched).most_common()
    subjects = [(format_count(times, "topic"), assessment) for assessment, times in assessments]
    lines = _format_risks(subjects, several_topics=True)
    lines.append(f"topics: {_format_names([topic.topic for topic, _ in touched])}")
    lines.extend(_format_place("at", locate(touched[0][0].spec, "config", key), root))
    old_values = Counter(item for _, item in touched).most_common(_MAX_KINDS)
    diff: list[str] = []
    for item, times in old_values:
        diff.extend(format_config_item(item, f"in {format_count(times, 'topic')}"))
    action = f"{FROM_CLUSTER_DEFAULTS}, {format_count(len(touched), 'topic')}"
    return _format_section(format_code(key), action, lines, diff)


def _format_topic(topic: TopicPlan, grouped: groups.GroupedItems, root: str) -> str:
    parts = []
    if grouped.has_ungrouped_changes(topic):
        view = view_topic(topic)
        lines = _format_risks(pair for change in view.changes for pair in change.risks)
        lines.extend(_format_move_lines(view.changes, root))
        if view.record:
            lines.append(f"record: {escape_prose(view.record)}")
        lines.extend(f"usage: {escape_prose(text)}" for text in topic.usage)
        diff = format_diff(view.changes, grouped.defaults_of(topic))
        parts.append(_format_section(format_code(topic.topic), view.action, lines, diff))
    for issue in grouped.list_ungrouped_refusals(topic):
        parts.append(_format_refusal([(topic, issue)], root))
    notices = [issue for issue in topic.notices if issue.reason is not Reason.UNMANAGED]
    if notices:
        parts.append(_format_bullets(f"{label_notice(each)}: {escape_prose(each.message)}" for each in notices))
    return "\n\n".join(parts)


def _format_move_lines(changes: Iterable[ChangeView], root: str) -> Iterator[str]:
    """Yield the causes of moves, the field that asks for them, and the new preferred leaders."""
    for change in changes:
        if change.cause:
            place = change.cause_origin.locate() if change.cause_origin else None
            yield ", ".join([f"because {escape_prose(change.cause)}", *_format_place("at", place, root)])
        # The risk names the leaders that leave; those that stay as followers are only in the lists.
        if change.demotes_leaders:
            yield escape_prose(change.new_leaders)


def _format_refusal(members: Sequence[tuple[TopicPlan, Issue]], root: str) -> str:
    """Return one refusal, of one topic or shared by several, with its message, location, hint and withheld changes.

    A cluster-wide reason is not repeated: the cluster's heading or a section of its own gives it once.
    """
    topic, issue = members[0]
    is_shared = len(members) > 1
    view = view_issue(topic, issue, is_shared=is_shared)
    name = format_count(len(members), "topic") if is_shared else format_code(topic.topic)
    if view.is_held_back:
        action, lines = f"held back: {view.summary}", []
    else:
        action, lines = f"refused ({view.reason})", [escape_prose(view.message)]
        lines.extend(_format_place("at", view.place, root))
        if view.hint:
            lines.append(f"fix: {escape_prose(view.hint)}")
        lines.extend(_format_place(f"{view.cause} at", view.cause_place, root))
        if view.changes:
            lines.append(f"held back: {escape_prose(view.summary)}")
    if view.changes:
        risks = (pair for change in view.changes for pair in change.risks)
        lines.extend(_format_risks(risks, already_shown=view.message))
        lines.extend(_format_move_lines(view.changes, root))
    if is_shared:
        lines.append(f"topics: {_format_names([member.topic for member, _ in members])}")
    return _format_section(name, action, lines, format_diff(view.changes))


def format_diff(changes: Iterable[ChangeView], shared_defaults: Collection[groups.ClusterDefault] = ()) -> list[str]:
    """Return the changes as a diff: replica lists by partition, config before and after."""
    return [line for change in changes for line in _format_change(change, shared_defaults)]


def _format_change(change: ChangeView, shared_defaults: Collection[groups.ClusterDefault]) -> Iterator[str]:
    if table := change.table:
        yield f"@@ {table.title} @@"
        sign = " " if table.before else "+"
        for line in format_partitions(COMMENT_LAYOUT, table):
            # The sign of a new partition is that of the whole line.
            yield f"{sign}{line[1:].replace('+', ' ')}" if table.extends else f"{sign} {line}"
    if change.config:
        yield "@@ config @@"
    own = groups.list_own_items(change.config, shared_defaults)
    for item in own:
        yield from format_config_item(item, FROM_CLUSTER_DEFAULTS if item.inherited else "")
    if left := len(change.config) - len(own):
        yield f"  {format_count(left, 'key')} {FROM_CLUSTER_DEFAULTS}: see above"
    if change.is_deletion:
        yield f"- {change.before}, all messages"


def format_config_item(item: ConfigItem, note: str) -> Iterator[str]:
    """Yield a key's values before and after, one line each, with units beside bare numbers."""
    for sign, text in (("-", item.before), ("+", item.after)):
        if text is not None:
            # The note stands once, beside the new value if there is one.
            shown_note = note if sign == "+" or item.after is None else ""
            remark = ", ".join(filter(None, [humanize_config_value(item.key, text), shown_note]))
            end = f"  ({remark})" if remark else ""
            yield f"{sign} {sanitize(item.key)} = {format_value(COMMENT_LAYOUT, text)}{end}"
    if item.after is None:
        yield f"+ {sanitize(item.key)}: {BROKER_DEFAULT}"


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


def _format_place(label: str, place: Location | None, root: str) -> Iterator[str]:
    """Yield the location with its label; nothing without a location."""
    if place:
        yield f"{label} {format_code(str(relative_location(place, root)))}"


def _format_names(names: Sequence[str]) -> str:
    return format_code_list(names, _MAX_NAMES)


def _format_unlisted_notices(plan: Plan, grouped: groups.GroupedItems) -> Iterator[str]:
    """Yield the notices of topics without a section, grouped by message.

    Warnings come before notes, the most frequent first; the rest is counted after ``_MAX_KINDS`` groups.
    """
    kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for topic, issue in grouped.list_unlisted_notices(plan):
        kinds[label_notice(issue), issue.message].append(topic)
    ordered = sorted(kinds.items(), key=lambda kind: (kind[0][0] == "note", -len(kind[1])))
    for (label, message), topics in ordered[:_MAX_KINDS]:
        yield f"{label}: {_format_names(topics)}: {escape_prose(message)}"
    if left := sum(len(topics) for _, topics in ordered[_MAX_KINDS:]):
        yield f"and {format_count(left, 'other notice')}"
