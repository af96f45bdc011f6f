"""Reports of random fleets agree with a comparer that shares no code with topiarist, finding by finding."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given

from support.drift.independent_comparer import CLASSES, expected_findings
from support.drift.random_fleets import OWNER, Fleet, make_fleet, random_fleets
from support.drift.reported_findings import report_findings
from support.examples import examples


@examples(150)
@given(random_fleets())
def test_a_report_has_the_findings_of_an_independent_comparer(fleet: Fleet) -> None:
    """The report has exactly the findings that the comparer derives, with the same values and the same two axes."""
    with TemporaryDirectory() as folder:
        assert report_findings(fleet, Path(folder)) == expected_findings(fleet.documents, fleet.snapshots, OWNER)


def test_random_fleets_have_findings_of_every_class() -> None:
    """The fleets have every class that the comparer knows, so that the property proves something for each class."""
    fleets = (make_fleet(seed, 3, 5) for seed in range(40))
    findings = [each for fleet in fleets for each in expected_findings(fleet.documents, fleet.snapshots, OWNER)]
    assert {each[2] for each in findings} == CLASSES
    assert {each[6] for each in findings} == {"Change", "Refused", "Reported"}
    assert {each[7] for each in findings} == {"DataLoss", "Availability", "Cost", "Order", "None", "Unknown"}
    assert {each[9] for each in findings} == {None, "Safe", "Disruptive", "DataLoss"}
