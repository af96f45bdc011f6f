"""The drift report as one self-contained HTML page that makes no network requests.

``drift.outputs.folder`` writes it as ``report.html``. ``output.html.plan`` has what it shares with the page of a plan:
script and style, and the defenses against text from clusters and manifests.

The page has all findings, or a sample, because a browser cannot open a page of a million findings. Critical findings
come first; then rare combinations of cluster and class are shown completely, and the rest is limited evenly, so that
each combination has at least one example as long as there is room.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from topiarist.drift.causes import Causes
from topiarist.drift.findings import PLACEMENT_CLASSES, FindingRow
from topiarist.output.html import plan
from topiarist.output.text.layout import with_units
from topiarist.schema import load

MAX_FINDINGS = 20_000
"""Number of findings in a page."""

_MAX_CLUSTER_ROWS, _MAX_OTHER_ROWS, _MAX_VALUES = 2000, 100, 4
"""Number of rows of the heat map, rows of each other table, and values of a differing field."""

MAX_MATRIX_ROWS = 2000
"""Number of values in the matrix of clusters; between.json has all."""

_MAX_CAUSES, _MAX_FIRST = 25, 3
"""Number of causes in their table, where each row slows down each key in the search, and of those to begin with."""

CLUSTER_CLASS = r'\{"cluster":("(?:[^"\\]|\\.)*"),"topic":"(?:[^"\\]|\\.)*","class":("[A-Za-z]+"),'
"""Pattern of the start of a line of findings, for Python and Java: cluster and class are its groups."""

_CLUSTER_CLASS = re.compile(CLUSTER_CLASS.encode())

CRITICAL = ',"severity":"Critical"'
"""Text that only a line of severity Critical has: a quotation mark within a text has a backslash before it."""

COLUMNS = (
    *("cluster", "topic", "class", "field", "expected", "actual", "effect", "effectReason"),
    *("planned", "risk", "explanation", "reasons"),
    *("message", "hint", "owner", "modifiedExternally", "takenAt", "firstSeen", "seenSince"),
    *("episodes", "status", "manifest", "file", "line", "link", "responsible", "severity"),
    *("severityRule", "command", "id", "cause"),
)
"""Fields of a finding in a page, in this order; the page computes the age from the times.

