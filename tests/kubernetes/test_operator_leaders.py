"""F32: two operators for one namespace. Only one works; one that slept for too long writes nothing and ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import BROKERS
from integration.scene import Meddler
from kubernetes.scene import PATIENCE, Scene
from kubernetes.stage import granted
from support import checker, forks
from support.clients import connected
from support.kube import ApiServer
from support.kuberelay import ApiRelay
from support.opcodes import WRITES
from support.operatorforks import ForkedOperator
from support.waiting import wait_until
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.adapters.playground import Playground

NAMES = ("a", "b", "c", "d")
WAITING = "waiting for the Lease"


class Replica:
    """One of two operators, with a way of its own to the API server, on which its writes are seen."""

    def __init__(self, stack: ExitStack, server: ApiServer, namespace: str, token: str, said: Path) -> None:
        self.relay = stack.enter_context(ApiRelay(server))
        words = ("--namespace", namespace, "--watch-namespace", namespace, "--leader-election", "--period", "1")
        self.operator = ForkedOperator(self.relay.api(token, namespace).kubeconfig, said, *words)
        stack.callback(self.operator.kill)

    def start(self) -> None:
        """Begin, and wait until it leads or stands by."""
        self.operator.start()
        self.operator.until_ready()


class Pair:
    """Two replicas on one scene: the first leads, the second stands by."""

    def __init__(self, scene: Scene, proxy: Meddler, first: Replica, second: Replica) -> None:
        self.scene = scene
        self.proxy = proxy
        self.first = first
        self.second = second

    @property
    def lease(self) -> Any:
        """The Lease as it stands."""
        where = f"/apis/coordination.k8s.io/v1/namespaces/{self.scene.namespace}/leases/topiarist"
        return self.scene.api.call("GET", where).body["spec"]

    def declare(self, *names: str) -> None:
        """Declare topics at once, before anybody can have seen the first."""
        for name in names:
            self.scene.topic(name)


@pytest.fixture
def pair(server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Pair]:
    """Both are there, and have done what there is to do: one topic."""
    token = granted(server, namespace, "--watch-namespace", namespace, "--leader-election")
    with EmbeddedZooKeeper() as zookeeper, ExitStack() as stack:
        connect = f"{zookeeper.connect}/kafka"
        kafka = stack.enter_context(Playground(connect, BROKERS))
        client = stack.enter_context(connected(connect))
        proxy = stack.enter_context(Meddler(zookeeper.connect))
        scene = Scene(server.api("admin", namespace), namespace, kafka, client)
        scene.cluster(zookeeper={"connect": proxy.through(connect)})
        first, second = (Replica(stack, server, namespace, token, tmp_path / name) for name in ("first", "second"))
        scene.topic("before")
        first.start()
        scene.until_ready("before")
        second.start()
        wait_until(lambda: second.operator.heard(WAITING), "the second stands by")
        yield Pair(scene, proxy, first, second)
        assert kafka.faults == []
        for each in (first, second):
            assert "Traceback" not in each.operator.log, each.operator.log


def test_f32_a_leader_that_slept_writes_nothing(pair: Pair) -> None:
    """A leader is stopped in the middle of an apply, for longer than its Lease and its session last. The other takes
    over and finishes; the first wakes up, sends nothing more to ZooKeeper or the API server, and ends.
    """
    scene, first, second = pair.scene, pair.first, pair.second
    assert second.relay.writes == []
    asleep, sent = list[str](), list[str]()

    def doze(kind: str) -> bool:
        """Stop the first before its second transaction goes on."""
        if asleep:
            return True
        sent.append(kind)
        if sent.count("multi") == 2:
            first.operator.send(signal.SIGSTOP)
            asleep.append(kind)
            return False
        return True

    pair.proxy.before = doze
    pair.declare(*NAMES)
    wait_until(lambda: asleep, "the leader is in the middle of an apply", patience=PATIENCE)
    scene.until_ready(*NAMES)
    tree, before = checker.look(scene.kafka.connect), len(first.relay.writes)
    scene.until_ready("before", *NAMES)
    writes = sum(pair.proxy.requests[name] for name in WRITES)
    first.operator.send(signal.SIGCONT)
    assert forks.ended(first.operator.process) == 1, first.operator.log
    assert first.operator.heard("the Lease is lost: another replica may be at work, this one ends")
    assert sum(pair.proxy.requests[name] for name in WRITES) == writes
    assert first.relay.writes[before:] == []
    assert checker.problems(tree, checker.look(scene.kafka.connect), ()) == []
    assert all(tree[f"/topiarist/topics/{name}"].version == 0 for name in NAMES)
    assert all(scene.events(name).count("TopicCreated") <= 1 for name in NAMES)


def test_f32_a_leader_that_is_asked_to_end_hands_over(pair: Pair) -> None:
    """A leader that is asked to end gives its Lease up, so nobody has to wait for its end; the other works on."""
    held = pair.lease
    pair.first.operator.end()
    wait_until(lambda: pair.lease["holderIdentity"] not in ("", held["holderIdentity"]), "it is the other's")
    assert pair.lease["leaseTransitions"] == held["leaseTransitions"] + 1
    pair.declare("after")
    pair.scene.until_ready("before", "after")
    pair.second.operator.end()
    assert pair.lease["holderIdentity"] == ""
