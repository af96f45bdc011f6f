"""A part of the campaigns on the operator: every write of every workload, and a sample of the views.

``make campaign`` runs all positions.
"""

from __future__ import annotations

from itertools import groupby

import pytest

from campaigns.patterns import Case, Pattern, enumerate_cases, run_case, run_reference
from campaigns.remaining import REMAINING, remaining_reason
from campaigns.workloads import WORKLOADS, Workload
from support.examples import slow_but

NIGHTLY = ("recreate the resource", "pause", "cluster deletion", "delete", "recreate without waiting", "policies")
"""The workloads with most writes."""

STRIDE = 7
"""Each view is taken at every seventh position."""


def sample(cases: list[Case]) -> list[Case]:
    """Return all interruptions, and each seventh case of the other patterns."""
    chosen = []
    for pattern, group in groupby(sorted(cases, key=lambda case: case.pattern), key=lambda case: case.pattern):
        all_positions = pattern in (Pattern.KILLED, Pattern.UNANSWERED)
        chosen += [*group][:: 1 if all_positions else STRIDE]
    return chosen


@pytest.mark.parametrize(
    "workload",
    slow_but(
        WORKLOADS[:1],
        WORKLOADS,
        nightly=[workload for workload in WORKLOADS if workload.name in NIGHTLY],
        area="campaigns",
    ),
    ids=lambda workload: workload.name,
)
def test_a_perturbed_run_ends_as_the_unperturbed_one(workload: Workload) -> None:
    """Final state and statuses are equal, nothing more is deleted, and a further pass writes nothing."""
    reference = run_reference(workload)
    assert reference.writes
    alarms = {str(case): found for case in sample([*enumerate_cases(workload, reference)])
              if (found := run_case(case, reference)) and not remaining_reason(case, found)}  # fmt: skip
    assert alarms == {}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pattern"), REMAINING)
def test_an_alarm_that_remains_still_occurs(name: str, pattern: Pattern) -> None:
    """An alarm that is named as a remaining one has a case that raises it: otherwise its name is removed."""
    (workload,) = (each for each in WORKLOADS if each.name == name)
    reference = run_reference(workload)
    cases = (case for case in enumerate_cases(workload, reference) if case.pattern is pattern)
    assert any(remaining_reason(case, run_case(case, reference)) for case in cases)
