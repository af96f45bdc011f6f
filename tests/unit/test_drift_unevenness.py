"""What only a fleet shows, of more clusters than a report can name."""

from __future__ import annotations

import pytest

from topiarist.drift.unevenness import MOST_CLUSTERS, Fleet, Sighting, Value, as_asked, sighting
from unit.builders import lists, spec, topic

NAMES = [f"cluster-{number:04}" for number in range(1000)]

WANTED = spec("orders", partitions=2, replicationFactor=2)


@pytest.fixture
def as_wanted() -> Sighting:
    """The topic as its manifest has it."""
    found = as_asked(WANTED)
    assert found
    return found


@pytest.fixture
def grown() -> Sighting:
    """The topic with a partition more than asked for."""
    found = sighting(WANTED, topic("orders", lists("12", "23", "31")))
    assert found
    return found


def test_of_many_clusters_all_are_counted_and_the_first_are_named(as_wanted: Sighting, grown: Sighting) -> None:
    """However they came: one by one, the same thing of all, or together."""
    fleet = Fleet()
    for number, name in enumerate(NAMES):
        if number % 4 == 1:
            fleet.note(name, [grown])
        if number % 4 == 2:
            fleet.add(name, WANTED, topic("orders", lists("12", "23")))
    fleet.note_all(as_wanted, NAMES[::4])
    (one,) = fleet.uneven()
    assert one.values == (
        Value("2", 500, tuple(NAMES[::2][:MOST_CLUSTERS])),
        Value("3", 250, tuple(NAMES[1::4][:MOST_CLUSTERS])),
    )


def test_what_no_cluster_has_is_no_value(as_wanted: Sighting, grown: Sighting) -> None:
    """As where all that would be as asked could not be read."""
    fleet = Fleet()
    fleet.note_all(as_wanted, [])
    fleet.note("a", [grown])
    assert list(fleet.uneven()) == []
