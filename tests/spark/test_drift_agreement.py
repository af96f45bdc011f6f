"""Reports by Spark agree with a comparer that shares no code with topiarist, finding by finding."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.drift.independent_comparer import expected_findings
from support.drift.random_fleets import OWNER, Fleet, merge_fleets, random_fleets
from support.drift.reported_findings import report_findings
from support.examples import scaled


@pytest.mark.usefixtures("spark")
@settings(max_examples=scaled(3))
@given(st.lists(random_fleets(), min_size=15, max_size=30).map(merge_fleets))
def test_a_report_by_spark_has_the_findings_of_an_independent_comparer(fleet: Fleet) -> None:
    """The report of many fleets in one, because a job has a fixed cost, has exactly the findings of the comparer."""
    with TemporaryDirectory() as folder:
        expected = expected_findings(fleet.documents, fleet.snapshots, OWNER)
        assert report_findings(fleet, Path(folder), "--engine", "spark") == expected
