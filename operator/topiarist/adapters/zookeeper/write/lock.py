"""The lock of a cluster: one writer at a time, and the proof of it that every transaction carries.

An ephemeral, sequential node below ``/topiarist/lock``; the lowest one holds. kazoo's recipe is not used: it creates
what is missing (a chroot too) with an open ACL, and after a lost session old and new holder both believe in it. Ours
is only ever trusted through a check of its node inside the transaction.
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

from kazoo.exceptions import KazooException, NoAuthError
from kazoo.protocol.serialization import Create, Delete

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError, load_object
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, read_children, read_znodes, sync
from topiarist.errors import Reason, TopiaristError

_EPHEMERAL_SEQUENTIAL = 3
_POLL_INTERVAL_S, _RECHECK_INTERVAL_S = 0.1, 2.0


class Lock:
    """Held from ``acquire`` to ``release``, or until the session ends."""

    def __init__(self, session: Session, owner: str) -> None:
        self._session = session
        self._owner = owner
        # Our nodes bear the number of our session, so that one is found again whose creation was never answered.
        self._prefix = f"run-{session.session_id}-"
        self._changed = threading.Event()
        self.path = ""

    def acquire(self, acl: Any, timeout: float, stop: Callable[[], bool]) -> bool:
        """Wait for the lock; False if ``stop`` became true meanwhile.

        Raises ``Locked`` after ``timeout`` seconds, naming who holds it. Our place in the queue is ours until
        ``release``, whatever came of it.
        """
        self._create_node(acl)
        deadline = time.monotonic() + timeout
        while ahead := self._predecessors():
            if stop():
                return False
            if time.monotonic() >= deadline:
                holder = self._describe_holder(ahead[0])
                message = f"another run holds the lock of this cluster: {holder}; waited {timeout:g} s"
                raise TopiaristError(Reason.LOCKED, message, "wait for it to end, or raise --lock-timeout")
            self._wait_for_change(ahead[-1], stop, deadline)
        return True

    def release(self) -> None:
        """Give the lock up; if the session has ended or may not, its node goes with it."""
        path, self.path = self.path, ""
        if path and not self._session.lost:
            with suppress(TopiaristError, KazooException):
                self._session.call_with_retry(Delete(self._session.chroot + path, -1))

    def _create_node(self, acl: Any) -> None:
        """Make our node, once: after a lost connection it may be there already."""
        note = {"version": 1, "owner": self._owner, "host": socket.gethostname(), "pid": os.getpid()}
        data = json.dumps(note, separators=(",", ":")).encode()
        request = Create(f"{self._session.chroot}{paths.LOCK}/{self._prefix}", data, acl, _EPHEMERAL_SEQUENTIAL)
        for _ in range(MAX_DISCONNECTS):
            sync(self._session)
            mine = [name for name in self._read_queue() if name.startswith(self._prefix)]
            try:
                created = f"{paths.LOCK}/{mine[0]}" if mine else self._session.result(self._session.send(request))
            except ConnectionInterrupted:
                continue
            except NoAuthError:
                raise TopiaristError(
                    Reason.NO_PERMISSION, f"no permission to create children of {paths.LOCK}", "nothing was written"
                ) from None
            else:
                self.path = created.removeprefix(self._session.chroot)
                return
        raise self._session.too_many_disconnects_error()

    def _read_queue(self) -> list[str]:
        """The nodes of everybody who holds or wants the lock, the holder first."""
        (names,) = read_children(self._session, [paths.LOCK])
        if names is ReadFailure.DENIED:
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.LOCK}", "nothing was written")
        if isinstance(names, ReadFailure):
            raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.LOCK} has gone", "run again")
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def _predecessors(self) -> list[str]:
        """Those before us; none if the lock is ours."""
        queue, mine = self._read_queue(), self.path.rpartition("/")[2]
        if mine not in queue:
            raise TopiaristError(Reason.SESSION_LOST, "our place in the queue for the lock has gone", "run again")
        return queue[: queue.index(mine)]

    def _wait_for_change(self, before: str, stop: Callable[[], bool], deadline: float) -> None:
        """Until the node before ours has gone, somebody wants us to stop, or it is time to look again."""
        self._changed.clear()
        # kazoo keeps one watch for equal functions: however long we wait, there is only this one.
        pending = self._session.client.exists_async(f"{paths.LOCK}/{before}", watch=self._on_change)
        try:
            there = self._session.result(pending)
        except ConnectionInterrupted:
            return
        look_again = min(deadline, time.monotonic() + _RECHECK_INTERVAL_S)
        while there and not self._changed.wait(_POLL_INTERVAL_S) and not stop() and time.monotonic() < look_again:
            pass

    def _on_change(self, _event: object) -> None:
        self._changed.set()

    def _describe_holder(self, name: str) -> str:
        (node,) = read_znodes(self._session, [f"{paths.LOCK}/{name}"])
        try:
            note = {} if isinstance(node, ReadFailure) else load_object(node.data)
            return f"owner {note['owner']} on {note['host']}, process {note['pid']}"
        except (ZnodeError, KeyError):
            return f"the node {name}"
