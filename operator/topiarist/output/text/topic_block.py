"""The blocks of a plan as text: one per topic with changes, one per refusal, one per group of topics.

Every block has the same heading: a sign, a name, the action, and the risk at the right end.

    +  create      ~  grow, configure      -  delete      =  ownership record only      !  refused      .  not applied

Below it are the fields of its changes: the risk with its reason, partitions and config before and after. The module
formats both planned changes and the changes that a refusal withholds. ``groups`` finds the changes and refusals that
many topics share; their block lists the topic names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from topiarist.errors import Reason
from topiarist.model.plan import ConfigItem, ImpliedTopic, Issue, RiskAssessment, TopicPlan
from topiarist.model.run_options import Risk
from topiarist.output.groups import ClusterDefault, GroupedItems, list_own_items
from topiarist.output.text.layout import (
    BOLD_RED,
    BROKER_DEFAULT,
    DIM,
    GREEN,
    MAX_KEY_WIDTH,
    YELLOW,
    TextLayout,
    format_grid,
    format_value,
    humanize_config_value,
    sanitize,
)
from topiarist.output.view import (
    CLUSTER_WIDE_REASONS,
    FROM_CLUSTER_DEFAULTS,
    ChangeView,
    PartitionRow,
    PartitionTable,
    describe_implied,
    describe_record_only,
    group_risks,
    label_notice,
    locate,
    view_issue,
    view_topic,
)
from topiarist.text import format_count

RISK_STYLES = (DIM, YELLOW, BOLD_RED)
"""The style of each risk's label, safest first."""

_SIGN_STYLES = {"+": GREEN, "~": YELLOW, "-": BOLD_RED, "!": BOLD_RED, "=": "", ".": DIM}
_MAX_SHOWN_OLD_VALUES = 6
_MAX_SHOWN_LISTS = 16


def format_topic(layout: TextLayout, plan: TopicPlan, grouped: GroupedItems) -> Iterator[str]:
    """Yield the blocks of one topic, without anything that a group's block shows."""
    if grouped.has_ungrouped_changes(plan):
        view = view_topic(plan)
        yield from _format_block_heading(layout, view.sign, plan.topic, view.action, plan.risk)
        yield from _format_changes(layout, view.changes, shared_defaults=grouped.defaults_of(plan))
        yield from layout.format_text_field("record", view.record)
    for issue in grouped.list_ungrouped_refusals(plan):
        yield from _format_refusal(layout, [(plan, issue)])
    own_block = grouped.has_own_block(plan)
    for text in plan.usage if own_block else ():
        yield from layout.format_text_field("usage", sanitize(text))
    if layout.verbose and plan.notices and not own_block:
        action = "see above" if plan.changes or plan.refusals else "nothing to do"
        yield from _format_block_heading(layout, ".", plan.topic, action)
    for notice in plan.notices if own_block or layout.verbose else ():
        if layout.verbose or notice.reason is not Reason.UNMANAGED:
            yield from layout.format_text_field(label_notice(notice), notice.message)


def format_topic_line(layout: TextLayout, topic: TopicPlan) -> Iterator[str]:
    """Yield one line for the topic, with the reasons of its refusals; nothing if the topic has only notices."""
    reasons: dict[str, dict[str, None]] = {"refused": {}, "held back": {}}
    for issue in topic.refusals:
        label = "held back" if issue.reason in CLUSTER_WIDE_REASONS else "refused"
        reasons[label][issue.reason.value] = None
    parts = [f"{label}: {', '.join(names)}" for label, names in reasons.items() if names]
    sign, risk = "!", ""
    if topic.changes:
        sign, action, *_ = view_topic(topic)
        parts.insert(0, action)
        risk = f"  {layout.colorize(topic.risk.label, RISK_STYLES[topic.risk])}"
    if parts:
        start = f"  {sign} {sanitize(topic.topic)}".ljust(layout.action_column - 1)
        yield f"{start} {'; '.join(parts)}{risk}"


def format_implied(layout: TextLayout, topic: ImpliedTopic) -> Iterator[str]:
    """Yield the block of a topic that the first apply makes without a manifest."""
    size, maker = describe_implied(topic)
    yield from _format_block_heading(layout, "+", topic.name, size, Risk.SAFE)
    yield from layout.format_text_field("made by", maker)


