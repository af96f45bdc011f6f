"""The status of moves: partitions in flight, blockers, stuck entries, throttles; as JSON and as text."""

from __future__ import annotations

import pytest
from jsonschema import Draft7Validator
from msgspec.structs import replace

from support.builders import state, topic
from topiarist.inspection.moves import MoveStatus, inspect_moves, inspected_topics
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.state import ClusterState, PartitionState, Reassignment, TopicInspection
from topiarist.output.moves import encode_statuses, format_statuses
from topiarist.output.text.layout import TextLayout
from topiarist.schema import load

SENT, CHANGED, NOW = 1_700_000_000_000, 1_700_000_060_000, 1_700_000_260_000
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"
RECORD = BatchRecord(
    "team",
    2,
    3,
    (ReplicaMove("orders", 0, (1, 2), (4, 2)), ReplicaMove("orders", 1, (2, 3), (2, 4))),
    {
        "brokers/4": {RATE: OwnValue("7", "1000")},
        "topics/orders": {FOLLOWERS: OwnValue(None, "0:4,1:4"), LEADERS: OwnValue(None, "0:1")},
    },
)
CONFIG = {LEADERS: "0:1", FOLLOWERS: "0:4,1:4"}
IN_FLIGHT = topic("orders", ((4, 2, 1), (2, 4)), config=CONFIG, reassigning_partitions=(0,))
ENTRY = RequestedReassignment("orders", 0, (4, 2))
SEEN = state(
    IN_FLIGHT,
    topic("other", ((1, 2), (2, 3)), identity="8"),
    batch=RECORD,
    batch_at_ms=SENT,
    requested_reassignments=(ENTRY,),
    reassigning_topics=frozenset({"orders"}),
    requested_at_ms=CHANGED,
)
INSPECTED = {
    "orders": TopicInspection(
        "7",
        {0: (4, 2, 1), 1: (2, 4)},
        {0: PartitionState(1, (1, 2)), 1: PartitionState(2, (2, 4))},
        reassignments={0: Reassignment((4,), (1,))},
    )
}
BROKERS = {"brokers/4": {RATE: "1000"}}


def _status(seen: ClusterState = SEEN, **fields: object) -> MoveStatus:
    found = inspect_moves("prod", seen, INSPECTED, BROKERS)
    Draft7Validator(load.load_schema("moves")).validate(encode_statuses([found]))
    return replace(found, **fields) if fields else found


def _shown(status: MoveStatus, *, verbose: bool = False) -> str:
    return format_statuses([status], NOW, TextLayout(verbose=verbose))


def test_only_topics_that_move_are_read() -> None:
    """The states of a topic are read if it is reassigned, or if a request names it and it exists."""
    ghost = RequestedReassignment("ghost", 0, (1, 2))
    named = RequestedReassignment("other", 0, (1, 3))
    assert inspected_topics(SEEN) == {"orders"}
    assert inspected_topics(replace(SEEN, requested_reassignments=(ghost, named))) == {"orders", "other"}


def test_an_entry_with_another_target_is_foreign() -> None:
    """A partition of the batch with another target is moved by another client."""
    seen = replace(SEEN, requested_reassignments=(ENTRY._replace(replicas=(5, 2)),))
    status = _status(seen)
    assert (status.own, [each.target for each in status.foreign]) == ((), [(5, 2)])


def test_a_reassignment_without_an_entry_is_foreign() -> None:
    """The Admin API moves a partition that no request names."""
    seen = replace(SEEN, requested_reassignments=(), requested_at_ms=None, batch=None)
    (partition,) = _status(seen).foreign
    assert (partition.target, partition.adding, partition.is_requested) == ((4, 2), (4,), False)
    assert "orders 0  to [4, 2] (Admin API): not yet copied to broker 4" in _shown(_status(seen))


def test_a_kept_replica_out_of_sync_is_shown_and_blocks() -> None:
    """A replica that stays and is not in sync keeps its partition from ending."""
    inspected = replace(INSPECTED["orders"], states={0: PartitionState(1, (1,))})
    status = inspect_moves("prod", SEEN, {"orders": inspected}, BROKERS)
    assert status.blocker.startswith("broker 2 keeps a replica that is not in sync")
    assert "orders 0 to [4, 2]: not yet copied to broker 4, broker 2 not in sync" in " ".join(_shown(status).split())


def test_a_partition_without_a_state() -> None:
    """An entry of a partition that the controller has not initialized has no lagging brokers."""
    status = inspect_moves("prod", SEEN, {}, BROKERS)
    assert [(each.adding, each.lagging) for each in status.own] == [(None, None)]
    assert "orders 0  to [4, 2]: no partition state" in _shown(status)


@pytest.mark.parametrize(
    ("entry", "stale"),
    [
        (RequestedReassignment("ghost", 0, (1, 2)), frozenset({"ghost"})),
        (ENTRY, frozenset({"orders"})),
        (ENTRY._replace(replicas=(4, 4)), frozenset()),
    ],
    ids=["deleted", "recreated", "twice"],
)
def test_entries_that_the_controller_never_removes(entry: RequestedReassignment, stale: frozenset[str]) -> None:
    """Each such entry is listed, and the conclusion says that nothing can be moved."""
    status = _status(replace(SEEN, requested_reassignments=(entry,), stale_reassignments=stale))
    assert len(status.stuck) == 1
    assert "Stuck: the controller never ends the request" in _shown(status)


def test_a_throttle_that_another_client_changed() -> None:
    """The value is shown with that of topiarist, once, and not as unexplained in the text."""
    status = inspect_moves("prod", SEEN, INSPECTED, {"brokers/4": {RATE: "9"}})
    shown = " ".join(_shown(status).split())
    assert f"changed brokers/4 {RATE}: topiarist set 1000, and it is 9 now; it stays" in shown
    assert "not set by a batch" not in shown


def test_an_offline_broker_cannot_be_asked_for_its_throttle() -> None:
    """Through the brokers only the broker itself describes its rate; ZooKeeper has the rates of all brokers."""
    offline = replace(SEEN, brokers=tuple(broker for broker in SEEN.brokers if broker.id != 4))
    for bypasses, words in ((False, "its broker is offline, so its present value is unknown"), (True, "not set now")):
        status = inspect_moves("prod", replace(offline, bypasses_brokers=bypasses), INSPECTED, {})
        assert words in " ".join(_shown(status).split())


def test_throttles_that_no_record_explains() -> None:
    """Without a record every throttle key is that of another client, also one of all brokers."""
    seen = state(IN_FLIGHT, batch=None)
    status = inspect_moves("prod", seen, {}, {"brokers/<default>": {RATE: "9"}})
    assert [(each.entity, each.value) for each in status.unexplained] == [
        ("brokers/<default>", "9"),
        ("topics/orders", "0:4,1:4"),
        ("topics/orders", "0:1"),
    ]
