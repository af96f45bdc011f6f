"""One topic of each cluster as text for a terminal: phase, partitions, values and pending changes.

``describe`` prints it, one cluster after the other, in 80 columns and without a legend. Pending changes are formatted
by ``topic_block``, so that they look the same as in a plan. The partition table has a line of counts, then leader,
replicas, ISR and issues of each partition. Of many partitions only those with issues are shown, unless the layout is
verbose. The value table has the value on the cluster, the desired value and the place that it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from topiarist.errors import Location, Reason
from topiarist.inspection.describe import Description
from topiarist.inspection.partition_health import IssueType, Partition
from topiarist.inspection.topic_phase import IN_PROGRESS, Phase, count_issues
from topiarist.inspection.value_sources import ActualSource, DesiredSource, ValueSource
from topiarist.kafka.names import INTERNAL_TOPICS
from topiarist.kafka.placement_inference import InferredPlacement
from topiarist.model.ownership_record import describe_external_changes
from topiarist.model.plan import Plan
from topiarist.model.progress import TopicProgress, blocking_reason, build_topic_progress
from topiarist.model.spec import BROKER_SIZE_SETTINGS, find_origin
from topiarist.model.state import LEADER_DURING_DELETE, NO_LEADER, ClusterState, describe_unequal_replication_factors
from topiarist.output.groups import GroupedItems, list_exceeded_budgets
from topiarist.output.text import topic_block
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    DIM,
    TEXT_COLUMN,
    YELLOW,
    TextLayout,
    choose_action_column,
    format_field,
    format_section,
    format_text_field,
    sanitize,
    wrap,
)
from topiarist.output.text.plan import format_cluster_header
from topiarist.output.text.values import format_value, humanize_config_value
from topiarist.text import format_count

_PHASE_STYLES = {
    Phase.MARKED_FOR_DELETION: BOLD_RED,
    Phase.UNREADABLE: BOLD_RED,
    Phase.DELETED_EXTERNALLY: BOLD_RED,
    Phase.DELETION_DISABLED: BOLD_RED,
    Phase.NOT_INITIALIZED: YELLOW,
    Phase.PARTLY_INITIALIZED: YELLOW,
    Phase.UNKNOWN: DIM,
}
_NO_GROUPS = GroupedItems()
_MAX_SHOWN_FAULTS = 4
_MAX_SHOWN_NUMBERS = 12


def format_descriptions(descriptions: Sequence[Description], layout: TextLayout) -> str:
    """Return the text for the topic on each cluster, in the order given; empty without descriptions."""
    texts = ["\n".join(_format_lines(each, layout)) for each in descriptions]
    return "\n\n".join(texts) + "\n" if texts else ""


def _format_lines(description: Description, layout: TextLayout) -> Iterator[str]:
    yield from format_cluster_header(_make_header_plan(description), layout)
    yield ""
    yield from _format_topic(description, layout)
    for section in (
        format_partition_table(layout, description),
        format_value_table(layout, description),
        _format_warnings(description, layout),
        _format_pending(description, replace(layout, action_column=choose_action_column([description.topic]))),
    ):
        for number, line in enumerate(section):
            if number == 0:
                yield ""
            yield line


def _make_header_plan(description: Description) -> Plan:
    """Return a plan with only the fields that a cluster header shows."""
    state = description.state
    return Plan(
        cluster=description.cluster.name,
        cluster_id=state.cluster_id,
        brokers=state.brokers,
        write_block=state.write_block,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
    )


def _format_topic(description: Description, layout: TextLayout) -> Iterator[str]:
    """Yield the topic's name, phase, identity, placement, notes and read errors."""
    topic_phase, style, name = (
        description.phase,
        _PHASE_STYLES.get(description.phase.phase, BOLD),
        sanitize(description.topic),
    )
    if len(name) + 4 <= TEXT_COLUMN:
        yield from format_section(layout, name, wrap(topic_phase.message, layout.text_width), style)
    else:
        yield from (f"  {layout.colorize(part, style)}" for part in wrap(name, layout.width - 2))
        yield from format_field(layout, "", wrap(topic_phase.message, layout.text_width))
    yield from format_text_field(layout, "waits for", topic_phase.blocked_by)
    yield from format_text_field(layout, "topic id", description.topic_id or "")
    yield from format_text_field(layout, "document", _describe_document(description))
    yield from format_text_field(layout, "record", _describe_record(description))
    yield from format_text_field(
        layout, "replicas", _describe_placement(description.placement, description.state, description.topic)
    )
    for note in _list_notes(description):
        yield from format_text_field(layout, "note", note)
    yield from _format_faults(description, layout)


