"""A part of the state sequences that are generated from the schema; ``make campaign`` runs all properties."""

from __future__ import annotations

import pytest

from campaigns.sequences import PropertySequence, enumerate_sequences, run_sequence

SAMPLE = (*enumerate_sequences("topics"), *[*enumerate_sequences("clusters")][::4])


@pytest.mark.parametrize("sequence", SAMPLE, ids=str)
def test_each_state_is_reached_or_refused_with_a_reason(sequence: PropertySequence) -> None:
    """The operator converges to each state or says why not, does not crash, and recovers with the good state."""
    report = run_sequence(sequence)
    assert report.alarms == []
    assert report.accepted
