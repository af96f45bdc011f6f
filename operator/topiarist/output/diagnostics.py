"""Errors about manifests as text with locations that editors and terminals can follow, and as JSON.

``cli.terminal`` and ``cli.formats`` print them; ``output.ci`` has the formats for CI systems.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from topiarist.errors import Diagnostic
from topiarist.output.text.layout import sanitize

MAX_SHOWN = 100


def to_text(diagnostics: Sequence[Diagnostic], label: str = "error", *, suppressed_count: int = 0) -> str:
    """Return one line per error, ``file:line:column: error: message``, with its hint below.

    Only the first ``MAX_SHOWN`` errors are shown; the rest is counted together with ``suppressed_count``, the number of
    errors that the caller counted but did not keep. Lines are not wrapped: tools that parse them expect one line per
    message. Empty if there is no error.
    """
    lines = []
    for diagnostic in diagnostics[:MAX_SHOWN]:
        lines.append(f"{sanitize(str(diagnostic.location))}: {label}: {_indent_lines(diagnostic.message)}")
        if diagnostic.hint:
            lines.append(f"    {_indent_lines(diagnostic.hint)}")
    if hidden_count := len(diagnostics[MAX_SHOWN:]) + suppressed_count:
        lines.append(f"... and {hidden_count:,} more")
    return "".join(f"{line}\n" for line in lines)


def _indent_lines(text: str) -> str:
    return "\n    ".join(map(sanitize, text.split("\n")))


def to_json(errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic] = (), *, suppressed_count: int = 0) -> str:
    """Return ``{"errors": [{file, line, column, message, hint}], "more": 0, "warnings": [...]}``.

    Line and column are 0 if an error is about a file as a whole. ``suppressed_count`` errors were only counted.
    """
    content = {"errors": [*map(_to_dict, errors)], "more": suppressed_count, "warnings": [*map(_to_dict, warnings)]}
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
