"""Cross-cluster differences in fleets with more clusters than a report lists."""

from __future__ import annotations

import pytest

from support.builders import replica_lists, spec, topic
from topiarist.drift.cross_cluster import (
    MAX_SHOWN_CLUSTERS,
    CrossClusterIndex,
    TopicVariant,
    make_variant,
    make_variant_equal_to_spec,
)

NAMES = [f"cluster-{number:04}" for number in range(1000)]

WANTED = spec("orders", partitions=2, replicationFactor=2)


@pytest.fixture
def as_wanted() -> TopicVariant:
    """Return the topic as declared in its manifest."""
    found = make_variant_equal_to_spec(WANTED)
    assert found
    return found


@pytest.fixture
def grown() -> TopicVariant:
    """Return the topic with one partition more than declared."""
    found = make_variant(WANTED, topic("orders", replica_lists("12", "23", "31")))
    assert found
    return found


def test_of_many_clusters_all_are_counted_and_the_first_are_named(as_wanted: TopicVariant, grown: TopicVariant) -> None:
    """Each value counts all its clusters and names the first, for variants that were added singly or together."""
    fleet = CrossClusterIndex()
    for number, name in enumerate(NAMES):
        if number % 4 == 1:
            fleet.add_variants(name, [grown])
        if number % 4 == 2:
            found = make_variant(WANTED, topic("orders", replica_lists("12", "23")))
            fleet.add_variants(name, [found] if found else [])
    fleet.add_shared_variant(as_wanted, NAMES[::4])
    (one,) = fleet.differences()
    assert one["values"] == [
        {"value": "2", "number": 500, "clusters": NAMES[::2][:MAX_SHOWN_CLUSTERS]},
        {"value": "3", "number": 250, "clusters": NAMES[1::4][:MAX_SHOWN_CLUSTERS]},
    ]


def test_what_no_cluster_has_is_no_value(as_wanted: TopicVariant, grown: TopicVariant) -> None:
    """A variant without clusters gives no value, as where every matching cluster was unreadable."""
    fleet = CrossClusterIndex()
    fleet.add_shared_variant(as_wanted, [])
    fleet.add_variants("a", [grown])
    assert list(fleet.differences()) == []