def _describe_document(description: Description) -> str:
    spec = description.resolved.spec
    if spec is None:
        return ""
    name = f"{spec.manifest.namespace}/{spec.manifest.name}" if spec.manifest.namespace else spec.manifest.name
    place = find_origin(spec).locate()
    text = f"Topic {name}" + (f", {place}" if place else "")
    return f"{text}; its topicName is {description.topic}" if description.resolved.by_document_name else text


def _describe_record(description: Description) -> str:
    """Return the ownership record as text: its owner, its config keys, and whether it is valid."""
    record, topic = description.record, description.state.topics.get(description.topic)
    if record is None:
        return "none: topiarist has neither made nor adopted the topic" if topic else ""
    owner_text = f"of owner {record.owner}" + (
        "" if record.owner == description.owner else f" (this run is {description.owner})"
    )
    if topic and not topic.record_valid:
        return f"{owner_text}, stale: it belongs to an earlier topic of this name and counts as none"
    if record.deleted:
        return f"{owner_text}: a note that the topic was deleted by topiarist"
    keys = ", ".join(record.config_keys)
    return f"{owner_text}, sets {keys}" if keys else f"{owner_text}, sets no config"


def _describe_placement(placement: InferredPlacement | None, state: ClusterState, name: str) -> str:
    """Return the text for a topic's placement; empty if there are no replica lists."""
    topic = state.topics.get(name)
    if placement is None:
        return "lists do not follow Kafka's algorithm" if topic and any(topic.replicas) else ""
    start = f"from broker {placement.first_broker}, shift {placement.shift}"
    if placement.differing_partitions:
        where = (
            f"partition {placement.differing_partitions[0]}"
            if len(placement.differing_partitions) == 1
            else f"partitions {_shorten_numbers(placement.differing_partitions)}"
        )
        text = f"lists differ from Kafka's placement ({start}) in {where}"
    else:
        text = f"placed by Kafka's algorithm {start}"
    if placement.expansion_starts:
        plural = "s" if len(placement.expansion_starts) > 1 else ""
        text += f", expanded at partition{plural} {_shorten_numbers(placement.expansion_starts)}"
    if any(broker.rack for broker in state.brokers) and not placement.rack_aware:
        text += ", racks ignored"
    if list(placement.order) != sorted(placement.order) and not placement.rack_aware:
        text += f", over brokers in the order {_shorten_numbers(placement.order)}"
    elif sorted(placement.order) != [broker.id for broker in state.brokers]:
        text += f", over brokers {_shorten_numbers(sorted(placement.order))}"
    return text


def _shorten_numbers(numbers: Sequence[int]) -> str:
    """Return the first twelve numbers as text, and how many more there are."""
    shown = ", ".join(map(str, numbers[:_MAX_SHOWN_NUMBERS]))
    left = len(numbers) - _MAX_SHOWN_NUMBERS
    return f"{shown} and {left:,} more" if left > 0 else shown


def _list_notes(description: Description) -> Iterator[str]:
    """Yield further facts about the topic's current state that a user needs to know."""
    topic, progress = (
        description.state.topics.get(description.topic),
        build_topic_progress(description.state, description.topic),
    )
    if description.topic in INTERNAL_TOPICS:
        yield "Kafka's own topic: nothing of it is changed"
    elif topic and description.cluster.is_protected(description.topic):
        yield "protected, it belongs to other software: no growth, deletion or change of cleanup"
    if topic and topic.modified_externally:
        yield describe_external_changes(topic.valid_record, topic.config)
    if topic and topic.unknown_fields:
        yield f"its znode has fields that Kafka does not write: {', '.join(topic.unknown_fields)}"
    if progress.missing_brokers and description.phase.phase is not Phase.MARKED_FOR_DELETION:
        yield blocking_reason(TopicProgress(None, False, progress.missing_brokers))
    # The pending plan may report the unequal replication factors already; report them once.
    noticed = {notice.message for notice in description.pending_plan.notices} if description.pending_plan else set()
    if topic and (unequal := describe_unequal_replication_factors(topic)) and unequal not in noticed:
        yield f"its {unequal}"
    if description.phase.blocked_by == IN_PROGRESS and description.phase.phase is not Phase.MARKED_FOR_DELETION:
        yield f"if it stays so, the controller has overlooked the topic: topiarist nudge {sanitize(description.topic)}"
    reassignment_requested = description.topic in description.state.reassigning_topics
    if reassignment_requested and not any(
        partition.has_issue(IssueType.REASSIGNING) for partition in description.partitions
    ):
        yield "a reassignment that is asked for names it"


