"""Read the progress of written topics: a partition with a leader is initialized, and a deletion is done at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.metadata import TopicMetadata, read_metadata
from topiarist.adapters.kafka_admin.read.sync import sync
from topiarist.adapters.kafka_admin.read.topic_reader import absent_or_error, read_again
from topiarist.model.outcome import TopicProgress


def poll_progress(session: Session, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
    """Return the progress of each topic, with the initialized partitions among those asked for.

    Raises ``TopiaristError``.
    """
    metadata = read_again(lambda: read_metadata(sync(session).connection, sorted(topics)))
    registered = {broker.id for broker in metadata.brokers}
    progress = {}
    for name, awaited in topics.items():
        topic = metadata.topics.get(name)
        if topic is not None:
            progress[name] = _progress_of(topic, awaited, registered)
            continue
        error = absent_or_error(name, metadata.errors.get(name))
        # A topic that is hidden now ends the wait: it is not known to be gone.
        progress[name] = TopicProgress(None, False, read_error=error.message if error else "")
    return progress


def _progress_of(topic: TopicMetadata, awaited: Collection[int], registered: Collection[int]) -> TopicProgress:
    brokers = {broker for partition in topic.partitions.values() for broker in partition.replicas}
    progress = TopicProgress(
        topic.topic_id,
        marked_for_deletion=False,
        missing_brokers=tuple(sorted(brokers.difference(registered))),
    )
    if not awaited:
        return progress
    led = frozenset(number for number in awaited if number in topic.partitions and topic.partitions[number].leader >= 0)
    return progress._replace(
        replicas={number: partition.replicas for number, partition in topic.partitions.items()},
        initialized=led,
        topic_id=topic.topic_id,
    )
