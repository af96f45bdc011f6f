"""The severity of a finding, decided in one place from its class, its planned action and its risk."""

from __future__ import annotations

from enum import Enum

from topiarist.drift.findings.finding import CRITICAL_CLASSES, UNDECIDED_CLASSES, DriftFinding, PlannedAction
from topiarist.model.plan import Risk


class Severity(str, Enum):
    """The severity of a finding, the most severe first: the order of findings in summaries."""

    CRITICAL = "Critical"
    HIGH = "High"
    MEDIUM = "Medium"
    LOW = "Low"


def find_severity(finding: DriftFinding) -> Severity:
    """Return the severity of a finding: first by what is lost or blocked, then by what a plan does."""
    if finding.risk is Risk.DATA_LOSS or finding.drift_class in CRITICAL_CLASSES:
        return Severity.CRITICAL
    is_refused = finding.planned is PlannedAction.REFUSED or finding.drift_class in UNDECIDED_CLASSES
    if is_refused or finding.risk is Risk.DISRUPTIVE:
        return Severity.HIGH
    return Severity.MEDIUM if finding.planned is PlannedAction.CHANGE else Severity.LOW
