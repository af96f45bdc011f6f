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

from topiarist.adapters.zookeeper.connection.session import open_session, translate_errors
from topiarist.adapters.zookeeper.read.cluster_metadata import read_metadata
from topiarist.adapters.zookeeper.read.decode_cache import DecodeCache
from topiarist.adapters.zookeeper.read.partition_states import inspect, inspect_all
from topiarist.adapters.zookeeper.read.progress import poll_progress
from topiarist.adapters.zookeeper.read.state import read_state
from topiarist.adapters.zookeeper.write.freeze import set_freeze
from topiarist.adapters.zookeeper.write.lock import Lock
from topiarist.adapters.zookeeper.write.write_context import ensure_own_znodes, require_writable, wait_for_controller
from topiarist.adapters.zookeeper.write.writer import Writer
from topiarist.model.credentials import ANONYMOUS, Credentials
from topiarist.model.outcome import FreezeResult, Outcome, Result
from topiarist.model.plan import Plan
from topiarist.model.progress import TopicProgress
from topiarist.model.state import ClusterState, Freeze, TopicInspection, TopicState
from topiarist.ports import Throttle


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
        jute_max_buffer: int = 1_048_575,
        connect_timeout: float = 10.0,
        lock_timeout: float = 60.0,
        credentials: Credentials = ANONYMOUS,
    ) -> None:
        self._session = open_session(connect, connect_timeout, credentials)
        self._owner = owner
        self._jute_max_buffer = jute_max_buffer
        self._lock_timeout = lock_timeout
        self._decode_cache: DecodeCache | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def enable_decode_cache(self) -> Self:
        """It will be read again and again: from here on what has not changed is not decoded anew."""
        self._decode_cache = DecodeCache()
        return self

    def read(self) -> ClusterState:
        """Everything that a plan is made from, in one bulk read."""
        with translate_errors(self._session):
            return read_state(self._session, jute_max_buffer=self._jute_max_buffer, cache=self._decode_cache).state

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """What was asked of ZooKeeper until now, by operation and result."""
        return self._session.requests

    def apply(self, plan: Plan, stop: Callable[[], bool], throttle: Throttle | None = None) -> Iterator[Outcome]:
        """Carry out ``plan`` under the cluster's lock, which is held also while ``throttle`` holds topics back; nothing
        to do means no lock and no write.
        """
        if not plan.has_changes:
            return
        lock = Lock(self._session, self._owner)
        try:
            with translate_errors(self._session):
                if not stop() and self._acquire_lock(lock, stop):
                    most = self._jute_max_buffer
                    yield from Writer(
                        self._session, plan, lock.path, jute_max_buffer=most, stop=stop, throttle=throttle
                    ).execute()
                else:
                    yield from (Outcome(topic.topic, Result.SKIPPED) for topic in plan.actionable_topics())
        finally:
            lock.release()

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """What the controller has made of these topics by now."""
        with translate_errors(self._session):
            return poll_progress(self._session, topics)

    def inspect(self, topic: str) -> TopicInspection:
        """What the controller has made of this topic's partitions by now."""
        with translate_errors(self._session):
            return inspect(self._session, topic)

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Read what the controller has made of the partitions of these topics."""
        with translate_errors(self._session):
            return inspect_all(self._session, topics)

    def read_cluster_id(self) -> str:
        """The cluster's id."""
        with translate_errors(self._session):
            return read_metadata(self._session).cluster_id

    def set_freeze(self, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
        """Freeze the cluster, or thaw it (None), without the lock; what another has frozen takes ``force``."""
        with translate_errors(self._session):
            return set_freeze(self._session, freeze, by=by, force=force)

    def _acquire_lock(self, lock: Lock, stop: Callable[[], bool]) -> bool:
        wait_for_controller(lambda: require_writable(read_metadata(self._session)), stop)
        return lock.acquire(ensure_own_znodes(self._session), self._lock_timeout, stop)
