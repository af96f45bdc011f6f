"""The summary of a drift report: ``summary.json`` as a document of plain values.

``drift.report.write_report`` adds one comparison after the other, so that only counts stay in memory, and then builds
the document. All formats in ``drift.outputs`` are rendered from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from topiarist.adapters.snapshots.codec import format_time
from topiarist.drift import history
from topiarist.drift.compare import Comparison
from topiarist.drift.cross_cluster import (
    MAX_SHOWN_DIFFERENCES,
    CrossClusterDifference,
    CrossClusterIndex,
    find_imbalances,
)
from topiarist.drift.history import PreviousReport
from topiarist.drift.rows import NEW, FindingRow
from topiarist.drift.snapshots import UnusedInput

FORMAT_VERSION = 1

Counts = Counter[str]


class SummaryBuilder:
    """A builder that counts the comparisons of a run; ``build`` returns the document once all are added.

    ``cross_cluster_index`` has the topics that are compared between clusters. A caller that compares topics elsewhere
    (Spark) adds its variants to the index.
    """

    def __init__(self, as_of: str, owner: str) -> None:
        self._as_of = as_of
        self._owner = owner
        self._clusters: list[dict[str, Any]] = []
        self._topics: Counts = Counter()
        self._counts_by: dict[str, Counts] = {name: Counter() for name in ("class", "planned", "risk", "status")}
        self._reasons: Counts = Counter()
        self._owners: defaultdict[str | None, Counts] = defaultdict(Counter)
        self.cross_cluster_index = CrossClusterIndex()
        self._imbalances: list[dict[str, Any]] = []

    @property
    def counts_by_class(self) -> Mapping[str, int]:
        """Return the number of findings by class so far."""
        return self._counts_by["class"]

    @property
    def unknown_clusters(self) -> int:
        """Return the number of clusters so far that could not be compared."""
        return sum(cluster["problem"] is not None for cluster in self._clusters)

    def add(self, comparison: Comparison) -> None:
        """Count one cluster; clusters come in order of name, and their rows already have a status."""
        for row in comparison.rows:
            self._count_row(row)
        self._clusters.append(_cluster_document(comparison))
        for name in ("declared", "compared", "present", "in_sync", "missing_record", "ignored"):
            self._topics[name] += getattr(comparison, name)
        if comparison.context:
            cluster, state = comparison.cluster_input.cluster, comparison.context.state
            self._imbalances.extend(
                find_imbalances(cluster, comparison.broker_load, {broker.id for broker in state.brokers})
            )
            self.cross_cluster_index.add_variants(cluster, comparison.cluster_input.equal_topics.variants)
            for spec in comparison.specs:
                self.cross_cluster_index.add_topic(cluster, spec, state.topics.get(spec.topic))

    def _count_row(self, row: FindingRow) -> None:
        for name, numbers in self._counts_by.items():
            if row[name] is not None:
                numbers[row[name]] += 1
        self._reasons.update(row["reasons"])
        if row["topic"]:
            self._owners[row["owner"]][row["class"]] += 1

    def build(self, previous: PreviousReport, inputs: UnusedInput) -> dict[str, Any]:
        """Return the document; ``previous`` must have been matched with all clusters."""
        differences = list(self.cross_cluster_index.differences())
        compared = [cluster["takenAt"] for cluster in self._clusters if cluster["problem"] is None]
        current = {
            "asOf": self._as_of,
            "findings": self.total_findings,
            "new": self._counts_by["status"][NEW],
            "resolved": previous.resolved,
            "byClass": _sort_nonzero(self._counts_by["class"]),
        }
        return {
            "formatVersion": FORMAT_VERSION,
            "asOf": self._as_of,
            "oldest": min(compared, default=None),
            "previous": previous.as_of,
            "owner": self._owner,
            "clusters": {"wanted": len(self._clusters), "compared": len(compared), "unknown": self.unknown_clusters},
            "topics": {_to_camel_case(name): number for name, number in self._topics.items()},
            "findings": self._findings_document(previous),
            "byCluster": self._clusters,
            "byOwner": [
                {"owner": owner, "findings": numbers.total(), "byClass": _sort_nonzero(numbers)}
                for owner, numbers in sorted(self._owners.items(), key=lambda item: (-item[1].total(), item[0] or ""))
            ],
            "crossClusterDifferences": {
                "total": len(differences),
                "topics": [_difference_document(one) for one in islice(differences, MAX_SHOWN_DIFFERENCES)],
            },
            "unbalanced": sorted(self._imbalances, key=lambda one: str(one["cluster"])),
            "inputs": _unused_input_document(inputs),
            "trend": history.extend_trend(previous.trend, current),
        }

    @property
    def total_findings(self) -> int:
        """Return the number of findings so far."""
        return self._counts_by["class"].total()

    def _findings_document(self, previous: PreviousReport) -> dict[str, Any]:
        status = self._counts_by["status"]
        return {
            "total": self.total_findings,
            "new": status[NEW],
            "unchanged": status.total() - status[NEW],
            "resolved": previous.resolved,
            "notEvaluated": len(previous.not_evaluated),
            "dropped": previous.dropped,
            "byClass": _sort_nonzero(self._counts_by["class"]),
            "byPlanned": _sort_nonzero(self._counts_by["planned"]),
            "byRisk": _sort_nonzero(self._counts_by["risk"]),
            "byReason": _sort_nonzero(self._reasons),
        }


def _cluster_document(comparison: Comparison) -> dict[str, Any]:
    cluster_input, state = comparison.cluster_input, comparison.cluster_input.state
    return {
        "cluster": cluster_input.cluster,
        "clusterId": state.cluster_id if state else None,
        "takenAt": format_time(cluster_input.taken_at) if cluster_input.taken_at else None,
        "problem": cluster_input.problem or None,
        "incomplete": cluster_input.is_incomplete,
        "writeBlock": state.write_block.reason.value if state and state.write_block.reason else None,
        "declared": comparison.declared,
        "present": comparison.present,
        "findings": len(comparison.rows),
        "byClass": _sort_nonzero(Counter(row["class"] for row in comparison.rows)),
    }


def _difference_document(difference: CrossClusterDifference) -> dict[str, Any]:
    values = [{**value._asdict(), "clusters": list(value.clusters)} for value in difference.values]
    return {"topic": difference.topic, "manifest": difference.manifest, "field": difference.field, "values": values}


def _unused_input_document(unused_input: UnusedInput) -> dict[str, Any]:
    return {
        "broken": len(unused_input.invalid_rows),
        "superseded": [
            {"cluster": one.cluster, "file": one.file, "takenAt": format_time(one.taken_at), "newer": one.newer}
            for one in unused_input.superseded
        ],
        "unknownClusters": [{"cluster": one.cluster, "file": one.file} for one in unused_input.unknown_clusters],
    }


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _sort_nonzero(numbers: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(_nonzero_items(numbers.items())))


def _nonzero_items(items: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    return (item for item in items if item[1])
