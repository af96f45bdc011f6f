"""Complaints about manifests, as text that editors and terminals can follow to its place, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from topiarist.errors import Complaint
from topiarist.render.page import plain

SHOWN = 100


def to_text(found: Sequence[Complaint], label: str = "error", *, more: int = 0) -> str:
    """One line each, ``file:line:column: error: message``, with what to do beneath; of many the first ones.

    ``more`` are those that somebody has only counted. Lines are not wrapped: whatever reads them takes a line as one
    message. Nothing at all if there is no complaint.
    """
    lines = []
    for complaint in found[:SHOWN]:
        lines.append(f"{plain(str(complaint.place))}: {label}: {_broken(complaint.message)}")
        if complaint.hint:
            lines.append(f"    {_broken(complaint.hint)}")
    if left := len(found[SHOWN:]) + more:
        lines.append(f"... and {left:,} more")
    return "".join(f"{line}\n" for line in lines)


def _broken(text: str) -> str:
    """Text of ours may have several lines; each is indented, and made plain by itself."""
    return "\n    ".join(map(plain, text.split("\n")))


def to_json(found: Sequence[Complaint], warnings: Sequence[Complaint] = (), *, more: int = 0) -> str:
    """Complaints and warnings: ``{"complaints": [{file, line, column, message, hint}], "more": 0, "warnings": [...]}``.

    Line and column are 0 where a complaint is about a file as a whole; ``more`` are complaints that were only counted.
    """
    content = {"complaints": [*map(_plain, found)], "more": more, "warnings": [*map(_plain, warnings)]}
    return json.dumps(content, indent=2) + "\n"


def _plain(complaint: Complaint) -> dict[str, str | int]:
    place = complaint.place
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "message": complaint.message,
        "hint": complaint.hint,
    }
