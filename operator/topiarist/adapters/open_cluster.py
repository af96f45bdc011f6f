"""Opens the cluster of a ``ClusterSpec``, or its brokers for the usage of topics, and moves records between both ways.

The one place that chooses an adapter, and imports only that one.

``RecordsMove`` moves the records of a cluster from ZooKeeper to the topic of records. Everything that can fail is
tried before ZooKeeper is closed: both cluster ids, the records themselves, and one commit on the topic of records. A
move that fails later leaves ZooKeeper closed, and the next call continues it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClosedRecords, LeftRecords, MovedRecords, is_closed_by_move
from topiarist.ports import Closable, OpenCluster, UsageReader, drop_notice
from topiarist.reconcile import require_cluster_id

if TYPE_CHECKING:
    from topiarist.adapters.kafka_admin.cluster import KafkaCluster

ZOOKEEPER_TIMEOUT_S = 5.0
"""Seconds that a run through the brokers waits for ZooKeeper, which it only asks about records that were not moved."""


def open_cluster(
    spec: ClusterSpec,
    *,
    owner: str,
    connect_timeout: float = 10.0,
    lock_timeout: float = 60.0,
    on_notice: Callable[[str], None] = drop_notice,
) -> OpenCluster:
    """Open a session with the cluster at ``spec.access``.

    ``owner`` is stored in the lock; the timeouts are in seconds. ``on_notice`` receives what the brokers did otherwise
    than asked for with the topic of records; a caller that writes shows it. Raises ``Unreachable`` if no server answers
    in time, ``CredentialsInvalid`` and ``AuthenticationFailed`` if the login fails.
    """
    match spec.access:
        case ZooKeeperAccess() as access:
            from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster

            return ZooKeeperCluster(access, owner=owner, connect_timeout=connect_timeout, lock_timeout=lock_timeout)
        case KafkaAccess() as access:
            return load_kafka_cluster()(
                access,
                owner=owner,
                connect_timeout=connect_timeout,
                lock_timeout=lock_timeout,
                read_left_records=_make_left_records_reader(spec, owner, min(connect_timeout, ZOOKEEPER_TIMEOUT_S)),
                on_notice=on_notice,
            )
        case None:
            raise TopiaristError(Reason.INVALID_MANIFEST, f"Cluster {spec.name}: it has no address")


def open_usage_reader(spec: ClusterSpec, *, connect_timeout: float = 10.0) -> UsageReader | None:
    """Open a session that reads the usage of topics from the brokers at ``spec.kafka``; None without their address.

    A cluster that is read through ZooKeeper needs the address of its brokers too. Raises what ``open_cluster`` raises.
    """
    access = spec.kafka
    if access is None or not access.bootstrap_servers:
        return None
    from topiarist.adapters.kafka_admin.usage.reader import KafkaUsageReader

    return KafkaUsageReader(access, connect_timeout)


def _make_left_records_reader(spec: ClusterSpec, owner: str, timeout: float) -> Callable[[], LeftRecords] | None:
    """Return a function that reads what ZooKeeper holds of topiarist; None if its address is not known."""
    zookeeper = spec.zookeeper
    if zookeeper is None or not zookeeper.connect:
        return None

    def read() -> LeftRecords:
        from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster

        with ZooKeeperCluster(zookeeper, owner=owner, connect_timeout=timeout) as cluster:
            return cluster.read_left_records()

    return read


def load_kafka_cluster() -> type[KafkaCluster]:
    """Return ``KafkaCluster``, which is imported only here."""
    from topiarist.adapters.kafka_admin.cluster import KafkaCluster

    return KafkaCluster


HINT_CONTINUE = "run topiarist move-records again: until it ends, runs of either way are refused"

_HARMLESS_BLOCKS = (Reason.FROZEN, Reason.RECORDS_NOT_MOVED, Reason.MOVED_BACK)
"""Write blocks that a move keeps or ends. Under all others Kafka itself takes no records."""


class MovePreview(NamedTuple):
    """The records that a move would take, and its result; ``is_begun`` if an earlier move has closed ZooKeeper."""

    records: ClosedRecords
    result: MovedRecords
    is_begun: bool


class RecordsMove(Closable):
    """The sessions of the move of one cluster, by both of its sections. Use as a context manager.

    The timeouts are in seconds. Raises the errors of both adapters.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        owner: str,
        connect_timeout: float = 10.0,
        lock_timeout: float,
        on_notice: Callable[[str], None],
    ) -> None:
        if spec.zookeeper is None or spec.kafka is None:
            raise ValueError("both sections are needed")
        from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster

        self._cluster_id = spec.cluster_id
        self._zookeeper = ZooKeeperCluster(
            spec.zookeeper, owner=owner, connect_timeout=connect_timeout, lock_timeout=lock_timeout
        )
        try:
            self._kafka = load_kafka_cluster()(
                spec.kafka,
                owner=owner,
                connect_timeout=connect_timeout,
                lock_timeout=lock_timeout,
                on_notice=on_notice,
            )
        except BaseException:
            self._zookeeper.close()
            raise

    def close(self) -> None:
        """End both sessions."""
        try:
            self._kafka.close()
        finally:
            self._zookeeper.close()

    def preview(self) -> MovePreview:
        """Return what ``execute`` would move now; write nothing.

        Raises ``TopiaristError``, for example ``WrongCluster`` if the two sections lead to different clusters.
        """
        records = self._zookeeper.find_records()
        require_cluster_id(self._cluster_id, records.cluster_id)
        result = self._kafka.check_moved_records(records)
        block = self._kafka.read().write_block
        if block.reason and block.reason not in _HARMLESS_BLOCKS:
            raise TopiaristError(block.reason, block.message, "nothing was written")
        return MovePreview(records, result, is_closed_by_move(self._zookeeper.read_left_records().freeze))

    def execute(self) -> MovedRecords:
        """Close ZooKeeper, write its records to the topic of records, and mark them as moved.

        A repeated call continues a move that ended early, and writes nothing after one that did not.
        """
        self.preview()
        self._kafka.prepare_records()
        try:
            return self._zookeeper.move_records(self._kafka.take_records)
        except TopiaristError as error:
            if self._is_begun():
                error.hint = f"{error.hint}; {HINT_CONTINUE}" if error.hint else HINT_CONTINUE
            raise

    def _is_begun(self) -> bool:
        try:
            return is_closed_by_move(self._zookeeper.read_left_records().freeze)
        except TopiaristError:
            return False
