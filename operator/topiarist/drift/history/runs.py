"""The history of a fleet: the findings of all runs, and the runs, in two tables.

``cli.commands.drift`` loads the previous report from it and appends each run, with ``--history``. A run with the time
of an earlier run replaces it. The run is written after its findings: findings without a run do not count.
``drift.history.parquet`` stores the tables in local files, ``drift.spark.history`` wherever Spark can. Both have one
layout, which ``docs/drift.md`` describes.

A run has each finding with its state: found (``New``, ``Unchanged``), ``NotEvaluated``, ``Resolved``, or ``Dropped``
because its cluster was not part of the run. Therefore a run needs only the rows of the last run before it, and of older
runs the rows of findings that ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from topiarist.adapters.snapshots.codec import format_time, parse_time
from topiarist.drift.findings.finding import FindingRow, finding_key
from topiarist.drift.findings.rows import UNCHANGED
from topiarist.drift.history.previous import (
    ACCEPTED_FILE,
    FINDINGS_FILE,
    MAX_REPORTS,
    NOT_EVALUATED_FILE,
    REPAIR_DAYS,
    RESOLVED_FILE,
    EndedFinding,
    PreviousReport,
    Repair,
    add_previous_row,
)

FINDINGS_TABLE, RUNS_TABLE = "findings", "runs"

RUN_TIME = "runAt"
"""The column with ``asOf`` of a run: that name is a keyword in some dialects of SQL."""

RUN_COLUMNS: Mapping[str, str] = {
    RUN_TIME: "time",
    "owner": "text",
    "clusters": "texts",
    "unknownClusters": "texts",
    "incompleteClusters": "texts",
    "topicsDeclared": "count",
    "topicsCompared": "count",
    "findings": "count",
    "new": "count",
    "resolved": "count",
    "byClass": "counts",
}
"""The columns of the table of runs, each with the kind of its values."""

NOT_EVALUATED, RESOLVED, DROPPED = "NotEvaluated", "Resolved", "Dropped"
"""States of findings that a run did not find, in the column ``status``."""

STATE_BY_FILE: Mapping[str, str | None] = {
    FINDINGS_FILE: None,
    ACCEPTED_FILE: None,
    NOT_EVALUATED_FILE: NOT_EVALUATED,
    RESOLVED_FILE: RESOLVED,
}
"""The files of a report with findings, and the state of their rows; None for rows that have it already."""

MAX_MEMORY_DAYS = 400
"""Days for which a resolved finding keeps the time when it was first seen."""

TIME_COLUMNS = frozenset({RUN_TIME, "takenAt", "firstSeen", "seenSince"})

TREND_COLUMNS = (RUN_TIME, "findings", "new", "resolved", "byClass")

ENDED_COLUMNS = (
    *(RUN_TIME, "status", "cluster", "topic", "class", "field", "firstSeen", "seenSince", "episodes"),
    *("ageSeconds", "responsible", "exception"),
)


class RunHistory(ABC):
    """The tables of a history, which need not exist.

    Each method raises ``TopiaristError``: Unreadable for a table of another program, Unwritable if it cannot be
    written. In rows, times are text as in a report.
    """

    def load_previous(self, as_of: str) -> PreviousReport:
        """Return what the runs before a time say of the next one; a run at that time or later is left out."""
        times = [time for time in self.list_times() if time < as_of]
        if not times:
            return PreviousReport(repairs=())
        trend = ({"asOf": row.pop(RUN_TIME), **row} for row in self.read_runs(times[-MAX_REPORTS:]))
        previous = PreviousReport(times[-1], [*trend])
        oldest, recent = (
            format_time(parse_time(as_of) - timedelta(days=days)) for days in (MAX_MEMORY_DAYS, REPAIR_DAYS)
        )
        repairs = []
        for row in self.read_ended([time for time in times if time >= oldest]):
            is_resolved = row["status"] == RESOLVED
            ended = EndedFinding(row["firstSeen"], row["seenSince"], row["episodes"], is_resolved)
            previous.ended[finding_key(row)] = ended
            if is_resolved and row["exception"] is None and row[RUN_TIME] >= recent:
                repairs.append(Repair(row["class"], row["responsible"], row["ageSeconds"]))
        previous.repairs = repairs
        for row in self.read_findings(times[-1]):
            if row["status"] not in (RESOLVED, DROPPED):
                left_out = {RUN_TIME, *(["exception"] if row["exception"] is None else [])}
                kept = {name: value for name, value in row.items() if name not in left_out}
                add_previous_row(previous, kept | {"status": UNCHANGED})
        return previous

    def append(self, report: str, summary: Mapping[str, Any], previous: PreviousReport) -> None:
        """Add the run of a published report; ``previous`` has only the findings of clusters outside the run."""
        dropped = [row | {"status": DROPPED} for row in previous.dropped_rows]
        self.write_findings(summary["asOf"], report, dropped)
        self.write_run(_make_run_row(summary))

    @abstractmethod
    def list_times(self) -> list[str]:
        """Return the times of all runs, in order."""

    @abstractmethod
    def read_runs(self, times: Sequence[str]) -> Iterable[dict[str, Any]]:
        """Return ``TREND_COLUMNS`` of the runs with these times, in order."""

    @abstractmethod
    def read_ended(self, times: Sequence[str]) -> Iterable[dict[str, Any]]:
        """Return ``ENDED_COLUMNS`` of the findings that ended in the runs with these times, in order of time."""

    @abstractmethod
    def read_findings(self, time: str) -> Iterable[dict[str, Any]]:
        """Return the findings of the run with this time."""

    @abstractmethod
    def write_findings(self, time: str, report: str, dropped: Sequence[FindingRow]) -> None:
        """Write the findings of a report, with those that it resolved or dropped; they replace those of the same time.

        The age of a resolved finding is that at its end.
        """

    @abstractmethod
    def write_run(self, row: Mapping[str, Any]) -> None:
        """Write a run; it replaces the run of the same time."""


def _make_run_row(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a run from the summary of its report."""
    clusters, topics, findings = summary["byCluster"], summary["topics"], summary["findings"]
    return {
        RUN_TIME: summary["asOf"],
        "owner": summary["owner"],
        "clusters": [one["cluster"] for one in clusters if one["problem"] is None],
        "unknownClusters": [one["cluster"] for one in clusters if one["problem"] is not None],
        "incompleteClusters": [one["cluster"] for one in clusters if one["incomplete"]],
        "topicsDeclared": topics["declared"],
        "topicsCompared": topics["compared"],
        "findings": findings["total"],
        "new": findings["new"],
        "resolved": findings["resolved"],
        "byClass": findings["byClass"],
    }
