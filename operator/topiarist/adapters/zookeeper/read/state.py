"""Read the state of a cluster in bulk, single topics before a write, and what the controller and brokers do.

``read_state`` decodes each znode at once and keeps no bytes. The result is many reads, not a snapshot: before a write,
``Writer`` reads the topic again with ``read_topics``, and the transaction checks the versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct, field

from topiarist.adapters.size_limits import ListSizes, build_list_limits, measure_notifications, measure_topic_list
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.paths import config_path, deletion_request_path, record_path, topic_path
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder, decode_config, decode_partition_state, decode_topic
from topiarist.adapters.zookeeper.codec.values import ZnodeError, decode_requested_reassignments, parse_id
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ChildNames, ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    NO_PERMISSION_MESSAGE,
    ClusterMetadata,
    DecodeCache,
    TopicZnodes,
    decode_optional_record,
    decode_topic_state,
    read_metadata,
    read_reassignment_request,
    require_readable,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS
from topiarist.kafka.types import KafkaVersion
from topiarist.model.outcome import TopicProgress
from topiarist.model.state import (
    ClusterState,
    DeletionRecord,
    OwnershipRecord,
    PartitionState,
    ReadError,
    SizeLimit,
    TopicInspection,
    TopicState,
)
from topiarist.planning.builder import stale_entry_warnings as requested_warnings

# Read partition states and reassignments, the progress of the controller, and the throttles of brokers.
#
# A znode that is malformed or cannot be read becomes an error with its path; it never ends the read.
# ``inspection.health`` interprets the result.


def inspect(session: Session, name: str) -> TopicInspection:
    """Read the partition states of the topic ``name``.

    The assignment is read before the states, so that a state is no older than its assignment.
    """
    sync(session)
    (node,) = read_znodes(session, [paths.topic_path(name)])
    parent = paths.partitions_path(name)
    (children,) = read_children(session, [parent])
    ids: list[int] = []
    other_errors: list[ReadError] = []
    if children is ReadFailure.DENIED:
        other_errors.append(ReadError(parent, NO_PERMISSION_MESSAGE))
    for child in () if isinstance(children, ReadFailure) else sorted(children):
        try:
            ids.append(parse_id(child))
        except ZnodeError as error:
            other_errors.append(ReadError(f"{parent}/{child}", str(error)))
    # The ids come from the state znodes and not from the assignment: a state without an assignment is an error too.
    ids.sort()
    answers = read_znodes(session, [paths.partition_state_path(name, partition) for partition in ids])
    states, partition_errors = _decode_states(name, zip(ids, answers, strict=True))
    (request,) = read_znodes(session, [paths.REASSIGNMENT_REQUEST])
    # The read of the whole cluster reports a malformed topic and warns about a malformed request.
    try:
        topic = None if isinstance(node, ReadFailure) else decode_topic(node.data)
    except ZnodeError:
        topic = None
    try:
        requested = () if isinstance(request, ReadFailure) else decode_requested_reassignments(request.data)
    except ZnodeError:
        requested = ()
    return TopicInspection(
        identity=None if isinstance(node, ReadFailure) else str(node.czxid),
        assignment={} if topic is None else dict(zip(topic.partition_ids, topic.replicas, strict=True)),
        states=states,
        partition_errors=partition_errors,
        other_errors=tuple(other_errors),
        reassignments={} if topic is None else topic.reassignments,
        requested_replicas={partition: target for topic_name, partition, target in requested if topic_name == name},
        topic_id=None if topic is None else topic.topic_id,
        states_readable=children is not ReadFailure.DENIED,
    )


def inspect_all(session: Session, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
    """Read the states of all partitions of topics that were just read, in one pipeline.

    A topic under reassignment is read by itself, because its ``TopicState`` does not say which replicas are added.
    """
    stable = [topic for topic in topics if not topic.reassigning_partitions]
    answers = read_znodes(
        session,
        (paths.partition_state_path(topic.name, partition) for topic in stable for partition in topic.partition_ids),
    )
    inspections: dict[str, TopicInspection] = {}
    for topic in stable:
        found = list(islice(answers, len(topic.replicas)))
        states, errors = _decode_states(topic.name, zip(topic.partition_ids, found, strict=True))
        denied = bool(found) and all(answer is ReadFailure.DENIED for answer in found)
        inspections[topic.name] = TopicInspection(
            identity=topic.identity,
            assignment=dict(zip(topic.partition_ids, topic.replicas, strict=True)),
            states=states,
            partition_errors={} if denied else errors,
            topic_id=topic.topic_id,
            states_readable=not denied,
        )
    return inspections | {topic.name: inspect(session, topic.name) for topic in topics if topic.reassigning_partitions}


def _decode_states(
    name: str, answers: Iterable[tuple[int, Znode | ReadFailure]]
) -> tuple[Mapping[int, PartitionState], Mapping[int, ReadError]]:
    states: dict[int, PartitionState] = {}
    errors: dict[int, ReadError] = {}
    for partition, answer in answers:
        if answer is ReadFailure.MISSING:
            continue
        try:
            states[partition] = decode_partition_state(require_readable(answer).data)
        except ZnodeError as error:
            errors[partition] = ReadError(paths.partition_state_path(name, partition), str(error))
    return states, errors


# Read the progress of the controller on single topics: few reads, repeated often.
#
# A partition is initialized once its state exists. The controller creates the parent znode of a state directly before
# the state itself. One list of children per topic therefore shows the partitions that can have a state. Until the
# controller handles a topic, that list is the only read for its partitions. With MultiRead, a poll of a hundred topics
# takes a handful of requests. ``model.progress`` interprets the result.

Answer = TypeVar("Answer")


def poll_progress(session: Session, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
    """Return the progress of each topic, with the initialized partitions among those asked for.

    Deletion requests are read first: the controller deletes the topic before the request, so a topic that exists after
    its request was removed was not deleted. Topics are read last: growth that is present now was not lost before its
    states were read. Raises ``NoPermission``.
    """
    sync(session)
    deletion_requests, brokers = _require_permission(
        read_children(session, [paths.DELETION_REQUESTS, paths.BROKER_IDS])
    )
    marked, registered = _child_name_set(deletion_requests), _child_name_set(brokers)
    awaited = {name: partitions for name, partitions in topics.items() if partitions}
    initialized = _read_initialized_partitions(session, awaited)
    controller, *answers = _require_permission(
        read_znodes(session, [paths.CONTROLLER, *map(paths.record_path, awaited)])
    )
    records = dict(zip(awaited, answers, strict=True))
    reassigning = read_reassignment_request(session, list(topics)).topics
    nodes = _require_permission(read_znodes(session, map(paths.topic_path, topics)))
    result: dict[str, TopicProgress] = {}
    for name, node in zip(topics, nodes, strict=True):
        if isinstance(node, ReadFailure):
            result[name] = TopicProgress(None, name in marked)
            continue
        progress = TopicProgress(str(node.czxid), name in marked, reassigning=name in reassigning)
        if name in records:
            record = records[name]
            progress = progress._replace(
                initialized=initialized[name],
                record_stale=isinstance(record, Znode) and record.mzxid < node.czxid,
                has_controller=controller is not ReadFailure.MISSING,
            )
        result[name] = _add_assignment(progress, node, registered, awaited=name in awaited)
    return result


def _read_initialized_partitions(
    session: Session, awaited: Mapping[str, Collection[int]]
) -> Mapping[str, frozenset[int]]:
    lists = _require_permission(read_children(session, map(paths.partitions_path, awaited)))
    existing = {name: _child_name_set(found) for name, found in zip(awaited, lists, strict=True)}
    candidates = [
        (name, partition)
        for name, partitions in awaited.items()
        for partition in partitions
        if str(partition) in existing[name]
    ]
    states = _require_permission(read_znodes(session, (paths.partition_state_path(*each) for each in candidates)))
    initialized: dict[str, set[int]] = {name: set() for name in awaited}
    for (name, partition), state in zip(candidates, states, strict=True):
        if state is not ReadFailure.MISSING:
            initialized[name].add(partition)
    return {name: frozenset(partitions) for name, partitions in initialized.items()}


def _add_assignment(
    progress: TopicProgress, node: Znode, registered: frozenset[str], *, awaited: bool
) -> TopicProgress:
    try:
        assignment = decode_topic(node.data)
    except ZnodeError as error:
        # Without an assignment there is no partition to wait for: the error ends the wait.
        return progress._replace(read_error=str(error)) if awaited else progress
    brokers = {broker for replicas in assignment.replicas for broker in replicas}
    progress = progress._replace(
        missing_brokers=tuple(sorted(broker for broker in brokers if str(broker) not in registered)),
        reassigning=progress.reassigning or bool(assignment.reassignments),
    )
    if not awaited:
        return progress
    replicas = dict(zip(assignment.partition_ids, assignment.replicas, strict=True))
    return progress._replace(replicas=replicas, topic_id=assignment.topic_id)


def _child_name_set(children: ChildNames | ReadFailure) -> frozenset[str]:
    return frozenset() if isinstance(children, ReadFailure) else frozenset(children)


def _require_permission(answers: Iterator[Answer]) -> list[Answer]:
    results = list(answers)
    if ReadFailure.DENIED in results:
        raise TopiaristError(Reason.NO_PERMISSION, "the permission to read the awaited topics was removed")
    return results


# Read the throttles of brokers: the rates at which they copy replicas that a topic lists as throttled.


def read_broker_throttles(session: Session) -> Mapping[str, Mapping[str, str]]:
    """Return the rates of each entity (``brokers/5``, ``brokers/<default>``) that has one.

    A config that brokers cannot read has none. Raises ``TopiaristError`` (NoPermission).
    """
    sync(session)
    (names,) = read_children(session, [paths.BROKER_CONFIGS])
    if names is ReadFailure.DENIED:
        raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.BROKER_CONFIGS}")
    entities = [] if isinstance(names, ReadFailure) else [f"brokers/{name}" for name in sorted(names)]
    found = {}
    for entity, node in zip(entities, read_znodes(session, map(paths.entity_config_path, entities)), strict=True):
        if node is ReadFailure.DENIED:
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.entity_config_path(entity)}")
        if isinstance(node, Znode) and (rates := _decode_rates(node.data)):
            found[entity] = rates
    return found


def _decode_rates(raw: bytes) -> Mapping[str, str]:
    try:
        config = decode_config(raw)
    except ZnodeError:
        return {}
    return {key: config[key] for key in RATE_CONFIGS if key in config}


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
