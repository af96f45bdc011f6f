"""One run of topiarist through ZooKeeper: the product's own code over a client that answers from a history.

The code is that of ``reconcile``, the planner, ``ZooKeeperCluster``, the session, the lock, the writer and the bytes of
its transactions. Only kazoo's client is replaced, by a queue of requests and a history of answers. Histories merge at
two points: after the plan only the plan counts, after the lock only the plan and the path of the lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState

from interleavings.replay import Asking, Automaton, Blocked, Ended, Reached, RunSpec, Situation
from interleavings.zookeeper.tree import Answer, read_paths
from topiarist import throttle
from topiarist.adapters.zookeeper import cluster as cluster_module
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.moves import mover
from topiarist.adapters.zookeeper.read.bulk_read import Znode
from topiarist.adapters.zookeeper.write import write_context
from topiarist.errors import TopiaristError
from topiarist.model.outcome import ReconcileReport
from topiarist.model.plan import Plan
from topiarist.model.state import ClusterState
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

DROP, EXPIRE = "the connection drops", "the session expires"
"""Events that are no answers."""

_FOREVER_S = 1e9

Event = Answer | str


class AwaitDeletion(NamedTuple):
    """A wait until another client deletes ``path``: kazoo's watch, without the polls in between."""

    path: str
    type: int = 3


class AwaitRequest(NamedTuple):
    """A pause between two polls of the reassignment request, which ends when the request is not as it was ``seen``."""

    seen: bytes | None
    type: int = 0


class AwaitController(NamedTuple):
    """A pause between two attempts while there is no controller; it ends when there is one, or at the deadline."""

    type: int = 0


class _Planned(NamedTuple):
    """The run has made a plan, and with ``path`` it has acquired the lock."""

    plan: Plan
    path: str | None = None


class _Pending:
    """kazoo's asynchronous result."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.request: Any = None
        self.answer: Answer | None = None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while self.answer is None:
            self.client.receive()
        kind, value = self.answer
        if kind == "error":
            raise value()
        if kind == "read":
            return list(value), 1000
        if kind == "multi":
            return [True if each is True else each() for each in value]
        return value


class _Client:
    """kazoo's client and its handler: a queue of requests, and a history of events."""

    chroot = ""
    client_id = (1, b"")

    def __init__(self, events: Sequence[Event], session: str) -> None:
        self.events = iter(events)
        self.queue: list[_Pending] = []
        self.expired = self.blocked = False
        self.locked: str | None = None  # the path of the lock, in the replay that acquires it
        self.now = 0.0
        self.seen_request: bytes | None = None
        self.handler = self
        self.client_id = (int(session) + 1, b"")
        self.connect_deadline = 0.0
        self.listener: Callable[[str], None] = lambda state: None

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.listener = listener

    def start_async(self) -> _Client:
        return self  # the event that is set while a server is connected

    def is_set(self) -> bool:
        return not self.expired

    def wait(self, timeout: float | None = None) -> bool:
        return not self.expired

    def async_result(self) -> _Pending:
        return _Pending(self)

    def exists_async(self, path: str, watch: object) -> _Pending:
        pending = _Pending(self)
        self._call(AwaitDeletion(path), pending)
        return pending

    def _call(self, request: Any, pending: _Pending) -> None:
        if self.blocked:
            raise Blocked  # a ``finally`` of the product, on the way out of a replay that has ended
        pending.request = request
        if self.expired:
            pending.answer = ("error", SessionExpiredError)
        else:
            self.queue.append(pending)

    def receive(self) -> None:
        """Take the next event of the history; raise ``Blocked`` after the last one."""
        event = next(self.events, None)
        if event is None:
            self.blocked = True
            raise Blocked
        if isinstance(event, tuple):
            pending = self.queue.pop(0)
            pending.answer = event
            self._remember_request(pending.request, event)
            return
        self.expired = event == EXPIRE
        for pending in self.queue:
            pending.answer = ("error", SessionExpiredError if self.expired else ConnectionLoss)
        self.queue = []
        self.listener(KazooState.LOST if self.expired else KazooState.SUSPENDED)

    def _remember_request(self, request: Any, answer: Answer) -> None:
        """Keep what the run has seen of the reassignment request."""
        wanted = read_paths(request)
        if paths.REASSIGNMENT_REQUEST not in wanted or isinstance(request, AwaitRequest):
            return
        value = answer[1][wanted.index(paths.REASSIGNMENT_REQUEST)] if answer[0] == "read" else answer[1]
        self.seen_request = value.data if isinstance(value, Znode) else None

    # The clock of ``wait_for_controller``.

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _seconds: float) -> None:
        pending = _Pending(self)
        self._call(AwaitController(), pending)
        if pending.get() == "deadline":
            self.now += _FOREVER_S