def _format_faults(description: Description, layout: TextLayout) -> Iterator[str]:
    """Yield the read errors of the topic's znodes; of many only the first ones."""
    whole = layout.verbose or len(description.read_errors) <= _MAX_SHOWN_FAULTS
    shown = description.read_errors if whole else description.read_errors[: _MAX_SHOWN_FAULTS - 1]
    for fault in shown:
        yield from format_text_field(layout, "odd", f"{fault.path}: {fault.message}")
    if left := len(description.read_errors) - len(shown):
        yield from format_text_field(layout, "odd", f"{format_count(left, 'other znode')} (-v shows them)")


def _format_warnings(description: Description, layout: TextLayout) -> Iterator[str]:
    for warning in description.state.warnings:
        yield from format_section(layout, "warning", wrap(warning, layout.text_width), YELLOW)


def _format_pending(description: Description, layout: TextLayout) -> Iterator[str]:
    """Yield the plan of this topic in the format of a plan."""
    plan = description.pending_plan
    if description.phase.phase is Phase.UNKNOWN:
        return
    if plan is None:
        yield from format_section(layout, "pending", wrap(_explain_missing_plan(description), layout.text_width))
        return
    if topic_block.has_own_block(plan, _NO_GROUPS):
        yield from topic_block.format_topic(layout, plan, _NO_GROUPS)
        # A block only marks changes as withheld by a budget; a plan explains the budget once, at its end.
        for message, hint in list_exceeded_budgets(replace(_make_header_plan(description), topics=(plan,))):
            yield ""
            yield from format_section(layout, "over budget", wrap(message, layout.text_width), BOLD_RED)
            yield from format_section(layout, "fix", wrap(hint, layout.text_width))
        return
    shown_notices = [notice for notice in plan.notices if layout.verbose or notice.reason is not Reason.UNMANAGED]
    ending = "nothing is to be done" if shown_notices else "nothing: it is as its manifest says"
    yield from format_section(layout, "pending", wrap(ending, layout.text_width))
    for notice in shown_notices:
        label = "warning" if notice.reason is Reason.EXISTING_PROBLEM else "note"
        yield from format_section(layout, label, wrap(notice.message, layout.text_width))


def _explain_missing_plan(description: Description) -> str:
    if not description.manifests_given:
        return "no manifests were given"
    if description.is_orphan:
        return f"not in the given paths; to give the topic up: topiarist unmanage {sanitize(description.topic)}"
    return "not in the given paths"


_MAX_SHOWN_PARTITIONS = 16
_TABLE_INDENT = 6
_MIN_NOTE_WIDTH = 26
_CRITICAL = frozenset({IssueType.UNREADABLE, IssueType.NOT_LISTED, IssueType.OFFLINE, IssueType.UNDER_MIN_ISR})


class _PartitionRow(NamedTuple):
    cells: tuple[str, ...]
    note: str
    style: str


def format_partition_table(layout: TextLayout, description: Description) -> Iterator[str]:
    """Yield the counts and the table of partitions; nothing for a topic without partitions."""
    if not description.partitions:
        return
    yield from format_section(layout, "partitions", wrap(_describe_counts(description), layout.text_width))
    with_issues = [partition for partition in description.partitions if partition.issues]
    whole = layout.verbose or len(description.partitions) <= _MAX_SHOWN_PARTITIONS
    shown = description.partitions if whole else with_issues
    if not layout.verbose and len(shown) > _MAX_SHOWN_PARTITIONS:
        shown = shown[: _MAX_SHOWN_PARTITIONS - 1]
    if shown:
        yield from _format_table(layout, shown, description.states_known)
    if len(shown) < len(description.partitions):
        left = len(with_issues) - sum(bool(partition.issues) for partition in shown)
        hidden_text = (
            f"{left:,} more that are not well"
            if left
            else "the others are well"
            if description.states_known
            else "the others"
        )
        tail = "-v shows them" if left or not description.states_known else "-v shows all"
        yield f"{'':{_TABLE_INDENT}}... {hidden_text} ({tail})" if shown else f"{'':{_TABLE_INDENT}}(-v shows them)"


