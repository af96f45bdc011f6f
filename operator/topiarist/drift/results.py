"""The result of one cluster: plain values that a worker returns to the process that writes the report.

``drift.task`` makes them, the runners pass them on, and ``drift.summary`` adds them up. The lines of the report's files
are encoded where the cluster was compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from topiarist.drift.checks.cross_cluster import Deviation
from topiarist.drift.compare import TopicCounts
from topiarist.drift.findings.finding import FindingRow
from topiarist.drift.findings.rows import NEW
from topiarist.drift.history.previous import ACCEPTED_FILE, FINDINGS_FILE, NOT_EVALUATED_FILE, RESOLVED_FILE, Repair
from topiarist.drift.upgrade import ClusterUpgrade

INVALID_ROWS_FILE = "broken.jsonl"

LINE_FILES = (FINDINGS_FILE, ACCEPTED_FILE, NOT_EVALUATED_FILE, RESOLVED_FILE, INVALID_ROWS_FILE)
"""The files of a report with one line for each row."""

Counts = Counter[str]

_COUNTED_FIELDS = ("class", "planned", "risk", "severity", "status")

_OLDEST_FIELDS = ("firstSeen", "cluster", "topic", "class")


class ResponsibleCounts(Struct):
    """The findings of one team or owner."""

    new: int = 0
    by_class: Counts = field(default_factory=Counter)
    by_severity: Counts = field(default_factory=Counter)


class FindingCounts(Struct):
    """The findings of some clusters in numbers; ``oldest`` is the finding that was first seen earliest.

    ``by`` has numbers by value of some fields, and ``matched_exceptions`` the exceptions that match a finding, by their
    position in the run. ``not_evaluated`` and ``repairs`` are findings of the previous report:
    those that could not be evaluated again, and those that were resolved.
    """

    by: dict[str, Counts] = field(default_factory=lambda: {name: Counter() for name in _COUNTED_FIELDS})
    reasons: Counts = field(default_factory=Counter)
    owners: defaultdict[str | None, Counts] = field(default_factory=lambda: defaultdict(Counter))
    responsible: defaultdict[str | None, ResponsibleCounts] = field(
        default_factory=lambda: defaultdict(ResponsibleCounts)
    )
    oldest: dict[str, Any] | None = None
    accepted: Counts = field(default_factory=Counter)
    matched_exceptions: frozenset[int] = frozenset()
    not_evaluated: int = 0
    repairs: list[Repair] = field(default_factory=list)

    def add_rows(self, rows: Iterable[FindingRow]) -> None:
        """Count rows that already have a status, in their order."""
        for row in rows:
            for name, numbers in self.by.items():
                if row[name] is not None:
                    numbers[row[name]] += 1
            self.reasons.update(row["reasons"])
            if row["topic"]:
                self.owners[row["owner"]][row["class"]] += 1
            counts = self.responsible[row["responsible"]]
            counts.new += row["status"] == NEW
            counts.by_class[row["class"]] += 1
            counts.by_severity[row["severity"]] += 1
            if self.oldest is None or row["firstSeen"] < self.oldest["firstSeen"]:
                self.oldest = {name: row[name] for name in _OLDEST_FIELDS}

    def add(self, other: FindingCounts) -> None:
        """Add the findings of other clusters, which come later in the order of the report."""
        for name, numbers in other.by.items():
            self.by[name].update(numbers)
        self.reasons.update(other.reasons)
        for owner, by_class in other.owners.items():
            self.owners[owner].update(by_class)
        for team, counts in other.responsible.items():
            total = self.responsible[team]
            total.new += counts.new
            total.by_class.update(counts.by_class)
            total.by_severity.update(counts.by_severity)
        if other.oldest and (self.oldest is None or other.oldest["firstSeen"] < self.oldest["firstSeen"]):
            self.oldest = other.oldest
        self.accepted.update(other.accepted)
        self.matched_exceptions |= other.matched_exceptions
        self.not_evaluated += other.not_evaluated
        self.repairs += other.repairs


class ClusterResult(Struct):
    """The result of one cluster, or of the findings about manifests of a cluster outside the run.

    ``document`` is the cluster's entry in ``summary.json``, None for a cluster outside the run; ``incomplete`` and
    ``imbalances`` are its other entries. ``lines`` has the lines for each file of the report. ``sizes`` are the
    deviations of topics that are equal to their spec. ``read_error`` is the message for the user, with addresses, if a
    live cluster could not be read.
    """

    cluster: str
    document: dict[str, Any] | None = None
    incomplete: dict[str, Any] | None = None
    imbalances: Sequence[dict[str, Any]] = ()
    topics: TopicCounts = field(default_factory=TopicCounts)
    findings: FindingCounts = field(default_factory=FindingCounts)
    invalid_rows: int = 0
    lines: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    upgrade: ClusterUpgrade | None = None
    deviations: Sequence[Deviation] = ()
    sizes: Sequence[Deviation] = ()
    read_error: str = ""
