"""M40: elections of preferred leaders name only partitions with a first replica that can be elected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from integration.write_fixtures import InterceptingProxy
from support.zookeeper import moves as scene
from support.zookeeper.moves import DRAINING, MovingCluster, moving_cluster, outcome_of
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.outcome import Result

pytestmark = pytest.mark.timeout(120)

ELECTION = "/admin/preferred_replica_election"
SETTINGS = MoveSettings(frozenset({MoveKind.LEADERS}), stall_after=20)
ELECTING = replace(DRAINING, moves=SETTINGS, drain_brokers=frozenset())
LISTS = ((1, 2, 3), (2, 3, 4))
SPEC = scene.topic(on=ELECTING, partitions=2, replicationFactor=3)


@pytest.fixture
def moving(zookeeper: EmbeddedZooKeeper) -> Iterator[MovingCluster]:
    """Return a cluster in which both partitions of ``orders`` have their second replica as leader."""
    with moving_cluster(zookeeper.connect, Topic("orders", LISTS, {})) as kafka:
        assert outcome_of(kafka.apply(kafka.plan(SPEC, on=ELECTING))).result is Result.DONE
        for partition, replicas in enumerate(LISTS):
            kafka.set_state(partition, leader=replicas[1])
        yield kafka


def offline(kafka: MovingCluster) -> None:
    """Stop the preferred broker of partition 0."""
    kafka.kafka.remove_broker(1)


def out_of_sync(kafka: MovingCluster) -> None:
    """Take the preferred replica of partition 0 out of the in-sync replicas."""
    kafka.set_state(0, isr=[2, 3])


def without_state(kafka: MovingCluster) -> None:
    """Delete the state of partition 0."""
    kafka.client.delete("/brokers/topics/orders/partitions/0/state")


@pytest.mark.parametrize("disturb", [offline, out_of_sync, without_state])
@pytest.mark.parametrize("moment", ["before the plan", "after the plan"])
def test_m40_a_preferred_replica_that_cannot_be_elected(
    moving: MovingCluster, meddler: InterceptingProxy, disturb: Callable[[MovingCluster], None], moment: str
) -> None:
    """The request names the other partition alone, or nothing: the controller would give the entry up silently."""
    if moment == "before the plan":
        disturb(moving)
    plan = moving.plan(SPEC, on=ELECTING)
    if moment == "after the plan":
        disturb(moving)
    named: list[int] = []
    moving.kafka.elects_leaders = False

    def may_forward(_: str) -> bool:
        if not named and moving.client.exists(ELECTION):
            named.extend(entry["partition"] for entry in json.loads(moving.client.get(ELECTION)[0])["partitions"])
            moving.kafka.elects_leaders = True
            moving.kafka.wait_idle()
        return True

    meddler.may_forward = may_forward
    report = moving.apply(plan, settings=SETTINGS, connect=meddler.through(moving.kafka.connect))
    assert 0 not in named
    assert moving.client.exists(ELECTION) is None
    for outcome in report.outcomes:
        assert outcome.result is not Result.DONE or named == [1], outcome
