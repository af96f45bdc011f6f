"""A summary as Markdown, for an issue or a chat: what a person must know, and where the rest is.

Text from znodes and manifests stands in code, where no Markdown is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topiarist.core.discrepancy import Kind
from topiarist.core.units import count
from topiarist.render.markup import cell, code, prose

_CLUSTERS, _OTHERS = 20, 10
"""Rows of each table that are shown."""

_VALUES = 4


def summary(found: Mapping[str, Any]) -> str:
    """The text; ends with a newline."""
    parts = [_title(found), _lead(found), *_clusters(found), *_owners(found), *_reasons(found)]
    parts += [*_uneven(found), *_unbalanced(found), *_unknown(found), *_input(found)]
    return "\n\n".join(parts) + "\n"


def _title(found: Mapping[str, Any]) -> str:
    findings = found["findings"]
    changes = f": {findings['new']:,} new, {findings['resolved']:,} resolved" if found["previous"] else ""
    return f"### Drift: {count(findings['total'], 'finding')}{changes}"


def _lead(found: Mapping[str, Any]) -> str:
    clusters, topics = found["clusters"], found["topics"]
    lines = [
        f"{clusters['compared']:,} of {count(clusters['wanted'], 'cluster')} compared, as of {code(found['asOf'])}; "
        f"{topics['inOrder']:,} of {count(topics['compared'], 'topic')} are as their manifests say."
    ]
    if found["findings"]["unseen"]:
        lines.append(f"{count(found['findings']['unseen'], 'finding')} of before could not be looked at again.")
    return " ".join(lines)


def _clusters(found: Mapping[str, Any]) -> Iterator[str]:
    kinds = [kind.value for kind in Kind if found["findings"]["byClass"].get(kind.value)]
    rows = sorted(found["byCluster"], key=lambda one: (-one["findings"], one["cluster"]))
    rows = [one for one in rows if one["findings"]]
    if rows:
        lines = [[cell(one["cluster"]), *(_number(one["byClass"].get(kind)) for kind in kinds)] for one in rows]
        yield _table(["cluster", *kinds], lines, _CLUSTERS)


def _owners(found: Mapping[str, Any]) -> Iterator[str]:
    rows = [[cell(one["owner"] or "none"), f"{one['findings']:,}"] for one in found["byOwner"]]
    if rows:
        yield _table(["owner", "findings"], rows, _OTHERS)


def _reasons(found: Mapping[str, Any]) -> Iterator[str]:
    reasons = sorted(found["findings"]["byReason"].items(), key=lambda item: (-item[1], item[0]))
    if reasons:
        yield _table(["reason", "findings"], [[reason, f"{number:,}"] for reason, number in reasons], _OTHERS)


def _uneven(found: Mapping[str, Any]) -> Iterator[str]:
    if not (total := found["uneven"]["total"]):
        return
    yield f"{count(total, 'field')} of topics not the same on all clusters of a manifest:"
    rows = [[cell(one["topic"]), cell(one["field"]), _spread(one["values"])] for one in found["uneven"]["topics"]]
    yield _table(["topic", "field", "values"], rows, _OTHERS, total)


def _spread(values: Sequence[Mapping[str, Any]]) -> str:
    parts = [
        f"{'not set' if one['value'] is None else cell(one['value'])} on {count(one['number'], 'cluster')}"
        for one in values[:_VALUES]
    ]
    return ", ".join(parts) + (f" and {len(values) - _VALUES:,} more" if len(values) > _VALUES else "")


def _unbalanced(found: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [cell(one["cluster"]), one["load"], f"{one['mean']:,}", _broker(one["most"]), _broker(one["least"])]
        for one in found["unbalanced"]
    ]
    if rows:
        yield _table(["cluster", "out of balance", "mean", "most", "least"], rows, _OTHERS)


def _broker(one: Mapping[str, int]) -> str:
    return f"{one['partitions']:,} on {one['broker']}"


def _unknown(found: Mapping[str, Any]) -> Iterator[str]:
    lines = [
        f"- {code(one['cluster'])}: {prose(one['problem'])}" for one in found["byCluster"] if one["problem"] is not None
    ]
    if lines:
        more = [f"- and {len(lines) - _OTHERS:,} more"] if len(lines) > _OTHERS else []
        yield "\n".join([f"**{count(len(lines), 'cluster')} could not be compared:**\n", *lines[:_OTHERS], *more])


def _input(found: Mapping[str, Any]) -> Iterator[str]:
    inputs = found["inputs"]
    parts = [
        (inputs["broken"], "row", "could not be used: see broken.jsonl"),
        (len(inputs["superseded"]), "snapshot", "passed over for a newer one"),
        (len(inputs["strangers"]), "snapshot", "of clusters that are not part of this run"),
    ]
    words = [f"{count(number, noun)} {what}" for number, noun, what in parts if number]
    if words:
        yield f"Of the input: {'; '.join(words)}."


def _number(value: int | None) -> str:
    return f"{value:,}" if value else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], most: int, total: int | None = None) -> str:
    hidden = (len(rows) if total is None else total) - min(len(rows), most)
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows[:most]]
    if hidden:
        lines.append([f"and {hidden:,} more", *[""] * (len(head) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