``cause`` is the id of its cause, if the page has the cause.
"""

_PARTS = plan.PageParts(
    "drift/outputs/assets",
    "page.html",
    ("shared/page.css", "report.css"),
    (
        *("shared/elements.js", "data.js", "finding.js", "subject.js", "shared/view.js", "shared/grid.js"),
        *("heat.js", "overview.js", "charts.js", "between.js", "repair.js", "shared/controls.js", "main.js"),
    ),
)

AnyText = TypeVar("AnyText", str, bytes)
Cell = tuple[AnyText, AnyText, bool]
"""Cluster and class of a finding as JSON, and whether its severity is Critical."""


def render_chunks(
    summary: Mapping[str, Any],
    findings: Path,
    accepted: Path,
    causes: Causes,
    repairs: Mapping[str, str],
    between: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """Yield the page of a report in chunks.

    ``findings`` and ``accepted`` are the paths of ``findings.jsonl`` and ``accepted.jsonl``, which are read while the
    chunks are consumed. ``repairs`` are the commands that repair findings, by the value of ``--fix``, without
    the report, since it may be moved, and without a selection. ``between`` is the comparison of some clusters.
    """
    with accepted.open("rb") as file:
        document = build_document(summary, [json.loads(line) for line in islice(file, _MAX_OTHER_ROWS)])
    shown = {one["id"] for one in (*document["causes"]["rows"], *document["first"])}
    matrix = plan.sanitize_texts(_between_document(between)) if between else None
    report = plan.encode_data(document | {"repairs": repairs, "between": matrix})
    rows = _encode_rows(findings, summary["findings"]["total"], causes, shown)
    yield from plan.render_chunks(_PARTS, {"report": report, "findings": plan.encode_rows(rows)})


def _encode_rows(findings: Path, total: int, causes: Causes, shown: AbstractSet[str]) -> Iterator[Sequence[Any]]:
    texts = StringTable()
    for row in sample_rows(findings, total, MAX_FINDINGS):
        cause = causes.find_id(row)
        yield texts.encode_row(row | {"cause": cause if cause in shown else ""})


def sample_rows(path: Path, total: int, max_rows: int) -> Iterator[FindingRow]:
    """Yield the rows of a page in the order of ``findings.jsonl``, which is read twice if it has too many.

    Critical findings have the first claim, and then the first rows of each cluster and class. Only selected lines are
    parsed as JSON. Raises ``ValueError`` for a line that does not begin with cluster, topic and class.
    """
    with path.open("rb") as file:
        if total <= max_rows:
            yield from map(json.loads, file)
            return
        counts = Counter(map(_find_cell, file))
    remaining = allocate_cells(counts, max_rows)
    with path.open("rb") as file:
        for line in file:
            cell = _find_cell(line)
            if remaining[cell]:
                remaining[cell] -= 1
                yield json.loads(line)


def _find_cell(line: bytes) -> Cell[bytes]:
    match = _CLUSTER_CLASS.match(line)
    if match is None:
        raise ValueError("a line of findings does not begin with cluster, topic and class")
    return match[1], match[2], CRITICAL.encode() in line


def allocate_cells(counts: Mapping[Cell[AnyText], int], max_rows: int) -> dict[Cell[AnyText], int]:
    """Return the number of rows of a page for each cell; critical findings have the first claim."""
    critical = allocate({cell: number for cell, number in counts.items() if cell[2]}, max_rows)
    others = {cell: number for cell, number in counts.items() if not cell[2]}
    return critical | allocate(others, max_rows - sum(critical.values()))


def allocate(counts: Mapping[Cell[AnyText], int], max_rows: int) -> dict[Cell[AnyText], int]:
    """Return the number of rows for each cell; the sum is at most ``max_rows``.

    Small counts are taken completely, and the other entries share the rest evenly.
    """
    ordered = sorted(counts, key=lambda cell: (counts[cell], cell))
    allocation: dict[Cell[AnyText], int] = {}
    for index, cell in enumerate(ordered):
        allocation[cell] = min(counts[cell], max_rows // (len(ordered) - index))
        max_rows -= allocation[cell]
    return allocation


def describe_rule(rule: Mapping[str, Any]) -> str:
    """Return the rule that changed the severity of a finding as text."""
    return f"{rule['from']} by its effect; changed by {rule['rule']} of {rule['policy']}, {rule['file']}:{rule['line']}"


class StringTable:
    """An encoder of rows as lists of ``COLUMNS`` that replaces a repeated text with its index."""

    def __init__(self) -> None:
        self._texts = plan.TextTable()

    def encode_row(self, row: FindingRow) -> list[str | int | bool | None]:
        """Return one row as a list."""
        shown = _add_units(row)
        return [self._encode_value(shown[name]) for name in COLUMNS]

    def _encode_value(self, value: Any) -> str | int | bool | None:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, dict):
            value = describe_rule(value)
        # A number is the index of a text, so that a line number is text too.
        text = ", ".join(value) if isinstance(value, list) else str(value)
        return self._texts.encode(text)


def build_document(summary: Mapping[str, Any], accepted: Sequence[FindingRow]) -> dict[str, Any]:
    """Return the data of the page except the findings, with a fixed limit on each of its lists.

    ``accepted`` are the first rows of ``accepted.jsonl``.
    """
    class_schema = load.load_schema("drift")["definitions"]["class"]
    worst = sorted(summary["byCluster"], key=lambda one: (-one["findings"], one["cluster"]))
    drifted = [one for one in worst if one["findings"]]
    unknown = [one for one in summary["byCluster"] if one["problem"] is not None]
    misplaced = [one for one in drifted if any(kind in one["byClass"] for kind in PLACEMENT_CLASSES)]
    copied_fields = (
        *("asOf", "oldest", "previous", "owner", "clusters", "topics", "findings", "trend"),
        *("bySeverity", "oldestFinding"),
    )
    differences, exceptions, upgrade = (summary[name] for name in ("crossClusterDifferences", "exceptions", "upgrade"))
    causes = summary["causes"]
    document: dict[str, Any] = plan.sanitize_texts(
        {
            **{name: summary[name] for name in copied_fields},
            "clean": len(worst) - len(drifted),
            "drifted": sum(one["problem"] is None for one in drifted),
            "heat": _limit_rows(
                [_select_fields(one, "cluster", "findings", "byClass") for one in drifted], _MAX_CLUSTER_ROWS
            ),
            "placement": _limit_rows([_select_fields(one, "cluster", "byClass") for one in misplaced]),
            "unknown": _limit_rows([_select_fields(one, "cluster", "problem") for one in unknown]),
            "incomplete": _limit_rows(summary["incomplete"]),
            "responsible": _limit_rows(sorted(summary["byResponsible"], key=_urgency)),
            "accepted": {"total": summary["accepted"]["total"], "rows": [*map(_add_units, accepted)]},
            "unmatched": _limit_rows(exceptions["unmatched"]),
            "crossClusterDifferences": _limit_rows([_difference_document(one) for one in differences["topics"]])
            | {"total": differences["total"]},
            "causes": _limit_rows([_cause_document(one) for one in causes["first"] if one["findings"] > 1], _MAX_CAUSES)
            | {"all": causes["total"]},
            "first": [_cause_document(one) for one in causes["first"][:_MAX_FIRST]],
            "unbalanced": _limit_rows(summary["unbalanced"]),
            "upgrade": upgrade
            and _select_fields(upgrade, "target", "checked", "risks")
            | {"byCluster": _limit_rows(sorted(upgrade["byCluster"], key=_upgrade_urgency))},
            "inputs": {name: many if isinstance(many, int) else len(many) for name, many in summary["inputs"].items()},
        }
    )
    document["classes"] = dict(zip(class_schema["enum"], class_schema["enumDescriptions"], strict=True))
    return document | {"columns": COLUMNS, "placementClasses": PLACEMENT_CLASSES}


def _between_document(between: Mapping[str, Any]) -> dict[str, Any]:
    """Return the matrix of a comparison: whole topics, those that differ first, with the values in order of cluster.

    A value is None if it is not set, and False on a cluster without the topic.
    """
    by_topic = {topic: [*rows] for topic, rows in groupby(between["values"], key=itemgetter("topic"))}
    ordered = sorted(by_topic.values(), key=lambda rows: not any(row["differs"] for row in rows))
    sizes = accumulate(map(len, ordered))
    shown = [rows for rows, size in zip(ordered, sizes, strict=True) if size <= MAX_MATRIX_ROWS]

    def list_values(row: Mapping[str, Any]) -> list[Any]:
        found = row["values"]
        return [_add_unit(row["field"], found[name]) if name in found else False for name in between["clusters"]]

    return {
        **_select_fields(between, "clusters", "topics", "topicsThatDiffer", "valuesThatDiffer"),
        "unread": [name in between["unread"] for name in between["clusters"]],
        "total": len(between["values"]),
        "rows": [
            _select_fields(row, "topic", "field", "responsible", "differs") | {"values": list_values(row)}
            for row in chain.from_iterable(shown)
        ],
    }


def _urgency(one: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return a key that sorts the responsible with the most Critical findings first, then High, then all."""
    by_severity = one["bySeverity"]
    return -by_severity.get("Critical", 0), -by_severity.get("High", 0), -one["findings"]


