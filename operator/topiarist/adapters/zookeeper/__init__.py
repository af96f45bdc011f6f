"""A Kafka cluster in ZooKeeper: the ``Cluster`` port over kazoo.

``session`` (one connection) carries ``wire`` (many reads at once); ``head`` and ``reading`` make a ``ClusterState``
of what is read. To carry out a plan, ``lock`` fences, ``site`` and ``footing`` say what it stands on, ``jobs`` what
is next, ``transaction`` what is sent, ``verdict`` what an answer means, and ``writing`` does it. ``sighting`` watches
what becomes of it, ``partitions`` looks at one topic's, ``gate`` freezes and thaws. This class ties them together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Self

from topiarist.adapters.zookeeper.footing import elected
from topiarist.adapters.zookeeper.gate import Turned, turn
from topiarist.adapters.zookeeper.head import read_head
from topiarist.adapters.zookeeper.lock import Lock
from topiarist.adapters.zookeeper.memory import Memory
from topiarist.adapters.zookeeper.partitions import inspect, inspect_all
from topiarist.adapters.zookeeper.reading import read_state
from topiarist.adapters.zookeeper.session import in_words, open_session
from topiarist.adapters.zookeeper.sighting import look
from topiarist.adapters.zookeeper.site import make_root, require_open
from topiarist.adapters.zookeeper.writing import Writer
from topiarist.core.change import Plan
from topiarist.core.credentials import NOBODY, Credentials
from topiarist.core.inspection import Inspection
from topiarist.core.state import ClusterState, Freeze, TopicState
from topiarist.core.waiting import Sight
from topiarist.reconcile import Outcome, Pace, Result


class ZooKeeperCluster:
    """One session with one cluster. Use as a context manager, or ``close`` it.

    ``connect`` is ``host:port,host:port/chroot``; ``max_buffer`` the smallest ``jute.maxbuffer`` in play, in bytes; the
    timeouts are in seconds. Raises ``Unreachable`` if no server answers in time, ``CredentialsInvalid`` and
    ``AuthenticationFailed`` if there is no way in.
    """

    def __init__(
        self,
        connect: str,
        *,
        owner: str,
        max_buffer: int = 1_048_575,
        connect_timeout: float = 10.0,
        lock_timeout: float = 60.0,
        credentials: Credentials = NOBODY,
    ) -> None:
        self._session = open_session(connect, connect_timeout, credentials)
        self._owner = owner
        self._max_buffer = max_buffer
        self._lock_timeout = lock_timeout
        self._memory: Memory | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def remember(self) -> Self:
        """It will be read again and again: from here on what has not changed is not decoded anew."""
        self._memory = Memory()
        return self

    def read(self) -> ClusterState:
        """Everything that a plan is made from, in one bulk read."""
        with in_words(self._session):
            return read_state(self._session, max_buffer=self._max_buffer, memory=self._memory).state

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """What was asked of ZooKeeper until now, by operation and result."""
        return self._session.requests

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
        """Carry out ``plan`` under the cluster's lock, which is held also while ``pace`` holds topics back; nothing to
        do means no lock and no write.
        """
        if not plan.pending:
            return
        lock = Lock(self._session, self._owner)
        try:
            with in_words(self._session):
                if not stop() and self._locked(lock, stop):
                    most = self._max_buffer
                    yield from Writer(self._session, plan, lock.path, max_buffer=most, stop=stop, pace=pace).outcomes()
                else:
                    yield from (Outcome(topic.topic, Result.NOT_SENT) for topic in plan.to_do())
        finally:
            lock.release()

    def look(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, Sight]:
        """What the controller has made of these topics by now."""
        with in_words(self._session):
            return look(self._session, topics)

    def inspect(self, topic: str) -> Inspection:
        """What the controller has made of this topic's partitions by now."""
        with in_words(self._session):
            return inspect(self._session, topic)

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, Inspection]:
        """Read what the controller has made of the partitions of these topics."""
        with in_words(self._session):
            return inspect_all(self._session, topics)

    def cluster_id(self) -> str:
        """The cluster's id."""
        with in_words(self._session):
            return read_head(self._session).cluster_id

    def turn(self, freeze: Freeze | None, *, by: str, force: bool) -> Turned:
        """Freeze the cluster, or thaw it (None), without the lock; what another has frozen takes ``force``."""
        with in_words(self._session):
            return turn(self._session, freeze, by=by, force=force)

    def _locked(self, lock: Lock, stop: Callable[[], bool]) -> bool:
        elected(lambda: require_open(read_head(self._session)), stop)
        return lock.acquire(make_root(self._session), self._lock_timeout, stop)
