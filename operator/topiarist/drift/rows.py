"""Findings as rows: the lines of ``findings.jsonl``, as ``schemas/drift.json`` describes them.

``drift.compare`` makes the rows, and all outputs read them. A row is a plain mapping, so that it can be written as JSON
and Parquet and returned from Python workers. ``finding_key`` identifies a finding across reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.drift.findings import DriftClass, DriftFinding, PlannedAction
from topiarist.model.state import OwnershipRecord, TopicState

FindingRow = dict[str, Any]

FindingKey = tuple[str, str, str, str]
"""Cluster, topic, class and field."""

NEW, UNCHANGED = "New", "Unchanged"


def make_row(cluster: str, topic: str, finding: DriftFinding, taken_at: str) -> FindingRow:
    """Return a finding as a row with status ``NEW`` and without an owner."""
    return {
        "cluster": cluster,
        "topic": topic,
        "class": finding.drift_class.value,
        "field": finding.field,
        "expected": finding.expected,
        "actual": finding.actual,
        "planned": finding.planned.value,
        "risk": None if finding.risk is None else finding.risk.label,
        "explanation": finding.explanation,
        "reasons": [reason.value for reason in finding.reasons],
        "message": finding.message,
        "hint": finding.hint,
        "owner": None,
        "changedOutside": False,
        "takenAt": taken_at,
        "firstSeen": taken_at,
        "ageSeconds": 0,
        "status": NEW,
    }


def with_owner(row: FindingRow, topic: TopicState | None, record: OwnershipRecord | None) -> FindingRow:
    """Return the row with the owner of its topic and the flag for external changes.

    The owner comes from the valid record of an existing topic, or from the record of a deleted topic.
    """
    valid_record = topic.valid_record if topic else record
    changed = topic.modified_externally if topic else False
    return {**row, "owner": valid_record.owner if valid_record else None, "changedOutside": changed}


def unknown_finding(topic: str, message: str) -> DriftFinding:
    """Return the finding that a topic, or (without a name) a cluster, could not be compared."""
    expected = "present" if topic else None
    return DriftFinding(DriftClass.UNKNOWN, "", expected, None, PlannedAction.REPORTED, message=message)


def finding_key(row: Mapping[str, Any]) -> FindingKey:
    """Return the key of a finding, which is equal in all reports."""
    return row["cluster"], row["topic"], row["class"], row["field"]
