"""Records of ZooKeeper taken by a cluster in memory: a process that is killed, or loses a request, at each step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from support.examples import slow_but
from support.kafka.fake_kafka import FakeKafka, Hook, cut_at, kill_at
from support.kafka.memory_records import Killed
from topiarist.adapters.kafka_admin.records.codec import Moved, TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moved_records import ClosedRecords, IdentifiedRecord
from topiarist.model.state import Freeze, OwnershipRecord

ADA = Freeze("incident", "ada")
CLOSED = ClosedRecords(
    "ID",
    "/kafka",
    {
        "orders": IdentifiedRecord(OwnershipRecord("team", ("flush.ms",)), "id-1"),
        "gone": IdentifiedRecord(OwnershipRecord("team", (), deleted=True), None),
    },
    freeze=ADA,
)


def count_requests() -> int:
    """Return the number of requests of a move without faults."""
    kafka, steps = FakeKafka(), []
    kafka.hook = lambda session, number, name, is_done: steps.append(number)
    move(kafka)
    return max(steps)


def move(kafka: FakeKafka) -> None:
    """Prepare the topic of records, and take the records, as one process."""
    cluster = kafka.open()
    cluster.prepare_records()
    cluster.take_records(CLOSED)


@pytest.mark.parametrize(
    ("fault", "is_done"),
    slow_but([(cut_at, True)], [(fault, is_done) for fault in (kill_at, cut_at) for is_done in (False, True)]),
)
def test_a_move_that_ends_at_any_request_is_continued(fault: Callable[..., Hook], is_done: bool) -> None:
    """After a kill or a lost connection at each request, all records are there or none; the next call completes."""
    steps = count_requests()
    assert steps > 10
    for step in range(1, steps + 1):
        kafka = FakeKafka()
        kafka.hook = fault(step, is_done=is_done)
        with suppress(Killed, TopiaristError):
            move(kafka)
        kafka.hook = lambda session, number, name, is_done: None
        before = kafka.records()
        assert set(before.topics) in (set(), set(CLOSED.records)), step
        assert (before.moved is None) is (not before.topics), step
        move(kafka)
        after = kafka.records()
        assert after.topics == {name: TopicRecord(*found) for name, found in CLOSED.records.items()}, step
        assert (after.moved, after.gate) == (Moved(CLOSED.chroot, 2), ADA), step
        assert kafka.commit_numbers() == [*range(1, after.number + 1)], step


def test_a_repeated_move_writes_no_record() -> None:
    """The result of the first one is returned, also to a look without a fence."""
    kafka = FakeKafka()
    assert not kafka.open().check_moved_records(CLOSED).repeated
    move(kafka)
    number = kafka.records().number
    assert kafka.open().take_records(CLOSED).repeated
    assert kafka.open().check_moved_records(CLOSED).repeated
    assert kafka.records().number == number


def test_records_of_another_cluster_are_refused() -> None:
    """Both cluster ids are named, and nothing is written."""
    kafka = FakeKafka()
    other = ClosedRecords("OTHER", "/kafka", CLOSED.records)
    for call in (kafka.open().check_moved_records, kafka.open().take_records):
        with pytest.raises(
            TopiaristError, match=r"spec\.kafka leads to the cluster ID, and spec\.zookeeper to OTHER"
        ) as e:
            call(other)
        assert e.value.reason is Reason.WRONG_CLUSTER
    assert kafka.records().number == 0
