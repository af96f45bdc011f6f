"""The report as one page for a browser: whatever it needs is in it, and it asks no network for anything.

What comes from znodes and manifests stands in blocks of JSON that no browser runs; the page's script puts it into the
document as text and as nothing else. A policy in the page keeps the browser from running, loading or sending anything
but what was written here, should that ever fail.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from topiarist import schema
from topiarist.drift import chosen

MOST = 20_000
"""Findings that a page holds."""

_CLUSTERS, _OTHERS, _VALUES = 2000, 100, 4
"""Rows of the heat map, rows of the other tables, and values of an uneven field."""

_SCRIPTS = ("data.js", "filter.js", "table.js", "heat.js", "overview.js", "charts.js", "main.js")
"""In this order they are one script."""

_PLACE = re.compile(r"\{\{(\w+)\}\}")

_encode = json.JSONEncoder(separators=(",", ":")).encode


def chunks(summary: Mapping[str, Any], findings: Path) -> Iterator[bytes]:
    """The page of a report, in pieces; ``findings`` is its ``findings.jsonl``, which is read while they are taken."""
    parts = {
        "policy": _policy(),
        "style": _style(),
        "script": _script(),
        "report": _data(document(summary)),
    }
    for at, piece in enumerate(_PLACE.split(_asset("page.html"))):
        if at % 2 == 0:
            yield piece.encode()
        elif piece == "findings":
            yield from _rows(findings, summary)
        else:
            yield parts[piece].encode()


def _rows(findings: Path, summary: Mapping[str, Any]) -> Iterator[bytes]:
    between = "[\n"
    for row in chosen.of_file(findings, summary["byCluster"], MOST):
        yield f"{between}{_data(row)}".encode()
        between = ",\n"
    yield b"[]" if between == "[\n" else b"\n]"


def document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says beside the findings themselves; nothing in it grows with the fleet beyond a bound."""
    kinds = schema.schema("drift")["definitions"]["class"]
    worst = sorted(summary["byCluster"], key=lambda one: (-one["findings"], one["cluster"]))
    drifted = [one for one in worst if one["findings"]]
    unknown = [one for one in summary["byCluster"] if one["problem"] is not None]
    plain = ("asOf", "oldest", "previous", "owner", "clusters", "topics", "findings", "trend")
    found: dict[str, Any] = _visible(
        {
            **{name: summary[name] for name in plain},
            "clean": len(worst) - len(drifted),
            "heat": _first([_only(one, "cluster", "findings", "byClass") for one in drifted], _CLUSTERS),
            "unknown": _first([_only(one, "cluster", "problem") for one in unknown]),
            "owners": _first(summary["byOwner"]),
            "uneven": _first([_uneven(one) for one in summary["uneven"]["topics"]])
            | {"total": summary["uneven"]["total"]},
            "unbalanced": _first(summary["unbalanced"]),
            "inputs": {name: many if isinstance(many, int) else len(many) for name, many in summary["inputs"].items()},
        }
    )
    found["classes"] = dict(zip(kinds["enum"], kinds["enumDescriptions"], strict=True))
    return found | {"columns": chosen.COLUMNS, "held": min(summary["findings"]["total"], MOST)}


def _first(rows: Sequence[Any], most: int = _OTHERS) -> dict[str, Any]:
    return {"total": len(rows), "rows": rows[:most]}


def _only(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _uneven(one: Mapping[str, Any]) -> dict[str, Any]:
    values = [{"value": value["value"], "clusters": value["number"]} for value in one["values"][:_VALUES]]
    return {**_only(one, "topic", "field"), "values": values, "more": len(one["values"]) - len(values)}


def _visible(value: Any) -> Any:
    """The same with all text made visible; names of fields are ours, but for those of classes."""
    if isinstance(value, str):
        return chosen.visible(value)
    if isinstance(value, Mapping):
        return {name: _visible(inner) for name, inner in value.items()}
    return [_visible(inner) for inner in value] if isinstance(value, list) else value


def _data(value: Any) -> str:
    """JSON that no HTML parser takes for anything but text: ASCII, without the three characters that could end it."""
    return _encode(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("topiarist") / "drift" / "assets" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    return _asset("page.css")


@cache
def _script() -> str:
    """The library with its licence, and what is ours after it."""
    library = _asset("third-party/chart.umd.min.js")
    library = library[: library.index("//# sourceMappingURL=")]  # a file that is not there
    ours = "".join(map(_asset, _SCRIPTS))
    licence = _asset("third-party/chart.LICENSE.md")
    return f'/*!\n{licence}*/\n{library}(function () {{\n"use strict";\n{ours}}})();\n'


@cache
def _policy() -> str:
    """The Content-Security-Policy: this script and this style by their sums, an icon that is none, and no more."""
    script, style = (f"'sha256-{_sum(text)}'" for text in (_script(), _style()))
    rules = (f"script-src {script}", f"style-src {style}", "img-src data:", "base-uri 'none'", "form-action 'none'")
    return "; ".join(("default-src 'none'", *rules))


def _sum(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