def format_group_blocks(layout: TextLayout, grouped: GroupedItems) -> Iterator[Iterator[str]]:
    """Yield one block for each shared default, each ownership action and each shared refusal."""
    yield from (_format_default_group(layout, default, touched) for default, touched in grouped.defaults.items())
    yield from (_format_record_group(layout, words, topics) for words, topics in grouped.ownership_actions.items())
    yield from (_format_refusal(layout, members) for members in grouped.refusals.values())


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
    is_shared = len(members) > 1
    view = view_issue(plan, issue, is_shared=is_shared)
    name = format_count(len(members), "topic") if is_shared else plan.topic
    if view.is_held_back:
        yield from _format_block_heading(layout, "!", name, f"held back: {view.summary}", view.risk)
    else:
        yield from _format_block_heading(layout, "!", name, f"refused: {view.message}")
        place = sanitize(str(view.place or ""))
        place += f" and {len(members) - 1:,} more" if place and is_shared else ""
        yield from _format_place(layout, place, view.reason.value)
        yield from layout.format_text_field("fix", view.hint)
        yield from layout.format_text_field(view.cause, str(view.cause_place or ""))
        if view.changes:
            *before, last = layout.wrap(view.summary, layout.text_width - len(view.risk.label) - 2)
            end = layout.align_right(last, view.risk.label, layout.text_width, RISK_STYLES[view.risk])
            yield from layout.format_field("held back", [*before, end])
    yield from _format_changes(layout, view.changes, already_shown=view.message)
    if is_shared:
        yield from layout.format_field("topics", layout.format_names([member.topic for member, _ in members]))


def _format_place(layout: TextLayout, place: str, reason: str) -> Iterator[str]:
    *before, last = layout.wrap(place)
    if len(last) + len(reason) + 2 > layout.text_width:
        before, last = [*before, last], ""
    end = layout.align_right(last, reason, layout.text_width, DIM)
    return layout.format_field("at" if place else "", [*before, end])


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
    lines = format_config_lines(layout, [(item, f"in {format_count(times, 'topic')}") for item, times in shown])
    if left := len(old_values) - len(shown):
        lines.append(f"and {format_count(left, 'other value')}")
    yield from layout.format_field("config", lines)
    yield from layout.format_text_field("at", str(locate(touched[0][0].spec, "config", key) or ""))
    yield from layout.format_field("topics", layout.format_names([plan.topic for plan, _ in touched]))


def _format_changes(
    layout: TextLayout,
    changes: Sequence[ChangeView],
    *,
    shared_defaults: Collection[ClusterDefault] = (),
    already_shown: str = "",
) -> Iterator[str]:
    """Yield the fields of changes: explanations of risks, causes, partitions, config before and after.

    Keys in ``shared_defaults`` are only counted. An explanation that is part of ``already_shown`` is not repeated.
    """
    risks = (pair for change in changes for pair in change.unshown_risks)
    shown = [pair for pair in risks if not pair[1].explanation or pair[1].explanation not in already_shown]
    yield from format_risks(layout, shown)
    for change in changes:
        yield from layout.format_text_field("because", change.cause)
        place = change.cause_origin.locate() if change.cause_origin else None
        yield from layout.format_text_field("at", str(place or ""))
        if change.table:
            yield from layout.format_field(change.table.label, format_partitions(layout, change.table))
        yield from layout.format_text_field("leaders", change.new_leaders)
        own = list_own_items(change.config, shared_defaults)
        lines = format_config_lines(layout, [(item, FROM_CLUSTER_DEFAULTS if item.inherited else "") for item in own])
        if left := len(change.config) - len(own):
            lines.append(f"and {format_count(left, 'key')} {FROM_CLUSTER_DEFAULTS}, see above")
        yield from layout.format_field("config", lines)


