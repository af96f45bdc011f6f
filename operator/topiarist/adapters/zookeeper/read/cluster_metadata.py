"""Read the metadata of a cluster: identity, controller, write block, live brokers, topic names.

The metadata is read before any topic, and again after a transaction failed its check of the controller epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths, values
from topiarist.adapters.zookeeper.codec.paths import config_path, record_path, topic_path
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder, decode_config
from topiarist.adapters.zookeeper.codec.values import ZnodeError
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ChildNames, ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import MIN_KAFKA_VERSION, Broker, KafkaVersion
from topiarist.model.moves import BatchRecord, RequestedReassignment
from topiarist.model.state import HINT_USE_KAFKA, OwnershipRecord, ReadError, TopicState, WriteBlock, is_closed_by_move

# Decode the znodes of one topic into a ``TopicState``, and cache the states between the reads of a session.

NO_PERMISSION_MESSAGE = "no permission to read it"
_NO_CONFIG: Mapping[str, str] = {}


class TopicZnodes(NamedTuple):
    """The znodes of one topic as read: raw, with their versions.

    ``marked_for_deletion`` is True if the topic has a deletion request.
    """

    name: str
    topic: Znode | ReadFailure
    config: Znode | ReadFailure
    record: Znode | ReadFailure
    marked_for_deletion: bool


def decode_topic_state(nodes: TopicZnodes, decoder: ZnodeDecoder) -> TopicState | ReadError | None:
    """Return the state of the topic.

    Returns None if the topic is missing, a ``ReadError`` for the first znode that is malformed or forbidden.
    """
    name, topic, config, record, _ = nodes
    if topic is ReadFailure.MISSING:
        return None
    where: Callable[[str], str] = topic_path
    try:
        topic = require_readable(topic)
        node = decoder.decode_topic(topic.data)
        where = config_path
        # A missing config znode means no overrides, as in Kafka.
        overrides = (
            _NO_CONFIG if config is ReadFailure.MISSING else decoder.decode_config(require_readable(config).data)
        )
        where = record_path
        ownership_record = decode_optional_record(record, decoder)
    except ZnodeError as error:
        return ReadError(where(name), str(error))
    record_valid = modified_externally = False
    # A record that was last written before the topic was created belongs to an earlier topic of that name.
    if isinstance(record, Znode) and record.mzxid >= topic.czxid:
        record_valid = True
        modified_externally = isinstance(config, Znode) and config.mzxid > record.mzxid
    return TopicState(
        name=name,
        identity=str(topic.czxid),
        replicas=node.replicas,
        config=overrides,
        partition_ids=node.partition_ids,
        topic_id=node.topic_id,
        reassigning_partitions=tuple(node.reassignments),
        record=ownership_record,
        record_valid=record_valid,
        modified_externally=modified_externally,
        unknown_fields=node.unknown_fields,
    )


def decode_optional_record(node: Znode | ReadFailure, decoder: ZnodeDecoder) -> OwnershipRecord | None:
    """Return the ownership record, None if it is missing; raise ``ZnodeError`` if it is malformed or forbidden."""
    return None if node is ReadFailure.MISSING else decoder.decode_record(require_readable(node).data)


def require_readable(node: Znode | ReadFailure) -> Znode:
    """Return a znode that exists; raise ``ZnodeError`` if there is no permission to read it."""
    if isinstance(node, ReadFailure):
        raise ZnodeError(NO_PERMISSION_MESSAGE)
    return node


class DecodeCache:
    """The decoded topics of the last read of a session, with the mzxids of their znodes.

    Every write of a znode changes its mzxid, and the reads of a session never return older data. The operator, which
    reads repeatedly, therefore decodes only the topics with a changed znode.
    """

    def __init__(self) -> None:
        self._previous: dict[str, _CacheEntry] = {}
        self._current: dict[str, _CacheEntry] = {}

    def start_read(self) -> None:
        """Start a read: topics that it does not contain are removed from the cache."""
        self._previous, self._current = self._current, {}

    def decode_topic_state(self, nodes: TopicZnodes, decoder: ZnodeDecoder) -> TopicState | ReadError | None:
        """Return the state as the function ``decode_topic_state`` does; decode it only if a znode has changed."""
        znodes = nodes.topic, nodes.config, nodes.record
        mzxids = tuple([node if isinstance(node, ReadFailure) else node.mzxid for node in znodes])
        entry = self._previous.get(nodes.name)
        if entry is None or entry[0] != mzxids:
            entry = mzxids, decode_topic_state(nodes, decoder)
        self._current[nodes.name] = entry
        return entry[1]


_CacheEntry = tuple[tuple[int | ReadFailure, ...], TopicState | ReadError | None]
"""The mzxids of a topic's znodes, and the state that was decoded from them."""


