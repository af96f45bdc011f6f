"""The numbers of a drift report: findings of clusters added up, and the document that is built from them."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.desired.resolve import Desired
from topiarist.drift.causes import Causes
from topiarist.drift.compare import ClusterResult, FindingCounts, TopicCounts
from topiarist.drift.exceptions import DriftException
from topiarist.drift.findings import FindingRow, FindingSelection
from topiarist.drift.history import MAX_REPORTS, PreviousReport, Repair
from topiarist.drift.report import ReportJob, SummaryBuilder
from topiarist.drift.snapshots import UnusedInput
from topiarist.drift.task import Shipped
from topiarist.model.plan import RunOptions

NOW, BEFORE, LONG_AGO = "2025-01-31T12:00:00Z", "2025-01-30T12:00:00Z", "2024-12-31T12:00:00Z"


def finding(drift_class: str = "config", cluster: str = "eu", topic: str = "a", **fields: Any) -> FindingRow:
    """Return the fields of a row that are counted."""
    return {
        "cluster": cluster,
        "topic": topic,
        "class": drift_class,
        **{"field": "config.x", "expected": None, "actual": "1", "effect": "Cost", "effectReason": "disks fill"},
        "planned": "Change",
        "risk": "Safe",
        "severity": "Medium",
        "status": "New",
        "reasons": [],
        "owner": "default",
        "responsible": "shop",
        "firstSeen": NOW,
        **fields,
    }


def counted(*rows: FindingRow) -> FindingCounts:
    """Return the counts of these rows."""
    counts = FindingCounts()
    counts.add_rows(rows)
    return counts


def document(cluster: str, problem: str | None = None, taken_at: str = NOW) -> dict[str, Any]:
    """Return the entry of a cluster."""
    return {"cluster": cluster, "problem": problem, "takenAt": taken_at}


def builder_of(
    *results: ClusterResult, previous: PreviousReport | None = None, inputs: UnusedInput | None = None, **fields: Any
) -> SummaryBuilder:
    """Return a builder with these results; ``fields`` are those of what tasks need."""
    shipped = Shipped(Desired({}, {}), RunOptions(), NOW, **fields)
    builder = SummaryBuilder(ReportJob(shipped, previous or PreviousReport(), inputs or UnusedInput()))
    for result in results:
        builder.add(result)
    return builder


def built(*results: ClusterResult, difference_count: int = 0, differences: Any = (), **fields: Any) -> dict[str, Any]:
    """Return the document of these results."""
    return builder_of(*results, **fields).build(Causes(), difference_count, differences)


def test_a_row_counts_in_each_of_its_fields() -> None:
    """Each value of a field has its number; a field without a value is not counted, nor an owner without a topic."""
    counts = counted(
        finding(reasons=["NotAdopted", "Frozen"]),
        finding("missing", planned=None, risk=None, severity="Critical", status="Unchanged", reasons=["Frozen"]),
        finding("unknown", topic="", owner=None, responsible=None, severity="High"),
    )
    assert {name: dict(numbers) for name, numbers in counts.by.items()} == {
        "class": {"config": 1, "missing": 1, "unknown": 1},
        "effect": {"Cost": 3},
        "planned": {"Change": 2},
        "risk": {"Safe": 2},
        "severity": {"Medium": 1, "Critical": 1, "High": 1},
        "status": {"New": 2, "Unchanged": 1},
    }
    assert counts.reasons == {"NotAdopted": 1, "Frozen": 2}
    assert counts.owners == {"default": {"config": 1, "missing": 1}}
    teams = {team: (each.new, dict(each.by_class), dict(each.by_severity)) for team, each in counts.responsible.items()}
    assert teams == {
        "shop": (1, {"config": 1, "missing": 1}, {"Medium": 1, "Critical": 1}),
        None: (1, {"unknown": 1}, {"High": 1}),
    }


def test_the_oldest_finding_is_the_first_of_its_time() -> None:
    """Of findings that were first seen at one time the first in the order of the report is named."""
    old, other = finding(topic="b", firstSeen=BEFORE), finding(topic="c", firstSeen=BEFORE)
    expected = {"firstSeen": BEFORE, "cluster": "eu", "topic": "b", "class": "config"}
    assert counted(finding(), old, other).oldest == expected
    total = FindingCounts()
    for rows in ([finding()], [old], [other], []):
        total.add(counted(*rows))
    assert total.oldest == expected
    assert counted().oldest is None


def test_counts_of_clusters_add_up() -> None:
    """The counts of rows that are added cluster by cluster are those of all rows together."""
    rows = [
        finding(reasons=["Frozen"]),
        finding("missing", owner=None, responsible="b", status="Unchanged"),
        finding("config", cluster="us", severity="High"),
    ]
    total = FindingCounts()
    for row in rows:
        each = counted(row)
        each.accepted["config"] += 2
        each.matched_exceptions = frozenset({len(row["cluster"] + row["class"])})
        each.not_evaluated = 3
        each.repairs = [Repair("config", "shop", 5)]
        total.add(each)
    together = counted(*rows)
    assert (total.by, total.reasons, total.owners) == (together.by, together.reasons, together.owners)
    assert total.responsible == together.responsible
    assert total.accepted == {"config": 6}
    assert total.matched_exceptions == {8, 9}
    assert (total.not_evaluated, total.repairs) == (9, [Repair("config", "shop", 5)] * 3)


def test_a_cluster_is_compared_if_it_has_no_problem() -> None:
    """Clusters outside the run count nowhere; those that cannot be read are declared and unknown."""
    results = [
        ClusterResult("eu", document("eu", taken_at=BEFORE)),
        ClusterResult("us", document("us")),
        ClusterResult("ap", document("ap", problem="away", taken_at=LONG_AGO)),
        ClusterResult("outside"),
    ]
    found = built(*results)
    assert found["clusters"] == {"declared": 3, "compared": 2, "unknown": 1}
    assert (found["oldest"], found["asOf"], found["previous"], found["owner"]) == (BEFORE, NOW, None, "default")
    assert [each["cluster"] for each in found["byCluster"]] == ["eu", "us", "ap"]
    assert builder_of(*results).compared == {"eu", "us"}
    assert (built()["oldest"], built()["oldestFinding"]) == (None, None)


def test_the_document_has_the_numbers_of_all_clusters() -> None:
    """Topics, findings and invalid rows are sums over clusters, and lists are in the order of clusters."""
    first = ClusterResult("eu", document("eu"), topics=TopicCounts(7, 6, 5, 4, 3, 2, 1), invalid_rows=2)
    first.incomplete, first.imbalances = {"cluster": "eu"}, [{"cluster": "eu"}]
    first.findings = counted(finding(), finding("missing", status="Unchanged", severity="Critical"))
    first.findings.repairs = [Repair("config", None, 60)]
    first.findings.accepted["config"] += 1
    first.findings.not_evaluated = 4
    second = ClusterResult(
        "us", document("us"), topics=TopicCounts(1, 1, 1, 1, 1, 1, 1), imbalances=[{"cluster": "us"}]
    )
    inputs = UnusedInput([{"file": "old"}], [{"file": "other"}], [])
    exceptions = [DriftException("x", FindingSelection(topics=("a",)), "", "", "2026-01-31", "x.yaml", 3, {})]
    found = built(first, second, inputs=inputs, difference_count=5, differences=[{"topic": "a"}], exceptions=exceptions)
    assert found["topics"] == {
        "declared": 8,
        "compared": 7,
        "present": 6,
        "inSync": 5,
        "missingRecord": 4,
        "ignored": 3,
        "notJudged": 2,
    }
    assert found["findings"] == {
        "total": 2,
        "new": 1,
        "worse": 0,
        "unchanged": 1,
        "resolved": 1,
        "notEvaluated": 4,
        "dropped": 0,
        "byClass": {"config": 1, "missing": 1},
        "byEffect": {"Cost": 2},
        "byPlanned": {"Change": 2},
        "byRisk": {"Safe": 2},
        "byReason": {},
    }
    assert (found["incomplete"], found["unbalanced"]) == ([{"cluster": "eu"}], [{"cluster": "eu"}, {"cluster": "us"}])
    assert found["accepted"] == {"total": 1, "byClass": {"config": 1}}
    assert found["exceptions"] == {"unmatched": [{"name": "x", "file": "x.yaml", "line": 3}]}
    assert found["crossClusterDifferences"] == {"total": 5, "topics": [{"topic": "a"}]}
    assert found["inputs"] == {"broken": 2, "superseded": [{"file": "old"}], "unknownClusters": [{"file": "other"}]}
    assert found["causes"] == {"total": 0, "first": []}
    assert (found["formatVersion"], found["upgrade"], found["timeToRepair"]) == (1, None, None)
    assert [*found["bySeverity"].items()] == [("Critical", 1), ("Medium", 1)]


def test_teams_and_owners_with_most_findings_come_first() -> None:
    """Equal numbers are in order of name, and findings without an owner before them."""
    rows = [
        *(finding(owner=owner, responsible=owner) for owner in ("b", "a", None)),
        *(finding("missing", owner="c", responsible="c", status="Unchanged") for _ in range(2)),
    ]
    found = built(ClusterResult("eu", document("eu"), findings=counted(*rows)))
    assert [(each["owner"], each["findings"]) for each in found["byOwner"]] == [("c", 2), (None, 1), ("a", 1), ("b", 1)]
    assert found["byOwner"][0]["byClass"] == {"missing": 2}
    assert [each["responsible"] for each in found["byResponsible"]] == ["c", None, "a", "b"]
    assert found["byResponsible"][0] == {
        "responsible": "c",
        "findings": 2,
        "new": 0,
        "worse": 0,
        "byClass": {"missing": 2},
        "bySeverity": {"Medium": 2},
    }
    assert found["byResponsible"][1]["new"] == 1


@pytest.mark.parametrize(
    ("earlier", "now", "median"),
    [([], [], None), ([10], [], 10), ([10], [20], 15), ([10, 11], [], 10), ([1, 2], [9], 2)],
)
def test_the_time_to_repair_is_a_median(earlier: list[int], now: list[int], median: int | None) -> None:
    """Repairs of this report and of those before it count, together, by class and by team."""
    result = ClusterResult("eu", document("eu"))
    result.findings.repairs = [Repair("missing", "b", seconds) for seconds in now]
    previous = PreviousReport(repairs=[Repair("config", "a", seconds) for seconds in earlier])
    found = built(result, previous=previous)["timeToRepair"]
    assert (found["days"], found["resolved"], found["medianSeconds"]) == (30, len(earlier) + len(now), median)
    by_class = {"config": len(earlier), "missing": len(now)}
    assert {name: each["resolved"] for name, each in found["byClass"].items()} == {
        name: number for name, number in by_class.items() if number
    }
    assert {each["responsible"]: each["resolved"] for each in found["byResponsible"]} == {
        name: number for name, number in (("a", len(earlier)), ("b", len(now))) if number
    }


def test_repairs_by_team_begin_with_the_most() -> None:
    """The team that repaired most comes first; each class and team has its own median."""
    repairs = [
        Repair("config", "b", 4),
        Repair("config", "c", 1),
        Repair("missing", "c", 3),
        Repair("missing", None, 9),
    ]
    found = built(previous=PreviousReport(repairs=repairs))["timeToRepair"]
    assert found["byClass"] == {
        "config": {"resolved": 2, "medianSeconds": 2},
        "missing": {"resolved": 2, "medianSeconds": 6},
    }
    assert found["byResponsible"] == [
        {"responsible": "c", "resolved": 2, "medianSeconds": 2},
        {"responsible": None, "resolved": 1, "medianSeconds": 9},
        {"responsible": "b", "resolved": 1, "medianSeconds": 4},
    ]


def test_the_trend_ends_with_this_report() -> None:
    """Earlier reports stay in the trend, those of the same time or later do not, and the oldest ones leave it."""
    trend = [{"asOf": time, "findings": 1} for time in (LONG_AGO, BEFORE, NOW, "2025-02-01T00:00:00Z")]
    result = ClusterResult("eu", document("eu"), findings=counted(finding()))
    result.findings.repairs = [Repair("config", None, 1)] * 3
    found = built(result, previous=PreviousReport(BEFORE, trend))
    last = {"asOf": NOW, "unknown": 0, "findings": 1, "new": 1, "resolved": 3, "byClass": {"config": 1}}
    assert (found["trend"], found["previous"]) == ([*trend[:2], last], BEFORE)
    many = [{"asOf": LONG_AGO, "findings": number} for number in range(MAX_REPORTS)]
    kept = built(result, previous=PreviousReport(BEFORE, many))["trend"]
    assert (len(kept), kept[0]["findings"], kept[-1]) == (MAX_REPORTS, 1, last)


def test_findings_of_clusters_outside_the_run_are_dropped() -> None:
    """Findings of the previous report on clusters that were not added are counted, without the accepted ones."""
    row = finding()
    rows = {"eu": {("eu", "a", "config", ""): row, ("eu", "b", "config", ""): row}}
    accepted = {"eu": {("eu", "c", "config", ""): row | {"exception": "x"}}}
    assert built(previous=PreviousReport(BEFORE, rows=rows, accepted=accepted))["findings"]["dropped"] == 2