def _describe_counts(description: Description) -> str:
    """Return the counts, as in ``12 x 3 replicas: 10 well, 1 offline, 2 under-replicated``."""
    issue_counts = [
        f"{number:,} {condition.label}" for condition, number in count_issues(description.partitions).items()
    ]
    listed = [partition for partition in description.partitions if partition.listed]
    if not listed:
        return ", ".join(["their replica lists cannot be read", *issue_counts])
    widths = sorted({partition.replica_count for partition in listed})
    width = format_count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
    if not description.states_known:
        return ", ".join([f"{len(listed):,} x {width}", *issue_counts, "leaders and ISR are not known"])
    healthy_count = sum(not partition.issues for partition in description.partitions)
    # Not "all well" with unequal replication factors: a note of the topic reports them.
    healthy_text = "all well" if len(widths) == 1 else "all in sync"
    return f"{len(listed):,} x {width}: " + ", ".join(
        [f"{healthy_count:,} well" if issue_counts else healthy_text, *issue_counts]
    )


def _format_table(layout: TextLayout, partitions: Sequence[Partition], states_known: bool) -> Iterator[str]:
    rows = [_make_partition_row(partition, states_known) for partition in partitions]
    heads = ("id", "leader", "replicas", "ISR") if states_known else ("id", "replicas")
    widths = [max(len(head), *(len(row.cells[at]) for row in rows)) for at, head in enumerate(heads)]
    # Align the second column with the text of the fields above the table.
    widths[0] = max(widths[0], TEXT_COLUMN - _TABLE_INDENT - 2)
    yield layout.colorize(_align_cells(heads, widths), DIM)
    beside = sum(widths) + 2 * len(widths) + _TABLE_INDENT
    for row in rows:
        yield from _format_row(layout, row, _align_cells(row.cells, widths), beside)


def _format_row(layout: TextLayout, row: _PartitionRow, text: str, note_column: int) -> Iterator[str]:
    """Yield a row with its note beside it or, if there is not enough room, below it."""
    if not row.note:
        yield text
        return
    fits = layout.width - note_column >= _MIN_NOTE_WIDTH
    column = note_column if fits else TEXT_COLUMN
    lines = wrap(row.note, layout.width - column)
    if not fits:
        yield text
        text = ""
    for line in lines:
        yield f"{text:<{column}}{layout.colorize(line, row.style)}"
        text = ""


def _align_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return f"{'':{_TABLE_INDENT}}{'  '.join(cell.ljust(width) for cell, width in pairs)}".rstrip()


def _make_partition_row(partition: Partition, states_known: bool) -> _PartitionRow:
    state = partition.state
    leader = (
        "" if state is None else {NO_LEADER: "none", LEADER_DURING_DELETE: "none"}.get(state.leader, str(state.leader))
    )
    replicas, isr = (
        _format_ids(partition.replicas) if partition.listed else "-",
        "" if state is None else _format_ids(state.isr),
    )
    cells = (str(partition.id), leader, replicas, isr) if states_known else (str(partition.id), replicas)
    tone = BOLD_RED if any(partition.has_issue(condition) for condition in _CRITICAL) else YELLOW
    return _PartitionRow(cells, "; ".join(map(str, partition.issues)), tone)


