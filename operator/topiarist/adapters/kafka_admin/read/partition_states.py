"""Read leaders, in-sync replicas and reassignments of topics, for ``describe``, ``list`` and the health of moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.metadata import ClusterMetadata, TopicMetadata, read_metadata
from topiarist.adapters.kafka_admin.read.reassignments import Reassignments, ReassignmentsWatch, target_of
from topiarist.adapters.kafka_admin.read.sync import sync
from topiarist.adapters.kafka_admin.read.topic_reader import absent_or_error, read_again
from topiarist.model.state import PartitionState, TopicInspection, TopicState

_ROUNDS = 5
_ALL_ABOVE = 1000
"""Number of topics from which the metadata of all topics is asked for: their names would be a large request."""


def inspect(session: Session, name: str) -> TopicInspection:
    """Read the partition states of the topic ``name``. Raises ``TopiaristError``."""
    found = _read(session, [name])
    if name in found:
        return found[name]
    return TopicInspection(identity=None, assignment={})


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
    """Read the states of all partitions of topics that were just read; a topic that no longer exists is left out."""
    return _read(session, [topic.name for topic in topics]) if topics else {}


def _read(session: Session, names: Sequence[str]) -> Mapping[str, TopicInspection]:
    def read() -> tuple[ClusterMetadata, Reassignments]:
        connection = sync(session).connection
        watch = ReassignmentsWatch(session, connection)
        for _ in range(_ROUNDS):
            watch.settle()
            metadata = read_metadata(connection, None if len(names) > _ALL_ABOVE else names)
            if not watch.refresh():
                break
        return metadata, watch.current

    metadata, reassignments = read_again(read)
    inspections = {name: _build(metadata.topics[name], reassignments) for name in names if name in metadata.topics}
    for name in names:
        code = metadata.errors.get(name)
        if code is None or code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        error = absent_or_error(name, code)
        assert error is not None
        inspections[name] = TopicInspection(identity=None, assignment={}, other_errors=(error,), states_readable=False)
    return inspections


def _build(topic: TopicMetadata, reassignments: Reassignments) -> TopicInspection:
    moving = reassignments.get(topic.name, {})
    return TopicInspection(
        identity=topic.topic_id,
        assignment={number: one.replicas for number, one in topic.partitions.items()},
        states={
            number: PartitionState(one.leader, one.isr, one.leader_epoch) for number, one in topic.partitions.items()
        },
        reassignments=moving,
        requested_replicas={
            number: target_of(topic.partitions[number].replicas, each)
            for number, each in moving.items()
            if number in topic.partitions
        },
        topic_id=topic.topic_id,
    )
