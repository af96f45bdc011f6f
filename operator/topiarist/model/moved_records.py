"""The move of topiarist's records from ZooKeeper to the topic of records, as values of both adapters.

``adapters.zookeeper`` closes the records and hands them over, ``adapters.kafka_admin`` takes them, and
``adapters.move_records`` connects the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.model.state import Freeze, OwnershipRecord, WriteBlock
from topiarist.text import format_count

MOVING, MOVED = "moving to Kafka: topiarist move-records has begun", "moved to Kafka"
"""The reasons of the freeze in ZooKeeper during and after the move. Every release shows and obeys them."""

HINT_MOVE_RECORDS = "run topiarist move-records"
HINT_USE_KAFKA = "reach the cluster through its brokers (spec.kafka, via: Kafka)"


class IdentifiedRecord(NamedTuple):
    """An ownership record and the id of its topic; None if there is no topic: another client, or a run, deleted it."""

    record: OwnershipRecord
    topic_id: str | None


class ClosedRecords(Struct, frozen=True):
    """The records of a cluster that are closed in ZooKeeper: no run writes them there any more.

    ``stale`` are the topics with a record of an earlier topic of their name, which is left behind. ``freeze`` is the
    freeze that a user had set before; it holds after the move too.
    """

    cluster_id: str
    chroot: str
    records: Mapping[str, IdentifiedRecord] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    freeze: Freeze | None = None


class MovedRecords(NamedTuple):
    """The result of a move: the chroot that the records come from, their number, and the topics left behind.

    ``kept`` are the topics that had a record of the same owner in the topic of records: that one stays. If an earlier
    run has moved the records, ``repeated`` is true and nothing is written; ``unmatched`` are then the topics with a
    record in ZooKeeper and none in the topic of records.
    """

    chroot: str
    records: int
    stale: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    repeated: bool = False
    unmatched: tuple[str, ...] = ()


class LeftRecords(NamedTuple):
    """The records that ZooKeeper holds, as runs through the brokers see them.

    ``is_begun`` is true once a move has closed them. ``freeze`` is the present one, None if ZooKeeper is not frozen.
    """

    cluster_id: str
    records: int
    is_begun: bool = False
    freeze: Freeze | None = None


def is_closed_by_move(freeze: Freeze | None) -> bool:
    """Return whether the freeze in ZooKeeper is the one of a move."""
    return freeze is not None and freeze.reason in (MOVING, MOVED)


def find_records_block(left: LeftRecords, *, are_taken: bool) -> WriteBlock:
    """Return the write block of runs through the brokers, if any, by what ZooKeeper holds.

    ``are_taken`` is true if the topic of records has the note of a move.
    """
    closed = is_closed_by_move(left.freeze)
    if are_taken:
        if closed or not (left.is_begun or left.records):
            return WriteBlock()
        now = str(left.freeze) if left.freeze else "open"
        return WriteBlock(
            Reason.MOVED_BACK,
            f"the records were moved to Kafka, but ZooKeeper is {now} now, so runs through ZooKeeper may write again;"
            f" stop those runs, then {HINT_MOVE_RECORDS}",
        )
    if not left.records and not left.is_begun:
        return WriteBlock()
    if left.freeze and left.freeze.reason == MOVED:
        message = (
            "the records were moved from ZooKeeper to Kafka, but the topic of records does not have them: restore it,"
            f" or take the records of that time again: {HINT_MOVE_RECORDS}"
        )
    elif closed:
        message = f"a move of the records from ZooKeeper has begun and not ended; {HINT_MOVE_RECORDS} again"
    else:
        count = format_count(left.records, "ownership record")
        message = f"ZooKeeper has {count}, not moved to Kafka; {HINT_MOVE_RECORDS}"
    return WriteBlock(Reason.RECORDS_NOT_MOVED, message)