def format_risks(layout: TextLayout, assessments: Iterable[tuple[str, RiskAssessment]]) -> Iterator[str]:
    """Yield a field with the explanations of risks, the highest risk first; nothing if there are none.

    An explanation names its subjects, except when there is only one assessment. The risk is shown if it differs
    between the explanations.
    """
    pairs = list(assessments)
    grouped = group_risks(pairs)
    differ = len({assessment.risk for assessment, _ in grouped}) > 1
    lines = []
    for assessment, subjects in grouped:
        label = assessment.risk.label if differ else ""
        text = assessment.explanation if len(pairs) == 1 else f"{subjects}: {assessment.explanation}"
        first, *rest = layout.wrap(text, layout.text_width - (len(label) + 2 if label else 0))
        lines += [layout.align_right(first, label, layout.text_width, RISK_STYLES[assessment.risk]), *rest]
    return layout.format_field("risk", lines)


def format_partitions(layout: TextLayout, table: PartitionTable) -> list[str]:
    """Return the partitions of a change in even columns: replica lists, the preferred leader first, or leaders.

    New partitions beside existing ones have a plus sign. Of many partitions only the first are shown and the rest
    counted.
    """
    count = len(table.partitions)
    rows = [*table.list_rows(len(layout.limit(table.partitions, _MAX_SHOWN_LISTS)))]
    digits = len(str(max(row.partition for row in rows)))
    start, middle = "+ " if table.extends else "", ":" if table.has_leaders else ""
    cells = [f"{start}{row.partition:>{digits}}{middle} {_format_row(table, row)}" for row in rows]
    if len(rows) < count:
        cells.append(f"... {count - len(rows):,} more")
    return format_grid(cells, layout.text_width)


def _format_row(table: PartitionTable, row: PartitionRow) -> str:
    lists = [",".join(map(str, brokers)) for brokers in (row.before, row.after) if brokers]
    return " -> ".join(lists if table.has_leaders else (f"[{text}]" for text in lists))


def format_config_lines(layout: TextLayout, rows: Sequence[tuple[ConfigItem, str]]) -> list[str]:
    """Return one line per key with its note, which may be empty, or more lines if a value is long.

    A line has a sign, the key, the values before and after, units and the note.
    """
    widest = max((min(len(sanitize(item.key)), MAX_KEY_WIDTH) for item, _ in rows), default=0)
    return [line for item, note in rows for line in _format_config_row(layout, item, note, widest)]


def _format_config_row(layout: TextLayout, item: ConfigItem, note: str, widest: int) -> list[str]:
    mark, tone = ("-", BOLD_RED) if item.after is None else ("+", GREEN) if item.before is None else ("~", YELLOW)
    key, sign = sanitize(item.key).ljust(widest), layout.colorize(mark, tone)
    column = len(key) + 4
    pieces = _format_pieces(layout, item)
    if note:
        pieces.append(f" {note}")
    if any(column + len(piece) > layout.text_width for piece in pieces):
        # The value is too long to fit beside its key, so it goes on the next line.
        first, *rest = layout.wrap(key.rstrip(), layout.text_width - 2)
        return [
            f"{sign} {first}",
            *(f"  {part}" for part in rest),
            *(f"    {part}" for part in layout.fill_lines(pieces, layout.text_width - 4)),
        ]
    first, *rest = layout.fill_lines(pieces, layout.text_width - column)
    return [f"{sign} {key}  {first}", *(" " * column + line.lstrip() for line in rest)]


def _format_pieces(layout: TextLayout, item: ConfigItem) -> list[str]:
    """Return the unbreakable parts of a line: before, after, units."""
    key, before, after = item.key, item.before, item.after
    old, new = humanize_config_value(key, before or ""), humanize_config_value(key, after or "")
    if after is None:
        pieces, units = [format_value(layout, before or "")], old
    elif before is None:
        pieces, units = [format_value(layout, after)], new
    else:
        pieces = [format_value(layout, before), f"-> {format_value(layout, after)}"]
        units = f"{old or _append_unit(key, before)} -> {new or _append_unit(key, after)}" if old or new else ""
    if units:
        pieces.append(f" ({units})")
    if after is None:
        pieces.append(f"-> {BROKER_DEFAULT}")
    return pieces


def _append_unit(key: str, text: str) -> str:
    """Return a bare number with its unit, to be shown beside a value that ``humanize_config_value`` converts."""
    return f"{text} {'ms' if key.endswith('.ms') else 'bytes'}" if text.isascii() and text.isdigit() else text
