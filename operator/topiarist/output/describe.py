"""One topic of each cluster: as a JSON document (``describe --format json``), and as text for a terminal.

The same manifests and cluster give the same document. ``schemas/describe.json`` describes each field. Unlike a plan's
document it contains file locations and the controller: it reports a state and is never applied.

The text has one cluster after the other, in 80 columns and without a legend. Pending changes are formatted by
``text.plan``, so that they look the same as in a plan. The partition table has a line of counts, then leader,
replicas, ISR and issues of each partition. Of many partitions only those with issues are shown, unless the layout is
verbose. The value table has the value on the cluster, the desired value and the place that it comes from.

``explain`` prints its explanations by ``format_explanation``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from topiarist.adapters.saved_plans.encode import (
    encode_change,
    encode_notice,
    encode_record,
    encode_refusal,
    encode_write_block,
)
from topiarist.errors import Reason
from topiarist.inspection.describe import ActualSource, Description, DesiredSource, Explanation, ValueSource
from topiarist.inspection.health import IN_PROGRESS, IssueType, Partition, Phase, count_issues
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.placement import InferredPlacement
from topiarist.model.access import via_of
from topiarist.model.outcome import TopicProgress, blocking_reason, build_topic_progress
from topiarist.model.plan import Plan, TopicPlan, describe_external_changes
from topiarist.model.spec import BROKER_SIZE_SETTINGS, find_origin
from topiarist.model.state import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    describe_malformed_partitions,
    describe_unequal_replication_factors,
)
from topiarist.output.groups import GroupedItems
from topiarist.output.text.layout import (
    BOLD,
    BOLD_RED,
    DIM,
    MAX_KEY_WIDTH,
    TEXT_COLUMN,
    YELLOW,
    TextLayout,
    choose_action_column,
    format_value,
    humanize_config_value,
    join_sections,
)
from topiarist.output.text.plan import format_cluster_header, format_exceeded_limits, format_topic
from topiarist.output.view import encode_fields, encode_location, label_notice
from topiarist.text import format_count, list_first, sanitize

FORMAT_VERSION = 1


def encode_descriptions(query: str, descriptions: Iterable[Description]) -> dict[str, Any]:
    """Return the document with the ``query`` and the topic on each cluster.

    All values are plain JSON values.
    """
    return {
        "formatVersion": FORMAT_VERSION,
        "query": query,
        "clusters": [_encode_cluster(each) for each in descriptions],
    }


def _encode_cluster(description: Description) -> dict[str, Any]:
    state, topic = description.state, description.state.topics.get(description.topic)
    widths = Counter(partition.replica_count for partition in description.partitions if partition.listed)
    return {
        "name": description.cluster.name,
        "clusterId": state.cluster_id,
        "chroot": state.chroot,
        "mode": state.mode.value,
        "via": via_of(bypasses_brokers=state.bypasses_brokers).value,
        "controller": None
        if state.controller is None
        else {"broker": state.controller, "epoch": state.controller_epoch},
        "writeBlock": encode_write_block(state.write_block),
        "topic": description.topic,
        "topicId": description.topic_id,
        "document": _encode_manifest(description),
        "phase": description.phase.phase.value,
        "message": description.phase.message,
        "blockedBy": description.phase.blocked_by,
        "brokersMissing": list(build_topic_progress(state, description.topic).missing_brokers),
        "record": _encode_record(description),
        "placement": _encode_placement(description.placement) if description.placement else None,
        "unknownFields": list(topic.unknown_fields) if topic else [],
        "readErrors": [encode_fields(error, "path", "message") for error in description.read_errors],
        "statesKnown": description.states_known,
        "conditions": {issue.value: number for issue, number in count_issues(description.partitions).items()},
        "replicaCounts": {str(width): number for width, number in sorted(widths.items())},
        "partitions": [_encode_partition(partition) for partition in description.partitions],
        "values": [_encode_value(value) for value in description.values],
        "planned": description.manifests_given,
        "orphaned": description.is_orphan,
        "pending": _encode_pending(description.pending_plan) if description.pending_plan else None,
        "warnings": list(state.warnings),
    }


def _encode_manifest(description: Description) -> dict[str, Any] | None:
    spec = description.resolved.spec
    if spec is None:
        return None
    location = encode_location(find_origin(spec).locate())
    return {"name": spec.manifest.name, "namespace": spec.manifest.namespace, "location": location}


def _encode_record(description: Description) -> dict[str, Any] | None:
    fields, topic = encode_record(description.record), description.state.topics.get(description.topic)
    if fields is None:
        return None
    return {
        **fields,
        "valid": topic.record_valid if topic else None,
        "modifiedExternally": topic.modified_externally if topic else False,
    }


def _encode_placement(placement: InferredPlacement) -> dict[str, Any]:
    return {
        "brokers": list(placement.order),
        "rackAware": placement.rack_aware,
        "start": placement.start,
        "shift": placement.shift,
        "expandedAt": list(placement.expansion_starts),
        "differing": list(placement.differing_partitions),
    }


def _encode_partition(partition: Partition) -> dict[str, Any]:
    state = partition.state
    return {
        "partition": partition.id,
        "listed": partition.listed,
        "replicas": list(partition.replicas),
        "adding": list(partition.reassignment.adding),
        "removing": list(partition.reassignment.removing),
        "requested": None if partition.requested_replicas is None else list(partition.requested_replicas),
        "state": encode_fields(state, *state._fields) if state else None,
        "conditions": [{"condition": issue.issue_type.value, "message": issue.message} for issue in partition.issues],
    }


def _encode_value(value: ValueSource) -> dict[str, Any]:
    return {
        **encode_fields(value, "field", "actual", "actual_source"),
        "setting": value.broker_setting,
        **encode_fields(value, "actual_location", "in_record", "desired", "desired_source", "desired_location"),
        **encode_fields(value, "differs", "ignored"),
    }


def _encode_pending(plan: TopicPlan) -> dict[str, Any]:
    return {
        "observed": plan.observe_only,
        "risk": plan.risk.label,
        "recordAfter": encode_record(plan.record_after),
        "changes": [encode_change(change) for change in plan.changes],
        "refusals": [encode_refusal(issue) for issue in plan.refusals],
        "notices": [encode_notice(issue) for issue in plan.notices],
    }


def format_explanation(layout: TextLayout, explanation: Explanation) -> str:
    """Return an explanation as lines that end with a newline."""
    lines = [layout.colorize(explanation.title, BOLD)]
    lines += [f"  {line}" for line in layout.wrap(explanation.meaning, layout.text_width - 2)]
    width = max((len(label) for label, _ in explanation.facts), default=0)
    for label, text in explanation.facts:
        first, *rest = layout.wrap(text, layout.text_width - width - 4)
        lines.append(f"  {label.ljust(width)}  {first}".rstrip())
        lines += [f"  {' ' * width}  {line}" for line in rest]
    return "\n".join(lines) + "\n"


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
_MAX_SHOWN_READ_ERRORS = 4
_MAX_SHOWN_NUMBERS = 12
_MAX_SHOWN_PARTITIONS = 16
_TABLE_INDENT = 6
_MIN_NOTE_WIDTH = 26
_CRITICAL = frozenset({IssueType.UNREADABLE, IssueType.NOT_LISTED, IssueType.OFFLINE, IssueType.UNDER_MIN_ISR})
_MAX_VALUE_WIDTH = 24
_CONFIG_PREFIX = "config."


def format_descriptions(descriptions: Sequence[Description], layout: TextLayout) -> str:
    """Return the text for the topic on each cluster, in the order given; empty without descriptions."""
    sections: list[Iterable[str]] = []
    for description in descriptions:
        plan = _make_cluster_plan(description)
        sections += [
            format_cluster_header(plan, layout),
            _format_topic(description, layout),
            _format_partitions(layout, description),
            _format_values(layout, description),
            layout.format_warnings(description.state.warnings),
            _format_pending(description, replace(layout, action_column=choose_action_column([description.topic]))),
            # A block only marks changes as withheld by a budget; the budget is explained once, at the end.
            format_exceeded_limits(layout, plan),
        ]
    return join_sections(sections)


def _make_cluster_plan(description: Description) -> Plan:
    """Return a plan with the pending plan of the topic, and only the fields of the cluster that are shown."""
    state = description.state
    return Plan(
        cluster=description.cluster.name,
        cluster_id=state.cluster_id,
        brokers=state.brokers,
        write_block=state.write_block,
        controller=state.controller,
        controller_epoch=state.controller_epoch,
        config_rules=ConfigRules(mode=state.mode),
        topics=(description.pending_plan,) if description.pending_plan else (),
    )


def _format_topic(description: Description, layout: TextLayout) -> Iterator[str]:
    phase, name = description.phase, sanitize(description.topic)
    style = _PHASE_STYLES.get(phase.phase, BOLD)
    if len(name) + 4 <= TEXT_COLUMN:
        yield from layout.format_text_section(name, phase.message, style)
    else:
        yield from (f"  {layout.colorize(part, style)}" for part in layout.wrap(name, layout.width - 2))
        yield from layout.format_field("", layout.wrap(phase.message))
    yield from layout.format_text_field("waits for", phase.blocked_by)
    yield from layout.format_text_field("topic id", description.topic_id or "")
    yield from layout.format_text_field("document", _describe_document(description))
    yield from layout.format_text_field("record", _describe_record(description))
    yield from layout.format_text_field("replicas", _describe_placement(description))
    for note in _list_notes(description):
        yield from layout.format_text_field("note", note)
    shown = layout.limit(description.read_errors, _MAX_SHOWN_READ_ERRORS)
    for error in shown:
        yield from layout.format_text_field("read error", f"{error.path}: {error.message}")
    if left := len(description.read_errors) - len(shown):
        yield from layout.format_text_field("read error", f"{format_count(left, 'other')} (-v shows them)")


def _describe_document(description: Description) -> str:
    spec = description.resolved.spec
    if spec is None:
        return ""
    name = spec.manifest.full_name
    place = find_origin(spec).locate()
    text = f"Topic {name}" + (f", {place}" if place else "")
    return f"{text}; its topicName is {description.topic}" if description.resolved.by_document_name else text


def _describe_record(description: Description) -> str:
    record, topic = description.record, description.state.topics.get(description.topic)
    if record is None and description.cluster.internal_owner(description.topic) == "topiarist":
        return "none: it has the records of all topics" if topic else ""
    if record is None:
        return "none: topiarist neither created nor adopted the topic" if topic else ""
    text = f"owner {record.owner}"
    if record.owner != description.owner:
        text += f" (this run has owner {description.owner})"
    if topic and not topic.record_valid:
        return f"{text}, stale: it belongs to an earlier topic of this name and is ignored"
    if record.deleted:
        return f"{text}, records the deletion of the topic"
    return f"{text}, manages {', '.join(record.config_keys) or 'no config keys'}"


def _describe_placement(description: Description) -> str:
    state, placement = description.state, description.placement
    if placement is None:
        topic = state.topics.get(description.topic)
        return "lists do not follow Kafka's algorithm" if topic and any(topic.replicas) else ""
    start = f"from broker {placement.first_broker}, shift {placement.shift}"
    text = f"placed by Kafka's algorithm {start}"
    if differing := placement.differing_partitions:
        plural = "s" if len(differing) > 1 else ""
        shown = list_first(differing, _MAX_SHOWN_NUMBERS)
        text = f"lists differ from Kafka's placement ({start}) in partition{plural} {shown}"
    if starts := placement.expansion_starts:
        text += f", expanded at partition{'s' if len(starts) > 1 else ''} {list_first(starts, _MAX_SHOWN_NUMBERS)}"
    if any(broker.rack for broker in state.brokers) and not placement.rack_aware:
        text += ", racks ignored"
    if list(placement.order) != sorted(placement.order) and not placement.rack_aware:
        text += f", over brokers in the order {list_first(placement.order, _MAX_SHOWN_NUMBERS)}"
    elif sorted(placement.order) != [broker.id for broker in state.brokers]:
        text += f", over brokers {list_first(sorted(placement.order), _MAX_SHOWN_NUMBERS)}"
    return text


def _list_notes(description: Description) -> Iterator[str]:
    state, name = description.state, description.topic
    topic, progress = state.topics.get(name), build_topic_progress(state, name)
    being_deleted = description.phase.phase is Phase.MARKED_FOR_DELETION
    match description.cluster.internal_owner(name):
        case "Kafka":
            yield "internal topic of Kafka: topiarist never changes it"
        case "topiarist":
            yield "internal topic of topiarist: no manifest changes it"
        case _ if topic and description.cluster.is_protected(name):
            yield "protected, because other software owns it: topiarist refuses growth, deletion and changes of cleanup"
    if topic and topic.modified_externally:
        yield describe_external_changes(topic.valid_record, topic.config)
    if topic and topic.unknown_fields:
        yield f"its entry has fields that Kafka does not write: {', '.join(topic.unknown_fields)}"
    if progress.missing_brokers and not being_deleted:
        yield blocking_reason(TopicProgress(None, False, progress.missing_brokers))
    # The pending plan may report the unequal replication factors already; report them once.
    noticed = {notice.message for notice in description.pending_plan.notices} if description.pending_plan else set()
    if topic and (unequal := describe_unequal_replication_factors(topic)) and unequal not in noticed:
        yield unequal
    if topic and (malformed := describe_malformed_partitions(topic)) and not any(malformed in each for each in noticed):
        yield malformed
    if description.phase.blocked_by == IN_PROGRESS and state.bypasses_brokers and not being_deleted:
        yield f"if this does not change, the controller missed the topic: run topiarist nudge {sanitize(name)}"
    if (batch := state.batch) and (in_flight := _list_in_flight(description)):
        ids = list_first(in_flight, _MAX_SHOWN_NUMBERS)
        yield f"batch {batch.batch} of {batch.batches} of moves by owner {batch.owner} moves partition {ids}"
    reassigning = any(partition.has_issue(IssueType.REASSIGNING) for partition in description.partitions)
    if name in state.reassigning_topics and not reassigning:
        yield "a reassignment request names the topic"


def _list_in_flight(description: Description) -> list[int]:
    """Return the partitions of the topic that the last batch still moves."""
    batch, name = description.state.batch, description.topic
    moved = [move.partition for move in batch.moves if move.topic == name] if batch else []
    reassigned = {each.id for each in description.partitions if each.has_issue(IssueType.REASSIGNING)}
    return [partition for partition in moved if partition in reassigned]


def _format_pending(description: Description, layout: TextLayout) -> Iterator[str]:
    plan = description.pending_plan
    if description.phase.phase is Phase.UNKNOWN:
        return
    if plan is None:
        text = "not in the given paths" if description.manifests_given else "no manifests were given"
        if description.manifests_given and description.is_orphan:
            text += f"; to stop managing the topic, run topiarist unmanage {sanitize(description.topic)}"
        yield from layout.format_text_section("pending", text)
    elif _NO_GROUPS.has_own_block(plan):
        yield from format_topic(layout, plan, _NO_GROUPS)
    else:
        notices = [notice for notice in plan.notices if layout.verbose or notice.reason is not Reason.UNMANAGED]
        text = "nothing to do" if notices else "nothing: the topic matches its manifest"
        text += " when the batch is done" if _list_in_flight(description) else ""
        yield from layout.format_text_section("pending", text)
        for notice in notices:
            yield from layout.format_text_section(label_notice(notice), notice.message)


def _format_partitions(layout: TextLayout, description: Description) -> Iterator[str]:
    if not description.partitions:
        return
    yield from layout.format_text_section("partitions", _describe_counts(description))
    with_issues = [partition for partition in description.partitions if partition.issues]
    whole = layout.verbose or len(description.partitions) <= _MAX_SHOWN_PARTITIONS
    shown = description.partitions if whole else layout.limit(with_issues, _MAX_SHOWN_PARTITIONS)
    if shown:
        yield from _format_partition_table(layout, shown, description.states_known)
    if len(shown) == len(description.partitions):
        return
    if not shown:
        hidden_text = "(-v shows them)"
    elif left := len(with_issues) - sum(bool(partition.issues) for partition in shown):
        hidden_text = f"... {left:,} more with issues (-v shows them)"
    elif description.states_known:
        hidden_text = "... the others are healthy (-v shows all)"
    else:
        hidden_text = "... the others (-v shows them)"
    yield " " * _TABLE_INDENT + hidden_text


def _describe_counts(description: Description) -> str:
    """Return the counts, as in ``12 x 3 replicas: 10 healthy, 1 offline, 2 under-replicated``."""
    issue_counts = [f"{number:,} {issue.label}" for issue, number in count_issues(description.partitions).items()]
    listed = [partition for partition in description.partitions if partition.listed]
    if not listed:
        return ", ".join(["replica lists cannot be read", *issue_counts])
    widths = sorted({partition.replica_count for partition in listed})
    width = format_count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
    size = f"{len(listed):,} x {width}"
    if not description.states_known:
        return ", ".join([size, *issue_counts, "leaders and ISR are unknown"])
    if issue_counts:
        healthy_text = f"{sum(not partition.issues for partition in description.partitions):,} healthy"
    else:
        # Not "all healthy" with unequal replication factors: a note of the topic reports them.
        healthy_text = "all healthy" if len(widths) == 1 else "all in sync"
    return f"{size}: {', '.join([healthy_text, *issue_counts])}"


def _format_partition_table(layout: TextLayout, partitions: Sequence[Partition], states_known: bool) -> Iterator[str]:
    heads = ("id", "leader", "replicas", "ISR") if states_known else ("id", "replicas")
    rows = [_make_cells(partition, states_known) for partition in partitions]
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    # Align the second column with the text of the fields above the table.
    widths[0] = max(widths[0], TEXT_COLUMN - _TABLE_INDENT - 2)
    yield layout.colorize(_align_cells(heads, widths), DIM)
    note_column = sum(widths) + 2 * len(widths) + _TABLE_INDENT
    beside = layout.table_width - note_column >= _MIN_NOTE_WIDTH
    for partition, row in zip(partitions, rows, strict=True):
        text = _align_cells(row, widths)
        if not partition.issues or not beside:
            yield text
            text = ""
        # A note that has no room beside its row is put below it.
        column = note_column if beside else TEXT_COLUMN
        style = BOLD_RED if any(partition.has_issue(issue) for issue in _CRITICAL) else YELLOW
        note = "; ".join(map(str, partition.issues))
        for line in layout.wrap(note, layout.table_width - column) if note else ():
            yield f"{text:<{column}}{layout.colorize(line, style)}"
            text = ""


def _align_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return f"{'':{_TABLE_INDENT}}{'  '.join(cell.ljust(width) for cell, width in pairs)}".rstrip()


def _make_cells(partition: Partition, states_known: bool) -> tuple[str, ...]:
    replicas = _format_ids(partition.replicas) if partition.listed else "-"
    if not states_known:
        return str(partition.id), replicas
    state = partition.state
    if state is None:
        return str(partition.id), "", replicas, ""
    leader = "none" if state.leader in (NO_LEADER, LEADER_DURING_DELETE) else str(state.leader)
    return str(partition.id), leader, replicas, _format_ids(state.isr)


def _format_ids(brokers: Sequence[int]) -> str:
    return f"[{','.join(map(str, brokers))}]"


def _format_values(layout: TextLayout, description: Description) -> Iterator[str]:
    """Yield one row for each value that is set or desired, with its source; nothing if there is no such value.

    Topiarist's own defaults are shown only in a verbose layout.
    """
    rows = [
        value for value in description.values if layout.verbose or value.desired_source is not DesiredSource.TOPIARIST
    ]
    if not rows:
        return
    if description.topic in description.state.topics:
        about = "configs that are not listed have the brokers' values"
    elif any(value.actual_source for value in rows):
        about = "those that can be read"
    else:
        about = "desired"
    yield from layout.format_text_section("values", about)
    key_width = max(min(len(sanitize(_display_key(value))), MAX_KEY_WIDTH) for value in rows)
    texts = [_format_actual(layout, value) for value in rows]
    value_width = max((len(text) for text in texts if len(text) <= _MAX_VALUE_WIDTH), default=0)
    for value, text in zip(rows, texts, strict=True):
        start = _TABLE_INDENT + key_width + 2
        key, room = sanitize(_display_key(value)), layout.table_width - start
        if len(key) > key_width or room < _MAX_VALUE_WIDTH:
            # A long key gets lines of its own.
            yield from (f"{'':{_TABLE_INDENT}}{part}" for part in layout.wrap(key, layout.table_width - _TABLE_INDENT))
            start, room, key = _TABLE_INDENT + 4, layout.table_width - _TABLE_INDENT - 4, ""
        lines, source = layout.wrap(text, room), _describe_source(description, value)
        if source and len(lines) == 1 and max(len(text), value_width) + 2 + len(source) <= room:
            lines = [f"{text.ljust(value_width)}  {source}"]
        elif source:
            lines += layout.wrap(source, room)
        if desired := _format_desired(layout, value):
            lines += [layout.colorize(line, YELLOW) for line in layout.wrap(desired, room)]
        left = f"{'':{_TABLE_INDENT}}{key}".ljust(start)
        for line in lines:
            yield f"{left}{line}".rstrip()
            left = " " * start


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


def _format_desired(layout: TextLayout, value: ValueSource) -> str:
    if not value.differs or value.actual_source is None or value.desired is None:
        return ""
    ignored = ", ignored" if value.ignored else ""
    return f"-> {_format_with_unit(layout, value, value.desired)}  {_describe_desired_source(value)}{ignored}"


def _describe_source(description: Description, value: ValueSource) -> str:
    if value.actual_source is None or (value.desired is not None and not value.differs):
        return _describe_desired_source(value)
    if value.actual_source is ActualSource.BROKERS:
        return "the brokers' value applies"
    if value.actual_source is ActualSource.DYNAMIC_DEFAULT:
        return f"cluster-wide default, {value.broker_setting}"
    if value.actual_source is ActualSource.BROKER_CONFIG:
        location = f", {value.actual_location}" if value.actual_location else ""
        return f"brokerConfig, {value.broker_setting}{location}"
    if not value.field.startswith(_CONFIG_PREFIX):
        return "on the cluster"
    spec, batch, key = description.resolved.spec, description.state.batch, _display_key(value)
    throttle = batch.throttles.get(f"topics/{description.topic}", {}).get(key) if batch else None
    if throttle and throttle.ours == value.actual:
        return "set by topiarist, until its moves end"
    if value.desired is None and spec and not spec.absent:
        return "set by topiarist, no longer in the manifest" if value.in_record else "set by another client"
    return "set by topiarist" if value.in_record else "set on the cluster"


def _describe_desired_source(value: ValueSource) -> str:
    label = _SOURCE_LABELS.get(value.desired_source, "")
    if value.desired_source is DesiredSource.BROKER_CONFIG:
        label = f"brokerConfig, {BROKER_SIZE_SETTINGS[value.field]}"
    location = str(value.desired_location) if value.desired_location else ""
    return ", ".join(sanitize(part) for part in (location, label) if part)


_SOURCE_LABELS: Mapping[DesiredSource | None, str] = {
    DesiredSource.TOPIARIST: "topiarist's default",
    DesiredSource.OVERRIDE: "override",
    DesiredSource.PROFILE: "a profile of the Cluster",
    DesiredSource.CLUSTER_DEFAULTS: "the Cluster's defaults",
}
