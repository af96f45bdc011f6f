"""Findings about reassignments: partitions in flight, stuck entries, and throttles that were left."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, replica_lists, spec, state, topic
from support.drift.small_fleet import SNAPSHOT_TIME
from topiarist.drift.compare import compare_cluster
from topiarist.drift.findings.finding import FindingRow
from topiarist.drift.snapshots import ClusterInput
from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import RunOptions
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, TopicState

NOW_MS = int(SNAPSHOT_TIME.timestamp() * 1000)

THROTTLE = "leader.replication.throttled.replicas"

BATCH = BatchRecord(
    "k8s/a",
    2,
    3,
    (ReplicaMove("orders", 0, (1, 2), (4, 2)),),
    {"topics/orders": {THROTTLE: OwnValue(None, "0:1,0:2")}, "brokers/1": {"rate": OwnValue("1", "2")}},
)


def rows(seen: ClusterState, *specs: TopicSpec) -> list[FindingRow]:
    """Return the findings of a cluster, with the topic ``orders`` as declared by default."""
    wanted = specs or (spec(),)
    return compare_cluster(ClusterInput("prod", SNAPSHOT_TIME, seen), PROD_CLUSTER, wanted, RunOptions(), "").rows


def short(seen: ClusterState, *specs: TopicSpec) -> list[tuple[str, str, str]]:
    """Return topic, class and field of each finding."""
    return [(row["topic"], row["class"], row["field"]) for row in rows(seen, *specs)]


def requested(
    *entries: tuple[str, int, Replicas], age: float = 10, topics: tuple[TopicState, ...] = (), **fields: Any
) -> ClusterState:
    """Return a cluster with a request of this age in seconds."""
    names = frozenset(entry[0] for entry in entries)
    request: dict[str, Any] = {
        "reassigning_topics": names,
        "requested_reassignments": tuple(RequestedReassignment(*entry) for entry in entries),
        "requested_at_ms": NOW_MS - int(age * 1000),
    }
    return state(*(topics or (topic(),)), **(request | fields))


IN_FLIGHT = topic(replicas=replica_lists("421", "23", "34"), reassigning_partitions=(0,))


def test_partitions_in_flight_name_their_client_and_time() -> None:
    """A move of topiarist has the batch, owner and time of its record; one of another client, that of the request; one
    through the Admin API has no time.
    """
    entry = ("orders", 0, (4, 2))
    ours = requested(entry, topics=(IN_FLIGHT,), batch=BATCH, batch_at_ms=NOW_MS - 20_000)
    (row,) = rows(ours)
    assert (row["class"], row["field"], row["planned"]) == ("moving", "", "Reported")
    assert row["actual"] == "1 partition; for example partition 0 on [4, 2, 1], to [4, 2]"
    assert row["message"] == "1 partition in flight since 2025-01-31T11:59:40Z, by batch 2 of 3 of owner k8s/a"
    (row,) = rows(requested(entry, topics=(IN_FLIGHT,)))
    assert row["message"] == "1 partition requested by another client; the request last changed at 2025-01-31T11:59:50Z"
    (row,) = rows(state(IN_FLIGHT))
    assert row["actual"] == "1 partition; for example partition 0 on [4, 2, 1]"
    assert "through Kafka's Admin API" in row["message"]


def test_an_entry_that_has_just_been_written_is_moving() -> None:
    """The controller has a minute to begin; then the entry is stuck, with the remedy."""
    for age, found in ((59, "moving"), (61, "stuck")):
        assert short(requested(("orders", 0, (4, 2)), age=age)) == [("orders", found, "")]
    (row,) = rows(requested(("orders", 0, (4, 2)), age=61))
    assert row["reasons"] == ["StuckReassignment"]
    assert "nothing of it is in flight" in row["message"]
    assert "Admin API" in row["hint"]


def test_an_entry_of_unknown_age_is_not_stuck() -> None:
    """Snapshots of earlier releases have no time of the request, and the clock of the cluster may be ahead."""
    for requested_at in (None, NOW_MS + 3_600_000):
        seen = replace(requested(("orders", 0, (4, 2))), requested_at_ms=requested_at)
        assert short(seen) == [("orders", "moving", "")]


@pytest.mark.parametrize("target", [(1, 1, 2), (1, -5)])
def test_an_invalid_target_is_stuck_at_once(target: Replicas) -> None:
    """A duplicate or negative id never leaves the request, in flight or not; it is not in motion."""
    for seen in (topic(), IN_FLIGHT):
        assert short(requested(("orders", 0, target), topics=(seen,))) == [("orders", "stuck", "")]
    found = short(requested(("orders", 0, target), ("orders", 2, (4, 3)), topics=(topic(),)))
    assert found == [("orders", "moving", ""), ("orders", "stuck", "")]


def test_a_stuck_entry_of_an_undeclared_topic_is_found() -> None:
    """An entry blocks the moves of every topic, so it is reported for internal and protected topics too."""
    names = ("orders", "__consumer_offsets", "guest")
    topics = (topic(), *(topic(name, record=None) for name in names[1:]))
    seen = requested(*((name, 0, (1, 1)) for name in names), topics=topics)
    assert short(seen) == [
        ("__consumer_offsets", "stuck", ""),
        ("guest", "stuck", ""),
        ("guest", "unexpected", ""),
        ("orders", "stuck", ""),
    ]


def test_a_stale_entry_is_stuck_and_nothing_else() -> None:
    """The entry of a deleted topic is reported once, for a topic that exists and one that does not."""
    stale = frozenset({"orders", "gone"})
    seen = requested(("orders", 0, (4, 2)), ("gone", 0, (1, 2)), age=600, stale_reassignments=stale)
    assert short(seen) == [("gone", "stuck", ""), ("orders", "stuck", "")]
    assert {row["reasons"][0] for row in rows(seen)} == {"StuckReassignment"}
    assert all("next controller" in row["message"] for row in rows(seen))


def test_a_request_without_readable_entries_is_stuck() -> None:
    """It blocks every request; a request that is a few seconds old may be on its way."""
    for age, found in ((10, []), (61, [("", "stuck", "")])):
        assert short(replace(requested(age=age), reassigning_topics=frozenset({"orders"}))) == found


def test_a_record_without_a_request_is_a_throttle() -> None:
    """A run that ended early leaves throttles: found once for the cluster, with owner and time."""
    seen = state(topic(config={THROTTLE: "0:1,0:2"}), batch=BATCH, batch_at_ms=NOW_MS - 1000)
    (row,) = rows(seen)
    assert (row["topic"], row["class"], row["actual"]) == ("", "throttle", "2 throttles")
    assert "batch 2 of 3 of owner k8s/a, sent at 2025-01-31T11:59:59Z, is done" in row["message"]
    assert short(requested(("orders", 0, (4, 2)), batch=BATCH, batch_at_ms=NOW_MS)) == [("orders", "moving", "")]


def test_a_throttle_of_a_topic_at_rest_is_found() -> None:
    """A throttle config with nothing in flight is found, unless the manifest declares it."""
    throttled = topic(config={THROTTLE: "*"})
    assert short(state(throttled)) == [("orders", "throttle", f"config.{THROTTLE}")]
    assert short(state(throttled, batch=BATCH)) == [("", "throttle", ""), ("orders", "throttle", f"config.{THROTTLE}")]
    declared = spec(partitions=3, replicationFactor=2, config={THROTTLE: "*"})
    assert short(state(topic("orders", throttled.replicas, THROTTLE, config={THROTTLE: "*"})), declared) == []
    moving = replace(throttled, reassigning_partitions=(0,))
    assert short(state(moving)) == [("orders", "moving", "")]
    assert short(requested(("orders", 1, (2, 4)), topics=(throttled,))) == [("orders", "moving", "")]


def test_topics_to_be_deleted_are_not_moving() -> None:
    """A topic that is marked for deletion, or should be absent, has no finding about moves."""
    seen = requested(("orders", 0, (4, 2)), topics=(IN_FLIGHT,))
    assert "moving" not in {row["class"] for row in rows(seen, spec(ensure="Absent"))}
    marked = replace(seen, pending_deletions=frozenset({"orders"}))
    assert "moving" not in {row["class"] for row in rows(marked)}


def test_the_age_is_that_of_the_snapshot() -> None:
    """The same state compared as of a later read is stuck: no clock of this process is read."""
    seen, later = requested(("orders", 0, (4, 2))), SNAPSHOT_TIME + timedelta(minutes=2)
    done = compare_cluster(ClusterInput("prod", later, seen), PROD_CLUSTER, [spec()], RunOptions(), "")
    assert [row["class"] for row in done.rows] == ["stuck"]
