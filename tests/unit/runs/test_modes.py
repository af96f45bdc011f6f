"""A saved plan belongs to one cluster, and to one way to it."""

from __future__ import annotations

import pytest

from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import Plan
from topiarist.model.state import ClusterState
from topiarist.runs.modes import require_same_cluster

PLAN = Plan("prod", "ID", "/kafka")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (ClusterState("other", (), chroot="/kafka"), "for cluster ID at /kafka, found cluster other at /kafka"),
        (ClusterState("ID", ()), "for cluster ID at /kafka, found cluster ID at /"),
        (
            ClusterState("ID", (), chroot="/kafka", bypasses_brokers=False),
            "was made via ZooKeeper, and this run reaches the cluster via Kafka",
        ),
    ],
)
def test_another_cluster_or_way_is_refused(found: ClusterState, message: str) -> None:
    """The error names both clusters, or both ways."""
    with pytest.raises(TopiaristError, match=message) as raised:
        require_same_cluster(PLAN, found)
    assert raised.value.reason is Reason.WRONG_CLUSTER


def test_the_same_cluster_is_accepted() -> None:
    """The state of the cluster and a new plan of it are both accepted."""
    require_same_cluster(PLAN, ClusterState("ID", (), chroot="/kafka"))
    require_same_cluster(PLAN, PLAN)