def _format_ids(brokers: Sequence[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"


_VALUE_INDENT = 6
_MAX_KEY_WIDTH = 37
_MAX_VALUE_WIDTH = 24
_CONFIG_PREFIX = "config."

_OTHER_CONFIGS_NOTE = "configs not named here are the brokers', who alone know them"


def format_value_table(layout: TextLayout, description: Description) -> Iterator[str]:
    """Yield one row for each value that is set or desired.

    Yield nothing if there is no such value. Topiarist's own defaults are shown only in a verbose layout.
    """
    exists = description.topic in description.state.topics
    rows = [
        value for value in description.values if layout.verbose or value.desired_source is not DesiredSource.TOPIARIST
    ]
    if not rows:
        return
    about = (
        _OTHER_CONFIGS_NOTE
        if exists
        else "as far as they can be read"
        if any(value.actual_source for value in rows)
        else "asked for"
    )
    yield from format_section(layout, "values", wrap(about, layout.text_width))
    widest = max(min(len(sanitize(_display_key(value))), _MAX_KEY_WIDTH) for value in rows)
    texts = [_format_actual(layout, value) for value in rows]
    column = max((len(text) for text in texts if len(text) <= _MAX_VALUE_WIDTH), default=0)
    for value, text in zip(rows, texts, strict=True):
        yield from _format_value_row(layout, description, value, (widest, column), text)


def _display_key(value: ValueSource) -> str:
    return value.field.removeprefix(_CONFIG_PREFIX)


def _format_actual(layout: TextLayout, value: ValueSource) -> str:
    """Return the value on the cluster.

    If the topic does not exist, or the field is not one of Kafka's, return the desired value.
    """
    if value.actual_source is None:
        return _format_with_unit(layout, value, value.desired or "")
    return "not set" if value.actual is None else _format_with_unit(layout, value, value.actual)


def _format_with_unit(layout: TextLayout, value: ValueSource, text: str) -> str:
    unit = humanize_config_value(_display_key(value), text) if value.field.startswith(_CONFIG_PREFIX) else ""
    return format_value(layout, text) + (f"  ({unit})" if unit else "")


def _format_value_row(
    layout: TextLayout, description: Description, value: ValueSource, column_widths: tuple[int, int], text: str
) -> Iterator[str]:
    """Yield a key with its value, and the value's source beside or below it."""
    widest, column = column_widths
    start, room = _VALUE_INDENT + widest + 2, layout.width - _VALUE_INDENT - widest - 2
    key = sanitize(_display_key(value))
    if len(key) > widest or room < _MAX_VALUE_WIDTH:
        yield from (f"{'':{_VALUE_INDENT}}{part}" for part in wrap(key, layout.width - _VALUE_INDENT))
        start, room, key = _VALUE_INDENT + 4, layout.width - _VALUE_INDENT - 4, ""
    left = f"{'':{_VALUE_INDENT}}{key}".ljust(start)
    lines = wrap(text, room)
    source, wanted = _describe_source(description, value), _format_desired(layout, value)
    if source and len(lines) == 1 and max(len(text), column) + 2 + len(source) <= room:
        lines = [f"{text.ljust(column)}  {source}"]
    else:
        lines += wrap(source, room) if source else []
    for line in lines:
        yield f"{left}{line}".rstrip()
        left = " " * start
    for line in wrap(wanted, room) if wanted else ():
        yield f"{' ' * start}{layout.colorize(line, YELLOW)}"


def _format_desired(layout: TextLayout, value: ValueSource) -> str:
    """Return the desired value if it differs from the actual one; empty otherwise."""
    if not value.differs or value.actual_source is None or value.desired is None:
        return ""
    ignored = ", ignored" if value.ignored else ""
    return f"-> {_format_with_unit(layout, value, value.desired)}  {_describe_desired_source(value)}{ignored}"


def _describe_source(description: Description, value: ValueSource) -> str:
    """Return the source of the actual value."""
    if value.actual_source is None or (value.desired is not None and not value.differs):
        return _describe_desired_source(value)
    if value.actual_source is ActualSource.BROKERS:
        return "the brokers' own value holds"
    if value.actual_source is ActualSource.DYNAMIC_DEFAULT:
        return f"cluster-wide default, {value.broker_setting}"
    if value.actual_source is ActualSource.BROKER_CONFIG:
        return _append_location(f"brokerConfig, {value.broker_setting}", value.actual_location)
    if not value.field.startswith(_CONFIG_PREFIX):
        return "on the cluster"
    if value.desired is None and description.resolved.spec and not description.resolved.spec.absent:
        return "set by us, not in the manifest any more" if value.in_record else "set on the cluster by others"
    return "set on the cluster, by us" if value.in_record else "set on the cluster"


def _describe_desired_source(value: ValueSource) -> str:
    """Return the source of the desired value, with its location if known."""
    if value.desired_source is DesiredSource.TOPIARIST:
        return "topiarist's default"
    labels = {DesiredSource.OVERRIDE: "override", DesiredSource.CLUSTER_DEFAULTS: "the Cluster's defaults"}
    if value.desired_source is DesiredSource.BROKER_CONFIG:
        labels[DesiredSource.BROKER_CONFIG] = f"brokerConfig, {BROKER_SIZE_SETTINGS[value.field]}"
    parts = [
        str(value.desired_location) if value.desired_location else "",
        labels.get(value.desired_source, "") if value.desired_source else "",
    ]
    return ", ".join(sanitize(part) for part in parts if part)


def _append_location(text: str, location: Location | None) -> str:
    return f"{text}, {location}" if location else text
