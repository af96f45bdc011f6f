"""The summary of a drift report: ``summary.json`` as a document of plain values.

``drift.report`` adds one result after the other, so that only counts stay in memory, and then builds the document. All
formats in ``drift.outputs`` are rendered from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from msgspec.structs import asdict

from topiarist.drift.compare import TopicCounts
from topiarist.drift.findings.rows import NEW
from topiarist.drift.findings.severity import Severity
from topiarist.drift.history.previous import REPAIR_DAYS, PreviousReport, Repair, extend_trend
from topiarist.drift.results import ClusterResult, FindingCounts
from topiarist.drift.snapshots import UnusedInput
from topiarist.drift.upgrade import UpgradeRisks

FORMAT_VERSION = 1


class SummaryBuilder:
    """A builder that counts the results of a run; ``build`` returns the document once all are added."""

    def __init__(self, as_of: str, owner: str, upgrade_risks: UpgradeRisks | None = None) -> None:
        self._upgrade_risks = upgrade_risks
        self._as_of = as_of
        self._owner = owner
        self._clusters: list[dict[str, Any]] = []
        self._incomplete: list[dict[str, Any]] = []
        self._imbalances: list[dict[str, Any]] = []
        self._topics = TopicCounts()
        self._invalid_rows = 0
        self.findings = FindingCounts()

    def add(self, result: ClusterResult) -> None:
        """Count one result; they come in order of cluster name."""
        self.findings.add(result.findings)
        self._topics.add(result.topics)
        self._invalid_rows += result.invalid_rows
        self._imbalances.extend(result.imbalances)
        if self._upgrade_risks and result.upgrade is not None:
            self._upgrade_risks.add_cluster(result.cluster, result.upgrade)
        if result.document:
            self._clusters.append(result.document)
        if result.incomplete:
            self._incomplete.append(result.incomplete)

    @property
    def compared(self) -> frozenset[str]:
        """Return the names of the clusters that were compared."""
        return frozenset(each["cluster"] for each in self._clusters if each["problem"] is None)

    def build(
        self,
        previous: PreviousReport,
        inputs: UnusedInput,
        difference_count: int,
        differences: Sequence[dict[str, Any]],
        unmatched_exceptions: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """Return the document; ``previous`` lacks the findings of all clusters that were added.

        ``differences`` are the first of the cross-cluster differences.
        """
        compared = [cluster["takenAt"] for cluster in self._clusters if cluster["problem"] is None]
        total, counts = len(self._clusters), self.findings
        findings = self._findings_document(previous)
        current = {"asOf": self._as_of, "findings": findings["total"]}
        current |= {name: findings[name] for name in ("new", "resolved", "byClass")}
        return {
            "formatVersion": FORMAT_VERSION,
            "asOf": self._as_of,
            "oldest": min(compared, default=None),
            "previous": previous.as_of,
            "owner": self._owner,
            "clusters": {"declared": total, "compared": len(compared), "unknown": total - len(compared)},
            "topics": {_to_camel_case(name): number for name, number in asdict(self._topics).items()},
            "findings": findings,
            "byCluster": self._clusters,
            "incomplete": self._incomplete,
            "byOwner": [
                {"owner": owner, "findings": numbers.total(), "byClass": _sort_nonzero(numbers)}
                for owner, numbers in sorted(counts.owners.items(), key=lambda item: (-item[1].total(), item[0] or ""))
            ],
            "bySeverity": _sort_severities(counts.by["severity"]),
            "byResponsible": self._responsible_documents(),
            "accepted": {"total": counts.accepted.total(), "byClass": _sort_nonzero(counts.accepted)},
            "exceptions": {"unmatched": [*unmatched_exceptions]},
            "oldestFinding": counts.oldest,
            "timeToRepair": None if previous.repairs is None else self._repairs_document(previous.repairs),
            "crossClusterDifferences": {"total": difference_count, "topics": differences},
            "unbalanced": self._imbalances,
            "upgrade": self._upgrade_risks and self._upgrade_risks.build(),
            "inputs": {
                "broken": len(inputs.invalid_rows) + self._invalid_rows,
                "superseded": inputs.superseded,
                "unknownClusters": inputs.unknown_clusters,
            },
            "trend": extend_trend(previous.trend, current),
        }

    def _responsible_documents(self) -> list[dict[str, Any]]:
        ordered = sorted(self.findings.responsible.items(), key=lambda item: (-item[1].by_class.total(), item[0] or ""))
        return [
            {
                "responsible": name,
                "findings": counts.by_class.total(),
                "new": counts.new,
                "byClass": _sort_nonzero(counts.by_class),
                "bySeverity": _sort_severities(counts.by_severity),
            }
            for name, counts in ordered
        ]

    def _repairs_document(self, earlier: Sequence[Repair]) -> dict[str, Any]:
        repairs = [*earlier, *self.findings.repairs]
        by_class, by_responsible = defaultdict[str, list[int]](list), defaultdict[str | None, list[int]](list)
        for repair in repairs:
            by_class[repair.drift_class].append(repair.seconds)
            by_responsible[repair.responsible].append(repair.seconds)
        teams = sorted(by_responsible.items(), key=lambda item: (-len(item[1]), item[0] or ""))
        return {
            "days": REPAIR_DAYS,
            "resolved": len(repairs),
            "medianSeconds": _median([repair.seconds for repair in repairs]),
            "byClass": {
                name: {"resolved": len(seconds), "medianSeconds": _median(seconds)}
                for name, seconds in sorted(by_class.items())
            },
            "byResponsible": [
                {"responsible": name, "resolved": len(seconds), "medianSeconds": _median(seconds)}
                for name, seconds in teams
            ],
        }

    def _findings_document(self, previous: PreviousReport) -> dict[str, Any]:
        counts, status = self.findings, self.findings.by["status"]
        return {
            "total": status.total(),
            "new": status[NEW],
            "unchanged": status.total() - status[NEW],
            "resolved": len(counts.repairs),
            "notEvaluated": counts.not_evaluated,
            "dropped": previous.dropped,
            "byClass": _sort_nonzero(counts.by["class"]),
            "byPlanned": _sort_nonzero(counts.by["planned"]),
            "byRisk": _sort_nonzero(counts.by["risk"]),
            "byReason": _sort_nonzero(counts.reasons),
        }


def _median(seconds: Sequence[int]) -> int | None:
    return int(median(seconds)) if seconds else None


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _sort_nonzero(numbers: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in sorted(numbers.items()) if number}


def _sort_severities(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of findings by severity, the most severe first, without zeros."""
    return {each.value: numbers[each.value] for each in Severity if numbers.get(each.value)}
