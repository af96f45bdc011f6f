"""Findings about reassignments and about usage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, replica_lists, spec, state, topic
from support.drift.small_fleet import SNAPSHOT_TIME, owned_topic
from topiarist.adapters.snapshots.lenient_reader import InvalidRow
from topiarist.drift.compare import compare_cluster
from topiarist.drift.findings import DriftClass, DriftFinding, FindingRow
from topiarist.drift.placement import find_usage_findings, requested_targets
from topiarist.drift.snapshots import ClusterInput
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.model.usage import DAY_S, CurvePoint, Evidence, Side, TopicSample, TopicUsage, UsageState

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
    through the Admin API has no time. Of several partitions the first is the example.
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
    (row,) = rows(requested(("orders", 2, (4, 3)), ("orders", 1, (2, 4))))
    assert row["actual"] == "2 partitions; for example partition 1 on [2, 3], to [2, 4]"


def test_targets_of_a_topic_are_those_of_its_own_entries() -> None:
    """A request may have many topics; the entries of a deleted topic count for no topic of the name."""
    seen = requested(("orders", 0, (4, 2)), ("clicks", 1, (1, 3)), stale_reassignments=frozenset({"clicks"}))
    assert requested_targets("orders", seen) == {0: (4, 2)}
    assert requested_targets("clicks", seen) == {}


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


def test_a_declared_topic_with_a_stale_entry_is_not_in_sync() -> None:
    """The entry is the only finding of its topic. A topic that may be in an invalid row did not count before."""
    seen = requested(("orders", 0, (4, 2)), age=600, stale_reassignments=frozenset({"orders"}))
    assert _count_in_sync(seen) == 0
    without = replace(seen, topics={"users": topic("users")})
    assert _count_in_sync(without, InvalidRow("eu.jsonl", 3, "found invalid JSON")) == 1


def _count_in_sync(seen: ClusterState, *invalid_rows: InvalidRow) -> int:
    cluster_input = ClusterInput("prod", SNAPSHOT_TIME, seen, invalid_rows=invalid_rows)
    wanted = [spec("orders"), *([spec("users")] if "users" in seen.topics else [])]
    return compare_cluster(cluster_input, PROD_CLUSTER, wanted, RunOptions(), "").counts.in_sync


def test_a_request_without_readable_entries_is_stuck() -> None:
    """It blocks every request; a request that is a few seconds old may be on its way."""
    for age, found in ((10, []), (61, [("", "stuck", "")])):
        assert short(replace(requested(age=age), reassigning_topics=frozenset({"orders"}))) == found
    (row,) = rows(replace(requested(age=61), reassigning_topics=frozenset({"orders"})))
    assert row["message"] == (
        "the reassignment request has no entry that topiarist can read, and it blocks every reassignment"
    )
    assert row["hint"].startswith("find the program that wrote /admin/reassign_partitions, ")


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


NOW = 1_763_800_000
SPEC = ClusterSpec("prod")
UNSEEN = Side(UsageState.NOT_SEEN, observed_since=NOW - 40 * DAY_S)
USED = Side(UsageState.USED, NOW - 60, NOW - 30, NOW - 40 * DAY_S)
MIB = 1 << 20


def find(usage: TopicUsage, name: str = "t", **config: str) -> dict[tuple[DriftClass, str], str | None]:
    """Return the findings of one topic, each with its actual value."""
    keys = {key.replace("_", "."): value for key, value in config.items()}
    topics = {name: TopicState(name, "1", ((1,),), keys)}
    state = ClusterState("7sYk", (Broker(1),), topics, evidence=Evidence(NOW), usage={name: usage})
    found = find_usage_findings(state, SPEC, {})
    return {(each.drift_class, each.field): each.actual for _, each in found}


def sample(partitions: int, size: int, age_days: float = 1) -> TopicSample:
    """Return a sample with partitions of a size, and an age of their oldest record."""
    oldest = int((NOW - age_days * DAY_S) * 1000)
    return TopicSample(
        ends=(9,) * partitions, begins=(0,) * partitions, sizes=(size,) * partitions, oldest=(oldest,) * partitions
    )


@pytest.mark.parametrize(
    ("written", "read", "dormant"),
    [
        (UNSEEN, UNSEEN, True),
        (UNSEEN._replace(observed_since=NOW - 34 * DAY_S), UNSEEN, False),
        (UNSEEN, Side(), False),
        (USED, UNSEEN, False),
        (UNSEEN, USED, False),
        (UNSEEN, UNSEEN._replace(after=NOW - 35 * DAY_S, before=NOW - 34 * DAY_S), False),
    ],
)
def test_a_topic_is_dormant_if_both_sides_are_unseen_for_the_window(written: Side, read: Side, dormant: bool) -> None:
    """An unknown side, a use within the window, and a shorter observation are no finding."""
    found = find(TopicUsage(sample(1, MIB), written, read))
    assert ((DriftClass.DORMANT, "") in found) is dormant


def test_protected_and_internal_topics_are_not_judged() -> None:
    """Topics of other software and of Kafka have no finding."""
    for name in ("__consumer_offsets", "_schemas", "__topiarist"):
        assert find(TopicUsage(sample(1, MIB), UNSEEN, UNSEEN), name) == {}


@pytest.mark.parametrize(
    ("partitions", "days", "rate", "found"),
    [(12, 8, 1, True), (11, 8, 1, False), (12, 6, 1, False), (12, 8, 12, False)],
)
def test_partitions_that_hardly_grow_are_too_many(partitions: int, days: int, rate: int, found: bool) -> None:
    """Twelve partitions with less than 1 MiB a day each, over a week; fewer, or a shorter look, are not judged."""
    curve = (CurvePoint(NOW - days * DAY_S, 0, 1, 1), CurvePoint(NOW, 0, 9, 9))
    usage = TopicUsage(sample(partitions, MIB), USED, USED, curve, rate * MIB)
    assert ((DriftClass.OVERSIZED, "partitions") in find(usage)) is found


@pytest.mark.parametrize(
    ("size", "age_days", "text"),
    [
        (100 * MIB, 2.0, "retention.bytes of 100 MiB cuts first: 2 days are kept"),
        (15 * MIB, 6.9, "retention.bytes of 100 MiB is never reached"),
        (15 * MIB, 2.0, None),
        (50 * MIB, 6.9, None),
        (5 * MIB, 6.9, None),
    ],
)
def test_a_size_limit_that_is_never_reached_or_cuts_first(size: int, age_days: float, text: str | None) -> None:
    """The fullest partition decides; a small log is not judged."""
    config = {"retention_bytes": str(100 * MIB), "retention_ms": str(7 * DAY_S * 1000), "segment_bytes": str(MIB)}
    found = find(TopicUsage(sample(1, size, age_days), USED, USED), **config)
    assert found.get((DriftClass.OVERSIZED, "config.retention.bytes")) == text


def test_no_evidence_is_no_finding() -> None:
    """A snapshot without usage has no findings of these classes."""
    state = ClusterState("7sYk", (Broker(1),), {"t": TopicState("t", "1", ((1,),))})
    assert list(find_usage_findings(state, SPEC, {})) == []
    unlimited = TopicUsage(replace(sample(1, MIB), oldest=(None,)), USED, USED)
    assert find(unlimited, retention_bytes="-1") == {}


def test_the_settings_of_the_brokers_are_limits_where_a_topic_has_none() -> None:
    """A size limit that is never reached is found by the time limit of the brokers too."""
    usage = TopicUsage(replace(sample(1, 50 * MIB), oldest=((NOW - 7 * DAY_S) * 1000,)), USED, USED)
    limit = ("retention.bytes", str(10_000 * MIB))
    seen = ClusterState(
        "7sYk", (Broker(1),), {"t": TopicState("t", "1", ((1,),), dict([limit]))}, evidence=Evidence(NOW)
    )
    seen = replace(seen, usage={"t": usage})
    known = replace(seen, broker_defaults={"log.retention.ms": str(7 * DAY_S * 1000)})
    (one,) = [each for _, each in find_usage_findings(known, SPEC, {})]
    assert (one.drift_class, one.field) == (DriftClass.OVERSIZED, "config.retention.bytes")
    assert [*find_usage_findings(seen, SPEC, {})] == []


def find_whole(usage: TopicUsage, **config: str) -> DriftFinding:
    """Return the only finding of a topic."""
    keys = {key.replace("_", "."): value for key, value in config.items()}
    state = ClusterState("7sYk", (Broker(1),), {"t": TopicState("t", "1", ((1,),), keys)}, evidence=Evidence(NOW))
    ((name, one),) = find_usage_findings(replace(state, usage={"t": usage}), SPEC, {})
    assert name == "t"
    return one


def test_a_finding_about_usage_has_the_owner_of_its_topic() -> None:
    """The owner is that of the record, as in other findings of the topic."""
    usage = {"t": TopicUsage(sample(1, MIB), UNSEEN, UNSEEN)}
    seen = ClusterState("7sYk", (Broker(1),), {"t": owned_topic("t")}, evidence=Evidence(NOW), usage=usage)
    found = compare_cluster(ClusterInput("prod", SNAPSHOT_TIME, seen), SPEC, [], RunOptions(), "").rows
    assert [(row["class"], row["owner"]) for row in found] == [("dormant", "default"), ("orphaned", "default")]


WEEK = {"retention_ms": str(7 * DAY_S * 1000), "retention_bytes": str(100 * MIB)}


def test_a_finding_says_what_was_found_and_what_to_do() -> None:
    """Each finding has the expected and the actual value, and what people can do about it."""
    curve = (CurvePoint(NOW - 8 * DAY_S, 0, 1, 1), CurvePoint(NOW, 0, 9, 9))
    dormant = find_whole(TopicUsage(sample(1, MIB), UNSEEN, UNSEEN))
    assert (dormant.drift_class, dormant.hint) == (
        DriftClass.DORMANT,
        "ask its owner; delete it, or accept it by a DriftException",
    )
    assert "40 days" in str(dormant.actual)
    assert find_whole(TopicUsage(sample(12, MIB), USED, USED, curve, 24 << 10)) == DriftFinding(
        DriftClass.OVERSIZED,
        "partitions",
        "1 MiB a day for each partition",
        "12 partitions of 2 KiB a day",
        hint="partitions cannot be removed: give the topic fewer when you recreate it",
    )
    assert find_whole(TopicUsage(sample(1, 100 * MIB, 2), USED, USED), **WEEK) == DriftFinding(
        DriftClass.OVERSIZED,
        "config.retention.bytes",
        "data of 7 days, as retention.ms says",
        "retention.bytes of 100 MiB cuts first: 2 days are kept",
        hint="raise retention.bytes, or say the time that is kept",
    )
    assert find_whole(TopicUsage(sample(1, 15 * MIB, 7), USED, USED), **WEEK) == DriftFinding(
        DriftClass.OVERSIZED,
        "config.retention.bytes",
        "retention.bytes near the 15 MiB that retention.ms leaves",
        "retention.bytes of 100 MiB is never reached",
        hint="lower retention.bytes: a burst would fill the disks first",
    )


@pytest.mark.parametrize(
    ("size", "age_days", "segment", "field"),
    [
        (100 * MIB, 5.6, MIB, "cuts first"),  # 80 % of the time are cut early at most
        (100 * MIB, 5.7, MIB, None),
        (98 * MIB, 1, MIB, "cuts first"),  # two segments below the limit
        (98 * MIB - 1, 1, MIB, None),
        (80 * MIB, 1, 50 * MIB, "cuts first"),  # 80 % are full, however large segments are
        (80 * MIB - 1, 1, 50 * MIB, None),
        (20 * MIB, 5.6, MIB, "never reached"),  # 20 % of the size are used at most
        (20 * MIB + 1, 5.6, MIB, None),
        (20 * MIB, 5.5, MIB, None),
        (10 * MIB, 7, MIB, "never reached"),  # smaller logs are not judged
        (10 * MIB - 1, 7, MIB, None),
    ],
)
def test_the_edges_of_a_size_limit(size: int, age_days: float, segment: int, field: str | None) -> None:
    """The shares of size and time that count are those of the module, to the byte."""
    found = find(TopicUsage(sample(1, size, age_days), USED, USED), segment_bytes=str(segment), **WEEK)
    assert [text for text in found.values() if field and field in str(text)] == [*found.values()]
    assert bool(found) == bool(field)


@pytest.mark.parametrize(
    "config",
    [
        {"retention_bytes": "-1"},
        {"retention_bytes": "0"},
        {"retention_bytes": "many"},
        {"retention_ms": "-1"},
        {"retention_ms": "0"},
        {"retention_ms": "+-1"},
    ],
)
def test_a_topic_without_two_limits_is_not_judged(config: dict[str, str]) -> None:
    """A limit that is off or no number is none: nothing cuts first, and nothing is never reached."""
    for age_days, size in ((1, 100), (7, 15)):
        assert find(TopicUsage(sample(1, size * MIB, age_days), USED, USED), **(WEEK | config)) == {}


def test_the_largest_partition_decides_and_unknown_ones_do_not() -> None:
    """Partitions without a size or an age are left out, and of the others the largest is compared."""
    now = NOW * 1000
    sizes, oldest = (MIB, 100 * MIB, None, 900 * MIB), (now - 7 * DAY_S * 1000, now - DAY_S * 1000, now, None)
    mixed = replace(sample(4, 0), sizes=sizes, oldest=oldest)
    found = find_whole(TopicUsage(mixed, USED, USED), **WEEK)
    assert found.actual == "retention.bytes of 100 MiB cuts first: 1 day are kept"
    fresh = replace(sample(1, 100 * MIB), oldest=(now + 5000,))
    assert "first: 0 ms are" in str(find_whole(TopicUsage(fresh, USED, USED), **WEEK).actual)


def test_a_topic_that_is_being_deleted_has_no_finding() -> None:
    """A pending deletion ends the usage of a topic; a topic without state is judged by its spec."""
    usage = {"t": TopicUsage(sample(1, 100 * MIB), USED, USED)}
    keys = {"retention.ms": WEEK["retention_ms"], "retention.bytes": WEEK["retention_bytes"]}
    state = ClusterState("7sYk", (Broker(1),), {}, evidence=Evidence(NOW), usage=usage)
    wanted = {"t": spec("t", config=keys)}
    assert [name for name, _ in find_usage_findings(state, SPEC, wanted)] == ["t"]
    assert [*find_usage_findings(state, SPEC, {})] == []
    assert [*find_usage_findings(replace(state, pending_deletions=frozenset({"t"})), SPEC, wanted)] == []
