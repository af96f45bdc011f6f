"""The merge of records from ZooKeeper with those of the topic of records."""

from __future__ import annotations

import pytest

from support.kafka.memory_records import MemoryBroker
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, Moved, Records, TopicRecord, merge_moved
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moved_records import ClosedRecords, IdentifiedRecord, MovedRecords
from topiarist.model.state import Freeze, OwnershipRecord, ReadError

OURS, THEIRS = OwnershipRecord("team", ("retention.ms",)), OwnershipRecord("other")
ADA, BOB = Freeze("incident", "ada"), Freeze("disks", "bob")
CLOSED = ClosedRecords(
    "cluster",
    "/kafka",
    {
        "orders": IdentifiedRecord(OURS, "id-1"),
        "clicks": IdentifiedRecord(THEIRS, "id-2"),
        "gone": IdentifiedRecord(OwnershipRecord("team", (), deleted=True), None),
    },
    ("recreated",),
    ADA,
)


def test_all_records_move_with_the_ids_of_their_topics() -> None:
    """An empty topic of records takes everything, the deletion record and the freeze included."""
    merged = merge_moved(CLOSED, Records())
    assert merged.topics == {name: TopicRecord(*found) for name, found in CLOSED.records.items()}
    assert (merged.moved, merged.gate) == (Moved("/kafka", 3, ("recreated",)), ADA)
    assert merged.result == MovedRecords("/kafka", 3, ("recreated",))


def test_a_freeze_of_the_brokers_side_stays() -> None:
    """A freeze that was set through the brokers is not replaced by the one of ZooKeeper."""
    assert merge_moved(CLOSED, Records(gate=BOB)).gate == BOB


def test_records_that_the_topic_has_already_stay() -> None:
    """A record of the same owner stays as it is, and records of other topics do not matter."""
    newer = TopicRecord(OwnershipRecord("team", ("flush.ms",)), "id-1")
    merged = merge_moved(CLOSED, Records({"orders": newer, "elsewhere": TopicRecord(THEIRS, "id-9")}))
    assert merged.topics.keys() == {"clicks", "gone"}
    assert (merged.result.records, merged.result.kept, merged.moved.total) == (2, ("orders",), 2)


@pytest.mark.parametrize(
    "record", [TopicRecord(THEIRS, "id-1"), TopicRecord(None, None, Intent(IntentKind.CREATE, THEIRS))], ids=str
)
def test_a_topic_of_two_owners_is_refused(record: TopicRecord) -> None:
    """The owners are named; a change under way counts too."""
    with pytest.raises(TopiaristError, match="1 topic with records of two owners: orders") as raised:
        merge_moved(CLOSED, Records({"orders": record}))
    assert raised.value.reason is Reason.NOT_OWNED


def test_two_topics_of_two_owners() -> None:
    """The first by name is the example, with the owners of this topic."""
    records = Records({"orders": TopicRecord(THEIRS, "id-1"), "clicks": TopicRecord(OURS, "id-2")})
    with pytest.raises(TopiaristError) as raised:
        merge_moved(CLOSED, records)
    message = (
        "2 topics with records of two owners: clicks, for example, belongs to other in ZooKeeper and to team in Kafka"
    )
    assert raised.value.args[0] == message


def test_a_record_that_cannot_be_read_is_not_replaced() -> None:
    """The unreadable record is named; that of a topic without a record in ZooKeeper does not matter."""
    error = ReadError("topic/orders", "found no object")
    assert merge_moved(CLOSED, Records(errors={"elsewhere": error})).result.records == 3
    with pytest.raises(TopiaristError, match="topic/orders cannot be read") as raised:
        merge_moved(CLOSED, Records(errors={"orders": error}))
    assert raised.value.reason is Reason.UNREADABLE


def test_a_repeated_move_writes_nothing() -> None:
    """The note is returned as it was, with the topics that have a record in ZooKeeper only."""
    note = Moved("/kafka", 2, ("recreated",))
    merged = merge_moved(CLOSED, Records({"orders": TopicRecord(OURS, "id-1")}, gate=BOB, moved=note))
    assert (merged.topics, merged.moved, merged.gate) == ({}, note, BOB)
    assert merged.result == MovedRecords("/kafka", 2, ("recreated",), repeated=True, unmatched=("clicks",))


def open_run(broker: MemoryBroker) -> RecordsRun:
    """Return a run for which no topic exists."""
    return RecordsRun(broker, "team", ClusterView(lambda names: dict.fromkeys(names)), clock=broker.clock)


def test_the_note_and_all_records_are_one_transaction() -> None:
    """Ten thousand records are written in several batches of one transaction, and read back whole; a frozen cluster
    takes records too.
    """
    broker = MemoryBroker()
    open_run(broker).set_freeze(BOB, by="bob", force=False)
    run = open_run(broker)
    topics = {f"topic-{number:05}": TopicRecord(OURS, f"id-{number}") for number in range(10_000)}
    with pytest.raises(TopiaristError, match="frozen by bob"):
        run.acquire()
    before = run.acquire(ignore_freeze=True)
    broker.calls.clear()
    run.commit_moved(topics, Moved("/kafka", len(topics)), BOB)
    assert (broker.calls.count("EndTxn"), broker.calls.count("Produce") > 1) == (1, True)
    found = open_run(broker).read()
    assert (found.topics, found.moved, found.gate) == (topics, Moved("/kafka", 10_000), BOB)
    assert found.number == before.number + 1
