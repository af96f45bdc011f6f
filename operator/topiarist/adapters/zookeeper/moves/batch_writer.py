"""Write under the lock of a cluster: send a batch, give it another throttle, put its throttles back.

``Mover`` decides what is written. Each write is one transaction that is applied as a whole or not at all; after a lost
reply the record of the batch decides, because only this transaction can have written its version and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from kazoo.exceptions import KazooException, NoAuthError
from msgspec import Struct

from topiarist.adapters.own_values import decode_batch, encode_batch
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.topics import (
    ZnodeDecoder,
    decode_config,
    decode_partition_state,
    encode_config,
    replace_config,
)
from topiarist.adapters.zookeeper.codec.values import ZnodeError, encode_reassignment_request
from topiarist.adapters.zookeeper.connection.session import ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import ClusterMetadata, TopicZnodes, decode_topic_state
from topiarist.adapters.zookeeper.read.state import read_topics
from topiarist.adapters.zookeeper.write import transaction
from topiarist.adapters.zookeeper.write.write_context import (
    Lock,
    ensure_own_znodes,
    read_transaction_template,
    wait_for_controller,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchRecord, ClearedMoves, OwnThrottles, ReplicaMove
from topiarist.model.state import PartitionState, ReadError, Reassignment
from topiarist.planning.moves.gate import MovedTopic, effective_min_isr
from topiarist.planning.moves.throttles import EntityConfigs, ThrottleUpdate, find_needed_throttles, update_throttles

# Read what a batch of moves depends on: the reassignment request, topics, partition states, throttles.

StateZnodes = Mapping[tuple[str, int], Znode]
"""The state znodes of partitions that have one, by topic and partition."""


class JudgedZnodes(NamedTuple):
    """The znodes that topics were compared with: their own, and the states of all their partitions."""

    topics: Mapping[str, TopicZnodes]
    states: StateZnodes


NOTHING_JUDGED = JudgedZnodes({}, {})


def read_moved_topics(session: Session, names: Sequence[str]) -> dict[str, TopicZnodes]:
    """Read the znodes of topics, in the order of ``names``; a topic that does not exist has ``MISSING`` znodes."""
    return read_topics(session, names)[0]


def read_partition_states(session: Session, nodes: Iterable[TopicZnodes]) -> StateZnodes:
    """Read the state of every partition of topics that were just read.

    A state that is older than its topic belongs to an earlier topic of that name, and is left out.
    """
    wanted = [
        (found.name, partition, found.topic.czxid)
        for found in nodes
        if isinstance(found.topic, Znode)
        for partition in decode_lists(found)
    ]
    answers = read_znodes(session, [paths.partition_state_path(name, partition) for name, partition, _ in wanted])
    states = {}
    for (name, partition, czxid), answer in zip(wanted, answers, strict=True):
        if answer is ReadFailure.DENIED:
            path = paths.partition_state_path(name, partition)
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {path}")
        if isinstance(answer, Znode) and answer.czxid >= czxid:
            states[name, partition] = answer
    return states


def read_judged(session: Session, names: Sequence[str]) -> JudgedZnodes:
    """Read topics and the states of all their partitions, to compare them directly before a transaction.

    The states are read before the topics. A state read after its topic could belong to a topic that was recreated in
    between, and the check of that state would then pass.
    """
    states = read_partition_states(session, read_moved_topics(session, names).values())
    return JudgedZnodes(read_moved_topics(session, names), states)


def decode_moved_topic(
    nodes: TopicZnodes, brokers: Mapping[int, Broker], settings: Mapping[str, str], states: StateZnodes | None = None
) -> MovedTopic:
    """Return a topic for ``judge_topic``; ``settings`` are those of the brokers.

    Raises ``TopiaristError`` (TopicUnreadable) if a znode has content that Kafka does not write.
    """
    decoder = ZnodeDecoder()
    topic = decode_topic_state(nodes, decoder)
    if isinstance(topic, ReadError):
        raise TopiaristError(Reason.TOPIC_UNREADABLE, f"{topic.path}: {topic.message}")
    return MovedTopic(
        topic=topic,
        reassignments=decode_reassignments(nodes),
        marked_for_deletion=nodes.marked_for_deletion,
        brokers=brokers,
        states=None if states is None else decode_states(nodes.name, states),
        min_isr=effective_min_isr(topic.config, settings) if topic else 1,
    )


def decode_states(name: str, states: StateZnodes) -> Mapping[int, PartitionState]:
    """Return the states of one topic; a state that cannot be decoded is left out, as if there were none."""
    decoded = {}
    for (topic, partition), node in states.items():
        if topic == name:
            try:
                decoded[partition] = decode_partition_state(node.data)
            except ZnodeError:
                continue
    return decoded


def decode_reassignments(nodes: TopicZnodes) -> Mapping[int, Reassignment]:
    """Return the partitions of a topic that are in flight; nothing if the topic does not exist or is malformed."""
    try:
        return ZnodeDecoder().decode_topic(nodes.topic.data).reassignments if isinstance(nodes.topic, Znode) else {}
    except ZnodeError:
        return {}


def decode_lists(nodes: TopicZnodes) -> Mapping[int, Replicas]:
    """Return the replica lists of a topic by partition; none if it does not exist or is malformed."""
    try:
        decoded = ZnodeDecoder().decode_topic(nodes.topic.data) if isinstance(nodes.topic, Znode) else None
    except ZnodeError:
        return {}
    return dict(zip(decoded.partition_ids, decoded.replicas, strict=True)) if decoded else {}


def read_entity_configs(
    session: Session, entities: Collection[str], topics: Mapping[str, TopicZnodes]
) -> dict[str, Znode | ReadFailure]:
    """Read the config znodes of entities (``brokers/5``); those of topics are in ``topics``."""
    brokers = [entity for entity in entities if not entity.startswith("topics/")]
    answers = read_znodes(session, map(paths.entity_config_path, brokers))
    found = dict(zip(brokers, islice(answers, len(brokers)), strict=True))
    return found | {f"topics/{name}": nodes.config for name, nodes in topics.items()}


def decode_entity_configs(
    nodes: Mapping[str, Znode | ReadFailure], topics: Mapping[str, TopicZnodes]
) -> dict[str, Mapping[str, str]]:
    """Return the overrides of each entity; a topic that does not exist is left out.

    Raises ``TopiaristError`` (Unreadable) for a config that brokers cannot read.
    """
    decoded: dict[str, Mapping[str, str]] = {}
    for entity, node in nodes.items():
        kind, _, name = entity.partition("/")
        if kind == "topics" and (name not in topics or not isinstance(topics[name].topic, Znode)):
            continue
        try:
            if node is ReadFailure.DENIED:
                raise ZnodeError("no permission to read it")
            decoded[entity] = decode_config(node.data) if isinstance(node, Znode) else {}
        except ZnodeError as error:
            path = paths.entity_config_path(entity)
            raise TopiaristError(Reason.UNREADABLE, f"{path} cannot be read: {error}") from error
    return decoded


# Build the transaction of one batch of moves, and the transaction that puts its throttles back.
#
# Pure, as ``write/transaction.py``: the caller reads the znodes before and sends the operations after. One transaction
# has the checks, the throttles with their notifications, the record of the batch and the reassignment request. A run
# that ends at any moment leaves all of them or none.
#
# The request is only ever created. The controller deletes it with its last partition; a request that another client
# deletes or replaces is not seen by the controller, and may be obeyed by the next one (contract 6.6).


class BatchZnodes(NamedTuple):
    """The znodes that a batch depends on, read under the lock.

    ``states`` are by topic and partition, ``configs`` by entity (``topics/orders``, ``brokers/5``). ``record`` is the
    record of the batch before.
    """

    topics: Mapping[str, TopicZnodes]
    states: Mapping[tuple[str, int], Znode]
    configs: Mapping[str, Znode | ReadFailure]
    record: Znode | ReadFailure


def build_checks(
    partitions: Collection[tuple[str, int]],
    brokers: Collection[int],
    znodes: JudgedZnodes | BatchZnodes,
    template: transaction.TransactionTemplate,
) -> list[transaction.Operation]:
    """Return the operations that a request about partitions begins with: nothing that it depends on has changed.

    These are the fence, the registrations of ``brokers``, and the topics and states as they were judged.
    """
    operations = [*template.fence, *(template.broker_checks[broker] for broker in sorted(brokers))]
    for name in sorted({topic for topic, _ in partitions}):
        node = znodes.topics[name].topic
        assert isinstance(node, Znode)
        operations.append(transaction.check(paths.topic_path(name), node.version))
        operations += transaction.check_no_deletion_request(name, template.acls)
    for topic, partition in partitions:
        version = znodes.states[topic, partition].version
        operations.append(transaction.check(paths.partition_state_path(topic, partition), version))
    return operations


def build_batch_operations(
    record: BatchRecord, configs_after: EntityConfigs, znodes: BatchZnodes, template: transaction.TransactionTemplate
) -> list[transaction.Operation]:
    """Return the operations that send the batch ``record``, with ``configs_after`` as the throttled configs.

    Each topic of the batch has an ownership record, and each broker that gets a replica is in
    ``template.broker_checks``.
    """
    added = {broker for move in record.moves for broker in move.added}
    partitions = [(move.topic, move.partition) for move in record.moves]
    operations = build_checks(partitions, added, znodes, template)
    operations += _build_config_operations(configs_after, znodes, template)
    data = encode_batch(record)
    operations.append(transaction.set_or_create(paths.MOVES, data, znodes.record, template.acls))
    request = encode_reassignment_request(record.moves)
    acl = template.acls[paths.REASSIGNMENT_REQUEST.rpartition("/")[0]]
    return [
        *operations,
        transaction.Operation(transaction.OperationType.CREATE, paths.REASSIGNMENT_REQUEST, request, acl=acl),
    ]


def build_throttle_operations(
    record: BatchRecord, configs_after: EntityConfigs, znodes: BatchZnodes, template: transaction.TransactionTemplate
) -> list[transaction.Operation]:
    """Return the operations that give a batch under way another throttle: ``record`` with its values replaces its own.

    The reassignment request is not written.
    """
    data = encode_batch(record)
    return [
        *template.fence,
        *_build_config_operations(configs_after, znodes, template),
        transaction.set_or_create(paths.MOVES, data, znodes.record, template.acls),
    ]


def build_end_operations(
    configs_after: EntityConfigs, znodes: BatchZnodes, template: transaction.TransactionTemplate
) -> list[transaction.Operation]:
    """Return the operations that put throttles back, with ``configs_after``, and delete the record of the batch."""
    assert isinstance(znodes.record, Znode)
    return [
        *template.fence,
        *_build_config_operations(configs_after, znodes, template),
        transaction.Operation(transaction.OperationType.DELETE, paths.MOVES, version=znodes.record.version),
    ]


def _build_config_operations(
    configs_after: EntityConfigs, znodes: BatchZnodes, template: transaction.TransactionTemplate
) -> list[transaction.Operation]:
    operations = []
    for entity, config in sorted(configs_after.items()):
        path, node = paths.entity_config_path(entity), znodes.configs[entity]
        data = replace_config(node.data, config) if isinstance(node, Znode) else encode_config(config)
        kind, _, name = entity.partition("/")
        if kind == "topics" and not isinstance(node, Znode):
            # A config without its topic would become that of a later topic of this name.
            operations.append(transaction.check(paths.topic_path(name)))
        operations += [
            transaction.set_or_create(path, data, node, template.acls),
            transaction.notify_brokers(entity, template.acls),
        ]
        if kind == "topics":
            operations += _renew_record(znodes.topics[name], node)
    return operations


def _renew_record(nodes: TopicZnodes, config: Znode | ReadFailure) -> list[transaction.Operation]:
    """Return the operation that writes a topic's ownership record again, unchanged, if it is up to date.

    A record older than the config means a change by another client, and one older than the topic means another topic:
    such a record must keep showing that.
    """
    topic, record = nodes.topic, nodes.record
    if not isinstance(record, Znode) or not isinstance(topic, Znode) or record.mzxid < topic.czxid:
        return []
    if isinstance(config, Znode) and config.mzxid > record.mzxid:
        return []
    return [
        transaction.Operation(transaction.OperationType.SET, paths.record_path(nodes.name), record.data, record.version)
    ]


Batch = tuple[ReplicaMove, ...]

HINT_CONTINUE = "a batch that was sent continues at the controller; the next run waits for it, and puts throttles back"
MAX_ATTEMPTS = 5
"""Attempts of one write: each reads again what another client has changed meanwhile."""

_PARENTS = (paths.REASSIGNMENT_REQUEST.rpartition("/")[0], paths.BROKER_CONFIGS)


class WriterSettings(NamedTuple):
    """The owner of a run, and its limits: the wait for the lock in seconds, the size of a request in bytes."""

    owner: str
    lock_timeout: float
    jute_max_buffer: int


class MoveAccess(NamedTuple):
    """The session and the settings of a run of moves or elections; ``stop`` says whether it ends."""

    session: Session
    writer_settings: WriterSettings
    stop: Callable[[], bool]


class TooLarge(TopiaristError):
    """A transaction that is larger than the servers accept."""

    def __init__(self, size: int, limit: int) -> None:
        message = f"its transaction has {size:,} bytes; the maximum is {limit:,}, 90 % of a request"
        super().__init__(Reason.TOO_LARGE, message, HINT_CONTINUE)
        self.size = size


class NoReply(Exception):
    """A transaction without a reply that can be used: it was applied as a whole, or not at all."""


class BatchWriter(Struct, frozen=True):
    """A writer that holds the lock; ``record`` is that of the last batch, None if no throttle is left.

    ``remark`` is called with each fact about throttles of other clients.
    """

    session: Session
    settings: WriterSettings
    template: transaction.TransactionTemplate
    metadata: ClusterMetadata
    record_znode: Znode | ReadFailure
    record: BatchRecord | None
    remark: Callable[[str], None]

    @property
    def has_request(self) -> bool:
        """Return whether there is a reassignment request."""
        return self.metadata.reassignment_request.version is not None

    def send(self, batch: Batch, judged: JudgedZnodes, rate: int, position: tuple[int, int]) -> bool:
        """Send a batch; return False if nothing was applied because something that it depends on changed.

        ``judged`` are the znodes that the batch was compared with: the transaction checks their versions. ``position``
        is the number of the batch, and the number of batches. Raises ``TooLarge``, with nothing applied.
        """
        znodes, update = self._read_throttles(find_needed_throttles(batch, rate), judged, final=False)
        moves = tuple(move._replace(kinds=()) for move in batch)
        record = BatchRecord(self.settings.owner, *position, moves, update.own)
        operations = build_batch_operations(record, update.configs, znodes, self.template)
        return self._commit(operations, encode_batch(record))

    def replace_throttle(self, rate: int) -> bool:
        """Give the batch of the record another rate, if the request still has a move of it; return as ``send``."""
        requested = {(entry.topic, entry.partition) for entry in self.metadata.reassignment_request.entries}
        if self.record is None or requested.isdisjoint((move.topic, move.partition) for move in self.record.moves):
            return True
        needed = find_needed_throttles(self.record.moves, rate)
        znodes, update = self._read_throttles(needed, NOTHING_JUDGED, final=True)
        if not update.configs:
            return True  # rates of another client stay, and there is no other
        record = self.record._replace(throttles=update.own)
        operations = build_throttle_operations(record, update.configs, znodes, self.template)
        return self._commit(operations, encode_batch(record))

    def end(self) -> bool:
        """Put the throttles back and delete the record, if there is one; return as ``send``."""
        if self.record is None:
            return True
        znodes, update = self._read_throttles({}, NOTHING_JUDGED, final=True)
        return self._commit(build_end_operations(update.configs, znodes, self.template), None)

    def _read_throttles(
        self, needed: EntityConfigs, judged: JudgedZnodes, *, final: bool
    ) -> tuple[BatchZnodes, ThrottleUpdate]:
        """Read the configs that throttles are in, and compute what is to be written."""
        own: OwnThrottles = self.record.throttles if self.record else {}
        entities = sorted({*needed, *own})
        names = {entity.partition("/")[2] for entity in entities if entity.startswith("topics/")}
        topics = {**judged.topics, **read_moved_topics(self.session, sorted(names - judged.topics.keys()))}
        nodes = read_entity_configs(self.session, entities, topics)
        update = update_throttles(needed, decode_entity_configs(nodes, topics), own, final=final)
        for remark in update.remarks:
            self.remark(remark)
        return BatchZnodes(topics, judged.states, nodes, self.record_znode), update

    def commit(
        self, operations: Sequence[transaction.Operation], hint: str = HINT_CONTINUE
    ) -> transaction.FailedOperation | None:
        """Send a transaction; return the operation that a change by another client made fail, None if it was applied.

        Raises ``TooLarge``, with nothing sent, ``NoReply``, with the session connected again, and ``TopiaristError``
        for a failure that no further attempt resolves.
        """
        multi = transaction.MultiRequest(self.session.chroot, operations)
        limit = self.settings.jute_max_buffer * 9 // 10
        if multi.size > limit:
            raise TooLarge(multi.size, limit)
        try:
            results = self.session.result(self.session.send(multi))
        except ConnectionInterrupted:
            results = []
        except KazooException as error:
            raise TopiaristError(Reason.WRITE_FAILED, f"ZooKeeper returned {error!r}", hint) from error
        if len(results) != len(operations):
            self.session.wait_until_reconnected()
            raise NoReply
        failure = transaction.find_first_failure(self.template, operations, results)
        if failure and not failure.is_conflict:
            reason = Reason.NO_PERMISSION if isinstance(failure.error, NoAuthError) else Reason.WRITE_FAILED
            raise TopiaristError(reason, failure.to_outcome("").message, hint)
        return failure

    def _commit(self, operations: Sequence[transaction.Operation], record: bytes | None) -> bool:
        try:
            return self.commit(operations) is None
        except NoReply:
            return self._was_committed(record)

    def _was_committed(self, record: bytes | None) -> bool:
        """Return whether a transaction without a reply was applied: it wrote ``record``, or deleted it (None)."""
        sync(self.session)
        (node,) = read_znodes(self.session, [paths.MOVES])
        if record is None:
            return node is ReadFailure.MISSING
        expected = self.record_znode.version + 1 if isinstance(self.record_znode, Znode) else 0
        return isinstance(node, Znode) and node.version == expected and node.data == record


@contextmanager
def lock_for_batch(
    session: Session, settings: WriterSettings, stop: Callable[[], bool], remark: Callable[[str], None]
) -> Iterator[BatchWriter | None]:
    """Take the lock, and read the cluster under it; None if ``stop()`` became true before.

    Raises ``TopiaristError`` if nothing may be written: frozen, migrating, no controller, no permission.
    """
    lock = Lock(session, settings.owner)
    try:
        if stop() or not lock.acquire(ensure_own_znodes(session), settings.lock_timeout, stop):
            yield None
            return
        template, metadata = wait_for_controller(
            lambda: read_transaction_template(session, lock.path, HINT_CONTINUE, _PARENTS), stop
        )
        (node,) = read_znodes(session, [paths.MOVES])
        yield BatchWriter(session, settings, template, metadata, node, decode_record(node), remark)
    finally:
        lock.release()


def decode_record(node: Znode | ReadFailure) -> BatchRecord | None:
    """Return the record of the last batch, None if there is none; raise ``TopiaristError`` if it is malformed."""
    if node is ReadFailure.MISSING:
        return None
    try:
        if not isinstance(node, Znode):
            raise ZnodeError("no permission to read it")
        return decode_batch(node.data)
    except ZnodeError as error:
        message = f"{paths.MOVES} cannot be read: {error}"
        hint = "it says which throttles topiarist set; compare them by hand, then delete it"
        raise TopiaristError(Reason.UNREADABLE, message, hint) from error


# Clear what an ended run of moves left: put its throttles back, and delete the record of its last batch.
#
# The next run of the same owner does this by itself. A user does it by hand if no run is going to continue.

_REQUEST_MESSAGE = "there is a reassignment request: brokers may still copy, and need the throttles until they are done"


def clear_moves(session: Session, settings: WriterSettings) -> ClearedMoves | None:
    """Clear the record of the last batch under the lock; return None, with nothing written, if there is none.

    Raises ``TopiaristError``: ReassignmentInProgress while there is a reassignment request.
    """
    sync(session)
    (node,) = read_znodes(session, [paths.MOVES])
    if decode_record(node) is None:
        return None
    remarks: dict[str, None] = {}
    for _ in range(MAX_ATTEMPTS):
        with lock_for_batch(session, settings, lambda: False, remarks.setdefault) as writer:
            assert writer is not None  # the run cannot be stopped
            if writer.record is None:
                return None
            if writer.has_request:
                hint = "topiarist moves shows what is left, and entries that the controller never removes"
                raise TopiaristError(Reason.REASSIGNMENT_IN_PROGRESS, _REQUEST_MESSAGE, hint)
            if writer.end():
                return ClearedMoves(writer.record, tuple(remarks))
    message = f"the znodes of the throttles changed {MAX_ATTEMPTS} times in a row while they were written"
    raise TopiaristError(Reason.STATE_CONFLICT, message, "run the command again")
