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

from topiarist.drift.outputs import html_sample
from topiarist.schema import load

MAX_FINDINGS = 20_000
"""Findings that a page holds."""

_MAX_CLUSTER_ROWS, _MAX_OTHER_ROWS, _MAX_VALUES = 2000, 100, 4
"""Rows of the heat map, rows of the other tables, and values of an uneven field."""

_SCRIPTS = ("data.js", "filter.js", "table.js", "heat.js", "overview.js", "charts.js", "main.js")
"""In this order they are one script."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")

_encode_json = json.JSONEncoder(separators=(",", ":")).encode


def render_chunks(summary: Mapping[str, Any], findings: Path) -> Iterator[bytes]:
    """The page of a report, in pieces; ``findings`` is its ``findings.jsonl``, which is read while they are taken."""
    parts = {
        "policy": _content_security_policy(),
        "style": _read_style(),
        "script": _build_script(),
        "report": _encode_data(build_document(summary)),
    }
    for at, piece in enumerate(_PLACEHOLDER.split(_read_asset("page.html"))):
        if at % 2 == 0:
            yield piece.encode()
        elif piece == "findings":
            yield from _findings_chunks(findings, summary)
        else:
            yield parts[piece].encode()


def _findings_chunks(findings: Path, summary: Mapping[str, Any]) -> Iterator[bytes]:
    between = "[\n"
    for row in html_sample.sample_file(findings, summary["byCluster"], MAX_FINDINGS):
        yield f"{between}{_encode_data(row)}".encode()
        between = ",\n"
    yield b"[]" if between == "[\n" else b"\n]"


def build_document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says beside the findings themselves; nothing in it grows with the fleet beyond a bound."""
    kinds = load.load_schema("drift")["definitions"]["class"]
    worst = sorted(summary["byCluster"], key=lambda one: (-one["findings"], one["cluster"]))
    drifted = [one for one in worst if one["findings"]]
    unknown = [one for one in summary["byCluster"] if one["problem"] is not None]
    plain = ("asOf", "oldest", "previous", "owner", "clusters", "topics", "findings", "trend")
    found: dict[str, Any] = _sanitize_texts(
        {
            **{name: summary[name] for name in plain},
            "clean": len(worst) - len(drifted),
            "heat": _limit_rows(
                [_select_fields(one, "cluster", "findings", "byClass") for one in drifted], _MAX_CLUSTER_ROWS
            ),
            "unknown": _limit_rows([_select_fields(one, "cluster", "problem") for one in unknown]),
            "owners": _limit_rows(summary["byOwner"]),
            "uneven": _limit_rows([_difference_document(one) for one in summary["uneven"]["topics"]])
            | {"total": summary["uneven"]["total"]},
            "unbalanced": _limit_rows(summary["unbalanced"]),
            "inputs": {name: many if isinstance(many, int) else len(many) for name, many in summary["inputs"].items()},
        }
    )
    found["classes"] = dict(zip(kinds["enum"], kinds["enumDescriptions"], strict=True))
    return found | {"columns": html_sample.COLUMNS, "held": min(summary["findings"]["total"], MAX_FINDINGS)}


def _limit_rows(rows: Sequence[Any], max_rows: int = _MAX_OTHER_ROWS) -> dict[str, Any]:
    return {"total": len(rows), "rows": rows[:max_rows]}


def _select_fields(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _difference_document(difference: Mapping[str, Any]) -> dict[str, Any]:
    values = [{"value": value["value"], "clusters": value["number"]} for value in difference["values"][:_MAX_VALUES]]
    return {
        **_select_fields(difference, "topic", "field"),
        "values": values,
        "more": len(difference["values"]) - len(values),
    }


def _sanitize_texts(value: Any) -> Any:
    """The same with all text made visible; names of fields are ours, but for those of classes."""
    if isinstance(value, str):
        return html_sample.sanitize_text(value)
    if isinstance(value, Mapping):
        return {name: _sanitize_texts(inner) for name, inner in value.items()}
    return [_sanitize_texts(inner) for inner in value] if isinstance(value, list) else value


def _encode_data(value: Any) -> str:
    """JSON that no HTML parser takes for anything but text: ASCII, without the three characters that could end it."""
    return _encode_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read_asset(name: str) -> str:
    return (files("topiarist") / "drift" / "outputs" / "assets" / name).read_text(encoding="utf-8")


@cache
def _read_style() -> str:
    return _read_asset("page.css")


@cache
def _build_script() -> str:
    """The library with its licence, and what is ours after it."""
    library = _read_asset("third-party/chart.umd.min.js")
    library = library[: library.index("//# sourceMappingURL=")]  # a file that is not there
    ours = "".join(map(_read_asset, _SCRIPTS))
    licence = _read_asset("third-party/chart.LICENSE.md")
    return f'/*!\n{licence}*/\n{library}(function () {{\n"use strict";\n{ours}}})();\n'


@cache
def _content_security_policy() -> str:
    """The Content-Security-Policy: this script and this style by their sums, an icon that is none, and no more."""
    script, style = (f"'sha256-{_sha256_base64(text)}'" for text in (_build_script(), _read_style()))
    rules = (f"script-src {script}", f"style-src {style}", "img-src data:", "base-uri 'none'", "form-action 'none'")
    return "; ".join(("default-src 'none'", *rules))


def _sha256_base64(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