_METADATA_PATHS = (
    paths.CLUSTER_ID,
    paths.TOPIC_CONFIGS,
    paths.MIGRATION,
    paths.FREEZE,
    paths.REASSIGNMENT_REQUEST,
    paths.MOVES,
    paths.CONFIG_CHANGES,
    paths.FEATURE,
    paths.IP_CONFIGS,
    paths.BROKER_DEFAULTS,
)

_OPTIONAL_PATHS = {paths.FEATURE, paths.IP_CONFIGS, paths.BROKER_DEFAULTS, paths.CONFIG_CHANGES}
_QUOTED_NAME = re.compile(rb'"([a-zA-Z0-9._-]{1,249})"')

_REQUEST_FIELDS = frozenset({"version", "partitions", "topic", "partition", "replicas", "log_dirs", "any"})
"""JSON field names in a reassignment request, which are unlikely to be topic names."""

T = TypeVar("T")


class ReassignmentRequest(Struct, frozen=True):
    """The topics that a reassignment request names, with the version and the czxid of its znode.

    ``version`` and ``czxid`` are None if there is no request. ``error`` says why a request cannot be decoded, and is
    empty otherwise. After an error ``czxid`` is None, ``entries`` is empty, and ``topics`` has every name that the
    request could contain. ``mtime`` is the time of the last change, in ms since the epoch by the server's clock.
    """

    topics: frozenset[str] = frozenset()
    version: int | None = None
    czxid: int | None = None
    error: str = ""
    entries: tuple[RequestedReassignment, ...] = ()
    mtime: int | None = None


class ClusterMetadata(Struct, frozen=True):
    """The state of a cluster without its topics.

    ``epoch_version`` and ``freeze_version`` are znode versions for the checks of a transaction, None if the znode is
    missing. ``topic_names`` and ``record_names`` are sorted. ``pending_deletions`` has the topics with a deletion
    request. ``batch`` is the record of topiarist's last batch of moves, written at ``batch_mtime`` (ms since the epoch,
    by the server's clock). ``notifications`` is the number of outstanding config change notifications.
    """

    cluster_id: str
    controller: int | None
    controller_epoch: int
    epoch_version: int | None
    write_block: WriteBlock
    freeze_version: int | None
    brokers: tuple[Broker, ...]
    broker_defaults: Mapping[str, str]
    min_version: KafkaVersion
    topic_names: ChildNames
    record_names: ChildNames
    pending_deletions: frozenset[str]
    reassignment_request: ReassignmentRequest
    batch: BatchRecord | None
    batch_mtime: int | None
    notifications: int
    warnings: tuple[str, ...]


