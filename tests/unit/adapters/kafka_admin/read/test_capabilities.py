"""What a cluster can do, by the requests that its brokers offer and by their answers."""

from __future__ import annotations

import pytest

from topiarist.adapters.kafka_admin.read.capabilities import NO_IDS, Seen, find_capabilities, see_compaction
from topiarist.model.state import GIVEN, UNKNOWN, Capabilities, Support
from unit.adapters.kafka_admin.scripted_session import ScriptedSession

TRIED = {"freshness", "replica_lists", "growth_lists", "compaction"}
"""The capabilities that no offered request shows."""

RECORDS = ("ListOffsets", "Fetch", "FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")

HIDDEN: dict[str, set[str]] = {
    **{name: {"transactions"} for name in RECORDS},
    "Metadata": {"topic_ids"},
    "DescribeConfigs": {"config_sources", "throttles"},
    "CreateTopics": {"creation", "quotas"},
    "CreatePartitions": {"growth"},
    "IncrementalAlterConfigs": {"config_changes", "throttles"},
    "DeleteTopics": {"deletion", "deletion_by_id"},
    "ListPartitionReassignments": {"listed_reassignments", "moves", "elections"},
    "AlterPartitionReassignments": {"moves"},
    "ElectLeaders": {"elections"},
    "DescribeCluster": set(),
}

OLD: list[tuple[str, int, set[str], str]] = [
    ("Metadata", 9, {"topic_ids"}, "up to version 9, and version 10 is needed to see the ids of topics"),
    ("Metadata", 10, set(), ""),
    ("DeleteTopics", 5, {"deletion_by_id"}, "up to version 5, and version 6 is needed to delete topics by their ids"),
    ("DeleteTopics", 0, {"deletion", "deletion_by_id"}, "DeleteTopics"),
    ("CreateTopics", 5, {"quotas"}, "up to version 5, and version 6 is needed to tell when a quota is exceeded"),
    ("CreateTopics", 6, set(), ""),
    ("DescribeConfigs", 1, set(), ""),
    ("DescribeConfigs", 0, {"config_sources", "throttles"}, "DescribeConfigs"),
    ("InitProducerId", 2, {"transactions"}, "InitProducerId"),
]


def find(session: ScriptedSession, seen: Seen = Seen()) -> Capabilities:  # noqa: B008 - it is immutable
    """Return the capabilities of the first broker."""
    return find_capabilities(session.any_broker(), seen)


def denied(capabilities: Capabilities) -> dict[str, str]:
    """Return the capabilities that are missing, with the reason."""
    return {name: each.why for name, each in capabilities.items() if each.is_missing}


def test_brokers_that_offer_everything() -> None:
    """Only what no request shows is unknown: lists, compaction, and whether metadata are old."""
    found = find(ScriptedSession({}))
    assert {name for name, each in found.items() if each == UNKNOWN} == TRIED
    assert {each for name, each in found.items() if name not in TRIED} == {GIVEN}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_request_that_is_not_offered(name: str) -> None:
    """Exactly what needs it is denied, and the reason names the request."""
    session = ScriptedSession({})
    session.unsupported = {name}
    found = denied(find(session))
    assert found.keys() == HIDDEN[name]
    assert all(name in why for why in found.values())


@pytest.mark.parametrize(("name", "newest", "names", "why"), OLD)
def test_a_request_in_old_versions(name: str, newest: int, names: set[str], why: str) -> None:
    """Exactly what needs a later version is denied."""
    session = ScriptedSession({})
    session.versions[name] = newest
    found = denied(find(session))
    assert found.keys() == names
    assert all(why in each for each in found.values())


def test_answers_of_the_session() -> None:
    """An answer counts as much as a request that is not offered; a right that is missing is no part of the cluster."""
    unlisted = Support(False, "Describe is missing", lacks_right=True)
    old = Support(False, "the brokers answer DescribeQuorum with UNSUPPORTED_VERSION (35)")
    found = find(ScriptedSession({}), Seen(NO_IDS, old, see_compaction({"delete", "compact,delete"}), unlisted))
    assert (found.topic_ids, found.freshness, found.compaction) == (NO_IDS, old, GIVEN)
    assert found.listed_reassignments == unlisted
    assert denied(found).keys() == {"topic_ids", "freshness"}
    assert see_compaction({"delete"}) == see_compaction(()) == UNKNOWN
