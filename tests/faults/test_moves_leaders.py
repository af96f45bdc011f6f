"""M40: a preferred replica that cannot be elected, before the plan, after it, and at the moment of the write."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum

import pytest

from integration.write_fixtures import connect_cluster
from support.builders import spec
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.errors import Reason
from topiarist.model.moves import MoveKind, MoveSettings
from topiarist.model.outcome import Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.ports import MoveOptions
from topiarist.reconcile import apply_plan, read_and_plan

REQUEST = "/admin/preferred_replica_election"
ELECTING = ClusterSpec("prod", version=(3, 9), moves=MoveSettings(frozenset({MoveKind.LEADERS})))
LISTS = ((1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 6))
OTHERS = [1, 2, 3]
REQUEST_WRITE = 2
"""The write of a run that requests the election; the first one takes the lock."""


class Moment(Enum):
    """The moment at which the replica can no longer be elected."""

    BEFORE_PLAN = "before the plan"
    AFTER_PLAN = "after the plan"
    DURING_WRITE = "during the write"


def _state_path(partition: int) -> str:
    return f"/brokers/topics/orders/partitions/{partition}/state"


def _set_state(kafka: SimulatedKafka, partition: int, **fields: object) -> None:
    state = json.loads(kafka.client.get(_state_path(partition))[0])
    kafka.client.set(_state_path(partition), json.dumps({**state, **fields}).encode())


CAUSES: dict[str, tuple[Callable[[SimulatedKafka], None], str]] = {
    "offline": (
        lambda kafka: kafka.remove_broker(1),
        "broker 1, the first replica of partition 0, is not registered",
    ),
    "not in sync": (
        lambda kafka: _set_state(kafka, 0, isr=[2, 3]),
        "broker 1, the first replica of partition 0, is not in sync",
    ),
    "without state": (
        lambda kafka: kafka.client.delete(_state_path(0)),
        "partition 0 has no state: the controller has not initialized it",
    ),
}


def _plan(kafka: SimulatedKafka) -> Plan:
    wanted = spec("orders", ELECTING, partitions=len(LISTS), replicationFactor=3)
    with connect_cluster(kafka.connect) as cluster:
        return read_and_plan(cluster, ELECTING, [wanted], RunOptions())


@pytest.fixture
def failed_over(cluster: SimulatedKafka) -> SimulatedKafka:
    """A cluster with an owned topic that the second replica of each partition leads; nothing is elected yet."""
    cluster.add_topics(Topic("orders", LISTS, {}))
    with connect_cluster(cluster.connect) as port:
        assert apply_plan(port, _plan(cluster), stop=lambda: False).outcomes[0].result is Result.DONE
    cluster.elects_leaders = False
    for partition, replicas in enumerate(LISTS):
        _set_state(cluster, partition, leader=replicas[1])
    return cluster


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize(("fail", "cause"), CAUSES.values(), ids=CAUSES.keys())
def test_m40_a_replica_that_cannot_be_elected_is_not_listed(
    failed_over: SimulatedKafka, proxy: Proxy, fail: Callable[[SimulatedKafka], None], cause: str, moment: Moment
) -> None:
    """The request names the other partitions alone, the cause is given, and the controller reports no error."""
    if moment is Moment.BEFORE_PLAN:
        fail(failed_over)
    plan = _plan(failed_over)
    (planned,) = plan.topics
    if moment is Moment.BEFORE_PLAN:
        assert [each.partition for each in planned.elections()] == OTHERS
        assert planned.notices[-1].message.endswith(cause)
    elif moment is Moment.AFTER_PLAN:
        fail(failed_over)
    else:
        proxy.hold(REQUEST_WRITE, lambda: fail(failed_over))
    with connect_cluster(proxy.through(failed_over.connect)) as port:
        options = MoveOptions(ELECTING.moves, wait=False)
        (outcome,) = apply_plan(port, plan, stop=lambda: False, move_options=options).outcomes
    assert proxy.triggered.is_set() == (moment is Moment.DURING_WRITE)
    assert (outcome.result, outcome.reason) == (Result.PENDING, Reason.NOT_ELECTED)
    assert (cause in outcome.message) == (moment is not Moment.BEFORE_PLAN)
    request = json.loads(failed_over.client.get(REQUEST)[0])
    assert [entry["partition"] for entry in request["partitions"]] == OTHERS
    failed_over.elects_leaders = True
    failed_over.run_and_wait(failed_over.process_election_request)
    leaders = [json.loads(failed_over.client.get(_state_path(each))[0])["leader"] for each in OTHERS]
    assert leaders == [LISTS[each][0] for each in OTHERS]
    assert failed_over.client.exists(REQUEST) is None
