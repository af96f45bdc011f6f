"""The deletions of the last day: each counts once from any source, for exactly one day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from support import states
from support.kubernetes import resource_bodies
from topiarist.kubernetes.api import clock
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.reconciler import Deletion, recent_deletions
from topiarist.model.state import ClusterState, DeletionRecord

OURS = "k8s/shop/topiarist"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def home(*deletions: Deletion) -> Resource:
    """Return a Cluster with these deletions in its status."""
    return resource_bodies.updated_body(
        resource_bodies.cluster(), status={"deletions": [each.status_entry for each in deletions]}
    )


def state(owner: str = OURS, **times: datetime) -> ClusterState:
    """Return a cluster with the deletion records of these topics."""
    written = {name: DeletionRecord(owner, int(time.timestamp() * 1000) + 7) for name, time in times.items()}
    return states.cluster(deletion_records=written)


def told(found: Resource, read: ClusterState | None, now: datetime = NOON) -> list[tuple[str, str]]:
    """Return the deletions of the day."""
    return [(each.topic, each.time) for each in recent_deletions(found, read, OURS, now)]


def at(time: datetime) -> str:
    """Return a time in the format of a status."""
    return clock.format_time(time)


def test_a_deletion_that_no_status_tells_of_counts() -> None:
    """A deletion without a status entry counts by its deletion record, after a kill of the operator or for a new
    Cluster.
    """
    assert told(home(), state(orders=NOON - SECOND)) == [("orders", at(NOON - SECOND))]


def test_a_deletion_counts_once() -> None:
    """A deletion with both a status entry and a deletion record counts once."""
    (found,) = recent_deletions(home(), state(orders=NOON - SECOND), OURS, NOON)
    assert told(home(found), state(orders=NOON - SECOND)) == [("orders", at(NOON - SECOND))]


def test_a_topic_that_was_made_again_counts_all_the_same() -> None:
    """The deletion of a recreated topic counts, also if its deletion record was removed or replaced."""
    first = Deletion(at(NOON - 2 * SECOND), "orders")
    assert told(home(first), state()) == [("orders", first.time)]
    assert told(home(first), state(orders=NOON - SECOND)) == [("orders", first.time), ("orders", at(NOON - SECOND))]


def test_what_is_known_stays_known_where_nothing_was_read() -> None:
    """Known deletions remain while the cluster is unavailable."""
    assert told(home(Deletion(at(NOON), "orders")), None) == [("orders", at(NOON))]


def test_a_day_later_it_is_forgotten() -> None:
    """A deletion expires after one day to the second, in the status and in ZooKeeper."""
    before, day = state(orders=NOON), timedelta(days=1)
    for read, status in ((before, home()), (None, home(Deletion(at(NOON), "orders")))):
        assert told(status, read, NOON + day - SECOND) == [("orders", at(NOON))]
        assert told(status, read, NOON + day) == []


def test_what_others_have_deleted_is_their_affair() -> None:
    """Deletions of other owners do not count; the command line has its own budget for each run."""
    assert told(home(), state("default", orders=NOON)) == []


def test_the_oldest_comes_first() -> None:
    """Deletions are sorted by age, oldest first, because a full status omits the oldest."""
    found = home(Deletion(at(NOON - SECOND), "b"))
    assert [topic for topic, _ in told(found, state(a=NOON, c=NOON - 2 * SECOND))] == ["c", "b", "a"]
