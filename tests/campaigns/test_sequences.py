"""A part of the state sequences that are generated from the schema; ``make campaign`` runs all properties."""

from __future__ import annotations

import pytest

from campaigns.schema_values import Path
from campaigns.sequences import make_sequence, properties_of, run_sequence
from support.examples import slow_but

QUICK = [("topics", ("partitions",)), ("clusters", ("drainBrokers",))]
CLUSTERS = [("clusters", path) for path in properties_of("clusters")]
SAMPLE = [
    *(("topics", path) for path in properties_of("topics")),
    *(case for number, case in enumerate(CLUSTERS) if number % 4 == 0 or case in QUICK),
]


@pytest.mark.parametrize(
    ("plural", "path"), slow_but(QUICK, SAMPLE), ids=[f"{plural} {'.'.join(path)}" for plural, path in SAMPLE]
)
def test_each_state_is_reached_or_refused_with_a_reason(plural: str, path: Path) -> None:
    """The operator converges to each state or says why not, does not crash, and recovers with the good state."""
    report = run_sequence(make_sequence(plural, path))
    assert report.alarms == []
    assert report.accepted
