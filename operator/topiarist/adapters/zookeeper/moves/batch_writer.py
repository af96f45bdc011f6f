"""Write under the lock of a cluster: send a batch, give it another throttle, put its throttles back.

``Mover`` decides what is written. Each write is one transaction that is applied as a whole or not at all; after a lost
reply the record of the batch decides, because only this transaction can have written its version and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kazoo.exceptions import KazooException, NoAuthError
from msgspec import Struct

from topiarist.adapters.own_values import decode_batch, encode_batch
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.connection.session import ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.moves.batch_reader import (
    NOTHING_JUDGED,
    JudgedZnodes,
    decode_entity_configs,
    read_entity_configs,
    read_moved_topics,
)
from topiarist.adapters.zookeeper.moves.transaction import (
    BatchZnodes,
    build_batch_operations,
    build_end_operations,
    build_throttle_operations,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import ClusterMetadata
from topiarist.adapters.zookeeper.write.lock import Lock
from topiarist.adapters.zookeeper.write.multi_request import MultiRequest
from topiarist.adapters.zookeeper.write.transaction import Operation, TransactionTemplate, find_first_failure
from topiarist.adapters.zookeeper.write.write_context import (
    ensure_own_znodes,
    read_transaction_template,
    wait_for_controller,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, OwnThrottles, ReplicaMove
from topiarist.planning.moves.execution.throttle_configs import (
    EntityConfigs,
    ThrottleUpdate,
    find_needed_throttles,
    update_throttles,
)

Batch = tuple[ReplicaMove, ...]

HINT_CONTINUE = "a batch that was sent continues at the controller; the next run waits for it"
MAX_ATTEMPTS = 5
"""Attempts of one write: each reads again what another client has changed meanwhile."""

_PARENTS = (paths.REASSIGNMENT_REQUEST.rpartition("/")[0], paths.BROKER_CONFIGS)


class WriterSettings(NamedTuple):
    """The owner of a run, and its limits: the wait for the lock in seconds, the size of a request in bytes."""

    owner: str
    lock_timeout: float
    jute_max_buffer: int


class TooLarge(TopiaristError):
    """A transaction that is larger than the servers accept."""

    def __init__(self, size: int, limit: int) -> None:
        message = f"its transaction has {size:,} bytes; the maximum is {limit:,}, 90 % of a request"
        super().__init__(Reason.TOO_LARGE, message, HINT_CONTINUE)


class BatchWriter(Struct, frozen=True):
    """A writer that holds the lock; ``record`` is that of the last batch, None if no throttle is left.

    ``remark`` is called with each fact about throttles of other clients.
    """

    session: Session
    settings: WriterSettings
    template: TransactionTemplate
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

    def _commit(self, operations: Sequence[Operation], record: bytes | None) -> bool:
        multi, limit = MultiRequest(self.session.chroot, operations), self.settings.jute_max_buffer * 9 // 10
        if multi.size > limit:
            raise TooLarge(multi.size, limit)
        try:
            results = self.session.result(self.session.send(multi))
        except ConnectionInterrupted:
            return self._was_committed(record)
        except KazooException as error:
            raise TopiaristError(Reason.WRITE_FAILED, f"ZooKeeper returned {error!r}", HINT_CONTINUE) from error
        if len(results) != len(operations):
            return self._was_committed(record)  # the reply is not usable: the record decides
        failure = find_first_failure(self.template, operations, results)
        if failure is None:
            return True
        if isinstance(failure.error, NoAuthError):
            message = failure.to_outcome("").message
            raise TopiaristError(Reason.NO_PERMISSION, message, HINT_CONTINUE)
        if not failure.is_conflict:
            message = f"ZooKeeper returned {failure.error!r} at {failure.operation.path}"
            raise TopiaristError(Reason.WRITE_FAILED, message, HINT_CONTINUE)
        return False

    def _was_committed(self, record: bytes | None) -> bool:
        """Return whether a transaction without a reply was applied: it wrote ``record``, or deleted it (None)."""
        self.session.wait_until_reconnected()
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
