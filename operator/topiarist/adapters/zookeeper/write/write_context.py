"""The state that the transactions of a run depend on: lock and freeze, controller, brokers, topic names, ACLs.

``Writer`` keeps one ``WriteContext`` while it sends topic after topic, and refreshes it when a check of the fence
fails. This module also creates topiarist's own root znodes.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, Delete, GetACL, SetData
from kazoo.security import ACL, Id

from topiarist.adapters import own_values
from topiarist.adapters.own_values import decode_freeze, encode_freeze
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.codec.values import ZnodeError, load_object
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read import cluster_metadata
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.state import infer_min_version
from topiarist.adapters.zookeeper.write import transaction
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import index_by_metric_name
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.plan import TopicPlan
from topiarist.model.state import Freeze, ReadError, is_closed_by_move
from topiarist.planning.preconditions import CurrentTopic

# The lock of a cluster: one writer at a time, and the znode that every transaction checks; and its freeze.
#
# The lock is an ephemeral, sequential znode below ``/topiarist/lock``; the lowest one holds it. kazoo's lock recipe is
# not used: it creates missing parents (a chroot too) with an open ACL, and after a lost session the old and the new
# holder both believe that they hold it. This lock is trusted only through a check of its znode inside a transaction.

_EPHEMERAL_SEQUENTIAL = 3
_POLL_INTERVAL_S, _RECHECK_INTERVAL_S = 0.1, 2.0


class Lock:
    """A cluster lock that is held from ``acquire`` to ``release``, or until the session ends."""

    def __init__(self, session: Session, owner: str) -> None:
        self._session = session
        self._owner = owner
        # The name contains the session id, so that a znode is found again if the reply to its creation was lost.
        self._prefix = f"run-{session.session_id}-"
        self._changed = threading.Event()
        self.path = ""

    def acquire(self, acl: Any, timeout: float, stop: Callable[[], bool]) -> bool:
        """Wait for the lock; return False if ``stop()`` became true meanwhile.

        Raises ``Locked`` after ``timeout`` seconds, with the name of the holder. The place in the queue is kept until
        ``release``, whatever the result.
        """
        self._create_node(acl)
        deadline = time.monotonic() + timeout
        while predecessors := self._predecessors():
            if stop():
                return False
            if time.monotonic() >= deadline:
                holder = self._describe_holder(predecessors[0])
                message = f"another run holds the lock of this cluster: {holder}; waited {timeout:g} s"
                raise TopiaristError(Reason.LOCKED, message, "wait for it to end, or raise --lock-timeout")
            self._wait_for_change(predecessors[-1], stop, deadline)
        return True

    def release(self) -> None:
        """Delete the lock znode.

        If the session has ended, or the deletion fails, ZooKeeper removes the znode with the session.
        """
        path, self.path = self.path, ""
        if path and not self._session.lost:
            with suppress(TopiaristError, KazooException):
                self._session.call_with_retry(Delete(self._session.chroot + path, -1))

    def _create_node(self, acl: Any) -> None:
        holder = {"version": 1, "owner": self._owner, "host": socket.gethostname(), "pid": os.getpid()}
        data = json.dumps(holder, separators=(",", ":")).encode()
        request = Create(f"{self._session.chroot}{paths.LOCK}/{self._prefix}", data, acl, _EPHEMERAL_SEQUENTIAL)
        for _ in range(MAX_DISCONNECTS):
            # After a lost connection the next server may lag behind: without the sync, an own znode could be missed
            # and a second one created.
            sync(self._session)
            own_names = [name for name in self._read_queue() if name.startswith(self._prefix)]
            if own_names:
                self.path = f"{paths.LOCK}/{own_names[0]}"
                return
            try:
                created: str = self._session.result(self._session.send(request))
            except ConnectionInterrupted:
                continue
            except NoAuthError:
                message = f"no permission to create children of {paths.LOCK}"
                raise TopiaristError(Reason.NO_PERMISSION, message, "nothing was written") from None
            self.path = created.removeprefix(self._session.chroot)
            return
        raise self._session.too_many_disconnects_error()

    def _read_queue(self) -> list[str]:
        """Return the znodes of the holder and of all waiting runs, the holder first."""
        (names,) = read_children(self._session, [paths.LOCK])
        if names is ReadFailure.DENIED:
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.LOCK}", "nothing was written")
        if isinstance(names, ReadFailure):
            raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.LOCK} was deleted", "run again")
        # A name begins with the session id: only the sequence number at its end gives the order.
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def _predecessors(self) -> list[str]:
        queue, own_name = self._read_queue(), self.path.rpartition("/")[2]
        # Another client deleted the znode. A new one would be last in the queue, while a write is perhaps in flight.
        if own_name not in queue:
            raise TopiaristError(Reason.SESSION_LOST, "the lock znode of this run was deleted", "run again")
        return queue[: queue.index(own_name)]

    def _wait_for_change(self, before: str, stop: Callable[[], bool], deadline: float) -> None:
        self._changed.clear()
        # kazoo keeps one watch for equal functions: repeated calls do not add watches.
        pending = self._session.client.exists_async(f"{paths.LOCK}/{before}", watch=self._on_change)
        try:
            exists = self._session.result(pending)
        except ConnectionInterrupted:
            return
        recheck_at = min(deadline, time.monotonic() + _RECHECK_INTERVAL_S)
        while exists and not self._changed.wait(_POLL_INTERVAL_S) and not stop() and time.monotonic() < recheck_at:
            pass

    def _on_change(self, _event: object) -> None:
        self._changed.set()

    def _describe_holder(self, name: str) -> str:
        (node,) = read_znodes(self._session, [f"{paths.LOCK}/{name}"])
        try:
            holder = {} if isinstance(node, ReadFailure) else load_object(node.data)
            return f"owner {holder['owner']} on {holder['host']}, process {holder['pid']}"
        except (ZnodeError, KeyError):
            return f"the znode {name}"


# Freeze or unfreeze a cluster: one write of the freeze znode, without the lock.
#
# Without the lock, a freeze works while another run holds it. Every transaction of topiarist checks the version of the
# freeze znode that its run has read, so after this write no transaction of an earlier run commits. The write itself is
# made at the version just read: of two users who freeze at once, the second sees the freeze of the first.

KRAFT_REASONS = frozenset({Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION})
"""The write blocks after which no controller carries out what is in ZooKeeper."""


def set_freeze(session: Session, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
    """Freeze the cluster, or unfreeze it if ``freeze`` is None.

    A freeze of a user other than ``by``, and the one of a move of the records to Kafka, are changed only with
    ``force``. Works without a controller, since it writes no znode of Kafka. Raises ``TopiaristError`` with the reason
    if a KRaft controller is, or may soon be, in charge: then nothing is written.
    """
    metadata = cluster_metadata.read_metadata(session)
    if metadata.write_block.reason in KRAFT_REASONS:
        raise TopiaristError(
            metadata.write_block.reason,
            metadata.write_block.message,
            "topiarist no longer writes through ZooKeeper, frozen or not",
        )
    sent = False
    for _ in range(MAX_DISCONNECTS):
        sync(session)
        (node,) = read_znodes(session, [paths.FREEZE])
        current, readable = None, True
        if isinstance(node, Znode):
            try:
                current = decode_freeze(node.data)
            except ZnodeError:
                readable = False
        if readable and current == freeze:
            # After a lost reply, the value found may be the one that this call wrote.
            return FreezeResult(Result.DONE if sent else Result.UNCHANGED, current)
        if current and freeze and (current.by, current.reason) == (freeze.by, freeze.reason):
            return FreezeResult(Result.UNCHANGED, current)
        # Another user may have frozen the cluster for a reason that this user does not know. After a move of the
        # records runs continue through the brokers, so the user who moved them does not open ZooKeeper either.
        if current and (current.by != by or is_closed_by_move(current)) and not force:
            return FreezeResult(Result.REFUSED, current)
        if not isinstance(node, Znode):
            ensure_own_znodes(session)
            continue
        sent = True
        request = SetData(session.chroot + paths.FREEZE, encode_freeze(freeze), node.version)
        try:
            session.result(session.send(request))
        except NoAuthError:
            raise TopiaristError(
                Reason.NO_PERMISSION,
                f"no permission to set {paths.FREEZE}",
                f"give {session.principal_text} the permission",
            ) from None
        except (BadVersionError, NoNodeError, ConnectionInterrupted):
            continue  # written by another client, or perhaps by this request: read again
        return FreezeResult(Result.DONE, current)
    raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} changed {MAX_DISCONNECTS} times in a row", "run again")


CONTROLLER_ELECTION_TIMEOUT_S = 10.0
"""Seconds that a run waits for a new controller; there is none while an election is in progress."""

CONTEXT_MAX_AGE_S = 1.0
"""Seconds after which a run that was throttled reads its context again before it writes."""

HINT_NOTHING_WRITTEN = "nothing was written"


_PARENT_PATHS = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.CONFIG_CHANGES, paths.DELETION_REQUESTS)

# The end of a digest entry when ZooKeeper masks its hash, which is longer.
_MASKED_DIGEST_SUFFIX = ":x"

T = TypeVar("T")


def wait_for_controller(attempt: Callable[[], T], stop: Callable[[], bool]) -> T:
    """Return the result of ``attempt``, calling it again while it raises ``NoController``.

    After ``CONTROLLER_ELECTION_TIMEOUT_S`` seconds, or once ``stop()`` is true, the error is raised.
    """
    deadline = time.monotonic() + CONTROLLER_ELECTION_TIMEOUT_S
    while True:
        try:
            return attempt()
        except TopiaristError as error:
            if error.reason is not Reason.NO_CONTROLLER or stop() or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)


class WriteContext:
    """The transaction template and the cluster metadata of one run.

    The constructor reads both. Raises ``TopiaristError`` if nothing may be written.
    """

    def __init__(self, session: Session, lock_path: str, stop: Callable[[], bool]) -> None:
        self._session = session
        self._lock_path = lock_path
        self._stop = stop
        self._hint = HINT_NOTHING_WRITTEN
        self.refresh()
        self._hint = "nothing more is written: topics that were not sent are unchanged"

    def refresh(self) -> None:
        """Read the template and the metadata again; wait if an election is in progress."""
        # An election takes some hundred milliseconds; ending the run for it would leave the rest of the plan unwritten.
        self.template, metadata = wait_for_controller(
            lambda: read_transaction_template(self._session, self._lock_path, self._hint), self._stop
        )
        self._use_metadata(metadata)
        self.reassignment_request = metadata.reassignment_request
        self._topics_by_metric_name = index_by_metric_name(metadata.topic_names)
        self._refreshed_at = time.monotonic()

    def refresh_if_stale(self) -> None:
        """Refresh the context if it is older than ``CONTEXT_MAX_AGE_S``."""
        if time.monotonic() - self._refreshed_at > CONTEXT_MAX_AGE_S:
            self.refresh()

    def refresh_metadata(self, plans: Sequence[TopicPlan]) -> None:
        """Refresh the metadata that ``plans`` depend on and that no transaction can check.

        A broker that restarts has a new registration of the same version, perhaps in another rack. Raises
        ``TopiaristError`` if a migration to KRaft has begun.
        """
        broker_ids = {broker for plan in plans for broker in plan.placed_brokers()}
        self._use_metadata(cluster_metadata.refresh_metadata(self._session, self.metadata, sorted(broker_ids)))
        if self.metadata.write_block.reason:
            self.refresh()

    def update_reassignment_request(self, node: Znode | ReadFailure, names: Collection[str]) -> None:
        """Keep the topics that the reassignment request ``node`` names, read together with the topics ``names``."""
        self.reassignment_request = cluster_metadata.decode_reassignment_request(self._session, node, names)

    def decode_current_topic(self, nodes: cluster_metadata.TopicZnodes) -> CurrentTopic | str:
        """Return the topic for a comparison by value, or a message if a znode cannot be read."""
        topic = cluster_metadata.decode_topic_state(nodes, ZnodeDecoder())
        if isinstance(topic, ReadError):
            return f"{topic.path}: {topic.message}"
        record = topic.record if topic else None
        if topic is None and isinstance(nodes.record, Znode):
            try:
                record = own_values.decode_record(nodes.record.data)
            except ZnodeError as error:
                return f"{paths.record_path(nodes.name)}: {error}"
        return CurrentTopic(
            topic=topic,
            record=record,
            marked_for_deletion=nodes.marked_for_deletion,
            reassigning=nodes.name in self.reassignment_request.topics,
            brokers=self._brokers,
            topics_by_metric_name=self._topics_by_metric_name,
            broker_defaults=self.metadata.broker_defaults,
            min_version=infer_min_version(self.metadata, (topic,) if topic else ()),
        )

    def _use_metadata(self, metadata: cluster_metadata.ClusterMetadata) -> None:
        self.metadata = metadata
        self._brokers = {broker.id: broker for broker in metadata.brokers}


def read_transaction_template(
    session: Session, lock_path: str, hint: str = HINT_NOTHING_WRITTEN, more_parents: Sequence[str] = ()
) -> tuple[transaction.TransactionTemplate, cluster_metadata.ClusterMetadata]:
    """Return the template for transactions, and the cluster metadata that it was built from.

    ``more_parents`` are the parents of further znodes that the transactions create.
    Raises ``TopiaristError`` with the reason of the write block, and ``hint``, if nothing may be written.
    """
    metadata = cluster_metadata.read_metadata(session)
    require_writable(metadata, hint)
    if metadata.epoch_version is None or metadata.freeze_version is None:
        # It is the freeze znode: without an epoch there is no controller, and the write block above has raised.
        raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} was deleted during the run", "run again")
    # ACLs are read at every start: a wrong one would lock the brokers out of a new znode.
    acls = {parent: _read_acl(session, parent) for parent in (*_PARENT_PATHS, *more_parents)}
    # Topiarist's own znodes get the ACL of Kafka's topics, like the root znodes of ``ensure_own_znodes``.
    acls[paths.RECORDS] = acls[paths.TOPIARIST_ROOT] = acls[paths.TOPICS]
    fence = transaction.build_fence(lock_path, metadata.epoch_version, metadata.freeze_version)
    brokers = {broker.id: transaction.check(paths.broker_path(broker.id)) for broker in metadata.brokers}
    return transaction.TransactionTemplate(fence, brokers, acls), metadata


def require_writable(metadata: cluster_metadata.ClusterMetadata, hint: str = HINT_NOTHING_WRITTEN) -> None:
    """Raise ``TopiaristError`` if the cluster has a write block; ``hint`` says what was written before."""
    if metadata.write_block.reason:
        raise TopiaristError(metadata.write_block.reason, metadata.write_block.message, hint)


def ensure_own_znodes(session: Session) -> list[ACL]:
    """Create topiarist's missing root znodes with the ACL of Kafka's topics; return that ACL.

    Each znode is created by a single request: a chroot that does not exist is an error and is never created.
    """
    acl = [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in _read_acl(session, paths.TOPICS)]
    nodes = {
        paths.TOPIARIST_ROOT: b"",
        paths.LOCK: b"",
        paths.RECORDS: b"",
        paths.FREEZE: own_values.encode_freeze(None),
    }
    # Read before creating: without the permission to create, ZooKeeper does not report that a znode exists.
    existing = dict(zip(nodes, read_znodes(session, nodes), strict=True))
    for path, data in nodes.items():
        if existing[path] is not ReadFailure.MISSING:
            continue
        try:
            session.call_with_retry(Create(session.chroot + path, data, acl, 0))
        except NodeExistsError:
            pass  # another run created it, or this run did and the reply was lost
        except NoAuthError:
            message = f"no permission to create {path}, where topiarist stores its records and its lock"
            hint = f"give {session.principal_text} the permission, or create the znode"
            raise TopiaristError(Reason.NO_PERMISSION, message, hint) from None
    return acl


def _read_acl(session: Session, path: str) -> transaction.Acl:
    # New znodes below ``path`` get the ACL of their parent, which their siblings have too (contract 2.1).
    try:
        entries, _ = session.call_with_retry(GetACL(session.chroot + path))
    except NoNodeError:
        raise TopiaristError(Reason.NOT_A_KAFKA_CLUSTER, f"{path} does not exist") from None
    except NoAuthError:
        message = f"no permission to read the ACL of {path}, which new znodes must have"
        raise TopiaristError(Reason.NO_PERMISSION, message) from None
    if any(entry.id.scheme == "digest" and entry.id.id.endswith(_MASKED_DIGEST_SUFFIX) for entry in entries):
        # Writing the mask back would lock out the user of the entry.
        message = (
            f"the ACL of {path} has digest entries, which ZooKeeper shows only to clients with the admin permission"
            " there: the ACL that new znodes must have is unknown"
        )
        raise TopiaristError(Reason.NO_PERMISSION, message, f"give {session.principal_text} that permission")
    return tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in entries)
