"""Changes between the read and the write of a run: controllers, brokers, topics, permissions and connections.

The proxy makes each change before the server receives the write.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import (
    DESIRED_SPECS,
    FIRST_TOPIC_WRITE,
    MANY_SPECS,
    InterceptingProxy,
    apply_without_hooks,
    connect_cluster,
    create_mixed_topics,
    topics_by_result,
    verify_changes,
)
from support.spec_builders import plan_specs
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import CutTiming, Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.cluster_metadata import ClusterMetadata
from topiarist.adapters.zookeeper.write import write_context
from topiarist.adapters.zookeeper.write.transaction import TransactionTemplate
from topiarist.adapters.zookeeper.write.write_context import read_transaction_template
from topiarist.errors import Exit, Reason
from topiarist.model.outcome import Result
from topiarist.model.state import Freeze


@pytest.fixture
def meddler(zookeeper: EmbeddedZooKeeper) -> Iterator[InterceptingProxy]:
    """A proxy that calls a hook before every request."""
    between = InterceptingProxy(zookeeper.connect)
    with between:
        yield between


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lock of a run for each new read of the run's preconditions."""
    found: list[str] = []

    def look(session: Session, lock_path: str, hint: str) -> tuple[TransactionTemplate, ClusterMetadata]:
        found.append(lock_path)
        return read_transaction_template(session, lock_path, hint)

    monkeypatch.setattr(write_context, "read_transaction_template", look)
    return found


@pytest.mark.parametrize("cut", [False, True])
def test_a_gate_that_closes_in_the_middle_leaves_no_doubt(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient, looks: list[str], cut: bool
) -> None:
    """A freeze with many transactions in flight leaves each topic either done or skipped and none unknown, even if the
    answers after the first refusal are lost.
    """

    def freeze() -> None:
        wait_until(lambda: client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        client.set("/topiarist/gate", own_values.encode_freeze(Freeze("maintenance")))

    with (
        verify_changes(cluster.connect, *(spec.topic for spec in MANY_SPECS)),
        connect_cluster(proxy.through(cluster.connect)) as port,
    ):
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 40, freeze)
        if cut:
            proxy.cut(FIRST_TOPIC_WRITE + 41, CutTiming.AFTER)
        report = apply_without_hooks(port, plan)
    found = topics_by_result(report.outcomes)
    assert {result: len(names) for result, names in found.items()} == {Result.DONE: 40, Result.SKIPPED: 110}
    assert report.error is not None
    assert report.error.reason is Reason.FROZEN
    assert "maintenance" in str(report.error)
    assert report.exit_code is Exit.REFUSED
    assert sorted(write_checker.decode_topics(write_checker.read_nodes(cluster.connect))) == found[Result.DONE]
    assert len(looks) == 2


@pytest.mark.slow
def test_one_look_tells_of_a_new_controller_whatever_fell_with_the_old_one(
    cluster: SimulatedKafka, proxy: Proxy, looks: list[str]
) -> None:
    """After a failover with many transactions in flight the run reads once and sends all of them again."""

    def elect() -> None:
        wait_until(lambda: cluster.client.exists("/brokers/topics/topic-039"), "the transactions before this one")
        cluster.elect_controller(5)

    with (
        verify_changes(cluster.connect, *(spec.topic for spec in MANY_SPECS)),
        connect_cluster(proxy.through(cluster.connect)) as port,
    ):
        plan = plan_specs(port, *MANY_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE + 40, elect)
        assert topics_by_result(apply_without_hooks(port, plan).outcomes) == {
            Result.DONE: [spec.topic for spec in MANY_SPECS]
        }
    assert proxy.requests["multi"] > len(MANY_SPECS) + 1
    assert len(looks) == 2


def test_a_gate_that_goes_before_the_first_transaction_is_named(
    cluster: SimulatedKafka, proxy: Proxy, client: KazooClient
) -> None:
    """Without the freeze znode the transactions have nothing to check: none is sent."""
    create_mixed_topics(cluster)
    with connect_cluster(proxy.through(cluster.connect)) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        proxy.hold(FIRST_TOPIC_WRITE - 1, lambda: client.delete("/topiarist/gate"))
        report = apply_without_hooks(port, plan)
    assert report.error is not None
    assert report.error.reason is Reason.STATE_CONFLICT
    assert "/topiarist/gate was deleted during the run" in str(report.error)
    assert topics_by_result(report.outcomes) == {Result.SKIPPED: ["configure", "create", "grow", "same"]}
    assert proxy.requests["multi"] == 0
