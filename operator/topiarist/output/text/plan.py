"""Plans as text for a terminal, in 80 columns and without a legend: in full, in short, or only their summaries.

``plan`` and ``apply`` print it; the operator writes the text of one topic into the Topic's status. This module has the
order of the parts, the table of brokers, the blocks (one per topic with changes, one per refusal, one per group of
topics), and the last lines: counts that add up, and the topics that may lose data.

Every block has the same heading: a sign, a name, the action, and the risk at the right end.

    +  create      ~  grow, configure      -  delete      =  ownership record only      !  refused      .  not applied

Below it are the fields of its changes: the risk with its reason, partitions and config before and after. The module
formats both planned changes and the changes that a refusal withholds. ``groups`` finds the changes and refusals that
many topics share; their block lists the topic names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.types import ClusterMode
from topiarist.model.plan import ConfigItem, ImpliedTopic, Issue, Plan, Risk, RiskAssessment, TopicPlan
from topiarist.output import groups
from topiarist.output.groups import ClusterDefault, GroupedItems, list_own_items
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    BROKER_DEFAULT,
    DIM,
    GREEN,
    MAX_KEY_WIDTH,
    TEXT_COLUMN,
    YELLOW,
    TextLayout,
    choose_action_column,
    format_grid,
    format_value,
    humanize_config_value,
    join_sections,
    shorten,
)
from topiarist.output.view import (
    CLUSTER_WIDE_REASONS,
    FROM_CLUSTER_DEFAULTS,
    WARNING_REASONS,
    ChangeView,
    PartitionRow,
    PartitionTable,
    describe_implied,
    describe_pace,
    describe_record_only,
    group_risks,
    label_notice,
    locate,
    view_issue,
    view_topic,
)
from topiarist.text import format_count, sanitize

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


PLAN_LABEL = "Plan"

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

_Row = tuple[str, Sequence[groups.BrokerLoad]]
"""A label and the loads of its brokers."""

_NOT_REGISTERED = "not registered"
_MAX_SHOWN_BROKERS = 20
_MIN_LEADERS_WIDTH = 18
_MAX_RACK_WIDTH = 24
_MOVED_WIDTH = 7
_MOVED_HEADS = "".join(f"{head:>{_MOVED_WIDTH}}" for head in ("in", "out"))


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
        lines = [line for topic in plan.topics for line in format_topic_line(aligned, topic)]
        lines += [next(format_implied(aligned, topic)) for topic in plan.implied_topics]
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
        label = name if len(plans) > 1 else PLAN_LABEL
        lines += _format_end(plan, layout, label, applying=applying)
        if names := [topic.name for topic in plan.implied_topics]:
            lines += layout.wrap(f"{label}: the run also creates {' and '.join(names)}.", layout.width)
    return _join_plans([lines], plans, layout)


def format_topic_plan(plan: TopicPlan) -> str:
    """Return the plan of one topic by itself; empty if the plan is empty."""
    layout = TextLayout(action_column=choose_action_column([plan.topic]))
    return "\n".join(line.rstrip() for line in format_topic(layout, plan, groups.GroupedItems()))


def _join_plans(sections: Iterable[Iterable[str]], plans: Sequence[Plan], layout: TextLayout) -> str:
    total: list[str] = []
    if len(plans) > 1:
        label = f"All {format_count(len(plans), 'cluster')}"
        total.append(format_summary_line(layout, groups.count_plans(plans), label))
    return join_sections([*sections, total]) if plans else ""


def _format_plan(plan: Plan, layout: TextLayout, *, applying: bool) -> Iterator[Iterable[str]]:
    grouped = groups.group_items(plan)
    layout = replace(layout, action_column=choose_action_column(_list_names(plan)))
    yield format_cluster_header(plan, layout)
    yield _format_topic_blocks(plan, layout, grouped)
    yield format_broker_table(layout, plan)
    pace = describe_pace(plan)
    yield layout.format_text_section("moves", pace) if pace else ()
    yield _format_cluster_fields(plan, layout, grouped)
    yield _format_end(plan, layout, applying=applying)


def _format_end(plan: Plan, layout: TextLayout, label: str = PLAN_LABEL, *, applying: bool) -> Iterator[str]:
    yield format_summary_line(layout, groups.count_plan(plan), label)
    yield from format_data_losses(layout, plan, applying=applying)


def format_cluster_header(plan: Plan, layout: TextLayout) -> Iterator[str]:
    """Yield the cluster's identity, its brokers, its controller and its write block."""
    name = sanitize(plan.cluster)
    start = f"{name}   " if name else ""
    # A long name gets lines of its own, so that enough columns remain for the facts.
    at = len(start) if len(start) <= layout.width // 2 else 4
    facts = (
        f"cluster {sanitize(plan.cluster_id) or 'without id'},",
        f"{groups.describe_brokers(plan)},",
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
    if plan.controller_epoch:
        return f"controller {plan.controller}, epoch {plan.controller_epoch}"
    # Brokers in ZooKeeper mode do not tell the epoch; in KRaft mode they name any of themselves as the controller.
    return "controller unknown" if plan.config_rules.mode is ClusterMode.KRAFT else f"controller {plan.controller}"


def _describe_write_block(plan: Plan) -> str:
    return f"write block: {plan.write_block.reason}: {plan.write_block.message}; nothing is written"


def _format_topic_blocks(plan: Plan, layout: TextLayout, grouped: groups.GroupedItems) -> Iterator[str]:
    """Yield the blocks, with an empty line around each block of more than one line."""
    height = 0
    own = (format_topic(layout, topic, grouped) for topic in plan.topics)
    implied = (format_implied(layout, topic) for topic in plan.implied_topics)
    for block in chain(format_group_blocks(layout, grouped), own, implied):
        lines = list(block)
        if height and lines and max(height, len(lines)) > 1:
            yield ""
        yield from lines
        height = len(lines) or height


def _format_cluster_fields(plan: Plan, layout: TextLayout, grouped: groups.GroupedItems) -> Iterator[str]:
    # A verbose layout shows every notice below its topic.
    unlisted = [] if layout.verbose else list(grouped.list_unlisted_notices(plan))
    counts = Counter(notice.reason for _, notice in unlisted if notice.reason not in WARNING_REASONS)
    if counts:
        nouns = {reason: _NOTICE_NOUNS.get(reason, (str(reason), str(reason))) for reason in counts}
        listed = ", ".join(f"{number:,} {nouns[reason][number != 1]}" for reason, number in sorted(counts.items()))
        yield from layout.format_text_section("notices", f"{listed} (-v shows them)")
    problems = [(topic, notice.message) for topic, notice in unlisted if notice.reason in WARNING_REASONS]
    yield from layout.format_message_groups("warning", problems, _MAX_SHOWN_PROBLEMS, YELLOW)
    if plan.orphans:
        words = f"{format_count(len(plan.orphans), 'owned topic')} {groups.NOT_IN_PATHS}"
        if layout.verbose:
            lines = [f"{words}:", *layout.format_names(plan.orphans)]
        else:
            lines = layout.wrap(f"{words} (-v lists them)")
        yield from layout.format_section("orphans", lines)
    yield from format_exceeded_limits(layout, plan)
    for usage in groups.describe_limits(plan.limits):
        yield from layout.format_text_section("limit", usage)
    yield from layout.format_warnings(plan.warnings)


def format_exceeded_limits(layout: TextLayout, plan: Plan) -> Iterator[str]:
    """Yield each exceeded budget of the cluster, and the exceeded limit of the run, with its hint."""
    for label, message, hint in groups.list_exceeded_limits(plan):
        yield from layout.format_text_section(label, message, BOLD_RED)
        yield from layout.format_text_section("fix", hint)


def format_summary_line(layout: TextLayout, plan_counts: groups.PlanCounts, label: str = PLAN_LABEL) -> str:
    """Return the summary: ``Plan: 1 to create, 812 unchanged.``, or why there is nothing to apply.

    ``label`` names the plan or the cluster; the line is wrapped to the layout's width.
    """
    text = _format_sentence(plan_counts, label)
    if plan_counts.withheld:
        lines = layout.wrap(text, layout.width)
    else:
        *before, last = text.split(", ")
        lines = layout.fill_lines([*(f"{part}," for part in before), last], layout.width)
    return "\n".join(layout.colorize(part, BOLD) for part in lines)


def _format_sentence(plan_counts: groups.PlanCounts, label: str) -> str:
    counts = plan_counts.counts
    actions = {word: number for word, number in counts.items() if word in groups.ACTIONABLE_LABELS}
    if plan_counts.withheld:
        rest = {word: number for word, number in counts.items() if word not in actions}
        held = f"{_join_counts(plan_counts.withheld)}, held back: {sanitize(plan_counts.withheld_reason)}"
        return f"{label}: {'; '.join(filter(None, [_join_counts(actions), held, _join_counts(rest)]))}."
    if actions:
        return f"{label}: {_join_counts(counts)}."
    reason = _describe_no_actions(counts)
    nothing = f"{reason}:" if label == PLAN_LABEL else f"{label}: {reason[0].lower()}{reason[1:]},"
    if not counts:
        return f"{nothing} the plan has no topics."
    if set(counts) == {"unchanged"}:
        verb = "matches its manifest" if counts["unchanged"] == 1 else "match their manifests"
        return f"{nothing} {format_count(counts['unchanged'], 'topic')} {verb}."
    return f"{nothing} {_join_counts(counts)}."


def _describe_no_actions(counts: Mapping[str, int]) -> str:
    """Return why ``apply`` would change nothing: a refused or an observed change is not the same as no change."""
    return (
        "Nothing can be applied"
        if "refused" in counts
        else "Nothing to apply"
        if "observed" in counts
        else "No changes"
    )


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counts.items())


