"""The write block of runs through the brokers, by what ZooKeeper still holds."""

from __future__ import annotations

import pytest

from topiarist.errors import Reason
from topiarist.model.state import MOVED, MOVING, Freeze, LeftRecords, find_records_block

ADA, BEGUN, ENDED = Freeze("incident", "ada"), Freeze(MOVING), Freeze(MOVED)

NOT_TAKEN = {
    "empty": (LeftRecords("c", 0), None),
    "empty and frozen": (LeftRecords("c", 0, freeze=ADA), None),
    "records": (LeftRecords("c", 2), "ZooKeeper has 2 ownership records, not moved to Kafka"),
    "records, frozen": (LeftRecords("c", 1, freeze=ADA), "ZooKeeper has 1 ownership record, not moved"),
    "begun": (LeftRecords("c", 2, is_begun=True, freeze=BEGUN), "has begun and not ended"),
    "begun without records": (LeftRecords("c", 0, is_begun=True, freeze=BEGUN), "has begun and not ended"),
    "ended, and lost in Kafka": (LeftRecords("c", 2, is_begun=True, freeze=ENDED), "does not have them"),
    "begun and opened": (LeftRecords("c", 2, is_begun=True), "ZooKeeper has 2 ownership records"),
}
"""What ZooKeeper holds while the topic of records has no note of a move, and words of the block."""

TAKEN = {
    "ended": (LeftRecords("c", 2, is_begun=True, freeze=ENDED), None),
    "taken, and not ended": (LeftRecords("c", 2, is_begun=True, freeze=BEGUN), None),
    "a new ZooKeeper": (LeftRecords("c", 0), None),
    "opened": (LeftRecords("c", 2, is_begun=True), "ZooKeeper is open now"),
    "opened and frozen": (LeftRecords("c", 2, is_begun=True, freeze=ADA), "frozen by ada: incident now"),
    "the note deleted": (LeftRecords("c", 2), "ZooKeeper is open now"),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_records_that_were_not_moved_block_writes(case: str) -> None:
    """Records in ZooKeeper, or a move that has not ended, are RecordsNotMoved; an empty ZooKeeper blocks nothing."""
    left, words = NOT_TAKEN[case]
    block = find_records_block(left, are_taken=False)
    assert block.reason == (Reason.RECORDS_NOT_MOVED if words else None)
    assert (words or "") in block.message
    assert not words or "run topiarist move-records" in block.message


@pytest.mark.parametrize("case", TAKEN)
def test_a_gate_that_was_opened_after_the_move_blocks_writes(case: str) -> None:
    """After a move ZooKeeper must still be closed by it: everything else is MovedBack."""
    left, words = TAKEN[case]
    block = find_records_block(left, are_taken=True)
    assert block.reason == (Reason.MOVED_BACK if words else None)
    assert (words or "") in block.message
