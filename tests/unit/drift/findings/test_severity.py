"""The severity of a finding, by its class, the plan and its risk."""

from __future__ import annotations

import pytest

from topiarist.drift.findings.finding import DriftClass, DriftFinding, PlannedAction
from topiarist.drift.findings.severity import Severity, find_severity
from topiarist.model.run_options import Risk

CRITICAL = {"missing", "stuck"}
HIGH = {"refused", "unknown", "invalid", "expired"}


@pytest.mark.parametrize("drift_class", DriftClass)
def test_a_class_has_a_least_severity(drift_class: DriftClass) -> None:
    """What is missing or stuck is critical and what cannot be judged is high; others depend on the plan."""
    found = find_severity(DriftFinding(drift_class))
    name = drift_class.value
    assert found is (Severity.CRITICAL if name in CRITICAL else Severity.HIGH if name in HIGH else Severity.LOW)
    assert find_severity(DriftFinding(drift_class, risk=Risk.DATA_LOSS)) is Severity.CRITICAL


@pytest.mark.parametrize(
    ("planned", "risk", "severity"),
    [
        (PlannedAction.CHANGE, Risk.SAFE, Severity.MEDIUM),
        (PlannedAction.CHANGE, Risk.DISRUPTIVE, Severity.HIGH),
        (PlannedAction.REFUSED, Risk.SAFE, Severity.HIGH),
        (PlannedAction.REFUSED, Risk.DATA_LOSS, Severity.CRITICAL),
        (PlannedAction.REFUSED, None, Severity.HIGH),
    ],
)
def test_what_a_plan_does_decides_the_rest(planned: PlannedAction, risk: Risk | None, severity: Severity) -> None:
    """A change is of medium severity, a disruption and a refusal are high, a loss is critical."""
    assert find_severity(DriftFinding(DriftClass.CONFIG, planned=planned, risk=risk)) is severity


def test_the_most_severe_comes_first() -> None:
    """The order of severities is that of summaries."""
    assert [each.value for each in Severity] == ["Critical", "High", "Medium", "Low"]
