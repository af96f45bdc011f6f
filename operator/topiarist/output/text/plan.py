"""Plans as text for a terminal, in 80 columns and without a legend: in full, in short, or only their summaries.

``plan`` and ``apply`` print it; the operator writes the text of one topic into the Topic's status. This module has the
order of the parts, the table of brokers, and the last lines: counts that add up, and the topics that may lose data.
``topic_block`` formats the topics.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from topiarist.errors import Reason
from topiarist.kafka.types import ClusterMode
from topiarist.model.plan import Plan, TopicPlan
from topiarist.output import groups
from topiarist.output.text import topic_block
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    DIM,
    TEXT_COLUMN,
    YELLOW,
    TextLayout,
    choose_action_column,
    join_sections,
    sanitize,
    shorten,
)
from topiarist.output.view import WARNING_REASONS, describe_pace
from topiarist.text import format_count

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
        lines = [line for topic in plan.topics for line in topic_block.format_topic_line(aligned, topic)]
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
        label = name if len(plans) > 1 else PLAN_LABEL
        lines += _format_end(plan, layout, label, applying=applying)
        if names := [topic.name for topic in plan.implied_topics]:
            lines += layout.wrap(f"{label}: the run also creates {' and '.join(names)}.", layout.width)
    return _join_plans([lines], plans, layout)


def format_topic_plan(plan: TopicPlan) -> str:
    """Return the plan of one topic by itself; empty if the plan is empty."""
    layout = TextLayout(action_column=choose_action_column([plan.topic]))
    return "\n".join(line.rstrip() for line in topic_block.format_topic(layout, plan, groups.GroupedItems()))


def _join_plans(sections: Iterable[Iterable[str]], plans: Sequence[Plan], layout: TextLayout) -> str:
    total: list[str] = []
    if len(plans) > 1:
        label = f"All {format_count(len(plans), 'cluster')}"
        total.append(format_summary_line(layout, groups.count_plans(plans), label))
    return join_sections([*sections, total]) + "\n" if plans else ""


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
    if plan.config_rules.mode is ClusterMode.KRAFT and not plan.controller_epoch:
        return "controller not known"  # brokers name any of themselves
    return f"controller {plan.controller}, epoch {plan.controller_epoch}"


def _describe_write_block(plan: Plan) -> str:
    return f"write block: {plan.write_block.reason}: {plan.write_block.message}; nothing is written"


def _format_topic_blocks(plan: Plan, layout: TextLayout, grouped: groups.GroupedItems) -> Iterator[str]:
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
        return f"{nothing} no topics are declared."
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
