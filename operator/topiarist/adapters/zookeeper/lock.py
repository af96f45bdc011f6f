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

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Create, Delete

from topiarist.adapters.znodes import paths
from topiarist.adapters.zookeeper.session import Interrupted, Session
from topiarist.adapters.zookeeper.wire import Failure, read_children, read_nodes
from topiarist.errors import Reason, TopiaristError

_EPHEMERAL_SEQUENTIAL = 3
_SLICE, _LOOK_AGAIN = 0.1, 2.0


class Lock:
    """Held from ``acquire`` to ``release``, or until the session ends."""

    def __init__(self, session: Session, owner: str) -> None:
        self._session = session
        self._owner = owner
        self.path = ""

    def acquire(self, acl: Any, timeout: float, stop: Callable[[], bool]) -> bool:
        """Wait for the lock; False if ``stop`` became true meanwhile.

        Raises ``Locked`` after ``timeout`` seconds, naming who holds it.
        """
        note = {"version": 1, "owner": self._owner, "host": socket.gethostname(), "pid": os.getpid()}
        data = json.dumps(note, separators=(",", ":")).encode()
        request = Create(f"{self._session.chroot}{paths.LOCK}/run-", data, acl, _EPHEMERAL_SEQUENTIAL)
        try:
            created: str = self._session.result(self._session.send(request))
        except Interrupted:
            message = f"the connection to ZooKeeper at {self._session.hosts} dropped while taking the lock"
            raise TopiaristError(Reason.UNREACHABLE, message, "nothing was written: run again") from None
        self.path = created.removeprefix(self._session.chroot)
        deadline = time.monotonic() + timeout
        while (before := self._predecessor()) is not None:
            if stop():
                self.release()
                return False
            if time.monotonic() >= deadline:
                holder = self._holder()
                self.release()
                message = f"another run holds the lock of this cluster: {holder}; waited {timeout:g} s"
                raise TopiaristError(Reason.LOCKED, message, "wait for it to end, or raise --lock-timeout")
            self._wait(before, stop, deadline)
        return True

    def release(self) -> None:
        """Give the lock up; if the connection is gone, the session's end does it."""
        path, self.path = self.path, ""
        if path:
            with suppress(TopiaristError, NoNodeError, Interrupted):
                self._session.result(self._session.send(Delete(self._session.chroot + path, -1)))

    def _queue(self) -> list[str]:
        """The nodes of everybody who holds or wants the lock, the holder first."""
        (names,) = read_children(self._session, [paths.LOCK])
        if isinstance(names, Failure):
            raise TopiaristError(Reason.NO_PERMISSION, f"{paths.LOCK}: {names.value}")
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def _predecessor(self) -> str | None:
        queue = self._queue()
        mine = self.path.rpartition("/")[2]
        if mine not in queue:
            raise TopiaristError(Reason.SESSION_LOST, "our place in the queue for the lock has gone", "run again")
        return queue[queue.index(mine) - 1] if queue[0] != mine else None

    def _wait(self, before: str, stop: Callable[[], bool], deadline: float) -> None:
        """Until the node before ours has gone, somebody wants us to stop, or it is time to look again."""
        gone = threading.Event()
        client = self._session.client
        pending = client.exists_async(f"{paths.LOCK}/{before}", watch=lambda _event: gone.set())
        try:
            there = self._session.result(pending)
        except Interrupted:
            self._session.resume()
            return
        look_again = min(deadline, time.monotonic() + _LOOK_AGAIN)
        while there and not gone.wait(_SLICE) and not stop() and time.monotonic() < look_again:
            pass

    def _holder(self) -> str:
        queue = self._queue()
        (node,) = read_nodes(self._session, [f"{paths.LOCK}/{queue[0]}"])
        try:
            note = json.loads(node.data) if not isinstance(node, Failure) else {}
            return f"owner {note['owner']} on {note['host']}, process {note['pid']}"
        except (ValueError, KeyError, TypeError):
            return f"the node {queue[0]}"
