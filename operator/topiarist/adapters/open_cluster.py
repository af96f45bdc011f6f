"""Opens the cluster of a ``ClusterSpec``, or its brokers for the usage of topics.

The one place that chooses an adapter, and imports only that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import LeftRecords
from topiarist.ports import OpenCluster, UsageReader, drop_notice

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
        case ZooKeeperAccess(connect, jute_max_buffer, credentials):
            from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster

            return ZooKeeperCluster(
                connect,
                owner=owner,
                jute_max_buffer=jute_max_buffer,
                connect_timeout=connect_timeout,
                lock_timeout=lock_timeout,
                credentials=credentials,
            )
        case KafkaAccess() as access:
            open_session = load_kafka_cluster()
            return open_session(
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

        credentials = zookeeper.credentials
        with ZooKeeperCluster(
            zookeeper.connect, owner=owner, connect_timeout=timeout, credentials=credentials
        ) as cluster:
            return cluster.read_left_records()

    return read


def load_kafka_cluster() -> type[KafkaCluster]:
    """Return ``KafkaCluster``, which is imported only here."""
    from topiarist.adapters.kafka_admin.cluster import KafkaCluster

    return KafkaCluster
