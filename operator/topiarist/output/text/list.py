"""Lists of topics as text: a table for each cluster, a line for each topic, and a line of totals.

``list`` prints them. On a terminal a line that is too long is cut and ends with ``...``; elsewhere the line is
complete, for programs that read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topiarist.inspection.list import TopicFlag, TopicList, TopicRow
from topiarist.inspection.partition_health import IssueType
from topiarist.model.spec import find_origin
from topiarist.output.text.layout import BOLD, BOLD_RED, DIM, YELLOW, TextLayout, join_sections, sanitize
from topiarist.text import format_count

_COLUMN_HEADINGS = ("topic", "partitions", "replicas", "owner", "state", "manifest", "config")
_NUMBERS = ("partitions", "replicas")
_MAX_COLUMN_WIDTH = 48
_CRITICAL = frozenset({TopicFlag.MISSING, TopicFlag.UNREADABLE, TopicFlag.MARKED_FOR_DELETION})
_WARNING = frozenset({TopicFlag.UNEQUAL_REPLICAS, TopicFlag.MALFORMED_PARTITIONS})
_MARK_LABELS = {
    TopicFlag.MISSING: "missing",
    TopicFlag.UNREADABLE: "unreadable",
    TopicFlag.MARKED_FOR_DELETION: "marked for deletion",
    TopicFlag.UNEQUAL_REPLICAS: "unequal replicas",
    TopicFlag.MALFORMED_PARTITIONS: "malformed partitions",
    TopicFlag.UNKNOWN: "unknown",
    TopicFlag.HEALTHY: "healthy",
    TopicFlag.DORMANT: "dormant",
}


def format_lists(listings: Sequence[TopicList], layout: TextLayout, *, truncate: bool) -> str:
    """Return the tables of all clusters, in the order given; ``truncate`` cuts lines to the layout's width."""
    text = join_sections(_format_cluster(each, layout, truncate=truncate) for each in listings)
    return f"{text}\n" if text else ""


def _format_cluster(listing: TopicList, layout: TextLayout, *, truncate: bool) -> Iterator[str]:
    name = f"{listing.cluster.name}   " if listing.cluster.name else ""
    yield layout.colorize(f"{name}cluster {sanitize(listing.state.cluster_id)}", BOLD)
    for warning in listing.state.warnings:
        yield layout.colorize(f"  warning: {sanitize(warning)}", YELLOW)
    if listing.rows:
        yield from _format_table(listing, layout, truncate=truncate)
    yield layout.colorize(_format_totals(listing), BOLD)


def _format_table(listing: TopicList, layout: TextLayout, *, truncate: bool) -> Iterator[str]:
    lines = [_COLUMN_HEADINGS, *map(_format_cells, listing.rows)]
    shown = [at for at, head in enumerate(_COLUMN_HEADINGS) if head != "manifest" or listing.manifests_given]
    widths = {at: min(max(len(line[at]) for line in lines), _MAX_COLUMN_WIDTH) for at in shown}
    for row, line in zip((None, *listing.rows), lines, strict=True):
        cells = [
            line[at].rjust(widths[at]) if _COLUMN_HEADINGS[at] in _NUMBERS else line[at].ljust(widths[at])
            for at in shown
        ]
        text = f"  {'  '.join(cells)}".rstrip()
        if truncate and len(text) > layout.width:
            text = f"{text[: layout.width - 3]}..."
        yield layout.colorize(text, _choose_style(row) if row else DIM)


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
    marks = [_MARK_LABELS[mark] for mark in row.flags if mark in _MARK_LABELS]
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
