"""The document of ``topiarist list --format json``: each field of a row, and null for what is not known."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from support.states import cluster, spec
from topiarist.inspection.health import IssueType
from topiarist.inspection.list import TopicFlag, TopicList, TopicRow
from topiarist.model.spec import ClusterSpec
from topiarist.model.usage import GroupType, GroupUsage, Side, TopicSample, TopicUsage, UsageState
from topiarist.output.list import encode_lists

EU = ClusterSpec(name="eu")
ROW = TopicRow(
    "orders",
    replace(spec("orders", EU), profile_labels={"tier": "gold"}),
    12,
    {3: 12},
    "default",
    {"retention.ms": "5"},
    (TopicFlag.UNEQUAL_REPLICAS, TopicFlag.DORMANT),
    {IssueType.OFFLINE: 1, IssueType.UNDER_REPLICATED: 4},
    True,
)
ENCODED: dict[str, Any] = {
    "topic": "orders",
    "partitions": 12,
    "replicationFactor": 3,
    "replicaCounts": {"3": 12},
    "owner": "default",
    "document": {
        "name": "orders",
        "namespace": "",
        "labels": {"tier": "gold"},
        "location": {"file": "topics/orders.yaml", "line": 1, "column": 1},
    },
    "config": {"retention.ms": "5"},
    "states": ["Dormant", "Offline", "UnderReplicated", "UnequalReplicas"],
    "statesKnown": True,
    "offline": 1,
    "underReplicated": 4,
}
USAGE = TopicUsage(
    TopicSample(sizes=(40, 2), groups=(GroupUsage("a", GroupType.CLASSIC, members=2),), more_groups=3),
    Side(UsageState.USED, 1, 60, 120),
    Side(UsageState.NOT_SEEN),
    bytes_per_day=7,
)


def _encode(row: TopicRow) -> dict[str, Any]:
    (only,) = encode_lists([TopicList(EU, cluster(), (row,), 1, True)])["clusters"][0]["topics"]
    return dict(only)


def test_each_field_of_a_row_is_encoded() -> None:
    """All that a row knows is in the document, with labels of profiles too."""
    assert _encode(ROW) == ENCODED


def test_what_is_not_known_is_null() -> None:
    """Mixed or no replicas have no factor, unknown states no numbers, and no owner and manifest are null."""
    bare = replace(ROW, spec=None, owner="", partitions_by_replicas={3: 10, 2: 2}, states_known=False)
    unknown = {"replicationFactor": None, "replicaCounts": {"2": 2, "3": 10}, "owner": None, "document": None}
    assert _encode(bare) == ENCODED | unknown | {"statesKnown": False, "offline": None, "underReplicated": None}
    for counts in ({}, {0: 12}):
        assert _encode(replace(ROW, partitions_by_replicas=counts))["replicationFactor"] is None
    well = _encode(replace(ROW, issues={}))
    assert (well["offline"], well["underReplicated"]) == (0, 0)


def test_usage_is_there_if_it_was_read() -> None:
    """Times are in UTC, and null where no use was seen."""
    assert _encode(replace(ROW, usage=USAGE))["usage"] == {
        "written": {"state": "Used", "lastSeen": "1970-01-01T00:01:00Z", "observedSince": "1970-01-01T00:02:00Z"},
        "read": {"state": "NotSeen", "lastSeen": None, "observedSince": None},
        "groups": 4,
        "members": 2,
        "bytes": 42,
        "bytesPerDay": 7,
    }


def test_each_cluster_has_its_own_list() -> None:
    """A cluster has its names, the number of its topics and its warnings, also without a selected topic."""
    seen = cluster(cluster_id="7sYk", chroot="/kafka", warnings=("a broker is offline",))
    assert encode_lists([TopicList(EU, seen, (), 9, True)]) == {
        "formatVersion": 1,
        "clusters": [
            {
                "name": "eu",
                "clusterId": "7sYk",
                "chroot": "/kafka",
                "present": 9,
                "topics": [],
                "warnings": ["a broker is offline"],
            }
        ],
    }
