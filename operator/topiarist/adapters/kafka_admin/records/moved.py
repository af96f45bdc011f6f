"""Merge records from ZooKeeper with those that the topic of records has. Pure.

A run through the brokers may have written records before the move, of topics that it created. Those stay: a record
names the id of its topic, so records of different topics cannot contradict each other. Of one topic with a record of
one owner in both places the one of the topic of records stays, because ZooKeeper is closed and this one is used on.
"""

from __future__ import annotations

from typing import NamedTuple

from topiarist.adapters.kafka_admin.records.values import Moved, Records, TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.model.state import ClosedRecords, Freeze, MovedRecords
from topiarist.text import format_count


class MergedRecords(NamedTuple):
    """The records that a move writes (none if it is repeated), and its result."""

    topics: dict[str, TopicRecord]
    moved: Moved
    gate: Freeze | None
    result: MovedRecords


def merge_moved(closed: ClosedRecords, records: Records) -> MergedRecords:
    """Return what a move of ``closed`` writes, given the present ``records``.

    Raises ``TopiaristError``: ``NotOwned`` if a topic has records of two owners, ``Unreadable`` if a record of one of
    the topics cannot be read.
    """
    if note := records.moved:
        unmatched = tuple(
            name
            for name, found in closed.records.items()
            if name not in records.topics and name not in records.errors and not found.record.deleted
        )
        result = MovedRecords(note.chroot, note.total, note.skipped, repeated=True, unmatched=unmatched)
        return MergedRecords({}, note, records.gate, result)
    if unreadable := sorted(closed.records.keys() & records.errors.keys()):
        error = records.errors[unreadable[0]]
        raise TopiaristError(Reason.UNREADABLE, f"the record {error.path} cannot be read: {error.message}")
    kept = tuple(sorted(closed.records.keys() & records.topics.keys()))
    _require_one_owner(closed, records, kept)
    topics = {
        name: TopicRecord(found.record, found.topic_id)
        for name, found in closed.records.items()
        if name not in records.topics
    }
    moved = Moved(closed.chroot, len(topics), closed.stale)
    gate = records.gate or closed.freeze
    return MergedRecords(topics, moved, gate, MovedRecords(closed.chroot, len(topics), closed.stale, kept))


def _require_one_owner(closed: ClosedRecords, records: Records, names: tuple[str, ...]) -> None:
    disputed = []
    for name in names:
        found = records.topics[name]
        owners = {each.owner for each in (found.record, found.intent and found.intent.after) if each}
        if owners - {closed.records[name].record.owner}:
            disputed.append(name)
    if disputed:
        first, here = closed.records[disputed[0]].record.owner, records.topics[disputed[0]].record
        raise TopiaristError(
            Reason.NOT_OWNED,
            f"{format_count(len(disputed), 'topic')} with records of two owners: {disputed[0]}, for example, belongs to"
            f" {first} in ZooKeeper and to {here.owner if here else 'another'} in Kafka",
            "remove the wrong record with topiarist unmanage, through ZooKeeper or through the brokers",
        )