def format_data_losses(layout: TextLayout, plan: Plan, *, applying: bool) -> Iterator[str]:
    """Yield the names of the topics that may lose data; nothing if there are none.

    Unless the plan is about to be applied, the last line is the option that a run without confirmation needs: it is
    not wrapped, so that it can be copied.
    """
    names = groups.list_data_loss_topics(plan)
    if not names:
        return
    advice = "" if applying else groups.DATA_LOSS_ADVICE
    for part in layout.wrap(f"{groups.describe_data_losses(plan)}:{advice}", layout.width):
        yield layout.colorize(part, BOLD_RED)
    if applying or len(names) > groups.MAX_CONSENT_NAMES:
        yield from (f"    {part}" for part in layout.format_names(names))
    if not applying:
        yield f"    {sanitize(groups.format_consent(names))}"


def format_broker_table(layout: TextLayout, plan: Plan) -> Iterator[str]:
    """Yield the load of the brokers before and after; nothing if the plan neither places nor moves a replica.

    A plan that moves replicas also has the number of those that each broker copies (in) and deletes (out). Many brokers
    are combined by rack, unless the layout is verbose.
    """
    loads = groups.list_broker_loads(plan)
    if not loads:
        return
    rows = _build_broker_rows(layout, loads)
    if len(rows) > _MAX_SHOWN_BROKERS and not layout.verbose:
        rows = _build_rack_rows(layout, loads)
    leaders = _format_column(
        [(sum(each.before.leaders for each in found), sum(each.after.leaders for each in found)) for _, found in rows]
    )
    replicas = _format_column(
        [(sum(each.before.replicas for each in found), sum(each.after.replicas for each in found)) for _, found in rows]
    )
    start = max(TEXT_COLUMN, *(len(label) + 8 for label, _ in rows))
    width = max(_MIN_LEADERS_WIDTH, *(len(text) + 2 for text in leaders))
    has_moves = any(topic.moves() for topic in plan.actionable_topics())
    heads, cells = (_MOVED_HEADS, [_format_moved(found) for _, found in rows]) if has_moves else ("", [""] * len(rows))
    replicas_width = max(len("replicas"), *map(len, replicas)) if has_moves else 0
    yield layout.colorize(
        f"{'  brokers':<{start}}{'leaders':<{width}}{'replicas':<{replicas_width}}{heads}".rstrip(), DIM
    )
    for (label, _), leader_text, replica_text, moved_text in zip(rows, leaders, replicas, cells, strict=True):
        line = f"      {label}".ljust(start) + leader_text.ljust(width) + replica_text.ljust(replicas_width)
        yield f"{line}{moved_text}".rstrip()


