"""A cluster's state in one bulk read, and single topics afresh; both through one decoder.

What is read becomes values at once and its bytes are let go. It is many reads, not a snapshot: whoever writes reads the
topic again, with ``read_topics``, and lets the transaction check the versions. Below stand ``head`` and ``wire``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.paths import config_path, deletion_request_path, record_path, topic_path
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes
from topiarist.adapters.zookeeper.read.cluster_metadata import ClusterMetadata, read_metadata
from topiarist.adapters.zookeeper.read.topic import TopicZnodes, decode_optional_record, decode_topic_state
from topiarist.kafka.types import KafkaVersion
from topiarist.model.state import ClusterState, DeletionRecord, ListSizes, OwnershipRecord, ReadError, TopicState
from topiarist.planning.stale_reassignments import find_stale_names
from topiarist.planning.stale_reassignments import stale_entry_warnings as requested_warnings

if TYPE_CHECKING:
    from topiarist.adapters.zookeeper.read.decode_cache import DecodeCache


_TOPIC_IDS_SINCE: KafkaVersion = (2, 8)


class ClusterRead(NamedTuple):
    """A cluster's state, and the head that it was made from, whose znode versions a writer needs."""

    state: ClusterState
    metadata: ClusterMetadata


def read_state(session: Session, *, jute_max_buffer: int, cache: DecodeCache | None = None) -> ClusterRead:
    """Everything that a plan needs. Topics with odd or forbidden znodes are in ``faults``; the others are whole.

    ``jute_max_buffer`` is the smallest ``jute.maxbuffer`` in play, in bytes; ``cache`` is that of the session's reads,
    if more follow. Raises what ``read_head`` raises.
    """
    head = read_metadata(session)
    if cache:
        cache.start_read()
    found = _TopicCollector(list(head.warnings), cache.decode_topic_state if cache else decode_topic_state)
    for nodes in _read_all_topics(session, head):
        found.add(nodes)
    for name, record in _read_dangling_records(session, head):
        found.add_record(name, record)
    return ClusterRead(_build_state(session, head, found, jute_max_buffer), head)


def read_topics(session: Session, names: Sequence[str]) -> tuple[dict[str, TopicZnodes], Znode | ReadFailure]:
    """The znodes of single topics as of now, for whoever is about to write them, and the reassignment request.

    The request is read behind the topics: one that came and went before is in the topic's node, or moves its version.
    It takes no round trip of its own, in which a topic could be deleted and made again.
    """
    wanted = [path(name) for name in names for path in (topic_path, config_path, record_path, deletion_request_path)]
    answers = read_znodes(session, [*wanted, paths.REASSIGNMENT_REQUEST])
    found = {
        name: TopicZnodes(name, topic, config, record, marked_for_deletion=mark is not ReadFailure.MISSING)
        for name, topic, config, record, mark in zip(names, answers, answers, answers, answers, strict=False)
    }
    return found, next(answers)


@dataclass(slots=True)
class _TopicCollector:
    """What the bulk read has brought so far."""

    warnings: list[str]
    decode_topic_state: Callable[[TopicZnodes, ZnodeDecoder], TopicState | ReadError | None]
    topics: dict[str, TopicState] = field(default_factory=dict)
    dangling_records: dict[str, OwnershipRecord] = field(default_factory=dict)
    topic_errors: dict[str, ReadError] = field(default_factory=dict)
    deletion_records: dict[str, DeletionRecord] = field(default_factory=dict)
    decoder: ZnodeDecoder = field(default_factory=ZnodeDecoder)

    def add(self, nodes: TopicZnodes) -> None:
        """Decode one topic; it may have gone since its name was read, and leave its record."""
        state = self.decode_topic_state(nodes, self.decoder)
        if isinstance(state, TopicState):
            self.topics[nodes.name] = state
            self._add_deletion_record(nodes.name, state.record, nodes.record)
        elif state is not None:
            self.topic_errors[nodes.name] = state
        else:
            self.add_record(nodes.name, nodes.record)

    def add_record(self, name: str, record: Znode | ReadFailure) -> None:
        """Decode a record that has no topic."""
        try:
            found = decode_optional_record(record, self.decoder)
        except ZnodeError as error:
            self.warnings.append(f"{record_path(name)} cannot be read: {error}")
            self.topic_errors[name] = ReadError(record_path(name), str(error))
        else:
            if found is not None:
                self.dangling_records[name] = found
                self._add_deletion_record(name, found, record)

    def _add_deletion_record(self, name: str, found: OwnershipRecord | None, record: Znode | ReadFailure) -> None:
        if found and found.deleted and not isinstance(record, ReadFailure):
            self.deletion_records[name] = DeletionRecord(found.owner, record.mtime)


