"""The deletions of the last day: each counts once, for exactly one day, whatever a status says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.kubernetes.api import client
from topiarist.kubernetes.approval import recent_deletions
from topiarist.kubernetes.reconciler import reconcile_cluster
from topiarist.model.state import ClusterState, DeletionRecord, OperatorMemory, OwnershipRecord
from unit.kubernetes.reconcile_requests import OWNER, make_request, owned_topic

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def ms(time: datetime) -> int:
    """Return a time in ms since the epoch."""
    return int(time.timestamp() * 1000)


def record(*times: datetime, owner: str = OWNER, deleted: bool = True) -> OwnershipRecord:
    """Return a record with the times of these deletions."""
    return OwnershipRecord(owner, deleted=deleted, memory=OperatorMemory(deletions_ms=tuple(map(ms, times))))


def told(read: ClusterState, now: datetime = NOON) -> list[tuple[str, str]]:
    """Return the deletions of the day."""
    return [(each.topic, each.time) for each in recent_deletions(read, OWNER, now)]


def at(time: datetime) -> str:
    """Return a time in the format of a status."""
    return client.format_time(time)


def earlier_release(time: datetime, owner: str = OWNER) -> ClusterState:
    """Return a cluster with a deletion record of a release that wrote no times."""
    return states.cluster(
        dangling_records={"orders": OwnershipRecord(owner, deleted=True)},
        deletion_records={"orders": DeletionRecord(owner, ms(time))},
    )


def test_a_deletion_counts_by_the_record_that_it_leaves() -> None:
    """A deletion counts by the time in its record, once: the time at which a record was written counts only without."""
    found = states.cluster(dangling_records={"orders": record(NOON - SECOND)})
    assert told(found) == [("orders", at(NOON - SECOND))]
    assert told(replace(found, deletion_records={"orders": DeletionRecord(OWNER, ms(NOON))})) == told(found)
    assert told(earlier_release(NOON - SECOND)) == [("orders", at(NOON - SECOND))]


def test_a_topic_that_was_made_again_counts_all_the_same() -> None:
    """The deletions of earlier topics of a name count beside the present topic, also if its record is not valid."""
    kept = record(NOON - 2 * SECOND, NOON - SECOND, deleted=False)
    for valid in (True, False):
        topic = replace(states.topic("orders"), record=kept, record_valid=valid)
        assert told(states.cluster(topic)) == [("orders", at(NOON - 2 * SECOND)), ("orders", at(NOON - SECOND))]


def test_a_day_later_it_is_forgotten() -> None:
    """A deletion expires after one day to the second."""
    for read in (states.cluster(dangling_records={"orders": record(NOON)}), earlier_release(NOON)):
        assert told(read, NOON + DAY - SECOND) == [("orders", at(NOON))]
        assert told(read, NOON + DAY) == []


def test_what_others_have_deleted_is_their_affair() -> None:
    """Deletions of other owners do not count; the command line has its own budget for each run."""
    assert told(earlier_release(NOON, "default")) == []
    assert told(states.cluster(dangling_records={"orders": record(NOON, owner="default")})) == []


def test_the_oldest_comes_first() -> None:
    """Deletions are sorted by age, oldest first, because a full status omits the oldest."""
    records = {"b": record(NOON - SECOND), "a": record(NOON), "c": record(NOON - 2 * SECOND)}
    assert [topic for topic, _ in told(states.cluster(dangling_records=records))] == ["c", "b", "a"]


def test_a_day_of_deletions_and_creations_of_one_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deletion of a topic that is recreated counts, from the records alone; the budget holds the next one, and
    has room again a day after the first. No status is there to read.
    """
    now = NOON
    monkeypatch.setattr(client, "utc_now", lambda: now)
    home = resource_bodies.cluster(allowDeletion=True, budgets={"deletions": 2})
    port = MemoryCluster(states.cluster(owned_topic("orders")))

    def ensure(ensure: str) -> bool:
        topic = resource_bodies.topic("orders", ensure=ensure)
        assert reconcile_cluster(port, make_request(home, topic), lambda: False).error is None
        return "orders" in port.state.topics

    for _ in range(2):
        now += SECOND
        assert not ensure("Absent")
        assert ensure("Present")
    assert told(port.state, now) == [("orders", at(NOON + SECOND)), ("orders", at(NOON + 2 * SECOND))]
    assert ensure("Absent")
    now = NOON + SECOND + DAY
    assert not ensure("Absent")
    assert told(port.state, now) == [("orders", at(NOON + 2 * SECOND)), ("orders", at(now))]
