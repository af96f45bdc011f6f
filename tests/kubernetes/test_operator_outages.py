"""F32: the API server is away, ZooKeeper is away, a watch has a gap: nothing is lost, and all is caught up with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from kubernetes.resources import cluster
from kubernetes.scene import PATIENCE, Scene
from kubernetes.stage import Stage, condition, total, well
from support.gate import Gate
from support.kubeapi import Api, Site
from support.kuberelay import ApiRelay, Event
from support.operatorforks import ForkedOperator
from support.proxy import Proxy, When
from support.waiting import wait_until
from topiarist.adapters import znodes

UNWRITTEN = "could not be written: no answer from the API server"
EARLY = "a pass has ended early"


class Cut(NamedTuple):
    """A scene whose operator has lost the API server."""

    scene: Scene
    gate: Gate
    operator: ForkedOperator

    def settle(self) -> None:
        """Make topics, one of which goes with its resource."""
        self.scene.cluster(allowDeletion=True, driftPolicy="Correct")
        self.scene.topic("orders", config={"flush.ms": 7})
        self.scene.topic("leave", deletionPolicy="Delete")
        self.scene.until_ready("orders", "leave")
        wait_until(lambda: "finalizers" in self.scene.found("leave")["metadata"], "a finalizer", patience=PATIENCE)

    def meanwhile(self) -> None:
        """What happens while it is away, on both sides."""
        self.scene.topic("later")
        self.scene.delete("leave")
        self.scene.client.set("/config/topics/orders", znodes.encode_config({"flush.ms": "9"}))

    def goes_on(self) -> None:
        """What the operator knows it still does; that it cannot tell is said, and no reason to end."""
        mended = lambda: self.scene.config("orders")["flush.ms"] == "7"  # noqa: E731
        wait_until(mended, "the value is back", patience=PATIENCE)
        wait_until(lambda: UNWRITTEN in self.operator.log, "its request has been given up", patience=PATIENCE)
        assert self.scene.partitions("later") == 0
        assert self.scene.partitions("leave") == 3
        well(self.operator)

    def catches_up(self) -> None:
        """By itself."""
        self.scene.until_ready("orders", "later")
        wait_until(lambda: not self.scene.found("leave"), "the resource has gone", patience=PATIENCE)
        assert self.scene.partitions("leave") == 0
        well(self.operator)


def test_f32_the_api_server_is_away(stage: Stage, namespace: str) -> None:
    """Once with a bang, once in silence, for longer than any request waits (30 s): it is given up, not waited for."""
    cuts = []
    for way in ("bang", "silence"):
        gate = stage.stack.enter_context(Gate(("127.0.0.1", int(stage.server.url.rpartition(":")[2]))))
        scene = stage.scene(f"{namespace}-{way}")
        site = Site(f"https://127.0.0.1:{gate.port}", stage.server.ca, stage.server.folder / "bin" / "kubectl")
        api = Api(site, stage.token, stage.folder / f"kubeconfig-{way}", scene.namespace)
        cuts.append(Cut(scene, gate, stage.operator(scene.namespace, api)))
    for cut in cuts:
        cut.settle()
    cuts[0].gate.shut()
    cuts[1].gate.hush()
    for cut in cuts:
        cut.meanwhile()
    for cut in reversed(cuts):
        cut.goes_on()
    for cut in cuts:
        cut.gate.open()
    for cut in cuts:
        cut.catches_up()


def test_f32_zookeeper_is_away(stage: Stage, namespace: str) -> None:
    """While there is nothing to do, and in the middle of an apply: what is known stays, what is asked for waits and
    says so, the cluster says it once, and another cluster goes on.
    """
    proxy = stage.stack.enter_context(Proxy(stage.zookeeper.connect))
    scene, others = stage.scene(namespace), stage.scene(namespace, f"{namespace}-other")
    scene.cluster(zookeeper={"connect": proxy.through(scene.kafka.connect)})
    scene.apply(cluster("other", zookeeper={"connect": others.kafka.connect}, kafkaVersion="3.9"))
    operator = stage.operator(namespace, stage.direct(namespace))
    for name in ("orders", "clicks"):
        scene.topic(name, clusters=["prod"])
    scene.until_ready("orders", "clicks")
    version = scene.found("orders")["metadata"]["resourceVersion"]

    def away(number: int) -> None:
        """Nobody gets in: see what is said, more than once."""
        gone = ("False", "Unreachable")
        wait_until(lambda: condition(scene, "prod") == gone, "the Cluster says so", patience=PATIENCE)
        failures = len(operator.heard(EARLY)) + 2
        scene.topic("clicks", clusters=["prod"], config={"flush.ms": number})
        scene.until("clicks", Reconciling=("True", "Unreachable"))
        scene.topic(f"other-{number}", clusters=["other"])
        scene.until_ready(f"other-{number}")
        wait_until(lambda: len(operator.heard(EARLY)) >= failures, "it has tried again", patience=PATIENCE)
        assert scene.found("orders")["metadata"]["resourceVersion"] == version
        assert scene.events("prod").count("ZooKeeperUnavailable") == number
        assert condition(scene, "other") == ("True", "Reachable")
        well(operator)

    def back(number: int) -> None:
        """Everybody gets in again."""
        proxy.reset()
        scene.until_ready("orders", "clicks")
        assert scene.config("clicks") == {"flush.ms": str(number)}
        wait_until(lambda: scene.events("prod").count("Reachable") == number, "an Event", patience=PATIENCE)
        assert scene.found("orders")["metadata"]["resourceVersion"] == version

    proxy.refusing = True
    proxy.drop()
    away(1)
    back(1)
    proxy.reset()
    proxy.cut(2, When.AFTER, refuse=True)
    scene.topic("late", clusters=["prod"])
    wait_until(proxy.fired.is_set, "an apply is broken", patience=PATIENCE)
    away(2)
    back(2)
    scene.until_ready("late")
    assert scene.client.get("/topiarist/topics/late")[1].version == 0


def test_f32_a_watch_misses_something(stage: Stage, namespace: str) -> None:
    """A deletion of which no event comes is seen by listing; an event that comes late brings nothing back."""
    relay = stage.stack.enter_context(ApiRelay(stage.server))
    scene = stage.scene(namespace)
    operator = stage.operator(namespace, relay.api(stage.token, namespace), "--relist", "2")
    scene.cluster(allowDeletion=True)
    for name, policy in (("gone", "Retain"), ("leave", "Delete"), ("late", "Retain")):
        scene.topic(name, deletionPolicy=policy)
    scene.until_ready("gone", "leave", "late")
    wait_until(lambda: "finalizers" in scene.found("leave")["metadata"], "a finalizer", patience=PATIENCE)
    wait_until(lambda: total(scene) == 3, "all are counted", patience=PATIENCE)
    held, release = threading.Event(), threading.Event()
    relay.watched = gap(held, release)
    scene.delete("gone")
    scene.delete("leave")
    wait_until(lambda: not scene.found("leave"), "a finalizer has gone", patience=PATIENCE)
    wait_until(lambda: total(scene) == 1, "both are missed", patience=PATIENCE)
    scene.topic("late", config={"flush.ms": 9})
    wait_until(held.is_set, "an event is held up", patience=PATIENCE)
    scene.delete("late")
    wait_until(lambda: total(scene) == 0, "it is missed", patience=PATIENCE)
    release.set()
    scene.topic("after")  # its event comes after the late one
    scene.until_ready("after")
    wait_until(lambda: total(scene) == 1, "it is counted", patience=PATIENCE)
    assert {name: scene.partitions(name) for name in ("gone", "leave", "late")} == {"gone": 3, "leave": 0, "late": 3}
    well(operator)


def gap(held: threading.Event, release: threading.Event) -> Callable[[Event], bool]:
    """Lose all events about Topics of these names, but for one, which comes late."""

    def watched(event: Event) -> bool:
        metadata = event["object"]["metadata"]
        if metadata.get("name") == "late" and event["type"] == "MODIFIED" and metadata["generation"] == 2:
            held.set()
            return release.wait(PATIENCE)
        return metadata.get("name") not in ("gone", "leave", "late")

    return watched
