"""The history of a fleet: the findings of all runs, the runs, and the topics of teams, in three tables.

``cli.commands.drift`` loads the previous report from it and appends each run, with ``--history``. A run with the time
of an earlier run replaces it. The run is written after its findings: findings without a run do not count.
``drift.parquet`` stores the tables in local files, ``drift.spark.outputs`` wherever Spark can. Both have one
layout, which ``docs/internals/drift-reports.md`` describes.

A run has each finding with its state: found (``New``, ``Unchanged``), ``NotEvaluated``, ``Resolved``, or ``Dropped``
because its cluster was not part of the run. Therefore a run needs only the rows of the last run before it, and of older
runs the rows of findings that ended.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from topiarist.adapters.atomic_files import read_file
from topiarist.adapters.snapshots.codec import format_time, parse_time
from topiarist.drift.findings import MANIFEST_CLASSES, DriftClass, FindingKey, FindingRow, finding_key
from topiarist.drift.rows import UNCHANGED, WORSE, is_worse
from topiarist.errors import Reason, TopiaristError
from topiarist.planning.risk import NO_FACTS, TopicFacts
from topiarist.schema import load as load_
from topiarist.text import printable_path

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


# The previous report: when each finding was first seen, how many are resolved, and the trend of counts.
#
# It comes from the folder of an earlier report, or from ``RunHistory``, which also remembers resolved findings.
# ``drift.report`` matches each cluster with it, and ``SummaryBuilder`` adds the trend to the summary. A finding on a
# cluster or topic that cannot be compared now, accepted or not, is neither resolved nor confirmed. It is written to
# ``not-evaluated.jsonl``, so that the next report keeps its times.

FINDINGS_FILE, NOT_EVALUATED_FILE, SUMMARY_FILE = "findings.jsonl", "not-evaluated.jsonl", "summary.json"
ACCEPTED_FILE, RESOLVED_FILE = "accepted.jsonl", "resolved.jsonl"

MAX_REPORTS = 400
"""Number of reports in a trend: more than a year of daily reports."""

REPAIR_DAYS = 30
"""Number of days before a report: findings resolved in them count for the time to repair."""


class EndedFinding(NamedTuple):
    """A finding that an earlier report had, and that the previous report no longer has.

    ``is_resolved`` is false if its cluster was not part of a run, so that its episode did not end. ``accepted_seconds``
    of the episode were accepted.
    """

    first_seen: str
    seen_since: str
    episodes: int
    is_resolved: bool
    accepted_seconds: int = 0


class Repair(NamedTuple):
    """A resolved finding: its class, its responsible, and the seconds from ``seenSince`` to the report without it.

    Seconds in which an exception or a baseline accepted the finding do not count.
    """

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
        self,
        cluster: str,
        found: Collection[FindingRow],
        is_unjudged: Callable[[str], bool] = lambda topic: False,
        find_facts: Callable[[str], TopicFacts] = lambda topic: NO_FACTS,
    ) -> None:
        """Match the findings of a cluster with the earlier ones: set times, episodes, age and status.

        Earlier findings without a match are resolved, or not evaluated if the cluster is unknown now. ``is_unjudged``
        returns whether nothing is known of a topic, because its row or its manifest is invalid; ``find_facts`` returns
        what is known of the others.
        """
        unmatched = self.accepted.pop(cluster, {}) | self.rows.pop(cluster, {})
        for row in found:
            key = finding_key(row)
            ended = self.ended.get(key)
            if earlier := unmatched.pop(key, None):
                _continue_episode(row, earlier["firstSeen"], earlier["seenSince"], earlier["episodes"])
                row["acceptedSeconds"] = earlier.get("acceptedSeconds") or 0
                if "exception" in earlier:
                    row["acceptedSeconds"] += seconds_between(earlier["takenAt"], row["takenAt"])
                if is_worse(row, earlier, find_facts(row["topic"])):
                    row["status"] = WORSE
            elif ended and not ended.is_resolved:
                _continue_episode(row, ended.first_seen, ended.seen_since, ended.episodes)
                row["acceptedSeconds"] = ended.accepted_seconds
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


def name_pending(name: str) -> str:
    """Return the name of a complete report that is still to replace the folder ``name`` beside it."""
    return f".topiarist-next-{name[:200]}"


def find_report(folder: str) -> Path:
    """Return the newest complete report in or for a folder: a run may have died while it published the report."""
    target = Path(folder).resolve()
    pending = target.with_name(name_pending(target.name))
    return pending if pending.is_dir() else Path(folder)


def load_previous(folder: str) -> PreviousReport:
    """Read the report in ``folder``. Raises ``Unreadable`` if there is no report or it is incomplete."""
    where = find_report(folder)
    summary = parse_part(where / SUMMARY_FILE, read_file(str(where / SUMMARY_FILE)), "summary")
    previous = PreviousReport(summary["asOf"], summary["trend"])
    # Findings come last: they win if several files have a key.
    for name, kinds in {
        NOT_EVALUATED_FILE: "finding accepted",
        ACCEPTED_FILE: "accepted",
        FINDINGS_FILE: "finding",
    }.items():
        for number, line in enumerate(read_file(str(where / name)).splitlines(), start=1):
            add_previous_row(previous, parse_part(where / name, line, kinds, f":{number}"))
    return previous


def read_findings(folder: str) -> list[FindingRow]:
    """Return the findings of a report, in order. Raises ``Unreadable`` if there is no report or it is incomplete."""
    where = find_report(folder) / FINDINGS_FILE
    lines = enumerate(read_file(str(where)).splitlines(), start=1)
    return [parse_part(where, line, "finding", f":{number}") for number, line in lines]


def add_previous_row(previous: PreviousReport, row: FindingRow) -> None:
    """Add a finding or an accepted finding of the previous report; it replaces an earlier one with its key."""
    others, rows = previous.accepted, previous.rows
    if "exception" in row:
        others, rows = rows, others
    rows.setdefault(row["cluster"], {})[finding_key(row)] = row
    others.get(row["cluster"], {}).pop(finding_key(row), None)


_PARTS = {
    "accepted": "accepted finding of a drift report",
    "baseline": "first line of a baseline",
    "baselineFinding": "finding of a baseline",
}
"""The names of parts that are not those of their kind."""

_HINT = "set --previous to a report that this version wrote, or omit it: then all findings are new"


def parse_part(path: Path, data: bytes, kinds: str, at: str = "", hint: str = _HINT) -> dict[str, Any]:
    """Parse a part of a report and check it by the schema of one of its kinds. Raises ``Unreadable`` with a hint."""
    try:
        value = json.loads(data)
        if isinstance(value, dict) and any(_validator(kind).is_valid(value) for kind in kinds.split()):
            return value
    except (ValueError, RecursionError):  # also a number out of range, or text that is not Unicode
        pass
    kind = kinds.split()[0]
    wanted = _PARTS.get(kind, f"{kind} of a drift report")
    message = f"{printable_path(path)}{at}: found no {wanted}"
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


FINDINGS_TABLE, RUNS_TABLE, TEAMS_TABLE = "findings", "runs", "teams"

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

TEAM_COLUMNS: Mapping[str, str] = {RUN_TIME: "time", "responsible": "text", "topics": "count", "inStep": "count"}
"""The columns of the table of teams: their compared topics in each run, and those without a finding that counts."""

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

TREND_COLUMNS = (RUN_TIME, "findings", "new", "resolved", "byClass", "unknownClusters")

ENDED_COLUMNS = (
    *(RUN_TIME, "status", "cluster", "topic", "class", "field", "firstSeen", "seenSince", "episodes"),
    *("ageSeconds", "acceptedSeconds", "responsible", "exception"),
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
        trend = [
            {"asOf": row.pop(RUN_TIME), "unknown": len(row.pop("unknownClusters")), **row}
            for row in self.read_runs(times[-MAX_REPORTS:])
        ]
        previous = PreviousReport(times[-1], trend)
        oldest, recent = (
            format_time(parse_time(as_of) - timedelta(days=days)) for days in (MAX_MEMORY_DAYS, REPAIR_DAYS)
        )
        repairs = []
        for row in self.read_ended([time for time in times if time >= oldest]):
            is_resolved = row["status"] == RESOLVED
            accepted = row["acceptedSeconds"] or 0
            ended = EndedFinding(row["firstSeen"], row["seenSince"], row["episodes"], is_resolved, accepted)
            previous.ended[finding_key(row)] = ended
            if is_resolved and row["exception"] is None and row[RUN_TIME] >= recent:
                repairs.append(Repair(row["class"], row["responsible"], row["ageSeconds"] - accepted))
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
        self.write_teams(summary["asOf"], summary["inStep"])
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
    def write_teams(self, time: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the topics of each team in a run; they replace those of the same time."""

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