def _upgrade_urgency(one: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return a key that sorts clusters by their affected topics, the worst effect first."""
    return -one["stopsBrokers"], -one["dropped"], -one["defaultChanges"]


def _limit_rows(rows: Sequence[Any], max_rows: int = _MAX_OTHER_ROWS) -> dict[str, Any]:
    return {"total": len(rows), "rows": rows[:max_rows]}


def _select_fields(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _cause_document(cause: Mapping[str, Any]) -> dict[str, Any]:
    counts = ("id", "severity", "effect", "effectReason", "findings", "manifest", "topicCount", "clusterCount")
    names = {name: cause[name][:_MAX_VALUES] for name in ("topics", "clusters")}
    differences = [_add_units(one) for one in cause["differences"][:_MAX_VALUES]]
    more = len(cause["differences"]) - len(differences)
    return _select_fields(cause, *counts) | names | {"differences": differences, "more": more}


def _add_units(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding or a difference with the unit for people beside each value that has one."""
    return {**row, **{name: _add_unit(row["field"], row[name]) for name in ("expected", "actual")}}


def _add_unit(field: str, value: str | None) -> str | None:
    return None if value is None else with_units(field.removeprefix("config."), value)


def _difference_document(difference: Mapping[str, Any]) -> dict[str, Any]:
    values = [
        {"value": _add_unit(difference["field"], value["value"]), "clusters": value["number"]}
        for value in difference["values"][:_MAX_VALUES]
    ]
    return {
        **_select_fields(difference, "topic", "field"),
        "values": values,
        "more": len(difference["values"]) - len(values),
    }