def read_metadata(session: Session) -> ClusterMetadata:
    """Read the cluster metadata.

    Raises ``NotAKafkaCluster`` (also for a missing chroot), ``NoPermission`` with all paths, ``Unreadable`` for a
    malformed znode that every plan needs. Any other malformed znode becomes a warning.
    """
    sync(session)
    # Read the epoch before the controller: a later change then fails the check of the epoch (contract 6.1).
    order = (paths.CONTROLLER_EPOCH, paths.CONTROLLER, *_METADATA_PATHS)
    nodes = dict(zip(order, read_znodes(session, order), strict=True))
    # Read records and deletion requests before topics: a record without a topic then means that the topic was
    # deleted, with or without a deletion request that explains it.
    listed = (paths.RECORDS, paths.DELETION_REQUESTS, paths.TOPICS, paths.BROKER_IDS)
    lists = dict(zip(listed, read_children(session, listed), strict=True))
    _require_permission(session, {**nodes, **lists})
    _require_kafka(session, {**nodes, **lists})
    znodes = _ReadZnodes({path: node for path, node in nodes.items() if isinstance(node, Znode)}, [])
    znodes.warnings.extend(f"{path}: no permission to read it" for path in nodes if nodes[path] is ReadFailure.DENIED)
    names = _sorted_child_names(lists[paths.BROKER_IDS])
    brokers, broker_version = _decode_brokers(
        names, read_znodes(session, map(_registration_path, names)), znodes.warnings
    )
    controller = znodes.decode_required(paths.CONTROLLER, values.decode_controller)
    epoch = znodes.decode_required(paths.CONTROLLER_EPOCH, values.decode_controller_epoch)
    topics = _sorted_child_names(lists[paths.TOPICS])
    write_block = _determine_write_block(znodes, controller if epoch is not None else None)
    broker_defaults = znodes.decode_optional(paths.BROKER_DEFAULTS, decode_config) or {}
    min_version = _infer_min_version(znodes, controller, broker_version)
    request = decode_reassignment_request(session, nodes[paths.REASSIGNMENT_REQUEST], topics)
    if request.error:
        znodes.warnings.append(f"{paths.REASSIGNMENT_REQUEST} cannot be read: {request.error}")
    return ClusterMetadata(
        cluster_id=znodes.decode_required(paths.CLUSTER_ID, values.decode_cluster_id) or "",
        controller=None if controller is None else controller.broker,
        controller_epoch=epoch or 0,
        epoch_version=znodes.version(paths.CONTROLLER_EPOCH),
        write_block=write_block,
        freeze_version=znodes.version(paths.FREEZE),
        brokers=brokers,
        broker_defaults=broker_defaults,
        min_version=min_version,
        topic_names=topics,
        record_names=_sorted_child_names(lists[paths.RECORDS]),
        pending_deletions=frozenset(_sorted_child_names(lists[paths.DELETION_REQUESTS])),
        reassignment_request=request,
        batch=znodes.decode_optional(paths.MOVES, own_values.decode_batch),
        batch_mtime=znodes.nodes[paths.MOVES].mtime if paths.MOVES in znodes.nodes else None,
        notifications=znodes.nodes[paths.CONFIG_CHANGES].child_count if paths.CONFIG_CHANGES in znodes.nodes else 0,
        warnings=tuple(znodes.warnings),
    )


def read_reassignment_request(session: Session, names: Sequence[str]) -> ReassignmentRequest:
    """Read the topics that the reassignment request names now, as ``decode_reassignment_request`` does."""
    (node,) = read_znodes(session, [paths.REASSIGNMENT_REQUEST])
    return decode_reassignment_request(session, node, names)


REQUEST_AND_WRITE_BLOCK = (
    paths.REASSIGNMENT_REQUEST,
    paths.CONTROLLER_EPOCH,
    paths.CONTROLLER,
    paths.MIGRATION,
    paths.FREEZE,
)
"""The paths of the reassignment request, and of what says whether something may be written, for one read."""


def decode_request_and_write_block(
    session: Session, answers: Iterable[Znode | ReadFailure]
) -> tuple[ReassignmentRequest, WriteBlock]:
    """Return the reassignment request, and the reason why nothing may be written now.

    ``answers`` are the znodes at ``REQUEST_AND_WRITE_BLOCK``. Raises ``NoPermission`` if one could not be read.
    """
    nodes = dict(zip(REQUEST_AND_WRITE_BLOCK, answers, strict=True))
    _require_permission(session, nodes)
    znodes = _ReadZnodes({path: node for path, node in nodes.items() if isinstance(node, Znode)}, [])
    controller = znodes.decode_required(paths.CONTROLLER, values.decode_controller)
    request = decode_reassignment_request(session, nodes[paths.REASSIGNMENT_REQUEST], ())
    return request, _determine_write_block(znodes, controller)


