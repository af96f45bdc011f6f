"""Opens the cluster of a ``ClusterSpec``: the one place that chooses the adapter."""

from __future__ import annotations

from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.model.spec import ClusterSpec
from topiarist.ports import OpenCluster


def open_cluster(
    spec: ClusterSpec, *, owner: str, connect_timeout: float = 10.0, lock_timeout: float = 60.0
) -> OpenCluster:
    """Open a session with the cluster at ``spec.connect``.

    ``owner`` is stored in the lock; the timeouts are in seconds. Raises ``Unreachable`` if no server answers in time,
    ``CredentialsInvalid`` and ``AuthenticationFailed`` if the login fails.
    """
    return ZooKeeperCluster(
        spec.connect,
        owner=owner,
        jute_max_buffer=spec.jute_max_buffer,
        connect_timeout=connect_timeout,
        lock_timeout=lock_timeout,
        credentials=spec.credentials,
    )
