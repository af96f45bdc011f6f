"""The report before this one: since when a finding is known, which have gone, and how many there were each time.

A finding of a cluster that cannot be compared now is neither gone nor there: it is kept in ``unseen.jsonl``, so that
the next report still knows since when it is known.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topiarist.adapters.atomic_files import read_file
from topiarist.adapters.snapshots.codec import parse_time
from topiarist.drift.findings import DriftClass
from topiarist.drift.rows import UNCHANGED, FindingKey, FindingRow, finding_key
from topiarist.errors import Reason, TopiaristError
from topiarist.schema import load as load_
from topiarist.text import printable

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


FINDINGS_FILE, NOT_EVALUATED_FILE, SUMMARY_FILE = "findings.jsonl", "unseen.jsonl", "summary.json"

MAX_REPORTS = 400
"""Reports that a trend has: more than a year of days."""


@dataclass(slots=True)
class PreviousReport:
    """The findings of an earlier report by cluster; empty if there is none. ``settle`` is called once a cluster."""

    as_of: str | None = None
    trend: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, dict[FindingKey, FindingRow]] = field(default_factory=dict)
    resolved: int = 0
    not_evaluated: list[FindingRow] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Findings on clusters that were not asked for."""
        return sum(map(len, self.rows.values()))

    def match_findings(self, cluster: str, found: Collection[FindingRow]) -> None:
        """Give the findings of a cluster their first time, and settle what the earlier report had beyond them."""
        before = self.rows.pop(cluster, {})
        for row in found:
            if old := before.pop(finding_key(row), None):
                # A snapshot that is older than that of the report before is no reason to be younger than nothing.
                row["firstSeen"] = min(old["firstSeen"], row["takenAt"])
                row["ageSeconds"] = _seconds_between(row["firstSeen"], row["takenAt"])
                row["status"] = UNCHANGED
        blind = {row["topic"] for row in found if row["class"] == DriftClass.UNKNOWN.value}
        for old in before.values():
            if "" in blind or old["topic"] in blind:
                self.not_evaluated.append(old)
            else:
                self.resolved += 1


def load_previous(folder: str) -> PreviousReport:
    """The report in ``folder``. Raises ``Unreadable`` if there is none, or if it is not whole."""
    where = Path(folder)
    summary = _parse_part(where / SUMMARY_FILE, read_file(str(where / SUMMARY_FILE)), "summary")
    rows: defaultdict[str, dict[FindingKey, FindingRow]] = defaultdict(dict)
    for name in (NOT_EVALUATED_FILE, FINDINGS_FILE):  # what is seen counts, should both have it
        for row in _read_rows(where / name):
            rows[row["cluster"]][finding_key(row)] = row
    return PreviousReport(summary["asOf"], summary["trend"], dict(rows))


def _read_rows(path: Path) -> Iterator[FindingRow]:
    for number, line in enumerate(read_file(str(path)).splitlines(), start=1):
        yield _parse_part(path, line, "finding", f":{number}")


def _parse_part(path: Path, data: bytes, kind: str, at: str = "") -> dict[str, Any]:
    """A part of a report, by its schema. Raises ``Unreadable``."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not _is_valid(kind, value):
        message = f"{printable(str(path), 4096)}{at}: found no {kind} of a drift report"
        raise TopiaristError(Reason.UNREADABLE, message, "give --previous the folder that an earlier run wrote")
    return value


def _is_valid(kind: str, value: dict[str, Any]) -> bool:
    try:
        return _validator(kind).is_valid(value)
    except ValueError:  # a number that is out of all bounds, or text that is no Unicode
        return False


@cache
def _validator(kind: str) -> Draft7Validator:
    """By one definition of the schema: jsonschema-rs would not say which of several choices was meant."""
    from jsonschema_rs import Draft7Validator

    definitions = load_.load_schema("drift")["definitions"]
    return Draft7Validator({**definitions[kind], "definitions": definitions})


def extend_trend(earlier: Iterable[dict[str, Any]], now: dict[str, Any]) -> list[dict[str, Any]]:
    """The earlier reports and this one; one of the same moment is replaced, so that a second run changes nothing."""
    return [*(one for one in earlier if one["asOf"] < now["asOf"]), now][-MAX_REPORTS:]


def _seconds_between(first: str, last: str) -> int:
    return int((parse_time(last) - parse_time(first)).total_seconds())