def decode_reassignment_request(
    session: Session, node: Znode | ReadFailure, names: Collection[str]
) -> ReassignmentRequest:
    """Decode the reassignment request in ``node``; raise ``NoPermission`` if it could not be read.

    A request that cannot be decoded may name any of ``names``.
    """
    _require_permission(session, {paths.REASSIGNMENT_REQUEST: node})
    if isinstance(node, ReadFailure):
        return ReassignmentRequest()
    try:
        entries = values.decode_requested_reassignments(node.data)
    except ZnodeError as error:
        # The controller may accept a request that this decoder rejects: count every name that could be a topic, even
        # one that does not exist yet.
        quoted = {name.decode() for name in _QUOTED_NAME.findall(node.data)}
        possible = frozenset(quoted - (_REQUEST_FIELDS - frozenset(names)))
        return ReassignmentRequest(possible, node.version, error=str(error), mtime=node.mtime)
    requested = tuple(RequestedReassignment(*entry) for entry in entries)
    names = frozenset(entry.topic for entry in requested)
    return ReassignmentRequest(names, node.version, node.czxid, entries=requested, mtime=node.mtime)


def refresh_metadata(session: Session, metadata: ClusterMetadata, brokers: Sequence[int]) -> ClusterMetadata:
    """Refresh the parts of ``metadata`` that no transaction can check; return the new metadata.

    The parts are a migration to KRaft, the defaults of the brokers, and the registrations of ``brokers``; an offline
    broker is left out. A transaction cannot check that a znode is missing, nor see that a recreated znode has the same
    version. Cheap enough for every batch of writes.
    """
    sync(session)
    names = tuple(map(str, brokers))
    refreshed = (paths.MIGRATION, paths.BROKER_DEFAULTS)
    migration, defaults, *registrations = read_znodes(session, [*refreshed, *map(_registration_path, names)])
    nodes = dict(zip(refreshed, (migration, defaults), strict=True))
    _require_permission(session, nodes)
    znodes = _ReadZnodes({path: node for path, node in nodes.items() if isinstance(node, Znode)}, [])
    registered, _ = _decode_brokers(names, registrations, znodes.warnings)
    unaffected = (broker for broker in metadata.brokers if broker.id not in brokers)
    return replace(
        metadata,
        write_block=_migration_block(znodes) or metadata.write_block,
        brokers=tuple(sorted((*unaffected, *registered))),
        broker_defaults=znodes.decode_optional(paths.BROKER_DEFAULTS, decode_config) or {},
    )


class _ReadZnodes(NamedTuple):
    """The znodes that exist, and the warnings about malformed ones so far."""

    nodes: Mapping[str, Znode]
    warnings: list[str]

    def decode_required(self, path: str, decode: Callable[[bytes], T]) -> T | None:
        """Return the value at ``path``, None if it is missing; raise ``Unreadable`` if it is malformed."""
        if path not in self.nodes:
            return None
        try:
            return decode(self.nodes[path].data)
        except ZnodeError as error:
            raise TopiaristError(Reason.UNREADABLE, f"{path} cannot be read: {error}") from error

    def decode_optional(self, path: str, decode: Callable[[bytes], T]) -> T | None:
        """Return the value at ``path``, None if it is missing or, with a warning, malformed."""
        try:
            return decode(self.nodes[path].data) if path in self.nodes else None
        except ZnodeError as error:
            self.warnings.append(f"{path} cannot be read: {error}")
            return None

    def version(self, path: str) -> int | None:
        return self.nodes[path].version if path in self.nodes else None


def _sorted_child_names(children: ChildNames | ReadFailure) -> ChildNames:
    return () if isinstance(children, ReadFailure) else tuple(sorted(children))


def _require_permission(session: Session, answers: Mapping[str, object]) -> None:
    denied = sorted(
        path for path, answer in answers.items() if answer is ReadFailure.DENIED and path not in _OPTIONAL_PATHS
    )
    if denied:
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"no permission to read {', '.join(denied)}",
            f"give {session.principal_text} permission to read them",
        )


