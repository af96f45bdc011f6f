"""The summary of a drift report as Markdown, for an issue or a chat message.

``drift.outputs.folder`` writes it as ``summary.md``. It shows the largest counts and the clusters that could not be
compared. Text from clusters and manifests is escaped or put into code spans, so that it is not parsed as Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topiarist.drift.findings.finding import DriftClass
from topiarist.output.markdown.escape import escape_prose, format_code, format_table_cell
from topiarist.text import format_count, humanize_duration

_MAX_CLUSTER_ROWS, _MAX_OTHER_ROWS = 20, 10
"""Number of rows in the table of clusters, and in each of the other tables."""

_MAX_VALUES = 4


def format_summary(summary: Mapping[str, Any]) -> str:
    """Return the summary as Markdown text that ends with a newline."""
    reasons = sorted(summary["findings"]["byReason"].items(), key=lambda item: (-item[1], item[0]))
    parts = [
        _overview(summary),
        _cluster_table(summary),
        _responsible_table(summary),
        _format_table(["reason", "findings"], [[reason, f"{number:,}"] for reason, number in reasons]),
        _difference_table(summary["crossClusterDifferences"]),
        _format_table(
            ["cluster", "imbalance", "mean", "most", "least"],
            [
                [format_table_cell(one["cluster"]), one["load"], f"{one['mean']:,}"]
                + [f"{one[end]['partitions']:,} on {one[end]['broker']}" for end in ("most", "least")]
                for one in summary["unbalanced"]
            ],
        ),
        _unknown_clusters(summary),
        _incomplete_clusters(summary["incomplete"]),
        _unused_input(summary["inputs"]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _overview(summary: Mapping[str, Any]) -> str:
    findings, clusters, topics = summary["findings"], summary["clusters"], summary["topics"]
    changes = f": {findings['new']:,} new, {findings['resolved']:,} resolved" if summary["previous"] else ""
    text = (
        f"### Drift: {format_count(findings['total'], 'finding')}{changes}\n\n"
        f"{clusters['compared']:,} of {format_count(clusters['declared'], 'cluster')} compared, "
        f"as of {format_code(summary['asOf'])}; "
        f"{topics['inSync']:,} of {format_count(topics['compared'], 'topic')} match their manifests."
    )
    if selection := summary.get("selection"):
        text += f" **Only topics selected by {format_code(selection)} were compared.**"
    if severities := ", ".join(f"{number:,} {each.lower()}" for each, number in summary["bySeverity"].items()):
        text += f" Findings by severity: {severities}."
    if oldest := summary["oldestFinding"]:
        cluster = f" on {format_code(oldest['cluster'])}" if oldest["cluster"] else ""
        subject = f" of {format_code(oldest['topic'])}" if oldest["topic"] else ""
        text += (
            f" The oldest, {oldest['class']}{subject}{cluster}, was first seen at {format_code(oldest['firstSeen'])}."
        )
    if (repairs := summary["timeToRepair"]) and repairs["resolved"]:
        text += (
            f" Half of the {format_count(repairs['resolved'], 'finding')} that were resolved in the last "
            f"{repairs['days']} days stayed for {humanize_duration(repairs['medianSeconds'] * 1000)} or less."
        )
    if accepted := summary["accepted"]["total"]:
        text += f" {format_count(accepted, 'difference')} accepted by exceptions."
    if unmatched := summary["exceptions"]["unmatched"]:
        text += f" {format_count(len(unmatched), 'exception')} without any difference."
    if invalid := findings["byClass"].get(DriftClass.INVALID.value):
        text += f" {format_count(invalid, 'invalid manifest')} could not be compared."
    if findings["notEvaluated"]:
        text += f" {format_count(findings['notEvaluated'], 'earlier finding')} could not be evaluated again."
    return text


def _cluster_table(summary: Mapping[str, Any]) -> str:
    kinds = [kind.value for kind in DriftClass if summary["findings"]["byClass"].get(kind.value)]
    drifted = [one for one in summary["byCluster"] if one["findings"]]
    rows = [
        [format_table_cell(one["cluster"])]
        + [f"{one['byClass'][kind]:,}" if kind in one["byClass"] else "" for kind in kinds]
        for one in sorted(drifted, key=lambda one: (-one["findings"], one["cluster"]))
    ]
    return _format_table(["cluster", *kinds], rows, _MAX_CLUSTER_ROWS)


def _responsible_table(summary: Mapping[str, Any]) -> str:
    """Return the findings by team or owner, with a column for each severity, the most severe first."""
    severities = [*summary["bySeverity"]]
    rows = [
        [format_table_cell(one["responsible"] or "none"), f"{one['findings']:,}", f"{one['new']:,}"]
        + [f"{one['bySeverity'][each]:,}" if each in one["bySeverity"] else "" for each in severities]
        for one in summary["byResponsible"]
    ]
    return _format_table(["responsible", "findings", "new", *severities], rows)


def _difference_table(differences: Mapping[str, Any]) -> str:
    if not (total := differences["total"]):
        return ""
    rows = [
        [format_table_cell(one["topic"]), format_table_cell(one["field"]), _format_values(one["values"])]
        for one in differences["topics"]
    ]
    table = _format_table(["topic", "field", "values"], rows, total=total)
    return f"{format_count(total, 'cross-cluster difference')}:\n\n{table}"


def _format_values(values: Sequence[Mapping[str, Any]]) -> str:
    parts = [
        f"{'not set' if one['value'] is None else format_table_cell(one['value'])} "
        f"on {format_count(one['number'], 'cluster')}"
        for one in values[:_MAX_VALUES]
    ]
    return ", ".join(parts) + (f" and {len(values) - _MAX_VALUES:,} more" if len(values) > _MAX_VALUES else "")


def _unknown_clusters(summary: Mapping[str, Any]) -> str:
    unknown = [one for one in summary["byCluster"] if one["problem"] is not None]
    lines = [f"- {format_code(one['cluster'])}: {escape_prose(one['problem'])}" for one in unknown[:_MAX_OTHER_ROWS]]
    if len(unknown) > _MAX_OTHER_ROWS:
        lines.append(f"- and {len(unknown) - _MAX_OTHER_ROWS:,} more")
    title = f"**{format_count(len(unknown), 'cluster')} could not be compared:**\n"
    return "\n".join([title, *lines]) if unknown else ""


def _incomplete_clusters(incomplete: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"- {format_code(one['cluster'])}: {format_count(one['notJudged'], 'topic')} not judged, "
        f"{format_count(one['rows'], 'invalid row')} in {format_code(one['file'])}: {escape_prose(one['message'])}"
        for one in incomplete[:_MAX_OTHER_ROWS]
    ]
    if len(incomplete) > _MAX_OTHER_ROWS:
        lines.append(f"- and {len(incomplete) - _MAX_OTHER_ROWS:,} more")
    title = f"**{format_count(len(incomplete), 'cluster')} could be compared only in part:**\n"
    return "\n".join([title, *lines]) if incomplete else ""


def _unused_input(inputs: Mapping[str, Any]) -> str:
    parts = [
        (inputs["broken"], "invalid row", "(see broken.jsonl)"),
        (len(inputs["superseded"]), "snapshot", "replaced by a newer one"),
        (len(inputs["unknownClusters"]), "snapshot", "of clusters that are not part of this run"),
    ]
    words = [f"{format_count(number, noun)} {what}" for number, noun, what in parts if number]
    return f"Input that was not used: {'; '.join(words)}." if words else ""


def _format_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], max_rows: int = _MAX_OTHER_ROWS, total: int | None = None
) -> str:
    """Return a table of the first rows, with the number of the others; empty without rows."""
    if not rows:
        return ""
    hidden = (len(rows) if total is None else total) - min(len(rows), max_rows)
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows[:max_rows]]
    if hidden:
        lines.append([f"and {hidden:,} more", *[""] * (len(head) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
