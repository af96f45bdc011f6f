"""The summary of a drift report as Markdown, for an issue or a chat message.

``drift.outputs.folder`` writes it as ``summary.md``. It shows the largest counts and the clusters that could not be
compared. Text from znodes and manifests is escaped or put into code spans, so that it is not parsed as Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topiarist.drift.findings import DriftClass
from topiarist.output.markdown.escape import escape_prose, format_code, format_table_cell
from topiarist.text import format_count

_MAX_CLUSTER_ROWS, _MAX_OTHER_ROWS = 20, 10
"""Number of rows in the table of clusters, and in each of the other tables."""

_MAX_VALUES = 4


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return the summary as Markdown text that ends with a newline."""
    parts = [
        _title(summary),
        _overview(summary),
        *_cluster_table(summary),
        *_owner_table(summary),
        *_reason_table(summary),
    ]
    parts += [
        *_difference_table(summary),
        *_imbalance_table(summary),
        *_unknown_clusters(summary),
        *_unused_input(summary),
    ]
    return "\n\n".join(parts) + "\n"


def _title(summary: Mapping[str, Any]) -> str:
    findings = summary["findings"]
    changes = f": {findings['new']:,} new, {findings['resolved']:,} resolved" if summary["previous"] else ""
    return f"### Drift: {format_count(findings['total'], 'finding')}{changes}"


def _overview(summary: Mapping[str, Any]) -> str:
    clusters, topics = summary["clusters"], summary["topics"]
    lines = [
        f"{clusters['compared']:,} of {format_count(clusters['wanted'], 'cluster')} compared, "
        f"as of {format_code(summary['asOf'])}; "
        f"{topics['inSync']:,} of {format_count(topics['compared'], 'topic')} are as their manifests say."
    ]
    if summary["findings"]["notEvaluated"]:
        lines.append(
            f"{format_count(summary['findings']['notEvaluated'], 'finding')} of before could not be looked at again."
        )
    return " ".join(lines)


def _cluster_table(summary: Mapping[str, Any]) -> Iterator[str]:
    kinds = [kind.value for kind in DriftClass if summary["findings"]["byClass"].get(kind.value)]
    rows = sorted(summary["byCluster"], key=lambda one: (-one["findings"], one["cluster"]))
    rows = [one for one in rows if one["findings"]]
    if rows:
        lines = [
            [format_table_cell(one["cluster"]), *(_format_count(one["byClass"].get(kind)) for kind in kinds)]
            for one in rows
        ]
        yield _format_table(["cluster", *kinds], lines, _MAX_CLUSTER_ROWS)


def _owner_table(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = [[format_table_cell(one["owner"] or "none"), f"{one['findings']:,}"] for one in summary["byOwner"]]
    if rows:
        yield _format_table(["owner", "findings"], rows, _MAX_OTHER_ROWS)


def _reason_table(summary: Mapping[str, Any]) -> Iterator[str]:
    reasons = sorted(summary["findings"]["byReason"].items(), key=lambda item: (-item[1], item[0]))
    if reasons:
        yield _format_table(
            ["reason", "findings"], [[reason, f"{number:,}"] for reason, number in reasons], _MAX_OTHER_ROWS
        )


def _difference_table(summary: Mapping[str, Any]) -> Iterator[str]:
    if not (total := summary["crossClusterDifferences"]["total"]):
        return
    yield f"{format_count(total, 'field')} of topics not the same on all clusters of a manifest:"
    rows = [
        [format_table_cell(one["topic"]), format_table_cell(one["field"]), _format_values(one["values"])]
        for one in summary["crossClusterDifferences"]["topics"]
    ]
    yield _format_table(["topic", "field", "values"], rows, _MAX_OTHER_ROWS, total)


def _format_values(values: Sequence[Mapping[str, Any]]) -> str:
    parts = [
        f"{'not set' if one['value'] is None else format_table_cell(one['value'])} "
        f"on {format_count(one['number'], 'cluster')}"
        for one in values[:_MAX_VALUES]
    ]
    return ", ".join(parts) + (f" and {len(values) - _MAX_VALUES:,} more" if len(values) > _MAX_VALUES else "")


def _imbalance_table(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [
            format_table_cell(one["cluster"]),
            one["load"],
            f"{one['mean']:,}",
            _format_broker(one["most"]),
            _format_broker(one["least"]),
        ]
        for one in summary["unbalanced"]
    ]
    if rows:
        yield _format_table(["cluster", "out of balance", "mean", "most", "least"], rows, _MAX_OTHER_ROWS)


def _format_broker(broker_load: Mapping[str, int]) -> str:
    return f"{broker_load['partitions']:,} on {broker_load['broker']}"


def _unknown_clusters(summary: Mapping[str, Any]) -> Iterator[str]:
    lines = [
        f"- {format_code(one['cluster'])}: {escape_prose(one['problem'])}"
        for one in summary["byCluster"]
        if one["problem"] is not None
    ]
    if lines:
        more = [f"- and {len(lines) - _MAX_OTHER_ROWS:,} more"] if len(lines) > _MAX_OTHER_ROWS else []
        yield "\n".join(
            [f"**{format_count(len(lines), 'cluster')} could not be compared:**\n", *lines[:_MAX_OTHER_ROWS], *more]
        )


def _unused_input(summary: Mapping[str, Any]) -> Iterator[str]:
    inputs = summary["inputs"]
    parts = [
        (inputs["broken"], "row", "could not be used: see broken.jsonl"),
        (len(inputs["superseded"]), "snapshot", "passed over for a newer one"),
        (len(inputs["unknownClusters"]), "snapshot", "of clusters that are not part of this run"),
    ]
    words = [f"{format_count(number, noun)} {what}" for number, noun, what in parts if number]
    if words:
        yield f"Of the input: {'; '.join(words)}."


def _format_count(value: int | None) -> str:
    return f"{value:,}" if value else ""


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]], max_rows: int, total: int | None = None) -> str:
    hidden = (len(rows) if total is None else total) - min(len(rows), max_rows)
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows[:max_rows]]
    if hidden:
        lines.append([f"and {hidden:,} more", *[""] * (len(head) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
