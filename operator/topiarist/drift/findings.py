"""Findings as rows: what ``schemas/drift.json`` says of a line of ``findings.jsonl``, made of a discrepancy.

A row is a plain mapping: it goes to JSON, to Parquet and to Python workers as it is. What makes two rows of two reports
the same finding is ``identity``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.core.discrepancy import Discrepancy, Kind, Planned
from topiarist.core.state import TopicRecord, TopicState

Row = dict[str, Any]

Identity = tuple[str, str, str, str]
"""Cluster, topic, class and field."""

NEW, STANDING = "New", "Standing"


def row(cluster: str, topic: str, found: Discrepancy, taken: str) -> Row:
    """A finding that no report had before; nothing is said of a record."""
    return {
        "cluster": cluster,
        "topic": topic,
        "class": found.kind.value,
        "field": found.field,
        "expected": found.expected,
        "actual": found.actual,
        "planned": found.planned.value,
        "risk": None if found.risk is None else found.risk.word,
        "because": found.because,
        "reasons": [reason.value for reason in found.reasons],
        "message": found.message,
        "instead": found.instead,
        "owner": None,
        "changedOutside": False,
        "takenAt": taken,
        "firstSeen": taken,
        "ageSeconds": 0,
        "status": NEW,
    }


def recorded(found: Row, topic: TopicState | None, record: TopicRecord | None) -> Row:
    """The row with what our record says of its topic: of an existing one, if it is valid, else of one that is gone."""
    whose = topic.valid_record if topic else record
    changed = topic.changed_outside if topic else False
    return {**found, "owner": whose.owner if whose else None, "changedOutside": changed}


def unknown(topic: str, message: str) -> Discrepancy:
    """That nothing is known of a topic, or (without a name) of a cluster."""
    expected = "present" if topic else None
    return Discrepancy(Kind.UNKNOWN, "", expected, None, Planned.REPORTED, message=message)


def identity(found: Mapping[str, Any]) -> Identity:
    """What two reports know a finding by."""
    return found["cluster"], found["topic"], found["class"], found["field"]
