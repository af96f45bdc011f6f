"""The previous report: when each finding was first seen, how many are resolved, and the trend of counts.

It comes from the folder of an earlier report, or from ``drift.history.runs``, which also remembers resolved findings.
``drift.report`` matches each cluster with it, and ``drift.summary`` adds the trend to the summary. A finding on a
cluster or topic that cannot be compared now, accepted or not, is neither resolved nor confirmed. It is written to
``not-evaluated.jsonl``, so that the next report keeps its times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from topiarist.adapters.atomic_files import read_file
from topiarist.adapters.snapshots.times import parse_time
from topiarist.drift.findings.finding import MANIFEST_CLASSES, DriftClass, FindingKey, FindingRow, finding_key
from topiarist.drift.findings.rows import UNCHANGED
from topiarist.errors import Reason, TopiaristError
from topiarist.schema import load as load_
from topiarist.text import printable

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


FINDINGS_FILE, NOT_EVALUATED_FILE, SUMMARY_FILE = "findings.jsonl", "not-evaluated.jsonl", "summary.json"
ACCEPTED_FILE, RESOLVED_FILE = "accepted.jsonl", "resolved.jsonl"

MAX_REPORTS = 400
"""Number of reports in a trend: more than a year of daily reports."""

REPAIR_DAYS = 30
"""Number of days before a report: findings resolved in them count for the time to repair."""


class EndedFinding(NamedTuple):
    """A finding that an earlier report had, and that the previous report no longer has.

    ``is_resolved`` is false if its cluster was not part of a run, so that its episode did not end.
    """

    first_seen: str
    seen_since: str
    episodes: int
    is_resolved: bool


class Repair(NamedTuple):
    """A resolved finding: its class, its responsible, and the seconds from ``seenSince`` to the report without it."""

    drift_class: str
    responsible: str | None
    seconds: int


RowsByCluster = dict[str, dict[FindingKey, FindingRow]]


class PreviousReport(Struct):
    """The findings of the previous report by cluster, and what a history knows of older ones; empty if there is none.

    ``match_findings`` is called once per cluster and fills ``resolved_rows`` and ``not_evaluated``. Accepted findings
    have an ``exception`` in their rows, and are in no count. ``repairs`` are those of the last ``REPAIR_DAYS`` before
    this report; None without a history.
    """

    as_of: str | None = None
    trend: list[dict[str, Any]] = field(default_factory=list)
    rows: RowsByCluster = field(default_factory=dict)
    accepted: RowsByCluster = field(default_factory=dict)
    ended: dict[FindingKey, EndedFinding] = field(default_factory=dict)
    repairs: Sequence[Repair] | None = None
    resolved_rows: list[FindingRow] = field(default_factory=list)
    not_evaluated: list[FindingRow] = field(default_factory=list)

    @property
    def dropped_rows(self) -> list[FindingRow]:
        """Return the rows of clusters that are not part of this run."""
        return [row for rows in (*self.rows.values(), *self.accepted.values()) for row in rows.values()]

    @property
    def dropped(self) -> int:
        """Return the number of findings of clusters that are not part of this run."""
        return count_findings(self.dropped_rows)

    def match_findings(
        self, cluster: str, found: Collection[FindingRow], is_unjudged: Callable[[str], bool] = lambda topic: False
    ) -> None:
        """Match the findings of a cluster with the earlier ones: set times, episodes, age and status.

        Earlier findings without a match are resolved, or not evaluated if the cluster is unknown now. ``is_unjudged``
        returns whether nothing is known of a topic, because its row or its manifest is invalid.
        """
        unmatched = self.accepted.pop(cluster, {}) | self.rows.pop(cluster, {})
        for row in found:
            key = finding_key(row)
            ended = self.ended.get(key)
            if earlier := unmatched.pop(key, None):
                _continue_episode(row, earlier["firstSeen"], earlier["seenSince"], earlier["episodes"])
            elif ended and not ended.is_resolved:
                _continue_episode(row, ended.first_seen, ended.seen_since, ended.episodes)
            elif ended:
                row["firstSeen"] = min(ended.first_seen, row["takenAt"])
                row["episodes"] = ended.episodes + 1
        is_unknown = any(row["class"] == DriftClass.UNKNOWN.value or _is_invalid_cluster(row) for row in found)
        for previous_row in unmatched.values():
            topic, is_manifest = previous_row["topic"], previous_row["class"] in MANIFEST_CLASSES
            if is_unknown or (topic and not is_manifest and is_unjudged(topic)):
                self.not_evaluated.append(previous_row)
            else:
                self.resolved_rows.append(previous_row)


def _continue_episode(row: FindingRow, first_seen: str, seen_since: str, episodes: int) -> None:
    # The snapshot may be older than that of the previous report: the age must not be negative.
    row["firstSeen"] = min(first_seen, row["takenAt"])
    row["seenSince"] = min(seen_since, row["takenAt"])
    row["episodes"] = episodes
    row["ageSeconds"] = seconds_between(row["seenSince"], row["takenAt"])
    row["status"] = UNCHANGED


def seconds_between(start: str, end: str) -> int:
    """Return the seconds from one time of a report to another, at least 0."""
    return max(int((parse_time(end) - parse_time(start)).total_seconds()), 0)


def count_findings(rows: Iterable[FindingRow]) -> int:
    """Return the number of rows that no exception accepted."""
    return sum("exception" not in row for row in rows)


def _is_invalid_cluster(row: FindingRow) -> bool:
    return bool(row["class"] == DriftClass.INVALID.value and row["cluster"])


def load_previous(folder: str) -> PreviousReport:
    """Read the report in ``folder``. Raises ``Unreadable`` if there is no report or it is incomplete."""
    where = Path(folder)
    summary = _parse_part(where / SUMMARY_FILE, read_file(str(where / SUMMARY_FILE)), "summary")
    previous = PreviousReport(summary["asOf"], summary["trend"])
    # Findings come last: they win if several files have a key.
    for name, kinds in {
        NOT_EVALUATED_FILE: "finding accepted",
        ACCEPTED_FILE: "accepted",
        FINDINGS_FILE: "finding",
    }.items():
        for number, line in enumerate(read_file(str(where / name)).splitlines(), start=1):
            add_previous_row(previous, _parse_part(where / name, line, kinds, f":{number}"))
    return previous


def add_previous_row(previous: PreviousReport, row: FindingRow) -> None:
    """Add a finding or an accepted finding of the previous report; it replaces an earlier one with its key."""
    others, rows = previous.accepted, previous.rows
    if "exception" in row:
        others, rows = rows, others
    rows.setdefault(row["cluster"], {})[finding_key(row)] = row
    others.get(row["cluster"], {}).pop(finding_key(row), None)


def _parse_part(path: Path, data: bytes, kinds: str, at: str = "") -> dict[str, Any]:
    """Parse a part of a report and check it by the schema of one of its kinds. Raises ``Unreadable``."""
    try:
        value = json.loads(data)
        if isinstance(value, dict) and any(_validator(kind).is_valid(value) for kind in kinds.split()):
            return value
    except (ValueError, RecursionError):  # also a number out of range, or text that is not Unicode
        pass
    message = f"{printable(str(path), 4096)}{at}: found no {kinds.split()[0]} of a drift report"
    hint = "set --previous to a report that this version wrote, or omit it: then all findings are new"
    raise TopiaristError(Reason.UNREADABLE, message, hint)


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
