"""The lock of a cluster: one writer at a time, and the znode that every transaction checks; and its freeze.

The lock is an ephemeral, sequential znode below ``/topiarist/lock``; the lowest one holds it. kazoo's lock recipe is
not used: it creates missing parents (a chroot too) with an open ACL, and after a lost session the old and the new
holder both believe that they hold it. This lock is trusted only through a check of its znode inside a transaction.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NoNodeError
from kazoo.protocol.serialization import Create, Delete, SetData

from topiarist.adapters.own_values import decode_freeze, encode_freeze
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError, load_object
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import read_metadata
from topiarist.adapters.zookeeper.write.write_context import ensure_own_znodes
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze, is_closed_by_move

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

_KRAFT_REASONS = frozenset({Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION})


def set_freeze(session: Session, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
    """Freeze the cluster, or unfreeze it if ``freeze`` is None.

    A freeze of a user other than ``by``, and the one of a move of the records to Kafka, are changed only with
    ``force``. Works without a controller, since it writes no znode of Kafka. Raises ``TopiaristError`` with the reason
    if a KRaft controller is, or may soon be, in charge: then nothing is written.
    """
    metadata = read_metadata(session)
    if metadata.write_block.reason in _KRAFT_REASONS:
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
                Reason.NO_PERMISSION, f"no permission to set {paths.FREEZE}", f"give {session.principal_text} the right"
            ) from None
        except (BadVersionError, NoNodeError, ConnectionInterrupted):
            continue  # written by another client, or perhaps by this request: read again
        return FreezeResult(Result.DONE, current)
    raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} changed {MAX_DISCONNECTS} times in a row", "run again")
