"""Baselines: one file with the findings of a day, which are accepted until another day.

``cli.drift_fix`` writes a baseline from a report (``--fix baseline``), and a report reads it (``--baseline``). It is no
kind of manifest: the findings of a fleet would be read as YAML by every command. The first line says who accepts them,
why and until when; each other line is a finding as it was. ``drift.exceptions`` accepts the findings that are no worse.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import Struct

from topiarist.adapters.atomic_files import read_file
from topiarist.drift.exceptions import DriftException
from topiarist.drift.findings import NEVER_ACCEPTED, FindingRow, FindingSelection, finding_key
from topiarist.drift.history import RowsByCluster, parse_part
from topiarist.drift.repair import Unfixed
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable

KIND = "DriftBaseline"

NAME = "baseline"
"""The name of the baseline in rows, in place of that of an exception."""

_FIELDS = ("cluster", "topic", "class", "field", "expected", "actual", "effect")

_HINT = "set --baseline to a file that drift --fix baseline wrote"


class Baseline(Struct, frozen=True):
    """A baseline: its first line as an exception that fits no finding by itself, and its findings by cluster."""

    header: DriftException
    rows: RowsByCluster


def format_baseline(rows: Iterable[FindingRow], *, author: str, until: str, reason: str) -> tuple[str, list[Unfixed]]:
    """Return the text of a baseline, and the findings that it cannot accept.

    Its findings are in order of cluster, topic, class and field. ``until`` is the last day, such as ``2027-03-31``.
    """
    rows = sorted(rows, key=finding_key)
    why = "it is about a document, or a cluster that was not read: nothing accepts it"
    unfixed = [Unfixed(row, why) for row in rows if row["class"] in NEVER_ACCEPTED]
    kept = ({name: row[name] for name in _FIELDS} for row in rows if row["class"] not in NEVER_ACCEPTED)
    header = {"kind": KIND, "formatVersion": 1, "author": author, "reason": reason, "until": until}
    return "".join(f"{json.dumps(each)}\n" for each in (header, *kept)), unfixed


def load_baseline(path: str) -> Baseline:
    """Read a baseline. Raises ``Unreadable`` with the line of what is no finding of one, or is there twice."""
    where = Path(path)
    first, *lines = read_file(path).splitlines() or [b""]
    header = parse_part(where, first, "baseline", ":1", _HINT)
    try:
        date.fromisoformat(header["until"])
    except ValueError:
        message = f"{printable(path, 4096)}:1: until: found {header['until']}, wanted a day of the calendar"
        raise TopiaristError(Reason.UNREADABLE, message) from None
    rows: RowsByCluster = {}
    for number, line in enumerate(lines, start=2):
        row: dict[str, Any] = parse_part(where, line, "baselineFinding", f":{number}", _HINT)
        found = rows.setdefault(row["cluster"], {})
        if (earlier := found.setdefault(finding_key(row), row | {"line": number}))["line"] != number:
            message = f"{printable(path, 4096)}:{number}: found the finding of line {earlier['line']} again"
            raise TopiaristError(Reason.UNREADABLE, message, "remove one of the two lines")
    given = {name: header[name] for name in ("author", "reason", "until")}
    return Baseline(DriftException(NAME, FindingSelection(), **given, file=path, line=1, labels={}), rows)