def _format_moved(loads: Sequence[groups.BrokerLoad]) -> str:
    copied, deleted = sum(each.copied for each in loads), sum(each.deleted for each in loads)
    draining = [each for each in loads if each.is_draining]
    left = sum(each.after.replicas for each in draining)
    note = ""
    if draining:
        emptied = "drained" if len(draining) == len(loads) else f"{len(draining):,} drained"
        note = f"draining: {left:,} left" if left else emptied
    return f"{copied:>{_MOVED_WIDTH},}{deleted:>{_MOVED_WIDTH},}   {note}"


def _build_broker_rows(layout: TextLayout, loads: Sequence[groups.BrokerLoad]) -> list[_Row]:
    digits = max(len(str(each.broker)) for each in loads)
    rows: list[_Row] = []
    for each in loads:
        note = (
            _NOT_REGISTERED
            if not each.is_registered
            else ""
            if each.rack is None
            else _describe_rack(layout, each.rack)
        )
        rows.append((f"{each.broker:>{digits}}{f' ({note})' if note else ''}", [each]))
    return rows


def _build_rack_rows(layout: TextLayout, loads: Sequence[groups.BrokerLoad]) -> list[_Row]:
    racks: dict[tuple[bool, bool, str], list[groups.BrokerLoad]] = defaultdict(list)
    for each in loads:
        # Brokers without a rack come after the racks, and brokers that are not registered come last.
        racks[not each.is_registered, each.rack is None, each.rack or ""].append(each)
    return [
        (
            f"{_NOT_REGISTERED if is_missing else _describe_rack(layout, found[0].rack)}"
            f" ({format_count(len(found), 'broker')})",
            found,
        )
        for (is_missing, _, _), found in sorted(racks.items())
    ]


def _describe_rack(layout: TextLayout, rack: str | None) -> str:
    if rack is None:
        return "no rack"
    name = sanitize(rack)
    return f"rack {name if layout.spare_width is None else shorten(name, _MAX_RACK_WIDTH)}"


def _format_column(pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Return the values before and after, right-aligned; an unchanged value is shown once."""
    before_width = max(len(f"{before:,}") for before, _ in pairs)
    after_width = max(len(f"{after:,}") for _, after in pairs)
    return [
        f"{before:>{before_width},}" if before == after else f"{before:>{before_width},} -> {after:>{after_width},}"
        for before, after in pairs
    ]
