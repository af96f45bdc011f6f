"""The findings in a real report of a random fleet, in the form of ``independent_comparer``."""

from __future__ import annotations

from pathlib import Path

from support.drift.independent_comparer import CLASSES, Finding
from support.drift.random_fleets import Fleet
from support.drift.small_fleet import read_rows, run_drift


def report_findings(fleet: Fleet, folder: Path, *words: str) -> set[Finding]:
    """Report on a fleet, and return the findings of the classes that the comparer knows."""
    code = run_drift(fleet.write(folder), folder / "report", "-q", *words)
    rows = read_rows(folder / "report")
    # Anything else means that the fleet has invalid documents or rows, which the comparer does not know.
    assert code == int(any(row["class"] == "unknown" for row in rows))
    assert "invalid" not in {row["class"] for row in rows}
    values = ("cluster", "topic", "class", "field", "expected", "actual", "planned", "effect", "severity")
    found: list[Finding] = [
        (*(row[name] for name in values), row["risk"] if row["planned"] == "Change" else None)
        for row in rows
        if row["class"] in CLASSES
    ]
    assert len(found) == len(set(found))
    return set(found)
