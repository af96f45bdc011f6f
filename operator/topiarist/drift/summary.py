"""The summary of a drift report: ``summary.json`` as a document of plain values.

``drift.report.write_report`` adds one comparison after the other, so that only counts stay in memory, and then builds
the document. All formats in ``drift.outputs`` are rendered from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from topiarist.adapters.snapshots.codec import format_time
from topiarist.drift import history
from topiarist.drift.compare import Comparison, TopicCounts
from topiarist.drift.cross_cluster import (
    MAX_SHOWN_DIFFERENCES,
    CrossClusterIndex,
    find_imbalances,
    make_variant,
)
from topiarist.drift.findings import NEW
from topiarist.drift.history import PreviousReport
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
        self._topics = TopicCounts()
        self._counts_by: dict[str, Counts] = {name: Counter() for name in ("class", "planned", "risk", "status")}
        self._reasons: Counts = Counter()
        self._owners: defaultdict[str | None, Counts] = defaultdict(Counter)
        self.cross_cluster_index = CrossClusterIndex()
        self._imbalances: list[dict[str, Any]] = []

    def add(self, comparison: Comparison) -> None:
        """Count one cluster; clusters come in order of name, and their rows already have a status."""
        for row in comparison.rows:
            for name, numbers in self._counts_by.items():
                if row[name] is not None:
                    numbers[row[name]] += 1
            self._reasons.update(row["reasons"])
            if row["topic"]:
                self._owners[row["owner"]][row["class"]] += 1
        self._clusters.append(_cluster_document(comparison))
        self._topics.add(comparison.counts)
        if comparison.context:
            cluster, state = comparison.cluster_input.cluster, comparison.context.state
            registered = {broker.id for broker in state.brokers}
            self._imbalances.extend(find_imbalances(cluster, comparison.broker_load, registered))
            self.cross_cluster_index.add_variants(cluster, comparison.cluster_input.equal_topics.variants)
            variants = (make_variant(spec, state.topics.get(spec.topic)) for spec in comparison.specs)
            self.cross_cluster_index.add_variants(cluster, [variant for variant in variants if variant])

    def build(self, previous: PreviousReport, inputs: UnusedInput) -> dict[str, Any]:
        """Return the document; ``previous`` must have been matched with all clusters."""
        differences = list(self.cross_cluster_index.differences())
        compared = [cluster["takenAt"] for cluster in self._clusters if cluster["problem"] is None]
        total = len(self._clusters)
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
            "byOwner": [
                {"owner": owner, "findings": numbers.total(), "byClass": _sort_nonzero(numbers)}
                for owner, numbers in sorted(self._owners.items(), key=lambda item: (-item[1].total(), item[0] or ""))
            ],
            "crossClusterDifferences": {
                "total": len(differences),
                "topics": differences[:MAX_SHOWN_DIFFERENCES],
            },
            "unbalanced": sorted(self._imbalances, key=lambda one: str(one["cluster"])),
            "inputs": {
                "broken": len(inputs.invalid_rows),
                "superseded": inputs.superseded,
                "unknownClusters": inputs.unknown_clusters,
            },
            "trend": history.extend_trend(previous.trend, current),
        }

    def _findings_document(self, previous: PreviousReport) -> dict[str, Any]:
        status = self._counts_by["status"]
        return {
            "total": status.total(),
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
        "declared": comparison.counts.declared,
        "present": comparison.counts.present,
        "findings": len(comparison.rows),
        "byClass": _sort_nonzero(Counter(row["class"] for row in comparison.rows)),
    }


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _sort_nonzero(numbers: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in sorted(numbers.items()) if number}
