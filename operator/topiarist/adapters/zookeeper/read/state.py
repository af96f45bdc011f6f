"""Read the state of a whole cluster in bulk, or the znodes of single topics before a write.

``read_state`` decodes each znode at once and keeps no bytes. The result is many reads, not a snapshot: before a write,
``Writer`` reads the topic again with ``read_topics``, and the transaction checks the versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from topiarist.adapters.size_limits import ListSizes, build_list_limits, measure_notifications, measure_topic_list
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.paths import config_path, deletion_request_path, record_path, topic_path
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    ClusterMetadata,
    DecodeCache,
    TopicZnodes,
    decode_optional_record,
    decode_topic_state,
    read_metadata,
)
from topiarist.kafka.types import KafkaVersion
from topiarist.model.state import ClusterState, DeletionRecord, OwnershipRecord, ReadError, SizeLimit, TopicState
from topiarist.planning.builder import stale_entry_warnings as requested_warnings

_TOPIC_IDS_SINCE: KafkaVersion = (2, 8)


def read_state(session: Session, *, jute_max_buffer: int, cache: DecodeCache | None = None) -> ClusterState:
    """Read everything that a plan needs.

    Topics with malformed or forbidden znodes are in ``topic_errors``; all other topics are complete.
    ``jute_max_buffer`` is the smallest ``jute.maxbuffer`` of brokers and servers, in bytes. ``cache`` keeps decoded
    topics between the reads of a session. Raises the errors of ``read_metadata``.
    """
    metadata = read_metadata(session)
    if cache:
        cache.start_read()
    collected = _TopicCollector(list(metadata.warnings), cache.decode_topic_state if cache else decode_topic_state)
    for nodes in _read_all_topics(session, metadata):
        collected.add(nodes)
    topic_names = frozenset(metadata.topic_names)
    dangling = [name for name in metadata.record_names if name not in topic_names]
    for name, record in zip(dangling, read_znodes(session, map(record_path, dangling)), strict=True):
        collected.add_record(name, record)
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
        size_limits=measure_size_limits(metadata, jute_max_buffer),
        warnings=(*collected.warnings, *requested_warnings(stale, collected.topics)),
        deletion_records=collected.deletion_records,
        requested_reassignments=requested.entries,
        requested_at_ms=requested.mtime,
        batch=metadata.batch,
        batch_at_ms=metadata.batch_mtime,
    )


def read_topics(session: Session, names: Sequence[str]) -> tuple[dict[str, TopicZnodes], Znode | ReadFailure]:
    """Read the znodes of single topics directly before a write, and the reassignment request.

    The request is read after the topics. A request that was created and removed earlier is visible in the topic's
    znode, or changes its version. One round trip carries both reads: during a second round trip, a topic could be
    deleted and recreated.
    """
    wanted = [path(name) for name in names for path in (topic_path, config_path, record_path, deletion_request_path)]
    answers = read_znodes(session, [*wanted, paths.REASSIGNMENT_REQUEST])
    znodes_by_topic = {
        name: TopicZnodes(name, topic, config, record, marked_for_deletion=deletion_request is not ReadFailure.MISSING)
        for name, topic, config, record, deletion_request in zip(
            names, answers, answers, answers, answers, strict=False
        )
    }
    return znodes_by_topic, next(answers)


class _TopicCollector(Struct):
    warnings: list[str]
    decode_topic_state: Callable[[TopicZnodes, ZnodeDecoder], TopicState | ReadError | None]
    topics: dict[str, TopicState] = field(default_factory=dict)
    dangling_records: dict[str, OwnershipRecord] = field(default_factory=dict)
    topic_errors: dict[str, ReadError] = field(default_factory=dict)
    deletion_records: dict[str, DeletionRecord] = field(default_factory=dict)
    decoder: ZnodeDecoder = field(default_factory=ZnodeDecoder)

    def add(self, nodes: TopicZnodes) -> None:
        """Decode one topic; a topic that was deleted after its name was read may leave its ownership record."""
        state = self.decode_topic_state(nodes, self.decoder)
        if isinstance(state, TopicState):
            self.topics[nodes.name] = state
            self._add_deletion_record(nodes.name, state.record, nodes.record)
        elif state is not None:
            self.topic_errors[nodes.name] = state
        else:
            self.add_record(nodes.name, nodes.record)

    def add_record(self, name: str, record: Znode | ReadFailure) -> None:
        """Decode an ownership record that has no topic."""
        try:
            decoded = decode_optional_record(record, self.decoder)
        except ZnodeError as error:
            self.warnings.append(f"{record_path(name)} cannot be read: {error}")
            self.topic_errors[name] = ReadError(record_path(name), str(error))
        else:
            if decoded is not None:
                self.dangling_records[name] = decoded
                self._add_deletion_record(name, decoded, record)

    def _add_deletion_record(self, name: str, found: OwnershipRecord | None, record: Znode | ReadFailure) -> None:
        if found and found.deleted and not isinstance(record, ReadFailure):
            self.deletion_records[name] = DeletionRecord(found.owner, record.mtime)


def _read_all_topics(session: Session, metadata: ClusterMetadata) -> Iterator[TopicZnodes]:
    """Yield the znodes of every topic, in the order of the names; read records only if they exist."""
    names_with_record = frozenset(metadata.record_names)

    # A generator, because a large cluster has half a million paths. ZooKeeper returned the names, so they are valid
    # path components and need no check.
    def paths_to_read() -> Iterator[str]:
        topics, configs, records = f"{paths.TOPICS}/", f"{paths.TOPIC_CONFIGS}/", f"{paths.RECORDS}/"
        for name in metadata.topic_names:
            yield topics + name
            yield configs + name
            if name in names_with_record:
                yield records + name

    answers = read_znodes(session, paths_to_read())
    for name in metadata.topic_names:
        topic, config = next(answers), next(answers)
        record = next(answers) if name in names_with_record else ReadFailure.MISSING
        yield TopicZnodes(name, topic, config, record, name in metadata.pending_deletions)


def find_stale_names(
    names: Collection[str], czxid: int | None, topics: Mapping[str, TopicState], unreadable: Collection[str]
) -> frozenset[str]:
    """Return the topic names with a stale entry in the request.

    The topic does not exist, or it is younger than the request: transaction numbers increase over time. ``czxid`` is
    the number of the request, None if it cannot be read: then no entry is known to be stale. ``unreadable`` are the
    topics that cannot be read.
    """
    if czxid is None:
        return frozenset()
    return frozenset(
        name for name in names if (int(topics[name].identity) > czxid if name in topics else name not in unreadable)
    )


def infer_min_version(metadata: ClusterMetadata, topics: Iterable[TopicState]) -> KafkaVersion:
    """Return the oldest Kafka version that fits the metadata and the topics.

    A topic id is a hint that the metadata does not contain.
    """
    if any(topic.topic_id for topic in topics):
        return max(metadata.min_version, _TOPIC_IDS_SINCE)
    return metadata.min_version


def measure_size_limits(metadata: ClusterMetadata, jute_max_buffer: int) -> tuple[SizeLimit, ...]:
    """Return the limits of the lists that brokers receive, with the present sizes of the lists."""
    names = metadata.topic_names
    sizes = ListSizes(
        measure_topic_list(sum(len(name.encode()) for name in names), len(names)),
        measure_notifications(metadata.notifications),
        jute_max_buffer,
    )
    return build_list_limits(sizes)