class _Pauses:
    """The clock of a wait for the reassignment request: each pause ends with a change of the request."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        pending = _Pending(self._client)
        self._client._call(AwaitRequest(self._client.seen_request), pending)
        pending.get()
        self._now += seconds


class _NoLogin:
    refusal = None

    def on_connected(self) -> None:
        pass


def connect(client: _Client, *, multiread: bool, owner: str = "default") -> cluster_module.ZooKeeperCluster:
    """Return the product's cluster over a client that has connected."""
    zookeeper = cluster_module.ZooKeeperCluster.__new__(cluster_module.ZooKeeperCluster)
    session = Session(client, client, _NoLogin(), "model")  # type: ignore[arg-type]
    session.supports_multiread = multiread
    fields = {"_session": session, "_owner": owner, "_jute_max_buffer": 1_048_575, "_lock_timeout": _FOREVER_S}
    zookeeper.__dict__.update(fields, _decode_cache=None)
    return zookeeper


def make_automaton(run: RunSpec, session: str, *, multiread: bool = True) -> Automaton:
    """Return the automaton of a run with this spec in this session."""

    def replay(reached: _Planned | None, events: Sequence[Event]) -> Situation:
        client = _Client(events, session)
        zookeeper = connect(client, multiread=multiread, owner=run.options.owner)
        plan = reached.plan if reached else None
        pauses = _Pauses(client)
        with (
            mock.patch.object(write_context, "time", client),
            mock.patch.object(throttle, "time", pauses),
            mock.patch.object(throttle, "_STOP_CHECK_INTERVAL_S", _FOREVER_S),
            mock.patch.object(mover, "time", pauses),
            mock.patch.object(mover, "_HEALTH_POLL_S", _FOREVER_S),  # one pause, and then the moves are given up
            contextlib.suppress(Blocked),
        ):
            try:
                if plan is None:
                    return _reached(_Planned(read_and_plan(zookeeper, run.cluster, run.topics, run.options)))
                _set_lock(zookeeper, client, reached.path if reached else None)
                report: ReconcileReport = apply_plan(
                    zookeeper, plan, stop=lambda: False, move_options=MoveOptions(run.cluster.moves)
                )
                return Ended(report.outcomes, report.error)
            except TopiaristError as error:
                return Ended((), error)
        if client.locked is not None and plan is not None:
            return _reached(_Planned(plan, client.locked))
        return Asking(tuple(pending.request for pending in client.queue), plan)

    return Automaton(replay)


def _reached(planned: _Planned) -> Reached:
    plan = planned.plan
    return Reached((repr((plan.topics, plan.brokers, plan.min_version, plan.write_block)), planned.path), planned)


def _set_lock(zookeeper: cluster_module.ZooKeeperCluster, client: _Client, path: str | None) -> None:
    """End a replay at the moment when the product's lock is acquired, or begin it there with the lock at ``path``."""

    def acquire(lock: Any, stop: Callable[[], bool]) -> bool:
        if path is not None:
            lock.path = path
            return True
        acquired = cluster_module.ZooKeeperCluster._acquire_lock(zookeeper, lock, stop)
        if not acquired:
            return False
        # ``release`` runs on the way out: from here on, the client takes no request.
        client.blocked, client.locked = True, lock.path
        raise Blocked

    zookeeper.__dict__["_acquire_lock"] = acquire


def read_whole(answer: Callable[[Any], Answer]) -> ClusterState:
    """Return what the product's bulk read makes of these answers."""
    client = _Client((), "0")

    def receive() -> None:
        pending = client.queue.pop(0)
        pending.answer = answer(pending.request)

    client.__dict__["receive"] = receive
    return connect(client, multiread=True).read()
