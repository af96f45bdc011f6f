"""The drift report as one self-contained HTML page that makes no network requests.

``drift.outputs.folder`` writes it as ``report.html``. Text from znodes and manifests is in JSON data blocks that
browsers do not run; the script of the page inserts it as text nodes only. As a second defense, a
Content-Security-Policy in the page allows no script, style or request but those written here.
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
"""Number of findings in a page."""

_MAX_CLUSTER_ROWS, _MAX_OTHER_ROWS, _MAX_VALUES = 2000, 100, 4
"""Number of rows of the heat map, rows of each other table, and values of a differing field."""

_SCRIPTS = ("data.js", "filter.js", "table.js", "heat.js", "overview.js", "charts.js", "main.js")
"""Script files, concatenated in this order into one script."""

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")

_encode_json = json.JSONEncoder(separators=(",", ":")).encode


def render_chunks(summary: Mapping[str, Any], findings: Path) -> Iterator[bytes]:
    """Yield the page of a report in chunks.

    ``findings`` is the path of ``findings.jsonl``, which is read while the chunks are consumed.
    """
    parts = {
        "policy": _content_security_policy(),
        "style": _read_style(),
        "script": _build_script(),
        "report": _encode_data(build_document(summary)),
    }
    for index, part in enumerate(_PLACEHOLDER.split(_read_asset("page.html"))):
        if index % 2 == 0:
            yield part.encode()
        elif part == "findings":
            yield from _findings_chunks(findings, summary)
        else:
            yield parts[part].encode()


def _findings_chunks(findings: Path, summary: Mapping[str, Any]) -> Iterator[bytes]:
    separator = "[\n"
    for row in html_sample.sample_file(findings, summary["byCluster"], MAX_FINDINGS):
        yield f"{separator}{_encode_data(row)}".encode()
        separator = ",\n"
    yield b"[]" if separator == "[\n" else b"\n]"


def build_document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the page except the findings, with a fixed limit on each of its lists."""
    class_schema = load.load_schema("drift")["definitions"]["class"]
    worst = sorted(summary["byCluster"], key=lambda one: (-one["findings"], one["cluster"]))
    drifted = [one for one in worst if one["findings"]]
    unknown = [one for one in summary["byCluster"] if one["problem"] is not None]
    copied_fields = ("asOf", "oldest", "previous", "owner", "clusters", "topics", "findings", "trend")
    differences = summary["crossClusterDifferences"]
    document: dict[str, Any] = _sanitize_texts(
        {
            **{name: summary[name] for name in copied_fields},
            "clean": len(worst) - len(drifted),
            "heat": _limit_rows(
                [_select_fields(one, "cluster", "findings", "byClass") for one in drifted], _MAX_CLUSTER_ROWS
            ),
            "unknown": _limit_rows([_select_fields(one, "cluster", "problem") for one in unknown]),
            "owners": _limit_rows(summary["byOwner"]),
            "crossClusterDifferences": _limit_rows([_difference_document(one) for one in differences["topics"]])
            | {"total": differences["total"]},
            "unbalanced": _limit_rows(summary["unbalanced"]),
            "inputs": {name: many if isinstance(many, int) else len(many) for name, many in summary["inputs"].items()},
        }
    )
    document["classes"] = dict(zip(class_schema["enum"], class_schema["enumDescriptions"], strict=True))
    return document | {"columns": html_sample.COLUMNS, "held": min(summary["findings"]["total"], MAX_FINDINGS)}


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
    """Return the value with all text made printable; keys are kept, because they are field names and classes."""
    if isinstance(value, str):
        return html_sample.sanitize_text(value)
    if isinstance(value, Mapping):
        return {name: _sanitize_texts(inner) for name, inner in value.items()}
    return [_sanitize_texts(inner) for inner in value] if isinstance(value, list) else value


def _encode_data(value: Any) -> str:
    """Return ASCII JSON without ``<``, ``>`` and ``&``, so that an HTML parser reads it as text only."""
    return _encode_json(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read_asset(name: str) -> str:
    return (files("topiarist") / "drift" / "outputs" / "assets" / name).read_text(encoding="utf-8")


@cache
def _read_style() -> str:
    return _read_asset("page.css")


@cache
def _build_script() -> str:
    """Return the chart library with its licence, followed by the scripts of the page."""
    library = _read_asset("third-party/chart.umd.min.js")
    library = library[: library.index("//# sourceMappingURL=")]  # the source map is not shipped
    scripts = "".join(map(_read_asset, _SCRIPTS))
    licence = _read_asset("third-party/chart.LICENSE.md")
    return f'/*!\n{licence}*/\n{library}(function () {{\n"use strict";\n{scripts}}})();\n'


@cache
def _content_security_policy() -> str:
    """Return the Content-Security-Policy, which allows this script and this style by hash, and data images."""
    script, style = (f"'sha256-{_sha256_base64(text)}'" for text in (_build_script(), _read_style()))
    rules = (f"script-src {script}", f"style-src {style}", "img-src data:", "base-uri 'none'", "form-action 'none'")
    return "; ".join(("default-src 'none'", *rules))


def _sha256_base64(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
