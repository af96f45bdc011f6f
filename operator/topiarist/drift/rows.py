"""Findings as rows: what ``schemas/drift.json`` says of a line of ``findings.jsonl``, made of a discrepancy.

A row is a plain mapping: it goes to JSON, to Parquet and to Python workers as it is. What makes two rows of two reports
the same finding is ``identity``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.drift.findings import DriftClass, DriftFinding, PlannedAction
from topiarist.model.state import OwnershipRecord, TopicState

FindingRow = dict[str, Any]

FindingKey = tuple[str, str, str, str]
"""Cluster, topic, class and field."""

NEW, UNCHANGED = "New", "Standing"


def make_row(cluster: str, topic: str, finding: DriftFinding, taken_at: str) -> FindingRow:
    """A finding that no report had before; nothing is said of a record."""
    return {
        "cluster": cluster,
        "topic": topic,
        "class": finding.drift_class.value,
        "field": finding.field,
        "expected": finding.expected,
        "actual": finding.actual,
        "planned": finding.planned.value,
        "risk": None if finding.risk is None else finding.risk.label,
        "because": finding.explanation,
        "reasons": [reason.value for reason in finding.reasons],
        "message": finding.message,
        "instead": finding.hint,
        "owner": None,
        "changedOutside": False,
        "takenAt": taken_at,
        "firstSeen": taken_at,
        "ageSeconds": 0,
        "status": NEW,
    }


def with_owner(row: FindingRow, topic: TopicState | None, record: OwnershipRecord | None) -> FindingRow:
    """The row with what our record says of its topic: of an existing one, if it is valid, else of one that is gone."""
    whose = topic.valid_record if topic else record
    changed = topic.modified_externally if topic else False
    return {**row, "owner": whose.owner if whose else None, "changedOutside": changed}


def unknown_finding(topic: str, message: str) -> DriftFinding:
    """That nothing is known of a topic, or (without a name) of a cluster."""
    expected = "present" if topic else None
    return DriftFinding(DriftClass.UNKNOWN, "", expected, None, PlannedAction.REPORTED, message=message)


def finding_key(row: Mapping[str, Any]) -> FindingKey:
    """What two reports know a finding by."""
    return row["cluster"], row["topic"], row["class"], row["field"]
