"""When ZooKeeper is asked about records, and what follows if it does not answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from topiarist.adapters.kafka_admin.records.run import WARNING_ZOOKEEPER_ENDED, LeftRecordsCheck, check_left_records
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moved_records import MOVED, LeftRecords
from topiarist.model.state import Freeze

OPEN, CLOSED = LeftRecords("c", 2), LeftRecords("c", 2, is_begun=True, freeze=Freeze(MOVED))


def check(
    left: LeftRecords | TopiaristError, *, are_taken: bool = False, is_zookeeper_mode: bool = True
) -> LeftRecordsCheck:
    """Return the check of a cluster with the id ``c``; an error is what reading ZooKeeper raises."""

    def read() -> LeftRecords:
        if isinstance(left, TopiaristError):
            raise left
        return left

    return check_left_records(read, lambda: "c", are_taken=are_taken, is_zookeeper_mode=is_zookeeper_mode)


def forbidden(what: str) -> Callable[[], LeftRecords]:
    """Return a function that fails the test."""

    def fail() -> LeftRecords:
        raise AssertionError(what)

    return fail


UNREACHABLE = TopiaristError(Reason.UNREACHABLE, "no server answers")


@pytest.mark.parametrize("is_zookeeper_mode", [False, True])
def test_records_that_were_not_moved_block_writes_in_each_mode(is_zookeeper_mode: bool) -> None:
    """Also after a migration of Kafka without a move of the records, as long as ZooKeeper answers."""
    found = check(OPEN, is_zookeeper_mode=is_zookeeper_mode)
    assert (found.block.reason, found.warning) == (Reason.RECORDS_NOT_MOVED, "")


def test_a_gate_that_was_opened_blocks_writes() -> None:
    """After the move, in ZooKeeper mode, the gate of ZooKeeper must still be closed."""
    assert check(CLOSED, are_taken=True) == LeftRecordsCheck()
    assert check(OPEN, are_taken=True).block.reason is Reason.MOVED_BACK


def test_zookeeper_is_asked_only_if_its_answer_matters() -> None:
    """Without an address, and in KRaft mode after the move, nothing is read."""
    never = forbidden("ZooKeeper was asked")
    assert check_left_records(None, lambda: "c", are_taken=False, is_zookeeper_mode=True) == LeftRecordsCheck()
    assert check_left_records(never, lambda: "c", are_taken=True, is_zookeeper_mode=False) == LeftRecordsCheck()


def test_a_zookeeper_that_does_not_answer() -> None:
    """In KRaft mode a warning; in ZooKeeper mode a write block, unless the records are known to be in Kafka."""
    assert check(UNREACHABLE, is_zookeeper_mode=False) == LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
    block = check(UNREACHABLE).block
    assert (block.reason, "is not known: no server answers" in block.message) == (Reason.RECORDS_NOT_MOVED, True)
    taken = check(UNREACHABLE, are_taken=True)
    assert (taken.block.reason, "would not be noticed: no server answers" in taken.warning) == (None, True)


def test_a_zookeeper_of_another_cluster() -> None:
    """In KRaft mode it was taken into another use; in ZooKeeper mode the address is wrong, and nothing is written."""
    other = OPEN._replace(cluster_id="other")
    assert check(other, is_zookeeper_mode=False) == LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
    for are_taken in (False, True):
        block = check(other, are_taken=are_taken).block
        assert block.reason is Reason.RECORDS_NOT_MOVED
        assert "spec.zookeeper leads to another cluster (other), spec.kafka to c" in block.message
