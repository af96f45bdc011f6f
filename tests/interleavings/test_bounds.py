"""Every small bound, explored whole: counts of states and finds are those of ``docs/internals/interleavings.json``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from interleavings import run
from support.examples import slow_but

RECORD = run.load_record()
QUICK = {
    "zookeeper": ("one run", "drift, lost answers", "two creations"),
    "kafka": ("API: one run", "API: two creations, a crash", "API: growth, another client"),
}
QUICK_FAULTS = {
    "zookeeper": ("config changes are not announced", "a record of equal bytes proves a transaction"),
    "kafka": ("a commit without an answer counts as made", "intents are not written"),
}
NIGHTLY = {
    "zookeeper": (
        *("two runs, resign", "two runs, broker", "two runs, unlock", "two runs, migrate", "two runs, own"),
        *("two runs, freeze", "two equal runs, unlock", "moves: a raise", "moves: two batches", "moves: a failover"),
        *("moves: unlock", "growth, another client", "config, another client"),
    ),
    "kafka": ("API: two creations, a stop", "API: two growths, a stop"),
}
NIGHTLY_FAULTS = {
    "zookeeper": (
        "moves: the topic is not checked",
        "moves: throttles are never put back",
        "moves: throttles of the batch before are forgotten",
    ),
}
"""The dear ones: those above with their planted faults take two thirds of the time of all."""

SMALL = [(way, bound) for way in run.WAYS for bound in run.WAYS[way].small]
FAULTS = [(way, fault) for way in run.WAYS for fault in run.WAYS[way].faults]


def _pairs(names: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(way, name) for way, chosen in names.items() for name in chosen]


@pytest.mark.parametrize(
    ("way", "bound"), slow_but(_pairs(QUICK), SMALL, nightly=_pairs(NIGHTLY), area="interleavings")
)
def test_a_bound_has_the_recorded_counts(way: str, bound: str) -> None:
    """A change of the code that changes a count changes the record with it: the model does not shrink unseen."""
    exploration = run.WAYS[way].explore(bound)
    assert exploration.is_complete
    assert exploration.is_acyclic
    recorded = dict(RECORD[way]["bounds"][bound])
    recorded.pop("seconds")
    assert run.summarize(exploration) == recorded


@pytest.mark.parametrize(
    ("way", "fault"),
    slow_but(_pairs(QUICK_FAULTS), FAULTS, nightly=_pairs(NIGHTLY_FAULTS), area="interleavings"),
)
def test_a_planted_fault_is_found(way: str, fault: str) -> None:
    """A guard that is removed shows as a find that the true code does not have."""
    bound = run.WAYS[way].faults[fault].bound
    shown = run.WAYS[way].find_planted_fault(fault, RECORD[way]["bounds"][bound]["finds"])
    assert shown is not None
    recorded = RECORD[way]["faults"][fault]
    assert (shown[0], len(shown) - 1) == (recorded["find"], recorded["steps"])


@pytest.mark.parametrize("way", run.WAYS)
def test_each_find_is_explained_and_each_explanation_is_needed(way: str) -> None:
    """``finds.toml`` has one entry for each recorded find."""
    finds, explanations = RECORD[way]["schedules"], run.load_explanations(way)
    assert run.unexplained(finds, explanations) == []
    assert [pattern for pattern in explanations if not _matches(pattern, finds)] == []


def _matches(pattern: str, finds: Collection[str]) -> bool:
    return any(not run.unexplained([find], [pattern]) for find in finds)


@pytest.mark.parametrize("way", run.WAYS)
def test_the_record_has_each_bound_and_each_fault(way: str) -> None:
    """``make record-interleavings`` was run after the last change of bounds and faults."""
    assert [*RECORD[way]["bounds"]] == [*run.WAYS[way].bounds]
    assert [*RECORD[way]["faults"]] == [*run.WAYS[way].faults]
