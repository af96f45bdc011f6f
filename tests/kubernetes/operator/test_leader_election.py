"""F32: two operators for one namespace.

Only one operator works. An operator that was suspended too long writes nothing and ends.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import BROKERS
from integration.write_fixtures import InterceptingProxy
from kubernetes.fixtures.fault_fixture import grant_token
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from support.cli import forked_runs
from support.kubernetes.forked_operators import ForkedOperator
from support.kubernetes.relay import ApiRelay
from support.kubernetes.server import ApiServer
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.client import connect_client
from support.zookeeper.opcodes import WRITES
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

NAMES = ("a", "b", "c", "d")
WAITING = "waiting for the Lease"


class Replica:
    """One of two operators, with its own relay to the API server, which records its writes."""

    def __init__(self, stack: ExitStack, server: ApiServer, namespace: str, token: str, said: Path) -> None:
        self.relay = stack.enter_context(ApiRelay(server))
        words = ("--namespace", namespace, "--watch-namespace", namespace, "--leader-election", "--period", "1")
        self.operator = ForkedOperator(self.relay.api(token, namespace).kubeconfig, said, *words)
        stack.callback(self.operator.kill)

    def start(self) -> None:
        """Start the operator, and wait until it leads or waits for the Lease."""
        self.operator.start()
        self.operator.wait_until_ready()


class Pair:
    """Two replicas for one cluster: the first leads, the second waits for the Lease."""

    def __init__(self, scene: OperatorFixture, proxy: InterceptingProxy, first: Replica, second: Replica) -> None:
        self.scene = scene
        self.proxy = proxy
        self.first = first
        self.second = second

    @property
    def lease(self) -> Any:
        """Return the spec of the Lease."""
        where = f"/apis/coordination.k8s.io/v1/namespaces/{self.scene.namespace}/leases/topiarist"
        return self.scene.api.call("GET", where).body["spec"]

    def declare(self, *names: str) -> None:
        """Declare topics in quick succession, before the operator can read the first."""
        for name in names:
            self.scene.declare_topic(name)


@pytest.fixture
def pair(server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Pair]:
    """Start both replicas, and wait until the first has created one topic."""
    token = grant_token(server, namespace, "--watch-namespace", namespace, "--leader-election")
    with EmbeddedZooKeeper() as zookeeper, ExitStack() as stack:
        connect = f"{zookeeper.connect}/kafka"
        kafka = stack.enter_context(SimulatedKafka(connect, BROKERS))
        client = stack.enter_context(connect_client(connect))
        proxy = stack.enter_context(InterceptingProxy(zookeeper.connect))
        scene = OperatorFixture(server.api("admin", namespace), namespace, kafka, client)
        scene.declare_cluster(zookeeper={"connect": proxy.through(connect)})
        first, second = (Replica(stack, server, namespace, token, tmp_path / name) for name in ("first", "second"))
        scene.declare_topic("before")
        first.start()
        scene.wait_until_ready("before")
        second.start()
        wait_until(lambda: second.operator.log_entries(WAITING), "the second stands by")
        yield Pair(scene, proxy, first, second)
        assert kafka.controller_errors == []
        for each in (first, second):
            assert "Traceback" not in each.operator.log, each.operator.log


def test_f32_a_leader_that_slept_writes_nothing(pair: Pair) -> None:
    """A leader is suspended during an apply, for longer than its Lease and its session. The other replica takes over
    and finishes; the first resumes, sends nothing more to ZooKeeper or the API server, and ends.
    """
    scene, first, second = pair.scene, pair.first, pair.second
    assert second.relay.writes == []
    asleep, sent = list[str](), list[str]()

    def doze(kind: str) -> bool:
        """Suspend the first operator before its second transaction is forwarded."""
        if asleep:
            return True
        sent.append(kind)
        if sent.count("multi") == 2:
            first.operator.send(signal.SIGSTOP)
            asleep.append(kind)
            return False
        return True

    pair.proxy.may_forward = doze
    pair.declare(*NAMES)
    wait_until(lambda: asleep, "the leader is in the middle of an apply", timeout=OPERATOR_TIMEOUT_S)
    scene.wait_until_ready(*NAMES)
    tree, before = write_checker.read_nodes(scene.kafka.connect), len(first.relay.writes)
    scene.wait_until_ready("before", *NAMES)
    writes = sum(pair.proxy.requests[name] for name in WRITES)
    first.operator.send(signal.SIGCONT)
    assert forked_runs.wait_for_exit_code(first.operator.process) == 1, first.operator.log
    assert first.operator.log_entries("the Lease is lost: another replica may be active, this process ends")
    assert sum(pair.proxy.requests[name] for name in WRITES) == writes
    assert first.relay.writes[before:] == []
    assert write_checker.find_problems(tree, write_checker.read_nodes(scene.kafka.connect), ()) == []
    assert all(tree[f"/topiarist/topics/{name}"].version == 0 for name in NAMES)
    assert all(scene.event_reasons(name).count("TopicCreated") <= 1 for name in NAMES)


def test_f32_a_leader_that_is_asked_to_end_hands_over(pair: Pair) -> None:
    """A leader that gets SIGTERM releases its Lease, so the other replica takes over without waiting."""
    held = pair.lease
    pair.first.operator.terminate()
    wait_until(lambda: pair.lease["holderIdentity"] not in ("", held["holderIdentity"]), "it is the other's")
    assert pair.lease["leaseTransitions"] == held["leaseTransitions"] + 1
    pair.declare("after")
    pair.scene.wait_until_ready("before", "after")
    pair.second.operator.terminate()
    assert pair.lease["holderIdentity"] == ""
