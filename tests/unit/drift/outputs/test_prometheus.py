"""The metrics of a drift report: every family, its values, and the limit of its labels."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.drift.summaries import full_summary
from topiarist.drift.findings import DriftClass
from topiarist.drift.outputs.folder import MAX_CLUSTERS, MAX_RESPONSIBLE, NO_TEAM, OTHER, PREFIX, format_metrics

Samples = dict[str, dict[tuple[str, ...], float]]


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    """Return the summary of a report, with all fields."""
    return full_summary()


def samples(summary: dict[str, Any]) -> Samples:
    """Return the values of each family by the values of its labels, as a parser of Prometheus reads them."""
    return {
        family.name.removeprefix(f"{PREFIX}_"): {tuple(one.labels.values()): one.value for one in family.samples}
        for family in text_string_to_metric_families(format_metrics(summary))
    }


def test_severities_teams_exceptions_and_ages_are_families(summary: dict[str, Any]) -> None:
    """Each field of the summary has its family, and what is absent in a count is 0."""
    found = samples(summary)
    assert found["findings_by_severity"] == {("Critical",): 3, ("High",): 5, ("Medium",): 0, ("Low",): 7}
    assert found["findings_by_responsible"][("billing", "Critical")] == 3
    assert found["findings_by_responsible"][("billing", "Medium")] == 0
    assert found["new_findings_by_responsible"] == {("billing",): 2, (NO_TEAM,): 1}
    assert found["accepted_findings"] == {
        (kind.value,): {"unmanaged": 3, "spread": 1}.get(kind.value, 0) for kind in DriftClass
    }
    assert found["clusters_incomplete"] == {(): 1}
    assert found["oldest_finding_timestamp_seconds"] == {(): 1767225600}
    assert found["oldest_snapshot_timestamp_seconds"] == found["report_timestamp_seconds"] == {(): 1769860800}


def test_the_counts_of_topics_and_clusters_are_families(summary: dict[str, Any]) -> None:
    """What was compared and what could not is known by the names that alerts use. Each cluster has every class, also
    with the value 0, so that an alert can resolve.
    """
    found = samples(summary)
    assert found["findings"] == {
        (one["cluster"], kind.value): one["byClass"].get(kind.value, 0)
        for one in summary["byCluster"]
        for kind in DriftClass
    }
    assert found["topics_compared"] == {(): summary["topics"]["compared"]}
    assert found["clusters_compared"] == {(): summary["clusters"]["compared"]}
    assert found["clusters_unknown"] == {(): summary["clusters"]["unknown"]}
    assert found["broken_rows"] == {(): summary["inputs"]["broken"]}


def test_labels_are_any_text(summary: dict[str, Any]) -> None:
    """A backslash, a quotation mark and the end of a line are escaped as the format wants."""
    name = 'a\\b\\\\c"d\ne'
    (one,) = [row for row in summary["byResponsible"] if row["responsible"] == "billing"]
    found = samples(summary | {"byResponsible": [one | {"responsible": name}]})
    assert (name, "Critical") in found["findings_by_responsible"]


def test_invalid_manifests_and_expired_exceptions_are_counted(summary: dict[str, Any]) -> None:
    """Both are findings without a cluster, which no series by cluster has."""
    for counted, invalid, expired in (({"invalid": 2, "expired": 1}, 2, 1), ({}, 0, 0)):
        found = samples(summary | {"findings": summary["findings"] | {"byClass": counted}})
        assert (found["invalid_manifests"], found["expired_exceptions"]) == ({(): invalid}, {(): expired})


def test_risks_and_changes_since_the_previous_report(summary: dict[str, Any]) -> None:
    """The counts of findings by risk, and of new and resolved findings, are those of the summary."""
    found, counted = samples(summary), summary["findings"]
    assert found["findings_by_risk"] == {
        (risk,): counted["byRisk"].get(risk, 0) for risk in ("Safe", "Disruptive", "DataLoss")
    }
    unseen = samples(summary | {"findings": counted | {"byRisk": {"DataLoss": 2}}})
    assert unseen["findings_by_risk"] == {("Safe",): 0, ("Disruptive",): 0, ("DataLoss",): 2}
    assert 'findings_by_risk{risk="DataLoss"} ' in "".join(format_metrics(summary))
    assert found["new_findings"] == {(): counted["new"]}
    assert found["resolved_findings"] == {(): counted["resolved"]}


@pytest.mark.slow
def test_the_number_of_series_is_limited(summary: dict[str, Any]) -> None:
    """The clusters and teams beyond the limit are one series, and no finding is lost from the sums."""
    clusters = [
        {"cluster": f"c{number:05d}", "findings": number, "byClass": {"config": number}}
        for number in range(MAX_CLUSTERS + 3)
    ]
    teams = [
        {"responsible": f"t{number:04d}", "findings": number, "bySeverity": {"Low": number}, "new": 1, "worse": 0}
        for number in range(MAX_RESPONSIBLE + 3)
    ]
    found = samples(summary | {"byCluster": clusters, "byResponsible": teams})
    assert len(found["findings"]) == (MAX_CLUSTERS + 1) * len(DriftClass)
    assert found["findings"][(OTHER, "config")] == 0 + 1 + 2
    assert sum(found["findings"].values()) == sum(range(MAX_CLUSTERS + 3))
    assert len(found["findings_by_responsible"]) == (MAX_RESPONSIBLE + 1) * 4
    assert found["findings_by_responsible"][(OTHER, "Low")] == 0 + 1 + 2
    assert found["new_findings_by_responsible"][(OTHER,)] == 3
    assert sum(found["new_findings_by_responsible"].values()) == MAX_RESPONSIBLE + 3
