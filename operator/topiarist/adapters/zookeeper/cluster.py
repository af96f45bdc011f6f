"""A Kafka cluster in ZooKeeper: the port ``Cluster`` over kazoo.

The methods that write import what they need when they are called: most runs find nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from topiarist.adapters.zookeeper.connection.session import open_session, translate_errors
from topiarist.adapters.zookeeper.read.cluster_metadata import DecodeCache, read_metadata
from topiarist.adapters.zookeeper.read.state import (
    inspect,
    inspect_all,
    poll_progress,
    read_broker_throttles,
    read_state,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.moves import ClearedMoves
from topiarist.model.outcome import FreezeResult, Outcome, Result, TopicProgress
from topiarist.model.plan import Issue, Plan
from topiarist.model.state import (
    APACHE_KAFKA,
    Capabilities,
    ClosedRecords,
    ClusterState,
    Freeze,
    LeftRecords,
    TopicInspection,
    TopicState,
)
from topiarist.ports import NO_CONTROL, Closable, FoundRefusals, MoveOptions, WriteControl

if TYPE_CHECKING:
    from topiarist.adapters.zookeeper.moves.batch_writer import WriterSettings
    from topiarist.adapters.zookeeper.write.write_context import Lock

T = TypeVar("T")


class ZooKeeperCluster(Closable):
    """A session with one cluster. Use as a context manager, or call ``close``.

    ``owner`` is stored in the lock znode; the timeouts are in seconds. Raises ``Unreachable`` if no server answers in
    time, ``CredentialsInvalid`` and ``AuthenticationFailed`` if the login fails.
    """

    def __init__(
        self, access: ZooKeeperAccess, *, owner: str, connect_timeout: float = 10.0, lock_timeout: float = 60.0
    ) -> None:
        self._session = open_session(access.connect, connect_timeout, access.credentials)
        self._owner = owner
        self._jute_max_buffer = access.jute_max_buffer
        self._lock_timeout = lock_timeout
        self._decode_cache: DecodeCache | None = None

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def enable_decode_cache(self) -> Self:
        """Keep decoded topics between reads, for a caller that reads repeatedly; return the cluster itself."""
        self._decode_cache = DecodeCache()
        return self

    def read(self) -> ClusterState:
        """Read everything that a plan needs, in one bulk read."""
        with translate_errors(self._session):
            return read_state(self._session, jute_max_buffer=self._jute_max_buffer, cache=self._decode_cache)

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Return the number of requests to ZooKeeper so far, by operation and result."""
        return self._session.requests

    def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
        """Carry out ``plan`` under the cluster's lock, yielding an outcome for each actionable topic.

        The lock is also held while ``throttle`` makes topics wait. A plan without changes takes no lock and writes
        nothing.
        """
        if not plan.has_changes:
            return
        from topiarist.adapters.zookeeper.write.write_context import Lock
        from topiarist.adapters.zookeeper.write.writer import Writer

        lock = Lock(self._session, self._owner)
        try:
            with translate_errors(self._session):
                if not stop() and self._acquire_lock(lock, stop):
                    limit = self._jute_max_buffer
                    writer = Writer(self._session, plan, lock.path, stop, control, jute_max_buffer=limit)
                    yield from writer.execute()
                else:
                    yield from (Outcome(topic.topic, Result.SKIPPED) for topic in plan.actionable_topics())
        finally:
            lock.release()

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Carry out the moves of ``plan`` in batches, and then its elections; each transaction has its own lock."""
        from topiarist.adapters.zookeeper.moves.batch_writer import MoveAccess
        from topiarist.adapters.zookeeper.moves.election import Elector
        from topiarist.adapters.zookeeper.moves.mover import Mover
        from topiarist.planning.moves.ledger import carry_out

        access = MoveAccess(self._session, self._writer_settings, stop)
        mover, elector = Mover(access, plan, options), Elector(access, plan, options)
        yield from carry_out(plan, mover.execute, elector.execute)

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """Return the progress of the controller on these topics."""
        with translate_errors(self._session):
            return poll_progress(self._session, topics)

    def inspect(self, topic: str) -> TopicInspection:
        """Read the partition states of this topic."""
        with translate_errors(self._session):
            return inspect(self._session, topic)

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Read the partition states of these topics."""
        with translate_errors(self._session):
            return inspect_all(self._session, topics)

    def read_cluster_id(self) -> str:
        """Read the cluster id."""
        with translate_errors(self._session):
            return read_metadata(self._session).cluster_id

    def find_capabilities(self) -> Capabilities:
        """Return those of Apache Kafka: topiarist writes the metadata itself, as its controller reads it."""
        return APACHE_KAFKA

    def find_allowed_operations(self) -> None:
        """Return None: no broker checks what is written to ZooKeeper."""

    def read_broker_throttles(self) -> Mapping[str, Mapping[str, str]]:
        """Read the rates of throttled copies of all brokers."""
        with translate_errors(self._session):
            return read_broker_throttles(self._session)

    def find_refusals(self, plan: Plan) -> FoundRefusals:
        """Return no refusal: ZooKeeper takes what it is given."""
        return FoundRefusals({}, plan.capabilities)

    def ask_brokers(self, plan: Plan) -> Mapping[str, Sequence[Issue]]:
        """Raise ``WrongUsage``: ZooKeeper takes what it is given, and no broker is asked."""
        raise TopiaristError(
            Reason.WRONG_USAGE,
            "--ask-brokers: this cluster is reached through ZooKeeper, so no broker checks a change",
            "leave out the option, or reach the cluster through its brokers (via: Kafka)",
        )

    def clear_moves(self) -> ClearedMoves | None:
        """Put the throttles of the last batch back under the lock, and delete its record."""
        from topiarist.adapters.zookeeper.moves.batch_writer import clear_moves

        with translate_errors(self._session):
            return clear_moves(self._session, self._writer_settings)

    def set_freeze(self, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
        """Freeze the cluster, or unfreeze it if ``freeze`` is None, without the lock.

        A freeze of a user other than ``by`` is changed only with ``force``.
        """
        from topiarist.adapters.zookeeper.write.write_context import set_freeze

        with translate_errors(self._session):
            return set_freeze(self._session, freeze, by=by, force=force)

    def move_records(self, take: Callable[[ClosedRecords], T]) -> T:
        """Close the records, call ``take`` with them, and mark them as moved; return the result of ``take``."""
        from topiarist.adapters.zookeeper.write.move_records import move_records

        with translate_errors(self._session):
            return move_records(
                self._session,
                owner=self._owner,
                lock_timeout=self._lock_timeout,
                jute_max_buffer=self._jute_max_buffer,
                take=take,
            )

    def find_records(self) -> ClosedRecords:
        """Return the records that ``move_records`` would hand over now; write nothing."""
        from topiarist.adapters.zookeeper.write.move_records import find_records

        with translate_errors(self._session):
            return find_records(self._session, jute_max_buffer=self._jute_max_buffer)

    def read_left_records(self) -> LeftRecords:
        """Return what ZooKeeper holds of topiarist, for runs through the brokers."""
        from topiarist.adapters.zookeeper.write.move_records import read_left_records

        with translate_errors(self._session):
            return read_left_records(self._session)

    @property
    def _writer_settings(self) -> WriterSettings:
        from topiarist.adapters.zookeeper.moves.batch_writer import WriterSettings

        return WriterSettings(self._owner, self._lock_timeout, self._jute_max_buffer)

    def _acquire_lock(self, lock: Lock, stop: Callable[[], bool]) -> bool:
        from topiarist.adapters.zookeeper.write.write_context import (
            ensure_own_znodes,
            require_writable,
            wait_for_controller,
        )

        wait_for_controller(lambda: require_writable(read_metadata(self._session)), stop)
        return lock.acquire(ensure_own_znodes(self._session), self._lock_timeout, stop)
