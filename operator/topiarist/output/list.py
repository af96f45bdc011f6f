"""Lists of topics, upgrade checks and checks of clusters, each as a JSON document and as text.

``schemas/list.json`` describes each field. On a terminal a table fits the width: columns on the right are left out, and
long cells are shortened. Elsewhere, and in a verbose layout, each cell is complete, for programs that read it.

``export`` prints the topics and config values that it has left out, each with the reason, by ``format_summary``.

A check of a cluster has the lines of the ``Cluster`` document to write; ``schemas/check.json`` describes its fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from topiarist.adapters.saved_plans.encode import encode_write_block
from topiarist.adapters.snapshots.codec import format_seconds
from topiarist.desired.export import ExportResult
from topiarist.inspection.check import (
    Advice,
    AffectedTopic,
    ClusterCheck,
    Finding,
    Permission,
    UpgradeEffect,
    UpgradeFinding,
    UpgradeReport,
)
from topiarist.inspection.health import IssueType
from topiarist.inspection.list import TopicFlag, TopicList, TopicRow
from topiarist.kafka.types import KafkaVersion, format_version
from topiarist.model.access import Via, ZooKeeperAccess, via_of
from topiarist.model.spec import ClusterSpec, find_origin
from topiarist.model.state import ClusterState
from topiarist.model.usage import TopicUsage
from topiarist.output.text.layout import BOLD, BOLD_RED, DIM, GREEN, YELLOW, TextLayout, join_sections, shorten
from topiarist.output.view import encode_error, encode_fields, encode_location
from topiarist.text import format_count, sanitize, split_words, to_camel_case

FORMAT_VERSION = 1


def encode_lists(listings: Iterable[TopicList]) -> dict[str, Any]:
    """Return the document with the selected topics of each cluster; plain JSON values only."""
    return {"formatVersion": FORMAT_VERSION, "clusters": [_encode_cluster(each) for each in listings]}


def _encode_cluster(listing: TopicList) -> dict[str, Any]:
    return {
        "name": listing.cluster.name,
        "clusterId": listing.state.cluster_id,
        "chroot": listing.state.chroot,
        "present": listing.topic_count,
        "topics": [_encode_topic(row) for row in listing.rows],
        "warnings": list(listing.state.warnings),
    }


def _encode_topic(row: TopicRow) -> dict[str, Any]:
    factors = [width for width in row.partitions_by_replicas if width]
    return {
        "topic": row.topic,
        "partitions": row.partitions,
        "replicationFactor": factors[0] if len(row.partitions_by_replicas) == 1 and factors else None,
        "replicaCounts": {str(width): number for width, number in sorted(row.partitions_by_replicas.items())},
        "owner": row.owner or None,
        "document": _encode_manifest(row),
        "config": dict(row.config),
        "states": sorted(row.states),
        "statesKnown": row.states_known,
        "offline": row.issues.get(IssueType.OFFLINE, 0) if row.states_known else None,
        "underReplicated": row.issues.get(IssueType.UNDER_REPLICATED, 0) if row.states_known else None,
        **({"usage": _encode_usage(row.usage)} if row.usage else {}),
    }


def _encode_usage(usage: TopicUsage) -> dict[str, Any]:
    return {
        **{
            name: {
                "state": side.state.value,
                "lastSeen": format_seconds(side.before),
                "observedSince": format_seconds(side.observed_since),
            }
            for name, side in (("written", usage.written), ("read", usage.read))
        },
        "groups": usage.sample.committing_groups,
        "members": usage.sample.member_count,
        "bytes": usage.sample.size,
        "bytesPerDay": usage.bytes_per_day,
    }


def _encode_manifest(row: TopicRow) -> dict[str, Any] | None:
    if row.spec is None:
        return None
    manifest = row.spec.manifest
    return {
        "name": manifest.name,
        "namespace": manifest.namespace,
        "labels": dict(sorted(row.spec.labels.items())),
        "location": encode_location(find_origin(row.spec).locate()),
    }


_COLUMN_HEADINGS = ("topic", "partitions", "replicas", "owner", "state", "manifest", "config")
_HEALTH_HEADINGS = _COLUMN_HEADINGS[:5]
_NUMBERS = ("partitions", "replicas")
_SMALLEST_WIDTHS = {"topic": 12, "owner": 8, "state": 12, "manifest": 18, "config": 18}
"""The fewest columns that a longer cell is shortened to; other cells stay whole."""
_SMALLEST_WIDTHS_WITH_DETAILS = _SMALLEST_WIDTHS | {"topic": 48, "state": 20}
"""The same for a table with columns after ``state``: they matter less than most of a name or a state."""
_CUT_AT_END = ("state", "config")
_CRITICAL = frozenset({TopicFlag.MISSING, TopicFlag.UNREADABLE, TopicFlag.MARKED_FOR_DELETION})
_WARNING = frozenset({TopicFlag.UNEQUAL_REPLICAS, TopicFlag.MALFORMED_PARTITIONS})
_NOT_STATES = frozenset({TopicFlag.UNOWNED, TopicFlag.UNDECLARED})
"""Flags that other columns show."""


def format_lists(listings: Sequence[TopicList], layout: TextLayout) -> str:
    """Return the tables of all clusters, in the order given."""
    return join_sections(_format_cluster(each, layout) for each in listings)


def _format_cluster(listing: TopicList, layout: TextLayout) -> Iterator[str]:
    name = f"{listing.cluster.name}   " if listing.cluster.name else ""
    yield layout.colorize(f"{name}cluster {sanitize(listing.state.cluster_id)}", BOLD)
    for warning in listing.state.warnings:
        yield layout.colorize(f"  warning: {sanitize(warning)}", YELLOW)
    if listing.rows:
        yield from _format_table(listing, layout)
    totals = _format_totals(listing)
    for line in [totals] if layout.spare_width is None else layout.wrap(totals, layout.width):
        yield layout.colorize(line, BOLD)


def _format_table(listing: TopicList, layout: TextLayout) -> Iterator[str]:
    lines = [_COLUMN_HEADINGS, *map(_format_cells, listing.rows)]
    widths = {
        head: max(len(line[at]) for line in lines)
        for at, head in enumerate(_COLUMN_HEADINGS)
        if head != "manifest" or listing.manifests_given
    }
    omitted: list[str] = []
    if layout.spare_width is not None and not layout.verbose:
        all_heads = list(widths)
        widths = _fit_widths(widths, layout.table_width)
        omitted = all_heads[len(widths) :]
    for row, line in zip((None, *listing.rows), lines, strict=True):
        cells = zip(_COLUMN_HEADINGS, line, strict=True)
        text = "  ".join(_fit_cell(head, cell, widths[head]) for head, cell in cells if head in widths)
        yield layout.colorize(f"  {text}".rstrip(), _choose_style(row) if row else DIM)
    if omitted:
        note = f"{', '.join(omitted)}: columns are left out (-v shows all)"
        yield from (layout.colorize(f"  {line}", DIM) for line in layout.wrap(note, layout.table_width - 2))


def _fit_widths(widths: Mapping[str, int], room: int) -> dict[str, int]:
    """Return the widths of the columns that fit into ``room``: without those on the right, and with shortened cells.

    What the smallest widths leave free goes to the columns from the left, so that names are whole if they can be.
    """
    fitted: dict[str, int] = {}
    for count in range(len(widths), 0, -1):
        heads = list(widths)[:count]
        smallest = _SMALLEST_WIDTHS if heads[-1] in _HEALTH_HEADINGS else _SMALLEST_WIDTHS_WITH_DETAILS
        fitted = {head: min(widths[head], smallest.get(head, widths[head])) for head in heads}
        free = room - sum(fitted.values()) - 2 * count
        if free >= 0:
            break
    for head in fitted:
        more = min(widths[head] - fitted[head], max(free, 0))
        fitted[head], free = fitted[head] + more, free - more
    return fitted


def _fit_cell(head: str, cell: str, width: int) -> str:
    if head in _NUMBERS:
        return cell.rjust(width)
    if head in _CUT_AT_END and len(cell) > width:
        return f"{cell[: width - 3]}..."
    return shorten(cell, width).ljust(width)


def _format_cells(row: TopicRow) -> tuple[str, ...]:
    """Return the cells of a row; cells that programs read contain no blank within a word."""
    widths = sorted(row.partitions_by_replicas)
    place = find_origin(row.spec).locate() if row.spec else None
    return (
        sanitize(row.topic),
        "-" if row.partitions is None else str(row.partitions),
        "-" if not widths else str(widths[0]) if len(widths) == 1 else f"{widths[0]}-{widths[-1]}",
        sanitize(row.owner) or "-",
        describe_state(row),
        (sanitize(str(place)) if place else sanitize(row.spec.manifest.name)) if row.spec else "-",
        ", ".join(f"{sanitize(key)}={sanitize(text)}" for key, text in row.config.items()) or "-",
    )


def describe_state(row: TopicRow) -> str:
    """Return the flags of a row as text, with the number of partitions for each issue."""
    flags = [flag for flag in row.flags if flag not in _NOT_STATES]
    marks = ["healthy" if flag is TopicFlag.HEALTHY else split_words(flag.value) for flag in flags]
    return ", ".join([*marks, *(f"{number:,} {condition.label}" for condition, number in row.issues.items())])


def _choose_style(row: TopicRow) -> str:
    if not _CRITICAL.isdisjoint(row.flags) or IssueType.OFFLINE in row.issues:
        return BOLD_RED
    return YELLOW if row.issues or not _WARNING.isdisjoint(row.flags) else ""


def _format_totals(listing: TopicList) -> str:
    rows = listing.rows
    counts = {
        "missing": sum(TopicFlag.MISSING in row.flags for row in rows),
        "with offline partitions": sum(IssueType.OFFLINE in row.issues for row in rows),
        "under-replicated": sum(IssueType.UNDER_REPLICATED in row.issues for row in rows),
        "with unequal replicas": sum(TopicFlag.UNEQUAL_REPLICAS in row.flags for row in rows),
        "with malformed partitions": sum(TopicFlag.MALFORMED_PARTITIONS in row.flags for row in rows),
        "without owner": sum(TopicFlag.UNOWNED in row.flags for row in rows),
        "undeclared": sum(TopicFlag.UNDECLARED in row.flags for row in rows),
        "dormant": sum(TopicFlag.DORMANT in row.flags for row in rows),
        "with unknown state": sum(not row.states_known and _CRITICAL.isdisjoint(row.flags) for row in rows),
    }
    present_count = sum(TopicFlag.MISSING not in row.flags for row in rows)
    topic_text = (
        format_count(present_count, "topic")
        if present_count == listing.topic_count
        else f"{present_count:,} of {format_count(listing.topic_count, 'topic')}"
    )
    return ", ".join([topic_text, *(f"{number:,} {words}" for words, number in counts.items() if number)]) + "."


_MAX_SHOWN_REASONS = 20


def format_summary(
    result: ExportResult,
    state: ClusterState,
    cluster: ClusterSpec,
    *,
    folder: str,
    layout: TextLayout,
    cluster_file: str = "",
) -> str:
    """Return the summary for the user who will maintain ``folder``.

    ``cluster_file`` is the path of the Cluster document, if it is not in ``folder``. Names and reasons are shortened
    unless the layout is verbose.
    """
    remarks = [
        *layout.format_message_groups("left out", result.omitted, _MAX_SHOWN_REASONS),
        *layout.format_message_groups("unmanaged", result.unmanaged, _MAX_SHOWN_REASONS),
        *layout.format_message_groups("mixed", result.mixed_replication, _MAX_SHOWN_REASONS),
    ]
    warnings = list(state.warnings)
    if state.write_block.reason:
        warnings.insert(0, f"{state.write_block.message}; nothing is written to it")
    if cluster.source is None and cluster.version is None and state.bypasses_brokers:
        why = f"the metadata shows only that the release is {format_version(state.min_version)} or later"
        warnings.append(f"set kafkaVersion in {cluster_file or f'{folder}/cluster.yaml'}: {why}")
    remarks += layout.format_warnings(warnings)
    total = f"Exported: {format_count(result.topic_count, 'topic')} of cluster {cluster.name} to {sanitize(folder)}"
    if result.omitted:
        total += f", {len(result.omitted):,} left out"
    return join_sections([remarks, [layout.colorize(f"{total}.", BOLD)]]).removesuffix("\n")


# Upgrade checks: as a JSON document (``upgrade-check --format json``), and as text with the worst effects first.
#
# ``schemas/upgrade-check.json`` describes each field.

UPGRADE_CHECK_FORMAT_VERSION = 1


def encode_reports(reports: Iterable[UpgradeReport], target: KafkaVersion) -> dict[str, Any]:
    """Return the document with the findings of each cluster; plain JSON values only."""
    return {
        "formatVersion": UPGRADE_CHECK_FORMAT_VERSION,
        "target": format_version(target),
        "clusters": [_encode_check(report) for report in reports],
    }


def _encode_check(report: UpgradeReport) -> dict[str, Any]:
    return {
        "name": report.cluster.name,
        "clusterId": report.cluster_id,
        "topics": report.topic_count,
        "findings": [_encode_finding(finding) for finding in report.findings],
        "unreadable": [
            {"topic": topic, **encode_fields(error, "path", "message")}
            for topic, error in sorted(report.unreadable.items())
        ],
    }


def _encode_finding(finding: UpgradeFinding) -> dict[str, Any]:
    return {
        "effect": finding.effect.value,
        "config": finding.key,
        **encode_fields(finding, "message", "hint", "before", "after"),
        "topics": [encode_fields(item, "topic", "value", "location", "in_manifest_only") for item in finding.topics],
    }


_MAX_SHOWN_TOPICS = 10

_HEADINGS = {
    UpgradeEffect.STOPS_BROKERS: ("brokers do not start", "with values that stop brokers", BOLD_RED),
    UpgradeEffect.DROPPED: ("dropped", "with dropped configs", YELLOW),
    UpgradeEffect.DEFAULT_CHANGES: ("another default", "with another default", YELLOW),
}
"""The heading of a finding, the label of its topics in the totals, and the style."""


def format_reports(reports: Sequence[UpgradeReport], layout: TextLayout, *, show_all: bool) -> str:
    """Return the findings of all clusters, in the order given; ``show_all`` lists each topic of a finding."""
    return join_sections(_format_report(report, layout, show_all=show_all) for report in reports)


def _format_report(report: UpgradeReport, layout: TextLayout, *, show_all: bool) -> Iterator[str]:
    name = f"{sanitize(report.cluster.name)}   " if report.cluster.name else ""
    what = "manifests only" if report.cluster_id is None else f"cluster {sanitize(report.cluster_id)}"
    version = format_version(report.target)
    current = ", which it has already" if report.is_current else ""
    yield layout.colorize(f"{name}{what}, to Kafka {version}{current}", BOLD)
    for finding in report.findings:
        yield from _format_finding(finding, layout, show_all=show_all)
    for topic, error in sorted(report.unreadable.items()):
        text = f"  not checked: {sanitize(topic)}: {sanitize(error.path)}: {sanitize(error.message)}"
        yield layout.colorize(text, BOLD_RED)
    yield layout.colorize(_format_check_totals(report), BOLD)


def _format_finding(finding: UpgradeFinding, layout: TextLayout, *, show_all: bool) -> Iterator[str]:
    heading, _, style = _HEADINGS[finding.effect]
    yield f"  {layout.colorize(heading, style)}: {finding.key}"
    for text in (finding.message, finding.hint):
        yield from (f"    {line}" for line in layout.wrap(text))
    shown = finding.topics if show_all else finding.topics[:_MAX_SHOWN_TOPICS]
    width = max(len(sanitize(item.topic)) for item in shown)
    yield from (f"      {_format_topic(item, width)}".rstrip() for item in shown)
    if hidden := len(finding.topics) - len(shown):
        yield layout.colorize(f"      and {format_count(hidden, 'more topic')}; -v shows all", DIM)


def _format_topic(item: AffectedTopic, width: int) -> str:
    parts = [sanitize(item.topic).ljust(width)]
    if item.value is not None:
        parts.append(sanitize(item.value))
    if item.location is not None:
        parts.append(sanitize(str(item.location)))
    if item.in_manifest_only:
        parts.append("(in the manifest only)")
    return "  ".join(parts)


def _format_check_totals(report: UpgradeReport) -> str:
    checked = format_count(report.topic_count, "topic")
    if not report.findings:
        return f"{checked}: nothing found."
    topics: dict[UpgradeEffect, set[str]] = {effect: set() for effect in UpgradeEffect}
    for finding in report.findings:
        topics[finding.effect].update(item.topic for item in finding.topics)
    parts = (f"{len(names):,} {_HEADINGS[effect][1]}" for effect, names in topics.items() if names)
    return f"{checked}: {', '.join(parts)}."


CHECK_FORMAT_VERSION = 1

_THROUGH_ZOOKEEPER = (
    "topiarist writes the metadata itself, as the controllers of Kafka 2.4 to 3.9 read it: nothing is missing, and no"
    " policy, ACL or quota of the brokers is checked"
)


def encode_checks(checks: Iterable[ClusterCheck]) -> dict[str, Any]:
    """Return the document with the capabilities of each cluster; plain JSON values only."""
    return {"formatVersion": CHECK_FORMAT_VERSION, "clusters": [_encode(each) for each in checks]}


def _encode(check: ClusterCheck) -> dict[str, Any]:
    state = check.state
    return {
        "name": check.cluster.name,
        "clusterId": check.cluster_id,
        "via": _find_way(check).value,
        "mode": state.mode.value if state else None,
        "brokers": len(state.brokers) if state else None,
        "topics": len(state.topics) + len(state.topic_errors) if state else None,
        "error": encode_error(check.error),
        "writeBlock": encode_write_block(state.write_block) if state else None,
        "capabilities": [_encode_check_finding(each) for each in check.findings],
        "permissions": [_encode_permission(each) for each in check.permissions],
        "advice": [
            {"field": ".".join(("spec", *advice.path)), "value": advice.value, "why": advice.why}
            for advice in check.advice
        ],
        "warnings": list(state.warnings) if state else [],
    }


def _encode_check_finding(finding: Finding) -> dict[str, Any]:
    support = finding.support
    return {
        "name": to_camel_case(finding.name),
        "meaning": finding.texts.meaning,
        "given": support.is_given,
        "why": support.why,
        "lacksRight": support.lacks_right,
        "effect": finding.texts.effect if support.is_denied else "",
    }


def _encode_permission(permission: Permission) -> dict[str, Any]:
    fields = encode_fields(permission, "operation", "resource", "purpose")
    return {**fields, "given": permission.support.is_given, "why": permission.support.why}


def _find_way(check: ClusterCheck) -> Via:
    return via_of(bypasses_brokers=isinstance(check.cluster.access, ZooKeeperAccess))


def format_checks(checks: Sequence[ClusterCheck], layout: TextLayout) -> str:
    """Return the checks of all clusters, in the order given."""
    return join_sections(_format(each, layout) for each in checks)


def _format(check: ClusterCheck, layout: TextLayout) -> Iterator[str]:
    yield layout.colorize(_format_heading(check), BOLD)
    if _find_way(check) is Via.ZOOKEEPER:
        yield from layout.format_text_section("way", _THROUGH_ZOOKEEPER, DIM)
    if check.error:
        text = f"{check.error.reason}: {check.error.message}" + (f"; {check.error.hint}" if check.error.hint else "")
        yield from layout.format_text_section("not readable", text, BOLD_RED)
    if check.state and check.state.write_block.reason:
        block = check.state.write_block
        yield from layout.format_text_section("write block", f"{block.reason}: {block.message}", BOLD_RED)
    yield ""
    for finding in check.findings:
        yield from _format_check_finding(finding, layout)
    if check.permissions:
        yield ""
    for permission in check.permissions:
        yield from _format_permission(permission, layout)
    reasons = [each.support.why for each in check.findings if each.support.why]
    others = [each for each in (check.state.warnings if check.state else ()) if not any(why in each for why in reasons)]
    if others:
        yield ""
        yield from layout.format_warnings(others)
    if check.advice:
        yield ""
        yield from layout.format_section("document", _format_document(check.advice), DIM)
    yield ""
    yield layout.colorize(_format_capability_totals(check.findings), BOLD)


def _format_heading(check: ClusterCheck) -> str:
    name = f"{sanitize(check.cluster.name)}   " if check.cluster.name else ""
    parts = [f"{name}cluster {sanitize(check.cluster_id)}"]
    if state := check.state:
        topics = len(state.topics) + len(state.topic_errors)
        parts += [format_count(len(state.brokers), "broker"), format_count(topics, "topic")]
    way = "through ZooKeeper" if _find_way(check) is Via.ZOOKEEPER else "through its brokers"
    return ", ".join([parts[0], way, *parts[1:]])


def _format_check_finding(finding: Finding, layout: TextLayout) -> Iterator[str]:
    support, texts = finding.support, finding.texts
    if support.is_given:
        return layout.format_text_section("yes", texts.meaning, GREEN)
    if support.is_denied:
        label, style, below = "no", YELLOW, [f"why: {support.why}", f"so: {texts.effect}"]
    else:
        label, style, below = "not known", DIM, [support.why or "only a try shows it"]
    lines = chain.from_iterable(layout.wrap(each) for each in (texts.meaning, *below))
    return layout.format_section(label, lines, style)


def _format_permission(permission: Permission, layout: TextLayout) -> Iterator[str]:
    words = f"{permission.operation} on {permission.resource}: {permission.purpose}"
    label, style = {True: ("permitted", GREEN), False: ("denied", YELLOW), None: ("not known", DIM)}[
        permission.support.is_given
    ]
    lines = [words, permission.support.why] if permission.support.why else [words]
    return layout.format_section(label, chain.from_iterable(map(layout.wrap, lines)), style)


def _format_document(advice: Sequence[Advice]) -> Iterator[str]:
    """Yield the lines of a ``Cluster`` document, each value with its reason before it."""
    yield "spec:"
    opened: tuple[str, ...] = ()
    for each in advice:
        for depth, key in enumerate(each.path[:-1]):
            if opened[: depth + 1] != each.path[: depth + 1]:
                yield f"{'  ' * (depth + 1)}{key}:"
        opened = each.path[:-1]
        indent = "  " * len(each.path)
        yield f"{indent}# {sanitize(each.why)}"
        value = json.dumps(each.value) if each.path == ("kafkaVersion",) else each.value
        yield f"{indent}{each.path[-1]}: {value if isinstance(value, int) else sanitize(value)}"


def _format_capability_totals(findings: Sequence[Finding]) -> str:
    given = [each.support.is_given for each in findings]
    counts = {("works", "work"): True, ("does not", "do not"): False, ("is not known", "are not known"): None}
    parts = ((given.count(wanted), words) for words, wanted in counts.items())
    return ", ".join(f"{number} {words[number != 1]}" for number, words in parts if number) + "."