def _require_kafka(session: Session, answers: Mapping[str, object]) -> None:
    missing = [path for path in paths.REQUIRED_PATHS if answers[path] is ReadFailure.MISSING]
    if not missing:
        return
    if session.chroot and list(read_znodes(session, [""])) == [ReadFailure.MISSING]:
        raise TopiaristError(
            Reason.NOT_A_KAFKA_CLUSTER,
            f"the chroot {session.chroot} does not exist in ZooKeeper at {session.hosts}",
            "correct the connect string; only the first broker to start should create the chroot",
        )
    raise TopiaristError(
        Reason.NOT_A_KAFKA_CLUSTER,
        f"this is not a Kafka cluster: {session.hosts}{session.chroot} has no {', '.join(missing)}",
        "correct the connect string: host1:2181,host2:2181/chroot, with the chroot that the brokers use",
    )


def _determine_write_block(znodes: _ReadZnodes, controller: values.ActiveController | None) -> WriteBlock:
    if controller is not None and controller.is_kraft:
        return WriteBlock(
            Reason.KRAFT_CONTROLLER,
            f"a KRaft controller ({controller.broker}) is active: it would ignore, reset or delete what is written"
            f" to ZooKeeper; {HINT_USE_KAFKA}",
        )
    if migration := _migration_block(znodes):
        return migration
    if paths.FREEZE in znodes.nodes and (frozen := values.decode_freeze_fail_closed(znodes.nodes[paths.FREEZE].data)):
        hint = f"; {HINT_USE_KAFKA}" if is_closed_by_move(frozen) else ""
        return WriteBlock(Reason.FROZEN, f"the cluster is {frozen}{hint}")
    if controller is None:
        return WriteBlock(
            Reason.NO_CONTROLLER,
            f"{paths.CONTROLLER} does not exist: an election is in progress, or no broker is running; try again later",
        )
    return WriteBlock()


def _migration_block(znodes: _ReadZnodes) -> WriteBlock | None:
    if paths.MIGRATION not in znodes.nodes:
        return None
    copied = znodes.decode_optional(paths.MIGRATION, values.decode_migration_copied)
    stage = "its content has been copied to KRaft" if copied else "a KRaft quorum has connected"
    return WriteBlock(
        Reason.KRAFT_MIGRATION,
        f"{paths.MIGRATION} exists: a migration to KRaft has begun ({stage}), or was rolled back; the KRaft"
        f" controller may take over at any moment; {HINT_USE_KAFKA}",
    )


def _infer_min_version(
    znodes: _ReadZnodes, controller: values.ActiveController | None, broker_version: int
) -> KafkaVersion:
    # Contract 4.9. Topic ids are another hint; ``read.state.infer_min_version`` uses them.
    feature = znodes.decode_optional(paths.FEATURE, values.decode_feature_version)
    hints: list[tuple[bool, KafkaVersion]] = [
        (controller is not None and controller.version >= 2, (3, 4)),
        (feature is not None and feature >= 2, (3, 3)),
        (paths.IP_CONFIGS in znodes.nodes, (2, 8)),
        (paths.FEATURE in znodes.nodes or broker_version >= 5, (2, 7)),
    ]
    return next((release for hint, release in hints if hint), MIN_KAFKA_VERSION)


def _registration_path(name: str) -> str:
    return f"{paths.BROKER_IDS}/{name}"


def _decode_brokers(
    names: ChildNames, nodes: Iterable[Znode | ReadFailure], warnings: list[str]
) -> tuple[tuple[Broker, ...], int]:
    """Return the brokers sorted by id, and the newest version among their znodes (0 if there are none)."""
    registrations = []
    for name, node in zip(names, nodes, strict=True):
        if node is ReadFailure.MISSING:
            continue
        try:
            registrations.append(values.decode_broker(values.parse_id(name), require_readable(node).data))
        except ZnodeError as error:
            warnings.append(f"{_registration_path(name)} cannot be read, so this broker counts as missing: {error}")
    brokers = sorted(Broker(broker.id, broker.rack) for broker in registrations)
    return tuple(brokers), max((broker.version for broker in registrations), default=0)
