"""The previous report: when each finding was first seen, how many are resolved, and the trend of counts.

``drift.report`` matches each cluster with it, and ``drift.summary`` adds the trend to the summary. A finding on a
cluster or topic that cannot be compared now is neither resolved nor confirmed. It is written to
``not-evaluated.jsonl``, so that the next report keeps the time when it was first seen.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topiarist.adapters.atomic_files import read_file
from topiarist.adapters.snapshots.codec import parse_time
from topiarist.drift.findings import UNCHANGED, DriftClass, FindingKey, FindingRow, finding_key
from topiarist.errors import Reason, TopiaristError
from topiarist.schema import load as load_
from topiarist.text import printable

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


FINDINGS_FILE, NOT_EVALUATED_FILE, SUMMARY_FILE = "findings.jsonl", "not-evaluated.jsonl", "summary.json"

MAX_REPORTS = 400
"""Number of reports in a trend: more than a year of daily reports."""


@dataclass(slots=True)
class PreviousReport:
    """The findings of an earlier report by cluster; empty if there is none.

    ``match_findings`` is called once per cluster and updates ``resolved`` and ``not_evaluated``.
    """

    as_of: str | None = None
    trend: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, dict[FindingKey, FindingRow]] = field(default_factory=dict)
    resolved: int = 0
    not_evaluated: list[FindingRow] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Return the number of findings on clusters that are not part of this run."""
        return sum(map(len, self.rows.values()))

    def match_findings(self, cluster: str, found: Collection[FindingRow]) -> None:
        """Match the findings of a cluster with the earlier ones: set first time, age and status.

        Earlier findings without a match are resolved, or not evaluated if the cluster or topic is unknown now.
        """
        unmatched = self.rows.pop(cluster, {})
        for row in found:
            if previous_row := unmatched.pop(finding_key(row), None):
                # The snapshot may be older than that of the previous report: the age must not be negative.
                row["firstSeen"] = min(previous_row["firstSeen"], row["takenAt"])
                age = parse_time(row["takenAt"]) - parse_time(row["firstSeen"])
                row["ageSeconds"] = int(age.total_seconds())
                row["status"] = UNCHANGED
        unknown_topics = {row["topic"] for row in found if row["class"] == DriftClass.UNKNOWN.value}
        for previous_row in unmatched.values():
            if "" in unknown_topics or previous_row["topic"] in unknown_topics:
                self.not_evaluated.append(previous_row)
            else:
                self.resolved += 1


def load_previous(folder: str) -> PreviousReport:
    """Read the report in ``folder``. Raises ``Unreadable`` if there is no report or it is incomplete."""
    where = Path(folder)
    summary = _parse_part(where / SUMMARY_FILE, read_file(str(where / SUMMARY_FILE)), "summary")
    rows: defaultdict[str, dict[FindingKey, FindingRow]] = defaultdict(dict)
    for name in (NOT_EVALUATED_FILE, FINDINGS_FILE):  # findings come last: they win if both files have a key
        for number, line in enumerate(read_file(str(where / name)).splitlines(), start=1):
            row = _parse_part(where / name, line, "finding", f":{number}")
            rows[row["cluster"]][finding_key(row)] = row
    return PreviousReport(summary["asOf"], summary["trend"], dict(rows))


def _parse_part(path: Path, data: bytes, kind: str, at: str = "") -> dict[str, Any]:
    """Parse a part of a report and check it by its schema. Raises ``Unreadable``."""
    try:
        value = json.loads(data)
        if isinstance(value, dict) and _validator(kind).is_valid(value):
            return value
    except (ValueError, RecursionError):  # also a number out of range, or text that is not Unicode
        pass
    message = f"{printable(str(path), 4096)}{at}: found no {kind} of a drift report"
    raise TopiaristError(Reason.UNREADABLE, message, "set --previous to the folder of an earlier report")


@cache
def _validator(kind: str) -> Draft7Validator:
    """Return a validator for one definition of the schema.

    jsonschema-rs cannot name the failed branch of a schema with alternatives, so that each definition is checked alone.
    """
    from jsonschema_rs import Draft7Validator

    definitions = load_.load_schema("drift")["definitions"]
    return Draft7Validator({**definitions[kind], "definitions": definitions})


def extend_trend(earlier: Iterable[dict[str, Any]], now: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the trend with this report appended, limited to ``MAX_REPORTS``.

    Earlier entries with the same or a later time are dropped, so that a repeated run changes nothing.
    """
    return [*(one for one in earlier if one["asOf"] < now["asOf"]), now][-MAX_REPORTS:]
