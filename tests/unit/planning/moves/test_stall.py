"""The cause of a stall, from partition states and registered brokers."""

from __future__ import annotations

import pytest

from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, RequestedReassignment
from topiarist.model.state import Reassignment
from topiarist.planning.moves.throttles import (
    PartitionInFlight,
    StallWatch,
    explain_stall,
    find_added,
    find_blocker,
    find_stuck_entry,
)

COPYING = PartitionInFlight("orders", 0, (1, 4), (4,), (1,))
UNSYNCED = PartitionInFlight("orders", 1, (2, 4), (4,), (4,))
IN_SYNC = PartitionInFlight("orders", 2, (1, 4), (4,), (1, 4))


@pytest.mark.parametrize(
    ("present", "reassignment", "added"),
    [((1, 2), None, (4,)), ((1, 4, 2), Reassignment((4,), (2,)), (4,)), ((4, 1), None, ())],
)
def test_added_brokers_are_known_before_the_controller_begins(
    present: Replicas, reassignment: Reassignment | None, added: Replicas
) -> None:
    """A broker that will copy is no kept replica, also before the controller has begun with the entry."""
    assert find_added((1, 4), present, reassignment) == added


def test_copies_are_no_blocker() -> None:
    """An added broker that is registered and lags blocks nothing: it copies."""
    assert find_blocker([COPYING, IN_SYNC], {1, 2, 4}) == ""


def test_an_offline_broker_is_named_first() -> None:
    """A broker that is not registered precedes a kept replica that is not in sync."""
    blocker = find_blocker([UNSYNCED, COPYING], {1, 2})
    assert blocker == "broker 4 is not registered: partition orders 0 waits for it"


def test_a_kept_replica_out_of_sync_is_a_blocker() -> None:
    """All partitions that wait for one broker are counted, and the first is named."""
    other = UNSYNCED._replace(partition=3)
    blocker = find_blocker([UNSYNCED, other], {1, 2, 4})
    assert blocker == "broker 2 keeps a replica that is not in sync: 2 partitions wait for it (orders 1 is the first)"


@pytest.mark.parametrize(("rate", "throttled"), [(1_000_000, True), (UNLIMITED, False), (None, False)])
def test_a_stall_names_the_throttle(rate: int | None, throttled: bool) -> None:
    """Copies without a blocker are slow or throttled; the rate is named if there is one."""
    cause = explain_stall([COPYING, IN_SYNC], {1, 4}, rate)
    assert cause.startswith("broker 4 has not copied all of 1 partition yet")
    assert ("1,000,000 bytes/s" in cause) == throttled


def test_a_reassignment_that_the_controller_does_not_end() -> None:
    """If all replicas are in sync, only the log of the controller has the cause."""
    assert "read its log" in explain_stall([IN_SYNC], {1, 4}, None)


@pytest.mark.parametrize(
    ("replicas", "exists", "is_younger", "stuck"),
    [
        ((1, 4), True, False, ""),
        ((1, 4), False, False, "orders, partition 0"),
        ((1, 4), True, True, "orders, partition 0"),
        ((1, 1), True, False, "a broker twice"),
    ],
)
def test_entries_that_the_controller_never_removes(
    replicas: Replicas, exists: bool, is_younger: bool, stuck: str
) -> None:
    """The entry of a deleted or recreated topic stays, and so does a target with a broker twice."""
    found = find_stuck_entry(RequestedReassignment("orders", 0, replicas), exists=exists, is_younger=is_younger)
    assert stuck in found
    assert bool(found) == bool(stuck)


def test_progress_moves_the_deadline() -> None:
    """Fewer partitions, or fewer replicas that lag, are progress; the same again is none. A reset begins a new time."""
    watch = StallWatch(10, 1000)
    found = [([COPYING, COPYING], 0), ([COPYING, IN_SYNC], 9), ([COPYING], 18), ([COPYING], 27.9)]
    assert not any(watch.is_stalled(len(each), each, now) for each, now in found)
    assert watch.is_stalled(1, [COPYING], 28)
    error = watch.error([COPYING], {1, 2, 4})
    assert error.reason is Reason.MOVES_STALLED
    assert "no progress for 10 s: broker 4 has not copied all of 1 partition yet" in str(error)
    assert "2 partitions in flight" in str(watch.error([COPYING, IN_SYNC], {1, 2, 4}))
    watch.reset()
    assert not watch.is_stalled(2, [COPYING, COPYING], 29)
    assert watch.deadline == 39
