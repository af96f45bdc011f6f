"""Complaints about manifests, as text that editors and terminals can follow to its place, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from topiarist.errors import Diagnostic
from topiarist.output.text.layout import sanitize

MAX_SHOWN = 100


def to_text(diagnostics: Sequence[Diagnostic], label: str = "error", *, suppressed_count: int = 0) -> str:
    """One line each, ``file:line:column: error: message``, with what to do beneath; of many the first ones.

    ``suppressed_count`` are those that somebody has only counted. Lines are not wrapped: whatever reads them takes a
    line as one message. Nothing at all if there is no complaint.
    """
    lines = []
    for complaint in diagnostics[:MAX_SHOWN]:
        lines.append(f"{sanitize(str(complaint.location))}: {label}: {_indent_lines(complaint.message)}")
        if complaint.hint:
            lines.append(f"    {_indent_lines(complaint.hint)}")
    if left := len(diagnostics[MAX_SHOWN:]) + suppressed_count:
        lines.append(f"... and {left:,} more")
    return "".join(f"{line}\n" for line in lines)


def _indent_lines(text: str) -> str:
    """Text of ours may have several lines; each is indented, and made plain by itself."""
    return "\n    ".join(map(sanitize, text.split("\n")))


def to_json(errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic] = (), *, suppressed_count: int = 0) -> str:
    """Complaints and warnings: ``{"complaints": [{file, line, column, message, hint}], "more": 0, "warnings": [...]}``.

    Line and column are 0 where a complaint is about a file as a whole; ``suppressed_count`` are complaints that were
    only counted.
    """
    content = {"complaints": [*map(_to_dict, errors)], "more": suppressed_count, "warnings": [*map(_to_dict, warnings)]}
    return json.dumps(content, indent=2) + "\n"


def _to_dict(diagnostic: Diagnostic) -> dict[str, str | int]:
    place = diagnostic.location
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
    }