def _read_all_topics(session: Session, metadata: ClusterMetadata) -> Iterator[TopicZnodes]:
    """The znodes of every topic, in the order of names; records only where there are some."""
    recorded = frozenset(metadata.record_names)
    answers = read_znodes(session, _paths_to_read(metadata, recorded))
    for name in metadata.topic_names:
        topic, config = next(answers), next(answers)
        record = next(answers) if name in recorded else ReadFailure.MISSING
        yield TopicZnodes(name, topic, config, record, name in metadata.pending_deletions)


def _paths_to_read(metadata: ClusterMetadata, names_with_record: frozenset[str]) -> Iterator[str]:
    """The paths of all that is read; a large cluster has half a million of them, so they are made as they are used."""
    # The names are ZooKeeper's own, so there is nothing to check in them.
    topics, configs, records = f"{paths.TOPICS}/", f"{paths.TOPIC_CONFIGS}/", f"{paths.RECORDS}/"
    for name in metadata.topic_names:
        yield topics + name
        yield configs + name
        if name in names_with_record:
            yield records + name


def _read_dangling_records(session: Session, metadata: ClusterMetadata) -> Iterator[tuple[str, Znode | ReadFailure]]:
    topics = frozenset(metadata.topic_names)
    names = [name for name in metadata.record_names if name not in topics]
    return zip(names, read_znodes(session, [record_path(name) for name in names]), strict=True)


def infer_min_version(metadata: ClusterMetadata, topics: Iterable[TopicState]) -> KafkaVersion:
    """The oldest release that fits: a topic with an id is a sign that the head by itself cannot show."""
    if any(topic.topic_id for topic in topics):
        return max(metadata.min_version, _TOPIC_IDS_SINCE)
    return metadata.min_version


def _build_state(
    session: Session, metadata: ClusterMetadata, collected: _TopicCollector, jute_max_buffer: int
) -> ClusterState:
    requested = metadata.reassignment_request
    stale = find_stale_names(requested.topics, requested.czxid, collected.topics, collected.topic_errors)
    return ClusterState(
        cluster_id=metadata.cluster_id,
        brokers=metadata.brokers,
        topics=collected.topics,
        chroot=session.chroot,
        controller=metadata.controller,
        controller_epoch=metadata.controller_epoch,
        write_block=metadata.write_block,
        pending_deletions=metadata.pending_deletions,
        reassigning_topics=requested.topics,
        stale_reassignments=stale,
        dangling_records=collected.dangling_records,
        topic_errors=collected.topic_errors,
        broker_defaults=metadata.broker_defaults,
        min_version=infer_min_version(metadata, collected.topics.values()),
        assigns_topic_ids=any(topic.topic_id for topic in collected.topics.values()),
        list_sizes=measure_list_sizes(metadata, jute_max_buffer),
        warnings=(*collected.warnings, *requested_warnings(stale, collected.topics)),
        deletion_records=collected.deletion_records,
    )


def measure_list_sizes(metadata: ClusterMetadata, jute_max_buffer: int) -> ListSizes:
    """Bytes of the lists as brokers receive them: a count, then length and text of each name."""
    return ListSizes(
        topics_bytes=4 + sum(4 + len(name.encode()) for name in metadata.topic_names),
        notifications_bytes=4 + metadata.notifications * (4 + paths.CONFIG_CHANGE_NAME_BYTES),
        max_bytes=jute_max_buffer,
    )
