"""The summary of a drift report in Prometheus text format, for a Pushgateway or the textfile collector.

``drift.outputs.folder`` writes it as ``metrics.prom``. A value without findings is exported as 0, so that an alert
resolves. No label has the name of a topic, and the number of series is limited: ``MAX_CLUSTERS`` and
``MAX_RESPONSIBLE`` label values, and one more, ``OTHER``, with the sum of the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topiarist.adapters.snapshots.codec import parse_time
from topiarist.drift.findings.finding import DriftClass, Severity
from topiarist.model.run_options import Risk

PREFIX = "topiarist_drift"

MAX_CLUSTERS = 1000
"""Clusters with a label value of their own: those with the most findings."""

MAX_RESPONSIBLE = 100
"""Responsible teams with a label value of their own: those with the most findings."""

OTHER = "(other)"
"""The label value of all clusters or teams beyond the limit; a Kubernetes name or label has no parentheses."""

NO_TEAM = "(none)"
"""The label value of findings without a responsible team."""

Sample = tuple[Mapping[str, str], int]


def format_metrics(summary: Mapping[str, Any]) -> str:
    """Return all metric families, each with help and type."""
    topics, clusters, findings = summary["topics"], summary["clusters"], summary["findings"]
    invalid = findings["byClass"].get(DriftClass.INVALID.value, 0)
    families: list[tuple[str, str, Iterable[Sample]]] = [
        ("findings", "Findings by cluster and class.", _by_cluster(summary["byCluster"])),
        ("findings_by_risk", "Findings by risk of the planned change.", _by_risk(findings["byRisk"])),
        ("new_findings", "Findings that the previous report did not have.", _one(findings["new"])),
        ("resolved_findings", "Findings of the previous report that no longer exist.", _one(findings["resolved"])),
        ("topics_compared", "Declared topics that were compared.", _one(topics["compared"])),
        ("clusters_compared", "Clusters that were compared.", _one(clusters["compared"])),
        ("clusters_unknown", "Clusters that could not be compared.", _one(clusters["unknown"])),
        ("broken_rows", "Invalid rows and files of the input.", _one(summary["inputs"]["broken"])),
        ("invalid_manifests", "Manifests that could not be used.", _one(invalid)),
        ("report_timestamp_seconds", "Time of the report: its newest input.", _one(_seconds(summary["asOf"]))),
        *_families_of_rows(summary),
    ]
    if summary["oldest"]:
        words = "Time of the oldest snapshot that was compared."
        families.append(("oldest_snapshot_timestamp_seconds", words, _one(_seconds(summary["oldest"]))))
    if repairs := summary["timeToRepair"]:
        words = "Median seconds to repair the findings that were resolved in the last days, by class."
        medians = [({"class": name}, one["medianSeconds"]) for name, one in repairs["byClass"].items()]
        families.append(("time_to_repair_seconds", words, medians))
    return "".join(line for family in families for line in _format_family(*family))


def _families_of_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    """Yield the families of severity, responsibility, exceptions and age, which the rows of findings decide."""
    numbers = summary["bySeverity"]
    yield (
        "findings_by_severity",
        "Findings by severity.",
        [({"severity": each.value}, numbers.get(each.value, 0)) for each in Severity],
    )
    teams = _sum_teams(summary["byResponsible"])
    yield "findings_by_responsible", "Findings by responsible team and severity.", _by_responsible(teams)
    words = "New findings by responsible team."
    yield "new_findings_by_responsible", words, [({"responsible": name}, team["new"]) for name, team in teams]
    numbers = summary["accepted"]["byClass"]
    accepted = [({"class": kind.value}, numbers.get(kind.value, 0)) for kind in DriftClass]
    yield "accepted_findings", "Findings that an exception accepts, by class; in no other count.", accepted
    expired = summary["findings"]["byClass"].get(DriftClass.EXPIRED.value, 0)
    yield "expired_exceptions", "Exceptions that have expired.", _one(expired)
    words = "Clusters with snapshots that lack rows."
    yield "clusters_incomplete", words, _one(len({entry["cluster"] for entry in summary["incomplete"]}))
    if oldest := summary["oldestFinding"]:
        words = "Time when the oldest finding was first seen; absent without findings."
        yield "oldest_finding_timestamp_seconds", words, _one(_seconds(oldest["firstSeen"]))


def _by_cluster(clusters: Sequence[Mapping[str, Any]]) -> Iterator[Sample]:
    """Yield the findings of each cluster and class; the clusters in order of name, the sum of the rest last."""
    ranked = sorted(clusters, key=lambda cluster: (-cluster["findings"], cluster["cluster"]))
    shown, rest = ranked[:MAX_CLUSTERS], ranked[MAX_CLUSTERS:]
    numbers = {one["cluster"]: one["byClass"] for one in sorted(shown, key=lambda one: str(one["cluster"]))}
    if rest:
        numbers[OTHER] = _sum_counts(one["byClass"] for one in rest)
    for cluster, by_class in numbers.items():
        for kind in DriftClass:
            yield {"cluster": cluster, "class": kind.value}, by_class.get(kind.value, 0)


def _by_risk(numbers: Mapping[str, int]) -> Iterator[Sample]:
    for risk in Risk:
        yield {"risk": risk.label}, numbers.get(risk.label, 0)


def _by_responsible(teams: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Sample]:
    for name, team in teams:
        for severity in Severity:
            yield {"responsible": name, "severity": severity.value}, team["bySeverity"].get(severity.value, 0)


def _sum_teams(teams: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the teams by label value, with one entry for all teams beyond the limit.

    Findings without a responsible team have the value ``NO_TEAM``.
    """
    ranked = sorted(teams, key=lambda team: (-team["findings"], team["responsible"] or ""))
    shown, rest = ranked[:MAX_RESPONSIBLE], ranked[MAX_RESPONSIBLE:]
    found: list[tuple[str, Mapping[str, Any]]] = [(team["responsible"] or NO_TEAM, team) for team in shown]
    if rest:
        severities = _sum_counts(team["bySeverity"] for team in rest)
        found.append((OTHER, {"bySeverity": severities, "new": sum(team["new"] for team in rest)}))
    return found


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for numbers in counts:
        total.update(numbers)
    return total


def _one(value: int) -> Sequence[Sample]:
    return [({}, value)]


def _seconds(time: str) -> int:
    return int(parse_time(time).timestamp())


def _format_family(name: str, help_text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {help_text}\n# TYPE {PREFIX}_{name} gauge\n"
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escape_label_value(text)}"' for key, text in labels.items())
        yield f"{PREFIX}_{name}{{{inner}}} {value}\n" if inner else f"{PREFIX}_{name} {value}\n"


def _escape_label_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
